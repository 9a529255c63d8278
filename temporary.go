package pygent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/numeral"
)

// Bounds of the list of the files of a temporary workspace.
const (
	maxTemporary    = 10_000 // files and directories
	temporaryWithin = 5 * time.Second
	namedTemporary  = 5 // files that a plain session names
)

// TemporaryFiles describes the files that go when the agent closes: those of a
// temporary workspace whose runtime is the agent's own. There are none if the
// workspace is kept, or if the runtime was lent ([LendRuntime]) and so outlives the
// agent. Directories are left out, what git and pygent keep for themselves, and
// files that besides describes as they are now: with the result of an earlier call,
// they are those that were made or changed since. more says that there are others.
//
// Methods of [Runtime], such as ExportFile, keep the files.
func (a *Agent) TemporaryFiles(ctx context.Context, besides ...FileInfo) (files []FileInfo, more bool, err error) {
	lister, ok := RuntimeAs[FileLister](a.runtime)
	if !ok || a.opts.lent || !a.describe(ctx).Temporary {
		return nil, false, nil
	}
	all, err := guard.Outlive(ctx, func() (all []FileInfo, err error) {
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
		return same || f.Mode.IsDir() || strings.HasPrefix(f.Path, ".pygent/") || strings.HasPrefix(f.Path, ".git/")
	}), more, nil
}

// temporaryFiles is TemporaryFiles in a bounded time. Nothing is known of a runtime
// that does not answer.
func (s *session) temporaryFiles(ctx context.Context, besides ...FileInfo) (files []FileInfo, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, temporaryWithin)
	defer cancel()
	return s.agent.TemporaryFiles(ctx, besides...)
}

// tellTemporary says which files go with the temporary workspace, besides those
// that were in it when the session began. Nobody is told who has left by a signal.
func (s *session) tellTemporary(ctx context.Context, besides []FileInfo) {
	if ctx.Err() != nil {
		return
	}
	files, more, err := s.temporaryFiles(ctx, besides...)
	switch {
	case err != nil && !errors.Is(err, ErrRuntimeStart) && !errors.Is(err, ErrRuntimeClosed):
		s.talk.Aside("(the workspace was temporary and goes with its files, which cannot be listed: %v)", err)
	case len(files) > 0 || more && err == nil:
		var names []string
		for _, f := range files {
			names = append(names, f.Path)
		}
		s.talk.Aside("(the workspace was temporary and goes with its files: %s. To keep them, name a workspace: PYGENT_WORKSPACE=DIR, or --workspace DIR, or --cwd)",
			numeral.Some(names, namedTemporary, more))
	}
}
