package terminal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/muesli/cancelreader"
	"golang.org/x/term"

	"github.com/x/pygent/internal/screen"
)

// What a terminal is told when the session begins and ends: to mark pastes, and to
// tell keys such as Shift-Enter from Enter (the protocol of kitty).
const (
	beginKeys = "\x1b[?2004h\x1b[>1u"
	endKeys   = "\x1b[<u\x1b[?2004l"
)

// key is something that the terminal has sent, and when it was read. Keys that came
// together are known by that, however late the session handles them.
type key struct {
	uv.Event
	at time.Time
}

// keysAhead is how many keys may wait for the session: all of those that can be
// read at once.
const keysAhead = 4096

// tty is the terminal: its mode, its keys and its size.
//
// Two goroutines read the keys from begin to end, which waits for them.
type tty struct {
	in  *os.File
	out *screen.Screen

	begun   bool            // the mode is that of a session
	over    <-chan struct{} // closed when the session is over
	stuck   bool            // the terminal did not take what was written, and gets nothing more
	before  *term.State     // its mode outside of the session
	restore func()          // of the output
	keys    chan key
	ended   chan struct{} // closed when there are no more keys
	reader  cancelreader.CancelReader
	cancel  context.CancelFunc

	resized     chan os.Signal // gets a value when the size has changed, where the system tells
	interrupted chan os.Signal // gets a value when the process is to be interrupted, as by Ctrl-C
}

// openTTY takes the terminal for a session.
func openTTY(in *os.File, out *screen.Screen) (*tty, error) {
	t := &tty{in: in, out: out, resized: make(chan os.Signal, 1), interrupted: make(chan os.Signal, 1)}
	if err := t.begin(); err != nil {
		return nil, err
	}
	notifyResize(t.resized)
	signal.Notify(t.interrupted, os.Interrupt)
	return t, nil
}

// close gives the terminal back.
func (t *tty) close() error {
	signal.Stop(t.resized)
	signal.Stop(t.interrupted)
	return t.end()
}

// begin sets the mode of a session and reads keys.
func (t *tty) begin() (err error) {
	if t.before, err = term.MakeRaw(int(t.in.Fd())); err != nil {
		return fmt.Errorf("set the terminal's mode: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, term.Restore(int(t.in.Fd()), t.before))
		}
	}()
	if t.restore, err = enableSequences(); err != nil {
		return err
	}
	if t.reader, err = uv.NewCancelReader(t.in); err != nil {
		t.restore()
		return fmt.Errorf("read the terminal's keys: %w", err)
	}
	var ctx context.Context
	ctx, t.cancel = context.WithCancel(context.Background())
	t.keys, t.ended = make(chan key, keysAhead), make(chan struct{})
	go t.read(ctx, t.keys, t.ended)
	t.begun = true
	if err := t.draw(beginKeys); err != nil {
		return errors.Join(err, t.end()) // so that nobody else's keys are read
	}
	return nil
}

// takes is how long the terminal may take to take a frame when the session is over.
const takes = 3 * time.Second

// draw writes a frame. It waits for a terminal that takes none, such as one in a
// window that is stopped, until the session is over: a signal ends the process
// nevertheless.
func (t *tty) draw(frame string) error {
	written := make(chan error, 1)
	go func() { written <- t.out.Draw(frame) }() // after those that wait
	if t.stuck {
		return nil
	}
	select {
	case err := <-written:
		return err
	case <-t.over:
	}
	select {
	case err := <-written:
		return err
	case <-time.After(takes):
		t.stuck = true
		return nil // there is nobody to be told
	}
}

// read passes on keys until the reader is cancelled or the terminal hangs up.
func (t *tty) read(ctx context.Context, keys chan<- key, ended chan<- struct{}) {
	defer close(ended)
	events := make(chan uv.Event)
	go func() {
		defer close(events)
		_ = uv.NewTerminalReader(keyBytes(t.reader), os.Getenv("TERM")).StreamEvents(ctx, events)
	}()
	for e := range events {
		keys <- key{e, time.Now()}
	}
}

// end restores the mode that the terminal had before begin. Keys that were not
// taken yet are dropped. There are none until it begins again.
func (t *tty) end() error {
	if !t.begun {
		return nil
	}
	t.begun = false
	err := t.draw(endKeys)
	t.cancel()
	t.reader.Cancel()
	for drained := false; !drained; {
		select {
		case <-t.keys:
		case <-t.ended:
			drained = true
		}
	}
	t.keys, t.ended = nil, nil
	err = errors.Join(err, t.reader.Close())
	t.restore()
	if failed := term.Restore(int(t.in.Fd()), t.before); failed != nil {
		err = errors.Join(err, fmt.Errorf("restore the terminal's mode: %w", failed))
	}
	return err
}
