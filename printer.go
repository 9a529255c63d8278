package pygent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/x/pygent/internal/excerpt"
	"github.com/x/pygent/internal/screen"
)

// What a person is shown of a tool's output.
const (
	shownOutput = 20  // lines
	shownLine   = 500 // bytes of a line
)

// EventPrinter returns an event handler that writes what happens to w as plain
// text: the model's words as they come, commands and their output, retries and
// warnings. Control characters in what models and commands write are made
// visible, so that they cannot drive a terminal. Errors of w are ignored. The
// handler is safe for concurrent use.
//
//	result, err := agent.RunUntilStop(ctx, msg, pygent.OnEvent(pygent.EventPrinter(os.Stderr)))
func EventPrinter(w io.Writer) func(Event) {
	return newPrinter(w).event
}

// printer renders events, and what a session says. It is safe for concurrent
// use: a runtime may tell something while the user is asked.
type printer struct {
	mu      sync.Mutex
	screen  *screen.Screen
	writes  int    // how often something was written
	midLine bool   // the last thing written did not end its line
	spoke   bool   // text of the current step was streamed
	asked   string // the prompt that waits for an answer
	err     error  // the first of the screen

	unfinished func() string // what the user has typed of the answer; may be nil

	holding bool     // nothing may push what is asked off the screen
	held    []func() // what is shown when holding ends
	dropped int      // how much of it was too much
}

// maxHeld bounds what is held back while the user is asked.
const maxHeld = 500

func newPrinter(w io.Writer) *printer { return &printer{screen: screen.New(w)} }

func (p *printer) event(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.news(func() { p.show(e) })
}

// hold keeps back what happens until release is called: events must not push a
// question off the screen.
func (p *printer) hold() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holding = true
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, show := range p.held {
			show()
		}
		if p.dropped > 0 {
			p.endLine()
			p.line("… %s not shown …", excerpt.Count(p.dropped, "more event"))
		}
		p.holding, p.held, p.dropped = false, nil, 0
	}
}

// say writes a line of its own.
func (p *printer) say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLine()
	p.line(format, args...)
}

// prompt asks for a line, which typed then ends.
func (p *printer) prompt(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLine()
	p.write(text)
	p.asked = text[strings.LastIndexByte(text, '\n')+1:]
}

// typed notes that the user ended the line.
func (p *printer) typed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.midLine = false
}

// unask notes that no answer is waited for any more, and ends the line if the user
// did not.
func (p *printer) unask() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked != "" {
		p.endLine()
	}
	p.asked = ""
}

// echo shows what the user types.
func (p *printer) echo(keys string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, part := range strings.Split(keys, string(screen.Erase)) {
		if i > 0 {
			p.control(screen.Erase)
		}
		p.write(part)
	}
}

// control has the terminal do something.
func (p *printer) control(c screen.Control) { p.err = cmp.Or(p.err, p.screen.Control(c)) }

// marksPastes has the terminal mark what is pasted, or no longer.
func (p *printer) marksPastes(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on {
		p.control(screen.PasteOn)
	} else {
		p.control(screen.PasteOff)
	}
}

// interject writes a line, perhaps while the user is asked.
func (p *printer) interject(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.news(func() {
		p.endLine()
		p.line(format, args...)
	})
}

// news has show write something now, or when nothing is held back any more.
func (p *printer) news(show func()) {
	switch {
	case !p.holding:
		p.askAgainAfter(show)
	case len(p.held) < maxHeld:
		p.held = append(p.held, show)
	default:
		p.dropped++
	}
}

// askAgainAfter has show write something, on lines of its own. If it did while
// the user is asked, the question is put again.
func (p *printer) askAgainAfter(show func()) {
	before := p.writes
	show()
	if p.asked == "" || p.writes == before {
		return
	}
	p.endLine()
	p.write(p.asked)
	if p.unfinished != nil {
		p.write(p.unfinished())
	}
}

// Write writes what a command says.
func (p *printer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.put(string(b))
}

// lost returns the first error of the writer.
func (p *printer) lost() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return fmt.Errorf("write the output: %w", p.err)
	}
	return nil
}

// end ends the line that was begun.
func (p *printer) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLine()
}

// The methods below are called with p.mu held.

func (p *printer) show(e Event) {
	if e.Task != "" {
		p.task(e)
		return
	}
	switch e.Type {
	case EventStep:
		p.spoke = false
	case EventText:
		p.spoke = true
		p.write(e.Text)
	case EventMessage:
		if text := e.Message.Text(); !p.spoke && text != "" {
			p.write(text)
		}
		p.endLine()
	case EventToolCall:
		p.endLine()
		if !endsRun(e.Call.Name) {
			p.call(*e.Call)
		}
	case EventToolDone:
		p.toolDone(e)
	case EventToolSkipped:
		p.endLine()
		p.call(*e.Call)
		p.toolDone(e)
	case EventRetry:
		p.endLine()
		p.line("! %s; trying again in %s", e.Retry.Error, e.Retry.Wait.Round(100*time.Millisecond))
		if p.spoke {
			p.line("! what was written so far is withdrawn")
		}
		p.spoke = false
	case EventNotice, EventWarning:
		p.endLine()
		p.line("! %s", e.Text)
	case EventRuntime:
		p.runtime(e)
	case EventRunEnd:
		p.endLine()
	}
}

// task shows of a background task how it comes along, and no more: several at
// work would write into one another.
func (p *printer) task(e Event) {
	if e.Type != EventTask {
		return
	}
	p.endLine()
	p.line("· task %s: %s", e.Task, e.Text)
}

// call shows what the model calls. Long ones are cut as output is.
func (p *printer) call(c ToolCall) {
	for i, l := range cutLines(describeCall(c)) {
		if i == 0 {
			l = "» " + l
		}
		p.line("%s", l)
	}
}

func (p *printer) toolDone(e Event) {
	text := e.Output.Display
	if text == "" {
		text = e.Output.Content
	}
	if e.Output.End != "" {
		return
	}
	if e.Call.Name == "bash" { // the command was shown when it began
		text = strings.TrimPrefix(text, "$ "+commandOf(json.RawMessage(e.Call.Arguments))+"\n")
	}
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return
	}
	for _, l := range cutLines(text) {
		p.line("  %s", l)
	}
}

// cutLines returns the lines of a text that a person is shown.
func cutLines(text string) []string {
	lines := strings.Split(text, "\n")
	if n := len(lines); n > shownOutput {
		half := shownOutput / 2
		rest := append([]string{"… " + excerpt.Count(n-2*half, "line") + " …"}, lines[n-half:]...)
		lines = append(lines[:half:half], rest...)
	}
	for i, l := range lines {
		if len(l) > shownLine {
			lines[i] = headOf(l, shownLine) + " …"
		}
	}
	return lines
}

// runtime shows what a runtime tells; of a download's progress only the words,
// since plain text cannot be drawn over. That it cannot start is an error of
// the run as well, and said as that.
func (p *printer) runtime(e Event) {
	pulls := e.Runtime.Kind == RuntimePull && e.Runtime.Current > 0 && e.Runtime.Current < e.Runtime.Total
	if pulls || e.Runtime.Kind == RuntimeFailed {
		return
	}
	p.endLine()
	p.line("· %s", e.Text)
}

func (p *printer) write(text string) {
	if text == "" {
		return
	}
	// An error is kept for lost.
	_, _ = p.put(text)
}

func (p *printer) put(text string) (int, error) {
	if text != "" {
		p.writes++
		p.midLine = text[len(text)-1] != '\n'
	}
	n, err := p.screen.Write([]byte(text))
	p.err = cmp.Or(p.err, err)
	return n, err
}

func (p *printer) line(format string, args ...any) {
	p.write(fmt.Sprintf(format, args...) + "\n")
}

func (p *printer) endLine() {
	if p.midLine {
		p.write("\n")
	}
}

// endsRun reports whether a tool is one of those whose call is no news: what
// they say is shown as the outcome.
func endsRun(tool string) bool { return tool == "stop" || tool == "continue" }

// describeCall renders a call: a command in its own words, a call that names a
// file by that name, any other by its arguments.
func describeCall(c ToolCall) string {
	var args struct{ Cmd, Cwd, Path string }
	if err := json.Unmarshal([]byte(c.Arguments), &args); err == nil {
		switch {
		case c.Name == "bash" && args.Cwd != "":
			return "(in " + args.Cwd + ") $ " + strings.TrimSpace(args.Cmd)
		case c.Name == "bash" && args.Cmd != "":
			return "$ " + strings.TrimSpace(args.Cmd)
		case args.Path != "":
			return c.Name + " " + args.Path
		}
	}
	return c.Name + " " + headOf(c.Arguments, 200)
}
