package pygent_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestCancelSaysWhatBecameOfIt(t *testing.T) {
	cancel := func(id string) pygenttest.Reply { return pygenttest.Call("cancel_task", map[string]any{"task_id": id}) }
	waits := func(id string) pygenttest.Reply { return wait(id) }
	ask := pygenttest.Call("continue", map[string]any{"prompt": "Which?", "options": []string{"a", "b"}})
	for name, tt := range map[string]struct {
		task  pygenttest.Reply
		calls []func(string) pygenttest.Reply
		want  []string
	}{
		"at work": {pygenttest.Text("").WithGate(nil), []func(string) pygenttest.Reply{cancel, waits, cancel},
			[]string{"^asked task .* to end$", "^cancelled\n", "^task .* has ended already: cancelled$"}},
		"done": {stop, []func(string) pygenttest.Reply{waits, cancel},
			[]string{"^finished\n", "^task .* has ended already: finished$"}},
		"asking": {ask, []func(string) pygenttest.Reply{waits, cancel},
			[]string{`^awaiting user\n\[.*\]\nIt asks: Which\?\n- a\n- b\n\(answer with send_task\)$`, "^task .*: cancelled$"}},
	} {
		t.Run(name, func(t *testing.T) {
			script := append([]func(string) pygenttest.Reply{always(delegate("Work"))}, tt.calls...)
			model := pygenttest.NewScriptedModel(follow(append(script, always(stop))...)).RepeatLast().On("Work", tt.task)
			agent := newAgent(t, model)
			_, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			for i, want := range tt.want {
				require.Regexp(t, want, results(agent)[i+1])
			}
		})
	}
}

func TestNoticeOfAQuestionSaysWhoCanAnswer(t *testing.T) {
	model := pygenttest.NewScriptedModel(delegate("Ask"), stop, stop).
		On("Ask", pygenttest.Call("continue", map[string]any{"prompt": "Which?"}))
	agent := newAgent(t, model)
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(1))
	require.NoError(t, err)
	require.Equal(t, pygent.TaskAwaitingUser, byPrompt(t, agent)["Ask"].State)
	_, err = agent.RunUntilStop(t.Context(), "")
	require.NoError(t, err)
	require.Regexp(t, `^\[task [0-9a-f]{10} awaiting user: Which\? \(answer with send_task\)\]$`,
		notices(agent.History().Messages())[0])
}

func TestStatusOfAllTellsOnceWhatEndedTasksSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := pygenttest.Call("task_status", map[string]any{"wait": 100})
		model := pygenttest.NewScriptedModel(pygenttest.Calls(delegate("Ask"), delegate("Count")), all, all, all, stop, stop).
			On("Ask", pygenttest.Call("continue", map[string]any{"prompt": "Which?"}).WithDelay(time.Second)).
			On("Count", pygenttest.Call("stop", map[string]any{"summary": "there are 42"}).WithDelay(time.Minute))
		agent := newAgentOn(t, hollow{}, model)
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		got := results(agent)
		require.Regexp(t, `awaiting user \[.*\] Ask\n  Which\? \(answer with send_task\)`, got[2])
		require.Regexp(t, `(?m)finished \[.*\] Count\n  there are 42$`, got[3])
		require.Contains(t, got[3], "Which?", "it still asks")
		require.NotContains(t, got[4], "there are 42", "told already")
		require.Regexp(t, `^not stopped: task [0-9a-f]{10} asks: Which\? \(answer with send_task, or end it with cancel_task\)\.`, got[5])
		require.Empty(t, notices(agent.History().Messages()))
		require.NoError(t, agent.Close())
	})
}

func TestCollectSaysWhereFilesWentAndWhetherTheyMayChange(t *testing.T) {
	gate := make(chan struct{})
	model := pygenttest.NewScriptedModel(follow(
		always(delegate("Write")),
		func(id string) pygenttest.Reply { return pygenttest.Call("hear", map[string]any{"id": id}) },
		func(id string) pygenttest.Reply {
			return pygenttest.Call("collect_file", map[string]any{"task_id": id, "path": "out/f"})
		},
		always(stop), always(stop))).RepeatLast(). // the first one is refused while the task is running
		On("Write", callBash("mkdir out; echo x > out/f; pwd"), pygenttest.Text("").WithGate(gate))
	var agent *pygent.Agent
	var where string
	hear := pygent.NewTool("hear", "", func(ctx context.Context, _ pygent.Runtime, in struct {
		ID string `json:"id"`
	}) (string, error) {
		err := model.WaitRequests(ctx, 4) // two requests each, so the task has written the file
		messages, failed := agent.Tasks().TaskHistory(ctx, in.ID)
		require.NoError(t, failed)
		where = messages[len(messages)-1].Content
		return "", err
	})
	agent = newAgent(t, model, pygent.WithTools(hear))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Regexp(t, `^copied out/f of task .* to out/f; the task is still running, so this may not be its last state$`, results(agent)[2])

	// On this machine, the task's model knows its workspace by another path
	// than /workspace.
	id := startedTask(agent.History().Messages())
	dir := strings.TrimSpace(where[strings.LastIndexByte(strings.TrimSpace(where), 10)+1:])
	require.NoError(t, errOf(agent.Tasks().CollectFile(t.Context(), agent.Runtime(), id, dir+"/out", "")))
	data, err := agent.Runtime().ReadFile(t.Context(), "out/f")
	require.NoError(t, err)
	require.Equal(t, "x\n", string(data))
	require.ErrorIs(t, errOf(agent.Tasks().CollectFile(t.Context(), agent.Runtime(), id, "/etc/passwd", "")), pygent.ErrOutsideWorkspace)
	require.ErrorIs(t, errOf(agent.Tasks().CollectFile(t.Context(), agent.Runtime(), id, "../f", "")), pygent.ErrOutsideWorkspace)
}

func TestSmallTimeLimitIsALimit(t *testing.T) {
	model := pygenttest.NewScriptedModel(follow(
		always(pygenttest.Call("delegate_task", map[string]any{"prompt": "Hurry", "timeout": 1e-12})),
		func(id string) pygenttest.Reply { return wait(id) }, always(stop))).RepeatLast().
		On("Hurry", pygenttest.Text("").WithGate(nil))
	agent := newAgent(t, model)
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Contains(t, results(agent)[1], "timeout after 1ns")
}
