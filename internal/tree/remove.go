package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"github.com/x/pygent/internal/patherr"
)

const (
	// openAtOnce is how many nested directories are open at the same time while
	// a tree is removed.
	openAtOnce = 64
	// maxMoved ends a removal if another process keeps adding to the tree.
	maxMoved = 1 << 20
)

// Remove removes a file, or a directory with its content, below root. Symbolic
// links are removed and not followed. Remove changes the mode of directories if
// it needs to. It works for trees of any depth, with bounded recursion and
// short paths, and continues after an error. It is no error if name does not
// exist.
func Remove(root *os.Root, name string) error { return remove(context.Background(), root, name) }

// remove is Remove until ctx ends.
func remove(ctx context.Context, root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err == nil && info.IsDir() {
		err = empty(ctx, root, name)
	}
	if err == nil {
		err = root.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Empty removes the content of a directory below root, in the same way as
// [Remove].
func Empty(root *os.Root, name string) error { return empty(context.Background(), root, name) }

// empty is Empty until ctx ends.
func empty(ctx context.Context, root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	top, err := openWritable(root, name, info)
	if err != nil {
		return err
	}
	r := remover{ctx: ctx, top: top}
	for moved := -1; moved < r.moved && r.moved < maxMoved; {
		moved = r.moved
		r.empty(top, ".", 1)
	}
	return errors.Join(r.err, top.Close())
}

// remover is one run of [Empty].
type remover struct {
	ctx   context.Context
	top   *os.Root
	moved int   // directories moved to the top
	err   error // the first one
}

// empty removes the content of dir, which lies at the given path below the top.
// A directory that is too deep is moved to the top and removed from there
// later.
func (r *remover) empty(dir *os.Root, at string, depth int) {
	names, err := namesIn(dir)
	r.note(err)
	for _, name := range names {
		if r.ctx.Err() != nil {
			r.note(context.Cause(r.ctx))
			return
		}
		r.remove(dir, at, name, depth)
	}
}

// remove removes the entry name of dir.
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

// toTop moves a directory to the top. The directory must be writable, because
// its ".." changes.
func (r *remover) toTop(dir *os.Root, at, name string) {
	makeWritable(dir, name)
	to := ".pygent-deep-" + strconv.FormatUint(rand.Uint64(), 36)
	if err := r.top.Rename(filepath.Join(at, name), to); err != nil {
		r.note(fmt.Errorf("move the directory %s up: %w", filepath.Join(at, name), patherr.Cause(err)))
		return
	}
	r.moved++
}

// note keeps the first error. It ignores that something has already been
// removed by somebody else, because that error would look as if the whole tree
// did not exist.
func (r *remover) note(err error) {
	if r.err == nil && !errors.Is(err, fs.ErrNotExist) {
		r.err = err
	}
}

// openWritable opens a directory for removing its content. info is what was
// seen under that name before.
func openWritable(root *os.Root, name string, info fs.FileInfo) (*os.Root, error) {
	if info.Mode().Perm()&0o700 != 0o700 {
		makeWritable(root, name)
	}
	dir, err := openRoot(root, name)
	if err != nil {
		return nil, err
	}
	if is, err := dir.Stat("."); err != nil || !os.SameFile(is, info) {
		return nil, errors.Join(fmt.Errorf("%s: changed while it was removed", name), err, dir.Close())
	}
	return dir, nil
}

// makeWritable tries to give the owner of a directory all permissions for it.
func makeWritable(root *os.Root, name string) { _ = root.Chmod(name, 0o700) }
