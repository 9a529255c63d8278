package supervise

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/x/pygent/internal/guest/wire"
)

// WorkerName is the name (argv[0]) under which a program that uses [NewPool]
// starts itself as a supervisor. Under that name, its main function must call
// [Worker] before anything else.
const WorkerName = "pygent-supervisor"

const (
	// killPatience is how long killing is tried while somebody waits for it.
	killPatience = 3 * time.Second
	// reapPause is the longest time that a dead descendant waits to be reaped.
	// Most are reaped at once, because their end interrupts the wait. It can
	// happen just before the wait begins, and is then missed.
	reapPause = 50 * time.Millisecond
	// The pause between two attempts to kill doubles from the first to the
	// second of these.
	minKillPause = 200 * time.Microsecond
	maxKillPause = 10 * time.Millisecond
)

// worker is the supervisor process itself. It runs one command at a time and is
// the subreaper of everything that the command starts. It is a single loop in a
// single goroutine, because its threads count against the limit on processes of
// what it supervises.
type worker struct {
	link *link
	null *os.File

	root     int       // the command's first process; 0 once it is reaped
	pidfd    int       // readable when that process ends; -1 if there is none
	busy     bool      // a descendant may still be alive
	stopping bool      // the command is being ended
	killAt   time.Time // when the next attempt to kill is due, if stopping
	pause    time.Duration
}

// Worker is the main function of a supervisor. It returns when the pool has
// closed the socket and no process of its commands is left.
func Worker() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	preferForOOM()
	Harden()
	unix.CloseOnExec(workerSocket)
	socket, err := newLink(workerSocket, true)
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	w := &worker{link: socket, null: null, pidfd: -1}
	_ = socket.send(eventReady, nil) // if this fails, so does the first wait
	for w.wait() && w.obey() {
		w.reap()
		w.advance()
	}
	killTree(unix.Getpid(), nil, killPatience, reapAny)
	return nil
}

// preferForOOM makes the kernel prefer to kill a command, and not PID 1 of the
// container, when memory runs out. Commands inherit the setting.
func preferForOOM() {
	if os.Getppid() == 1 {
		_ = os.WriteFile("/proc/self/oom_score_adj", []byte("300"), 0)
	}
}

// Threads makes n idle threads. The Go runtime aborts the program if it needs a
// new thread and cannot have one, which is likely under a fork bomb. It never
// gives up threads that it has.
func Threads(n int) {
	var started, done sync.WaitGroup
	started.Add(n)
	for range n {
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			started.Done()
			started.Wait()
		})
	}
	done.Wait()
}

// wait waits for an order, the end of a child, or the next time at which
// something is due. It reports false when the worker must end. The end of a
// child interrupts the wait.
func (w *worker) wait() bool {
	fds := []unix.PollFd{{Fd: workerSocket, Events: unix.POLLIN}, {Fd: int32(w.pidfd), Events: unix.POLLIN}}
	var timeout *unix.Timespec
	if w.busy {
		pause := reapPause
		if w.stopping {
			pause = min(pause, max(time.Until(w.killAt), 0))
		}
		spec := unix.NsecToTimespec(int64(pause))
		timeout = &spec
	}
	_, err := unix.Ppoll(fds, timeout, nil)
	return err == nil || errors.Is(err, unix.EINTR)
}

// obey handles an order if there is one. It reports whether more orders can
// come.
func (w *worker) obey() bool {
	ready := []unix.PollFd{{Fd: workerSocket, Events: unix.POLLIN}}
	if n, err := unix.Poll(ready, 0); n == 0 || err != nil {
		return true
	}
	kind, payload, fds, err := w.link.receive()
	if err != nil {
		return false
	}
	switch kind {
	case orderRun:
		w.run(payload, fds)
	case orderStop:
		w.stop(payload)
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
	return true
}

// run starts a command. The pool gives a supervisor only one command at a time.
func (w *worker) run(payload []byte, fds []int) {
	o := &order{}
	if wire.Decode(payload, o) != nil || len(fds) != 1+2*boolInt(o.streams)+boolInt(o.script) {
		_ = w.link.send(eventFailed, &number{int(unix.EINVAL)})
		return
	}
	files := []uintptr{w.null.Fd(), uintptr(fds[0]), uintptr(fds[0])}
	if o.streams {
		files[0], files[1] = uintptr(fds[1]), uintptr(fds[2])
	}
	if o.script {
		files = append(files, uintptr(fds[len(fds)-1]))
	}
	pid, err := syscall.ForkExec(o.path, o.args, &syscall.ProcAttr{
		Dir: o.dir, Env: o.env, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true, PidFD: &w.pidfd},
	})
	if err != nil {
		w.pidfd = -1
		var errno unix.Errno
		if !errors.As(err, &errno) {
			errno = unix.EINVAL
		}
		_ = w.link.send(eventFailed, &number{int(errno)})
		return
	}
	w.root, w.busy, w.stopping = pid, true, false
	if o.confirm {
		_ = w.link.send(eventStarted, nil)
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// reap reaps dead descendants; those that lost their parent have become
// children of this process. It reports the end of the first process and of the
// last one to the pool, in a single message if both are found at once.
func (w *worker) reap() {
	if !w.busy {
		return
	}
	var ended *exited
	for w.busy {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOHANG, nil)
		if pid == 0 && err == nil {
			break
		}
		if err != nil {
			w.busy = errors.Is(err, unix.EINTR) // any other error means that no child is left
			continue
		}
		if pid == w.root {
			ended = &exited{exit: exitOf(status)}
			w.forgetRoot()
		}
	}
	switch {
	case ended != nil:
		ended.gone = !w.busy
		_ = w.link.send(eventExited, ended)
	case !w.busy:
		_ = w.link.send(eventGone, nil)
	}
}

func (w *worker) forgetRoot() {
	w.root = 0
	if w.pidfd >= 0 {
		unix.Close(w.pidfd)
		w.pidfd = -1
	}
}

// stop begins to end the running command, or shortens the grace.
func (w *worker) stop(payload []byte) {
	s := &stop{}
	if wire.Decode(payload, s) != nil || !w.busy {
		return
	}
	killAt := time.Now().Add(s.grace)
	if w.stopping {
		if killAt.Before(w.killAt) {
			w.killAt = killAt
		}
		return
	}
	w.stopping, w.killAt, w.pause = true, killAt, minKillPause
	if s.grace > 0 {
		termTree(unix.Getpid())
	}
}

// advance kills what is left once the grace is over, repeatedly until nothing
// is left.
func (w *worker) advance() {
	for w.busy && w.stopping && !time.Now().Before(w.killAt) {
		killPass(unix.Getpid(), nil)
		w.killAt = time.Now().Add(w.pause)
		w.pause = min(2*w.pause, maxKillPause)
		w.reap()
	}
}

// reapAny reaps dead children.
func reapAny() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WALL|unix.WNOHANG, nil)
		if pid <= 0 && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

func exitOf(status unix.WaitStatus) Exit {
	if status.Signaled() {
		return Exit{Code: 128 + int(status.Signal()), Signal: int(status.Signal())}
	}
	return Exit{Code: status.ExitStatus()}
}
