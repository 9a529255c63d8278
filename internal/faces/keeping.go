package faces

import (
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/callsummary"
)

// Keeping says what a turn waits for, of a [pygent.EventKeeping]. again reports that the
// words before said so of an earlier one.
func Keeping(e pygent.Event, before string) (words string, again bool) {
	return callsummary.UpperFirst(e.Text), strings.HasPrefix(before, callsummary.UpperFirst(e.Progress.Text))
}
