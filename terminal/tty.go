package terminal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"reflect"
	"sync/atomic"
	"time"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/muesli/cancelreader"
	"golang.org/x/term"

	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/screen"
)

// What a terminal is told when the session begins and ends: to mark pastes, and to
// tell keys such as Shift-Enter from Enter (the protocol of kitty).
const (
	beginKeys = markPastes + "\x1b[>1u"
	endKeys   = "\x1b[<u" + forgetPastes
	// lastWords end the session, after endKeys, without knowing what the screen shows.
	lastWords = "\x1b[?7h\x1b[?25h\x1b[m\r\n\x1b[J"

	markPastes, forgetPastes = "\x1b[?2004h", "\x1b[?2004l"
)

// keySequences returns beginKeys and endKeys, or what there is of them for a terminal
// without the protocol, some of which print a part of what they do not know.
func keySequences() (begin, end string) {
	if isConsole() {
		return markPastes, forgetPastes
	}
	return beginKeys, endKeys
}

// outputGrace is how long the end of a session waits for a terminal that takes no
// output, because nobody reads it or because it was halted.
const outputGrace = time.Second

// errNoOutput is the error of a terminal that takes no output.
var errNoOutput = errors.New("the terminal takes no output")

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

	begun   bool        // the mode is that of a session
	before  *term.State // its mode outside of the session
	inside  *term.State // and in it
	restore func()      // of the output
	keys    chan key
	ended   chan struct{} // closed when there are no more keys
	reader  cancelreader.CancelReader
	cancel  context.CancelFunc

	over  <-chan struct{} // closed when the session ends: a terminal that takes no output is given up then
	muted bool            // it was given up

	resized     chan os.Signal // gets a value when the size has changed, where the system tells
	interrupted chan os.Signal // gets a value when the process is to be interrupted, as by Ctrl-C
	stopped     chan os.Signal // gets a value when the process is to be stopped, as by Ctrl-Z
	continued   chan os.Signal // gets a value when it goes on
	quit        chan os.Signal // gets a value when it is to die with a report
	closed      chan struct{}
}

// openTTY takes the terminal for a session.
func openTTY(ctx context.Context, in *os.File, out *screen.Screen) (*tty, error) {
	signals := func() chan os.Signal { return make(chan os.Signal, 1) }
	t := &tty{
		in: in, out: out, over: ctx.Done(), closed: make(chan struct{}),
		resized: signals(), interrupted: signals(), stopped: signals(), continued: signals(), quit: signals(),
	}
	if err := t.begin(); err != nil {
		return nil, err
	}
	notifyResize(t.resized)
	signal.Notify(t.interrupted, os.Interrupt)
	notifyContinued(t.continued)
	notifyQuit(t.quit)
	go t.awaitQuit(t.before)
	return t, nil
}

// close gives the terminal back.
func (t *tty) close() error {
	for _, c := range []chan os.Signal{t.resized, t.interrupted, t.stopped, t.continued, t.quit} {
		signal.Stop(c)
	}
	close(t.closed)
	return t.end()
}

// forgetSignals drops the signals that came for somebody else who has the terminal.
func (t *tty) forgetSignals() {
	for _, c := range []chan os.Signal{t.interrupted, t.stopped, t.continued} {
		select {
		case <-c:
		default:
		}
	}
}

// awaitQuit gives the terminal back before the process dies of a signal at which the
// Go runtime reports all goroutines. It needs nothing of the session, which may hang.
func (t *tty) awaitQuit(before *term.State) {
	_, end := keySequences()
	select {
	case <-t.quit:
		_ = safecall.Within(outputGrace, func() error { return t.out.Draw(end + lastWords) })
		_ = term.Restore(int(t.in.Fd()), before)
		signal.Stop(t.quit)
		quitProcess()
	case <-t.closed:
	}
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
	if t.inside, err = term.GetState(int(t.in.Fd())); err != nil {
		return fmt.Errorf("read the terminal's mode: %w", err)
	}
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
	notifyStopped(t.stopped)
	begin, _ := keySequences()
	if err := t.draw(begin); err != nil {
		return errors.Join(err, t.end()) // so that nobody else's keys are read
	}
	return nil
}

// isSet reports whether the terminal is in the mode of the session. One that has hung
// up, of which a process is told by SIGCONT, too, has no other mode.
func (t *tty) isSet() bool {
	now, err := term.GetState(int(t.in.Fd()))
	return err != nil || reflect.DeepEqual(now, t.inside)
}

// read passes on keys until the reader is cancelled or the terminal hangs up.
func (t *tty) read(ctx context.Context, keys chan<- key, ended chan<- struct{}) {
	defer close(ended)
	events := make(chan uv.Event)
	go func() {
		defer close(events)
		safecall.Call(func() {
			_ = uv.NewTerminalReader(keyBytes(t.reader), os.Getenv("TERM")).StreamEvents(ctx, events)
		}, func(error) {}) // the end of the keys ends the session
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
	signal.Stop(t.stopped) // somebody else who has the terminal is stopped as if there were no session
	_, end := keySequences()
	err := t.draw(end)
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

// draw writes to the terminal. When the session ends and the terminal takes nothing,
// what it has not shown is dropped, so that it can be given back.
func (t *tty) draw(out string) error {
	if t.muted {
		return errNoOutput
	}
	var late atomic.Bool
	done := make(chan error, 1)
	go func() { done <- t.write(out, &late) }()
	select {
	case err := <-done:
		return err
	case <-t.over:
	}
	for range 2 {
		select {
		case err := <-done:
			return err
		case <-time.After(outputGrace):
			late.Store(true)
			dropOutput(t.in)
		}
	}
	t.muted = true
	return errNoOutput
}

// write writes in pieces, which a terminal takes as soon as its output was dropped,
// until it is too late.
func (t *tty) write(out string, late *atomic.Bool) error {
	const piece = 1 << 10
	for out != "" {
		if late.Load() {
			return errNoOutput
		}
		n := min(len(out), piece)
		if err := t.out.Draw(out[:n]); err != nil {
			return err
		}
		out = out[n:]
	}
	return nil
}
