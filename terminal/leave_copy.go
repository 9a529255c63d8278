package terminal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/numeral"
)

// ours is the directory in which pygent keeps what is its own.
const ours = ".pygent"

// copyWorkspace copies a workspace to a directory that must be new or empty, without
// what is pygent's own. It returns the names of what cannot be read. If it fails, a
// new directory is removed.
func copyWorkspace(ctx context.Context, rt pygent.Runtime, dir string) (lost []string, err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return nil, err
	}
	err = os.Mkdir(dir, 0o777)
	isNew := err == nil
	if errors.Is(err, fs.ErrExist) {
		err = checkEmpty(dir)
	}
	if err == nil {
		err = checkOutside(ctx, rt, dir)
	}
	if err == nil {
		lost, err = copyFiles(ctx, rt, dir)
	}
	if err != nil && isNew {
		_ = os.Remove(dir) // fails, as it should, if it is not empty
	}
	return lost, err
}

// copyFiles copies what is in a workspace into an empty directory. Where all of it
// cannot be copied at once because something cannot be read, it is copied one by one.
func copyFiles(ctx context.Context, rt pygent.Runtime, dir string) (lost []string, err error) {
	err = rt.ExportFile(ctx, ".", dir)
	if err == nil {
		return nil, removeBelow(dir, ours)
	}
	lister, ok := pygent.RuntimeAs[pygent.FileLister](rt)
	if !ok || !errors.Is(err, fs.ErrPermission) {
		return nil, err
	}
	c := copying{rt: rt, lister: lister, to: dir}
	if failed := c.directory(ctx, "."); failed != nil {
		return nil, failed
	}
	if c.copied == 0 {
		return nil, err
	}
	return c.lost, removeBelow(dir, ours)
}

// copying copies a workspace file by file.
type copying struct {
	rt     pygent.Runtime
	lister pygent.FileLister
	to     string
	copied int
	lost   []string // what cannot be read
}

// directory copies what is in a directory of the workspace.
func (c *copying) directory(ctx context.Context, name string) error {
	files, more, err := c.lister.ListFiles(ctx, name, 1, maxFiles)
	switch {
	case errors.Is(err, fs.ErrPermission):
		c.lost = append(c.lost, oneLine(name))
		return nil
	case err == nil && more:
		return fmt.Errorf("%s has more than %s files", name, numeral.Grouped(maxFiles))
	case err != nil:
		return err
	}
	for _, f := range files {
		if f.Path == ours {
			continue
		}
		if err := c.file(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// file copies a file or, if that cannot be read as a whole, what is in a directory.
func (c *copying) file(ctx context.Context, f pygent.FileInfo) error {
	dest := filepath.Join(c.to, filepath.FromSlash(f.Path))
	if !f.Mode.IsRegular() && !f.Mode.IsDir() && f.Mode&fs.ModeSymlink == 0 {
		return nil // see leaving.special
	}
	if f.Mode.IsDir() {
		if err := os.Mkdir(dest, 0o777); err != nil && !errors.Is(err, fs.ErrExist) { // left by the first attempt
			return err
		}
		return c.directory(ctx, f.Path)
	}
	err := c.rt.ExportFile(ctx, f.Path, dest)
	switch {
	case err == nil:
		c.copied++
	case errors.Is(err, fs.ErrPermission):
		c.lost = append(c.lost, oneLine(f.Path))
	default:
		return err
	}
	return nil
}

// removeBelow removes what is in a directory under a name, without following links.
func removeBelow(dir, name string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	return errors.Join(root.RemoveAll(name), root.Close())
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
func checkOutside(ctx context.Context, rt pygent.Runtime, dir string) error {
	d, ok := pygent.RuntimeAs[pygent.Describer](rt)
	if !ok {
		return nil
	}
	host := d.Describe(ctx).HostDir
	if host == "" {
		return nil
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	if host, err = filepath.EvalSymlinks(host); err != nil {
		return nil // it has gone, so that nothing is in it
	}
	if rel, err := filepath.Rel(host, dir); err == nil && filepath.IsLocal(rel) {
		return fmt.Errorf("%s is in the temporary workspace itself", dir)
	}
	return nil
}
