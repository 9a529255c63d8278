package sandbox

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/x/pygent/internal/progress"
	"github.com/x/pygent/internal/tree"
	"github.com/x/pygent/internal/workspace"
)

// PackTree calls take with an archive of a file or directory to read. It needs no
// path of this machine, so no link can lead it astray.
func (r *Sandbox) PackTree(ctx context.Context, path string, take func(io.Reader) error) error {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	return r.errorOf(ctx, r.files.Pack(ctx, path, take))
}

// UnpackTree unpacks an archive, and returns where it is now. A file goes to
// dest, or into the directory dest; the content of a directory goes below dest.
// The reader limits the archive.
func (r *Sandbox) UnpackTree(ctx context.Context, dest string, in *tree.Reader) (at string, placed tree.Placed, err error) {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return "", placed, err
	}
	defer done()
	at, placed, err = unpackFiles(ctx, r.files, dest, in)
	return at, placed, r.errorOf(ctx, err)
}

func unpackFiles(ctx context.Context, f Files, dest string, in *tree.Reader) (at string, placed tree.Placed, err error) {
	dir, as := cmp.Or(dest, "."), ""
	if !in.IsDir() {
		if dir, as, err = placeOf(ctx, f, dest, in.Name()); err != nil {
			return "", placed, err
		}
	}
	placed, err = f.Unpack(ctx, dir, func(w io.Writer) error { return tree.Copy(w, in, as) })
	return path.Join(filepath.ToSlash(dir), as), placed, err
}

// placeOf returns the directory and the name under which a file is copied to dest.
func placeOf(ctx context.Context, f Files, dest, base string) (dir, as string, err error) {
	dest = cmp.Or(filepath.ToSlash(dest), base)
	isDir, err := f.IsDir(ctx, dest)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", "", err
	case isDir || strings.HasSuffix(dest, "/"):
		return dest, base, nil
	}
	dest = path.Clean(dest)
	return path.Dir(dest), path.Base(dest), nil
}

// upload copies a file or directory of this machine to dest.
func upload(ctx context.Context, f Files, src *workspace.Source, dest string) error {
	dir, as := cmp.Or(dest, src.Base), ""
	if !src.Dir {
		var err error
		if dir, as, err = placeOf(ctx, f, dir, src.Base); err != nil {
			return err
		}
	}
	if near, ok := f.(Near); ok {
		if done, err := near.CopyIn(ctx, src, dir, as); done {
			return err
		}
	}
	_, err := f.Unpack(ctx, dir, func(w io.Writer) error { return src.Pack(w, as, tree.Limits{}) })
	return err
}

// export copies a file or directory of a workspace to dest on this machine. The
// workspace itself is called root.
func export(ctx context.Context, f Files, name, root, dest string, limits tree.Limits) error {
	isDir, err := f.IsDir(ctx, name)
	if err != nil {
		return err
	}
	base := path.Base(path.Clean(filepath.ToSlash(name)))
	if base == "." || base == "/" {
		base = root
	}
	d, err := workspace.OpenDestination(cmp.Or(dest, base), base, isDir)
	if err != nil {
		return err
	}
	defer d.Close()
	if near, ok := f.(Near); ok {
		if done, err := near.CopyOut(ctx, name, d, limits); done {
			return err
		}
	}
	return f.Pack(ctx, name, func(r io.Reader) error {
		return d.Unpack(progress.Reader(ctx, r), tree.ExtractOptions{Limits: limits})
	})
}
