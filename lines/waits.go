package lines

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/console"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/screen"
)

// ProgressPrinter is [EventPrinter] for somebody who waits: where a model, a command or a
// checkpoint takes its time, show also writes a line about that after ten seconds, half a
// minute, a minute, and from then on each minute. These lines come from a timer, so w is
// written to at any time until the end of the run was shown, or end returns. end has to be
// called where show may not get all events of a run, such as after a loop over
// [pygent.Agent.Events] that is left. It can be called more than once.
func ProgressPrinter(w io.Writer) (show func(pygent.Event), end func()) {
	to := console.NewPrinter(w)
	printed, told := eventPrinter(to), newWaits(to)
	return func(e pygent.Event) {
		printed(e)
		told.note(e)
	}, told.end
}

// waits tells now and then what a run waits for, by its events.
type waits struct {
	to *console.Printer

	mu    sync.Mutex // guards what follows; held while a line is written, so that none comes after the end
	ended bool
	inRun bool        // whether a run goes on, or a command of the user's
	step  time.Time   // when the run began its step
	model wait        // what the model does; empty for nothing
	place wait        // what the runtime does before commands can run; empty for nothing
	keeps wait        // the checkpoint that is waited for; empty for none
	calls []*callWait // that were announced and are not done, or the command of the user's
	asked string      // the name of the model
	spoke time.Time   // when the last line came
	due   time.Time   // when the next one comes; zero for never
	timer *time.Timer // calls tell; nil before the first wait
}

// wait is something that goes on.
type wait struct {
	words string // what it is
	since time.Time
	heard time.Time        // when it has shown something last; zero for never
	by    pygent.EventType // the type of the event that told it, where it may come again
}

// callWait is a call of the model.
type callWait struct {
	wait  // since is zero while it does not run, as it waits for a person
	id    string
	lines console.LastLine
	last  string // the last line of its output
}

func newWaits(to *console.Printer) *waits { return &waits{to: to} }

// end stops telling, for good.
func (w *waits) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.arm()
}

// note follows what goes on.
func (w *waits) note(e pygent.Event) {
	if e.Task != "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case e.Type == pygent.EventRunEnd:
		w.rest()
	case e.Type == pygent.EventStep:
		w.inRun, w.step, w.model, w.keeps, w.calls = true, time.Now(), wait{}, wait{}, nil
	case e.Type == pygent.EventKeeping:
		w.keeps = wait{words: clipped(e.Text), since: cmp.Or(w.keeps.since, time.Now()), heard: time.Now()}
	case e.Type == pygent.EventRuntime:
		w.noteRuntime(e)
	case e.Call != nil:
		w.noteCall(e)
	default:
		w.noteModel(e)
	}
	w.arm()
}

// rest forgets what went on but in the runtime, whose start outlasts a run.
func (w *waits) rest() {
	w.inRun, w.model, w.keeps, w.calls = false, wait{}, wait{}, nil
}

// ownCommand writes what a command of the user's prints, which is no silence.
type ownCommand struct {
	*console.Printer
	waits *waits
	call  *callWait
}

// command follows a command of the user's, which prints to a printer, until it ends.
func (w *waits) command(line string, to *console.Printer) ownCommand {
	if own, isOwn := strings.CutPrefix(line, "/"+shellCommand+" "); isOwn {
		line = "$ " + own
	}
	c := ownCommand{to, w, &callWait{wait: wait{words: "running: " + clipped(line), since: time.Now()}}}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inRun, w.calls = true, []*callWait{c.call}
	w.arm()
	return c
}

// Write writes to the printer.
func (c ownCommand) Write(b []byte) (int, error) {
	n, err := c.Printer.Write(b)
	c.waits.mu.Lock()
	defer c.waits.mu.Unlock()
	c.call.heard = time.Now()
	c.waits.arm()
	return n, err
}

func (c ownCommand) end() {
	c.waits.mu.Lock()
	defer c.waits.mu.Unlock()
	c.waits.rest()
	c.waits.arm()
}

// noteModel follows the model.
func (w *waits) noteModel(e pygent.Event) {
	switch e.Type {
	case pygent.EventModelStart:
		w.asked = clipped(cmp.Or(e.Model, "the model"))
		words := "waiting for " + w.asked
		if e.Attempt > 1 {
			words += fmt.Sprintf(" (attempt %d)", e.Attempt)
		}
		w.model = wait{words: words, since: time.Now()}
	case pygent.EventText: // is shown, so that the silence begins anew
		w.model = wait{words: "waiting for " + w.asked, since: time.Now()}
	case pygent.EventReasoning:
		w.modelGoesOn(e.Type, "thinking: "+w.asked)
	case pygent.EventCallDelta:
		w.modelGoesOn(e.Type, writing(*e.CallDelta))
	case pygent.EventRetry:
		w.model = wait{words: "waiting for " + w.asked, since: time.Now()}
		if e.Retry.Wait > 0 {
			w.model.words = "waiting to retry"
		}
	case pygent.EventCompacting:
		w.model = wait{words: "summarising the conversation", since: time.Now()}
	case pygent.EventCompacted, pygent.EventMessage:
		w.model = wait{}
	}
}

// modelGoesOn takes over words for what may have gone on already, as the last event of
// the model was of this type too.
func (w *waits) modelGoesOn(by pygent.EventType, words string) {
	if w.model.by != by {
		w.model = wait{by: by, since: time.Now()}
	}
	w.model.words = words
}

// writing says how far a call is that the model writes.
func writing(d chat.CallDelta) string {
	return fmt.Sprintf("writing %s (%s so far)", cmp.Or(clipped(d.Path), clipped(d.Tool), "a call"), numeral.Bytes(int64(d.Bytes)))
}

// noteCall follows a call, which no checkpoint holds up any more.
func (w *waits) noteCall(e pygent.Event) {
	w.keeps = wait{}
	i := slices.IndexFunc(w.calls, func(c *callWait) bool { return c.id == e.Call.ID })
	if i < 0 {
		if e.Type != pygent.EventToolCall {
			return
		}
		i, w.calls = len(w.calls), append(w.calls, &callWait{id: e.Call.ID, wait: wait{words: "running: " + clipped(faces.Summary(e))}})
	}
	c := w.calls[i]
	switch e.Type {
	case pygent.EventToolStart, pygent.EventAnswer:
		c.since = time.Now()
	case pygent.EventApproval, pygent.EventQuestion:
		c.since = time.Time{}
	case pygent.EventOutput, pygent.EventProgress:
		c.last = cmp.Or(c.lines.Add(liveText(e)), c.last)
	case pygent.EventToolDone, pygent.EventToolSkipped:
		w.calls = slices.Delete(w.calls, i, i+1)
	}
}

// noteRuntime follows what has to be there before a command runs.
func (w *waits) noteRuntime(e pygent.Event) {
	r := e.Runtime
	switch r.Kind {
	case pygent.RuntimeNetwork, pygent.RuntimeLimited, pygent.RuntimeSilent:
	case pygent.RuntimePull:
		words := clipped(e.Text)
		if r.Total > 0 {
			words += fmt.Sprintf(" (%s of %s)", numeral.Bytes(r.Current), numeral.Bytes(r.Total))
		}
		w.place = wait{words: words, since: cmp.Or(w.place.since, time.Now())}
	case pygent.RuntimeStarting:
		w.place = wait{words: "starting the container", since: cmp.Or(w.place.since, time.Now())}
	default:
		w.place = wait{}
	}
}

// current returns what goes on, with the last line of its output. It is empty when nothing
// does.
func (w *waits) current() (goesOn wait, last string) {
	i := slices.IndexFunc(w.calls, func(c *callWait) bool { return !c.since.IsZero() })
	switch {
	case !w.inRun || w.ended:
		return wait{}, ""
	case w.keeps.words != "":
		return w.keeps, ""
	case i < 0:
		return cmp.Or(w.model, w.place.from(w.step)), ""
	case w.place.words == "":
		return w.calls[i].wait, w.calls[i].last
	}
	return w.place.from(w.calls[i].since), ""
}

// from returns the wait as one who has waited since a time knows it.
func (w wait) from(began time.Time) wait {
	if began.After(w.since) {
		w.since = began
	}
	return w
}

// next returns when the next line about what goes on comes, if the last one came at a
// time.
func (w wait) next(spoke time.Time) time.Time {
	silent := w.since
	if w.heard.After(silent) {
		silent = w.heard
	}
	for _, after := range []time.Duration{10 * time.Second, 30 * time.Second, time.Minute} {
		if at := silent.Add(after); at.After(spoke) {
			return at
		}
	}
	return silent.Add(spoke.Sub(silent).Truncate(time.Minute) + time.Minute)
}

// arm sets the timer for the next line. The caller holds mu.
func (w *waits) arm() {
	var due time.Time
	if goesOn, _ := w.current(); goesOn.words != "" {
		due = goesOn.next(w.spoke)
	}
	switch {
	case due.Equal(w.due):
		return
	case due.IsZero():
		w.timer.Stop()
	case w.timer == nil:
		w.timer = time.AfterFunc(time.Until(due), w.tell)
	default:
		w.timer.Reset(time.Until(due))
	}
	w.due = due
}

// tell writes a line if it is time.
func (w *waits) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if w.due.IsZero() || now.Before(w.due) {
		return // the timer was too late to be stopped
	}
	goesOn, last := w.current()
	line := "still " + goesOn.words + " · " + roughly(now.Sub(goesOn.since))
	if last != "" {
		line += " · last line: " + clipped(last)
	}
	w.to.Meanwhile("%s", line)
	w.spoke = now
	w.arm()
}

// roughly says how long something has taken, in seconds, or in minutes.
func roughly(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%d s", d/time.Second)
	}
	return fmt.Sprintf("%d min", d/time.Minute)
}

// clipped returns the beginning of a text in one short line, with control characters made
// visible.
func clipped(text string) string {
	const most, columns = 400, 80
	line := screen.Visible(cut.Line(text, most))
	if row := screen.Row(line, columns); row != line {
		return row + " …"
	}
	return line
}
