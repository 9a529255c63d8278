package lines

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/console"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/faces"
)

// EventPrinter returns an event handler that writes what happens to w as plain
// text: the model's words as they come, commands and their output, retries and
// warnings. Control characters in what models and commands write are made
// visible, so that they cannot drive a terminal. Errors of w are ignored. The
// handler is safe for concurrent use.
//
//	result, err := agent.RunUntilStop(ctx, msg, pygent.OnEvent(lines.EventPrinter(os.Stderr)))
func EventPrinter(w io.Writer) func(pygent.Event) { return eventPrinter(console.NewPrinter(w)) }

// eventPrinter returns an event handler that writes to a printer.
func eventPrinter(to *console.Printer) func(pygent.Event) {
	var last string      // the id of the call that was shown last; calls may overlap
	var kept keepingLine // what was told of a checkpoint
	return func(e pygent.Event) {
		if !kept.wants(e) {
			return
		}
		if e.Type == pygent.EventOutput || e.Type == pygent.EventProgress {
			if text := liveText(e); text != "" && e.Task == "" {
				to.Live(e.Time, text)
			}
			return
		}
		to.News(func(t *console.Text) {
			if e.Call != nil && e.Task == "" {
				if e.Type == pygent.EventToolDone && last != "" && last != e.Call.ID {
					t.EndLine()
					t.Call(faces.Summary(e))
				}
				last = e.Call.ID
			}
			if isBeside(e) {
				t.Beside(func(t *console.Text) { printEvent(t, e) })
				return
			}
			printEvent(t, e)
		})
	}
}

// keepAgainAfter is how long plain text waits before it tells again how far a
// checkpoint is: it cannot be overwritten.
const keepAgainAfter = 10 * time.Second

// keepingLine is when it was told last; zero if something else was told since.
type keepingLine struct {
	mu sync.Mutex
	at time.Time
}

// wants reports whether an event is to be told.
func (k *keepingLine) wants(e pygent.Event) bool {
	if e.Task != "" {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if e.Type != pygent.EventKeeping {
		k.at = time.Time{}
		return true
	}
	if !k.at.IsZero() && e.Time.Sub(k.at) < keepAgainAfter {
		return false
	}
	k.at = e.Time
	return true
}

// isBeside reports whether an event may come in the middle of the model's answer, of
// which it is no part.
func isBeside(e pygent.Event) bool {
	switch e.Type {
	case pygent.EventTask, pygent.EventNotice, pygent.EventWarning, pygent.EventRuntime, pygent.EventKeeping:
		return true
	}
	return false
}

// printEvent writes an event. For a background task it writes only the
// progress, because the output of several tasks would mix.
func printEvent(t *console.Text, e pygent.Event) {
	if e.Task != "" {
		if e.Type == pygent.EventTask {
			printTask(t, e)
		}
		return
	}
	switch e.Type {
	case pygent.EventStep:
		t.Step()
	case pygent.EventText:
		t.Stream(e.Text)
	case pygent.EventMessage:
		t.Answer(e.Message.Text())
	case pygent.EventToolCall:
		t.EndBlock()
		if e.Call.Name != "stop" && e.Call.Name != "continue" {
			t.Call(faces.Summary(e))
		}
	case pygent.EventToolStart:
		t.Began(e.Time)
	case pygent.EventToolDone:
		t.EndLive()
		t.Output(outputShown(e))
	case pygent.EventToolSkipped:
		t.Call(faces.Summary(e))
		t.Output(outputShown(e))
	case pygent.EventRetry:
		t.Retry(e.Retry.Error + faces.Again(*e.Retry))
	case pygent.EventCompacting:
		t.Warn("the model is summarising the conversation")
	case pygent.EventCompacted:
		t.Warn("%s", e.Compaction)
	case pygent.EventRestored:
		printRestored(t, e)
	case pygent.EventNotice, pygent.EventWarning:
		t.Warn("%s", e.Text)
	case pygent.EventRuntime:
		printRuntime(t, e)
	case pygent.EventKeeping:
		t.Tell("%s", e.Text)
	case pygent.EventRunEnd:
		t.EndBlock()
	}
}

// printRestored says what a restore did, and what the user had said in the turn that is
// gone, to be said again.
func printRestored(t *console.Text, e pygent.Event) {
	t.Tell("%s", e.Text)
	for _, note := range e.Restored.Notes() {
		t.Warn("%s", note)
	}
	if msg := e.Restored.Message; msg != nil && strings.TrimSpace(msg.Text()) != "" {
		const shown = 500
		t.Tell("your message was: %s", cut.Line(msg.Text(), shown))
	}
}

// liveText returns what a running call tells, for people.
func liveText(e pygent.Event) string {
	if e.Type == pygent.EventOutput {
		return e.Chunk.Text
	}
	p := e.Progress
	switch {
	case p.Total > 0:
		return strings.TrimSpace(fmt.Sprintf("%s %d of %d", p.Text, p.Current, p.Total)) + "\n"
	case p.Current > 0:
		return strings.TrimSpace(fmt.Sprintf("%s %d", p.Text, p.Current)) + "\n"
	}
	return p.Text + "\n"
}

// outputShown returns what is shown of a call's result. The command was shown
// when it began, and the end of the run is shown when it ends.
func outputShown(e pygent.Event) string {
	if e.Output.End != "" {
		return ""
	}
	if faces.RanInterrupted(e) {
		return interruptedShown(e.Output)
	}
	text := cmp.Or(e.Output.Display, e.Output.Content)
	if e.Output.IsError {
		text = withoutStart(text)
	}
	var command faces.BashCall
	ok := e.Call.Name == "bash" && json.Unmarshal([]byte(e.Call.Arguments), &command) == nil
	if e.Output.Bash != nil {
		command.Cmd = e.Output.Bash.Command // what ran, if somebody changed it
	}
	if ok {
		return strings.TrimPrefix(text, "$ "+command.Cmd+"\n")
	}
	return text
}

// interruptedShown returns what is shown of a call that was interrupted while it ran: what
// else its result says is for the model.
func interruptedShown(r *pygent.ToolResult) string {
	text := r.Display
	if r.Bash != nil {
		text = r.Bash.Output
	}
	return strings.TrimPrefix(strings.TrimSuffix(text, "\n")+"\n[interrupted]", "\n")
}

// withoutStart leaves out of the result of a failed call why the runtime cannot start,
// which the run reports as its error.
func withoutStart(text string) string {
	how, _, found := strings.Cut(text, pygent.ErrRuntimeStart.Error()+": ")
	if found && (how == "error: " || how == "not run: ") {
		return how + pygent.ErrRuntimeStart.Error()
	}
	return text
}

// printRuntime writes an event of the runtime. It leaves out the progress of a
// download or a start, since plain text cannot be overwritten, and a failed start,
// which the run reports as its error.
func printRuntime(t *console.Text, e pygent.Event) {
	pulls := e.Runtime.Kind == pygent.RuntimePull && e.Runtime.Current > 0 && e.Runtime.Current < e.Runtime.Total
	if !pulls && e.Runtime.Kind != pygent.RuntimeStarting && e.Runtime.Kind != pygent.RuntimeFailed {
		t.Tell("%s", e.Text)
	}
}
