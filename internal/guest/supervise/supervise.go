// Package supervise runs commands so that none of their descendants gets away.
//
// On Linux every command runs under a supervisor process of its own, which is
// the subreaper of whatever the command starts: a process that leaves its
// session, forks twice or clears its environment is still a descendant of the
// supervisor, and is found and killed through it. Supervisors whose command
// left nothing behind are used again, so that a command costs one fork and
// exec. A supervisor needs neither a fork nor a new thread to kill, and so
// ends fork bombs from under a limit of processes. See [NewPool].
//
// Elsewhere, where the system refuses that, and inside processes that have
// children of their own, commands run in process groups, which a determined
// process can leave, and on Windows in job objects, which it cannot. See
// [NewGroups].
package supervise

import (
	"errors"
	"os"
	"time"

	"github.com/x/pygent/internal/guest/wire"
)

// ErrClosed is returned by a supervisor after Close.
var ErrClosed = errors.New("the supervisor is closed")

// Spec is a command to start.
type Spec struct {
	Path   string   // absolute path of the program
	Args   []string // with the program's name as the first
	Env    []string
	Dir    string
	Output *os.File // takes both streams; Start does not close it
	Script *os.File // descriptor 3 of the command, if any; Start does not close it
	// Confirm has Start wait until the command runs, so that it returns the
	// error where it cannot be started. Without it, the error is in Exit.
	Confirm bool
}

// Exit is how a command's first process ended.
type Exit struct {
	Code   int // its status; 128+n when signal n ended it; -1 when nobody knows
	Signal int
	Err    error // why the command could not be started
}

// Proc is a process.
type Proc = wire.Proc

// Process is a command that was started. Its methods may be called from any
// goroutine.
type Process interface {
	// Exited is closed when the command's first process has ended.
	Exited() <-chan struct{}
	// Exit tells how it ended. It is to be called after Exited is closed.
	Exit() Exit
	// Gone is closed when no descendant is left.
	Gone() <-chan struct{}
	// Stop sends TERM to all descendants and, after the grace, kills what is
	// left. It does not wait: watch Gone. A second call can only shorten the
	// grace.
	Stop(grace time.Duration)
	// Procs returns the number of descendants and at most limit of them.
	Procs(limit int) (procs []Proc, count int)
}

// Supervisor starts commands.
type Supervisor interface {
	// Start starts a command. The error matches those of os/exec; EAGAIN means
	// that no more processes can be started.
	Start(spec Spec) (Process, error)
	// Sure reports whether no descendant of a command can get away.
	Sure() bool
	// Close kills everything that was started and waits until it is gone.
	Close() error
}

// Launcher runs a function that starts a process. What the process inherits
// from the thread that starts it, such as filters of system calls, is the
// launcher's to decide.
type Launcher func(start func())

// directly is the launcher that decides nothing.
func directly(start func()) { start() }
