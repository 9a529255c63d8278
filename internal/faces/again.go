package faces

import (
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/numeral"
)

// Again says, after why an attempt failed, when the next one follows, and for how long or
// how often that goes on. took writes a length of time. It is empty where there is no pause.
func Again(r pygent.RetryInfo, took func(time.Duration) string) string {
	switch {
	case r.Wait <= 0:
		return ""
	case r.Tries == 1:
		return "; trying again in " + took(r.Wait) + ", for the last time"
	case r.Tries > 1:
		return "; trying again in " + took(r.Wait) + ", " + numeral.Count(r.Tries, "time") + " at most"
	case r.Left > 0:
		return "; trying again in " + took(r.Wait) + ", for another " + took(r.Left)
	}
	return "; trying again in " + took(r.Wait)
}
