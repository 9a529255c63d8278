package setid

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Guard is a thread under the filter, together with the code that answers the
// calls that the filter hands over. Only processes started by that thread are
// under the filter.
type Guard struct {
	level  Level
	work   chan func()
	ended  chan struct{} // closed when the thread has ended
	notify *listener     // nil if the filter refuses the calls instead

	once   sync.Once
	closed error
}

// Start makes a guard. The error matches [ErrUnsupported] if the kernel refuses
// the filter. A user without CAP_SYS_ADMIN must set no_new_privs first.
func Start() (*Guard, error) {
	g := &Guard{work: make(chan func()), ended: make(chan struct{})}
	ready := make(chan error)
	go g.thread(ready)
	if err := <-ready; err != nil {
		<-g.ended
		return nil, err
	}
	return g, nil
}

// Level returns what happens to the bits.
func (g *Guard) Level() Level { return g.level }

// Do runs f on the thread, and returns when f has returned. Processes that f
// starts, and their descendants, are under the filter.
func (g *Guard) Do(f func()) {
	done := make(chan struct{})
	g.work <- func() {
		defer close(done)
		f()
	}
	<-done
}

// Close ends the thread. Calls that the filter hands over later fail. Do must
// not be called after Close.
func (g *Guard) Close() error {
	g.once.Do(func() {
		close(g.work)
		<-g.ended
		if g.notify != nil {
			g.closed = g.notify.close()
		}
	})
	return g.closed
}

// thread installs the filter on a new thread, and runs functions on it. The
// thread ends together with the goroutine, because the goroutine stays locked
// to it.
func (g *Guard) thread(ready chan<- error) {
	defer close(g.ended)
	runtime.LockOSThread()
	err := g.install()
	ready <- err
	if err != nil {
		return
	}
	for f := range g.work {
		f()
	}
}

// install installs the best filter that the kernel accepts.
func (g *Guard) install() error {
	if self, able := standIn(); able {
		for _, flags := range []uintptr{unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, 0} {
			fd, err := filter(retNotify, flags|unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
			if err != nil {
				continue
			}
			if g.notify, err = newListener(fd); err != nil {
				return err
			}
			g.level = Stripped
			g.notify.start(&deputy{self: self, notify: g.notify})
			return nil
		}
	}
	if _, err := filter(retErrno|errPerm, 0); err != nil {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	g.level = Refused
	return nil
}

// standIn reports whether this process can make calls in place of a command,
// and returns its own identity. It needs openat2, to stay where the command may
// go. It also needs the /proc of its own PID namespace, so that thread ids from
// the kernel are the same as in /proc.
func standIn() (self identity, able bool) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", how)
	if err != nil {
		return self, false
	}
	unix.Close(fd)
	pid := os.Getpid()
	if link, err := os.Readlink("/proc/self"); err != nil || link != strconv.Itoa(pid) {
		return self, false
	}
	self, err = identify(pid)
	return self, err == nil
}

// filter installs the filter on this thread and returns its listener, if flags
// ask for one.
func filter(trap uint32, flags uintptr) (int, error) {
	instructions, err := program(runtime.GOARCH, trap)
	if err != nil {
		return -1, err
	}
	raw, err := bpf.Assemble(instructions)
	if err != nil {
		return -1, err
	}
	code := make([]unix.SockFilter, 0, len(raw))
	for _, r := range raw {
		code = append(code, unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K})
	}
	prog := &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(prog)))
	runtime.KeepAlive(code)
	if errno != 0 {
		return -1, os.NewSyscallError("seccomp", errno)
	}
	return int(fd), nil
}
