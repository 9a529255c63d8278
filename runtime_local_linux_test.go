package pygent_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

func TestLocalBashTellsWhatItLeftBehind(t *testing.T) {
	t.Parallel()
	r := newTestRuntime(t, pygent.NewLocalRuntime)
	require.Empty(t, bash(t, r, "true & echo hi; wait").Note)
	mark := "MARK=" + rand.Text()
	res := bash(t, r, mark+" sleep 600 >/dev/null 2>&1 &")
	require.Regexp(t, `still running in the background: .*, as job \d+`, res.Note)
	require.Eventually(t, func() bool { return runs(t, mark) }, 30*time.Second, time.Millisecond)
	require.NoError(t, r.Cleanup())
	require.False(t, runs(t, mark))
}

// runs reports whether a process of this machine that is no zombie has the variable in its
// environment. Commands may see other numbers of processes than the test does.
func runs(t *testing.T, variable string) bool {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	return slices.ContainsFunc(list, func(path string) bool {
		data, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(data), variable)
	})
}

// reachable lets commands reach the guest, so that they can do to it what may
// also happen in other ways.
func reachable() pygent.RuntimeOption { return pygent.WithLocalProtection(pygent.ProtectionOff) }

// killGuest is a script that kills its own ancestor which is a child of the
// test: the guest.
const killGuest = `p=$$
while read -r _ _ _ parent _ </proc/$p/stat && [ "$parent" != %d ]; do p=$parent; done
kill -9 $p; sleep 60`

func TestLocalGuestThatIsKilledLeavesNothing(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	r := newTestRuntime(t, pygent.NewLocalRuntime, reachable())
	res := bash(t, r, "head -c 100000 /dev/zero")
	require.FileExists(t, res.FullPath)
	killed := bash(t, r, fmt.Sprintf(killGuest, os.Getpid()))
	require.Equal(t, -1, killed.ExitCode)
	require.False(t, killed.TimedOut)
	require.Contains(t, killed.Note, "died while the command ran")
	require.Contains(t, killed.Note, "with all that it ran")
	require.Equal(t, "next\n", bash(t, r, "echo next").Output)
	require.NoFileExists(t, res.FullPath)
	require.NoError(t, r.Cleanup())
	require.Empty(t, entries(t, temp))
}

// What a command had printed is given back although nobody can tell how it ended.
func TestACommandWhoseGuestDiesKeepsItsOutput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newTestRuntime(t, pygent.NewLocalRuntime, reachable(), pygent.WithWorkspace(dir))
	seen := sync.OnceValue(func() error { return os.WriteFile(filepath.Join(dir, "seen"), nil, 0o600) })
	script := "echo precious; until test -e seen; do sleep 0.01; done; " + killGuest
	res := bash(t, r, fmt.Sprintf(script, os.Getpid()), pygent.BashOutput(func(c pygent.OutputChunk) {
		if strings.Contains(c.Text, "precious\n") {
			require.NoError(t, seen())
		}
	}))
	require.Equal(t, -1, res.ExitCode)
	require.Equal(t, "precious\n", res.Output)
	require.Contains(t, res.Note, "died while the command ran")
}

func TestRuntimeRefusesANilContext(t *testing.T) {
	t.Parallel()
	var none context.Context
	r := newTestRuntime(t, pygent.NewLocalRuntime)
	_, err := r.Bash(none, "true")
	require.ErrorContains(t, err, "the context is nil")
	_, err = r.ReadFile(none, "f")
	require.ErrorContains(t, err, "the context is nil")
	require.ErrorContains(t, r.WriteFile(none, "f", nil), "the context is nil")
	require.ErrorContains(t, r.UploadFile(none, "f", ""), "the context is nil")
	require.ErrorContains(t, r.ExportFile(none, "f", ""), "the context is nil")
	for _, open := range []func(context.Context, ...pygent.RuntimeOption) (pygent.Runtime, error){
		pygent.NewRuntime, pygent.NewDockerRuntime, pygent.NewLocalRuntime,
	} {
		_, err := open(none)
		require.ErrorContains(t, err, "the context is nil")
	}
}

func TestLocalGuestSaysWhyItDied(t *testing.T) {
	t.Parallel()
	r := newTestRuntime(t, pygent.NewLocalRuntime, reachable())
	res, err := r.Bash(t.Context(), fmt.Sprintf(strings.Replace(killGuest, "-9", "-QUIT", 1), os.Getpid()))
	require.NoError(t, err)
	require.Contains(t, res.Note, "died while the command ran")
	require.Contains(t, res.Note, "the guest said: ")
}

func TestLocalTellsWhatItCannotDo(t *testing.T) {
	t.Parallel()
	events := make(chan pygent.RuntimeEvent, 10)
	r := newTestRuntime(t, pygent.NewLocalRuntime, pygent.OnRuntimeEvent(func(e pygent.RuntimeEvent) { events <- e }))
	bash(t, r, "true")
	require.NoError(t, r.Cleanup())
	if !emulated() {
		require.Empty(t, events)
		return
	}
	e := <-events
	require.Equal(t, pygent.RuntimeLimited, e.Kind)
	require.Contains(t, e.Text, "process groups")
}

// emulated reports whether this process runs under a user-mode emulator. Such
// an emulator does not support subreapers, so the guest cannot track its
// descendants.
func emulated() bool {
	var is int32
	return unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&is)), 0, 0, 0) != nil
}

// stopGuest is a script that stops its own ancestor which is a child of the
// test: the guest.
const stopGuest = `p=$$
while read -r _ _ _ parent _ </proc/$p/stat && [ "$parent" != %d ]; do p=$parent; done
kill -STOP $p; while :; do echo >>ticks; sleep 0.02; done`

func TestLocalGuestThatIsStoppedIsGivenUp(t *testing.T) {
	if testing.Short() {
		t.Skip("kills or stops processes")
	}
	t.Parallel()
	for name, tc := range map[string]struct {
		pace     pygent.RuntimeOption
		limit    time.Duration
		timedOut bool
	}{
		"at the limit":          {impatient(), 2 * time.Second, true},
		"without a limit":       {calling(), -1, false},
		"long before the limit": {calling(), time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := newTestRuntime(t, pygent.NewLocalRuntime, pygent.WithWorkspace(dir), tc.pace, reachable())
			bash(t, r, "echo kept >f; echo >ticks")
			res := bash(t, r, fmt.Sprintf(stopGuest, os.Getpid()), pygent.BashTimeout(tc.limit))
			require.Equal(t, tc.timedOut, res.TimedOut)
			require.Equal(t, -1, res.ExitCode)
			require.Contains(t, res.Note, "did not answer and was killed with all that it ran")
			requireStill(t, dir)
			require.Equal(t, "kept\n", bash(t, r, "cat f").Output)
		})
	}
}

// It is not parallel, because it measures time.
func TestARunDoesNotWaitForAStoppedGuestAfterEachCall(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits 10 s, and nothing runs beside it")
	}
	dir := t.TempDir()
	r := newTestRuntime(t, pygent.NewLocalRuntime, pygent.WithWorkspace(dir), impatient(), reachable())
	look := pygenttest.Call("look", nil)
	stopped := pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
		for os.WriteFile(filepath.Join(dir, "go"), nil, 0o600) == nil && t.Context().Err() == nil {
			if _, err := os.Stat(filepath.Join(dir, "ticks")); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		return pygenttest.Calls(look, look, look, look)
	})
	var heard jobEvents
	agent := newAgentOn(t, r, pygenttest.NewScriptedModel(background("until [ -e go ]; do sleep 0.02; done; "+fmt.Sprintf(stopGuest, os.Getpid())), stopped, stop).RepeatLast(),
		pygent.WithTools(plainTool("look", nil)), pygent.OnEvent(heard.hear))
	start := time.Now()
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Less(t, time.Since(start), 11*time.Second, "30 s if it waits after each call, and before the model is asked")
	require.Equal(t, []string{"1 true"}, heard.list())
	bash(t, r, "true", pygent.BashTimeout(100*time.Millisecond)) // gives the guest up, which otherwise has 10 s to end
}

func TestStoppedSupervisorEndsAtTheLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("kills or stops processes")
	}
	t.Parallel()
	dir := t.TempDir()
	r := newTestRuntime(t, pygent.NewLocalRuntime, pygent.WithWorkspace(dir))
	res := bash(t, r, "echo >ticks; kill -STOP $PPID; while :; do echo >>ticks; sleep 0.02; done", pygent.BashTimeout(soon))
	require.True(t, res.TimedOut)
	requireStill(t, dir)
	require.Zero(t, bash(t, r, "true").ExitCode)
}

func TestLocalRuntimeThatCannotStart(t *testing.T) {
	t.Run("no shell", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		_, err := pygent.NewLocalRuntime(t.Context())
		require.ErrorIs(t, err, pygent.ErrRuntimeStart)
		require.ErrorContains(t, err, "bash")
	})
	t.Run("no workspace", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		_, err := pygent.NewLocalRuntime(t.Context(), pygent.WithWorkspace(filepath.Join(file, "dir")))
		require.ErrorIs(t, err, pygent.ErrRuntimeStart)
	})
	t.Run("the workspace is gone", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "dir")
		r := newTestRuntime(t, pygent.NewLocalRuntime, pygent.WithWorkspace(dir))
		require.NoError(t, os.Remove(dir))
		_, err := r.Bash(t.Context(), "true")
		require.ErrorIs(t, err, pygent.ErrRuntimeStart)
		require.ErrorIs(t, r.(pygent.Starter).Start(t.Context()), pygent.ErrRuntimeStart)
	})
}

// While a model writes the arguments of a command, what runs the command is started.
// The arguments of other calls start nothing.
func TestWhatRunsCommandsStartsWhileTheModelWritesOne(t *testing.T) {
	idle := children(t)
	answers := pygenttest.NewScriptedModel(pygenttest.Call("write_file", map[string]any{"path": "f", "content": "x"}), callBash("cat f"), stop)
	model := pygent.StreamFunc(func(ctx context.Context, req *pygent.ChatRequest, emit func(pygent.Delta)) (*pygent.ChatResponse, error) {
		resp, err := answers.Chat(ctx, req)
		if err != nil {
			return nil, err
		}
		tool := resp.Message.ToolCalls[0].Name
		if tool != "stop" {
			assert.ElementsMatch(t, idle, children(t), "before %s", tool)
			emit(pygent.Delta{Call: &chat.CallDelta{Tool: tool}})
			emit(pygent.Delta{Call: &chat.CallDelta{Tool: tool, Bytes: 10}})
		}
		if tool == "bash" {
			assert.Eventually(t, func() bool { return len(children(t)) > len(idle) }, 10*time.Second, time.Millisecond)
		}
		return resp, nil
	})
	agent, err := pygent.New(pygent.WithModel(model), pygent.WithRuntime(localRuntime(t)))
	require.NoError(t, err)
	defer agent.Close()
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, "all done", result.Summary)
}

// A model may write a call of a tool that it was not given.
func TestAnAgentWithoutCommandsStartsNothingForThem(t *testing.T) {
	idle := children(t)
	var tools pygent.Registry
	require.NoError(t, tools.Add(pygent.NewTool("stop", "End.", func(context.Context, pygent.Runtime, struct{}) (string, error) { return "", nil })))
	model := pygent.StreamFunc(func(_ context.Context, _ *pygent.ChatRequest, emit func(pygent.Delta)) (*pygent.ChatResponse, error) {
		emit(pygent.Delta{Call: &chat.CallDelta{Tool: "bash"}})
		assert.Never(t, func() bool { return len(children(t)) > len(idle) }, 300*time.Millisecond, 10*time.Millisecond)
		return &pygent.ChatResponse{Message: chat.AssistantMessage("Done.")}, nil
	})
	rt := localRuntime(t)
	agent, err := pygent.New(pygent.WithModel(model), pygent.WithRuntime(rt), pygent.WithRegistry(&tools))
	require.NoError(t, err)
	_, err = agent.Step(t.Context(), "go")
	require.NoError(t, err)
	require.ElementsMatch(t, idle, children(t))
	require.NoError(t, agent.Close())
}

// children are the processes that this one has started and that run.
func children(t *testing.T) (pids []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/children")
	require.NoError(t, err)
	for _, name := range files {
		data, _ := os.ReadFile(name) // an error means that the thread has ended
		pids = append(pids, strings.Fields(string(data))...)
	}
	return pids
}

// A task that has ended keeps its files and its conversation, and no process, unless it
// left one at work. The children are counted, so no other test may run meanwhile.
func TestALocalTaskAtRestKeepsNoProcess(t *testing.T) {
	parent := localRuntime(t)
	before := children(t)
	m := newTasks(t, pygenttest.NewScriptedModel(
		callBash("echo one >f; echo two >$TMPDIR/f"), pygenttest.Call("stop", map[string]any{"summary": "first"}),
		callBash("cat f $TMPDIR/f"), pygenttest.Call("stop", map[string]any{"summary": "second"}),
		pygenttest.Call("bash", map[string]any{"cmd": "sleep 600", "background": true}), pygenttest.Call("stop", nil), pygenttest.Call("stop", nil)))
	id := startTask(t, m, "begin", parent)
	require.Equal(t, "first", waitTask(t, m, id).Summary())
	require.ElementsMatch(t, before, children(t))

	_, err := m.Send(t.Context(), id, "go on")
	require.NoError(t, err)
	status := waitTask(t, m, id)
	require.Equal(t, "second", status.Summary(), status.Reason)
	require.ElementsMatch(t, before, children(t))

	_, err = m.Send(t.Context(), id, "start a server")
	require.NoError(t, err)
	waitTask(t, m, id)
	require.Greater(t, len(children(t)), len(before), "a job goes on")
	require.NoError(t, m.Close())
	require.ElementsMatch(t, before, children(t))
}
