package server

import (
	"os"

	"golang.org/x/sys/unix"
)

// backlog is how many connections may wait for the host to accept them. Further
// clients wait in the kernel until there is room.
const backlog = 128

// listener is a listening TCP socket. Like [socket], it does without package
// net.
type listener struct {
	*os.File
	port int
}

// listenLoopback listens on a port of 127.0.0.1, or on any free one if port is
// 0.
func listenLoopback(port int) (*listener, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	l := &listener{File: os.NewFile(uintptr(fd), "listener")}
	if err := l.open(fd, port); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

func (l *listener) open(fd, port int) error {
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return os.NewSyscallError("bind", err)
	}
	if err := unix.Listen(fd, backlog); err != nil {
		return os.NewSyscallError("listen", err)
	}
	address, err := unix.Getsockname(fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	l.port = address.(*unix.SockaddrInet4).Port
	return nil
}

// accept waits for a connection. Close ends the wait.
func (l *listener) accept() (duplex, error) {
	raw, err := l.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	var failed error
	err = raw.Read(func(listening uintptr) bool {
		for {
			fd, _, failed = unix.Accept4(int(listening), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
			if failed != unix.EINTR && failed != unix.ECONNABORTED {
				return failed != unix.EAGAIN
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, os.NewSyscallError("accept", failed)
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	return &socket{os.NewFile(uintptr(fd), "socket")}, nil
}
