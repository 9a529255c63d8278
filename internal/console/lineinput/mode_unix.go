//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package lineinput

import (
	"fmt"
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// Mode is a terminal that passes on each key, until it is closed.
type Mode struct {
	fd            int
	before, after unix.Termios

	continued chan os.Signal // gets SIGCONT
	done      chan struct{}
	wg        sync.WaitGroup
}

// Open makes a terminal pass on each key as it is typed, without echo. Keys such
// as Ctrl-C keep their meaning.
func Open(terminal *os.File) (*Mode, error) {
	fd := int(terminal.Fd())
	before, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, fmt.Errorf("read the terminal's mode: %w", err)
	}
	m := &Mode{fd: fd, before: *before, after: *before, continued: make(chan os.Signal, 1), done: make(chan struct{})}
	m.after.Lflag &^= unix.ICANON | unix.ECHO
	m.after.Cc[unix.VMIN], m.after.Cc[unix.VTIME] = 1, 0
	if err := m.Resume(); err != nil {
		return nil, err
	}
	// While the process is suspended, the shell sets a mode of its own.
	signal.Notify(m.continued, unix.SIGCONT)
	m.wg.Go(m.watch)
	return m, nil
}

// watch sets the mode again whenever the process is continued.
func (m *Mode) watch() {
	for {
		select {
		case <-m.continued:
			// If this fails, the terminal is gone, and the next read fails too.
			_ = m.Resume()
		case <-m.done:
			return
		}
	}
}

// Suspend gives the terminal its earlier mode back, for another program that
// uses it for a while.
func (m *Mode) Suspend() error { return m.set(&m.before) }

// Resume sets the mode again after Suspend.
func (m *Mode) Resume() error { return m.set(&m.after) }

// Close gives the terminal its earlier mode back.
func (m *Mode) Close() error {
	signal.Stop(m.continued)
	close(m.done)
	m.wg.Wait()
	return m.Suspend()
}

func (m *Mode) set(mode *unix.Termios) error {
	if err := unix.IoctlSetTermios(m.fd, setTermios, mode); err != nil {
		return fmt.Errorf("set the terminal's mode: %w", err)
	}
	return nil
}
