package server

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// socket is a connected TCP socket. Package net is not used, because its dialer
// includes a resolver, which would be a sixth of the guest's program.
type socket struct{ *os.File }

// dialLoopback connects to a port of this machine by IPv4, or by IPv6 if that
// fails. If both fail, it returns the error of IPv4.
func dialLoopback(ctx context.Context, port int) (duplex, error) {
	conn, err := connect(ctx, unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
	if err == nil {
		return conn, nil
	}
	conn, err6 := connect(ctx, unix.AF_INET6, &unix.SockaddrInet6{Port: port, Addr: [16]byte{15: 1}})
	if err6 != nil {
		return nil, fmt.Errorf("127.0.0.1:%d: %w", port, err)
	}
	return conn, nil
}

func connect(ctx context.Context, family int, address unix.Sockaddr) (*socket, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	// Package net sets this option too: small writes are sent at once.
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	err = unix.Connect(fd, address)
	if err != nil && err != unix.EINPROGRESS && err != unix.EINTR {
		unix.Close(fd)
		return nil, os.NewSyscallError("connect", err)
	}
	s := &socket{os.NewFile(uintptr(fd), "socket")}
	if err == nil {
		return s, nil
	}
	if err := s.await(ctx); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// await waits until the connection is established.
func (s *socket) await(ctx context.Context) error {
	if err := s.SetWriteDeadline(time.Now().Add(dialPatience)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = s.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	err = raw.Write(func(fd uintptr) bool {
		var done bool
		done, result = connected(int(fd))
		return done
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return err
	case result != nil:
		return os.NewSyscallError("connect", result)
	default:
		return s.SetWriteDeadline(time.Time{})
	}
}

// connected reports whether the attempt to connect is over, and its error.
func connected(fd int) (done bool, err error) {
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return true, err
	}
	if code != 0 {
		return true, unix.Errno(code)
	}
	// No error may also mean that there is no result yet.
	_, err = unix.Getpeername(fd)
	return err != unix.ENOTCONN, err
}

// CloseWrite implements [duplex].
func (s *socket) CloseWrite() error {
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := raw.Control(func(fd uintptr) { result = unix.Shutdown(int(fd), unix.SHUT_WR) }); err != nil {
		return err
	}
	return os.NewSyscallError("shutdown", result)
}
