package termtest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// patience is how long a screen is waited for.
const patience = time.Minute

// Terminal is a program at a terminal. Its methods may be called by any goroutine;
// those that fail the test only by the test's own.
type Terminal struct {
	t        testing.TB
	cmd      *exec.Cmd
	pty      *os.File
	emulator *emulator
	done     chan struct{} // closed when the program and its children have left the terminal

	drawing sync.Mutex // held until what is drawn is taken over; mu is acquired while it is held

	mu     sync.Mutex    // guards what follows
	screen Screen        // what was shown last
	latest Screen        // what is shown next, when the frame is whole
	change chan struct{} // closed and replaced when the screen changes
	raw    bytes.Buffer
	late   *lateResize // waits for its output
	within bool        // a frame, of which there is more to come
}

// The marks around a frame, which a terminal that knows them shows at once.
const (
	beginFrame = "\x1b[?2026h"
	endFrame   = "\x1b[?2026l"
)

// Start runs cmd at a terminal with a number of columns and rows, which is its
// standard input, output and error as far as cmd does not set them. The program
// ends with the test. Where the emulator is not installed, the test is skipped, or
// fails if PYGENT_TEST_REQUIRE_TOOLS is set.
func Start(t testing.TB, cmd *exec.Cmd, cols, rows int) *Terminal {
	t.Helper()
	x := &Terminal{t: t, cmd: cmd, emulator: startEmulator(t, cols, rows), done: make(chan struct{}), change: make(chan struct{})}
	pty, tty := OpenPTY(t)
	x.pty = pty
	x.setSize(cols, rows)
	control := -1 // a file of the program that is the terminal
	if cmd.Stderr == nil {
		cmd.Stderr, control = tty, 2
	}
	if cmd.Stdout == nil {
		cmd.Stdout, control = tty, 1
	}
	if cmd.Stdin == nil {
		cmd.Stdin, control = tty, 0
	}
	require.GreaterOrEqual(t, control, 0, "the command uses no terminal")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: control}
	require.NoError(t, cmd.Start())
	require.NoError(t, tty.Close())
	go x.watch()
	t.Cleanup(func() {
		if cmd.ProcessState == nil { // the test has failed
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		<-x.done
		pty.Close()
	})
	return x
}

// OpenPTY opens both ends of a new pseudo-terminal.
func OpenPTY(t testing.TB) (pty, tty *os.File) {
	t.Helper()
	pty, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	require.NoError(t, err)
	conn, err := pty.SyscallConn()
	require.NoError(t, err)
	var number int
	var failed error
	require.NoError(t, conn.Control(func(fd uintptr) {
		if failed = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); failed == nil {
			number, failed = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}))
	require.NoError(t, failed)
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	return pty, tty
}

// watch shows what the program prints, until all who had the terminal are gone.
func (x *Terminal) watch() {
	defer close(x.done)
	buf := make([]byte, 64<<10)
	for {
		n, err := x.pty.Read(buf)
		if n > 0 {
			x.resizeBefore(buf[:n])
			x.show(func() Screen { return x.emulator.write(buf[:n]) }, buf[:n])
		}
		if err != nil { // EIO: the last file of the terminal's other end is closed
			x.mu.Lock()
			x.publish() // also half a frame, of a program that was killed
			x.mu.Unlock()
			return
		}
	}
}

// show draws a screen and takes it over, and passes on what the terminal answers. Nobody
// sees half a frame: see [Terminal.isWithin].
func (x *Terminal) show(draw func() Screen, printed []byte) {
	x.drawing.Lock()
	s := draw()
	x.mu.Lock()
	x.within = x.isWithin(printed)
	x.raw.Write(printed)
	if x.latest = s; !x.within {
		x.publish()
	}
	x.mu.Unlock()
	x.drawing.Unlock()
	if len(s.Replies) > 0 {
		_, _ = x.pty.Write(s.Replies) // the program may be gone
	}
}

// isWithin reports whether what the program has printed, and prints now, ends within a
// frame. The caller has locked x.mu.
func (x *Terminal) isWithin(printed []byte) bool {
	before := x.raw.Bytes()
	before = before[max(len(before)-len(beginFrame)+1, 0):] // a mark may come in two pieces
	text := append(bytes.Clone(before), printed...)
	begins, ends := bytes.LastIndex(text, []byte(beginFrame)), bytes.LastIndex(text, []byte(endFrame))
	if begins < 0 && ends < 0 {
		return x.within
	}
	return begins > ends
}

// publish shows the latest screen. The caller has locked x.mu.
func (x *Terminal) publish() {
	x.screen = x.latest
	close(x.change)
	x.change = make(chan struct{})
}

// Resize changes the size of the window, of which the program gets a signal.
func (x *Terminal) Resize(cols, rows int) {
	x.show(func() Screen { return x.emulator.resize(cols, rows) }, nil)
	x.setSize(cols, rows)
}

// lateResize is a change of the size before an output with a text.
type lateResize struct {
	text       string
	cols, rows int
}

// ResizeBefore changes the size of the window just before it shows the next output with
// a text, which the program has drawn for the size before.
func (x *Terminal) ResizeBefore(text string, cols, rows int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.late = &lateResize{text, cols, rows}
}

// resizeBefore makes the change that waits for an output.
func (x *Terminal) resizeBefore(output []byte) {
	x.mu.Lock()
	late := x.late
	if late == nil || !bytes.Contains(output, []byte(late.text)) {
		x.mu.Unlock()
		return
	}
	x.late = nil
	x.mu.Unlock()
	x.Resize(late.cols, late.rows)
}

func (x *Terminal) setSize(cols, rows int) {
	x.t.Helper()
	size := &unix.Winsize{Col: uint16(cols), Row: uint16(rows)}
	conn, err := x.pty.SyscallConn()
	require.NoError(x.t, err)
	require.NoError(x.t, conn.Control(func(fd uintptr) { err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, size) }))
	require.NoError(x.t, err)
}

// Screen returns what the terminal shows now.
func (x *Terminal) Screen() Screen {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.screen
}

// Lines returns everything that the terminal has, from the first line that has
// scrolled away on. It waits for the end of a frame that has begun.
func (x *Terminal) Lines() []Line {
	for {
		x.drawing.Lock()
		x.mu.Lock()
		within, change := x.within, x.change
		x.mu.Unlock()
		var lines []Line
		if !within {
			lines = x.emulator.lines()
		}
		x.drawing.Unlock()
		if !within {
			return lines
		}
		select {
		case <-change:
		case <-x.done: // it was killed within the frame
			return x.emulator.lines()
		}
	}
}

// All returns the text of Lines, joined by line feeds, without blanks at its ends.
func (x *Terminal) All() string {
	var b strings.Builder
	for _, line := range x.Lines() {
		b.WriteString(strings.TrimRight(line.Text, " ") + "\n")
	}
	return strings.TrimSpace(b.String())
}

// Raw returns every byte that the program has printed.
func (x *Terminal) Raw() []byte {
	x.mu.Lock()
	defer x.mu.Unlock()
	return bytes.Clone(x.raw.Bytes())
}

// Until waits for a screen of which ok is true, and returns it. what says in the
// test's failure which one is waited for.
func (x *Terminal) Until(what string, ok func(Screen) bool) Screen {
	x.t.Helper()
	timeout := time.After(patience)
	for {
		x.mu.Lock()
		s, change := x.screen, x.change
		x.mu.Unlock()
		if ok(s) {
			return s
		}
		select {
		case <-change:
		case <-x.done:
			if s := x.Screen(); ok(s) {
				return s
			}
			x.t.Fatalf("the program ended without showing %s:\n%s", what, x.Screen())
		case <-timeout:
			x.t.Fatalf("there is no %s:\n%s", what, x.Screen())
		}
	}
}

// Await waits until the screen has the texts, in any order.
func (x *Terminal) Await(texts ...string) Screen {
	x.t.Helper()
	return x.Until(fmt.Sprintf("%q", texts), func(s Screen) bool {
		for _, text := range texts {
			if !strings.Contains(s.Text(), text) {
				return false
			}
		}
		return true
	})
}

// AwaitNo waits until the screen has none of the texts.
func (x *Terminal) AwaitNo(texts ...string) Screen {
	x.t.Helper()
	return x.Until(fmt.Sprintf("screen without %q", texts), func(s Screen) bool {
		for _, text := range texts {
			if strings.Contains(s.Text(), text) {
				return false
			}
		}
		return true
	})
}

// Type types a text: what a keyboard sends for its characters, with a carriage
// return for a line feed.
func (x *Terminal) Type(text string) {
	x.t.Helper()
	x.Send(strings.ReplaceAll(text, "\n", "\r"))
}

// Send sends bytes as they are.
func (x *Terminal) Send(text string) {
	x.t.Helper()
	_, err := x.pty.WriteString(text)
	require.NoError(x.t, err)
}

// Paste pastes a text as xterm does: with marks if the program wants them, and
// with carriage returns between the lines. What is pasted cannot end the marks.
func (x *Terminal) Paste(text string) {
	x.t.Helper()
	text = strings.NewReplacer("\r\n", "\r", "\n", "\r", "\x1b[201~", "").Replace(text)
	if x.Screen().Paste {
		text = "\x1b[200~" + text + "\x1b[201~"
	}
	x.Send(text)
}

// keys are what xterm sends for keys that are not characters.
var keys = map[string]string{
	"enter": "\r", "alt+enter": "\x1b\r", "tab": "\t", "shift+tab": "\x1b[Z", "esc": "\x1b", "backspace": "\x7f", "delete": "\x1b[3~",
	"up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D", "home": "\x1b[H", "end": "\x1b[F",
	"pgup": "\x1b[5~", "pgdown": "\x1b[6~", "ctrl+left": "\x1b[1;5D", "ctrl+right": "\x1b[1;5C",
}

// Key presses keys, such as "up", "ctrl+c" or "alt+b".
func (x *Terminal) Key(names ...string) {
	x.t.Helper()
	for _, name := range names {
		sent, ok := keys[name]
		switch {
		case ok:
		case len(name) == len("ctrl+c") && strings.HasPrefix(name, "ctrl+"):
			sent = string(rune(name[len(name)-1] & 0x1f))
		case len(name) == len("alt+b") && strings.HasPrefix(name, "alt+"):
			sent = "\x1b" + name[len(name)-1:]
		default:
			x.t.Fatalf("termtest knows no key %q", name)
		}
		x.Send(sent)
	}
}

// Modes returns the settings of the terminal, as stty shows them.
func (x *Terminal) Modes() *unix.Termios {
	x.t.Helper()
	return Modes(x.t, x.pty)
}

// Modes returns the settings of the terminal that a file is an end of.
func Modes(t testing.TB, end *os.File) *unix.Termios {
	t.Helper()
	conn, err := end.SyscallConn()
	require.NoError(t, err)
	var modes *unix.Termios
	var failed error
	require.NoError(t, conn.Control(func(fd uintptr) { modes, failed = unix.IoctlGetTermios(int(fd), unix.TCGETS) }))
	require.NoError(t, failed)
	return modes
}

// SetModes changes the settings of the terminal, as a shell does that has it.
func (x *Terminal) SetModes(modes *unix.Termios) {
	x.t.Helper()
	conn, err := x.pty.SyscallConn()
	require.NoError(x.t, err)
	require.NoError(x.t, conn.Control(func(fd uintptr) { err = unix.IoctlSetTermios(int(fd), unix.TCSETS, modes) }))
	require.NoError(x.t, err)
}

// Signal sends a signal to the program.
func (x *Terminal) Signal(s os.Signal) {
	x.t.Helper()
	require.NoError(x.t, x.cmd.Process.Signal(s))
}

// HangUp closes the window. The kernel tells the program by a signal.
func (x *Terminal) HangUp() { x.pty.Close() }

// Wait waits for the end of the program, as [exec.Cmd.Wait] does, and until all
// that it printed is shown. A program that does not end is killed, which is an error.
func (x *Terminal) Wait() error {
	late := time.AfterFunc(patience, func() { _ = x.cmd.Process.Kill() })
	err := x.cmd.Wait()
	late.Stop()
	<-x.done
	return err
}
