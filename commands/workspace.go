package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/slash"
)

func script(_ context.Context, _ *pygent.Agent, args string) (string, error) {
	if args == "" {
		return "", errors.New("no command given. Usage: /cmd COMMAND")
	}
	return args, nil
}

func upload(ctx context.Context, a *pygent.Agent, args string, out io.Writer) error {
	names, replace, err := copyArguments(args, 1, "/cp SRC [DEST] [--force]")
	if err != nil {
		return err
	}
	src, err := pathname.Host().Read(names[0])
	if err != nil {
		return err
	}
	dest := "."
	if len(names) == 2 {
		if dest, err = inWorkspace(ctx, a, names[1]); err != nil {
			return err
		}
	}
	err = inTheWay(ctx, a, replace, func(files pygent.FileLister) []string { return uploadReplaces(ctx, files, src, dest) })
	if err == nil {
		err = a.Runtime().UploadFile(ctx, src, dest)
	}
	switch {
	case errors.Is(err, pygent.ErrOutsideWorkspace):
		return fmt.Errorf("%w; DEST is a path in the workspace. To copy to this machine, use /export PATH DEST", err)
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(out, "copied %s to %s in the workspace\n", src, dest)
	return err
}

func export(ctx context.Context, a *pygent.Agent, args string, out io.Writer) error {
	names, replace, err := copyArguments(args, 2, "/export PATH DEST [--force]")
	if err != nil {
		return err
	}
	src, err := inWorkspace(ctx, a, names[0])
	if err != nil {
		return err
	}
	dest, err := pathname.Host().Read(names[1])
	if err != nil {
		return err
	}
	err = inTheWay(ctx, a, replace, func(files pygent.FileLister) []string { return exportReplaces(ctx, files, src, dest) })
	if err == nil {
		err = a.Runtime().ExportFile(ctx, src, dest)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "copied %s of the workspace to %s\n", src, dest)
	return err
}

// inWorkspace reads a path of the workspace that a person has given.
func inWorkspace(ctx context.Context, a *pygent.Agent, given string) (string, error) {
	files, ok := pygent.RuntimeAs[pygent.FileLister](a.Runtime())
	if !ok {
		return given, nil
	}
	var info pygent.RuntimeInfo
	if d, ok := pygent.RuntimeAs[pygent.Describer](a.Runtime()); ok {
		info = d.Describe(ctx)
	}
	return pathname.Workspace(ctx, files, func(f pygent.FileInfo) pathname.Info { return pathname.Info(f) }, info.Kind == "local", info.Workspace, info.HostDir).Read(given)
}

// copyArguments divides the arguments of a copy, which are at most two names, and
// whether files may be replaced.
func copyArguments(args string, least int, form string) (names []string, replace bool, err error) {
	names, err = slash.Fields(args)
	if i := slices.Index(names, replaceFlag); i >= 0 {
		names, replace = slices.Delete(names, i, i+1), true
	}
	if err == nil && (len(names) < least || len(names) > 2) {
		err = misfit(form)
	}
	return names, replace, err
}

// inTheWay refuses a copy that would replace files, unless it may. Of a runtime that
// cannot tell what files there are, that is not known.
func inTheWay(ctx context.Context, a *pygent.Agent, replace bool, find func(pygent.FileLister) []string) error {
	files, ok := pygent.RuntimeAs[pygent.FileLister](a.Runtime())
	if replace || !ok {
		return nil
	}
	names := find(files)
	if len(names) == 0 {
		return ctx.Err()
	}
	const shown = 5
	return fmt.Errorf("nothing was copied: %s already exists; %s replaces it", numeral.Some(names, shown, false), replaceFlag)
}

// uploadReplaces returns the files of the workspace that an upload would replace.
// What cannot be looked at is left to the upload.
func uploadReplaces(ctx context.Context, files pygent.FileLister, src, dest string) (names []string) {
	info, err := os.Stat(src)
	if err != nil {
		return nil
	}
	there, err := files.StatFile(ctx, dest)
	if !info.IsDir() {
		if err == nil && there.Mode.IsDir() {
			there, err = files.StatFile(ctx, path.Join(dest, filepath.Base(src)))
		}
		if err == nil && !there.Mode.IsDir() {
			names = append(names, escape.Name(there.Path))
		}
		return names
	}
	if err != nil {
		return nil
	}
	below, _, _ := files.ListFiles(ctx, dest, pygent.NoLimit, 0)
	for _, f := range below {
		if !f.Mode.IsDir() && isFile(filepath.Join(src, pathFrom(there, f))) {
			names = append(names, escape.Name(f.Path))
		}
	}
	return names
}

// pathFrom is the path of a file from a directory on, as this machine writes it.
func pathFrom(dir, f pygent.FileInfo) string {
	return filepath.FromSlash(strings.TrimPrefix(f.Path, dir.Path+"/"))
}

// exportReplaces returns the files of this machine that an export would replace.
func exportReplaces(ctx context.Context, files pygent.FileLister, src, dest string) (names []string) {
	info, err := files.StatFile(ctx, src)
	if err != nil {
		return nil
	}
	if !info.Mode.IsDir() {
		if there, err := os.Stat(dest); err == nil && there.IsDir() {
			dest = filepath.Join(dest, path.Base(src))
		}
		if isFile(dest) {
			names = append(names, escape.Name(dest))
		}
		return names
	}
	below, _, _ := files.ListFiles(ctx, src, pygent.NoLimit, 0)
	for _, f := range below {
		name := filepath.Join(dest, pathFrom(info, f))
		if !f.Mode.IsDir() && isFile(name) {
			names = append(names, escape.Name(name))
		}
	}
	return names
}

// isFile reports whether there is something that is no directory.
func isFile(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && !info.IsDir()
}
