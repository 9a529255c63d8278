package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/x/pygent/internal/filelock"
)

// Disk is the file system that a journal is kept on. It is [System], one made by
// [Within], or in tests one in memory that can fail. Its errors are those of
// package os.
type Disk interface {
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	Stat(name string) (fs.FileInfo, error)
	SameFile(a, b fs.FileInfo) bool
	MkdirAll(dir string) error
	Link(old, new string) error
	Rename(old, new string) error
	Remove(name string) error
	// SyncDir puts the names in a directory on stable storage.
	SyncDir(dir string) error
	// Lock takes the lock with the given name without waiting. If it is held
	// already, the error is [ErrInUse].
	Lock(name string) (io.Closer, error)
}

// File is an open file of a [Disk].
type File interface {
	io.Reader
	io.ReaderAt
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
	Stat() (fs.FileInfo, error)
	// Lock locks the file itself, under all its names, until it is closed. If it
	// is locked already, the error is [ErrInUse].
	Lock() error
	// Shared reports whether the file has more than one name.
	Shared() bool
	// Take gives the file the permissions and the owner of another one, as far
	// as the process may.
	Take(from fs.FileInfo)
}

// System is the file system of this machine.
var System Disk = system{}

type system struct{}

type systemFile struct{ *os.File }

func (system) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return systemFile{f}, nil
}

func (system) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

func (system) SameFile(a, b fs.FileInfo) bool { return os.SameFile(a, b) }

func (system) MkdirAll(dir string) error { return os.MkdirAll(dir, 0o700) }

func (system) Link(old, new string) error { return os.Link(old, new) }

func (system) Rename(old, new string) error { return os.Rename(old, new) }

func (system) Remove(name string) error { return os.Remove(name) }

func (s system) Lock(name string) (io.Closer, error) { return lockName(s, name) }

func (system) open(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag, perm)
}

func (system) stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

func (system) remove(name string) error { return os.Remove(name) }

func (system) SyncDir(dir string) error {
	if onWindows {
		return nil // a directory cannot be synced there
	}
	d, err := os.Open(filepath.Clean(dir))
	if err != nil {
		return err
	}
	return errors.Join(syncDir(d), d.Close())
}

func syncDir(d *os.File) error {
	err := d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil // this file system cannot sync a directory
	}
	return err
}

func (f systemFile) Lock() error { return lockFile(f.File) }

func (f systemFile) Close() error { return filelock.Close(f.File) }

func lockFile(f *os.File) error {
	err := filelock.Lock(f)
	if errors.Is(err, filelock.ErrHeld) {
		return inUse(filelock.Holder(f))
	}
	return err
}

// inUse is [ErrInUse] of a file that a process has locked; 0 for one that is not known.
func inUse(pid int, program string) error {
	switch pid {
	case 0:
		return ErrInUse
	case os.Getpid():
		return fmt.Errorf("%w by this process", ErrInUse)
	}
	return fmt.Errorf("%w by process %s", ErrInUse, filelock.Process(pid, program))
}

func (f systemFile) Shared() bool {
	info, err := f.Stat()
	return err == nil && names(info) > 1
}

// Take ignores errors. The file was created for its owner alone, so a change
// that fails does not open it to anybody else.
func (f systemFile) Take(from fs.FileInfo) {
	chown(f.File, from)
	_ = f.Chmod(from.Mode().Perm())
}
