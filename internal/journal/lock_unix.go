//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package journal

import (
	"errors"
	"io/fs"
	"os"

	"github.com/x/pygent/internal/filelock"
)

// nameLock locks a name by a locked file of that name, which exists while the
// lock is held. The kernel releases it when the process dies, however it dies.
type nameLock struct {
	f    *os.File
	at   namespace
	name string
}

func lockName(at namespace, name string) (*nameLock, error) {
	for {
		f, err := at.open(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := lockFile(f); err != nil {
			f.Close()
			return nil, err
		}
		l := &nameLock{f: f, at: at, name: name}
		named, err := l.isNamed()
		if err != nil {
			return nil, errors.Join(err, filelock.Close(f))
		}
		if named {
			return l, nil
		}
		// The last holder removed the file after we had opened it.
		filelock.Close(f)
	}
}

// Close removes the lock's file before it releases the lock, so that nobody can
// hold a lock on a file that has no name any more.
func (l *nameLock) Close() error {
	named, err := l.isNamed()
	if named {
		err = l.at.remove(l.name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, filelock.Close(l.f))
}

// isNamed reports whether the lock's file still has the lock's name.
func (l *nameLock) isNamed() (bool, error) {
	opened, err := l.f.Stat()
	if err != nil {
		return false, err
	}
	named, err := l.at.stat(l.name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil && named.Mode()&fs.ModeSymlink != 0 {
		err = &fs.PathError{Op: "lock", Path: l.name, Err: errors.New("a link is in its place")}
	}
	if err != nil {
		return false, err
	}
	return os.SameFile(opened, named), nil
}
