package pygent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

func TestErrorOfATask(t *testing.T) {
	t.Parallel()
	sentinel := errors.New("the disk is full")
	fails := pygent.ModelFunc(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) { return nil, sentinel })
	hangs := func() pygent.TaskOption {
		return pygent.WithTaskModel(pygenttest.NewScriptedModel(pygenttest.Text("").WithGate(nil)))
	}
	model := pygenttest.NewScriptedModel().On("refused", pygenttest.Status(400, "bad", "No such model")).
		On("finished", stop).On("ponder", pygenttest.Call("continue", map[string]any{"prompt": "Which?"})).
		On("endless", spender()).RepeatLast()
	m := newTasks(t, model, pygent.MaxTasks(9))
	var api *pygent.APIError
	for prompt, tt := range map[string]struct {
		opts   []pygent.TaskOption
		cancel bool
		want   string // "" for no error
		is     error
		as     any
	}{
		"finished": {},
		"ponder":   {},
		"refused":  {want: "task refused failed: the model's server rejected the request (400 bad): No such model [request req_scripted]", as: &api},
		"broken":   {opts: []pygent.TaskOption{pygent.WithTaskModel(fails)}, want: "task broken failed: call the model: the disk is full", is: sentinel},
		"late": {opts: []pygent.TaskOption{hangs(), pygent.WithTaskLimits(pygent.Limits{MaxTime: time.Millisecond})},
			want: "task late timed out: the task took longer than 1ms (MaxTime)", is: context.DeadlineExceeded},
		"unwanted": {opts: []pygent.TaskOption{hangs()}, cancel: true, want: "task unwanted was cancelled: the task was cancelled", is: context.Canceled},
		"endless": {opts: []pygent.TaskOption{pygent.WithTaskLimits(pygent.Limits{MaxSteps: 2})},
			want: "task endless failed: the limit of 2 steps is reached (MaxSteps)"},
	} {
		t.Run(prompt, func(t *testing.T) {
			id := startTask(t, m, prompt, hollow{}, append(tt.opts, pygent.WithTaskID(prompt))...)
			if tt.cancel {
				require.NoError(t, m.Cancel(t.Context(), id))
			}
			status := waitTask(t, m, id)
			data, err := json.Marshal(status)
			require.NoError(t, err)
			var back pygent.TaskStatus
			require.NoError(t, json.Unmarshal(data, &back))
			if tt.want == "" {
				require.NoError(t, status.Err())
				require.NoError(t, back.Err())
				return
			}
			require.EqualError(t, status.Err(), tt.want)
			require.EqualError(t, back.Err(), tt.want)
			var of *pygent.TaskError
			require.ErrorAs(t, back.Err(), &of)
			require.Equal(t, id, of.ID)
			require.Equal(t, status.State, of.State)
			if tt.is != nil {
				require.ErrorIs(t, status.Err(), tt.is)
			}
			if tt.as != nil {
				require.ErrorAs(t, status.Err(), tt.as)
				require.ErrorAs(t, back.Err(), tt.as)
			}
		})
	}
	_, err := m.Status(t.Context(), "nobody")
	var of *pygent.TaskError
	require.ErrorAs(t, err, &of)
	require.Equal(t, "nobody", of.ID)
	require.Empty(t, of.State)
}

func TestErrorOfATaskThatGoesOnIsForgotten(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(pygenttest.Status(400, "bad", "No such model"), stop))
	id := startTask(t, m, "go", hollow{})
	require.Error(t, waitTask(t, m, id).Err())
	require.NoError(t, errOf(m.Send(t.Context(), id, "try again")))
	require.NoError(t, waitTask(t, m, id).Err())
}

func TestWaitAnyReturnsTasksAsTheyEnd(t *testing.T) {
	t.Parallel()
	gates := map[string]chan struct{}{"Ada": make(chan struct{}), "Barbara": make(chan struct{}), "Grace": make(chan struct{})}
	model := pygenttest.NewScriptedModel()
	for prompt, gate := range gates {
		model.On(prompt, stop.WithGate(gate))
	}
	m := newTasks(t, model)
	open := map[string]bool{}
	for prompt := range gates {
		open[startTask(t, m, prompt, hollow{}, pygent.WithTaskID(prompt))] = true
	}
	for _, next := range []string{"Barbara", "Grace", "Ada"} {
		close(gates[next])
		var ids []string
		for id := range open {
			ids = append(ids, id)
		}
		status, err := m.WaitAny(t.Context(), ids...)
		require.NoError(t, err)
		require.Equal(t, next, status.ID)
		require.Equal(t, pygent.TaskFinished, status.State)
		delete(open, next)
	}
	status, err := m.WaitAny(t.Context(), "Ada", "Barbara", "Grace")
	require.NoError(t, err)
	require.Equal(t, "Barbara", status.ID, "it has rested longest")
}

func TestWaitAnyRefusesWhatCannotEnd(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(pygenttest.Text("").WithGate(nil)))
	_, err := m.WaitAny(t.Context())
	require.ErrorContains(t, err, "none is named")
	id := startTask(t, m, "go", hollow{})
	_, err = m.WaitAny(t.Context(), id, "nobody")
	require.ErrorIs(t, err, pygent.ErrUnknownTask)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = m.WaitAny(ctx, id)
	require.ErrorIs(t, err, context.Canceled)
}

func TestWaitAnyRefusesToWaitForItsCaller(t *testing.T) {
	t.Parallel()
	refused, gate := make(chan error, 1), make(chan struct{})
	var m *pygent.TaskManager
	m = newTasks(t, pygenttest.NewScriptedModel(stop.WithGate(gate)), pygent.OnTaskEvent(func(e pygent.Event) {
		if e.Type == pygent.EventStep {
			_, err := m.WaitAny(t.Context(), e.Task)
			refused <- err
		}
	}))
	id := startTask(t, m, "go", hollow{})
	require.ErrorIs(t, <-refused, pygent.ErrInCallback)
	close(gate)
	waitTask(t, m, id)
}

// In a handler, WaitAny returns a task at rest, in whatever order they are named.
func TestWaitAnyDoesNotWaitForItsCallerIfAnotherTaskRests(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	type outcome struct {
		status pygent.TaskStatus
		err    error
	}
	got := make(chan outcome, 2)
	var m *pygent.TaskManager
	m = newTasks(t, pygenttest.NewScriptedModel().On("rests", stop).On("works", stop.WithGate(gate)), pygent.OnTaskEvent(func(e pygent.Event) {
		if e.Task == "works" && e.Type == pygent.EventStep {
			for _, ids := range [][]string{{"rests", "works"}, {"works", "rests"}} {
				status, err := m.WaitAny(t.Context(), ids...)
				got <- outcome{status, err}
			}
		}
	}))
	waitTask(t, m, startTask(t, m, "rests", hollow{}, pygent.WithTaskID("rests")))
	startTask(t, m, "works", hollow{}, pygent.WithTaskID("works"))
	for range 2 {
		o := <-got
		require.NoError(t, o.err)
		require.Equal(t, "rests", o.status.ID)
	}
	close(gate)
	waitTask(t, m, "works")
}

func TestTasksAreChosenByAFilter(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(follow(always(delegate("Lead")), func(id string) pygenttest.Reply { return wait(id) }, always(stop))).RepeatLast().
		On("Lead", follow(always(delegate("Sub")), func(id string) pygenttest.Reply { return wait(id) }, always(stop))).RepeatLast().
		On("Sub", stop).On("Other", pygenttest.Call("continue", map[string]any{"prompt": "Which?"}))
	m := newTasks(t, model, pygent.MaxTaskDepth(2))
	agent := newAgentOn(t, hollow{}, model, pygent.WithTaskManager(m))
	waitTask(t, m, startTask(t, m, "Other", hollow{}, pygent.WithTaskID("other")))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	choose := func(f pygent.TaskFilter) (prompts []string) {
		all, err := m.Tasks(t.Context(), f)
		require.NoError(t, err)
		for _, s := range all {
			prompts = append(prompts, s.Prompt)
		}
		return prompts
	}
	all, err := m.Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	require.Len(t, all, 3)
	lead := all[1]
	calls := agent.History().Messages()[2].ToolCalls
	require.Equal(t, calls[0].ID, lead.Call, "the call that started it")
	require.Empty(t, all[0].Call)
	require.Equal(t, "other", all[0].Root, "nobody is above it")
	require.Equal(t, []string{"Other", "Lead", "Sub"}, choose(pygent.TaskFilter{}))
	require.Equal(t, []string{"Lead"}, choose(pygent.TaskFilter{Parent: agent.ID()}))
	require.Equal(t, []string{"Sub"}, choose(pygent.TaskFilter{Parent: lead.ID}))
	require.Equal(t, []string{"Lead", "Sub"}, choose(pygent.TaskFilter{Root: agent.ID()}))
	require.Equal(t, []string{"Other"}, choose(pygent.TaskFilter{States: []pygent.TaskState{pygent.TaskQueued, pygent.TaskAwaitingUser}}))
	require.Empty(t, choose(pygent.TaskFilter{Root: agent.ID(), States: []pygent.TaskState{pygent.TaskRunning}}))
	require.Equal(t, []string{"Other", "Lead"}, choose(pygent.TaskFilter{Limit: 2}))
	require.Equal(t, []string{"Sub"}, choose(pygent.TaskFilter{Limit: 2, After: lead.ID}))
	_, err = m.Tasks(t.Context(), pygent.TaskFilter{After: "nobody"})
	require.ErrorIs(t, err, pygent.ErrUnknownTask)
	_, err = m.Tasks(t.Context(), pygent.TaskFilter{Limit: -1})
	require.ErrorContains(t, err, "negative")
}

func TestDepthOfOneTask(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		depth int // of the first task
		most  int // of the manager
		below int // what the first task's tool asks for
		want  []string
	}{
		"the manager's":         {0, 2, 0, []string{"1", "2"}},
		"less":                  {1, 2, 0, []string{"1"}},
		"more":                  {3, 1, 0, []string{"1", "2", "3"}},
		"no task may go deeper": {2, 1, 9, []string{"1", "2"}},
		"none":                  {pygent.NoLimit, 1, 4, []string{"1", "2", "3", "4"}},
	} {
		t.Run(name, func(t *testing.T) {
			var m *pygent.TaskManager
			dig := pygent.Tool{Name: "dig", Run: func(ctx context.Context, rt pygent.Runtime, _ json.RawMessage) (*pygent.ToolResult, error) {
				id, err := m.StartTask(ctx, "dig on", rt, pygent.WithTaskCall(ctx), pygent.WithTaskDepth(tt.below))
				if err != nil {
					require.ErrorIs(t, err, pygent.ErrTaskDepth)
					return nil, err
				}
				_, err = m.Wait(ctx, id)
				return nil, err
			}}
			m = newTasks(t, pygenttest.NewScriptedModel(pygenttest.Decide(func(r *pygent.ChatRequest) pygenttest.Reply {
				if len(r.Messages) > 3 {
					return stop
				}
				return pygenttest.Call("dig", nil)
			})).RepeatLast(), pygent.MaxTaskDepth(tt.most), pygent.MaxTasks(9), pygent.TaskAgents(pygent.WithTools(dig)))
			waitTask(t, m, startTask(t, m, "dig", hollow{}, pygent.WithTaskDepth(tt.depth)))
			var depths []string
			all, err := m.Tasks(t.Context(), pygent.TaskFilter{})
			require.NoError(t, err)
			for _, s := range all {
				depths = append(depths, fmt.Sprint(s.Depth))
			}
			require.Equal(t, tt.want, depths)
		})
	}
	m := newTasks(t, pygenttest.NewScriptedModel(stop))
	_, err := m.StartTask(t.Context(), "go", hollow{}, pygent.WithTaskDepth(-2))
	require.ErrorContains(t, err, "option WithTaskDepth")
}

func TestWaitForATaskWhoseQuestionIsWithdrawn(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(pygenttest.Call("continue", map[string]any{"prompt": "Which?"})))
	id := startTask(t, m, "go", hollow{})
	require.Equal(t, pygent.TaskAwaitingUser, waitTask(t, m, id).State)
	require.NoError(t, m.Cancel(t.Context(), id))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	status, err := m.Wait(ctx, id)
	require.NoError(t, err)
	require.Equal(t, pygent.TaskCancelled, status.State)
}

func TestCollectFileTellsWhatItCopied(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	m := newTasks(t, pygenttest.NewScriptedModel(callBash("mkdir d; echo 12345 > d/a; echo 123 > d/b"), stop.WithGate(gate)))
	rt := localRuntime(t)
	wrote := make(chan struct{}, 1)
	_ = wrote
	id := startTask(t, m, "go", rt)
	begin := time.Now()
	var c pygent.CollectedFile
	require.Eventually(t, func() bool {
		var err error
		c, err = m.CollectFile(t.Context(), rt, id, "d", "got")
		return err == nil && c.Bytes == 10
	}, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, "got", c.Path)
	require.True(t, c.Live)
	require.False(t, c.AsOf.Before(begin))
	close(gate)
	waitTask(t, m, id)
	c, err := m.CollectFile(t.Context(), rt, id, "d/a", "")
	require.NoError(t, err)
	require.False(t, c.Live)
	require.Equal(t, "d/a", c.Path)
	require.EqualValues(t, 6, c.Bytes)
	c, err = m.CollectFile(t.Context(), rt, id, "nope", "")
	require.Error(t, err)
	require.Zero(t, c)
}

// exploding panics when files are copied out of it.
type exploding struct{ nowhere }

func (exploding) ExportFile(context.Context, string, string) error { panic("no files") }

func (exploding) NewTaskRuntime(context.Context) (pygent.Runtime, error) {
	return exploding{}, nil
}

func TestCollectFromARuntimeThatPanics(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(stop)
	tasks, err := pygent.NewTaskManager(pygent.TaskAgents(pygent.WithModel(model)))
	require.NoError(t, err)
	defer tasks.Close()
	id, err := tasks.StartTask(t.Context(), "one", exploding{})
	require.NoError(t, err)
	_, err = tasks.Wait(t.Context(), id)
	require.NoError(t, err)
	rt, err := pygent.NewRuntime(t.Context(), pygent.WithDocker(pygent.DockerNever))
	require.NoError(t, err)
	defer rt.Cleanup()
	_, err = tasks.CollectFile(t.Context(), rt, id, "f", "")
	require.Error(t, err)
}

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
		if m.Role == chat.RoleUser || m.Role == chat.RoleTool {
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
		"it made files":          {"echo more >> copied; echo x > report", false, "made files that were not collected and are deleted with it: copied, report"},
		"one of them is wanted":  {"echo more >> copied; echo x > report", true, ""},
		"it made none":           {"cat copied", false, ""},
		"it made many":           {"touch 1 2 3 4 5 6 7", false, "and are deleted with it: 1, 2, 3, 4, 5 and 2 others"},
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

func TestSpecRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	good := `{"version":2,"id":"a","prompt":"p","depth":1,"limits":{"max_steps":3,"max_time_seconds":60},"rules":{"banned_commands":["rm"]},"runtime":{"container":{"image":"i"}}}`
	var spec pygent.TaskSpec
	require.NoError(t, json.Unmarshal([]byte(good), &spec))
	require.Equal(t, time.Minute, spec.Limits.MaxTime)
	require.Equal(t, []string{"rm"}, spec.Rules.BannedCommands)
	for name, bad := range map[string]string{
		"top":     strings.Replace(good, `"depth"`, `"forbid":true,"depth"`, 1),
		"limits":  strings.Replace(good, `"max_steps"`, `"max_money":1,"max_steps"`, 1),
		"rules":   strings.Replace(good, `"banned_commands"`, `"banned_hosts":[],"banned_commands"`, 1),
		"runtime": strings.Replace(good, `"image"`, `"seal":true,"image"`, 1),
		"mail":    strings.Replace(good, `"depth"`, `"queue":true,"depth"`, 1),
		"version": strings.Replace(good, `"version":2`, `"version":1`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			kept := spec
			require.ErrorContains(t, json.Unmarshal([]byte(bad), &kept), "task spec: ")
			require.Equal(t, spec, kept)
		})
	}
}

// specOf has an agent delegate a task in a run, and returns its spec.
func specOf(t *testing.T, run []pygent.RunOption, opts ...pygent.Option) (spec pygent.TaskSpec, agent *pygent.Agent) {
	t.Helper()
	hand := pygent.Tool{Name: "hand", Idempotent: true, ReadOnly: true, Run: func(ctx context.Context, rt pygent.Runtime, _ json.RawMessage) (*pygent.ToolResult, error) {
		id, err := agent.Tasks().StartTask(ctx, "Work", rt, pygent.WithTaskCall(ctx), pygent.WithTaskProfile(
			func(_ context.Context, s pygent.TaskSpec) ([]pygent.Option, error) {
				spec = s
				return nil, nil
			}))
		if err == nil {
			_, err = agent.Tasks().Wait(ctx, id)
		}
		return nil, err
	}}
	model := pygenttest.NewScriptedModel(pygenttest.Call("hand", nil), stop).On("Work", callBash("rm x"), pygenttest.Call("write_file", map[string]any{"path": "f", "content": "x"}), stop)
	agent = newAgentOn(t, newTestRuntime(t, pygent.NewLocalRuntime, pygent.WithEnv("TOKEN=secret", "MODE=fast")), model, append(opts, pygent.WithTools(hand))...)
	_, err := agent.RunUntilStop(t.Context(), "go", run...)
	require.NoError(t, err)
	return spec, agent
}

func TestRulesOfTheParentAreInTheSpec(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	spec, agent := specOf(t, []pygent.RunOption{pygent.MaxTime(time.Hour)},
		pygent.WithBannedCommands("rm"), pygent.WithBannedApps("npm"), pygent.WithDisabledTools("write_file"),
		pygent.WithApprovalFor("collect_file"), pygent.WithConfirmBash(false), pygent.MaxTaskDepth(3))
	rules := spec.Rules
	require.WithinDuration(t, begin.Add(time.Hour), rules.Deadline, time.Minute)
	rules.Deadline = time.Time{}
	no := false
	require.Equal(t, pygent.TaskRules{
		Root: agent.ID(), MaxDepth: 3, BannedCommands: []string{"rm"}, BannedApps: []string{"npm"}, DisabledTools: []string{"write_file"},
		ApprovalFor: []string{"collect_file"}, ConfirmBash: &no, Env: []string{"TOKEN", "MODE"},
	}, rules)
	data, err := json.Marshal(spec)
	require.NoError(t, err)
	require.NotContains(t, string(data), "secret")
	task := byPrompt(t, agent)["Work"]
	messages, err := agent.Tasks().TaskHistory(t.Context(), task.ID)
	require.NoError(t, err)
	require.Contains(t, messages[3].Content, "banned")
	require.Contains(t, messages[5].Content, "disabled")
}

func TestFactsOfOneMachineAreNotInTheSpec(t *testing.T) {
	t.Parallel()
	spec, _ := specOf(t, nil)
	require.Empty(t, spec.Runtime.Container.DockerHost)
	require.Empty(t, spec.Runtime.Container.Mounts)
	require.Nil(t, spec.Runtime.Container.SharedFiles)
	require.Zero(t, spec.Rules.Deadline)
}

type tenant struct{}

// sightings collect the tenant that each part of a task finds in its context.
type sightings struct {
	mu   sync.Mutex
	seen map[string]any
}

func (s *sightings) note(ctx context.Context, where string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if info, ok := pygent.CallFrom(ctx); ok && info.Task == "" {
		where = "parent's " + where
	}
	s.seen[where] = ctx.Value(tenant{})
}

// watched returns the options of an agent that asks about its tool look, and
// whose parts note what they find.
func (s *sightings) watched(model pygent.Model) []pygent.Option {
	look := plainTool("look", func(t *pygent.Tool) {
		t.Run = func(ctx context.Context, _ pygent.Runtime, _ json.RawMessage) (*pygent.ToolResult, error) {
			s.note(ctx, "tool")
			_, limited := ctx.Deadline()
			return &pygent.ToolResult{Content: map[bool]string{true: "limited", false: "unlimited"}[limited]}, nil
		}
	})
	return []pygent.Option{
		pygent.WithModel(pygent.ModelFunc(func(ctx context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
			s.note(ctx, "model")
			return model.Chat(ctx, req)
		})),
		pygent.WithTools(look), pygent.WithApprovalFor("look"),
		pygent.WithApproval(func(ctx context.Context, _ pygent.ApprovalRequest) (pygent.Decision, error) {
			s.note(ctx, "approval")
			return pygent.Decision{Allow: true}, nil
		}),
	}
}

func TestValuesOfTheCallerReachATask(t *testing.T) {
	t.Parallel()
	s := &sightings{seen: map[string]any{}}
	model := pygenttest.NewScriptedModel(follow(always(delegate("Work")), func(id string) pygenttest.Reply { return wait(id) }, always(stop))).RepeatLast().
		On("Work", pygenttest.Call("look", nil), stop)
	agent := newAgentOn(t, hollow{}, nil, s.watched(model)...)
	_, err := agent.RunUntilStop(context.WithValue(t.Context(), tenant{}, "Ada"), "go")
	require.NoError(t, err)
	require.NoError(t, agent.Close())
	require.Equal(t, map[string]any{"parent's model": "Ada", "model": "Ada", "tool": "Ada", "approval": "Ada"}, s.seen)
}

func TestTaskHasTheValuesOfWhoSendsButNotTheEnd(t *testing.T) {
	t.Parallel()
	s := &sightings{seen: map[string]any{}}
	m, err := pygent.NewTaskManager(pygent.TaskAgents(s.watched(pygenttest.NewScriptedModel(pygenttest.Call("look", nil), stop, pygenttest.Call("look", nil), stop))...))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	begin := func(name string) (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.WithValue(t.Context(), tenant{}, name), time.Hour)
	}
	ctx, cancel := begin("Ada")
	id, err := m.StartTask(ctx, "go", hollow{})
	require.NoError(t, err)
	cancel()
	require.Equal(t, pygent.TaskFinished, waitTask(t, m, id).State)
	require.Equal(t, map[string]any{"model": "Ada", "tool": "Ada", "approval": "Ada"}, s.seen)

	ctx, cancel = begin("Grace")
	_, err = m.Send(ctx, id, "again")
	require.NoError(t, err)
	cancel()
	status := waitTask(t, m, id)
	require.Equal(t, pygent.TaskFinished, status.State, status.String())
	require.Equal(t, map[string]any{"model": "Grace", "tool": "Grace", "approval": "Grace"}, s.seen)
}

func TestEventsOfTasksOfTasksAreSeenOnce(t *testing.T) {
	t.Parallel()
	waits := func(id string) pygenttest.Reply { return wait(id) }
	model := pygenttest.NewScriptedModel(follow(always(delegate("Lead")), waits, always(stop))).RepeatLast().
		On("Lead", follow(always(delegate("Sub")), waits, always(stop))).RepeatLast().
		On("Sub", callBash("echo hi"), stop)
	var mu sync.Mutex
	manager, agents := map[string][]int64{}, map[string][]pygent.EventType{}
	agent := newAgent(t, model,
		pygent.MaxTaskDepth(2), pygent.OnTaskEvent(func(e pygent.Event) {
			mu.Lock()
			defer mu.Unlock()
			manager[e.Task] = append(manager[e.Task], e.Seq)
		}),
		pygent.OnEvent(func(e pygent.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Type != pygent.EventOutput { // which may be left out
				agents[e.Task] = append(agents[e.Task], e.Type)
			}
		}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	tasks := byPrompt(t, agent)
	mu.Lock()
	defer mu.Unlock()
	sub, lead := tasks["Sub"], tasks["Lead"]
	require.Equal(t, lead.ID, sub.Parent)
	for i, seq := range manager[sub.ID] {
		require.EqualValues(t, i+1, seq, "each once, in order")
	}
	require.Len(t, manager[sub.ID], int(sub.Seq))
	require.Len(t, manager[lead.ID], int(lead.Seq), "its own alone")
	once := []pygent.EventType{
		pygent.EventTask, pygent.EventUser,
		pygent.EventStep, pygent.EventModelStart, pygent.EventCallDelta, pygent.EventMessage, pygent.EventToolCall, pygent.EventToolStart, pygent.EventToolDone,
		pygent.EventStep, pygent.EventModelStart, pygent.EventCallDelta, pygent.EventMessage, pygent.EventToolCall, pygent.EventToolStart, pygent.EventToolDone,
		pygent.EventRunEnd, pygent.EventTask,
	}
	require.Equal(t, once, agents[sub.ID], "as the agent above sees them")
}

func TestStackOfAPanicIsForTheLog(t *testing.T) {
	t.Parallel()
	panics := func(context.Context, pygent.TaskSpec) ([]pygent.Option, error) { panic("oh no") }
	bad := pygent.WithPrompt(func(pygent.PromptInfo) string { panic("oh no") })
	for name, opt := range map[string]pygent.TaskOption{
		"profile": pygent.WithTaskProfile(panics),
		"prompt": pygent.WithTaskProfile(func(context.Context, pygent.TaskSpec) ([]pygent.Option, error) {
			return []pygent.Option{bad}, nil
		}),
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			m := newTasks(t, pygenttest.NewScriptedModel(stop), pygent.TaskAgents(pygent.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))))
			status := waitTask(t, m, startTask(t, m, "go", localRuntime(t), opt))
			require.Equal(t, pygent.TaskFailed, status.State)
			require.Contains(t, status.Reason, "panic: oh no")
			require.NotContains(t, status.Reason, "goroutine")
			require.NoError(t, m.Close())
			require.Contains(t, log.String(), "goroutine", "the log has the stack")
		})
	}
}

func TestPanicOfTheEventHandlerHarmsNobody(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	m := newTasks(t, pygenttest.NewScriptedModel(stop),
		pygent.TaskAgents(pygent.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))),
		pygent.OnTaskEvent(func(pygent.Event) { panic("oh no") }))
	require.Equal(t, pygent.TaskFinished, waitTask(t, m, startTask(t, m, "go", localRuntime(t))).State)
	require.NoError(t, m.Close())
	require.Contains(t, log.String(), "oh no")
}

var fieldName = regexp.MustCompile(`"([^"\\]+)":`)

// roundTrip encodes a value and decodes it again. It requires the same value,
// and names in snake_case. It returns the JSON.
func roundTrip[T any](t *testing.T, value T) string {
	t.Helper()
	data, err := json.Marshal(value)
	require.NoError(t, err)
	var back T
	require.NoError(t, json.Unmarshal(data, &back), "%s", data)
	again, err := json.Marshal(back)
	require.NoError(t, err)
	require.Equal(t, string(data), string(again))
	for _, name := range fieldName.FindAllStringSubmatch(string(data), -1) {
		require.Regexp(t, `^[a-z][a-z_]*$`, name[1])
	}
	return string(data)
}

func TestTaskValuesReadBack(t *testing.T) {
	t.Parallel()
	// Tasks that are done, ask, timed out, and failed before or in their run.
	rt := localRuntime(t)
	require.NoError(t, rt.WriteFile(t.Context(), "f", []byte("x")))
	var spec pygent.TaskSpec
	see := pygent.TaskAgents(pygent.WithRetry(pygent.RetryPolicy{MaxAttempts: 1}))
	model := pygenttest.NewScriptedModel().
		On("Work 1", stop).RepeatLast().On("Work 2", pygenttest.Call("continue", map[string]any{"prompt": "Which?", "options": []string{"a"}})).
		On("Work 3", pygenttest.Status(400, "bad", "No such model")).
		On("Work 4", pygenttest.Text("").WithGate(nil))
	m := newTasks(t, model, see, pygent.MaxTasks(9), pygent.TaskPersonas(pygent.Persona{Name: "Tester", Description: "tests"}))
	states := map[pygent.TaskState]string{}
	for prompt, parent := range map[string]pygent.Runtime{"Work 1": rt, "Work 2": rt, "Work 3": rt, "Work 4": rt, "No runtime": nowhere{}} {
		id := startTask(t, m, prompt, parent, pygent.WithTaskLimits(pygent.Limits{MaxTime: 1500 * time.Millisecond}))
		status := waitTask(t, m, id)
		states[status.State] = roundTrip(t, status)
		var back pygent.TaskStatus
		require.NoError(t, json.Unmarshal([]byte(states[status.State]), &back))
		require.Equal(t, status.String(), back.String())
		require.Equal(t, status.Question(), back.Question())
		require.Equal(t, status.Summary(), back.Summary())
		require.Equal(t, status.Timeout, back.Timeout)
	}
	require.Len(t, states, 4)
	require.Contains(t, states[pygent.TaskTimedOut], `"timeout_seconds":1.5`)

	waitTask(t, m, startTask(t, m, "Work 1", rt, pygent.WithTaskFiles("f"), pygent.WithTaskQueue(),
		pygent.WithTaskModelName("m"), pygent.WithTaskLimits(pygent.Limits{MaxSteps: 3, MaxTokens: 9, StepTimeout: time.Minute}),
		pygent.WithTaskProfile(func(_ context.Context, s pygent.TaskSpec) ([]pygent.Option, error) {
			spec = s
			return nil, nil
		})))
	text := roundTrip(t, spec)
	require.Contains(t, text, `"limits":{"max_steps":3,"max_tokens":9,"step_timeout_seconds":60,"max_time_seconds":1200}`)
	roundTrip(t, spec.Limits)
	roundTrip(t, spec.Runtime)
	roundTrip(t, pygent.TaskStatus{})
	roundTrip(t, pygent.Limits{})
}

func FuzzTaskSpec(f *testing.F) {
	f.Add([]byte(`{"version":2,"id":"a","prompt":"p","depth":1,"limits":{"max_steps":3}}`))
	f.Add([]byte(`{"version":2,"id":"a","prompt":"p","depth":1,"runtime":{"kind":"docker","container":{"capabilities":[]}},"limits":{}}`))
	f.Add([]byte(`{"version":9}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var spec pygent.TaskSpec
		if json.Unmarshal(data, &spec) != nil {
			return
		}
		again, err := json.Marshal(spec)
		require.NoError(t, err)
		var back pygent.TaskSpec
		require.NoError(t, json.Unmarshal(again, &back))
		require.Equal(t, spec, back)
	})
}
