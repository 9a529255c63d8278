package pygent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
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
		"refused":  {want: "task refused failed: ask the model: model API: status 400 (bad): No such model [request req_scripted]", as: &api},
		"broken":   {opts: []pygent.TaskOption{pygent.WithTaskModel(fails)}, want: "task broken failed: ask the model: the disk is full", is: sentinel},
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
