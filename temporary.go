package pygent

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent/internal/export"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/tempname"
)

// Bounds of the list of the files of a temporary workspace.
const (
	maxTemporary    = 10_000 // files and directories
	temporaryWithin = 5 * time.Second
)

// TemporaryFiles describes the files that go when the agent closes: those of a
// temporary workspace whose runtime is the agent's own. There are none if the
// workspace is kept, or if the runtime was lent ([LendRuntime]) and so outlives the
// agent. Directories are left out, what git and pygent keep for themselves, and
// files that besides describes as they are now: with the result of an earlier call,
// they are those that were made or changed since. more says that there are others.
//
// [Agent.KeepTemporary] keeps the files.
func (a *Agent) TemporaryFiles(ctx context.Context, besides ...FileInfo) (files []FileInfo, more bool, err error) {
	lister, ok := RuntimeAs[FileLister](a.runtime)
	if !ok || a.opts.lent || !a.describe(ctx).Temporary {
		return nil, false, nil
	}
	all, more, err := runtimeFiles{a.runtime, &a.callbacks}.list(ctx, lister, ".", NoLimit, maxTemporary)
	if err != nil {
		return nil, false, err
	}
	known := make(map[string]FileInfo, len(besides))
	for _, f := range besides {
		known[f.Path] = f
	}
	return slices.DeleteFunc(all, func(f FileInfo) bool {
		was, ok := known[f.Path]
		same := ok && was.Size == f.Size && was.Mode == f.Mode && was.ModTime.Equal(f.ModTime)
		return same || f.Mode.IsDir() || isOwnFile(f.Path)
	}), more, nil
}

// isOwnFile reports whether a file of a workspace is one that git, pygent or a program
// keeps for itself.
func isOwnFile(name string) bool {
	return tempname.Is(path.Base(name)) || strings.HasPrefix(name, ".pygent/") || strings.HasPrefix(name, ".git/")
}

// KeepTemporary copies the workspace to a directory of this machine, which must be
// new or empty, without what pygent keeps for itself. So the files of a temporary
// workspace are kept before the agent closes; see [Agent.TemporaryFiles]. What cannot
// be read is left out, and lost has its names; if that is everything, or if anything
// else fails, there is an error, and a new directory into which nothing was copied is
// removed. Pipes, sockets and devices are not copied.
func (a *Agent) KeepTemporary(ctx context.Context, dir string) (lost []string, err error) {
	from := export.Source{Export: a.runtime.ExportFile, HostDir: a.describe(ctx).HostDir}
	if lister, ok := RuntimeAs[FileLister](a.runtime); ok {
		from.List = func(ctx context.Context, dir string, limit int) ([]export.File, bool, error) {
			files, more, err := lister.ListFiles(ctx, dir, 1, limit)
			return keepFiles(files), more, err
		}
	}
	from.Target = runtimeFiles{a.runtime, &a.callbacks}.linkTarget()
	lost, err = safecall.Outlive(ctx, func() ([]string, error) {
		defer a.enter(&a.calling, "the runtime's ExportFile")()
		return export.Copy(ctx, from, dir)
	})
	a.logPanic("copy of the temporary files", err)
	if err != nil {
		return nil, fmt.Errorf("copy the workspace: %w", err)
	}
	return lost, nil
}

// runtimeFiles are the files of a runtime, whose code may be of others.
type runtimeFiles struct {
	runtime Runtime
	calls   *callbacks
}

func (f runtimeFiles) list(ctx context.Context, lister FileLister, dir string, depth, most int) (files []FileInfo, more bool, err error) {
	files, err = safecall.Outlive(ctx, func() (files []FileInfo, err error) {
		defer f.calls.enter(&f.calls.calling, "the runtime's ListFiles")()
		files, more, err = lister.ListFiles(ctx, dir, depth, most)
		return files, err
	})
	f.calls.logPanic("ListFiles of the runtime", err)
	return files, more, err
}

func (f runtimeFiles) export(ctx context.Context, name, dest string) error {
	_, err := safecall.Outlive(ctx, func() (struct{}, error) {
		defer f.calls.enter(&f.calls.calling, "the runtime's ExportFile")()
		return struct{}{}, f.runtime.ExportFile(ctx, name, dest)
	})
	f.calls.logPanic("ExportFile of the runtime", err)
	return err
}

// linkTarget returns a function that says where a link of the workspace leads; nil if
// the runtime cannot tell.
func (f runtimeFiles) linkTarget() func(ctx context.Context, name string) (string, error) {
	lister, ok := RuntimeAs[FileLister](f.runtime)
	if !ok {
		return nil
	}
	return func(ctx context.Context, name string) (string, error) {
		info, err := safecall.Outlive(ctx, func() (FileInfo, error) {
			defer f.calls.enter(&f.calls.calling, "the runtime's StatFile")()
			return lister.StatFile(ctx, name)
		})
		f.calls.logPanic("StatFile of the runtime", err)
		return info.Target, err
	}
}

// keepFiles returns files as the package export knows them.
func keepFiles(files []FileInfo) []export.File {
	var kept []export.File
	for _, f := range files {
		kept = append(kept, export.File{Path: f.Path, Size: f.Size, Mode: f.Mode})
	}
	return kept
}
