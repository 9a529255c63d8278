package journal

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// nameLock locks a name by a locked file of that name, which exists while the
// lock is held. The system releases it when the process dies, however it dies.
type nameLock struct {
	f    *os.File
	at   namespace
	name string
}

func lockName(at namespace, name string) (*nameLock, error) {
	f, err := at.open(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		f.Close()
		return nil, err
	}
	return &nameLock{f: f, at: at, name: name}, nil
}

// Close releases the lock and removes its file. Windows refuses the removal if
// another process has opened the file already; then the file stays.
func (l *nameLock) Close() error {
	err := l.f.Close()
	_ = l.at.remove(l.name)
	return err
}

// lockFile locks one byte far beyond the end of any file, since others cannot
// read the locked part of a file.
func lockFile(f *os.File) error {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	far := &windows.Overlapped{OffsetHigh: 1 << 30}
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, far)
	switch {
	case errors.Is(err, windows.ERROR_LOCK_VIOLATION):
		return ErrInUse
	case err != nil:
		return &os.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return nil
}
