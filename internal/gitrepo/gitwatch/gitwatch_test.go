//go:build unix

package gitwatch

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ownConfig = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n[remote \"origin\"]\n\turl = https://example.org/a.git\n"

// write writes a file and makes its directories.
func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

// repository makes the minimal files of a repository.
func repository(t *testing.T, dir, name string) {
	t.Helper()
	for _, sub := range []string{"objects/ab", "refs/heads", "hooks"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, name, sub), 0o755))
	}
	write(t, dir, name+"/HEAD", "ref: refs/heads/main\n")
	write(t, dir, name+"/config", ownConfig)
	write(t, dir, name+"/hooks/pre-commit.sample", "exit 1")
	write(t, dir, name+"/index", "x")
}

func TestChanges(t *testing.T) {
	type dir = string
	edit := func(name, content string) func(*testing.T, dir) {
		return func(t *testing.T, d dir) { write(t, d, name, content) }
	}
	for _, tt := range []struct {
		name   string
		change func(*testing.T, dir)
		want   []string // path and kind of change
	}{
		{"nothing", func(*testing.T, dir) {}, nil},
		{"work", func(t *testing.T, d dir) {
			write(t, d, "main.go", "x")
			write(t, d, ".git/index", "y")
			write(t, d, ".git/HEAD", "ref: refs/heads/b")
			write(t, d, ".git/objects/ab/cd", "y")
			write(t, d, ".git/hooks/post-commit.sample", "y")
			write(t, d, ".git/config", ownConfig+"[branch \"b\"]\n\tremote = origin\n\tmerge = refs/heads/b\n[user]\n\tname = Zoë X.\n\temail = z@example.org\n")
		}, nil},
		{"a setting", edit(".git/config", ownConfig+"[core]\n\tfsmonitor = ./x\n"), []string{".git/config changed"}},
		{"a setting beside its section", edit(".git/config", ownConfig+"[core] fsmonitor = ./x\n"), []string{".git/config changed"}},
		{"a setting in a line that goes on", edit(".git/config", ownConfig+"[core]\n\tbare = \\\nfalse\n"), []string{".git/config changed"}},
		{"a section that only looks plain", edit(".git/config", ownConfig+"[alias \"core\"]\n\tbare = false\n"), []string{".git/config changed"}},
		{"after a line that is none", edit(".git/config", ownConfig+"[core]\n[x\n\tbare = false\n"), []string{".git/config changed"}},
		{"a value that is a program", edit(".git/config", ownConfig+"[branch \"b\"]\n\tremote = ext::sh\n"), []string{".git/config changed"}},
		{"another remote", edit(".git/config", strings.Replace(ownConfig, "example.org", "example.net", 1)), []string{".git/config changed"}},
		{"the configuration of a worktree", edit(".git/config.worktree", "[core]\n\tpager = x"), []string{".git/config.worktree new"}},
		{"a hook", edit(".git/hooks/pre-commit", "x"), []string{".git/hooks/pre-commit new"}},
		{"a hook's mode", func(t *testing.T, d dir) { require.NoError(t, os.Chmod(filepath.Join(d, "lib/.git/hooks/old"), 0o755)) }, []string{"lib/.git/hooks/old changed"}},
		{"a hook that is gone", func(t *testing.T, d dir) { require.NoError(t, os.Remove(filepath.Join(d, "lib/.git/hooks/old"))) }, []string{"lib/.git/hooks/old removed"}},
		{"a hook that is a link", func(t *testing.T, d dir) {
			require.NoError(t, os.Symlink("../../x", filepath.Join(d, ".git/hooks/pre-push")))
		}, []string{".git/hooks/pre-push new"}},
		{"hooks that are a link", func(t *testing.T, d dir) {
			write(t, d, "evil/pre-push", "x")
			require.NoError(t, os.RemoveAll(filepath.Join(d, ".git/hooks")))
			require.NoError(t, os.Symlink("../evil", filepath.Join(d, ".git/hooks")))
		}, []string{".git/hooks new", ".git/hooks/pre-push new"}},
		{"attributes", edit(".git/info/attributes", "* filter=x"), []string{".git/info/attributes new"}},
		{"a submodule's", edit(".git/modules/lib/hooks/post-checkout", "x"), []string{".git/modules/lib/hooks/post-checkout new"}},
		{"a nested repository", func(t *testing.T, d dir) { repository(t, d, "a/b/.git") }, []string{"a/b/.git/config new"}},
		{"a repository that is called otherwise", func(t *testing.T, d dir) { repository(t, d, "node_modules/data") }, []string{"node_modules/data/config new"}},
		{"a file for a directory", edit("sub/.git", "gitdir: ../x"), []string{"sub/.git new"}},
		{"a link for a directory", func(t *testing.T, d dir) { require.NoError(t, os.Symlink("lib", filepath.Join(d, "s.git"))) }, nil},
		{"another link for a directory", func(t *testing.T, d dir) {
			write(t, d, "sub/x", "")
			require.NoError(t, os.Symlink("../lib", filepath.Join(d, "sub/.git")))
		}, []string{"sub/.git new"}},
		{"in other case", func(t *testing.T, d dir) { repository(t, d, "sub/.GIT") }, []string{"sub/.GIT/config new"}},
		{"hooks that the configuration names", edit("lib/.husky/pre-commit", "evil"), []string{"lib/.husky/pre-commit changed"}},
		{"hooks beside those", edit("lib/.husky/_/pre-push", "evil"), []string{"lib/.husky/_/pre-push new"}},
		{"what the configuration includes", edit("lib/team.gitconfig", "[core]\npager=evil"), []string{"lib/team.gitconfig changed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := t.TempDir()
			repository(t, d, ".git")
			repository(t, d, ".git/modules/lib")
			repository(t, d, "lib/.git")
			write(t, d, "lib/.git/hooks/old", "x")
			write(t, d, "lib/.git/config", ownConfig+"[core]\n\thooksPath = .husky/_\n[include]\n\tpath = ../team.gitconfig\n")
			write(t, d, "lib/.husky/_/h", "x")
			write(t, d, "lib/.husky/pre-commit", "make test")
			write(t, d, "lib/team.gitconfig", "[alias]\nx=y")
			before := Take(t.Context(), d)
			tt.change(t, d)
			after := Take(t.Context(), d)
			require.False(t, after.Cut)
			var got []string
			for _, c := range before.Changes(after) {
				name, err := filepath.Rel(d, c.Path)
				require.NoError(t, err)
				got = append(got, filepath.ToSlash(name)+" "+c.How)
			}
			require.Equal(t, tt.want, got)
		})
	}
}

func TestTakeDoesNotLeaveItsDirectory(t *testing.T) {
	outside, d := t.TempDir(), t.TempDir()
	repository(t, outside, ".git")
	require.NoError(t, os.Symlink(outside, filepath.Join(d, "sub")))
	require.NoError(t, os.Mkdir(filepath.Join(d, ".git"), 0o755))
	require.NoError(t, os.Symlink(filepath.Join(outside, ".git/config"), filepath.Join(d, ".git/config")))
	before := Take(t.Context(), d)
	write(t, outside, ".git/config", "[core]\npager=x")
	require.Empty(t, before.Changes(Take(t.Context(), d)))
	require.Len(t, before.files, 1, "the link itself")
}

func TestTakeDoesNotWaitForAPipe(t *testing.T) {
	d := t.TempDir()
	repository(t, d, ".git")
	require.NoError(t, os.Remove(filepath.Join(d, ".git/config")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(d, ".git/config"), 0o644))
	require.NoError(t, syscall.Mkfifo(filepath.Join(d, ".git/hooks/pre-commit"), 0o644))
	require.Empty(t, Take(t.Context(), d).files)
}

func TestTakeSaysWhatItLeftOut(t *testing.T) {
	d := t.TempDir()
	for _, name := range []string{"a", "b"} {
		write(t, d, ".git/hooks/"+name, "x")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cut := Take(ctx, d)
	require.True(t, cut.Cut)
	whole := Take(t.Context(), d)
	require.Empty(t, whole.Changes(cut), "what was not looked at is not gone")
	require.Empty(t, Take(t.Context(), filepath.Join(d, "missing")).files)
}

func TestTakeHoldsItsTimeWithinARepository(t *testing.T) {
	d := t.TempDir()
	var config strings.Builder
	config.WriteString("[core]\n")
	for i := range maxPointers { // each is another name of the same 200 MB of hooks
		link := "links/" + strconv.Itoa(i)
		config.WriteString("hooksPath = " + link + "\n")
		require.NoError(t, os.MkdirAll(filepath.Join(d, "links"), 0o755))
		require.NoError(t, os.Symlink("../hooks", filepath.Join(d, link)))
	}
	write(t, d, ".git/config", config.String())
	for i := range maxInDir {
		write(t, d, "hooks/"+strconv.Itoa(i), "")
		require.NoError(t, os.Truncate(filepath.Join(d, "hooks", strconv.Itoa(i)), maxRead))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begin := time.Now()
	s := Take(ctx, d)
	require.Less(t, time.Since(begin), 2*time.Second, "a look waits for one file at most")
	require.True(t, s.Cut)
}

func TestTakeReadsAFileOnce(t *testing.T) {
	d := t.TempDir()
	write(t, d, ".git/config", "[core]\nhooksPath = h\nhooksPath = ./h\nhooksPath = config\n")
	write(t, d, "h/pre-commit", "x")
	root, err := newWalk(t.Context(), d)
	require.NoError(t, err)
	root.run()
	config := root.files[".git/config"]
	write(t, d, ".git/config", "[core]\nhooksPath = h\nhooksPath = ./h\nhooksPath = config\nbare = false\n")
	require.Equal(t, config, Take(t.Context(), d).files[filepath.Join(d, ".git", "config")], "what steers stays the same")
}

func TestSteers(t *testing.T) {
	for _, name := range []string{".git/config", "a/.git", ".GIT/hooks/x", ".git./config", ".git /config", `sub\.git\config`, "git~1/config", ".g\u200cit/config", ".git::$INDEX_ALLOCATION/config", "/ws/.git/x"} {
		require.True(t, Steers(name), name)
	}
	for _, name := range []string{".gitignore", "a/git/config", ".github/x", "x.git", ""} {
		require.False(t, Steers(name), name)
	}
}

func TestLeads(t *testing.T) {
	d := filepath.Join(t.TempDir(), "odd.git", ".git") // outside of the watched directory, so the name does not matter
	repository(t, d, ".git")
	require.NoError(t, os.Symlink(".git", filepath.Join(d, "link")))
	require.NoError(t, os.Symlink("sub/.git/config", filepath.Join(d, "dangling")))
	require.NoError(t, os.Symlink("dangling", filepath.Join(d, "chain")))
	require.NoError(t, os.Symlink(filepath.Join(d, ".git/hooks/new"), filepath.Join(d, "absolute")))
	require.NoError(t, os.Symlink(".git/refs/heads", filepath.Join(d, "deep")))
	require.NoError(t, os.Symlink("deep/../../hooks/new", filepath.Join(d, "around")))
	require.NoError(t, os.Symlink("loop", filepath.Join(d, "loop")))
	require.NoError(t, os.Symlink("new", filepath.Join(d, "plain")))
	for name, want := range map[string]bool{
		"chain": true, "absolute": true, "around": true, "around/x": true, "loop": false, "plain": false, "plain/x": false,
		".git/config": true, "link/config": true, "link/hooks/new": true, "link/new/new": true, "dangling": true,
		filepath.Join(d, "link/config"): true, filepath.Join(d, "a"): false, "a/b": false, "": false,
	} {
		require.Equal(t, want, Leads(d, name), name)
	}
}

func TestChangeIsOneLine(t *testing.T) {
	require.Equal(t, `"a\nb\x1b" is new`, Change{"a\nb\x1b", "new"}.String())
}

func TestAWatchTellsEachChangeOnce(t *testing.T) {
	dir := t.TempDir()
	repository(t, dir, ".git")
	w := NewWatch(dir)
	require.NoError(t, w.Before(t.Context(), true))
	require.False(t, w.Acted(), "it has not begun")
	w.Begin()
	w.Begin()
	require.NoError(t, w.Before(t.Context(), false))
	require.False(t, w.Acted())
	require.NoError(t, w.Before(t.Context(), true))
	require.True(t, w.Acted())

	for i := range shown + 2 {
		write(t, dir, ".git/hooks/hook"+strconv.Itoa(i), "x")
	}
	notice, warning := w.News()
	require.Empty(t, notice)
	require.Contains(t, warning, strconv.Quote(filepath.Join(dir, ".git/hooks/hook0"))+" is new, ")
	require.Contains(t, warning, ", and 2 more. Check them")
	require.False(t, w.Acted())
	_, warning = w.News()
	require.Empty(t, warning)
}

func TestAWatchWithoutDirectoriesDoesNothing(t *testing.T) {
	w := NewWatch()
	w.Begin()
	require.NoError(t, w.Before(t.Context(), true))
	require.False(t, w.Acted())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, w.Before(ctx, true), context.Canceled)
	notice, warning := w.News()
	require.Empty(t, notice+warning)
}
