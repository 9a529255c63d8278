package console

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/x/pygent/internal/excerpt"
	"github.com/x/pygent/internal/screen"
)

// maxHeld bounds how much is kept back while the user is asked.
const maxHeld = 500

// Printer writes text for a person, who may be asked something meanwhile. It is
// safe for concurrent use.
type Printer struct {
	mu    sync.Mutex
	text  Text
	asked string // the prompt that waits for an answer

	unfinished func() string // what the user has typed of the answer; may be nil

	holding bool          // nothing may push what is asked off the screen
	held    []func(*Text) // what is shown when holding ends
	dropped int           // how much of it was too much
}

// Text is what a [Printer] has written so far. It is for the function that
// [Printer.News] calls, while that runs.
type Text struct {
	screen   *screen.Screen
	writes   int   // how often something was written
	midLine  bool  // the last thing written did not end its line
	streamed bool  // some of the answer that is being given was written
	err      error // the first of the screen
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

// Interject writes a line of its own, perhaps while the user is asked: then it
// waits for the end of a question, and a prompt is put again below it.
func (p *Printer) Interject(format string, args ...any) {
	p.News(func(t *Text) {
		t.EndLine()
		t.Line(format, args...)
	})
}

// News has show write something, now or when nothing is held back any more. If it
// did while the user is prompted, the prompt is put again.
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

// promptAgainAfter is News where nothing is held back. The caller holds mu.
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

// Write writes what a command says.
func (p *Printer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.put(string(b))
}

// End ends the line that was begun.
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

// hold keeps back what happens until release is called: news must not push a
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
			p.text.Line("… %s not shown …", excerpt.Count(p.dropped, "more event"))
		}
		p.holding, p.held, p.dropped = false, nil, 0
	}
}

// prompt asks for a line, which typed then ends.
func (p *Printer) prompt(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text.EndLine()
	p.text.Print(text)
	p.asked = text[strings.LastIndexByte(text, '\n')+1:]
}

// typed notes that the user ended the line.
func (p *Printer) typed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text.midLine = false
}

// unask notes that no answer is waited for any more, and ends the line if the user
// did not.
func (p *Printer) unask() {
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

// markPastes has the terminal mark what is pasted, or no longer.
func (p *Printer) markPastes(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on {
		p.text.control(screen.PasteOn)
	} else {
		p.text.control(screen.PasteOff)
	}
}

// Print writes a text as it is. [Printer.Err] has the error.
func (t *Text) Print(text string) {
	if text != "" {
		_, _ = t.put(text)
	}
}

// Line writes a line. It goes on with one that was begun.
func (t *Text) Line(format string, args ...any) {
	t.Print(fmt.Sprintf(format, args...) + "\n")
}

// EndLine ends the line that was begun, if there is one.
func (t *Text) EndLine() {
	if t.midLine {
		t.Print("\n")
	}
}

func (t *Text) put(text string) (int, error) {
	if text != "" {
		t.writes++
		t.midLine = text[len(text)-1] != '\n'
	}
	n, err := t.screen.Write([]byte(text))
	t.err = cmp.Or(t.err, err)
	return n, err
}

// control has the terminal do something.
func (t *Text) control(c screen.Control) { t.err = cmp.Or(t.err, t.screen.Control(c)) }
