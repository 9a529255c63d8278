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
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

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
		{"model", []pygenttest.Reply{pygenttest.Status(400, "bad", "No such model")}, pygent.Limits{}, pygent.TaskFailed, "error: the model's server rejected the request (400 bad): No such model [request req_scripted]"},
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
	return &pygent.ChatResponse{Message: chat.AssistantMessage("", pygent.ToolCall{ID: "c", Name: "stop"})}, nil
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
	require.Contains(t, messages[3].Content, "nobody can approve calls of a task")
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

func TestContainersOfTasksRunAtOnce(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	const n = 4
	var up sync.WaitGroup
	up.Add(n)
	meet := pygenttest.Func(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		up.Done()
		up.Wait() // until the commands of all tasks have run
		return &pygent.ChatResponse{Message: chat.AssistantMessage("", pygent.ToolCall{Name: "stop"})}, nil
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

// gatedExport is a runtime whose ExportFile blocks until its gate is open.
type gatedExport struct {
	pygent.Runtime
	asked chan struct{} // gets a value at each ExportFile
	gate  chan struct{}
	err   error
}

func (r gatedExport) ExportFile(ctx context.Context, path, dest string) error {
	r.asked <- struct{}{}
	select {
	case <-r.gate:
	case <-ctx.Done():
		return ctx.Err()
	}
	if r.err != nil {
		return r.err
	}
	return r.Runtime.ExportFile(ctx, path, dest)
}

func (r gatedExport) NewTaskRuntime(ctx context.Context) (pygent.Runtime, error) {
	return pygent.NewLocalRuntime(ctx)
}

func newGatedExport(t *testing.T, err error) gatedExport {
	rt := localRuntime(t)
	require.NoError(t, rt.WriteFile(t.Context(), "f", []byte("x")))
	return gatedExport{Runtime: rt, asked: make(chan struct{}, 2), gate: make(chan struct{}), err: err}
}

// startLater starts a task in another goroutine.
func startLater(ctx context.Context, m *pygent.TaskManager, prompt string, rt pygent.Runtime, opts ...pygent.TaskOption) chan error {
	done := make(chan error, 1)
	go func() {
		_, err := m.StartTask(ctx, prompt, rt, opts...)
		done <- err
	}()
	return done
}

func TestOneIDIsOneRequest(t *testing.T) {
	t.Parallel()
	rt := localRuntime(t)
	require.NoError(t, rt.WriteFile(t.Context(), "f", []byte("x")))
	request := func(more ...pygent.TaskOption) []pygent.TaskOption {
		return append([]pygent.TaskOption{
			pygent.WithTaskID("mine"), pygent.WithTaskFiles("f"), pygent.WithTaskPersona(pygent.Persona{Name: "A"}),
			pygent.WithTaskLimits(pygent.Limits{MaxSteps: 3}),
		}, more...)
	}
	model := pygenttest.NewScriptedModel(stop)
	m := newTasks(t, model)
	startTask(t, m, "go", rt, request()...)
	waitTask(t, m, "mine")
	require.NoError(t, rt.WriteFile(t.Context(), "f", []byte("changed since")))
	startTask(t, m, "go", rt, request()...)
	require.Len(t, model.Requests(), 1, "the same request is the same task")

	for name, start := range map[string]struct {
		prompt string
		opts   []pygent.TaskOption
	}{
		"prompt":  {"go away", request()},
		"files":   {"go", request(pygent.WithTaskFiles("g"))},
		"persona": {"go", request(pygent.WithTaskPersona(pygent.Persona{Name: "B"}))},
		"limits":  {"go", request(pygent.WithTaskLimits(pygent.Limits{MaxSteps: 4}))},
		"model":   {"go", request(pygent.WithTaskModelName("m"))},
		"queue":   {"go", request(pygent.WithTaskQueue())},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := m.StartTask(t.Context(), start.prompt, rt, start.opts...)
			require.ErrorIs(t, err, pygent.ErrTaskExists)
			require.ErrorContains(t, err, name)
		})
	}
	all, err := m.Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	require.Len(t, all, 1)
}

func TestStartsAtOnceWithOneID(t *testing.T) {
	t.Parallel()
	for name, prompt := range map[string]string{"the same": "go", "another": "something else"} {
		t.Run(name, func(t *testing.T) {
			rt := newGatedExport(t, nil)
			model := pygenttest.NewScriptedModel(stop)
			m := newTasks(t, model)
			opts := []pygent.TaskOption{pygent.WithTaskID("mine"), pygent.WithTaskFiles("f")}
			first := startLater(t.Context(), m, "go", rt, opts...)
			<-rt.asked
			second := startLater(t.Context(), m, prompt, rt, opts...)
			if prompt != "go" {
				require.ErrorIs(t, <-second, pygent.ErrTaskExists)
				second = nil
			}
			close(rt.gate)
			require.NoError(t, <-first)
			if second != nil {
				require.NoError(t, <-second)
			}
			require.Equal(t, "go", waitTask(t, m, "mine").Prompt)
			require.Len(t, model.Requests(), 1)
			require.Empty(t, rt.asked, "the second one copied nothing")
		})
	}
}

func TestStartIsNotSpoiledByAnotherThatFails(t *testing.T) {
	t.Parallel()
	rt := newGatedExport(t, errors.New("the disk is full"))
	m := newTasks(t, pygenttest.NewScriptedModel(stop))
	opts := []pygent.TaskOption{pygent.WithTaskID("mine"), pygent.WithTaskFiles("f")}
	ctx, cancel := context.WithCancel(t.Context())
	first := startLater(ctx, m, "go", rt, opts...)
	<-rt.asked
	second := startLater(t.Context(), m, "go", rt, opts...)
	cancel()
	require.ErrorIs(t, <-first, context.Canceled)
	<-rt.asked // the second start tries for itself
	close(rt.gate)
	require.ErrorContains(t, <-second, "the disk is full")
	_, err := m.Status(t.Context(), "mine")
	require.ErrorIs(t, err, pygent.ErrUnknownTask)
}

func TestStartHonoursItsContext(t *testing.T) {
	t.Parallel()
	rt := newGatedExport(t, nil)
	m := newTasks(t, pygenttest.NewScriptedModel(stop))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.StartTask(ended, "go", rt)
	require.ErrorIs(t, err, context.Canceled)

	opts := []pygent.TaskOption{pygent.WithTaskID("mine"), pygent.WithTaskFiles("f")}
	first := startLater(t.Context(), m, "go", rt, opts...)
	<-rt.asked
	ctx, cancel := context.WithCancel(t.Context())
	second := startLater(ctx, m, "go", rt, opts...)
	cancel()
	require.ErrorIs(t, <-second, context.Canceled, "it does not wait for the other start")
	close(rt.gate)
	require.NoError(t, <-first)
}

func TestRefusedStartLeavesNothing(t *testing.T) {
	tmp := t.TempDir()
	rt := localRuntime(t)
	require.NoError(t, rt.WriteFile(t.Context(), "f", []byte("x")))
	t.Setenv("TMPDIR", tmp)
	model := pygenttest.NewScriptedModel(stop).RepeatLast().On("Stay put", pygenttest.Text("").WithGate(nil))
	m, err := pygent.NewTaskManager(pygent.MaxTasks(1),
		pygent.TaskPersonas(pygent.Persona{Name: "Tester"}, pygent.Persona{Name: "Writer"}, pygent.Persona{Name: "Reader"}),
		pygent.TaskAgents(pygent.WithModel(model)))
	require.NoError(t, err)
	names := []string{waitTask(t, m, startTask(t, m, "go", rt)).Persona.Name}
	hanging := startTask(t, m, "Stay put", rt)
	status, err := m.Status(t.Context(), hanging)
	require.NoError(t, err)
	names = append(names, status.Persona.Name)
	require.NoError(t, model.WaitRequests(t.Context(), 2)) // by then the task's workspace exists
	entries, err := os.ReadDir(tmp)
	require.NoError(t, err)
	for i := range 4 {
		_, err := m.StartTask(t.Context(), fmt.Sprint("no room ", i), rt, pygent.WithTaskFiles("f"))
		require.ErrorIs(t, err, pygent.ErrTooManyTasks)
		_, err = m.StartTask(t.Context(), "no file", rt, pygent.WithTaskFiles("nope"))
		require.ErrorContains(t, err, "nope")
		_, err = m.StartTask(t.Context(), "no profile", rt, pygent.WithTaskProfileName("nobody"))
		require.ErrorContains(t, err, "no task profile")
	}
	after, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.LessOrEqual(t, len(after), len(entries)+1, "the manager's own directory for files, at most")
	require.NoError(t, m.Cancel(t.Context(), hanging))
	waitTask(t, m, hanging)
	names = append(names, waitTask(t, m, startTask(t, m, "go", rt)).Persona.Name)
	require.Equal(t, []string{"Tester", "Writer", "Reader"}, names, "who was refused had no turn")
	require.NoError(t, m.Close())
	after, err = os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, after)
}

func TestWhatIsMissingIsAnErrorAndNoPanic(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(stop))
	rt := localRuntime(t)
	id := startTask(t, m, "go", rt, nil, pygent.WithTaskID("mine"), pygent.WithTaskProfile(nil), pygent.WithTaskFiles())
	require.Equal(t, pygent.TaskFinished, waitTask(t, m, id).State)
	require.ErrorContains(t, errOf(m.CollectFile(t.Context(), nil, id, "f", "")), "no runtime")
	require.ErrorContains(t, errOf(m.CollectFile(t.Context(), rt, id, "", "")), "the path is empty")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var none context.Context
	for want, ctx := range map[string]context.Context{"the context is nil": none, "canceled": ended} {
		_, err := m.StartTask(ctx, "go", rt)
		require.ErrorContains(t, err, want)
		_, err = m.Status(ctx, id)
		require.ErrorContains(t, err, want)
		_, err = m.Tasks(ctx, pygent.TaskFilter{})
		require.ErrorContains(t, err, want)
		_, err = m.Wait(ctx, id)
		require.ErrorContains(t, err, want)
		_, err = m.TaskHistory(ctx, id)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, errOf(m.Send(ctx, id, "more")), want)
		require.ErrorContains(t, m.Cancel(ctx, id), want)
		require.ErrorContains(t, errOf(m.CollectFile(ctx, rt, id, "f", "")), want)
		require.ErrorContains(t, m.Remove(ctx, id), want)
	}
	startTask(t, m, "go", rt, pygent.WithTaskID("mine"))
	require.Equal(t, 1, waitTask(t, m, id).Runs, "it is known as before")
}

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

// shutting is a runtime whose ExportFile blocks until Cleanup is called.
type shutting struct {
	hollow
	reading, closed chan struct{}
}

func (s shutting) NewTaskRuntime(context.Context) (pygent.Runtime, error) { return s, nil }

func (s shutting) ExportFile(context.Context, string, string) error {
	close(s.reading)
	<-s.closed
	return pygent.ErrRuntimeClosed
}

func (s shutting) Cleanup() error {
	close(s.closed)
	return nil
}

func TestRemoveWhileFilesAreCollected(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		call func(m *pygent.TaskManager) error
		want error
	}{
		"remove": {func(m *pygent.TaskManager) error { return m.Remove(t.Context(), "mine") }, pygent.ErrUnknownTask},
		"close":  {func(m *pygent.TaskManager) error { return m.Close() }, pygent.ErrTaskManagerClosed},
	} {
		t.Run(name, func(t *testing.T) {
			rt := shutting{reading: make(chan struct{}), closed: make(chan struct{})}
			m := newTasks(t, pygenttest.NewScriptedModel(stop))
			startTask(t, m, "go", rt, pygent.WithTaskID("mine"))
			waitTask(t, m, "mine")
			collected := make(chan error)
			go func() { collected <- errOf(m.CollectFile(t.Context(), localRuntime(t), "mine", "f", "")) }()
			<-rt.reading
			require.NoError(t, end.call(m))
			require.ErrorIs(t, <-collected, end.want)
		})
	}
}

func TestRemoveHonoursItsContext(t *testing.T) {
	t.Parallel()
	rt := stuck{called: make(chan struct{}), free: make(chan struct{})}
	m := newTasks(t, pygenttest.NewScriptedModel(stop))
	startTask(t, m, "go", rt, pygent.WithTaskID("mine"))
	waitTask(t, m, "mine")
	ctx, cancel := context.WithCancel(t.Context())
	removed := make(chan error)
	go func() { removed <- m.Remove(ctx, "mine") }()
	<-rt.called
	cancel()
	err := <-removed
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "still being removed")
	_, err = m.Status(t.Context(), "mine")
	require.ErrorIs(t, err, pygent.ErrUnknownTask)
	close(rt.free)
	require.NoError(t, m.Close(), "which waits for the removal")
}

func TestFilesOfATaskThatNeverBegan(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(stop))
	status := waitTask(t, m, startTask(t, m, "go", nowhere{}))
	require.Equal(t, pygent.TaskFailed, status.State)
	_, err := m.CollectFile(t.Context(), localRuntime(t), status.ID, "f", "")
	require.ErrorContains(t, err, "it has no workspace: it ended before it had one")
}

func TestWithdrawnQuestionKeepsNoContainer(t *testing.T) {
	engine := testEngine(t)
	parent := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()))
	bash(t, parent, "true")
	before, _ := oursOn(t, engine)
	m := newTasks(t, pygenttest.NewScriptedModel(callBash("echo made > f"), pygenttest.Call("continue", map[string]any{"prompt": "Which?"})))
	id := startTask(t, m, "make it", parent)
	require.Equal(t, pygent.TaskAwaitingUser, waitTask(t, m, id).State)
	require.NoError(t, m.Cancel(t.Context(), id))
	after, _ := oursOn(t, engine)
	require.Len(t, after, len(before))
	require.NoError(t, errOf(m.CollectFile(t.Context(), parent, id, "f", "")))
}

func TestHistoryOfATaskIsThereUntilItIsRemoved(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(stop).RepeatLast())
	kept, removed := startTask(t, m, "keep me", hollow{}), startTask(t, m, "remove me", hollow{})
	for _, id := range []string{kept, removed} {
		waitTask(t, m, id)
	}
	require.Equal(t, []string{"keep me"}, userTexts(t, m, kept))
	require.NoError(t, m.Remove(t.Context(), removed))
	_, err := m.TaskHistory(t.Context(), removed)
	require.ErrorIs(t, err, pygent.ErrUnknownTask)
	require.NoError(t, m.Close())
	require.Equal(t, []string{"keep me"}, userTexts(t, m, kept))
}
