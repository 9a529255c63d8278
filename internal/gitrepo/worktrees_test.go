package gitrepo

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// run runs git as a user without a configuration.
func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b.c"}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// repository makes a repository with a worktree elsewhere in which something is staged.
func repository(t *testing.T) (repo, tree string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	repo, tree = filepath.Join(dir, "main"), filepath.Join(dir, "tree")
	run(t, dir, "init", "-q", "main")
	run(t, repo, "commit", "-q", "--allow-empty", "-m", "first")
	run(t, repo, "worktree", "add", "-q", tree)
	stage(t, tree, "first")
	return repo, tree
}

func stage(t *testing.T, tree, name string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(tree, name), []byte(name), 0o644))
	run(t, tree, "add", name)
}

// forget has git forget the worktree, as where it is not seen.
func forget(t *testing.T, repo, tree string) {
	t.Helper()
	require.NoError(t, os.Rename(tree, tree+"-away"))
	run(t, repo, "worktree", "prune", "--expire=now")
	require.NoError(t, os.Rename(tree+"-away", tree))
	require.NoDirExists(t, filepath.Join(repo, ".git", "worktrees", "tree"))
}

func TestWhatIsStagedInAForgottenWorktreeIsPutBack(t *testing.T) {
	t.Parallel()
	repo, tree := repository(t)
	k := KeepWorktrees(repo, filepath.Join(repo, ".git"))
	require.False(t, k.Take())
	stage(t, tree, "second") // by the user, between two commands
	require.False(t, k.Take())
	for range 2 {
		forget(t, repo, tree)
		trees, err := k.PutBack()
		require.NoError(t, err)
		require.Equal(t, []string{tree}, trees)
		require.Equal(t, "A  first\nA  second\n", run(t, tree, "status", "--porcelain"))
		run(t, tree, "fsck", "--connectivity-only")
		trees, err = k.PutBack()
		require.NoError(t, err)
		require.Empty(t, trees)
	}
}

func TestOnlyAWorktreeThatIsThereIsPutBack(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, repo, tree string){
		"the user has removed it": func(t *testing.T, repo, tree string) { run(t, repo, "worktree", "remove", "--force", tree) },
		"it is another repository's": func(t *testing.T, repo, tree string) {
			forget(t, repo, tree)
			require.NoError(t, os.WriteFile(filepath.Join(tree, ".git"), []byte("gitdir: /elsewhere/.git/worktrees/tree\n"), 0o644))
		},
		"a link is in its place": func(t *testing.T, repo, tree string) {
			forget(t, repo, tree)
			require.NoError(t, os.Rename(filepath.Join(tree, ".git"), filepath.Join(tree, "git")))
			require.NoError(t, os.Symlink("git", filepath.Join(tree, ".git")))
		},
		"the repository is gone": func(t *testing.T, repo, tree string) {
			require.NoError(t, os.RemoveAll(filepath.Join(repo, ".git")))
			require.NoError(t, os.Mkdir(filepath.Join(repo, ".git"), 0o755))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo, tree := repository(t)
			k := KeepWorktrees(repo, filepath.Join(repo, ".git"))
			k.Take()
			change(t, repo, tree)
			trees, err := k.PutBack()
			require.NoError(t, err)
			require.Empty(t, trees)
			require.NoDirExists(t, filepath.Join(repo, ".git", "worktrees", "tree"))
		})
	}
}

func TestWorktreesElsewhereAreFound(t *testing.T) {
	t.Parallel()
	repo, tree := repository(t)
	run(t, repo, "worktree", "add", "-q", filepath.Join(repo, "inside"))
	run(t, repo, "worktree", "add", "-q", tree+"-gone")
	require.NoError(t, os.RemoveAll(tree+"-gone"))
	git := filepath.Join(repo, ".git")
	require.Equal(t, []string{filepath.Join(tree, ".git")}, Elsewhere(git, repo))
	require.NoError(t, os.WriteFile(filepath.Join(git, "worktrees", "tree-gone", "gitdir"), []byte(filepath.Join(tree, ".git")), 0o644))
	require.Len(t, Elsewhere(git, repo), 1, "a record that the worktree does not name")
	require.Empty(t, Elsewhere(filepath.Join(repo, "none"), repo))
}

func TestNothingIsWrittenOutOfARepository(t *testing.T) {
	t.Parallel()
	repo, tree := repository(t)
	k := KeepWorktrees(repo, filepath.Join(repo, ".git"))
	k.Take()
	elsewhere := t.TempDir()
	forget(t, repo, tree)
	_ = os.Remove(filepath.Join(repo, ".git", "worktrees"))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(repo, ".git", "worktrees")))
	_, err := k.PutBack()
	require.Error(t, err)
	left, err := os.ReadDir(elsewhere)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestNothingIsWrittenThroughALinkInPlaceOfARepository(t *testing.T) {
	t.Parallel()
	for _, below := range []bool{true, false} {
		repo, tree := repository(t)
		git := filepath.Join(repo, ".git")
		k := KeepWorktrees(t.TempDir(), git)
		if below {
			k = KeepWorktrees(repo, git)
		}
		k.Take()
		other := filepath.Join(t.TempDir(), "other")
		run(t, ".", "init", "-q", other)
		require.NoError(t, os.Rename(git, git+"-away"))
		require.NoError(t, os.Symlink(filepath.Join(other, ".git"), git))
		k.Take()
		trees, err := k.PutBack()
		require.NoError(t, err)
		require.Empty(t, trees)
		require.NoDirExists(t, filepath.Join(other, ".git", "worktrees"))
		require.FileExists(t, filepath.Join(tree, ".git"))
	}
}

func TestTheCopiesAreBounded(t *testing.T) {
	t.Parallel()
	repo, _ := repository(t)
	f, err := os.Create(filepath.Join(repo, ".git", "worktrees", "tree", "large"))
	require.NoError(t, err)
	require.NoError(t, f.Truncate(maxBytes+1))
	require.NoError(t, f.Close())
	k := KeepWorktrees(repo, filepath.Join(repo, ".git"))
	require.True(t, k.Take())
	require.Empty(t, k.records)
}
