package pygent

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// historyLock keeps other histories away from a file. The system drops it when
// the process dies, however it dies.
type historyLock struct{ f *os.File }

// lockHistory takes the lock named by a file that exists while it is held. It
// does not wait: a lock that is taken is [ErrHistoryInUse].
func lockHistory(name string) (*historyLock, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	if err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, new(windows.Overlapped)); err != nil {
		f.Close()
		if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
			return nil, ErrHistoryInUse
		}
		return nil, &os.PathError{Op: "lock", Path: name, Err: err}
	}
	return &historyLock{f: f}, nil
}

// release gives the lock up and removes its file, unless another process has
// opened that already: Windows refuses the removal then.
func (l *historyLock) release() error {
	err := l.f.Close()
	_ = os.Remove(l.f.Name())
	return err
}
