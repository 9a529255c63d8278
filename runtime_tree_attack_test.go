package pygent_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// canary is a directory of the host that nothing in a workspace may reach.
type canary struct{ dir, secret string }

func newCanary(t testing.TB) canary {
	t.Helper()
	c := canary{dir: t.TempDir(), secret: "the user's own key"}
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, "authorized_keys"), []byte(c.secret), 0o600))
	return c
}

// requireIntact fails if anything in the canary was changed, added or removed.
func (c canary) requireIntact(t testing.TB) {
	t.Helper()
	entries, err := os.ReadDir(c.dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	data, err := os.ReadFile(filepath.Join(c.dir, "authorized_keys"))
	require.NoError(t, err)
	require.Equal(t, c.secret, string(data))
}

// delegateAs makes an agent whose model runs a script, delegates files to a
// task, and waits for it. The task runs another script. delegateAs returns the
// results of all calls of the agent and of the task.
func delegateAs(t *testing.T, rt pygent.Runtime, script string, files []string, inTask string) (agent, task []string) {
	t.Helper()
	model := pygenttest.NewScriptedModel(follow(
		always(callBash(script)),
		always(delegate("Look around", files...)),
		func(id string) pygenttest.Reply { return wait(id) },
		always(stop),
	)).RepeatLast().On("Look around", callBash(inTask), pygenttest.Call("stop", map[string]any{"summary": "done"}))
	a := newAgentOn(t, rt, model)
	_, err := a.RunUntilStop(t.Context(), "delegate it")
	require.NoError(t, err)
	for _, req := range model.Requests() {
		for _, m := range req.Messages {
			if m.Role == pygent.RoleTool && strings.HasPrefix(m.Content, "$ "+inTask) {
				task = append(task, m.Content)
			}
		}
	}
	return results(a), task
}

func TestDelegatedFilesDoNotReplaceFilesOfTheHost(t *testing.T) {
	t.Parallel()
	for _, kind := range runtimeCases() {
		t.Run(kind.Name, func(t *testing.T) {
			rt, home := kind.New(t), newCanary(t)
			// In the workspace p/d leads to a directory of the workspace. If up
			// were staged as a directory instead of a link, p/d would lead to
			// the canary.
			deep, back := strings.Repeat("a/", 12), strings.Repeat("../", 12)
			here := strings.TrimPrefix(home.dir, "/")
			_, task := delegateAs(t, rt,
				"mkdir -p "+deep+" "+here+" p && echo evil >"+deep+"x && echo evil >"+here+"/authorized_keys && ln -s "+deep+" up && ln -s ../up/"+back+here+" p/d",
				[]string{"up/x", "p", "p/d/authorized_keys"}, "cat up/x p/d/authorized_keys")
			home.requireIntact(t)
			require.Len(t, task, 1)
			require.Contains(t, task[0], "evil\nevil\n", "the task gets what the paths lead to in the workspace")
		})
	}
}

func TestDelegatedPathsThroughLinksStayOnTheirSide(t *testing.T) {
	t.Parallel()
	for _, kind := range runtimeCases() {
		t.Run(kind.Name, func(t *testing.T) {
			rt, home := kind.New(t), newCanary(t)
			// In the workspace real/d is a directory. The path p/d, which is
			// staged first, is a link to the canary.
			got, seen := delegateAs(t, rt,
				"mkdir -p real/d p && echo evil >real/d/authorized_keys && ln -s "+home.dir+" p/d && ln -s real q",
				[]string{"p", "q/d/authorized_keys", "q", "p/d/authorized_keys"}, "find . | sort; cat q/d/authorized_keys")
			require.NotContains(t, strings.Join(append(got, seen...), "\n"), home.secret)
			home.requireIntact(t)
		})
	}
}

func TestDelegatedLinksAreNotReadOnTheHost(t *testing.T) {
	t.Setenv("PYGENT_TEST_CANARY", "the-key-of-the-host")
	for _, kind := range runtimeCases()[1:] { // without the local runtime, whose commands may read what the user may
		t.Run(kind.Name, func(t *testing.T) {
			home := newCanary(t)
			for _, files := range [][]string{{"."}, {"env", "keys"}, {"dir"}} {
				rt := kind.New(t)
				got, seen := delegateAs(t, rt,
					"mkdir dir && ln -s /proc/self/environ env && ln -s "+home.dir+" keys && cp -P env keys dir/", files,
					"find . -type f -exec cat {} + ; cat env dir/env keys/* dir/keys/* 2>&1")
				text := strings.Join(append(got, seen...), "\n")
				require.NotContains(t, text, "the-key-of-the-host")
				require.NotContains(t, text, home.secret)
				home.requireIntact(t)
			}
		})
	}
}

// switching is a runtime that changes a path after each export, as a hostile
// container can between two exports.
type switching struct {
	pygent.Runtime
	after func(path string)
}

func (s switching) ExportFile(ctx context.Context, path, dest string) error {
	defer s.after(path)
	return s.Runtime.ExportFile(ctx, path, dest)
}

func TestWhatChangesBetweenDelegatedFilesLeadsNowhere(t *testing.T) {
	t.Parallel()
	rt, home := localRuntime(t), newCanary(t)
	bash(t, rt, "mkdir p; ln -s "+home.dir+" p/d; ln -s p/d top")
	changing := switching{rt, func(path string) {
		if path == "p" {
			bash(t, rt, "rm p/d; mkdir p/d; echo evil >p/d/authorized_keys; echo evil >p/d/new")
		}
	}}
	m := newTasks(t, pygenttest.NewScriptedModel(stop).RepeatLast())
	id, err := m.StartTask(t.Context(), "go", changing, pygent.WithTaskFiles("p", "p/d/authorized_keys", "p/d"))
	if err == nil {
		waitTask(t, m, id)
	}
	home.requireIntact(t)
}

func TestAnOddInstructionsFileEndsNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range runtimeCases() {
		t.Run(kind.Name, func(t *testing.T) {
			rt, home := kind.New(t), newCanary(t)
			for script, want := range map[string]string{
				"ln -s " + home.dir + "/authorized_keys AGENTS.md": "outside the workspace",
				"ln -s /etc/passwd AGENTS.md":                      "outside the workspace",
				"ln -s AGENTS.md AGENTS.md":                        "AGENTS.md",
				"mkfifo AGENTS.md":                                 "not a regular file",
				"mkdir AGENTS.md":                                  "the model is not told",
				"truncate -s 1G AGENTS.md":                         "it is binary data",
				"yes | head -c 40000 >AGENTS.md":                   "the first 32768 of the 40000 bytes of AGENTS.md",
				`printf 'use \377tabs' >AGENTS.md`:                 "AGENTS.md: some of it is not UTF-8",
			} {
				require.Zero(t, bash(t, rt, "rm -rf AGENTS.md; "+script).ExitCode)
				model := pygenttest.NewScriptedModel(stop)
				agent, err := pygent.New(pygent.WithModel(model), pygent.WithRuntime(keptRuntime{rt.(runtimeWithRanges)}), pygent.WithInstructions(true))
				require.NoError(t, err)
				var warnings []string
				result, err := agent.RunUntilStop(t.Context(), "hi", pygent.OnEvent(func(e pygent.Event) {
					if e.Type == pygent.EventWarning {
						warnings = append(warnings, e.Text)
					}
				}))
				require.NoError(t, err, script)
				require.Equal(t, pygent.StatusStopped, result.Status, script)
				require.Len(t, warnings, 1, script)
				require.Contains(t, warnings[0], want, script)
				require.NotContains(t, model.Requests()[0].Messages[0].Content, home.secret)
				require.NoError(t, agent.Close())
			}
		})
	}
}

// keptRuntime is a runtime that its agent does not close.
type keptRuntime struct{ runtimeWithRanges }

type runtimeWithRanges interface {
	pygent.Runtime
	pygent.RangeReader
}

func (keptRuntime) Cleanup() error { return nil }
