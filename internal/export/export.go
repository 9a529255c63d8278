// Package export copies the files of a workspace that goes to a directory of this
// machine, and says what files there are.
package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/tempname"
)

// Ours is the directory of a workspace in which pygent keeps what is its own.
const Ours = ".pygent"

// Within is how long people wait for the copying of a workspace at most.
const Within = time.Hour

// maxEntries is how many entries a directory may have that is copied one by one.
const maxEntries = 20_000

// File is a file of a workspace.
type File struct {
	Path string // relative to the workspace, slash-separated
	Size int64
	Mode fs.FileMode
}

// Copied reports whether the file is of a kind that is copied. Pipes and the like
// are not.
func (f File) Copied() bool {
	return f.Mode.IsRegular() || f.Mode.IsDir() || f.Mode&fs.ModeSymlink != 0
}

// Source is a workspace.
type Source struct {
	// Export copies a file or directory to this machine. Links in it are copied
	// as links.
	Export func(ctx context.Context, name, dest string) error
	// List lists a directory; nil if the workspace cannot do that.
	List func(ctx context.Context, dir string, limit int) (files []File, more bool, err error)
	// Target returns where a link leads; nil if the workspace cannot tell. Then links
	// are copied as what they lead to where not all can be copied at once.
	Target func(ctx context.Context, name string) (string, error)
	// HostDir is where the workspace is on this machine; empty if it is elsewhere.
	HostDir string
	// Whole says that what is pygent's own is copied too.
	Whole bool
}

// left is what of a directory's entries is not copied.
func (s Source) left(f File) bool {
	return !s.Whole && f.Path == Ours || tempname.Is(path.Base(f.Path)) || !f.Copied()
}

// clean removes from a copy what is pygent's own, and in any case what it had at the
// top of the workspace for a moment, as while a container starts.
func (s Source) clean(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if tempname.Is(e.Name()) || e.Name() == Ours && !s.Whole {
			err = errors.Join(err, root.RemoveAll(e.Name()))
		}
	}
	return err
}

// Copy copies a workspace to a directory that must be new or empty, without what is
// pygent's own unless the whole is wanted. It returns the names of what cannot be
// read. If it fails, a new directory is removed unless something is in it.
func Copy(ctx context.Context, from Source, dir string) (lost []string, err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return nil, err
	}
	err = os.Mkdir(dir, 0o777)
	isNew := err == nil
	if errors.Is(err, fs.ErrExist) {
		err = checkEmpty(dir)
	}
	if err == nil {
		err = checkOutside(from.HostDir, dir)
	}
	if err == nil {
		lost, err = copyFiles(ctx, from, dir)
	}
	if err != nil && isNew {
		_ = os.Remove(dir) // fails, as it should, if it is not empty
	}
	return lost, err
}

// copyFiles copies what is in a workspace into an empty directory. Where all of it
// cannot be copied at once because something cannot be read, it is copied one by one.
func copyFiles(ctx context.Context, from Source, dir string) (lost []string, err error) {
	err = from.Export(ctx, ".", dir)
	if err == nil {
		return nil, from.clean(dir)
	}
	if from.List == nil || !errors.Is(err, fs.ErrPermission) {
		return nil, err
	}
	c := copying{from: from, to: dir}
	if failed := c.directory(ctx, "."); failed != nil {
		return nil, failed
	}
	if c.copied == 0 {
		return nil, err
	}
	return c.lost, from.clean(dir)
}

// copying copies a workspace file by file.
type copying struct {
	from   Source
	to     string
	copied int      // files
	lost   []string // what cannot be read
}

// directory copies what is in a directory of the workspace.
func (c *copying) directory(ctx context.Context, name string) error {
	files, more, err := c.from.List(ctx, name, maxEntries)
	switch {
	case errors.Is(err, fs.ErrPermission):
		c.lost = append(c.lost, name)
		return nil
	case err == nil && more:
		return fmt.Errorf("%s has more than %s files", name, numeral.Grouped(maxEntries))
	case err != nil:
		return err
	}
	for _, f := range files {
		if c.from.left(f) {
			continue
		}
		if !filepath.IsLocal(filepath.FromSlash(f.Path)) || path.Dir(f.Path) != name {
			return fmt.Errorf("%q is not in the directory %q", f.Path, name)
		}
		if err := c.file(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// file copies a file, a link, or what is in a directory.
func (c *copying) file(ctx context.Context, f File) error {
	dest := filepath.Join(c.to, filepath.FromSlash(f.Path))
	if f.Mode.IsDir() {
		return c.below(ctx, f, dest)
	}
	if f.Mode&fs.ModeSymlink != 0 && c.from.Target != nil {
		return c.link(ctx, f, dest)
	}
	err := c.from.Export(ctx, f.Path, dest)
	switch {
	case err == nil:
		c.copied++
	case errors.Is(err, fs.ErrPermission):
		c.lost = append(c.lost, f.Path)
	default:
		return err
	}
	return nil
}

// below copies what is in a directory, and then its permissions, which may forbid to
// write.
func (c *copying) below(ctx context.Context, f File, dest string) error {
	if err := os.Mkdir(dest, 0o700); err != nil && !errors.Is(err, fs.ErrExist) { // left by the first attempt
		return err
	}
	info, err := os.Lstat(dest)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is a directory and something else", f.Path)
	}
	if err != nil {
		return err
	}
	lost := len(c.lost)
	if err := c.directory(ctx, f.Path); err != nil {
		return err
	}
	if len(c.lost) > lost && c.lost[len(c.lost)-1] == f.Path {
		return nil // so that whoever reads the copy can look into it
	}
	return os.Chmod(dest, f.Mode.Perm())
}

// link copies a link as a link.
func (c *copying) link(ctx context.Context, f File, dest string) error {
	target, err := c.from.Target(ctx, f.Path)
	if err != nil {
		return err
	}
	err = os.Symlink(target, dest)
	if errors.Is(err, fs.ErrExist) { // left by the first attempt, or the file system knows no case
		if is, lookErr := os.Readlink(dest); lookErr == nil && is == target {
			err = nil
		}
	}
	return err
}

// errNotEmpty says why a directory is refused.
var errNotEmpty = errors.New("it exists and is no empty directory; name a new one")

func checkEmpty(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if info.IsDir() {
		var entries []os.DirEntry
		entries, err = os.ReadDir(dir)
		if err == nil && len(entries) == 0 {
			return nil
		}
	}
	return fmt.Errorf("%s: %w", dir, cmp.Or(err, errNotEmpty))
}

// checkOutside refuses a directory that goes with the workspace.
func checkOutside(workspace, dir string) error {
	if workspace == "" {
		return nil
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	if workspace, err = filepath.EvalSymlinks(workspace); err != nil {
		return nil // it has gone, so that nothing is in it
	}
	if rel, err := filepath.Rel(workspace, dir); err == nil && filepath.IsLocal(rel) {
		return fmt.Errorf("%s is in the temporary workspace itself", dir)
	}
	return nil
}
