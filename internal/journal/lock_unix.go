//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package journal

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// nameLock is the lock on a name: a file that exists while it is held. The
// kernel drops it when the process dies, however it dies.
type nameLock struct{ f *os.File }

func lockName(name string) (*nameLock, error) {
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := lockFile(f); err != nil {
			f.Close()
			return nil, err
		}
		if isFileAt(f, name) {
			return &nameLock{f: f}, nil
		}
		// Its last holder removed it after we had opened it.
		f.Close()
	}
}

// Close removes the lock's file before it gives the lock up, so that nobody
// can hold a lock on a file that has no name any more.
func (l *nameLock) Close() error {
	var err error
	if isFileAt(l.f, l.f.Name()) {
		err = os.Remove(l.f.Name())
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, l.f.Close())
}

func isFileAt(f *os.File, name string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(name)
	return err == nil && os.SameFile(opened, named)
}

func lockFile(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return ErrInUse
	case err != nil:
		return &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return nil
}
