package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
)

const (
	// openAtOnce is how many directories, one in the other, are open while a
	// tree is removed.
	openAtOnce = 64
	// maxMoved ends a removal that somebody works against.
	maxMoved = 1 << 20
)

// Remove removes a file, or a directory and all that is in it, below root. Links
// are removed and not followed. It takes itself the right to directories that
// deny it, needs neither deep recursion nor long paths, and goes on after an
// error. That name does not exist is no error.
func Remove(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err == nil && info.IsDir() {
		err = Empty(root, name)
	}
	if err == nil {
		err = root.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Empty removes what is in a directory below root, as [Remove] does.
func Empty(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	top, err := openWritable(root, name, info)
	if err != nil {
		return err
	}
	r := remover{top: top}
	for moved := -1; moved < r.moved && r.moved < maxMoved; {
		moved = r.moved
		r.empty(top, ".", 1)
	}
	return errors.Join(r.err, top.Close())
}

// remover is one run of [Empty].
type remover struct {
	top   *os.Root
	moved int   // directories moved to the top
	err   error // the first
}

// empty removes what is in dir, which lies at the given path below the top. What
// is too deep for now is moved to the top, for the next look at that.
func (r *remover) empty(dir *os.Root, at string, depth int) {
	names, err := namesIn(dir)
	r.note(err)
	for _, name := range names {
		r.remove(dir, at, name, depth)
	}
}

// remove removes one name of dir.
func (r *remover) remove(dir *os.Root, at, name string, depth int) {
	err := dir.Remove(name)
	if err == nil {
		return
	}
	info, statErr := dir.Lstat(name)
	switch {
	case errors.Is(statErr, fs.ErrNotExist):
		return
	case statErr != nil || !info.IsDir():
		r.note(err)
		return
	case depth >= openAtOnce:
		r.toTop(dir, at, name)
		return
	}
	sub, err := openWritable(dir, name, info)
	if err == nil {
		r.empty(sub, filepath.Join(at, name), depth+1)
		err = errors.Join(sub.Close(), dir.Remove(name))
	}
	r.note(err)
}

// toTop moves a directory to the top. It must be writable: its ".." changes.
func (r *remover) toTop(dir *os.Root, at, name string) {
	makeWritable(dir, name)
	to := ".pygent-deep-" + strconv.FormatUint(rand.Uint64(), 36)
	if err := r.top.Rename(filepath.Join(at, name), to); err != nil {
		r.note(err)
		return
	}
	r.moved++
}

// note keeps the first error. What somebody else has removed meanwhile is none:
// it would be taken for the end of the whole.
func (r *remover) note(err error) {
	if r.err == nil && !errors.Is(err, fs.ErrNotExist) {
		r.err = err
	}
}

// openWritable opens a directory that was seen to be one, to remove what is in
// it.
func openWritable(root *os.Root, name string, info fs.FileInfo) (*os.Root, error) {
	if info.Mode().Perm()&0o700 != 0o700 {
		makeWritable(root, name)
	}
	dir, err := root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if is, err := dir.Stat("."); err != nil || !os.SameFile(is, info) {
		return nil, errors.Join(fmt.Errorf("%s: changed while it was removed", name), err, dir.Close())
	}
	return dir, nil
}

// makeWritable gives the owner of a directory all rights to it, if that can be.
func makeWritable(root *os.Root, name string) { _ = root.Chmod(name, 0o700) }
