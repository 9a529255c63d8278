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

// notifyContinued has c get a value whenever the process goes on after a stop.
func notifyContinued(c chan<- os.Signal) { signal.Notify(c, syscall.SIGCONT) }

// notifyStopped has c get a value when the process is to be stopped by a signal that
// it may handle.
func notifyStopped(c chan<- os.Signal) { signal.Notify(c, syscall.SIGTSTP) }

// notifyQuit has c get a value when the process is to die with a report.
func notifyQuit(c chan<- os.Signal) { signal.Notify(c, syscall.SIGQUIT) }

// quitProcess has the process die with a report of its goroutines.
func quitProcess() { _ = syscall.Kill(os.Getpid(), syscall.SIGQUIT) }

// stopProcess stops the process group, as Ctrl-Z does, and returns when it goes on.
// It reports false if nothing has stopped it: without a shell, nobody could
// continue it. The signal is SIGTTIN, which the kernel treats like SIGTSTP, because
// the Go runtime never lets SIGTSTP stop the process again after notifyStopped.
func stopProcess() bool {
	const (
		wait  = 50 * time.Millisecond
		waits = 6 // time goes on while the process is stopped, so that one of them may be over at once then
	)
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if syscall.Kill(0, syscall.SIGTTIN) != nil {
		return false
	}
	for range waits {
		select {
		case <-continued:
			return true
		case <-time.After(wait):
		}
	}
	return false
}
