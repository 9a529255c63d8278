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
	all, err := safecall.Outlive(ctx, func() (all []FileInfo, err error) {
		defer a.enter(&a.calling, "the runtime's ListFiles")()
		all, more, err = lister.ListFiles(ctx, ".", NoLimit, maxTemporary)
		return all, err
	})
	a.logPanic("list of the temporary files", err)
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
	from.Target = a.linkTarget()
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

// linkTarget returns a function that says where a link of the workspace leads; nil if
// the runtime cannot tell.
func (a *Agent) linkTarget() func(ctx context.Context, name string) (string, error) {
	lister, ok := RuntimeAs[FileLister](a.runtime)
	if !ok {
		return nil
	}
	return func(ctx context.Context, name string) (string, error) {
		info, err := safecall.Outlive(ctx, func() (FileInfo, error) {
			defer a.enter(&a.calling, "the runtime's StatFile")()
			return lister.StatFile(ctx, name)
		})
		a.logPanic("StatFile of the runtime", err)
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
