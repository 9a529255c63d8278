package gitrepo

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// world is a directory in which git has made repositories.
type world struct {
	t   testing.TB
	dir string
}

func newWorld(t testing.TB) world {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return world{t, dir}
}

func (w world) at(name string) string { return filepath.Join(w.dir, filepath.FromSlash(name)) }

// git runs git in a directory, whose path is relative.
func (w world) git(dir string, args ...string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always"}, args...)...)
	cmd.Dir = w.at(dir)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull}
	out, err := cmd.CombinedOutput()
	require.NoError(w.t, err, string(out))
}

// repo makes a repository with a commit.
func (w world) repo(name string) {
	w.t.Helper()
	w.git("", "init", "-q", name)
	w.git(name, "commit", "-q", "--allow-empty", "-m", "first")
}

// write writes a file and its directories.
func (w world) write(name, text string) {
	w.t.Helper()
	require.NoError(w.t, os.MkdirAll(filepath.Dir(w.at(name)), 0o755))
	require.NoError(w.t, os.WriteFile(w.at(name), []byte(text), 0o644))
}

func (w world) mkdir(name string) {
	w.t.Helper()
	require.NoError(w.t, os.MkdirAll(w.at(name), 0o755))
}

func TestEveryLayoutIsFound(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		make    func(w world)
		ws      string
		top     string
		needs   []string // "ro path" or "rw path"
		granted []string
		own     bool
		unproof bool
	}{
		"no repository": {func(w world) { w.mkdir("ws") }, "ws", "", nil, nil, false, false},
		"plain":         {func(w world) { w.repo("ws") }, "ws", "ws", nil, nil, false, false},
		"plain, with a worktree elsewhere": {func(w world) {
			w.repo("ws")
			w.git("ws", "worktree", "add", "-q", "../tree")
		}, "ws", "ws", nil, nil, false, false},
		"linked worktree": {func(w world) {
			w.repo("main")
			w.git("main", "worktree", "add", "-q", "../ws")
		}, "ws", "ws", []string{"rw main/.git"}, []string{"ro main/.git", "rw main/.git/worktrees/ws", "rw main/.git/objects", "rw main/.git/refs", "rw main/.git/logs"}, true, false},
		"linked worktree with relative paths": {func(w world) {
			w.repo("main")
			w.git("main", "worktree", "add", "-q", "../ws")
			w.write("ws/.git", "gitdir: ../main/.git/worktrees/ws\n")
			w.write("main/.git/worktrees/ws/gitdir", "../../../../ws/.git\n")
		}, "ws", "ws", []string{"rw main/.git"}, []string{"ro main/.git", "rw main/.git/worktrees/ws", "rw main/.git/objects", "rw main/.git/refs", "rw main/.git/logs"}, true, false},
		"worktree in its main repository": {func(w world) {
			w.repo("main")
			w.git("main", "worktree", "add", "-q", "trees/ws")
		}, "main/trees/ws", "main/trees/ws", []string{"rw main/.git"}, []string{"ro main/.git", "rw main/.git/worktrees/ws", "rw main/.git/objects", "rw main/.git/refs", "rw main/.git/logs"}, true, false},
		"worktree of a bare repository": {func(w world) {
			w.repo("main")
			w.git("", "clone", "-q", "--bare", "main", "bare.git")
			w.git("bare.git", "worktree", "add", "-q", "../ws")
		}, "ws", "ws", []string{"rw bare.git"}, []string{"ro bare.git", "rw bare.git/worktrees/ws", "rw bare.git/objects", "rw bare.git/refs"}, true, false},
		"bare directory in the workspace": {func(w world) {
			w.repo("main")
			w.mkdir("ws")
			w.git("", "clone", "-q", "--bare", "main", "ws/.bare")
			w.write("ws/.git", "gitdir: ./.bare\n")
		}, "ws", "ws", nil, nil, false, false},
		"submodule": {func(w world) {
			w.repo("lib")
			w.repo("super")
			w.git("super", "submodule", "--quiet", "add", w.at("lib"), "ws")
		}, "super/ws", "super/ws", []string{"rw super/.git/modules/ws"}, nil, true, false},
		"package of a monorepo": {func(w world) {
			w.repo("mono")
			w.mkdir("mono/packages/ws")
		}, "mono/packages/ws", "mono", []string{"ro mono", "rw mono/.git"}, nil, true, false},
		"package of a worktree": {func(w world) {
			w.repo("main")
			w.git("main", "worktree", "add", "-q", "../tree")
			w.mkdir("tree/ws")
		}, "tree/ws", "tree", []string{"ro tree", "rw main/.git"}, nil, true, false},
		"alternates": {func(w world) {
			w.repo("main")
			w.git("", "clone", "-q", "--shared", "main", "ws")
		}, "ws", "ws", []string{"ro main/.git/objects"}, nil, true, false},
		"alternates of alternates, relative": {func(w world) {
			w.repo("first")
			w.git("", "clone", "-q", "--shared", "first", "second")
			w.git("", "clone", "-q", "--shared", "second", "ws")
			w.write("ws/.git/objects/info/alternates", "# a comment\n../../../second/.git/objects\n")
		}, "ws", "ws", []string{"ro second/.git/objects", "ro first/.git/objects"}, nil, true, false},
		"worktree of a repository with alternates": {func(w world) {
			w.repo("first")
			w.git("", "clone", "-q", "--shared", "first", "main")
			w.git("main", "worktree", "add", "-q", "../ws")
		}, "ws", "ws", []string{"rw main/.git", "ro first/.git/objects"}, nil, true, false},
		"core.worktree, the workspace itself": {func(w world) {
			w.repo("ws")
			w.git("ws", "config", "core.worktree", w.at("ws"))
		}, "ws", "ws", nil, nil, true, false},
		"separate git directory": {func(w world) {
			w.git("", "init", "-q", "--separate-git-dir", w.at("store.git"), "ws")
		}, "ws", "ws", []string{"rw store.git"}, nil, true, true},
		"separate git directory that names the workspace": {func(w world) {
			w.git("", "init", "-q", "--separate-git-dir", w.at("store.git"), "ws")
			w.git("ws", "config", "core.worktree", w.at("ws"))
		}, "ws", "ws", []string{"rw store.git"}, nil, true, false},
		"a directory .git that is none": {func(w world) { w.mkdir("ws/.git/objects") }, "ws", "", nil, nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tt.make(w)
			l := Find(w.at(tt.ws), w.at("home"))
			require.Empty(t, l.Broken)
			require.Equal(t, tt.needs, w.paths(l.Needs))
			require.Equal(t, tt.granted, w.paths(l.Granted))
			require.Equal(t, tt.own, l.OwnPath)
			require.Equal(t, tt.unproof, l.Unproved)
			if tt.top == "" {
				require.Empty(t, l.Top)
			} else {
				require.Equal(t, w.at(tt.top), l.Top)
			}
			require.Equal(t, !tt.unproof, l.Allowed([]string{w.dir}))
			require.True(t, l.Allowed(l.Allow()))
			require.Equal(t, len(tt.needs) == 0, l.Allowed([]string{w.at("ws"), w.at("home")}))
			require.Equal(t, len(tt.needs) == 0, l.Why() == "")
			for _, name := range l.Allow() {
				require.Contains(t, l.Why(), name)
			}
		})
	}
}

// paths names directories relative to the world.
func (w world) paths(all []Path) (names []string) {
	for _, p := range all {
		rel, err := filepath.Rel(w.dir, p.Dir)
		require.NoError(w.t, err)
		how := "rw "
		if p.ReadOnly {
			how = "ro "
		}
		names = append(names, how+filepath.ToSlash(rel))
	}
	return names
}

func TestNothingOfWhatAHostileProjectNamesIsNeeded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		make func(w world)
		says string
	}{
		"a directory of the system": {func(w world) { w.write("ws/.git", "gitdir: /etc\n") }, "is no git directory"},
		"keys":                      {func(w world) { w.write("home/.ssh/id", "key"); w.write("ws/.git", "gitdir: ../home/.ssh") }, "is no git directory"},
		"another project":           {func(w world) { w.repo("other"); w.write("ws/.git", "gitdir: ../other/.git\n") }, "the git directory of another working tree"},
		"another project's submodule": {func(w world) {
			w.repo("lib")
			w.repo("super")
			w.git("super", "submodule", "--quiet", "add", w.at("lib"), "sub")
			w.write("ws/.git", "gitdir: ../super/.git/modules/sub\n")
		}, "git works on the files of"},
		"another project's worktree": {func(w world) {
			w.repo("main")
			w.git("main", "worktree", "add", "-q", "../tree")
			w.write("ws/.git", "gitdir: ../main/.git/worktrees/tree\n")
		}, "is the worktree of another directory"},
		"a worktree of its own that names another project": {func(w world) {
			w.repo("other")
			w.write("ws/fake/HEAD", "ref: refs/heads/main\n")
			w.write("ws/fake/commondir", "../../other/.git\n")
			w.write("ws/fake/gitdir", w.at("ws/.git")+"\n")
			w.write("ws/.git", "gitdir: fake\n")
		}, "is no worktree of a repository"},
		"objects that are no repository's": {func(w world) {
			w.repo("ws")
			w.mkdir("home/objects")
			w.write("ws/.git/objects/info/alternates", w.at("home/objects")+"\n")
		}, "it is not the object directory of a repository"},
		"objects of the system": {func(w world) { w.repo("ws"); w.write("ws/.git/objects/info/alternates", "/etc\n") }, "it is not the object directory of a repository"},
		"another working tree":  {func(w world) { w.repo("ws"); w.git("ws", "config", "core.worktree", w.at("home")); w.mkdir("home") }, "git works on the files of"},
		"a link": {func(w world) {
			w.repo("other")
			w.mkdir("ws")
			require.NoError(w.t, os.Symlink("../other/.git", w.at("ws/.git")))
		}, "neither a directory nor a file"},
		"a path through a link": {func(w world) {
			w.repo("other")
			w.mkdir("ws")
			require.NoError(w.t, os.Symlink("../other", w.at("ws/link")))
			w.write("ws/.git", "gitdir: link/.git\n")
		}, "it leads through a symbolic link"},
		"objects that are a link": {func(w world) {
			w.repo("other")
			w.repo("ws")
			require.NoError(w.t, os.RemoveAll(w.at("ws/.git/objects")))
			require.NoError(w.t, os.Symlink("../../other/.git/objects", w.at("ws/.git/objects")))
		}, "has its objects or refs elsewhere"},
		"a huge file":       {func(w world) { w.write("ws/.git", "gitdir: "+strings.Repeat("a/", 1<<20)) }, "it has more than"},
		"several lines":     {func(w world) { w.repo("other"); w.write("ws/.git", "gitdir: x\ngitdir: ../other/.git\n") }, "characters that cannot be shown"},
		"invisible letters": {func(w world) { w.write("ws/.git", "gitdir: /etc\u202e/x") }, "characters that cannot be shown"},
		"not even a path":   {func(w world) { w.write("ws/.git", "gitdir: \n") }, "the path is empty"},
		"another text":      {func(w world) { w.write("ws/.git", "hello") }, "does not name a git directory"},
		"the home directory": {func(w world) {
			w.repo("home")
			w.mkdir("home/ws")
			require.NoError(w.t, os.Rename(w.at("home/ws"), w.at("home/deep")))
			require.NoError(w.t, os.Symlink("home/deep", w.at("ws")))
		}, "which has more than a project"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			tt.make(w)
			l := Find(w.at("ws"), w.at("home"))
			require.Contains(t, l.Broken, tt.says)
			require.Empty(t, l.Needs)
			require.Empty(t, l.Granted)
			require.False(t, l.Allowed([]string{"/"}))
			require.Contains(t, l.Why(), "git does not work in the workspace: ")
		})
	}
}

func TestWhyNamesFlagsAsAShellReadsThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.repo("my mono $HOME")
	w.mkdir("my mono $HOME/ws")
	why := Find(w.at("my mono $HOME/ws"), w.at("home")).Why()
	require.Contains(t, why, "Allow it with --repository '"+w.at("my mono $HOME")+"'")
	require.Contains(t, why, fmt.Sprintf("or start in %q", w.at("my mono $HOME")))
}

func FuzzNothingOutsideIsNeededWithoutARecord(f *testing.F) {
	w := newWorld(f)
	w.repo("other")
	w.repo("main")
	w.git("main", "worktree", "add", "-q", "../tree")
	f.Add([]byte("gitdir: ../other/.git\n"), []byte("[core]\n\tworktree = ../other"), []byte("../../../../other/.git/objects"))
	f.Add([]byte("gitdir: ../tree/.git"), []byte("[core]worktree=\"..\""), []byte("\"../x\\n\""))
	f.Add([]byte("gitdir: ../main/.git/worktrees/tree"), []byte("[core]\nbare = true\n"), []byte("#\n\n/\n"))
	f.Fuzz(func(t *testing.T, file, config, alternates []byte) {
		dir := t.TempDir()
		real, err := filepath.EvalSymlinks(dir)
		require.NoError(t, err)
		own := world{t, real}
		own.write("a/.git", string(file))
		own.write("b/.git/HEAD", "ref: refs/heads/main\n")
		own.mkdir("b/.git/refs")
		own.write("b/.git/config", string(config))
		own.write("b/.git/objects/info/alternates", string(alternates))
		for _, ws := range []string{"a", "b"} {
			l := Find(own.at(ws), own.at("home"))
			require.Empty(t, l.Granted)
			for _, p := range l.Needs {
				require.True(t, p.ReadOnly || l.Unproved, "%q", p)
				require.NotContains(t, p.Dir, "\n")
				require.True(t, filepath.IsAbs(p.Dir))
			}
		}
	})
}
