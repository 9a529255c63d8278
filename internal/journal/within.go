package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/x/pygent/internal/patherr"
	"github.com/x/pygent/internal/pathname"
)

// Beside returns the disk on which to open the file at path, and its name there.
// Untrusted commands can write to dirs: at any time they may replace a file, or
// a directory on the way to it, by a link. For a path in one of dirs, shared is
// true and the disk is [Within] that directory.
func Beside(dirs []string, path string) (disk Disk, name string, shared bool, err error) {
	dir, name, err := pathname.Inside(dirs, path)
	if err != nil {
		return nil, "", false, patherr.Cause(err)
	}
	if dir == "" {
		return System, path, false, nil
	}
	if disk, err = Within(dir); err != nil {
		return nil, "", false, patherr.Cause(err)
	}
	return disk, name, true, nil
}

// Within returns the file system of this machine below a directory that
// untrusted programs can write to. No link leads out of it, neither one that
// replaces a file nor one that replaces a directory on the way to it, no matter
// when it appears. Names are full paths, as for [System].
//
// Closing the journal closes the disk.
func Within(dir string) (Disk, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &within{root: root, dir: dir}, nil
}

type within struct {
	root *os.Root
	dir  string
}

// rel returns a name relative to the root.
func (w *within) rel(name string) (string, error) {
	rel, err := filepath.Rel(w.dir, name)
	if err != nil || !filepath.IsLocal(rel) {
		return "", &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("not in %s", w.dir)}
	}
	return rel, nil
}

// OpenFile opens a file. Links are followed only within the directory.
func (w *within) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := w.open(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return systemFile{f}, nil
}

func (w *within) open(name string, flag int, perm fs.FileMode) (*os.File, error) {
	rel, err := w.rel(name)
	if err != nil {
		return nil, err
	}
	return w.root.OpenFile(rel, flag, perm)
}

// Stat describes a link itself, not the file that it leads to: the file of a
// journal is never a link.
func (w *within) Stat(name string) (fs.FileInfo, error) {
	rel, err := w.rel(name)
	if err != nil {
		return nil, err
	}
	return w.root.Lstat(rel)
}

func (w *within) stat(name string) (fs.FileInfo, error) { return w.Stat(name) }

func (w *within) SameFile(a, b fs.FileInfo) bool { return os.SameFile(a, b) }

func (w *within) MkdirAll(dir string) error {
	rel, err := w.rel(dir)
	if err != nil {
		return err
	}
	return w.root.MkdirAll(rel, 0o700)
}

func (w *within) Link(old, new string) error { return w.two(old, new, w.root.Link) }

func (w *within) Rename(old, new string) error { return w.two(old, new, w.root.Rename) }

func (w *within) two(old, new string, do func(old, new string) error) error {
	oldRel, err := w.rel(old)
	if err != nil {
		return err
	}
	newRel, err := w.rel(new)
	if err != nil {
		return err
	}
	return do(oldRel, newRel)
}

func (w *within) Remove(name string) error {
	rel, err := w.rel(name)
	if err != nil {
		return err
	}
	return w.root.Remove(rel)
}

func (w *within) remove(name string) error { return w.Remove(name) }

func (w *within) Lock(name string) (io.Closer, error) { return lockName(w, name) }

func (w *within) SyncDir(dir string) error {
	if onWindows {
		return nil // a directory cannot be synced there
	}
	d, err := w.open(dir, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(syncDir(d), d.Close())
}

// Close releases the directory.
func (w *within) Close() error { return w.root.Close() }

// namespace is what locks on names need of a file system.
type namespace interface {
	open(name string, flag int, perm fs.FileMode) (*os.File, error)
	stat(name string) (fs.FileInfo, error)
	remove(name string) error
}
