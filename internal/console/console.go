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

	"github.com/x/pygent/internal/lineinput"
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

	in     *bufio.Reader
	file   *os.File          // what in reads, if it is a file
	person bool              // whether a person types, at a terminal
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
	c := &Console{
		Printer: NewPrinter(out),
		log:     log,
		in:      bufio.NewReader(in),
		file:    file,
		person:  isFile && term.IsTerminal(int(file.Fd())),
		lines:   make(chan line),
		wanted:  make(chan struct{}),
		asking:  make(chan struct{}, 1),
	}
	c.asking <- struct{}{}
	return c
}

// Open lets the console read lines until ctx ends. restore puts the terminal
// back into its earlier mode.
func (c *Console) Open(ctx context.Context) (restore func()) {
	restore = c.takeKeys()
	go c.readLines(ctx)
	return restore
}

// takeKeys makes the terminal pass on each key, since a terminal that collects
// lines cuts long ones. The console then has to echo what is typed, so this
// needs an output that is a terminal too. restore puts the terminal back into
// its earlier mode.
func (c *Console) takeKeys() (restore func()) {
	if !c.person || !c.text.screen.Terminal() {
		return func() {}
	}
	mode, err := lineinput.Open(c.file)
	if err != nil {
		c.log.Warn("long lines may be cut by the terminal", "error", err)
		return func() {}
	}
	c.mode, c.keys = mode, lineinput.NewReader(c.file, maxLine, c.echo)
	c.unfinished = c.keys.Typed
	return func() {
		if err := mode.Close(); err != nil {
			c.log.Warn("the terminal was not put back", "error", err)
		}
	}
}

// Person reports whether a person types, at a terminal.
func (c *Console) Person() bool { return c.person }

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
