package pygent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

type review struct {
	Verdict string   `json:"verdict" jsonschema:"approve or reject"`
	Issues  []string `json:"issues,omitempty"`
}

// Validate refuses unknown verdicts.
func (r review) Validate() error {
	switch r.Verdict {
	case "approve", "reject":
		return nil
	case "panic":
		panic("oops")
	}
	return errors.New("the verdict is approve or reject")
}

func finalAnswer(args any) pygenttest.Reply { return pygenttest.Call("final_answer", args) }

func TestATypedRunGivesAValue(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(
		finalAnswer(map[string]any{"verdict": "maybe"}), // refused by Validate
		finalAnswer(map[string]any{"verdict": 1}),       // refused by the schema
		finalAnswer(map[string]any{"verdict": "panic"}),
		stop, // without a value
		pygenttest.Text("I approve."),
		finalAnswer(map[string]any{"verdict": "approve", "issues": []string{"none"}}),
		pygenttest.Text("hello"))
	agent := newAgentOn(t, nowhere{}, model)
	got, result, err := pygent.RunTyped[review](t.Context(), agent, "Review it.", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.Equal(t, review{"approve", []string{"none"}}, got)
	require.Equal(t, pygent.StatusStopped, result.Status)
	given := results(agent)
	require.Contains(t, given[0], "the value is not valid: the verdict is approve or reject")
	require.Contains(t, given[1], "error: ")
	require.Contains(t, given[2], "panic: oops")
	require.Contains(t, given[3], "not stopped: this run ends with an answer: call final_answer")
	requests := model.Requests()
	last := requests[5].Messages
	require.Contains(t, last[len(last)-1].Text(), "Call final_answer when the work is done")

	_, err = agent.Step(t.Context(), "and now?")
	require.NoError(t, err)
	require.Len(t, requests[0].Tools, len(model.Requests()[6].Tools)+1, "the tool is offered only in the typed run")
}

func TestTypedValuesThatAreNoObjects(t *testing.T) {
	t.Parallel()
	agent := func(value string) *pygent.Agent {
		return newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("final_answer", json.RawMessage(`{"value":`+value+`}`))))
	}
	n, _, err := pygent.RunTyped[int](t.Context(), agent("42"), "go")
	require.NoError(t, err)
	require.Equal(t, 42, n)
	list, _, err := pygent.RunTyped[[]string](t.Context(), agent(`["a","b"]`), "go")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, list)
	p, _, err := pygent.RunTyped[*review](t.Context(), agent(`{"verdict":"approve"}`), "go")
	require.NoError(t, err)
	require.Equal(t, "approve", p.Verdict)
}

func TestATypedRunWithoutAValue(t *testing.T) {
	t.Parallel()
	wrong := finalAnswer(map[string]any{"verdict": "maybe"})
	other := func(n string) pygenttest.Reply { return finalAnswer(map[string]any{"verdict": n}) }
	for name, tt := range map[string]struct {
		replies []pygenttest.Reply
		status  pygent.Status
		says    string
	}{
		"replies": {[]pygenttest.Reply{pygenttest.Text("a"), pygenttest.Text("b")}, pygent.StatusReplied,
			"the run ended without a value (replied: 2 replies in a row had no tool call (MaxReplies))"},
		"asks": {[]pygenttest.Reply{pygenttest.Call("continue", map[string]any{"prompt": "Which one?"})}, pygent.StatusAwaitingUser,
			"the run ended without a value (awaiting_user: Which one?)"},
		"gives wrong values": {[]pygenttest.Reply{wrong, other("a"), other("b"), other("c"), other("d")}, pygent.StatusStuck,
			"the run ended without a value (stuck: the model gave 5 values that do not fit)"},
	} {
		t.Run(name, func(t *testing.T) {
			got, result, err := pygent.RunTyped[review](t.Context(), newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(tt.replies...)), "go")
			require.EqualError(t, err, tt.says)
			var none *pygent.NoValueError
			require.ErrorAs(t, err, &none)
			require.Same(t, result, none.Result)
			require.Equal(t, tt.status, result.Status)
			require.Zero(t, got)
		})
	}
}

func TestATypedRunTakesTheValueAtItsLimit(t *testing.T) {
	t.Parallel()
	work := callBash("true")
	for name, last := range map[string]struct {
		reply pygenttest.Reply
		want  string
	}{
		"a value":       {finalAnswer(map[string]any{"verdict": "reject"}), "reject"},
		"a wrong value": {finalAnswer(map[string]any{"verdict": "maybe"}), ""},
		"a panic":       {finalAnswer(map[string]any{"verdict": "panic"}), ""},
		"no value":      {pygenttest.Text("I do not know."), ""},
	} {
		t.Run(name, func(t *testing.T) {
			model := pygenttest.NewScriptedModel(work, work, last.reply)
			got, result, err := pygent.RunTyped[review](t.Context(), newAgentOn(t, nowhere{}, model), "go", pygent.MaxSteps(2))
			require.Equal(t, pygent.StatusMaxSteps, result.Status)
			require.Equal(t, last.want, got.Verdict)
			require.Equal(t, last.want == "", err != nil)
			messages := model.Requests()[2].Messages
			require.Contains(t, messages[len(messages)-1].Text(), "Call final_answer now")
		})
	}
}

func TestATypedRunFailsBeforeItsFirstCall(t *testing.T) {
	t.Parallel()
	named := pygent.Tool{Name: "final_answer", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) { return nil, nil }}
	model := pygenttest.NewScriptedModel()
	_, result, err := pygent.RunTyped[review](t.Context(), newAgentOn(t, nowhere{}, model, pygent.WithTools(named)), "go")
	require.ErrorContains(t, err, "the agent has a tool named final_answer")
	require.Equal(t, pygent.StatusFailed, result.Status)

	_, result, err = pygent.RunTyped[chan int](t.Context(), newAgentOn(t, nowhere{}, model), "go")
	require.ErrorContains(t, err, "typed run: derive the schema of chan int")
	require.Equal(t, pygent.StatusFailed, result.Status)
	require.Empty(t, model.Requests())
}

func TestTasksOfATypedRunHaveNoFinalAnswer(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(delegate("sub"), finalAnswer(map[string]any{"verdict": "approve"}), finalAnswer(map[string]any{"verdict": "approve"})).
		On("sub", pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
			for _, tool := range req.Tools {
				if tool.Name == "final_answer" {
					t.Error("the task has the tool")
				}
			}
			return stop
		}))
	agent := newAgent(t, model)
	_, _, err := pygent.RunTyped[review](t.Context(), agent, "go")
	require.NoError(t, err)
	tasks, err := agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	for _, task := range tasks {
		waitTask(t, agent.Tasks(), task.ID)
	}
	require.True(t, strings.HasPrefix(results(agent)[0], "started") || len(tasks) == 1, results(agent))
}

func TestATypedRunThatGoesOnNeedsAnotherValue(t *testing.T) {
	t.Parallel()
	var agent *pygent.Agent
	agent = newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(
		finalAnswer(map[string]any{"verdict": "approve"}), finalAnswer(map[string]any{"verdict": "reject"})),
		pygent.OnEvent(func(e pygent.Event) {
			if e.Type == pygent.EventToolDone && e.Step == 1 {
				_, err := agent.Say(chat.UserMessage("Look again."))
				require.NoError(t, err)
			}
		}))
	got, _, err := pygent.RunTyped[review](t.Context(), agent, "go")
	require.NoError(t, err)
	require.Equal(t, "reject", got.Verdict)
}

// closesInside closes the agent in its Validate, or waits there.
type closesInside struct {
	Verdict string `json:"verdict"`
}

var insideValidate func() error

func (closesInside) Validate() error { return insideValidate() }

// At the limit of a run, the value is taken as in any other step: by code that
// the agent knows to be the caller's, and that it need not wait for.
func TestTheLastValueIsValidatedAsTheOthersAre(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var agent *pygent.Agent
		run := func(ctx context.Context) (closesInside, *pygent.Result, error) {
			agent = quick(t, pygenttest.NewScriptedModel(callBash("true"), callBash("true"), finalAnswer(map[string]any{"verdict": "approve"})))
			return pygent.RunTyped[closesInside](ctx, agent, "go", pygent.MaxSteps(2))
		}
		var closed error
		insideValidate = func() error { closed = agent.Close(); return nil }
		got, _, err := run(t.Context())
		require.NoError(t, err)
		require.Equal(t, "approve", got.Verdict)
		require.ErrorIs(t, closed, pygent.ErrInCallback)

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		release := make(chan struct{})
		insideValidate = func() error { <-release; return nil }
		_, _, err = run(ctx)
		require.Error(t, err)
		close(release)
		synctest.Wait()
	})
}
