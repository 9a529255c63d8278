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
	// hostPatience is how long the program that Keep runs may take to end after
	// the host is gone.
	hostPatience = 10 * time.Second
	// keeperThreads is enough threads for the two waits of Keep, and for
	// killing.
	keeperThreads = 4
)

// Keep runs this program once more, under another name, and waits for it. When
// the program ends or is killed, the processes that it leaves become children
// of this process and are killed. Keep returns the program's exit status, or 0
// if a signal ended it.
//
// Keep is meant for a program that is confined without a PID namespace of its
// own. What the program runs can kill it with all its supervisors, but it
// cannot kill this process, which is not confined.
func Keep(name string) (status int, err error) {
	runtime.LockOSThread() // the kernel kills the program when this thread ends
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
// stdin was closed. A command may have stopped the program.
func killWithoutHost(p *os.Process) {
	stdin := []unix.PollFd{{Fd: 0}} // poll always reports a hang-up
	for stdin[0].Revents&unix.POLLHUP == 0 {
		if _, err := unix.Poll(stdin, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
	time.Sleep(hostPatience)
	_ = p.Kill()
}
