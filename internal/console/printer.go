package console

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/screen"
)

// maxHeld is how many pieces of news are held back during a question. Further
// ones are only counted.
const maxHeld = 500

// Printer writes text for a user who may be asked something meanwhile. It is
// safe for concurrent use.
type Printer struct {
	mu    sync.Mutex
	text  Text
	asked string // the prompt that waits for an answer

	unfinished func() string // what the user has typed of the answer; may be nil

	holding bool          // whether news is held back
	held    []func(*Text) // the news to show when holding ends
	dropped int           // how many pieces of news there were beyond maxHeld
}

// Text writes for a [Printer] and keeps track of the current line. Only the
// function that [Printer.News] calls may use it, and only while that runs.
type Text struct {
	screen   *screen.Screen
	writes   int  // how often something was written
	midLine  bool // whether the current line was begun and not ended
	streamed bool // whether a part of the model's current answer was written
	block    block
	live     live
	err      error // the first error of the screen
}

// NewPrinter returns a printer that makes control characters visible.
func NewPrinter(w io.Writer) *Printer { return &Printer{text: Text{screen: screen.New(w)}} }

// Say writes a line of its own.
func (p *Printer) Say(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text.EndLine()
	p.text.Line(format, args...)
}

// Interject writes a line of its own, even while the user is asked. A line that
// comes during a question is shown after it. After one that comes during a
// prompt for a message, the prompt is repeated.
func (p *Printer) Interject(format string, args ...any) {
	p.News(func(t *Text) {
		t.EndLine()
		t.Line(format, args...)
	})
}

// News calls show to write something, at once or, during a question, after it. If
// show writes while the user is prompted, the prompt is repeated.
func (p *Printer) News(show func(*Text)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.holding:
		p.promptAgainAfter(show)
	case len(p.held) < maxHeld:
		p.held = append(p.held, show)
	default:
		p.dropped++
	}
}

// Meanwhile writes a line of its own about what goes on, even in the middle of an
// answer. It writes none while the user is asked, since the line would be out of date
// after that.
func (p *Printer) Meanwhile(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.holding && p.asked == "" {
		p.text.EndBlock()
		p.text.Tell(format, args...)
	}
}

// promptAgainAfter is News when nothing is held back. The caller holds mu.
func (p *Printer) promptAgainAfter(show func(*Text)) {
	before := p.text.writes
	show(&p.text)
	if p.asked == "" || p.text.writes == before {
		return
	}
	p.text.EndLine()
	p.text.Print(p.asked)
	if p.unfinished != nil {
		p.text.Print(p.unfinished())
	}
}

// Write writes the text of a command of the session.
func (p *Printer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.put(string(b))
}

// Columns is how many columns a line may have: those of a terminal, or 0 for any number.
func (p *Printer) Columns() int {
	if !p.text.screen.Terminal() {
		return 0
	}
	columns, _ := p.text.screen.Size()
	return columns
}

// End ends the current line if it was begun.
func (p *Printer) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text.EndLine()
}

// Err returns the first error of the writer.
func (p *Printer) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.text.err != nil {
		return fmt.Errorf("write the output: %w", p.text.err)
	}
	return nil
}

// hold keeps back news until release is called, so that it does not push a
// question off the screen.
func (p *Printer) hold() (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holding = true
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, show := range p.held {
			show(&p.text)
		}
		if p.dropped > 0 {
			p.text.EndLine()
			p.text.Line("… %s not shown …", numeral.Count(p.dropped, "more event"))
		}
		p.holding, p.held, p.dropped = false, nil, 0
	}
}

// prompt shows a prompt. When the user has entered the line, typed is called.
func (p *Printer) prompt(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text.EndLine()
	p.text.Print(text)
	p.asked = text[strings.LastIndexByte(text, '\n')+1:]
}

// typed records that the user ended the line.
func (p *Printer) typed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text.midLine = false
}

// endPrompt records that no answer is expected any more, and ends the line if
// the user did not.
func (p *Printer) endPrompt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked != "" {
		p.text.EndLine()
	}
	p.asked = ""
}

// echo shows what the user types.
func (p *Printer) echo(keys string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, part := range strings.Split(keys, string(screen.Erase)) {
		if i > 0 {
			p.text.control(screen.Erase)
		}
		p.text.Print(part)
	}
}

// markPastes makes the terminal mark pasted text, or stop marking it.
func (p *Printer) markPastes(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on {
		p.text.control(screen.PasteOn)
	} else {
		p.text.control(screen.PasteOff)
	}
}

// Print writes a text as it is. [Printer.Err] returns its error.
func (t *Text) Print(text string) {
	if text != "" {
		_, _ = t.put(text)
	}
}

// Line writes text and ends the line. It continues a line that was begun.
func (t *Text) Line(format string, args ...any) {
	t.Print(fmt.Sprintf(format, args...) + "\n")
}

// EndLine ends the current line if it was begun.
func (t *Text) EndLine() {
	if t.midLine {
		t.Print("\n")
	}
}

func (t *Text) put(text string) (int, error) {
	if text != "" {
		t.EndLive()
		t.writes++
		t.midLine = text[len(text)-1] != '\n'
	}
	n, err := t.screen.Write([]byte(text))
	t.err = cmp.Or(t.err, err)
	return n, err
}

// control sends a control sequence to the terminal.
func (t *Text) control(c screen.Control) { t.err = cmp.Or(t.err, t.screen.Control(c)) }
