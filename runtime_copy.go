package pygent

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/x/pygent/internal/tree"
	"github.com/x/pygent/internal/workspace"
)

// DefaultCopyLimit is how many bytes of data [Runtime.ExportFile], and the
// bringing back of a workspace from another machine, copy to this one at most.
const DefaultCopyLimit = 4 << 30

// WithCopyLimit sets how many bytes of data one call of [Runtime.ExportFile],
// and the bringing back of a workspace, may copy to this machine. Default:
// [DefaultCopyLimit].
func WithCopyLimit(bytes int64) RuntimeOption {
	return func(o *runtimeOptions) { o.copyLimit = bytes }
}

// treeRuntime is a runtime that gives and takes files as archives, and so
// without a path of this machine that a link could lead astray. The limits of an
// archive are its reader's.
type treeRuntime interface {
	packTree(ctx context.Context, path string, take func(io.Reader) error) error
	// unpackTree puts a file at dest, or into the directory dest, and what is in
	// a directory below dest.
	unpackTree(ctx context.Context, dest string, in *tree.Reader) error
}

var _ treeRuntime = (*workspaceRuntime)(nil)

func (r *workspaceRuntime) packTree(ctx context.Context, path string, take func(io.Reader) error) error {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	return r.errorOf(ctx, r.files.pack(ctx, path, take))
}

func (r *workspaceRuntime) unpackTree(ctx context.Context, dest string, in *tree.Reader) error {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	return r.errorOf(ctx, unpackFiles(ctx, r.files, dest, in))
}

func unpackFiles(ctx context.Context, f files, dest string, in *tree.Reader) error {
	dir, as := cmp.Or(dest, "."), ""
	if !in.IsDir() {
		var err error
		if dir, as, err = placeOf(ctx, f, dest, in.Name()); err != nil {
			return err
		}
	}
	return f.unpack(ctx, dir, func(w io.Writer) error { return tree.Copy(w, in, as) })
}

// placeOf returns where a file goes that is copied to dest: the directory, and
// the name there.
func placeOf(ctx context.Context, f files, dest, base string) (dir, as string, err error) {
	dest = cmp.Or(filepath.ToSlash(dest), base)
	isDir, err := f.isDir(ctx, dest)
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
func upload(ctx context.Context, f files, src *workspace.Source, dest string) error {
	dir, as := cmp.Or(dest, src.Base), ""
	if !src.Dir {
		var err error
		if dir, as, err = placeOf(ctx, f, dir, src.Base); err != nil {
			return err
		}
	}
	return f.unpack(ctx, dir, func(w io.Writer) error { return src.Pack(w, as, tree.Limits{}) })
}

// export copies a file or directory of a workspace to dest on this machine. The
// workspace itself is called root.
func export(ctx context.Context, f files, name, root, dest string, limits tree.Limits) error {
	isDir, err := f.isDir(ctx, name)
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
	return f.pack(ctx, name, func(r io.Reader) error { return d.Unpack(r, tree.ExtractOptions{Limits: limits}) })
}
