package pygent_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// work changes a copied file, keeps another, and makes and removes others.
const work = "echo more >> copied; mkdir out; printf 12345 > out/report; rm gone; false"

func TestATaskThatDidNotFinishTellsWhatItLeft(t *testing.T) {
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, rt pygent.Runtime) {
		for _, name := range []string{"copied", "kept", "gone"} {
			require.NoError(t, rt.WriteFile(t.Context(), name, []byte(name)))
		}
		m := newTasks(t, pygenttest.NewScriptedModel(callBash(work), callBash("echo never")))
		id := startTask(t, m, "go", rt, pygent.WithTaskFiles("copied", "kept", "gone"), pygent.WithTaskLimits(pygent.Limits{MaxSteps: 1}))
		status := waitTask(t, m, id)
		require.Equal(t, pygent.TaskFailed, status.State, status.Reason)
		require.Equal(t, &pygent.TaskLeft{Call: "$ " + work, Outcome: "exit 1", Files: []pygent.TaskFile{
			{Path: "copied", Size: 11, Change: pygent.FileChanged},
			{Path: "out/report", Size: 5, Change: pygent.FileNew},
			{Path: "gone", Size: 4, Change: pygent.FileRemoved},
			{Path: "kept", Size: 4},
		}}, status.Left)
		roundTrip(t, status)
		_, err := m.CollectFile(t.Context(), rt, id, "out/report", "report")
		require.NoError(t, err)
		data, err := rt.ReadFile(t.Context(), "report")
		require.NoError(t, err)
		require.Equal(t, "12345", string(data))
	})
}

func TestTheParentIsToldWhatATaskLeft(t *testing.T) {
	t.Parallel()
	writes := "printf 123 > \"$(printf 'a\\nb')\"; echo x > plain"
	model := pygenttest.NewScriptedModel(follow(
		always(pygenttest.Call("delegate_task", map[string]any{"prompt": "Hang", "timeout": 2})),
		wait,
		func(id string) pygenttest.Reply {
			return pygenttest.Call("collect_file", map[string]any{"task_id": id, "path": "plain"})
		},
		always(stop))).RepeatLast().On("Hang", callBash(writes), pygenttest.Text("").WithGate(nil))
	agent := newAgent(t, model)
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(10))
	require.NoError(t, err)
	require.Contains(t, heard(agent), "\n  It did last: $ "+writes+" (exit 0)\n")
	require.Contains(t, heard(agent), "Its workspace has, for collect_file:\n  - \"a\\nb\" (new, 3 bytes)\n  - plain (new, 2 bytes)")
	data, err := agent.Runtime().ReadFile(t.Context(), "plain")
	require.NoError(t, err)
	require.Equal(t, "x\n", string(data))
}

// heard returns all that the model of an agent was told.
func heard(agent *pygent.Agent) string {
	var b strings.Builder
	for _, m := range agent.History().Messages() {
		if m.Role == pygent.RoleUser || m.Role == pygent.RoleTool {
			b.WriteString(m.Content + "\n")
		}
	}
	return b.String()
}

func TestACancelledTaskTellsWhatItLeft(t *testing.T) {
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, rt pygent.Runtime) {
		model := pygenttest.NewScriptedModel(callBash("echo x > f"), pygenttest.Text("").WithGate(nil))
		m := newTasks(t, model)
		id := startTask(t, m, "go", rt)
		require.NoError(t, model.WaitRequests(t.Context(), 2))
		require.NoError(t, m.Cancel(t.Context(), id))
		status := waitTask(t, m, id)
		require.Equal(t, pygent.TaskCancelled, status.State)
		require.Equal(t, &pygent.TaskLeft{
			Call: "$ echo x > f", Outcome: "exit 0", Files: []pygent.TaskFile{{Path: "f", Size: 2, Change: pygent.FileNew}},
		}, status.Left)
	})
}

func TestATaskThatFinishedTellsWhatItChanged(t *testing.T) {
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, rt pygent.Runtime) {
		for _, name := range []string{"copied", "kept", "gone"} {
			require.NoError(t, rt.WriteFile(t.Context(), name, []byte(name)))
		}
		m := newTasks(t, pygenttest.NewScriptedModel(callBash(work+"; mkdir .pygent; echo x > .pygent/notes"), stop, stop))
		id := startTask(t, m, "go", rt, pygent.WithTaskFiles("copied", "kept", "gone"))
		status := waitTask(t, m, id)
		require.Equal(t, pygent.TaskFinished, status.State, status.Reason)
		want := &pygent.TaskLeft{Files: []pygent.TaskFile{
			{Path: "copied", Size: 11, Change: pygent.FileChanged},
			{Path: "out/report", Size: 5, Change: pygent.FileNew},
			{Path: "gone", Size: 4, Change: pygent.FileRemoved},
		}}
		require.Equal(t, want, status.Left)
		roundTrip(t, status)

		_, err := m.Send(t.Context(), id, "And now?")
		require.NoError(t, err)
		require.Equal(t, want, waitTask(t, m, id).Left, "what it changed in all its runs")
	})
}

func TestATaskThatOnlyTalkedChangedNothing(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(pygenttest.Text("42"), callBash("true"), stop))
	for _, prompt := range []string{"talk", "look"} {
		status := waitTask(t, m, startTask(t, m, prompt, localRuntime(t)))
		require.Equal(t, pygent.TaskFinished, status.State)
		require.Nil(t, status.Left)
	}
}

func TestATaskSaysThatItMayHaveChangedMoreThanWasLookedAt(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("d/", 310)
	for name, tt := range map[string]struct {
		script string
		files  []pygent.TaskFile
		words  string
	}{
		"nothing else":      {"mkdir -p " + deep + "; echo x > " + deep + "f", nil, "Its workspace was not looked through to the end"},
		"a file at the top": {"mkdir -p " + deep + "; echo x > " + deep + "f; echo y > top", []pygent.TaskFile{{Path: "top", Size: 2, Change: pygent.FileNew}}, "- and perhaps more, not all was looked through"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := pygenttest.NewScriptedModel(follow(
				always(pygenttest.Call("delegate_task", map[string]any{"prompt": "Write deep"})), wait, always(stop))).RepeatLast().On("Write deep", callBash(tt.script), stop)
			agent := newAgent(t, model)
			_, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			all, err := agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
			require.NoError(t, err)
			require.Equal(t, &pygent.TaskLeft{Files: tt.files, Partial: true}, all[0].Left)
			require.Contains(t, heard(agent), tt.words)
		})
	}
}

func TestTheParentAndTheUserAreToldWhatATaskChanged(t *testing.T) {
	t.Parallel()
	for name, asks := range map[string]func(string) pygenttest.Reply{
		"by a notice": always(callBash("true")),
		"by task_status": func(id string) pygenttest.Reply {
			return pygenttest.Call("task_status", map[string]any{"task_id": id, "wait": 20})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := pygenttest.NewScriptedModel(follow(always(delegate("Work")), wait, asks, always(stop))).RepeatLast().
				On("Work", callBash("echo x > report"), stop)
			var told []string
			agent := newAgent(t, model, pygent.OnEvent(func(e pygent.Event) {
				if e.Type == pygent.EventTask && e.TaskStatus.State.AtRest() {
					told = append(told, e.Text)
				}
			}))
			_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(10))
			require.NoError(t, err)
			require.Contains(t, heard(agent), "It changed these files, for collect_file:\n  - report (new, 2 bytes)")
			require.Equal(t, []string{"finished; changed report"}, told)
		})
	}
}

// manyFiles is a runtime that lists more files than anybody wants to see.
type manyFiles struct{ hollow }

func (manyFiles) NewTaskRuntime(context.Context) (pygent.Runtime, error) { return manyFiles{}, nil }

func (manyFiles) ListFiles(_ context.Context, _ string, _, limit int) (files []pygent.FileInfo, more bool, err error) {
	for i := range min(limit, 400) {
		files = append(files, pygent.FileInfo{Path: fmt.Sprintf("\x1b[31m%0900d", i), Size: 1})
	}
	return files, true, nil
}

func (manyFiles) StatFile(context.Context, string) (pygent.FileInfo, error) {
	return pygent.FileInfo{}, nil
}

func TestWhatATaskLeftIsBounded(t *testing.T) {
	t.Parallel()
	failing := pygenttest.Status(400, "bad", "No such model")
	model := pygenttest.NewScriptedModel(follow(always(delegate("Fail")), wait, always(stop))).RepeatLast().On("Fail", failing)
	agent := newAgent(t, model, pygent.WithRuntime(manyFiles{}))
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(5))
	require.NoError(t, err)
	all, err := agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	require.NotNil(t, all[0].Left, heard(agent))
	require.Len(t, all[0].Left.Files, 30)
	require.Equal(t, 370, all[0].Left.More)
	require.True(t, all[0].Left.Partial)
	require.Less(t, len(heard(agent)), 6000)
	require.NotContains(t, heard(agent), "\x1b")
}

// deafFiles is a runtime that at some time does not answer any more when it is
// asked for its files.
type deafFiles struct {
	manyFiles
	deaf *atomic.Bool
	gate chan struct{}
}

func (d deafFiles) NewTaskRuntime(context.Context) (pygent.Runtime, error) { return d, nil }

func (d deafFiles) ListFiles(context.Context, string, int, int) ([]pygent.FileInfo, bool, error) {
	if d.deaf.Load() {
		<-d.gate
	}
	return nil, false, nil
}

func TestARuntimeThatDoesNotAnswerDoesNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	d := deafFiles{deaf: new(atomic.Bool), gate: make(chan struct{})}
	defer close(d.gate)
	model := pygenttest.NewScriptedModel(pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
		d.deaf.Store(true)
		return pygenttest.Status(400, "bad", "No such model")
	})).On("Hang", pygenttest.Text("").WithGate(nil))
	m := newTasks(t, model)
	status := waitTask(t, m, startTask(t, m, "go", d))
	require.Equal(t, pygent.TaskFailed, status.State)
	require.Nil(t, status.Left)

	d.deaf.Store(false)
	id := startTask(t, m, "Hang", d)
	require.NoError(t, model.WaitRequests(t.Context(), 2))
	d.deaf.Store(true)
	require.NoError(t, m.Cancel(t.Context(), id))
	require.Equal(t, pygent.TaskCancelled, waitTask(t, m, id).State)
}

// TestNobodyLooksAtTheFilesOfTasksOfAClosedManager closes a manager while a task
// is at work.
func TestNobodyLooksAtTheFilesOfTasksOfAClosedManager(t *testing.T) {
	t.Parallel()
	d := deafFiles{deaf: new(atomic.Bool), gate: make(chan struct{})}
	defer close(d.gate)
	model := pygenttest.NewScriptedModel(callBash("true"), pygenttest.Text("").WithGate(nil))
	m := newTasks(t, model)
	id := startTask(t, m, "go", d)
	require.NoError(t, model.WaitRequests(t.Context(), 2))
	require.NoError(t, m.Close())
	status, err := m.Status(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, pygent.TaskCancelled, status.State)
	require.Nil(t, status.Left, "it would tell the call")
}

func TestFilesOfATaskThatNobodyCollectedAreToldAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		does     string
		collects bool
		want     string
	}{
		"it made files":          {"echo more >> copied; echo x > report", false, "made files that were not collected, and go with it: copied, report"},
		"one of them is wanted":  {"echo more >> copied; echo x > report", true, ""},
		"it made none":           {"cat copied", false, ""},
		"it made many":           {"touch 1 2 3 4 5 6 7", false, "and go with it: 1, 2, 3, 4, 5 and 2 others"},
		"they are its own alone": {"mkdir .pygent && echo x > .pygent/notes", false, ""},
		"it has taken them away": {"rm copied", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := pygenttest.NewScriptedModel(follow(
				always(callBash("echo copied > copied")), always(delegate("Work", "copied")), wait,
				func(id string) pygenttest.Reply {
					if tt.collects {
						return pygenttest.Call("collect_file", map[string]any{"task_id": id, "path": "report"})
					}
					return stop
				},
				always(stop))).RepeatLast().On("Work", callBash(tt.does), stop)
			var told []string
			agent, err := pygent.New(pygent.WithModel(model), pygent.WithDocker(pygent.DockerNever), pygent.OnEvent(func(e pygent.Event) {
				if e.Type == pygent.EventNotice {
					told = append(told, e.Text)
				}
			}))
			require.NoError(t, err)
			_, err = agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.NoError(t, agent.Close())
			if tt.want == "" {
				require.Empty(t, told)
				return
			}
			require.Len(t, told, 1)
			require.Regexp(t, "^task .* "+tt.want+"$", told[0])
		})
	}
}

func TestCachesOfATaskAreCopiedOnlyIfNamed(t *testing.T) {
	t.Parallel()
	collect := func(path string) func(string) pygenttest.Reply {
		return func(id string) pygenttest.Reply {
			return pygenttest.Call("collect_file", map[string]any{"task_id": id, "path": path})
		}
	}
	makes := "mkdir -p out/.git out/node_modules/x; echo 1 > out/made; touch out/.git/HEAD out/node_modules/x/1 out/node_modules/x/2"
	model := pygenttest.NewScriptedModel(follow(always(delegate("Work")), wait, collect("out"), collect("out/node_modules"), always(stop))).RepeatLast().
		On("Work", callBash(makes), stop)
	dir, rt := workspaceWith(t, nil)
	agent := newAgentOn(t, rt, model)
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(10))
	require.NoError(t, err)
	got := results(agent)
	require.Regexp(t, `^copied out of task \w+ to out: 1 file \(2 bytes\); left out: .git \(1 file\) and node_modules \(2 files\), copied only if named as path$`, got[2])
	require.Regexp(t, `^copied out/node_modules of task \w+ to out/node_modules: 2 files \(0 bytes\)$`, got[3])
	require.Equal(t, map[string]string{"out/made": "1\n", "out/node_modules/x/1": "", "out/node_modules/x/2": ""}, filesIn(t, dir))
}
