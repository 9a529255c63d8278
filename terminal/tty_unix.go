//go:build !windows

package terminal

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// notifyResize has c get a value whenever the size of the terminal changes.
func notifyResize(c chan<- os.Signal) { signal.Notify(c, syscall.SIGWINCH) }

// enableSequences does nothing: terminals know control sequences.
func enableSequences() (restore func(), err error) { return func() {}, nil }

// stopProcess stops the process group, as Ctrl-Z does, and returns when it goes on.
// It reports false if nothing has stopped it: without a shell, nobody could
// continue it.
func stopProcess() bool {
	const wait = 300 * time.Millisecond
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if syscall.Kill(0, syscall.SIGTSTP) != nil {
		return false
	}
	select {
	case <-continued:
		return true
	case <-time.After(wait):
		return false
	}
}
