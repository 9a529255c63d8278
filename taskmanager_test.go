package pygent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// newTasks makes a manager whose agents use model. It is closed at the end of
// the test.
func newTasks(t *testing.T, model pygent.Model, opts ...pygent.TaskManagerOption) *pygent.TaskManager {
	t.Helper()
	m, err := pygent.NewTaskManager(append([]pygent.TaskManagerOption{
		pygent.TaskAgents(pygent.WithModel(model), pygent.WithRetry(pygent.RetryPolicy{BaseDelay: time.Millisecond})),
	}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

func localRuntime(t *testing.T) pygent.Runtime {
	t.Helper()
	return newTestRuntime(t, pygent.NewLocalRuntime)
}

func startTask(t *testing.T, m *pygent.TaskManager, prompt string, parent pygent.Runtime, opts ...pygent.TaskOption) string {
	t.Helper()
	id, err := m.StartTask(t.Context(), prompt, parent, opts...)
	require.NoError(t, err)
	return id
}

func waitTask(t *testing.T, m *pygent.TaskManager, id string) pygent.TaskStatus {
	t.Helper()
	status, err := m.Wait(t.Context(), id)
	require.NoError(t, err)
	return status
}

// errOf returns the error of a call that returns a value as well.
func errOf[T any](_ T, err error) error { return err }

func TestTaskWorksOnFilesInItsOwnWorkspace(t *testing.T) {
	t.Parallel()
	for _, parent := range runtimeCases() {
		t.Run(parent.Name, func(t *testing.T) {
			rt := parent.New(t)
			require.NoError(t, rt.WriteFile(t.Context(), "src/in.txt", []byte("from the parent\n")))
			require.NoError(t, rt.WriteFile(t.Context(), "other.txt", []byte("stays\n")))
			m := newTasks(t, pygenttest.NewScriptedModel(
				callBash("ls; mkdir -p out/deep; tr a-z A-Z < src/in.txt > out/deep/up.txt; echo changed > src/in.txt"),
				pygenttest.Call("stop", map[string]any{"summary": "it is in out"})))
			id := startTask(t, m, "upper-case it", rt, pygent.WithTaskFiles("src"))

			status := waitTask(t, m, id)
			require.Equal(t, pygent.TaskFinished, status.State, status.Reason)
			require.Equal(t, "finished", status.String())
			require.Equal(t, "it is in out", status.Summary())
			require.Equal(t, 2, status.Steps)
			require.Equal(t, 2, status.ToolCalls)
			require.Positive(t, status.Elapsed(time.Now()))

			messages, err := m.TaskHistory(t.Context(), id)
			require.NoError(t, err)
			require.Contains(t, messages[3].Content, "\nsrc\n", "only the files given are there")

			require.NoError(t, errOf(m.CollectFile(t.Context(), rt, id, "out", "")))
			require.NoError(t, errOf(m.CollectFile(t.Context(), rt, id, "out/deep/up.txt", "named/up.txt")))
			for path, want := range map[string]string{
				"out/deep/up.txt": "FROM THE PARENT\n",
				"named/up.txt":    "FROM THE PARENT\n",
				"src/in.txt":      "from the parent\n",
			} {
				data, err := rt.ReadFile(t.Context(), path)
				require.NoError(t, err)
				require.Equal(t, want, string(data), path)
			}
			require.ErrorIs(t, errOf(m.CollectFile(t.Context(), rt, id, "nope", "")), fs.ErrNotExist)
			require.ErrorIs(t, errOf(m.CollectFile(t.Context(), rt, "nobody", "out", "")), pygent.ErrUnknownTask)

			require.NoError(t, m.Remove(t.Context(), id))
			_, err = m.Status(t.Context(), id)
			require.ErrorIs(t, err, pygent.ErrUnknownTask)
		})
	}
}

func TestTaskOutlivesTheStart(t *testing.T) {
	t.Parallel()
	rt := localRuntime(t)
	gate := make(chan struct{})
	m := newTasks(t, pygenttest.NewScriptedModel(callBash("cat f").WithGate(gate), stop))
	require.NoError(t, rt.WriteFile(t.Context(), "f", []byte("kept")))
	ctx, cancel := context.WithCancel(t.Context())
	id, err := m.StartTask(ctx, "go", rt, pygent.WithTaskFiles("f"))
	require.NoError(t, err)
	cancel()
	require.NoError(t, rt.Cleanup(), "the parent is read in the start only")
	close(gate)
	require.Equal(t, pygent.TaskFinished, waitTask(t, m, id).State)
	messages, err := m.TaskHistory(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "$ cat f\nkept", messages[3].Content)
}

func TestTaskStatusReadsInWords(t *testing.T) {
	t.Parallel()
	hang := pygenttest.Text("").WithGate(nil)
	tests := []struct {
		name    string
		replies []pygenttest.Reply
		limits  pygent.Limits
		state   pygent.TaskState
		words   string
	}{
		{"stop", []pygenttest.Reply{stop}, pygent.Limits{}, pygent.TaskFinished, "finished"},
		{"question", []pygenttest.Reply{pygenttest.Call("continue", map[string]any{"prompt": "Which?"})}, pygent.Limits{}, pygent.TaskAwaitingUser, "awaiting user"},
		{"step timeout", []pygenttest.Reply{hang}, pygent.Limits{StepTimeout: 100 * time.Millisecond}, pygent.TaskTimedOut, "timeout after 100ms"},
		{"task timeout", []pygenttest.Reply{hang}, pygent.Limits{MaxTime: 100 * time.Millisecond}, pygent.TaskTimedOut, "timeout after 100ms"},
		{"steps", []pygenttest.Reply{callBash("echo a"), callBash("echo b")}, pygent.Limits{MaxSteps: 1}, pygent.TaskFailed, "error: the limit of 1 step is reached (MaxSteps)"},
		{"model", []pygenttest.Reply{pygenttest.Status(400, "bad", "No such model")}, pygent.Limits{}, pygent.TaskFailed, "error: ask the model: model API: status 400 (bad): No such model [request req_scripted]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newTasks(t, pygenttest.NewScriptedModel(tt.replies...))
			id := startTask(t, m, "go", localRuntime(t), pygent.WithTaskLimits(tt.limits))
			status := waitTask(t, m, id)
			require.Equal(t, tt.state, status.State, status.Reason)
			require.Equal(t, tt.words, status.String())
			require.Equal(t, 1, status.Runs)
		})
	}
	require.Equal(t, "timeout after 30s", pygent.TaskStatus{State: pygent.TaskTimedOut, Timeout: 30 * time.Second}.String())
	require.Equal(t, "running", pygent.TaskStatus{State: pygent.TaskRunning}.String())
}

// crowd is a model that counts concurrent calls.
type crowd struct {
	now, most atomic.Int64
	gate      chan struct{}
}

func (c *crowd) Chat(ctx context.Context, _ *pygent.ChatRequest) (*pygent.ChatResponse, error) {
	n := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	select {
	case <-c.gate:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return &pygent.ChatResponse{Message: pygent.AssistantMessage("", pygent.ToolCall{ID: "c", Name: "stop"})}, nil
}

func TestTasksNeverExceedTheirNumber(t *testing.T) {
	t.Parallel()
	rt := localRuntime(t)
	model := &crowd{gate: make(chan struct{})}
	m := newTasks(t, model)
	var wg sync.WaitGroup
	var started, refused atomic.Int64
	for i := range 20 {
		wg.Go(func() {
			_, err := m.StartTask(t.Context(), fmt.Sprint("task ", i), rt)
			if errors.Is(err, pygent.ErrTooManyTasks) {
				refused.Add(1)
			} else if err == nil {
				started.Add(1)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 3, started.Load())
	require.EqualValues(t, 17, refused.Load())
	_, err := m.StartTask(t.Context(), "one more", rt)
	require.ErrorContains(t, err, "PYGENT_MAX_TASKS")

	var ids []string
	for i := range 10 {
		ids = append(ids, startTask(t, m, fmt.Sprint("queued ", i), rt, pygent.WithTaskQueue()))
	}
	status, err := m.Status(t.Context(), ids[9])
	require.NoError(t, err)
	require.Equal(t, "queued", status.String())
	require.NoError(t, m.Cancel(t.Context(), ids[8]))
	require.Equal(t, pygent.TaskCancelled, waitTask(t, m, ids[8]).State, "at once, not when there is room")
	close(model.gate)
	for i, id := range ids {
		if i != 8 {
			require.Equal(t, pygent.TaskFinished, waitTask(t, m, id).State)
		}
	}
	require.LessOrEqual(t, model.most.Load(), int64(3))
	all, err := m.Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	require.Len(t, all, 13)
}

func TestStartIsIdempotentByID(t *testing.T) {
	t.Parallel()
	rt := localRuntime(t)
	model := pygenttest.NewScriptedModel(stop)
	m := newTasks(t, model)
	for range 3 {
		require.Equal(t, "mine", startTask(t, m, "go", rt, pygent.WithTaskID("mine")))
		waitTask(t, m, "mine")
	}
	require.Len(t, model.Requests(), 1)
	_, err := m.StartTask(t.Context(), "something else", rt, pygent.WithTaskID("mine"))
	require.ErrorIs(t, err, pygent.ErrTaskExists)
	_, err = m.StartTask(t.Context(), "go", rt, pygent.WithTaskID("no/path"))
	require.ErrorContains(t, err, "no/path")
}

func TestPersonasTakeTurns(t *testing.T) {
	t.Parallel()
	rt := localRuntime(t)
	m := newTasks(t, pygenttest.NewScriptedModel(stop).RepeatLast(), pygent.MaxTasks(10), pygent.TaskPersonas(
		pygent.Persona{Name: "Tester", Description: "writes tests"},
		pygent.Persona{Name: "Writer", Description: "writes prose"}))
	names := func(opts ...pygent.TaskOption) string {
		return waitTask(t, m, startTask(t, m, "go", rt, opts...)).Persona.Name
	}
	require.Equal(t, []string{"Tester", "Writer", "Tester"}, []string{names(), names(), names()})
	require.Equal(t, "Tester", names(pygent.WithTaskPersonaName("tester")))
	require.Equal(t, "Anyone", names(pygent.WithTaskPersona(pygent.Persona{Name: "Anyone"})))
	_, err := m.StartTask(t.Context(), "go", rt, pygent.WithTaskPersonaName("Nobody"))
	require.ErrorContains(t, err, `no persona "Nobody"; the personas are: Tester, Writer`)
	id := startTask(t, m, "go", rt, pygent.WithTaskPersonaName("Writer"))
	waitTask(t, m, id)
	messages, err := m.TaskHistory(t.Context(), id)
	require.NoError(t, err)
	require.Contains(t, messages[0].Content, "You are Writer: writes prose.")
}

func TestCancelIsARequestThatWaitConfirms(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(callBash("sleep 600")))
	id := startTask(t, m, "go", localRuntime(t))
	require.NoError(t, m.Cancel(t.Context(), id))
	status := waitTask(t, m, id)
	require.Equal(t, pygent.TaskCancelled, status.State)
	require.Equal(t, "cancelled", status.String())
	require.NoError(t, m.Cancel(t.Context(), id), "once more does nothing")
	require.ErrorIs(t, m.Cancel(t.Context(), "nobody"), pygent.ErrUnknownTask)
}

func TestWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(pygenttest.Text("").WithGate(nil)))
	id := startTask(t, m, "go", localRuntime(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.Wait(ctx, id)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, id)
}

func TestTaskGoesOnAtAMessage(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(
		pygenttest.Call("continue", map[string]any{"prompt": "Which?", "options": []string{"a", "b"}}),
		callBash("echo b > chosen"), stop, stop)
	m := newTasks(t, model)
	rt := localRuntime(t)
	id := startTask(t, m, "choose", rt)
	status := waitTask(t, m, id)
	require.Equal(t, &pygent.Question{Prompt: "Which?", Options: []string{"a", "b"}}, status.Question())

	for range 2 { // the second message repeats the first one
		require.NoError(t, errOf(m.Send(t.Context(), id, "b", pygent.WithMessageID("answer"))))
		status = waitTask(t, m, id)
	}
	require.Equal(t, pygent.TaskFinished, status.State)
	require.Equal(t, 2, status.Runs)
	require.Equal(t, 3, status.Steps)
	require.NoError(t, errOf(m.CollectFile(t.Context(), rt, id, "chosen", "")))

	require.NoError(t, errOf(m.Send(t.Context(), id, "thanks")))
	require.Equal(t, 3, waitTask(t, m, id).Runs)
	require.Len(t, model.Requests(), 4)
	require.ErrorContains(t, errOf(m.Send(t.Context(), id, "")), "empty")
}

func TestTaskAtWorkIsNotRemoved(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(pygenttest.Text("").WithGate(nil)))
	id := startTask(t, m, "go", localRuntime(t))
	require.ErrorIs(t, m.Remove(t.Context(), id), pygent.ErrTaskRunning)
}

func TestFaultyTasksLeaveOthersAlone(t *testing.T) {
	t.Parallel()
	rt := localRuntime(t)
	panics := pygent.ModelFunc(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) { panic("oh no") })
	m := newTasks(t, pygenttest.NewScriptedModel().On("good", callBash("echo fine"), stop), pygent.MaxTasks(10))
	bad := map[string][]pygent.TaskOption{
		"panic: oh no":   {pygent.WithTaskModel(panics)},
		"panic: profile": {pygent.WithTaskProfile(func(context.Context, pygent.TaskSpec) ([]pygent.Option, error) { panic("profile") })},
		"panic: prompt": {pygent.WithTaskProfile(func(context.Context, pygent.TaskSpec) ([]pygent.Option, error) {
			return []pygent.Option{pygent.WithPrompt(func(pygent.PromptInfo) string { panic("prompt") })}, nil
		})},
		"not today":         {pygent.WithTaskProfile(func(context.Context, pygent.TaskSpec) ([]pygent.Option, error) { return nil, errors.New("not today") })},
		"timeout after 1ms": {pygent.WithTaskModel(pygenttest.NewScriptedModel(pygenttest.Text("").WithGate(nil))), pygent.WithTaskLimits(pygent.Limits{MaxTime: time.Millisecond})},
	}
	good := startTask(t, m, "good", rt)
	for want, opts := range bad {
		id := startTask(t, m, "bad: "+want, rt, opts...)
		require.Contains(t, waitTask(t, m, id).String(), want)
	}
	require.Equal(t, pygent.TaskFinished, waitTask(t, m, good).State)
}

func TestCloseEndsTasksAndLeavesNothing(t *testing.T) {
	t.Parallel()
	rt := localRuntime(t)
	var workspaces []string
	m, err := pygent.NewTaskManager(pygent.TaskAgents(pygent.WithModel(
		pygenttest.NewScriptedModel(callBash("pwd; touch here; sleep 600")).On("done", callBash("pwd"), stop))))
	require.NoError(t, err)
	require.NoError(t, rt.WriteFile(t.Context(), "f", nil))
	done := startTask(t, m, "done", rt, pygent.WithTaskFiles("f"))
	waitTask(t, m, done)
	messages, err := m.TaskHistory(t.Context(), done)
	require.NoError(t, err)
	workspaces = append(workspaces, strings.TrimSpace(strings.TrimPrefix(messages[3].Content, "$ pwd\n")))
	running := startTask(t, m, "running", rt)
	queued := startTask(t, m, "running too", rt, pygent.WithTaskQueue())

	require.NoError(t, m.Close())
	require.NoError(t, m.Close())
	for _, id := range []string{running, queued} {
		status, err := m.Status(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, pygent.TaskCancelled, status.State)
	}
	for _, dir := range workspaces {
		require.True(t, filepath.IsAbs(dir))
		require.NoDirExists(t, dir)
	}
	_, err = m.StartTask(t.Context(), "late", rt)
	require.ErrorIs(t, err, pygent.ErrTaskManagerClosed)
	require.ErrorIs(t, errOf(m.Send(t.Context(), done, "late")), pygent.ErrTaskManagerClosed)
}

func TestTaskProfileBringsWhatASpecMayNotHold(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	var seen pygent.TaskSpec
	require.NoError(t, pygent.RegisterTaskProfile("checker", func(_ context.Context, spec pygent.TaskSpec) ([]pygent.Option, error) {
		seen = spec
		return []pygent.Option{pygent.WithModel(pygenttest.NewScriptedModel(callBash("echo $TOKEN"), stop))}, nil
	}))
	rt, err := pygent.NewLocalRuntime(t.Context(), pygent.WithEnv("TOKEN="+secret))
	require.NoError(t, err)
	defer rt.Cleanup()
	require.NoError(t, rt.WriteFile(t.Context(), "f", []byte("x")))
	m := newTasks(t, nil)
	id := startTask(t, m, "check", rt, pygent.WithTaskProfileName("checker"), pygent.WithTaskFiles("f"))
	require.Equal(t, pygent.TaskFinished, waitTask(t, m, id).State)
	messages, err := m.TaskHistory(t.Context(), id)
	require.NoError(t, err)
	require.Contains(t, messages[3].Content, secret, "the parent's commands see it, so the task's do")

	data, err := json.Marshal(seen)
	require.NoError(t, err)
	require.NotContains(t, string(data), secret)
	require.Contains(t, string(data), `"files":"sha256:`)
	require.Less(t, len(data), 1000)
	var back pygent.TaskSpec
	require.NoError(t, json.Unmarshal(data, &back))
	require.Equal(t, seen, back)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"version":3,"id":"a","prompt":"p","depth":1}`), &back), "version 3")

	_, err = m.StartTask(t.Context(), "go", rt, pygent.WithTaskProfileName("nope"))
	require.ErrorContains(t, err, `no task profile "nope"; the profiles are: `)
}

// remote is a runtime of a kind that pygent does not know. made counts the
// runtimes that it made for tasks.
type remote struct {
	pygent.Runtime
	made *atomic.Int64
}

func (r remote) NewTaskRuntime(ctx context.Context) (pygent.Runtime, error) {
	r.made.Add(1)
	rt, err := pygent.NewLocalRuntime(ctx)
	return remote{rt, r.made}, err
}

func TestCustomRuntimesMakeThoseOfTheirTasks(t *testing.T) {
	t.Parallel()
	var made atomic.Int64
	rt := remote{localRuntime(t), &made}
	m := newTasks(t, pygenttest.NewScriptedModel(stop).RepeatLast())
	require.Equal(t, pygent.TaskFinished, waitTask(t, m, startTask(t, m, "go", rt)).State)
	require.EqualValues(t, 1, made.Load())
	withOthers := newTasks(t, pygenttest.NewScriptedModel(stop), pygent.TaskAgents(pygent.WithImage("of those without a parent")))
	require.Equal(t, "finished", waitTask(t, withOthers, startTask(t, withOthers, "go", rt)).String())
	status := waitTask(t, m, startTask(t, m, "go", nowhere{}))
	require.Contains(t, status.String(), "implement TaskRuntimeMaker")
}

func TestTaskApprovalIsAskedOfTheParent(t *testing.T) {
	t.Parallel()
	rt := localRuntime(t)
	var asked []string
	m := newTasks(t, pygenttest.NewScriptedModel(callBash("echo ok"), callBash("rm x"), stop),
		pygent.TaskAgents(pygent.WithApprovalFor("bash")),
		pygent.TaskApproval(func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
			asked = append(asked, r.Call.Arguments)
			return pygent.Decision{Allow: !strings.Contains(r.Call.Arguments, "rm"), Reason: "keep it"}, nil
		}))
	id := startTask(t, m, "go", rt)
	require.Equal(t, pygent.TaskFinished, waitTask(t, m, id).State)
	require.Len(t, asked, 2)
	messages, err := m.TaskHistory(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "$ echo ok\nok\n", messages[3].Content)
	require.Equal(t, "error: denied: keep it", messages[5].Content)

	m = newTasks(t, pygenttest.NewScriptedModel(callBash("echo ok"), stop), pygent.TaskAgents(pygent.WithApprovalFor("bash")))
	id = startTask(t, m, "go", rt)
	waitTask(t, m, id)
	messages, err = m.TaskHistory(t.Context(), id)
	require.NoError(t, err)
	require.Contains(t, messages[3].Content, "nobody can give it for a task")
}

func TestApprovalThatHangsDoesNotHoldUpClose(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	m, err := pygent.NewTaskManager(
		pygent.TaskAgents(pygent.WithModel(pygenttest.NewScriptedModel(callBash("true"))), pygent.WithApprovalFor("*")),
		pygent.TaskApproval(func(ctx context.Context, _ pygent.ApprovalRequest) (pygent.Decision, error) {
			close(asked)
			<-ctx.Done()
			return pygent.Decision{}, ctx.Err()
		}))
	require.NoError(t, err)
	startTask(t, m, "go", localRuntime(t))
	<-asked
	require.NoError(t, m.Close())
}

func TestTaskEventsCarryTheTask(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var types []pygent.EventType
	last := int64(0)
	m := newTasks(t, pygenttest.NewScriptedModel(callBash("echo hi"), stop), pygent.OnTaskEvent(func(e pygent.Event) {
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, "it", e.Task)
		require.Greater(t, e.Seq, last)
		last = e.Seq
		_, err := json.Marshal(e)
		require.NoError(t, err)
		if e.Type != pygent.EventOutput { // which may be left out
			types = append(types, e.Type)
		}
	}))
	startTask(t, m, "go", localRuntime(t), pygent.WithTaskID("it"))
	waitTask(t, m, "it")
	require.NoError(t, m.Close())
	require.Equal(t, []pygent.EventType{
		pygent.EventTask, pygent.EventUser,
		pygent.EventStep, pygent.EventModelStart, pygent.EventCallDelta, pygent.EventMessage, pygent.EventToolCall, pygent.EventToolStart, pygent.EventToolDone,
		pygent.EventStep, pygent.EventModelStart, pygent.EventCallDelta, pygent.EventMessage, pygent.EventToolCall, pygent.EventToolStart, pygent.EventToolDone,
		pygent.EventRunEnd, pygent.EventTask,
	}, types)
}

func TestInvalidTaskOptionsAreErrors(t *testing.T) {
	t.Parallel()
	for want, opt := range map[string]pygent.TaskManagerOption{
		"MaxTasks":     pygent.MaxTasks(-2),
		"MaxTaskDepth": pygent.MaxTaskDepth(-2),
		"TaskDefaults": pygent.TaskDefaults(pygent.Limits{MaxTime: -2}),
	} {
		_, err := pygent.NewTaskManager(opt)
		require.ErrorContains(t, err, want)
		_, err = pygent.New(pygent.WithModel(pygenttest.NewScriptedModel()), opt)
		require.ErrorContains(t, err, want)
	}
	m := newTasks(t, nil)
	rt := localRuntime(t)
	for want, opt := range map[string]pygent.TaskOption{
		"MaxSteps":  pygent.WithTaskLimits(pygent.Limits{MaxSteps: -2}),
		"outside":   pygent.WithTaskFiles("../secret"),
		"not exist": nil,
		"is empty":  nil,
	} {
		prompt := "go"
		switch want {
		case "is empty":
			prompt, opt = "", pygent.WithTaskQueue()
		case "not exist":
			want, opt = "no such file", pygent.WithTaskFiles("missing")
		}
		_, err := m.StartTask(t.Context(), prompt, rt, opt)
		require.ErrorContains(t, err, want)
	}
	_, err := m.StartTask(t.Context(), "go", nil, pygent.WithTaskFiles("f"))
	require.ErrorContains(t, err, "parent")
	all, err := m.Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	require.Empty(t, all)
}

func TestManyTasksEndAndLeaveNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("runs many tasks")
	}
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	rt := localRuntime(t)
	require.NoError(t, rt.WriteFile(t.Context(), "f", []byte("x")))
	parent, err := os.ReadDir(tmp)
	require.NoError(t, err)
	m, err := pygent.NewTaskManager(pygent.MaxTasks(50), pygent.TaskAgents(pygent.WithModel(
		pygenttest.NewScriptedModel().On("task", pygenttest.Call("download_file", map[string]any{"path": "f"}), stop))))
	require.NoError(t, err)
	ids := make([]string, 300)
	for i := range ids {
		ids[i] = startTask(t, m, fmt.Sprint("task ", i), rt, pygent.WithTaskQueue(), pygent.WithTaskFiles("f"))
	}
	for i, id := range ids {
		require.Equal(t, pygent.TaskFinished, waitTask(t, m, id).State)
		if i%3 == 0 {
			require.NoError(t, m.Remove(t.Context(), id))
		}
	}
	require.NoError(t, m.Close())
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Len(t, left, len(parent), "the parent's workspace is all there is")
}

func TestDeafTaskGivesUpItsRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		deaf := pygent.Tool{Name: "deaf", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
			<-free
			return nil, nil
		}}
		m := newTasks(t, pygenttest.NewScriptedModel().On("hang now", pygenttest.Call("deaf", nil)).On("be good", stop),
			pygent.MaxTasks(1), pygent.TaskAgents(pygent.WithTools(deaf)))
		bad := startTask(t, m, "hang now", hollow{}, pygent.WithTaskLimits(pygent.Limits{MaxTime: time.Minute}))
		good := startTask(t, m, "be good", hollow{}, pygent.WithTaskQueue())
		require.Equal(t, "timeout after 1m0s", waitTask(t, m, bad).String())
		require.Equal(t, pygent.TaskFinished, waitTask(t, m, good).State)
		close(free)
		synctest.Wait() // otherwise Close may find that the tool has not returned
		require.NoError(t, m.Close())
	})
}

func TestConfigurationReachesTheTasks(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"PYGENT_MAX_TASKS":          "1",
		"PYGENT_TASK_PERSONAS_JSON": `[{"name":"TestBot","description":"writes tests"}]`,
		"PYGENT_TASK_TIMEOUT":       "50ms",
		"PYGENT_MAX_STEPS":          "7",
	}
	cfg, err := pygent.ConfigSources{NoFiles: true, Lookup: func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}}.Load()
	require.NoError(t, err)
	model := pygenttest.NewScriptedModel(pygenttest.Text("").WithGate(nil))
	agent := newAgent(t, model, cfg.Options()...)
	require.Equal(t, []pygent.Persona{{Name: "TestBot", Description: "writes tests"}}, agent.Tasks().Personas())
	id := startTask(t, agent.Tasks(), "go", agent.Runtime())
	_, err = agent.Tasks().StartTask(t.Context(), "go", agent.Runtime())
	require.ErrorIs(t, err, pygent.ErrTooManyTasks)
	status := waitTask(t, agent.Tasks(), id)
	require.Equal(t, "timeout after 50ms", status.String())
	require.Equal(t, "TestBot", status.Persona.Name)
	require.Equal(t, agent.ID(), status.Parent)
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

func TestContainersOfTasksRunAtOnce(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	const n = 4
	var up sync.WaitGroup
	up.Add(n)
	meet := pygenttest.Func(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		up.Done()
		up.Wait() // until the commands of all tasks have run
		return &pygent.ChatResponse{Message: pygent.AssistantMessage("", pygent.ToolCall{Name: "stop"})}, nil
	})
	m := newTasks(t, pygenttest.NewScriptedModel().On("task", callBash("cat /proc/sys/kernel/hostname > name; cat name"), meet), pygent.MaxTasks(n))
	parent := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testBusyboxImage()))
	var ids []string
	for i := range n {
		ids = append(ids, startTask(t, m, fmt.Sprint("task ", i), parent))
	}
	names := map[string]bool{}
	for _, id := range ids {
		require.Equal(t, pygent.TaskFinished, waitTask(t, m, id).State)
		messages, err := m.TaskHistory(t.Context(), id)
		require.NoError(t, err)
		names[messages[3].Content] = true
	}
	require.Len(t, names, n, "each has a container of its own")
}

func TestFinishedTaskKeepsItsFilesAndNoContainer(t *testing.T) {
	engine := testEngine(t)
	parent := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()))
	bash(t, parent, "true")
	before, _ := oursOn(t, engine)
	m := newTasks(t, pygenttest.NewScriptedModel(callBash("echo made > f; sleep 600 &"), stop, stop, callBash("cat f; echo more >> f"), stop))
	id := startTask(t, m, "make it", parent)
	require.Equal(t, pygent.TaskFinished, waitTask(t, m, id).State)
	after, _ := oursOn(t, engine)
	require.Len(t, after, len(before))
	require.NoError(t, errOf(m.CollectFile(t.Context(), parent, id, "f", "collected")))
	require.Equal(t, "made\n", bash(t, parent, "cat collected").Output)
	require.NoError(t, errOf(m.Send(t.Context(), id, "go on")))
	require.Equal(t, pygent.TaskFinished, waitTask(t, m, id).State)
	require.NoError(t, errOf(m.CollectFile(t.Context(), parent, id, "f", "collected")))
	require.Equal(t, "made\nmore\n", bash(t, parent, "cat collected").Output)
}

func TestRoomIsFreeOnceATaskRests(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(stop).RepeatLast(), pygent.MaxTasks(1))
	for i := range 100 {
		waitTask(t, m, startTask(t, m, fmt.Sprint("task ", i), hollow{}))
	}
}

// unreadable is a runtime that panics where its files are read.
type unreadable struct{ pygent.Runtime }

func (unreadable) ExportFile(context.Context, string, string) error { panic("no file") }

func TestPanicOfAParentsRuntimeDoesNotCrossTheStartOfATask(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(stop))
	_, err := m.StartTask(t.Context(), "go", unreadable{localRuntime(t)}, pygent.WithTaskFiles("f"))
	require.ErrorContains(t, err, "panic: no file")
}
