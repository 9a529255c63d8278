// Package supervise runs commands in such a way that none of their descendants
// can escape.
//
// On Linux every command runs under a supervisor process of its own. The
// supervisor is the subreaper of everything that the command starts. A process
// that leaves its session, forks twice or clears its environment is still a
// descendant of the supervisor, which finds and kills it. A supervisor whose
// command left nothing behind is used again, so that a command costs one fork
// and one exec. A supervisor needs neither a fork nor a new thread to kill, so
// it can end a fork bomb even at a limit on processes. See [NewPool].
//
// The shell itself starts with its command, although that is most of what a short
// command costs. A shell that waited for its script would be a process that scripts
// see, count and kill, and it would be older than its command (ps, $SECONDS). One
// that is forked from such a shell shares its addresses and random bytes with every
// other command, and does not see programs, libraries and locales that were
// installed since.
//
// On other systems, where the system refuses this, and in processes that have
// children of their own, commands run in process groups, or on Windows in job
// objects. A process can leave a process group on purpose, but not a job
// object. See [NewGroups].
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
	Args   []string // the first one is the program's name
	Env    []string
	Dir    string
	Output *os.File // receives stdout and stderr; Start does not close it
	// Stdin and Stdout are the command's own, if both are set; Output then gets only
	// stderr. Without them stdin is empty. Start does not close them.
	Stdin, Stdout *os.File
	Script        *os.File // becomes descriptor 3 of the command, if set; Start does not close it
	// Confirm makes Start wait until the command runs, so that Start itself
	// returns the error if the command cannot be started. Without Confirm the
	// error is in Exit.
	Confirm bool
}

// Exit is how a command's first process ended.
type Exit struct {
	Code   int // the exit status; 128+n if signal n ended it; -1 if unknown
	Signal int
	Err    error // why the command could not be started
}

// Proc is a process.
type Proc = wire.Proc

// Process is a command that was started. Its methods are safe for concurrent
// use.
type Process interface {
	// Exited is closed when the command's first process has ended.
	Exited() <-chan struct{}
	// Exit tells how the first process ended. Call it only after Exited is
	// closed.
	Exit() Exit
	// Gone is closed when no descendant is left.
	Gone() <-chan struct{}
	// Stop sends TERM to all descendants and, after the grace, kills those that
	// are left. It does not wait for their end; use Gone for that. A second
	// call can only shorten the grace.
	Stop(grace time.Duration)
	// Procs returns at most limit descendants, and the number of all of them.
	Procs(limit int) (procs []Proc, count int)
}

// Supervisor starts commands.
type Supervisor interface {
	// Start starts a command. Its error matches the errors of os/exec; EAGAIN
	// means that no more processes can be started.
	Start(spec Spec) (Process, error)
	// Sure reports whether it is impossible for a descendant of a command to
	// escape.
	Sure() bool
	// Close kills everything that was started and waits until it has ended.
	Close() error
}

// Launcher calls a function that starts a process. A launcher decides on which
// thread that happens. The process inherits properties of this thread, such as
// system call filters.
type Launcher func(start func())

// directly is the launcher that calls the function on the current thread.
func directly(start func()) { start() }
