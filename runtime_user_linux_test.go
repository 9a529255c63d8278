package pygent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

func TestCommandsCanWriteTheWorkspaceWhoeverTheImageNames(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root gives a directory to others")
	}
	requireDocker(t)
	for kind, also := range map[string][]pygent.RuntimeOption{"guest": nil, "exec": {pygent.WithTestPlainExec()}} {
		own := imageOf(t, "1000", testImage())
		for name, tt := range map[string]struct {
			owner int
			mode  os.FileMode
			opts  []pygent.RuntimeOption
			says  string // of the notes
		}{
			"the user's":              {1000, 0o755, nil, ""},
			"anybody's":               {1001, 0o777, nil, ""},
			"root's":                  {0, 0o755, nil, "Commands run as the workspace's owner, 0:0, since user"},
			"another user's":          {1001, 0o755, nil, "Commands run as the workspace's owner, 1001:1001, since user"},
			"of a user who is chosen": {1001, 0o755, []pygent.RuntimeOption{pygent.WithContainerUser("1000")}, "Commands cannot write the workspace: they run as user 1000"},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				dir := realTempDir(t)
				require.NoError(t, os.Chown(dir, tt.owner, tt.owner))
				require.NoError(t, os.Chmod(dir, tt.mode))
				r := newTestRuntime(t, pygent.NewDockerRuntime, append(slices.Concat(tt.opts, also), pygent.WithImage(own), pygent.WithWorkspace(dir))...)
				res := bash(t, r, "echo made >file; ls -A")
				notes := r.(pygent.Describer).Describe(t.Context()).Notes
				if tt.says == "" {
					require.Empty(t, notes)
				} else {
					require.Len(t, notes, 1)
					require.Contains(t, notes[0], tt.says)
					require.Contains(t, res.Note, tt.says)
					require.Empty(t, bash(t, r, "true").Note, "it is told once")
				}
				require.NoError(t, r.Cleanup())
				if tt.owner == 1001 && tt.opts != nil {
					require.NoFileExists(t, filepath.Join(dir, "file"))
					return
				}
				require.Equal(t, "file\n", res.Output)
				info, err := os.Stat(filepath.Join(dir, "file"))
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint(tt.owner), fmt.Sprint(info.Sys().(*syscall.Stat_t).Uid))
			})
		}
	}
}

func TestCommandsReachAWorktreeBelowADirectoryOfRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root has a directory in /root")
	}
	requireDocker(t)
	dir, err := os.MkdirTemp("/root", "pygent-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	w := gitWorld{t, dir}
	w.repo("main")
	for user, says := range map[string]string{"": "Commands run as the workspace's owner, 0:0, since the user", "1000": "choose another one with --user, or --repository none"} {
		opts := []pygent.RuntimeOption{pygent.WithImage(imageOf(t, "1000", testImage())), pygent.WithWorkspace(w.at("main-tree"))}
		if user != "" {
			opts = append(opts, pygent.WithContainerUser(user))
		}
		r := newTestRuntime(t, pygent.NewDockerRuntime, opts...)
		res, err := r.Bash(t.Context(), "git status --porcelain")
		if user != "" {
			require.ErrorContains(t, err, says)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "A  staged\n", res.Output)
		require.Contains(t, res.Note, says)
	}
}
