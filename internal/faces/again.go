package faces

import (
	"github.com/x/pygent"
	"github.com/x/pygent/internal/numeral"
)

// Again says, after why an attempt failed, when the next one follows, and for how long or
// how often that goes on. It is empty where there is no pause.
func Again(r pygent.RetryInfo) string {
	switch {
	case r.Wait <= 0:
		return ""
	case r.Tries == 1:
		return "; retrying in " + numeral.Took(r.Wait) + ", for the last time"
	case r.Tries > 1:
		return "; retrying in " + numeral.Took(r.Wait) + ", " + numeral.Count(r.Tries, "time") + " at most"
	case r.Left > 0:
		return "; retrying in " + numeral.Took(r.Wait) + ", for another " + numeral.Took(r.Left)
	}
	return "; retrying in " + numeral.Took(r.Wait)
}
