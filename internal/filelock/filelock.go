// Package filelock locks open files, so that processes, and several holders in one
// process, keep out of each other's way. A lock is that of the open file: [Close]
// releases it, and so does the system when the process dies, however it dies. Nothing
// waits.
//
// Systems that have no such lock grant every one.
package filelock

import (
	"errors"
	"os"
)

// ErrHeld is the error for a file that somebody else has locked.
var ErrHeld = errors.New("in use")

// Lock locks a file for this holder alone. The error matches [ErrHeld] if anybody else
// has locked it.
func Lock(f *os.File) error { return pathError("lock", f, lock(f, true)) }

// Share locks a file together with others that share it. The error matches [ErrHeld] if
// somebody has locked it alone.
func Share(f *os.File) error { return pathError("lock", f, lock(f, false)) }

// Unlock releases the lock of a file that stays open.
func Unlock(f *os.File) error { return pathError("unlock", f, unlock(f)) }

// Close closes a file and releases its lock at once. Closing alone may release the lock
// a moment later, because a child that is being started has all open files of its
// parent until it becomes another program.
func Close(f *os.File) error {
	_ = Unlock(f) // if that fails, closing it is what there is
	return f.Close()
}

func pathError(op string, f *os.File, err error) error {
	if err == nil {
		return nil
	}
	return &os.PathError{Op: op, Path: f.Name(), Err: err}
}
