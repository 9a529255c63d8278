// Package console holds a plain conversation with a user. It reads what they
// type line by line, writes what happens as text, and accepts the answer to a
// question only from a person who could read the question. An interactive
// session is a [Talk] on a console, and the command asks its questions on one.
package console

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/x/pygent/internal/console/lineinput"
	"github.com/x/pygent/internal/screen"
)

// Console reads what a user types and writes to them. Make one with [New], and
// Open it. It is safe for concurrent use.
//
// Open starts a goroutine that reads a line whenever one is wanted. It ends with
// the context that Open got. If it is blocked in a read then, it ends with the
// next line or with the process.
type Console struct {
	*Printer
	log *slog.Logger

	// aside shows prompts, questions and what is typed. It is the Printer itself,
	// unless the output of a person at a terminal is redirected: then it is the
	// terminal.
	aside      *Printer
	closeAside func()

	in     *bufio.Reader
	file   *os.File          // what in reads, if it is a file
	typed  bool              // whether in is a terminal, so that a person types
	person bool              // whether that person sees prompts and questions
	keys   *lineinput.Reader // reads instead of in if the terminal passes on each key
	mode   *lineinput.Mode   // of that terminal

	lines  chan line     // what was read
	wanted chan struct{} // requests a line; none is read ahead

	asking    chan struct{} // a lock: whoever has taken its value may ask
	shownAt   time.Time     // when the last prompt was shown; guarded by asking
	questions atomic.Int64  // how many questions were asked, without the prompts for messages
}

// New returns a console.
func New(in io.Reader, out io.Writer, log *slog.Logger) *Console {
	file, isFile := in.(*os.File)
	typed := isFile && term.IsTerminal(int(file.Fd()))
	c := &Console{
		Printer: NewPrinter(out),
		log:     log,
		in:      bufio.NewReader(in),
		file:    file,
		typed:   typed,
		person:  typed,
		lines:   make(chan line),
		wanted:  make(chan struct{}),
		asking:  make(chan struct{}, 1),
	}
	c.asking <- struct{}{}
	c.aside, c.closeAside = c.Printer, func() {}
	if c.typed && c.text.screen.Redirected() {
		c.turnAside()
	}
	return c
}

// turnAside has a person whose output is redirected asked at the terminal. Without
// one nobody is asked, since the question would get into a file.
func (c *Console) turnAside() {
	to, closeIt, ok := screen.Terminal()
	if c.person = ok; ok {
		c.aside, c.closeAside = NewPrinter(to), closeIt
	}
}

// Asks reports whether a person sees prompts and questions.
func (c *Console) Asks() bool { return c.person }

// IsAside reports whether prompts and questions are shown elsewhere than the
// conversation.
func (c *Console) IsAside() bool { return c.aside != c.Printer }

// Aside writes a line of its own for the person who types, where questions are
// shown.
func (c *Console) Aside(format string, args ...any) { c.aside.Say(format, args...) }

// InterjectAside is [Printer.Interject] for the person who types.
func (c *Console) InterjectAside(format string, args ...any) { c.aside.Interject(format, args...) }

// Beside returns the printer for what does not belong to the conversation. If the output
// is redirected, that is where the person is asked, or else standard error.
func (c *Console) Beside() *Printer {
	if !c.IsAside() && c.text.screen.Redirected() {
		return NewPrinter(screen.Stderr())
	}
	return c.aside
}

// Open lets the console read lines until ctx ends. restore puts the terminal
// back into its earlier mode.
func (c *Console) Open(ctx context.Context) (restore func()) {
	giveBack := c.takeKeys()
	go c.readLines(ctx)
	return func() {
		giveBack()
		c.closeAside()
	}
}

// takeKeys makes the terminal pass on each key, since a terminal that collects
// lines cuts long ones. The console then has to echo what is typed, so this
// needs an output that is a terminal too. restore puts the terminal back into
// its earlier mode.
func (c *Console) takeKeys() (restore func()) {
	if !c.person || !c.aside.text.screen.Terminal() {
		return func() {}
	}
	mode, err := lineinput.Open(c.file)
	if err != nil {
		c.log.Warn("long lines may be cut by the terminal", "error", err)
		return func() {}
	}
	c.mode, c.keys = mode, lineinput.NewReader(c.file, maxLine, c.aside.echo)
	if screen.IsDumb() {
		c.keys.TakeWholeLines(func() bool { return lineinput.More(c.file, lineinput.PasteGap) })
	}
	c.aside.unfinished = c.keys.Typed
	return func() {
		if err := mode.Close(); err != nil {
			c.log.Warn("the terminal was not put back", "error", err)
		}
	}
}

// Person reports whether a person types, at a terminal. Without one to show a
// question at, that is answered by [ErrNobody].
func (c *Console) Person() bool { return c.typed }

// Lend calls f with the terminal in the mode that it had before Open.
func (c *Console) Lend(f func() error) error {
	if c.mode == nil {
		return f()
	}
	err := c.mode.Suspend()
	if err == nil {
		err = f()
	}
	return errors.Join(err, c.mode.Resume())
}

// maxLine is the longest line that is read, in bytes.
const maxLine = 1 << 20

var (
	// ErrLongLine is returned for a line that is too long to be read.
	ErrLongLine = fmt.Errorf("the line is longer than %d bytes; put the text in a file", maxLine)
	// ErrCutLine is returned for a line that the terminal may have cut.
	ErrCutLine = errors.New("the terminal cuts lines of this length; put the text in a file")
	// ErrInterrupted is the error of a prompt, and the cause of a context, that
	// Ctrl-C ended.
	ErrInterrupted = errors.New("interrupted by the user")
)
