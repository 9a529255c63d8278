//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package store

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

const onWindows = false

// lockFile locks a file without waiting, for this holder alone or with others.
// The kernel releases the lock when the process dies, however it dies.
func lockFile(f *os.File, alone bool) error {
	how := unix.LOCK_SH
	if alone {
		how = unix.LOCK_EX
	}
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrInUse
	}
	return pathError("lock", f, err)
}

func unlockFile(f *os.File) error {
	return pathError("unlock", f, unix.Flock(int(f.Fd()), unix.LOCK_UN))
}

func pathError(op string, f *os.File, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: f.Name(), Err: err}
}
