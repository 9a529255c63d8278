package setid

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call is a system call that waits for an answer (struct seccomp_notif).
type call struct {
	id     uint64
	thread uint32 // id of the caller's thread in this process's PID namespace; 0 if it is not visible
	flags  uint32
	nr     int32
	arch   uint32
	ip     uint64
	args   [6]uint64
}

// answer is struct seccomp_notif_resp. Its flags are always 0. Another value
// could make the kernel continue the original call, whose arguments in memory
// the caller may have changed since.
type answer struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// listener receives the calls, one after the other.
type listener struct {
	file    *os.File
	raw     syscall.RawConn
	in, out []byte // what the kernel reads and writes, in the kernel's own sizes
	served  sync.WaitGroup
}

// errStopped means that the listener had stopped early, so that calls were
// refused since then.
var errStopped = errors.New("the listener for system calls had stopped")

// newListener takes ownership of the descriptor. Waiting for it does not block
// a thread.
func newListener(fd int) (*listener, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	l := &listener{file: os.NewFile(uintptr(fd), "seccomp")}
	var sizes struct{ notif, resp, data uint16 }
	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, uintptr(unsafe.Pointer(&sizes)))
	raw, err := l.file.SyscallConn()
	if errno != 0 {
		err = os.NewSyscallError("seccomp", errno)
	}
	if err != nil {
		return nil, errors.Join(err, l.file.Close())
	}
	l.raw = raw
	l.in = make([]byte, max(uintptr(sizes.notif), unsafe.Sizeof(call{})))
	l.out = make([]byte, max(uintptr(sizes.resp), unsafe.Sizeof(answer{})))
	return l, nil
}

// start makes d answer calls until the listener is closed. If the listener
// fails, start closes it, so that no caller waits for an answer that never
// comes.
func (l *listener) start(d *deputy) {
	l.served.Go(func() {
		defer l.file.Close()
		for {
			c, err := l.receive()
			if err != nil {
				return
			}
			d.answer(c)
		}
	})
}

// close ends the wait for calls. Pending and later calls fail.
func (l *listener) close() error {
	err := l.file.Close()
	l.served.Wait()
	if errors.Is(err, os.ErrClosed) {
		return errStopped
	}
	return err
}

// receive waits for the next call.
func (l *listener) receive() (call, error) {
	for {
		received := false
		err := l.raw.Read(func(fd uintptr) bool {
			// Receiving would block if no call is pending, so check first.
			ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			if n, err := unix.Poll(ready, 0); err != nil || n == 0 || ready[0].Revents&unix.POLLIN == 0 {
				return errors.Is(err, unix.EINTR)
			}
			clear(l.in)
			_, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&l.in[0])))
			received = errno == 0
			return true
		})
		if err != nil {
			return call{}, err
		}
		if received {
			return *(*call)(unsafe.Pointer(&l.in[0])), nil
		}
		// The caller was killed, or a signal came in between.
	}
}

// send answers a call. The caller may be gone already.
func (l *listener) send(a answer) {
	clear(l.out)
	*(*answer)(unsafe.Pointer(&l.out[0])) = a
	_, _ = l.control(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&l.out[0]))
}

// errnoOf returns the error number of err, 0 for nil.
func errnoOf(err error) unix.Errno {
	var errno unix.Errno
	if err != nil && !errors.As(err, &errno) {
		return unix.EPERM
	}
	return errno
}

// grant is struct seccomp_notif_addfd.
type grant struct {
	id       uint64
	flags    uint32
	source   uint32
	target   uint32
	newFlags uint32
}

// give answers a call with a copy of an open descriptor. Kernels before 5.14
// need two steps for it: one for the descriptor, one for the answer.
func (l *listener) give(id uint64, fd int, closeOnExec bool) error {
	g := &grant{id: id, flags: unix.SECCOMP_ADDFD_FLAG_SEND, source: uint32(fd)}
	if closeOnExec {
		g.newFlags = unix.O_CLOEXEC
	}
	_, err := l.control(unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(g))
	if err != unix.EINVAL {
		return err
	}
	g.flags = 0
	theirs, err := l.control(unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(g))
	if err == nil {
		l.send(answer{id: id, value: int64(theirs)})
	}
	return err
}

// waits reports whether a call still waits for its answer. If it does, its
// thread still is the one that made the call.
func (l *listener) waits(id uint64) bool {
	_, err := l.control(unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id))
	return err == nil
}

func (l *listener) control(request uintptr, arg unsafe.Pointer) (int, error) {
	var n uintptr
	var errno unix.Errno
	err := l.raw.Control(func(fd uintptr) {
		n, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(arg))
	})
	if err == nil && errno != 0 {
		err = errno
	}
	return int(n), err
}
