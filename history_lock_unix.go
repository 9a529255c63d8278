//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package pygent

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// historyLock keeps other histories away from a file. The kernel drops it when
// the process dies, however it dies.
type historyLock struct{ f *os.File }

// lockHistory takes the lock named by a file that exists while it is held. It
// does not wait: a lock that is taken is [ErrHistoryInUse].
func lockHistory(name string) (*historyLock, error) {
	for {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, ErrHistoryInUse
			}
			return nil, &os.PathError{Op: "lock", Path: name, Err: err}
		}
		if isFileAt(f, name) {
			return &historyLock{f: f}, nil
		}
		// Its last holder removed it after we had opened it.
		f.Close()
	}
}

// release removes the lock's file before it gives the lock up, so that nobody
// can hold a lock on a file that has no name any more.
func (l *historyLock) release() error {
	err := os.Remove(l.f.Name())
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
