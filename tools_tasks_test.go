package pygent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func delegate(prompt string, files ...string) pygenttest.Reply {
	return pygenttest.Call("delegate_task", map[string]any{"prompt": prompt, "files": files})
}

func wait(id string) pygenttest.Reply {
	return pygenttest.Call("task_status", map[string]any{"task_id": id, "wait": 60})
}

// follow gives the replies one after another. Each may use the id of the first
// task that the conversation started with delegate_task.
func follow(replies ...func(id string) pygenttest.Reply) pygenttest.Reply {
	var mu sync.Mutex
	next := 0
	return pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
		mu.Lock()
		defer mu.Unlock()
		if next >= len(replies) {
			return pygenttest.Error(pygenttest.ErrScriptEnded)
		}
		next++
		return replies[next-1](startedTask(req.Messages))
	})
}

func startedTask(messages []pygent.Message) string {
	for _, m := range messages {
		if rest, ok := strings.CutPrefix(m.Content, "started task "); ok {
			return strings.Fields(rest)[0]
		}
	}
	return ""
}

func always(r pygenttest.Reply) func(string) pygenttest.Reply {
	return func(string) pygenttest.Reply { return r }
}

// notices returns what the conversation was told of ended tasks.
func notices(messages []pygent.Message) []string {
	var all []string
	for _, m := range messages {
		if m.Role == pygent.RoleUser && strings.HasPrefix(m.Content, "[task ") {
			all = append(all, m.Content)
		}
	}
	return all
}

func TestAgentDelegatesWaitsAndCollects(t *testing.T) {
	t.Parallel()
	for _, rt := range runtimeCases()[:2] {
		t.Run(rt.Name, func(t *testing.T) {
			model := pygenttest.NewScriptedModel(follow(
				always(callBash("echo 'func Add()' > add.go")),
				always(delegate("Write the tests", "add.go")),
				func(id string) pygenttest.Reply { return wait(id) },
				func(id string) pygenttest.Reply {
					return pygenttest.Call("collect_file", map[string]any{"task_id": id, "path": "add_test.go"})
				},
				always(callBash("cat add_test.go")),
				always(stop),
			)).RepeatLast().On("Write the tests",
				callBash("sed s/func/test/ add.go > add_test.go"),
				pygenttest.Call("stop", map[string]any{"summary": "one test"}))
			agent := newAgentOn(t, rt.New(t), model)
			result, err := agent.RunUntilStop(t.Context(), "make it tested")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status, result.Reason)
			got := results(agent)
			require.Regexp(t, `^started task [0-9a-f]{10}$`, got[1])
			require.Regexp(t, `^finished\n\[2 steps, 2 tool calls, \d+s\]\n  one test\n  It changed these files, for collect_file:\n  - add_test.go \(new, 11 bytes\)$`, got[2])
			require.Regexp(t, `^copied add_test.go of task \w+ to add_test.go: 1 file \(11 bytes\)$`, got[3])
			require.Equal(t, "$ cat add_test.go\ntest Add()\n", got[4])
			require.Empty(t, notices(agent.History().Messages()), "task_status told it already")
		})
	}
}

func TestModelIsToldOnceThatATaskEnded(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(
		delegate("Count"), callBash("echo one"), pygenttest.Calls(callBash("echo two"), callBash("echo three")), callBash("echo four"), stop).
		On("Count", pygenttest.Call("stop", map[string]any{"summary": "there are 42"}))
	ended := make(chan struct{})
	agent := newAgent(t, model, pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventTask && e.TaskStatus.State.AtRest() {
			close(ended)
		}
	}))
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(2))
	require.NoError(t, err)
	<-ended
	result, err := agent.RunUntilStop(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	got := notices(agent.History().Messages())
	require.Len(t, got, 1)
	require.Regexp(t, `^\[task [0-9a-f]{10} finished: there are 42\]$`, got[0])
}

func TestDelegationToolsAnswerWithWhatIsWrong(t *testing.T) {
	t.Parallel()
	call := func(tool string, args map[string]any) pygenttest.Reply { return pygenttest.Call(tool, args) }
	tests := []struct {
		name  string
		reply pygenttest.Reply
		want  string
	}{
		{"empty prompt", delegate(" "), "prompt is empty"},
		{"missing file", delegate("go", "nope.txt"), "nope.txt"},
		{"file outside", delegate("go", "/etc/passwd"), "outside the workspace"},
		{"unknown persona", call("delegate_persona_task", map[string]any{"persona": "Nobody", "prompt": "go"}), `no persona "Nobody"; the personas are: Tester, Writer`},
		{"misspelt persona", call("delegate_persona_task", map[string]any{"persona": "Tetser", "prompt": "go"}), `no persona "Tetser", did you mean Tester?`},
		{"misspelt persona of a task", call("delegate_task", map[string]any{"persona": "writers", "prompt": "go"}), `no persona "writers", did you mean Writer?`},
		{"no persona", call("delegate_persona_task", map[string]any{"persona": "", "prompt": "go"}), "list_personas"},
		{"personas", call("list_personas", nil), "- Tester: tests\n- Writer"},
		{"no tasks", call("task_status", nil), "you have delegated no tasks"},
		{"unknown task", call("task_status", map[string]any{"task_id": "x"}), "task x: no such task; task_status without task_id lists"},
		{"collect of none", call("collect_file", map[string]any{"task_id": "x", "path": "f"}), "no such task"},
		{"cancel of none", call("cancel_task", map[string]any{"task_id": "x"}), "no such task"},
		{"cancel of no name", call("cancel_task", map[string]any{"task_id": ""}), "task_id is empty"},
		{"file without a name", delegate("go", ""), "the path is empty"},
		{"negative limit", call("delegate_task", map[string]any{"prompt": "go", "timeout": -1}), "negative"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			agent := newAgent(t, pygenttest.NewScriptedModel(tt.reply, stop), pygent.TaskPersonas(pygent.Persona{Name: "Tester", Description: "tests"}, pygent.Persona{Name: "Writer"}))
			_, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Contains(t, results(agent)[0], tt.want)
		})
	}
	_, err := pygent.ExecuteTool(t.Context(), pygent.ToolCall{Name: "delegate_task", Arguments: `{"prompt":"x"}`}, nowhere{})
	require.ErrorContains(t, err, "works in a run of an agent only")
}

func TestDelegatedAgentsDoNotDelegateUnlessAllowed(t *testing.T) {
	t.Parallel()
	for _, depth := range []int{1, 2} {
		model := pygenttest.NewScriptedModel()
		for level := range 4 {
			model.On(fmt.Sprintf("level %d", level), follow(
				always(delegate(fmt.Sprintf("level %d", level+1))), func(id string) pygenttest.Reply {
					if id == "" {
						return stop
					}
					return wait(id)
				}, always(stop))).RepeatLast()
		}
		agent := newAgent(t, model, pygent.MaxTaskDepth(depth), pygent.MaxTasks(depth+1))
		result, err := agent.RunUntilStop(t.Context(), "level 0")
		require.NoError(t, err)
		require.Equal(t, pygent.StatusStopped, result.Status, result.Reason)
		all, err := agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
		require.NoError(t, err)
		require.Len(t, all, depth)
		deepest := all[depth-1]
		require.Equal(t, depth, deepest.Depth)
		messages, err := agent.Tasks().TaskHistory(t.Context(), deepest.ID)
		require.NoError(t, err)
		require.Contains(t, messages[3].Content, "no tasks can be made here; do the work yourself")
	}
}

func TestTooManyTasksAreAClearResult(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(
		pygenttest.Calls(delegate("Hang 1"), delegate("Hang 2"), pygenttest.Call("task_status", nil)), stop).RepeatLast().
		On("Hang", pygenttest.Text("").WithGate(nil))
	agent := newAgent(t, model, pygent.MaxTasks(1))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	got := results(agent)
	require.Contains(t, got[0], "started task")
	require.Contains(t, got[1], "too many tasks run already: 1 run, and no more may at once (PYGENT_MAX_TASKS); wait for one with task_status")
	require.Contains(t, got[2], ": running [")
	require.Contains(t, got[2], "Hang 1")
}

func TestTaskIDFollowsFromTheCall(t *testing.T) {
	t.Parallel()
	ids := func() (ids []string) {
		model := pygenttest.NewScriptedModel(pygenttest.Calls(delegate("One"), delegate("Two")), delegate("Three"), stop).RepeatLast().
			On("One", stop).On("Two", stop).On("Three", stop)
		agent := newAgent(t, model, pygent.WithID("parent"))
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		all, err := agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
		require.NoError(t, err)
		for _, s := range all {
			require.Equal(t, "parent", s.Parent)
			ids = append(ids, s.ID)
		}
		return ids
	}
	first := ids()
	require.Len(t, first, 3)
	require.Equal(t, first, ids())
}

func TestTaskEventsReachTheParent(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	model := pygenttest.NewScriptedModel(follow(always(delegate("Work")), func(id string) pygenttest.Reply { return wait(id) }, always(stop))).
		RepeatLast().On("Work", callBash("echo hello").WithGate(gate), stop)
	agent := newAgent(t, model)
	var mine, tasks []pygent.EventType
	var states []pygent.TaskState
	var last pygent.Event
	for e, err := range agent.Events(t.Context(), "go") {
		require.NoError(t, err)
		require.Greater(t, e.Seq, last.Seq)
		last = e
		if e.Task == "" {
			mine = append(mine, e.Type)
			continue
		}
		tasks = append(tasks, e.Type)
		if e.Type == pygent.EventTask {
			states = append(states, e.TaskStatus.State)
			if e.TaskStatus.State == pygent.TaskRunning {
				close(gate)
			}
		}
	}
	require.Equal(t, pygent.EventRunEnd, last.Type)
	require.Empty(t, last.Task)
	require.Equal(t, pygent.TaskRunning, states[0])
	require.Contains(t, tasks, pygent.EventToolDone)
	require.NotContains(t, mine, pygent.EventTask)
}

func TestTimeOfTheParentBoundsItsTasks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := pygenttest.NewScriptedModel(delegate("Hang"), stop).RepeatLast().On("Hang", pygenttest.Text("").WithGate(nil))
		agent := newAgentOn(t, hollow{}, model)
		_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxTime(30*time.Second))
		require.NoError(t, err)
		all, err := agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
		require.NoError(t, err)
		require.Equal(t, "timeout after 30s", waitTask(t, agent.Tasks(), all[0].ID).String())
		require.NoError(t, agent.Close())
	})
}

// hollow is a runtime that does nothing, and makes more such runtimes for
// tasks.
type hollow struct{ nowhere }

func (hollow) NewTaskRuntime(context.Context) (pygent.Runtime, error) { return hollow{}, nil }

func TestStatusWaitsForTheNextTaskToEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := pygenttest.Call("task_status", map[string]any{"wait": 100})
		model := pygenttest.NewScriptedModel(pygenttest.Calls(delegate("Slow"), delegate("Fast")), all, all, all, stop).
			On("Slow", stop.WithDelay(time.Minute)).On("Fast", stop.WithDelay(time.Second))
		agent := newAgentOn(t, hollow{}, model)
		start := time.Now()
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		require.Equal(t, time.Minute, time.Since(start))
		got := results(agent)
		require.Contains(t, got[2], "running")
		require.Contains(t, got[2], "finished")
		require.NotContains(t, got[3], "running")
		require.Equal(t, strings.Replace(got[3], "\n  all done", "", 1), got[4], "nothing is left to wait for")
		require.Empty(t, notices(agent.History().Messages()))
		require.NoError(t, agent.Close())
	})
}

func TestStatusDoesNotWaitIfATaskHasEndedUnheard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := pygenttest.Call("task_status", map[string]any{"wait": 100})
		model := pygenttest.NewScriptedModel(pygenttest.Calls(delegate("Slow"), delegate("Fast")), all.WithDelay(5*time.Second), all, stop).
			On("Slow", stop.WithDelay(time.Minute)).On("Fast", stop.WithDelay(time.Second))
		agent := newAgentOn(t, hollow{}, model)
		start := time.Now()
		_, err := agent.RunUntilStop(t.Context(), "go", pygent.OnEvent(func(e pygent.Event) {
			if e.Type == pygent.EventToolDone && e.Step == 2 {
				require.Equal(t, 5*time.Second, time.Since(start), "the end of the fast one was not heard of before")
			}
		}))
		require.NoError(t, err)
		require.Equal(t, time.Minute, time.Since(start), "then it waits for the slow one")
		require.NotContains(t, results(agent)[3], "running")
		require.NoError(t, agent.Close())
	})
}

func TestCancelledTaskTakesItsOwnTasksAlong(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(follow(always(delegate("Lead")), always(callBash("true")))).RepeatLast().
		On("Lead", delegate("Hang"), pygenttest.Text("").WithGate(nil)).
		On("Hang", pygenttest.Text("").WithGate(nil))
	agent := newAgent(t, model, pygent.MaxTaskDepth(2))
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(1))
	require.NoError(t, err)
	require.NoError(t, model.WaitRequests(t.Context(), 4))
	all, err := agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, all[0].ID, all[1].Parent)
	require.NoError(t, agent.Tasks().Cancel(t.Context(), all[0].ID))
	for _, s := range all {
		require.Equal(t, pygent.TaskCancelled, waitTask(t, agent.Tasks(), s.ID).State)
	}
}

func TestTasksKeepTheRulesOfTheirParent(t *testing.T) {
	t.Parallel()
	double := pygent.NewTool("double", "", func(_ context.Context, _ pygent.Runtime, in struct {
		N int `json:"n"`
	}) (string, error) {
		return fmt.Sprint(2 * in.N), nil
	})
	asked := make(chan string, 10)
	model := pygenttest.NewScriptedModel(follow(always(delegate("Work")), func(id string) pygenttest.Reply { return wait(id) }, always(stop))).RepeatLast().
		On("Work", callBash("curl x"), callBash("echo no"), pygenttest.Call("edit_file", nil), pygenttest.Call("double", map[string]any{"n": 21}), stop)
	agent := newAgent(t, model, pygent.WithTools(double),
		pygent.WithBannedCommands("curl"), pygent.WithDisabledTools("edit_file"), pygent.WithApprovalFor("bash"),
		pygent.WithApproval(func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
			asked <- r.Call.Name
			return pygent.Decision{Reason: "not now"}, nil
		}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	all, err := agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	messages, err := agent.Tasks().TaskHistory(t.Context(), all[0].ID)
	require.NoError(t, err)
	var got []string
	for _, m := range messages {
		if m.Role == pygent.RoleTool {
			got = append(got, m.Content)
		}
	}
	require.Equal(t, []string{
		`error: denied: the command "curl" is banned here`,
		"error: denied: not now",
		"error: the tool is disabled",
		"42",
		"stopped",
	}, got)
	require.Len(t, asked, 1)
}

func TestAgentsShareAManager(t *testing.T) {
	t.Parallel()
	m, err := pygent.NewTaskManager()
	require.NoError(t, err)
	defer m.Close()
	model := pygenttest.NewScriptedModel().On("agent A", delegate("Sub"), pygenttest.Call("task_status", nil), stop, stop).
		On("agent B", pygenttest.Call("task_status", nil), stop).On("Sub", stop)
	one, two := newAgent(t, model, pygent.WithTaskManager(m)), newAgent(t, model, pygent.WithTaskManager(m))
	_, err = one.RunUntilStop(t.Context(), "agent A")
	require.NoError(t, err)
	_, err = two.RunUntilStop(t.Context(), "agent B")
	require.NoError(t, err)
	require.Contains(t, results(one)[1], "Sub")
	require.Equal(t, "you have delegated no tasks", results(two)[0], "those of others are not theirs")
	require.NoError(t, one.Close())
	all, err := m.Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	require.Equal(t, pygent.TaskFinished, waitTask(t, m, all[0].ID).State, "the manager outlives the agent")
}

// startedTasks returns the ids of all tasks that the conversation started.
func startedTasks(messages []pygent.Message) []string {
	var ids []string
	for _, m := range messages {
		if rest, ok := strings.CutPrefix(m.Content, "started task "); ok {
			ids = append(ids, strings.Fields(rest)[0])
		}
	}
	return ids
}

func TestDelegationOverHTTP(t *testing.T) {
	t.Parallel()
	both := func(call func(id, name string) pygenttest.Reply) pygenttest.Reply {
		return pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
			ids := startedTasks(req.Messages)
			return pygenttest.Calls(call(ids[0], "a"), call(ids[1], "b"))
		})
	}
	for _, rt := range runtimeCases()[:2] {
		t.Run(rt.Name, func(t *testing.T) {
			server := pygenttest.NewServer(t,
				callBash("echo 1 > a; echo 2 > b"),
				pygenttest.Calls(delegate("Double a", "a"), delegate("Double b", "b")),
				both(func(id, _ string) pygenttest.Reply { return wait(id) }),
				both(func(id, name string) pygenttest.Reply {
					return pygenttest.Call("collect_file", map[string]any{"task_id": id, "path": name + "2"})
				}),
				callBash("cat a2 b2"), stop).
				On("Double a", callBash("echo $((2 * $(cat a))) > a2; ls"), stop).
				On("Double b", callBash("echo $((2 * $(cat b))) > b2; ls"), stop)
			model, err := pygent.NewOpenAIModel(pygent.OpenAIBaseURL(server.URL()))
			require.NoError(t, err)
			agent := newAgentOn(t, rt.New(t), model)
			result, err := agent.RunUntilStop(t.Context(), "Have the numbers doubled.")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status, results(agent))
			require.Contains(t, results(agent), "$ cat a2 b2\n2\n4\n")
			require.Zero(t, server.Remaining())
			for _, r := range server.Requests() {
				require.NoError(t, r.Err)
				require.NotContains(t, string(r.Body), "a2\\nb\\n", "a task saw another one's files")
			}
		})
	}
}

func TestDelegationIsOfferedWhereTasksCanBeMade(t *testing.T) {
	t.Parallel()
	delegation := []string{"cancel_task", "collect_file", "delegate_task", "send_task", "task_status"}
	withPersonas := []string{"cancel_task", "collect_file", "delegate_persona_task", "delegate_task", "list_personas", "send_task", "task_status"}
	offered := func(m *pygenttest.ScriptedModel, of string) (names []string) {
		for _, r := range m.Requests() {
			if r.Messages[1].Text() == of {
				for _, tool := range r.Tools {
					if slices.Contains(withPersonas, tool.Name) {
						names = append(names, tool.Name)
					}
				}
				return names
			}
		}
		return nil
	}
	for name, tt := range map[string]struct {
		rt   pygent.Runtime
		opts []pygent.Option
		want []string
	}{
		"a runtime that makes others":          {hollow{}, nil, delegation},
		"one that makes others, with personas": {hollow{}, []pygent.Option{pygent.TaskPersonas(pygent.Persona{Name: "Ada"})}, withPersonas},
		"one that does not":                    {nowhere{}, nil, nil},
		"one that does not, with a manager's":  {nowhere{}, []pygent.Option{pygent.TaskAgents(pygent.LendRuntime(nowhere{}))}, delegation},
	} {
		t.Run(name, func(t *testing.T) {
			model := pygenttest.NewScriptedModel(delegate("Sub"), stop, stop).On("Sub", delegate("no"), stop)
			agent := newAgentOn(t, tt.rt, model, tt.opts...)
			_, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, tt.want, offered(model, "go"))
			if tt.want == nil {
				require.Contains(t, results(agent)[0], "the tool is disabled")
				return
			}
			all, err := agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
			require.NoError(t, err)
			require.Equal(t, pygent.TaskFinished, waitTask(t, agent.Tasks(), all[0].ID).State)
			require.Empty(t, offered(model, "Sub"), "it is as deep as agents may be")
			for _, m := range agent.History().Messages()[:1] {
				require.NotContains(t, m.Text(), "delegate")
			}
		})
	}
}
