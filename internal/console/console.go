// Package console is a plain conversation with somebody: what they type is read
// line by line, what happens is written as text, and questions are answered only
// by a person who has read them. Interactive sessions are a [Talk] on it, and the
// command asks on it.
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

// Console reads from somebody and writes to them. Make one with [New], and Open
// it. It is safe for concurrent use.
//
// A goroutine reads lines, one whenever one is wanted. It ends with the context
// that Open got, except while a read waits: then it ends with the next line, or
// with the process.
type Console struct {
	*Printer
	log *slog.Logger

	in     *bufio.Reader
	file   *os.File          // what in reads, if it is a file
	person bool              // a person types
	keys   *lineinput.Reader // reads instead of in where a terminal hands over each key
	mode   *lineinput.Mode   // of that terminal

	lines  chan line     // what was read
	wanted chan struct{} // asks for a line; none is read ahead

	asking    chan struct{} // has a value while somebody may begin to ask
	shownAt   time.Time     // when the last question was shown; for who asks
	questions atomic.Int64  // how many were put, beside the prompts for messages
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

// Open begins to read when that is wanted, until ctx ends. It returns a function
// that leaves the terminal as it was.
func (c *Console) Open(ctx context.Context) (restore func()) {
	restore = c.takeKeys()
	go c.readLines(ctx)
	return restore
}

// takeKeys has a terminal hand over each key, since one that collects lines
// cuts long ones. What is typed has to be shown by us then, so that only works
// when the output is a terminal too. It returns a function that puts the
// terminal back.
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

// Lend leaves the terminal to f as it was before.
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
	// ErrLongLine is what becomes of a line that is too long to be read.
	ErrLongLine = fmt.Errorf("the line is longer than %d bytes; put the text in a file", maxLine)
	// ErrCutLine is what becomes of a line that the terminal may have cut.
	ErrCutLine = errors.New("the terminal cuts lines of this length; put the text in a file")
	// ErrInterrupted is the cause with which Ctrl-C ends something.
	ErrInterrupted = errors.New("interrupted by the user")
)
