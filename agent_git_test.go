package pygent_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// warned collects the warnings about files through which git runs programs.
type warned struct {
	mu    sync.Mutex
	texts []string
}

func (w *warned) event(e pygent.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Type == pygent.EventWarning && strings.Contains(e.Text, "files by which git runs programs") {
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

const (
	writeHook = "mkdir -p .git/hooks && echo id > .git/hooks/pre-commit"
	writeConf = "mkdir -p .git && printf '[core]\\n\\tpager = id\\n' > .git/config"
)

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
	require.Contains(t, told[0], `"`+filepath.Join(dir, ".git/config")+`" is new, "`+filepath.Join(dir, ".git/hooks/pre-commit")+`" is new. Read them`)
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
					require.Contains(t, result, "denied: git on the user's machine obeys what is below .git")
				}
				return
			}
			require.Equal(t, []string{"write_file", "write_file", "write_file", "write_file", "edit_file", "collect_file", "write_file", "write_file", "write_file"}, a.names)
		})
	}
}
