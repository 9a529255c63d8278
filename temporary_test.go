package pygent_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// namesOf returns the paths of files.
func namesOf(files []pygent.FileInfo) (names []string) {
	for _, f := range files {
		names = append(names, f.Path)
	}
	return names
}

func TestTemporaryFilesAreThoseThatGoWithTheAgent(t *testing.T) {
	t.Parallel()
	open := func(opts ...pygent.Option) *pygent.Agent {
		agent, err := pygent.New(append(opts, pygent.WithModel(pygenttest.NewScriptedModel(stop)))...)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, agent.Close()) })
		return agent
	}
	const script = "mkdir -p d .git .pygent; echo 1 >a; echo 2 >d/b; : >.git/x; : >.pygent/x; : >.pygent-3BYCXW6BPZ2LJQAVN7YDKHM5TE"
	list := func(a *pygent.Agent, besides ...pygent.FileInfo) []pygent.FileInfo {
		files, more, err := a.TemporaryFiles(t.Context(), besides...)
		require.NoError(t, err)
		require.False(t, more)
		return files
	}

	agent := open(pygent.WithDocker(pygent.DockerNever))
	require.Empty(t, list(agent))
	bash(t, agent.Runtime(), script)
	files := list(agent)
	require.Equal(t, []string{"a", "d/b"}, namesOf(files))
	require.Equal(t, int64(2), files[0].Size)
	bash(t, agent.Runtime(), "echo more >>a; : >c")
	require.Equal(t, []string{"a", "c"}, namesOf(list(agent, files...)), "what was changed or made since")

	agent = open(pygent.WithDocker(pygent.DockerNever), pygent.WithWorkspace(t.TempDir()))
	bash(t, agent.Runtime(), script)
	require.Empty(t, list(agent), "a workspace that is kept")

	agent = open(pygent.LendRuntime(localRuntime(t)))
	bash(t, agent.Runtime(), script)
	require.Empty(t, list(agent), "a runtime that outlives the agent")
}

// closedFiles is a runtime in which some files cannot be copied.
type closedFiles struct {
	pygent.Runtime
	pygent.FileLister
	closed string // a name that such files have in their paths; empty for everything
	why    error
}

func (c closedFiles) ExportFile(ctx context.Context, path, dest string) error {
	if path == "." || strings.Contains(path, c.closed) {
		return fmt.Errorf("export %s: %w", path, c.why)
	}
	return c.Runtime.ExportFile(ctx, path, dest)
}

func TestWhatIsKeptOfAWorkspace(t *testing.T) {
	t.Parallel()
	rt := localRuntime(t)
	bash(t, rt, "mkdir -p .pygent/user-skills d/.pygent empty; echo 1 >a; echo 2 >d/b; echo 3 >d/secret; echo 4 >d/.pygent/mine; echo 5 >.pygent/user-skills/x; ln -s a link; ln -s /etc d/out; ln -s nowhere d/dangling; chmod 750 empty; chmod 500 d; mkfifo pipe")
	lister, ok := pygent.RuntimeAs[pygent.FileLister](rt)
	require.True(t, ok)
	rest := []string{"a", "d/.pygent/mine", "d/b", "d/dangling", "d/out", "link"}
	for name, tt := range map[string]struct {
		rt   pygent.Runtime
		kept []string
		lost []string
		err  error
	}{
		"all but what is pygent's": {rt, []string{"a", "d/.pygent/mine", "d/b", "d/dangling", "d/out", "d/secret", "link"}, nil, nil},
		"a file cannot be read":    {closedFiles{rt, lister, "secret", fs.ErrPermission}, rest, []string{"d/secret"}, nil},
		"nothing can be read":      {closedFiles{rt, lister, "", fs.ErrPermission}, nil, nil, fs.ErrPermission},
		"the disk is full":         {closedFiles{rt, lister, "secret", errors.ErrUnsupported}, nil, nil, errors.ErrUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "kept")
			agent, err := pygent.New(pygent.LendRuntime(tt.rt), pygent.WithModel(pygenttest.NewScriptedModel(stop)))
			require.NoError(t, err)
			defer func() { require.NoError(t, agent.Close()) }()
			lost, err := agent.KeepTemporary(t.Context(), dir)
			require.ErrorIs(t, err, tt.err)
			require.Equal(t, tt.lost, lost)
			if tt.err != nil {
				return
			}
			var kept []string
			require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
				if err == nil && !e.IsDir() {
					kept = append(kept, path)
				}
				return err
			}))
			require.Equal(t, tt.kept, kept)
			for name, want := range map[string]string{"link": "a", "d/out": "/etc", "d/dangling": "nowhere"} {
				target, err := os.Readlink(filepath.Join(dir, name))
				require.NoError(t, err)
				require.Equal(t, want, target)
			}
			for name, want := range map[string]fs.FileMode{"empty": 0o750, "d": 0o500} {
				info, err := os.Stat(filepath.Join(dir, name))
				require.NoError(t, err)
				require.Equal(t, fs.ModeDir|want, info.Mode(), name)
			}
		})
	}
}
