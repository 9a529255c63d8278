package store

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

const onWindows = true

// farAway is one byte far beyond the end of any file, since others cannot read
// the locked part of a file.
func farAway() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1 << 30} }

// lockFile locks a file without waiting, for this holder alone or with others.
func lockFile(f *os.File, alone bool) error {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if alone {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, farAway())
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		err = ErrInUse
	}
	return pathError("lock", f, err)
}

func unlockFile(f *os.File) error {
	return pathError("unlock", f, windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, farAway()))
}

func pathError(op string, f *os.File, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: f.Name(), Err: err}
}
