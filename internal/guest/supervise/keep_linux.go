package supervise

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// hostPatience is how long a program that is kept may take to end after its
	// host is gone.
	hostPatience = 10 * time.Second
	// keeperThreads suffice for the two waits of Keep, and for killing.
	keeperThreads = 4
)

// Keep runs this program once more, by another name, and waits for it. What that
// leaves behind when it ends, or is killed, becomes a child of this process and
// is killed. Keep returns the program's exit status, or 0 after a signal.
//
// It is for a program that is confined without a namespace of its own: what it
// runs can kill it with all its supervisors, but not this process, which is not
// confined.
func Keep(name string) (status int, err error) {
	runtime.LockOSThread() // the program is killed when this thread ends
	Harden()
	Threads(keeperThreads)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, os.NewSyscallError("prctl", err)
	}
	p, err := os.StartProcess("/proc/self/exe", []string{name}, &os.ProcAttr{
		Env:   os.Environ(),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL},
	})
	if err != nil {
		return 0, err
	}
	go killWithoutHost(p)
	state, err := p.Wait()
	if left := killTree(unix.Getpid(), nil, killPatience, reapAny); left > 0 {
		err = errors.Join(err, errors.New("some processes could not be killed"))
	}
	if err != nil {
		return 0, err
	}
	return max(state.ExitCode(), 0), nil
}

// killWithoutHost kills a program that does not end although the other end of
// stdin was closed. A command may have stopped it.
func killWithoutHost(p *os.Process) {
	stdin := []unix.PollFd{{Fd: 0}} // a hang-up is always reported
	for stdin[0].Revents&unix.POLLHUP == 0 {
		if _, err := unix.Poll(stdin, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
	time.Sleep(hostPatience)
	_ = p.Kill()
}
