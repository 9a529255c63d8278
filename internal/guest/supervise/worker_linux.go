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
// starts itself as a supervisor. Its main function must call [Worker] then,
// before anything else.
const WorkerName = "pygent-supervisor"

// How hard a supervisor tries to kill.
const (
	killPatience = 3 * time.Second
	gracePoll    = 2 * time.Millisecond
)

// worker is a supervisor: it runs one command at a time and owns whatever the
// command starts.
type worker struct {
	link    *link
	null    *os.File
	killing sync.WaitGroup // the goroutine that ends the current command

	mu       sync.Mutex // guards what follows, and sending
	root     int        // the command's first process; 0 when it has ended
	busy     bool       // a descendant may be left
	deadline time.Time  // when the current stop begins to kill
	stopping bool
	gone     chan struct{} // closed when the current command has no descendant
}

// Worker is the main function of a supervisor. It returns when the pool
// closed the socket, with nothing of its commands left.
func Worker() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	preferForOOM()
	Harden()
	Threads(3)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	socket, err := newLink(workerSocket, true)
	if err != nil {
		return err
	}
	unix.CloseOnExec(workerSocket)
	w := &worker{link: socket, null: null}
	for {
		kind, payload, fds, err := w.link.receive()
		if err != nil {
			w.end()
			return nil
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
	}
}

// Harden keeps other processes of the same user from looking into this one
// and from tracing it.
func Harden() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// preferForOOM has the kernel, short of memory, kill a command rather than
// PID 1 of the container. Commands inherit it.
func preferForOOM() {
	if os.Getppid() == 1 {
		_ = os.WriteFile("/proc/self/oom_score_adj", []byte("300"), 0)
	}
}

// Threads makes n threads that wait for work. The Go runtime aborts when it
// needs a thread and cannot have one, which under a fork bomb is the rule; it
// never gives up threads it has.
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

// run starts a command. The pool gives a supervisor one at a time.
func (w *worker) run(payload []byte, fds []int) {
	o := &order{}
	if err := wire.Decode(payload, o); err != nil {
		w.fail(unix.EINVAL)
		return
	}
	files := []uintptr{w.null.Fd()}
	for _, fd := range fds {
		files = append(files, uintptr(fd))
		if len(files) == 2 {
			files = append(files, uintptr(fd)) // stdout and stderr are one
		}
	}
	if len(files) < 3 || o.script != (len(files) == 4) {
		w.fail(unix.EBADF)
		return
	}
	// Who ends the last command must not see the next one.
	w.killing.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	pid, err := syscall.ForkExec(o.path, o.args, &syscall.ProcAttr{
		Dir: o.dir, Env: o.env, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		var errno unix.Errno
		if !errors.As(err, &errno) {
			errno = unix.EINVAL
		}
		_ = w.link.send(eventFailed, &number{int(errno)})
		return
	}
	w.root, w.busy, w.stopping = pid, true, false
	w.gone = make(chan struct{})
	_ = w.link.send(eventStarted, &number{pid})
	go w.reap()
}

func (w *worker) fail(errno unix.Errno) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.link.send(eventFailed, &number{int(errno)})
}

// reap waits for every descendant: those that lost their parents have become
// children of this process.
func (w *worker) reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WALL, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			w.finish()
			return
		}
		if !w.reaped(pid, status) {
			return // The next command may have begun: nothing here is ours now.
		}
	}
}

// reaped notes the end of a process and reports whether others are left.
func (w *worker) reaped(pid int, status unix.WaitStatus) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if pid != w.root {
		return true
	}
	w.root = 0
	// Whether it was the last one is asked now, to tell it in one message.
	var last unix.WaitStatus
	for {
		pid, err := unix.Wait4(-1, &last, unix.WALL|unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) || pid > 0 {
			continue
		}
		w.busy = err == nil
		break
	}
	_ = w.link.send(eventExited, &exited{exit: exitOf(status), gone: !w.busy})
	if !w.busy {
		close(w.gone)
	}
	return w.busy
}

// finish tells that no descendant is left.
func (w *worker) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = false
	_ = w.link.send(eventGone, nil)
	close(w.gone)
}

// stop ends what runs. It returns at once, so that a later order can shorten
// the grace.
func (w *worker) stop(payload []byte) {
	s := &stop{}
	if wire.Decode(payload, s) != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.busy {
		return
	}
	deadline := time.Now().Add(s.grace)
	if w.stopping {
		if deadline.Before(w.deadline) {
			w.deadline = deadline
		}
		return
	}
	w.stopping, w.deadline = true, deadline
	gone := w.gone
	w.killing.Go(func() { w.terminate(gone) })
}

// terminate asks all descendants to end, then makes them.
func (w *worker) terminate(gone <-chan struct{}) {
	if w.graceLeft() > 0 {
		signalTree(unix.Getpid(), unix.SIGTERM, nil)
	}
	for w.graceLeft() > 0 {
		select {
		case <-gone:
			return
		case <-time.After(min(w.graceLeft(), gracePoll)):
		}
	}
	for {
		if killTree(unix.Getpid(), nil, killPatience, nil) == 0 {
			return
		}
		select {
		case <-gone:
			return
		default:
		}
	}
}

func (w *worker) graceLeft() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Until(w.deadline)
}

// end kills everything before the supervisor itself ends.
func (w *worker) end() {
	killTree(unix.Getpid(), nil, killPatience, func() {
		var status unix.WaitStatus
		for {
			pid, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOHANG, nil)
			if pid <= 0 && !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
}

func exitOf(status unix.WaitStatus) Exit {
	if status.Signaled() {
		return Exit{Code: 128 + int(status.Signal()), Signal: int(status.Signal())}
	}
	return Exit{Code: status.ExitStatus()}
}
