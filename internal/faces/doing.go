package faces

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/callsummary"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/screen"
)

// Doing is what an agent does, in words, as its events tell.
type Doing struct {
	Words   string    // empty while it does nothing
	Since   time.Time // when it began to do that
	Model   string    // that was asked or has answered last
	Context pygent.ContextUse

	starting bool // the container takes its time to start
}

// Is says what is done since a time, unless that is done already.
func (d *Doing) Is(words string, since time.Time) {
	if words != d.Words {
		d.Words, d.Since = words, since
	}
}

// Starting says whether the runtime does what an event of it says: the container takes its
// time to start.
func (d *Doing) Starting(r *pygent.RuntimeEvent) {
	if r != nil && IsOfStart(r.Kind) {
		d.starting = r.Kind == pygent.RuntimeStarting
	}
}

// Note follows what the agent does by its events.
func (d *Doing) Note(e pygent.Event) {
	words := ""
	switch e.Type {
	case pygent.EventModelStart:
		d.Model = e.Model
		words = "Waiting for " + cmp.Or(OneLine(e.Model), "the model")
		if e.Attempt > 1 {
			words += fmt.Sprintf(" (attempt %d)", e.Attempt)
		}
	case pygent.EventReasoning:
		words = "Thinking"
	case pygent.EventText:
		words = "Writing"
	case pygent.EventCallDelta:
		words = writing(*e.CallDelta)
		if strings.HasPrefix(d.Words, "Writing ") {
			d.Words = words // the same call goes on
		}
	case pygent.EventMessage, pygent.EventCompacted, pygent.EventRestored:
		d.Model = cmp.Or(e.Model, d.Model)
		d.Context = e.Context
	case pygent.EventSettings:
		d.Model = cmp.Or(e.Settings.Model, e.Settings.DefaultModel, d.Model)
	case pygent.EventToolStart:
		words = Running(e.Call.Name)
	case pygent.EventApproval:
		words = "Waiting for your approval"
	case pygent.EventQuestion:
		words = "Waiting for your answer"
	case pygent.EventRetry:
		words = "Retrying"
		if e.Retry.Wait > 0 {
			words = "Waiting to retry, for " + numeral.Took(e.Retry.Wait)
		}
	case pygent.EventCompacting:
		words = "Summarising the conversation"
	case pygent.EventKeeping:
		words = callsummary.UpperFirst(e.Text)
		if strings.HasPrefix(d.Words, callsummary.UpperFirst(e.Progress.Text)) {
			d.Words = words // the same checkpoint goes on
		}
	case pygent.EventRuntime:
		d.Starting(e.Runtime)
	}
	if words != "" {
		d.Is(words, e.Time)
	}
}

// runs begins the words about a tool or a command, which may need the container.
const runs = "Running "

// Running says that a tool works.
func Running(tool string) string {
	if tool == "bash" {
		return runs + "a command"
	}
	return runs + OneLine(tool)
}

// WithStart adds to words, such as those of what the agent does, that the container has to
// start first, if it is starting and what goes on may need it.
func (d *Doing) WithStart(words string) string {
	if d.starting && strings.HasPrefix(words, runs) {
		return words + " · the container is starting"
	}
	return words
}

// writing says how far a call is that the model writes.
func writing(c chat.CallDelta) string {
	what := cmp.Or(OneLine(c.Path), OneLine(c.Tool), "a call")
	const worthSaying = 1000
	if c.Bytes < worthSaying {
		return "Writing " + what
	}
	return fmt.Sprintf("Writing %s (%s so far)", what, numeral.Bytes(int64(c.Bytes)))
}

// OneLine returns a text of others in a line of at most a kilobyte, with control characters
// made visible.
func OneLine(text string) string {
	const longest = 1 << 10
	return screen.Visible(strings.Join(strings.Fields(cut.Head(text, longest)), " "))
}
