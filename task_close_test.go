package pygent_test

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// tool makes a tool that calls f.
func tool(name string, f func(ctx context.Context)) pygent.Tool {
	return pygent.Tool{Name: name, Run: func(ctx context.Context, _ pygent.Runtime, _ json.RawMessage) (*pygent.ToolResult, error) {
		f(ctx)
		return nil, nil
	}}
}

func TestCloseRefusesToWaitForItsCaller(t *testing.T) {
	t.Parallel()
	var m *pygent.TaskManager
	closes := func(from chan error) func() {
		return sync.OnceFunc(func() { from <- m.Close() })
	}
	model := func() *pygenttest.ScriptedModel {
		return pygenttest.NewScriptedModel(pygenttest.Call("close", nil), stop)
	}
	for name, options := range map[string]func(from chan error) []pygent.TaskManagerOption{
		"the manager's event handler": func(from chan error) []pygent.TaskManagerOption {
			f := closes(from)
			return []pygent.TaskManagerOption{pygent.OnTaskEvent(func(pygent.Event) { f() }), pygent.TaskAgents(pygent.WithModel(pygenttest.NewScriptedModel(stop)))}
		},
		"a task's event handler": func(from chan error) []pygent.TaskManagerOption {
			f := closes(from)
			return []pygent.TaskManagerOption{pygent.TaskAgents(pygent.WithModel(pygenttest.NewScriptedModel(stop)), pygent.OnEvent(func(pygent.Event) { f() }))}
		},
		"a task's tool": func(from chan error) []pygent.TaskManagerOption {
			f := closes(from)
			return []pygent.TaskManagerOption{pygent.TaskAgents(pygent.WithModel(model()), pygent.WithTools(tool("close", func(context.Context) { f() })))}
		},
		"an approval": func(from chan error) []pygent.TaskManagerOption {
			f := closes(from)
			return []pygent.TaskManagerOption{
				pygent.TaskAgents(pygent.WithModel(model()), pygent.WithTools(tool("close", func(context.Context) {})), pygent.WithApprovalFor("close")),
				pygent.TaskApproval(func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) {
					f()
					return pygent.Decision{Allow: true}, nil
				})}
		},
	} {
		t.Run(name, func(t *testing.T) {
			from := make(chan error, 1)
			m = newTasks(t, nil, options(from)...)
			id := startTask(t, m, "go", localRuntime(t))
			require.ErrorIs(t, <-from, pygent.ErrInCallback)
			require.Equal(t, pygent.TaskFinished, waitTask(t, m, id).State, "a refused Close changes nothing")
			require.NoError(t, m.Close())
		})
	}
}

func TestCloseInAHandlerOfTheAgentThatDelegated(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(follow(always(delegate("Work")), func(id string) pygenttest.Reply { return wait(id) }, always(stop))).
		RepeatLast().On("Work", stop)
	var agent *pygent.Agent
	var own, ofTask []error
	agent = newAgent(t, model, pygent.OnEvent(func(e pygent.Event) {
		if e.Task != "" {
			ofTask = append(ofTask, agent.Tasks().Close())
			return
		}
		own = append(own, agent.Tasks().Close())
	}))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Equal(t, pygent.TaskFinished, byPrompt(t, agent)["Work"].State)
	require.NotEmpty(t, ofTask)
	require.NotEmpty(t, own)
	for _, err := range append(own, ofTask...) {
		require.ErrorIs(t, err, pygent.ErrInCallback)
	}
}

func TestAToolOfATaskCannotCloseTheAgentThatDelegated(t *testing.T) {
	t.Parallel()
	closed := make(chan error, 1)
	var agent *pygent.Agent
	agent = newAgent(t, pygenttest.NewScriptedModel(follow(always(delegate("Work")), func(id string) pygenttest.Reply { return wait(id) }, always(stop))).
		RepeatLast().On("Work", pygenttest.Call("close", nil), stop),
		pygent.WithTools(tool("close", func(context.Context) { closed <- agent.Close() })))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.ErrorIs(t, <-closed, pygent.ErrInCallback)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Equal(t, pygent.TaskFinished, byPrompt(t, agent)["Work"].State)
	require.NoError(t, agent.Close())
	_, err = agent.Tasks().StartTask(t.Context(), "more", agent.Runtime())
	require.ErrorIs(t, err, pygent.ErrTaskManagerClosed)
}

func TestAToolOfTheAgentThatDelegatedMayClose(t *testing.T) {
	t.Parallel()
	closed := make(chan error, 1)
	var agent *pygent.Agent
	agent = newAgent(t, pygenttest.NewScriptedModel(delegate("Work"), pygenttest.Call("close", nil), stop).On("Work", pygenttest.Text("").WithGate(nil)),
		pygent.WithTools(tool("close", func(context.Context) { closed <- agent.Tasks().Close() })))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.NoError(t, <-closed)
	require.Equal(t, pygent.TaskCancelled, byPrompt(t, agent)["Work"].State)
}

func TestWaitRefusesToWaitForItsCaller(t *testing.T) {
	t.Parallel()
	var m *pygent.TaskManager
	inHandler := map[pygent.TaskState]error{}
	inTool := make(chan error, 1)
	m = newTasks(t, pygenttest.NewScriptedModel(pygenttest.Call("wait", nil), stop),
		pygent.TaskAgents(pygent.WithTools(tool("wait", func(ctx context.Context) {
			_, err := m.Wait(ctx, "mine")
			inTool <- err
		}))),
		pygent.OnTaskEvent(func(e pygent.Event) {
			if e.Type == pygent.EventTask {
				_, inHandler[e.TaskStatus.State] = m.Wait(t.Context(), e.Task)
			}
		}))
	startTask(t, m, "go", localRuntime(t), pygent.WithTaskID("mine"))
	require.ErrorIs(t, <-inTool, pygent.ErrInCallback)
	waitTask(t, m, "mine")
	require.NoError(t, m.Close())
	require.NoError(t, inHandler[pygent.TaskFinished], "one at rest needs no waiting")
	require.Contains(t, inHandler, pygent.TaskRunning)
}

// A handler of the agent that delegated a task, and what a tool of the task has begun, are
// waited for at its end, too.
func TestWaitRefusesToWaitForThoseAboveAndBelow(t *testing.T) {
	t.Parallel()
	var agent *pygent.Agent
	inHandler, below := make(chan error, 1), make(chan error, 2)
	model := pygenttest.NewScriptedModel(follow(always(delegate("Work")), func(id string) pygenttest.Reply { return wait(id) }, always(stop))).
		RepeatLast().On("Work", pygenttest.Call("spawn", nil), stop)
	agent = newAgentOn(t, hollow{}, model, pygent.OnEvent(func(e pygent.Event) {
		if e.Task != "" && e.Type == pygent.EventToolStart && e.Call.Name == "spawn" {
			_, err := agent.Tasks().Wait(t.Context(), e.Task)
			inHandler <- err
		}
	}), pygent.WithTools(tool("spawn", func(ctx context.Context) {
		below <- <-inHandler
		done := make(chan error)
		go func() {
			_, err := agent.Tasks().Wait(ctx, onlyTask(t, agent).ID)
			done <- err
		}()
		below <- <-done
	})))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.ErrorIs(t, <-below, pygent.ErrInCallback)
	require.ErrorIs(t, <-below, pygent.ErrInCallback)
}

// stuck is a runtime whose Cleanup blocks until free is closed.
type stuck struct {
	hollow
	called chan struct{} // if not nil, Cleanup closes it
	free   chan struct{}
}

func (s stuck) NewTaskRuntime(context.Context) (pygent.Runtime, error) { return s, nil }

func (s stuck) Cleanup() error {
	if s.called != nil {
		close(s.called)
	}
	<-s.free
	return nil
}

func TestCloseLeavesBehindWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	free := make(chan struct{})
	for name, tt := range map[string]struct {
		parent  pygent.Runtime
		options []pygent.Option
		manager []pygent.TaskManagerOption
		want    []string
	}{
		"a runtime": {stuck{free: free}, nil, nil, []string{"task mine", "Cleanup did not end in time and is left behind"}},
		"an event handler of the task": {hollow{}, []pygent.Option{pygent.OnEvent(func(pygent.Event) { <-free })}, nil,
			[]string{"task mine", "event handler did not end in time and is left behind"}},
		"an event handler of the manager": {hollow{}, nil, []pygent.TaskManagerOption{pygent.OnTaskEvent(func(pygent.Event) { <-free })},
			[]string{"handler of the tasks' events"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				free = make(chan struct{})
				parent := tt.parent
				if _, ok := parent.(stuck); ok {
					parent = stuck{free: free}
				}
				m, err := pygent.NewTaskManager(append(tt.manager, pygent.TaskAgents(append(tt.options,
					pygent.WithModel(pygenttest.NewScriptedModel(pygenttest.Text("").WithGate(nil))))...))...)
				require.NoError(t, err)
				startTask(t, m, "go", parent, pygent.WithTaskID("mine"))
				synctest.Wait()
				err = m.Close()
				require.ErrorIs(t, err, pygent.ErrLeftBehind)
				for _, want := range tt.want {
					require.ErrorContains(t, err, want)
				}
				status, err := m.Status(t.Context(), "mine")
				require.NoError(t, err)
				require.Equal(t, pygent.TaskCancelled, status.State)
				require.ErrorIs(t, m.Close(), pygent.ErrLeftBehind, "as the first time")
				close(free)
			})
		})
	}
}

func TestWaitAndCloseWhileTheEventsOfTheRunAreRangedOver(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(delegate("Work"), stop).RepeatLast().On("Work", stop)
	agent := newAgent(t, model)
	var state pygent.TaskState
	for e, err := range agent.Events(t.Context(), "go") {
		require.NoError(t, err)
		if e.Task == "" && e.Type == pygent.EventToolDone && state == "" {
			status, err := agent.Tasks().Wait(t.Context(), startedTask(agent.History().Messages()))
			require.NoError(t, err)
			state = status.State
			require.NoError(t, agent.Tasks().Close())
		}
	}
	require.Equal(t, pygent.TaskFinished, state)
}

// deafUpload is a runtime with a file. The runtimes that it makes for tasks
// never finish an upload.
type deafUpload struct {
	hollow
	free, cleaned chan struct{}
}

func (d deafUpload) NewTaskRuntime(context.Context) (pygent.Runtime, error) { return d, nil }

func (d deafUpload) Cleanup() error {
	close(d.cleaned)
	return nil
}

func (d deafUpload) ExportFile(_ context.Context, _, dest string) error {
	return os.WriteFile(dest, []byte("x"), 0o600)
}

func (d deafUpload) UploadFile(context.Context, string, string) error {
	<-d.free
	return nil
}

func TestCloseLeavesBehindARunThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := deafUpload{free: make(chan struct{}), cleaned: make(chan struct{})}
		m, err := pygent.NewTaskManager(pygent.TaskAgents(pygent.WithModel(pygenttest.NewScriptedModel(stop))))
		require.NoError(t, err)
		startTask(t, m, "go", rt, pygent.WithTaskID("mine"), pygent.WithTaskFiles("f"))
		synctest.Wait()
		err = m.Close()
		require.ErrorIs(t, err, pygent.ErrLeftBehind)
		require.ErrorContains(t, err, "task mine: its run did not end in time and is left behind")
		status, err := m.Status(t.Context(), "mine")
		require.NoError(t, err)
		require.Equal(t, pygent.TaskCancelled, status.State)
		require.Contains(t, status.Reason, "left behind")
		close(rt.free)
		<-rt.cleaned
		synctest.Wait()
		again, err := m.Status(t.Context(), "mine")
		require.NoError(t, err)
		require.Equal(t, status, again, "what ends later changes nothing")
	})
}
