// These tests hold how git works in workspaces, and which changes to its configuration are
// reported and need approval.

package pygent_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/checkpoint/objstore"
	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/project"
	"github.com/x/pygent/pygenttest"
)

// gitWorld is a directory in which git has made repositories.
type gitWorld struct {
	t   *testing.T
	dir string
}

func newGitWorld(t *testing.T) gitWorld {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return gitWorld{t, dir}
}

func (w gitWorld) at(name string) string { return filepath.Join(w.dir, filepath.FromSlash(name)) }

// git runs git on this machine.
func (w gitWorld) git(dir string, args ...string) string {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always"}, args...)...)
	cmd.Dir = w.at(dir)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull}
	out, err := cmd.CombinedOutput()
	require.NoError(w.t, err, string(out))
	return string(out)
}

func (w gitWorld) write(name string) {
	w.t.Helper()
	require.NoError(w.t, os.MkdirAll(filepath.Dir(w.at(name)), 0o755))
	require.NoError(w.t, os.WriteFile(w.at(name), []byte(name), 0o644))
}

// repo makes a repository with a file, and a linked worktree elsewhere in which another
// one is staged.
func (w gitWorld) repo(name string) {
	w.t.Helper()
	w.git("", "init", "-q", "-b", "main", name)
	w.write(name + "/root")
	w.git(name, "add", ".")
	w.git(name, "commit", "-q", "-m", "first")
	w.git(name, "worktree", "add", "-q", "../"+name+"-tree")
	w.write(name + "-tree/staged")
	w.git(name+"-tree", "add", "staged")
}

// gitLayouts are the layouts of repositories: how each is made, where the workspace is in
// it, and which path has to be allowed.
var gitLayouts = []struct {
	name, ws, allow string
	make            func(w gitWorld)
}{
	{"plain", "main", "", func(w gitWorld) { w.repo("main") }},
	{"linked worktree", "ws", "", func(w gitWorld) { w.repo("main"); w.git("main", "worktree", "add", "-q", "../ws") }},
	{"linked worktree, allowed", "ws", "main/.git", func(w gitWorld) { w.repo("main"); w.git("main", "worktree", "add", "-q", "../ws") }},
	{"relative worktree", "ws", "main", func(w gitWorld) {
		w.repo("main")
		w.git("main", "worktree", "add", "-q", "../ws")
		require.NoError(w.t, os.WriteFile(w.at("ws/.git"), []byte("gitdir: ../main/.git/worktrees/ws\n"), 0o644))
		require.NoError(w.t, os.WriteFile(w.at("main/.git/worktrees/ws/gitdir"), []byte("../../../../ws/.git\n"), 0o644))
	}},
	{"bare", "ws", "bare.git", func(w gitWorld) {
		w.repo("main")
		w.git("", "clone", "-q", "--bare", "main", "bare.git")
		w.git("bare.git", "worktree", "add", "-q", "../ws")
	}},
	{"submodule", "super/ws", "super/.git/modules/ws", func(w gitWorld) {
		w.repo("main")
		w.repo("super")
		w.git("super", "submodule", "--quiet", "add", w.at("main"), "ws")
	}},
	{"package", "main/packages/ws", "main", func(w gitWorld) { w.repo("main"); require.NoError(w.t, os.MkdirAll(w.at("main/packages/ws"), 0o755)) }},
	{"alternates", "ws", "main/.git/objects", func(w gitWorld) { w.repo("main"); w.git("", "clone", "-q", "--shared", "main", "ws") }},
	{"core.worktree", "main", "", func(w gitWorld) { w.repo("main"); w.git("main", "config", "core.worktree", w.at("main")) }},
	{"separate", "ws", "store.git", func(w gitWorld) {
		w.repo("main")
		w.git("", "clone", "-q", "--separate-git-dir", w.at("store.git"), "main", "ws")
	}},
}

// gitRuntimes are the kinds of runtimes in which git has to work.
func gitRuntimes() []runtimeCase { return runtimeCases()[:2] }

func TestGitWorksInEveryLayout(t *testing.T) {
	t.Parallel()
	for _, kind := range gitRuntimes() {
		for _, tt := range gitLayouts {
			t.Run(kind.Name+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				w := newGitWorld(t)
				tt.make(w)
				w.write(tt.ws + "/new")
				opts := []pygent.RuntimeOption{pygent.WithWorkspace(w.at(tt.ws))}
				if tt.allow != "" {
					opts = append(opts, pygent.WithRepositories(w.at(tt.allow)))
				}
				r := kind.New(t, opts...)
				contained := r.(pygent.Describer).Describe(t.Context()).Protection != "none"
				for _, command := range []string{
					"git status --porcelain", "git add . && git -c user.name=u -c user.email=u@v.w commit -q -m second",
					"git clone -q \"$(git rev-parse --show-toplevel)\" \"$(mktemp -d)/clone\"", "git worktree list", "git gc -q", "git worktree prune", "git status",
				} {
					res := bash(t, r, command)
					if contained && command == "git gc -q" && strings.HasSuffix(tt.name, "linked worktree") {
						require.NotZero(t, res.ExitCode, "packed refs are not to be written unasked")
						continue
					}
					require.Zero(t, res.ExitCode, "%s: %s", command, res.Output)
				}
				clean := bash(t, r, "git status --porcelain").Output
				require.NoError(t, r.Cleanup())
				require.Empty(t, clean)
				require.Equal(t, "second\n", w.git(tt.ws, "log", "-1", "--format=%s"))
				require.Empty(t, w.git(tt.ws, "status", "--porcelain"))
				require.Contains(t, w.git("main-tree", "status", "--porcelain"), "A  staged")
				w.git(tt.ws, "fsck", "--connectivity-only")
				w.git("main-tree", "fsck", "--connectivity-only")
			})
		}
	}
}

func TestWhereGitDoesNotWorkUserAndModelAreTold(t *testing.T) {
	t.Parallel()
	for _, kind := range gitRuntimes() {
		for _, tt := range gitLayouts {
			if tt.allow == "" || tt.name == "linked worktree, allowed" || tt.name == "relative worktree" || tt.name == "bare" {
				continue
			}
			t.Run(kind.Name+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				w := newGitWorld(t)
				tt.make(w)
				opts := []pygent.RuntimeOption{pygent.WithWorkspace(w.at(tt.ws))}
				info := kind.New(t, opts...).(pygent.Describer).Describe(t.Context())
				if info.Protection == "none" {
					t.Skip("commands are not confined here")
				}
				require.Len(t, info.Notes, 1)
				require.Contains(t, info.Notes[0], "git does not work in the workspace")
				require.Contains(t, info.Notes[0], "--repository "+w.at(tt.allow))
				require.Contains(t, pygent.DefaultPrompt(pygent.PromptInfo{Runtime: info, Tools: []chat.ToolSpec{{Name: "bash"}}}), info.Notes[0])
			})
		}
	}
}

func TestNoneEndsWhatAWorktreeMayDoUnasked(t *testing.T) {
	t.Parallel()
	for _, kind := range gitRuntimes() {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			w := newGitWorld(t)
			w.repo("main")
			r := kind.New(t, pygent.WithWorkspace(w.at("main-tree")), pygent.WithRepositories("none"))
			info := r.(pygent.Describer).Describe(t.Context())
			if info.Protection == "none" {
				t.Skip("commands are not confined here")
			}
			require.Len(t, info.Notes, 1)
			require.Contains(t, info.Notes[0], "git does not work in the workspace")
			require.NotZero(t, bash(t, r, "git status").ExitCode)
		})
	}
}

func TestAnEngineElsewhereShowsNoRepository(t *testing.T) {
	t.Parallel()
	w := newGitWorld(t)
	w.repo("main")
	r := newTestRuntime(t, pygent.NewDockerRuntime, append(onRemote(t), pygent.WithWorkspace(w.at("main-tree")), pygent.WithRepositories(w.at("main")))...)
	require.NotZero(t, bash(t, r, "git status").ExitCode)
	info := r.(pygent.Describer).Describe(t.Context())
	require.Len(t, info.Notes, 1)
	require.Contains(t, info.Notes[0], "the Docker Engine is on another machine")
}

func TestTheWorkspaceIsAlsoAtItsOwnPathInAContainer(t *testing.T) {
	t.Parallel()
	for _, kind := range runtimeCases()[1:] {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			r := kind.New(t, pygent.WithWorkspace(dir))
			require.NoError(t, r.WriteFile(t.Context(), "script", []byte("#!/bin/sh\necho yes\n")))
			require.Equal(t, "/workspace\nyes\n", bash(t, r, "chmod +x script; pwd; "+dir+"/script").Output)
			require.Empty(t, r.(pygent.Describer).Describe(t.Context()).Notes)
		})
	}
	requireDocker(t)
	dir := t.TempDir()
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(dir), pygent.WithMounts(pygent.Mount{Source: dir, Target: dir + "/in"}))
	notes := r.(pygent.Describer).Describe(t.Context()).Notes
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], dir+", does not exist there, since something else is mounted there")
}

func TestTheUsersIdentityHasTheLowestRank(t *testing.T) {
	w := newGitWorld(t)
	w.write("home/.gitconfig")
	require.NoError(t, os.WriteFile(w.at("home/.gitconfig"), []byte("[user]\n\tname = \"A \\\"b\\\"\\n[core] x\"\n[includeIf \"gitdir:**/work/**\"]\n\tpath = work\n"), 0o644))
	require.NoError(t, os.WriteFile(w.at("home/work"), []byte("[user]\n\temail = a@work\n"), 0o644))
	w.git("", "init", "-q", "work/repo")
	t.Setenv("HOME", w.at("home"))
	for _, kind := range runtimeCases()[1:] {
		t.Run(kind.Name, func(t *testing.T) {
			r := kind.New(t, pygent.WithWorkspace(w.at("work/repo")))
			if kind.Name == "busybox" { // it has no git
				require.Contains(t, bash(t, r, "cat $GIT_CONFIG_SYSTEM").Output, "email = \"a@work\"")
				return
			}
			require.Equal(t, "A \"b\"[core] x\na@work\n", bash(t, r, "git config user.name; git config user.email").Output)
			require.Equal(t, "container\na@work\n", bash(t, r, "git config --global user.name container; git config user.name; git config user.email").Output)
			require.Equal(t, "container\nrepo\n", bash(t, r, "git config user.email repo; git config user.name; git config user.email; git config --unset user.email").Output)
		})
	}
}

func TestGitChangesOfARepositoryElsewhereAreTold(t *testing.T) {
	t.Parallel()
	for _, kind := range gitRuntimes() {
		for name, tt := range map[string]struct {
			allowed []string
			changed []string
			same    string
		}{
			"granted": {nil, []string{"worktrees/main-tree/config.worktree"}, "hooks/pre-commit"},
			"allowed": {[]string{"main"}, []string{"worktrees/main-tree/config.worktree", "hooks/pre-commit"}, "hooks/none"},
		} {
			t.Run(kind.Name+"/"+name, func(t *testing.T) {
				t.Parallel()
				w := newGitWorld(t)
				w.repo("main")
				opts := []pygent.RuntimeOption{pygent.WithWorkspace(w.at("main-tree"))}
				for _, dir := range tt.allowed {
					opts = append(opts, pygent.WithRepositories(w.at(dir)))
				}
				r := kind.New(t, opts...)
				if r.(pygent.Describer).Describe(t.Context()).Protection == "none" {
					t.Skip("commands are not confined here")
				}
				var told warned
				agent := newAgentOn(t, r, pygenttest.NewScriptedModel(callBash("cd "+w.at("main/.git")+"; mkdir -p hooks; echo id >hooks/pre-commit; printf '[core]\\n\\tpager = id\\n' >worktrees/main-tree/config.worktree"), stop), project.Read(), pygent.OnEvent(told.event))
				_, err := agent.RunUntilStop(t.Context(), "go")
				require.NoError(t, err)
				texts := told.take()
				require.Len(t, texts, 1)
				for _, name := range tt.changed {
					require.Contains(t, texts[0], w.at("main/.git/"+name))
				}
				require.NotContains(t, texts[0], tt.same)
				require.Contains(t, agent.History().Messages()[0].Text(), "on branch main-tree")
			})
		}
	}
}

func TestNothingIsShownInPlaceOfARepository(t *testing.T) {
	t.Parallel()
	for _, kind := range gitRuntimes() {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			w := newGitWorld(t)
			w.repo("main")
			w.write("secret/key")
			r := kind.New(t, pygent.WithWorkspace(w.at("main-tree")))
			if r.(pygent.Describer).Describe(t.Context()).Protection == "none" {
				t.Skip("commands are not confined here")
			}
			if kind.Name == "docker" { // its container starts by itself
				require.Zero(t, bash(t, r, "git status").ExitCode)
			}
			require.NoError(t, os.Rename(w.at("main/.git/refs"), w.at("main/.git/was")))
			require.NoError(t, os.Symlink(w.at("secret"), w.at("main/.git/refs")))
			if kind.Name == "docker" {
				engine := testEngine(t)
				require.NoError(t, engine.ContainerKill(t.Context(), containersOf(t, engine, w.at("main-tree"))[0].ID, "KILL"))
				require.Eventually(t, func() bool { return len(containersOf(t, engine, w.at("main-tree"))) == 0 }, 30*time.Second, time.Millisecond)
			}
			res := bash(t, r, "cat "+w.at("main/.git/refs/key")+" "+w.at("secret/key")+"; touch "+w.at("main/.git/refs/x"))
			require.NotContains(t, res.Output, "secret/key\n")
			require.NoFileExists(t, w.at("secret/x"))
			require.Contains(t, res.Note, "is not the directory any more that it was")
			require.NoError(t, r.Cleanup())
		})
	}
}

func TestWhatIsStagedElsewhereOutlivesAPruneAndAGC(t *testing.T) {
	t.Parallel()
	for _, kind := range gitRuntimes() {
		for _, tt := range gitLayouts[:3] {
			t.Run(kind.Name+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				w := newGitWorld(t)
				tt.make(w)
				opts := []pygent.RuntimeOption{pygent.WithWorkspace(w.at(tt.ws))}
				if tt.allow != "" {
					opts = append(opts, pygent.WithRepositories(w.at(tt.allow)))
				}
				r := kind.New(t, opts...)
				bash(t, r, "git worktree prune; git gc -q --prune=now")
				require.NoError(t, r.Cleanup())
				require.Equal(t, "A  staged\n", w.git("main-tree", "status", "--porcelain"))
				w.git("main-tree", "fsck")
				w.git("main-tree", "commit", "-q", "-m", "staged")
			})
		}
	}
}

func openWorkTree(t *testing.T, r pygent.Runtime) *sandbox.WorkTree {
	w, err := r.(interface {
		OpenWorkTree() (*sandbox.WorkTree, error)
	}).OpenWorkTree()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w
}

// treeText returns the files of a tree with their content, and links after "->".
func treeText(t *testing.T, s *objstore.Store, tree objstore.Tree) map[string]string {
	t.Helper()
	all := map[string]string{}
	fsys := s.FS(t.Context(), tree)
	require.NoError(t, fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir():
			return err
		case d.Type() == fs.ModeSymlink:
			target, err := fs.ReadLink(fsys, name)
			all[name] = "->" + target
			return err
		}
		data, err := fs.ReadFile(fsys, name)
		all[name] = string(data)
		return err
	}))
	return all
}

// TestWorkspacesAreTakenAndRestored takes the trees of workspaces that commands
// change, and makes the changes backwards.
func TestWorkspacesAreTakenAndRestored(t *testing.T) {
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		s, err := objstore.Open(t.TempDir())
		require.NoError(t, err)
		defer s.Close()
		w, c := openWorkTree(t, r), new(objstore.Cache)
		take := func() (objstore.Tree, objstore.Report) {
			tree, report, err := s.Take(t.Context(), w, c, objstore.TakeOptions{})
			require.NoError(t, err)
			return tree, report
		}
		require.NoError(t, r.WriteFile(t.Context(), "before", []byte("the start")))
		res := bash(t, r, `mkdir -p src/deep ignored/x node_modules/y && echo 'ignored/' > .gitignore &&
			echo one > src/one && echo two > src/two && echo deep > src/deep/f && ln -s one src/link &&
			touch ignored/x/1 node_modules/y/2 && echo secret > private && chmod 600 private && chmod 700 src/deep`)
		require.Zero(t, res.ExitCode, res.Output)
		first, report := take()
		want := map[string]string{"before": "the start", ".gitignore": "ignored/\n", "src/one": "one\n", "src/two": "two\n",
			"src/deep/f": "deep\n", "src/link": "->one", "private": "secret\n"}
		require.Equal(t, want, treeText(t, s, first))
		require.Equal(t, []objstore.Left{{Name: "ignored", Why: "ignored"}, {Name: "node_modules", Why: "other programs fill it"}}, report.LeftOut)

		res = bash(t, r, `echo three > src/one && rm src/two private && rm src/link && echo file > src/link && mkdir new && echo 1 > new/1 && rm -r src/deep`)
		require.Zero(t, res.ExitCode, res.Output)
		second, _ := take()
		require.NotEqual(t, first, second)
		bash(t, r, `echo meanwhile > new/1`)
		conflicts, err := s.Apply(t.Context(), w, second, first, objstore.ApplyOptions{})
		require.NoError(t, err)
		var names []string
		for _, c := range conflicts {
			names = append(names, c.Name)
		}
		require.Equal(t, []string{"new/1", "new"}, names)
		bash(t, r, `rm -r new`)
		third, _ := take()
		for change, err := range s.Diff(t.Context(), first, third) {
			require.NoError(t, err)
			require.Fail(t, "a difference is left", "%+v", change)
		}
		res = bash(t, r, `cat src/one src/two src/deep/f private; ls -a . src; readlink src/link`)
		require.Zero(t, res.ExitCode, res.Output)
		require.True(t, strings.HasPrefix(res.Output, "one\ntwo\ndeep\nsecret\n"), res.Output)
		require.NotContains(t, res.Output, ".pygent-")
		_, found, err := s.Recover(t.Context(), w)
		require.NoError(t, err)
		require.False(t, found)
	})
}

// warned collects the warnings about files through which git runs programs.
type warned struct {
	mu    sync.Mutex
	texts []string
}

func (w *warned) event(e pygent.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Type == pygent.EventWarning && strings.Contains(e.Text, "files that can make git run programs") {
		w.texts = append(w.texts, e.Text)
	}
}

// take returns what was collected since its last call.
func (w *warned) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	texts := w.texts
	w.texts = nil
	return texts
}

// testGitChanges runs an agent in the workspace dir, whose commands change
// files of git.
func testGitChanges(t *testing.T, dir string, rt pygent.Runtime) {
	var w warned
	agent, err := pygent.New(pygent.WithRuntime(rt), pygent.OnEvent(w.event), pygent.WithModel(pygenttest.NewScriptedModel(
		callBash("echo x > a.txt"), stop,
		pygenttest.Calls(callBash(writeHook), callBash(writeConf)), stop,
		callBash("true"), stop)))
	require.NoError(t, err)
	run := func() []string {
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		return w.take()
	}
	require.Empty(t, run(), "no file of git's was changed")
	told := run()
	require.Len(t, told, 1)
	require.Contains(t, told[0], `"`+filepath.Join(dir, ".git/config")+`" is new, "`+filepath.Join(dir, ".git/hooks/pre-commit")+`" is new. Check them`)
	require.Empty(t, run(), "each change is told once")

	_, err = rt.Bash(t.Context(), "echo worse >> .git/hooks/pre-commit")
	require.NoError(t, err)
	require.NoError(t, agent.Close())
	told = w.take()
	require.Len(t, told, 1, "what runs on after a run is told at the end")
	require.Contains(t, told[0], `pre-commit" is changed`)
}

func TestGitChangesAreToldLocally(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rt, err := pygent.NewLocalRuntime(t.Context(), pygent.WithWorkspace(dir))
	require.NoError(t, err)
	testGitChanges(t, dir, rt)
}

func TestGitChangesInAContainerAreTold(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	dir := t.TempDir()
	testGitChanges(t, dir, newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(dir)))
}

func TestGitChangesInAMountAreTold(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	mount := t.TempDir()
	var w warned
	rt := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithMounts(
		pygent.Mount{Source: mount, Target: "/src"}, pygent.Mount{Source: t.TempDir(), Target: "/fixed", ReadOnly: true}))
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(callBash("cd /src && "+writeHook), stop), pygent.OnEvent(w.event))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	told := w.take()
	require.Len(t, told, 1)
	require.Contains(t, told[0], filepath.Join(mount, ".git/hooks/pre-commit"))
}

func TestGitChangesInAWritableDirectoryAreTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rt, err := pygent.NewLocalRuntime(t.Context(), pygent.WithLocalWritable(dir))
	require.NoError(t, err)
	var w warned
	agent, err := pygent.New(pygent.WithRuntime(rt), pygent.OnEvent(w.event), pygent.WithModel(pygenttest.NewScriptedModel(
		callBash("cd '"+dir+"' && "+writeConf), stop)))
	require.NoError(t, err)
	_, err = agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.NoError(t, agent.Close())
	told := w.take()
	require.Len(t, told, 1)
	require.Contains(t, told[0], filepath.Join(dir, ".git/config"))
}

func TestGitOfATemporaryWorkspaceIsNoConcern(t *testing.T) {
	t.Parallel()
	var w warned
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Calls(callBash(writeHook), pygenttest.Call("write_file", map[string]any{"path": ".git/config", "content": "x"})), stop), pygent.OnEvent(w.event))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Empty(t, w.take())
	require.Contains(t, results(agent)[1], "created .git/config")
}

func TestWritesBelowGitNeedApproval(t *testing.T) {
	t.Parallel()
	write := func(path string) pygenttest.Reply {
		return pygenttest.Call("write_file", map[string]any{"path": path, "content": "x"})
	}
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, ".git/hooks"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".git/config"), []byte("[core]\n"), 0o644))
	require.NoError(t, os.Symlink(".git", filepath.Join(dir, "link")))
	calls := pygenttest.Calls(write("a"), write(".git/hooks/pre-commit"), write("link/hooks/pre-commit"), write("sub/.GIT/config"), write(filepath.Join(dir, ".git/config")),
		pygenttest.Call("edit_file", map[string]any{"path": ".git/config", "old_text": "core", "new_text": "alias"}),
		pygenttest.Call("collect_file", map[string]any{"task_id": "t", "path": "a", "dest": ".git/hooks/pre-push"}), write("'.git/hooks/quoted'"), write(`.git\hooks\other`), write("file://"+dir+"/.git/hooks/url"), stop)
	var a asked
	for name, opts := range map[string][]pygent.Option{
		"nobody":                {pygent.WithConfirmBash(false)},
		"who is asked for them": {pygent.WithConfirmBash(false), pygent.WithApproval(a.approve), pygent.WithApprovalFor("download_file")},
	} {
		t.Run(name, func(t *testing.T) {
			rt, err := pygent.NewLocalRuntime(t.Context(), pygent.WithWorkspace(dir))
			require.NoError(t, err)
			agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(calls, stop), opts...)
			_, err = agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			got := results(agent)
			require.Regexp(t, "^(created|replaced) a", got[0])
			if name == "nobody" {
				for _, result := range got[1:10] {
					require.Contains(t, result, "denied: files below .git can make git")
				}
				return
			}
			require.Equal(t, []string{"write_file", "write_file", "write_file", "write_file", "edit_file", "collect_file", "write_file", "write_file", "write_file"}, a.names)
		})
	}
}

const (
	writeHook = "mkdir -p .git/hooks && echo id > .git/hooks/pre-commit"
	writeConf = "mkdir -p .git && printf '[core]\\n\\tpager = id\\n' > .git/config"
)
