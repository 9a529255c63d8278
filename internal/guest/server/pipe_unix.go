//go:build unix

package server

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// pending returns how many bytes wait in a pipe to be read; 0 if it is closed.
func pending(pipe *os.File) (n int64) {
	conn, err := pipe.SyscallConn()
	if err != nil {
		return 0
	}
	_ = conn.Control(func(fd uintptr) {
		if waiting, err := unix.IoctlGetInt(int(fd), bytesWaiting); err == nil {
			n = int64(waiting)
		}
	})
	return n
}

// take waits until something is in a pipe, and moves what fits into buf from there to
// another place. It holds the lock meanwhile, but not while it waits: whoever has it finds
// everything in one of the two. The pipe must be one of the runtime's poller, as those of
// [os.Pipe] are.
func take(pipe *os.File, lock sync.Locker, buf []byte, to io.Writer) (n int, err error) {
	conn, err := pipe.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = conn.Read(func(fd uintptr) (done bool) {
		lock.Lock()
		defer lock.Unlock()
		for {
			if n, failed = unix.Read(int(fd), buf); !errors.Is(failed, unix.EINTR) {
				break
			}
		}
		if n > 0 {
			_, failed = to.Write(buf[:n])
		}
		return !errors.Is(failed, unix.EAGAIN)
	})
	switch {
	case err != nil:
		return 0, err
	case failed != nil:
		return 0, failed
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}
