package pygent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/x/pygent/internal/tree"
	"github.com/x/pygent/internal/workspace"
)

// packTree has take read the archive of a file or directory of any runtime.
func packTree(ctx context.Context, rt Runtime, p string, take func(io.Reader) error) error {
	if t, ok := rt.(treeRuntime); ok {
		return t.PackTree(ctx, p, take)
	}
	return packByPath(ctx, rt, p, take)
}

// packByPath does this with a runtime that knows paths of this machine only. It
// gets one of a directory of its own, where nothing lies that could lead it
// astray.
func packByPath(ctx context.Context, rt Runtime, p string, take func(io.Reader) error) (err error) {
	dir, err := workspace.MakeTemp(false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, workspace.RemoveTemp(dir)) }()
	base := path.Base(path.Clean(filepath.ToSlash(p)))
	if base == "." || base == "/" || base == ".." {
		base = "workspace"
	}
	if err := rt.ExportFile(ctx, p, filepath.Join(dir, base)); err != nil {
		return err
	}
	src, err := workspace.OpenSourceIn(dir, base)
	if err != nil {
		return err
	}
	defer src.Close()
	limits := tree.Limits{Bytes: maxTaskFiles, Entries: maxTaskEntries}
	return workspace.Pipe(ctx, func(w io.Writer) error { return src.Pack(w, base, limits) }, take)
}

// copyTree writes the archive of a file or directory of a runtime to w.
func copyTree(ctx context.Context, rt Runtime, p string, w io.Writer) error {
	return packTree(ctx, rt, p, func(r io.Reader) error {
		in, err := tree.NewReader(r, filesBudget())
		if err != nil {
			return err
		}
		return tree.Copy(w, in, path.Base(path.Clean(filepath.ToSlash(p)))) // not as the archive calls it
	})
}

// unpackTree copies what an archive holds into any runtime: a file to dest, or
// into the directory dest, and what is in a directory below dest.
func unpackTree(ctx context.Context, rt Runtime, r io.Reader, dest string) error {
	in, err := tree.NewReader(r, filesBudget())
	if err != nil {
		return err
	}
	if t, ok := rt.(treeRuntime); ok {
		return t.UnpackTree(ctx, dest, in)
	}
	return unpackByPath(ctx, rt, in, dest)
}

// unpackByPath does this with a runtime that knows paths of this machine only.
// It might follow links, so they are refused.
func unpackByPath(ctx context.Context, rt Runtime, in *tree.Reader, dest string) (err error) {
	dir, err := workspace.MakeTemp(false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, workspace.RemoveTemp(dir)) }()
	if err := unpackHere(dir, in); err != nil {
		return err
	}
	if in.IsDir() && path.Clean(dest) != "." {
		return rt.UploadFile(ctx, dir, dest)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		to := entry.Name()
		if !in.IsDir() {
			to = dest
		}
		if err := rt.UploadFile(ctx, filepath.Join(dir, entry.Name()), to); err != nil {
			return err
		}
	}
	return nil
}

func unpackHere(dir string, in *tree.Reader) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	staged, err := in.Stage(root, tree.ExtractOptions{NoLinks: true})
	if err != nil {
		return fmt.Errorf("copy to a runtime of this kind: %w", err)
	}
	return staged.Commit()
}
