package pygent_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/project"
	"github.com/x/pygent/pygenttest"
)

func TestRunStopsAtStopTool(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(callBash("echo one > f; cat f"), stop)
	agent := newAgent(t, model)
	result, err := agent.RunUntilStop(t.Context(), "write a file")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Equal(t, "all done", result.Summary)
	require.Equal(t, 2, result.Steps)
	require.Equal(t, 2, result.ToolCalls)
	require.Positive(t, result.Elapsed)
	require.Equal(t, []string{"$ echo one > f; cat f\none\n", "stopped"}, results(agent))
	data, err := agent.Runtime().ReadFile(t.Context(), "f")
	require.NoError(t, err)
	require.Equal(t, "one\n", string(data))
}

func TestRunAwaitsUserAtContinueTool(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(
		pygenttest.Call("continue", map[string]any{"prompt": "Which?", "options": []string{"a", "b"}}), stop)
	agent := newAgent(t, model)
	result, err := agent.RunUntilStop(t.Context(), "choose")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusAwaitingUser, result.Status)
	require.Equal(t, &pygent.Question{Prompt: "Which?", Options: []string{"a", "b"}}, result.Question)
	result, err = agent.RunUntilStop(t.Context(), "b")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
}

func TestRunEndsAtItsLimits(t *testing.T) {
	t.Parallel()
	twoCalls := pygenttest.Calls(callBash("echo a"), callBash("echo b"))
	tests := []struct {
		name    string
		replies []pygenttest.Reply
		opts    []pygent.RunOption
		status  pygent.Status
		steps   int
		calls   int
	}{
		{"replies in a row", []pygenttest.Reply{pygenttest.Text("x"), pygenttest.Text("y")}, nil, pygent.StatusReplied, 2, 0},
		{"a call between replies", []pygenttest.Reply{pygenttest.Text("x"), callBash("true"), pygenttest.Text("z"), stop}, nil, pygent.StatusStopped, 4, 2},
		{"fewer replies", []pygenttest.Reply{pygenttest.Text("x")}, []pygent.RunOption{pygent.MaxReplies(1)}, pygent.StatusReplied, 1, 0},
		{"reply ends", []pygenttest.Reply{pygenttest.Text("x")}, []pygent.RunOption{pygent.WithEndOnReply()}, pygent.StatusReplied, 1, 0},
		{"steps", []pygenttest.Reply{callBash("echo a"), callBash("echo b"), stop}, []pygent.RunOption{pygent.MaxSteps(2)}, pygent.StatusMaxSteps, 2, 2},
		{"tool calls", []pygenttest.Reply{twoCalls, twoCalls, stop}, []pygent.RunOption{pygent.MaxToolCalls(3)}, pygent.StatusMaxToolCalls, 2, 3},
		{"tokens", []pygenttest.Reply{callBash("true").WithUsage(pygent.Usage{PromptTokens: 90, CompletionTokens: 10}), stop}, []pygent.RunOption{pygent.MaxTokens(100)}, pygent.StatusBudget, 1, 1},
		{"calls after stop", []pygenttest.Reply{pygenttest.Calls(stop, callBash("touch never"))}, nil, pygent.StatusStopped, 1, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			agent := newAgent(t, pygenttest.NewScriptedModel(tt.replies...))
			result, err := agent.RunUntilStop(t.Context(), "go", tt.opts...)
			require.NoError(t, err)
			require.Equal(t, tt.status, result.Status, result.Reason)
			require.Equal(t, tt.steps, result.Steps)
			require.Equal(t, tt.calls, result.ToolCalls)
			_, err = agent.Runtime().ReadFile(t.Context(), "never")
			require.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}

func TestDefaultLimitIsTwentySteps(t *testing.T) {
	t.Parallel()
	n := 0
	model := pygent.ModelFunc(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		n++
		return &pygent.ChatResponse{Message: chat.AssistantMessage("", pygent.ToolCall{ID: "c", Name: "bash", Arguments: fmt.Sprintf(`{"cmd":"echo %d"}`, n)})}, nil
	})
	result, err := newAgent(t, model).RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusMaxSteps, result.Status)
	require.Equal(t, 20, result.Steps)
}

func TestInvalidLimitsAreErrors(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel())
	for _, opt := range []pygent.RunOption{pygent.MaxSteps(-2), pygent.MaxToolCalls(-2), pygent.MaxReplies(-2), pygent.MaxTokens(-2), pygent.MaxCost(-2), pygent.MaxCost(-0.5), pygent.MaxCost(math.NaN()), pygent.MaxCost(math.Inf(1)), pygent.StepTimeout(-2), pygent.MaxTime(-2)} {
		_, err := agent.RunUntilStop(t.Context(), "go", opt)
		require.ErrorContains(t, err, "want a positive number, 0 for the default, or NoLimit")
	}
	_, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel()), pygent.MaxSteps(-2))
	require.ErrorContains(t, err, "MaxSteps")
}

func TestTimeLimitsCancelWhatIsInFlight(t *testing.T) {
	t.Parallel()
	// A command ends before the step (see TestACommandEndsBeforeItsStep), other tools do not.
	hang := pygent.NewTool("hang", "Wait", func(ctx context.Context, _ pygent.Runtime, _ struct{}) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	})
	call := pygenttest.Call("hang", struct{}{})
	tests := []struct {
		name   string
		reply  pygenttest.Reply
		opt    pygent.RunOption
		reason string
	}{
		{"a step's tool", call, pygent.StepTimeout(50 * time.Millisecond), "the step took longer"},
		{"a run's tool", call, pygent.MaxTime(50 * time.Millisecond), "the run took longer"},
		{"a step's model call", pygenttest.Text("x").WithGate(nil), pygent.StepTimeout(50 * time.Millisecond), "the step took longer"},
		{"a run's model call", pygenttest.Text("x").WithGate(nil), pygent.MaxTime(50 * time.Millisecond), "the run took longer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			agent := newAgent(t, pygenttest.NewScriptedModel(tt.reply), pygent.WithTools(hang))
			result, err := agent.RunUntilStop(t.Context(), "go", tt.opt)
			require.NoError(t, err)
			require.Equal(t, pygent.StatusTimeout, result.Status)
			require.Contains(t, result.Reason, tt.reason)
			for _, got := range results(agent) { // if the time was enough for the call
				require.Contains(t, got, "may have taken effect")
			}
		})
	}
}

func TestCancelAnswersEveryCall(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Calls(callBash("sleep 600"), callBash("touch never"))))
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the user had enough")
	result, err := agent.RunUntilStop(ctx, "go", pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventToolCall {
			cancel(why)
		}
	}))
	require.ErrorIs(t, err, why)
	require.Equal(t, pygent.StatusCancelled, result.Status)
	require.Len(t, results(agent), 2)
	require.Contains(t, results(agent)[1], "not run")
	_, err = agent.Runtime().ReadFile(t.Context(), "never")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestDeafToolAndModelAreLeftBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		deaf := pygent.Tool{Name: "deaf", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
			<-free
			return nil, nil
		}}
		agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("deaf", nil)), pygent.WithTools(deaf))
		result, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxTime(time.Second))
		require.NoError(t, err)
		require.Equal(t, pygent.StatusTimeout, result.Status)
		require.Contains(t, results(agent)[0], "left behind")

		model := pygent.ModelFunc(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) {
			<-free
			return nil, errors.New("late")
		})
		result, err = newAgentOn(t, nowhere{}, model).RunUntilStop(t.Context(), "go", pygent.MaxTime(time.Second))
		require.NoError(t, err)
		require.Equal(t, pygent.StatusTimeout, result.Status)
		close(free)
		synctest.Wait() // until both have returned, before their agents are closed
	})
}

func TestFaultyCallsBecomeResults(t *testing.T) {
	t.Parallel()
	panics := pygent.Tool{Name: "panics", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
		panic("oh no")
	}}
	fails := pygent.NewTool("fails", "", func(context.Context, pygent.Runtime, struct {
		N int `json:"n"`
	}) (string, error) {
		return "", errors.New("it broke")
	})
	call := func(name, args string) pygenttest.Reply {
		return pygenttest.Message(chat.AssistantMessage("", pygent.ToolCall{ID: "c1", Name: name, Arguments: args}))
	}
	tests := []struct {
		name  string
		reply pygenttest.Reply
		want  string
	}{
		{"unknown", call("nope", "{}"), `unknown tool "nope"; the tools are: bash, cancel_task,`},
		{"disabled", call("read_image", `{"path":"x"}`), "the tool is disabled"},
		{"panic", call("panics", ""), "panic: oh no"},
		{"error", call("fails", `{"n":1}`), "it broke"},
		{"no JSON", call("fails", `{"n":`), "not a JSON object"},
		{"an array", call("fails", `[1]`), "not a JSON object"},
		{"more than an object", call("fails", `{"n":1} {}`), "text after the JSON object"},
		{"missing argument", call("fails", `{}`), "n is missing; expected {n: integer}"},
		{"wrong type", call("fails", `{"n":"one"}`), `n: expected integer, given string "one"`},
		{"empty command", call("bash", `{"cmd":" "}`), "cmd is empty"},
		{"outside", call("download_file", `{"path":"../../etc/passwd"}`), "outside the workspace"},
		{"missing file", call("download_file", `{"path":"nope"}`), "nope"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			agent := newAgent(t, pygenttest.NewScriptedModel(tt.reply, stop),
				pygent.WithTools(panics, fails), pygent.WithDisabledTools("read_image"))
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status)
			require.True(t, strings.HasPrefix(results(agent)[0], "error: "), results(agent)[0])
			require.Contains(t, results(agent)[0], tt.want)
		})
	}
}

func TestDisabledToolsAreHidden(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(stop)
	_, err := newAgent(t, model, pygent.WithDisabledTools("bash", "read_image")).RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	for _, tool := range model.Requests()[0].Tools {
		require.NotContains(t, []string{"bash", "read_image"}, tool.Name)
	}
}

func TestModelsOwnFaultsAreErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		model  pygent.ModelFunc
		status pygent.Status
		want   string
	}{
		{"panic", func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) { panic("oops") }, pygent.StatusFailed, "panic: oops"},
		{"nothing", func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) { return nil, nil }, pygent.StatusFailed, "neither a response nor an error"},
		{"error", func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) {
			return nil, errors.New("no luck")
		}, pygent.StatusFailed, "ask the model: no luck"},
		{"context", func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) {
			return nil, &pygent.APIError{Status: 400, ContextTooLarge: true}
		}, pygent.StatusContextFull, "status 400"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			result, err := newAgent(t, tt.model).RunUntilStop(t.Context(), "go")
			require.ErrorContains(t, err, tt.want)
			require.Equal(t, tt.status, result.Status)
		})
	}
}

func TestTruncatedAnswersRunNoCalls(t *testing.T) {
	t.Parallel()
	cut := pygenttest.Calls(callBash("touch never")).WithFinish(chat.FinishLength)
	agent := newAgent(t, pygenttest.NewScriptedModel(cut, stop))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Contains(t, results(agent)[0], "write in smaller pieces")

	agent = newAgent(t, pygenttest.NewScriptedModel(cut, cut))
	result, err = agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusTruncated, result.Status)
	require.Contains(t, result.Reason, "raise openai.max_tokens")
	_, err = agent.Runtime().ReadFile(t.Context(), "never")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestEmptyAnswersAreNudgedOnceAndNotKept(t *testing.T) {
	t.Parallel()
	empty := pygenttest.Text("  ")
	agent := newAgent(t, pygenttest.NewScriptedModel(empty, stop))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)

	model := pygenttest.NewScriptedModel(empty, pygenttest.Text("\u200b\ufeff<|im_end|>"))
	agent = newAgent(t, model)
	result, err = agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusEmpty, result.Status)
	for _, m := range agent.History().Messages() {
		require.NotEqual(t, chat.RoleAssistant, m.Role)
	}
	last := model.Requests()[1].Messages
	require.Contains(t, last[len(last)-1].Content, "empty")
}

func TestRepeatedCallsAreToldAndThenStopped(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(callBash("echo same")).RepeatLast())
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStuck, result.Status)
	require.Equal(t, 5, result.Steps)
	got := results(agent)
	require.NotContains(t, got[1], "try something else")
	require.Contains(t, got[2], "3 times in a row; try something else")

	agent = newAgent(t, pygenttest.NewScriptedModel(callBash("echo $RANDOM$RANDOM$$; date +%N"), stop))
	result, err = agent.RunUntilStop(t.Context(), "other results are progress")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
}

func TestApproval(t *testing.T) {
	t.Parallel()
	no := errors.New("the line is dead")
	decide := func(d pygent.Decision, err error) pygent.Option {
		return pygent.WithApproval(func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) { return d, err })
	}
	tests := []struct {
		name string
		opts []pygent.Option
		want string
	}{
		{"nobody to ask", nil, "needs approval, and nobody can give it"},
		{"allowed", []pygent.Option{decide(pygent.Decision{Allow: true}, nil)}, "hi"},
		{"denied", []pygent.Option{decide(pygent.Decision{}, nil)}, "denied by the user"},
		{"denied with a reason", []pygent.Option{decide(pygent.Decision{Reason: "too risky"}, nil)}, "denied: too risky"},
		{"an error is no", []pygent.Option{decide(pygent.Decision{Allow: true}, no)}, "the line is dead"},
		{"a panic is no", []pygent.Option{pygent.WithApproval(func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) { panic("x") })}, "denied"},
		{"banned in spite of approval", []pygent.Option{decide(pygent.Decision{Allow: true}, nil), pygent.WithBannedCommands("echo")}, `"echo" is banned`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			agent := newAgent(t, pygenttest.NewScriptedModel(callBash("true\necho hi"), stop), append(tt.opts, pygent.WithApprovalFor("bash"))...)
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status)
			require.Contains(t, results(agent)[0], tt.want)
		})
	}
}

func TestStepMakesOnePass(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(callBash("echo 1"), pygenttest.Text("it printed 1").WithUsage(pygent.Usage{PromptTokens: 7})))
	result, err := agent.Step(t.Context(), "run it")
	require.NoError(t, err)
	require.Equal(t, "bash", result.Message.ToolCalls[0].Name)
	require.Equal(t, pygent.StatusMaxSteps, result.Status, "one step was made, and there is more to do")
	require.Equal(t, 1, result.ToolCalls)
	require.Len(t, results(agent), 1)
	result, err = agent.Step(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, "it printed 1", result.Message.Text())
	require.EqualValues(t, 7, result.Usage.Total())
}

func TestEventsTellTheRun(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(
		pygenttest.TextAndCalls("Looking.", callBash("echo hi")).WithReasoning("hm"),
		pygenttest.Overloaded(), stop)
	agent := newAgent(t, model)
	var types []pygent.EventType
	var seq int64
	var text string
	for e, err := range agent.Events(t.Context(), "go") {
		require.NoError(t, err)
		require.Greater(t, e.Seq, seq)
		seq = e.Seq
		if e.Type == pygent.EventText {
			text += e.Text
		}
		if len(types) == 0 || types[len(types)-1] != e.Type {
			types = append(types, e.Type)
		}
		_, err = json.Marshal(e)
		require.NoError(t, err)
	}
	require.Equal(t, "Looking.", text)
	require.Equal(t, []pygent.EventType{"user", "step", "model_start", "reasoning", "text", "call_delta", "message", "tool_call", "tool_start", "output", "tool_done",
		"step", "model_start", "retry", "model_start", "call_delta", "message", "tool_call", "tool_start", "tool_done", "run_end"}, types)
}

func TestLeavingEventsEndsTheRun(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(callBash("sleep 600"), pygenttest.Text("hi")))
	for e, err := range agent.Events(t.Context(), "go") {
		require.NoError(t, err)
		if e.Type == pygent.EventToolCall {
			break
		}
	}
	result, err := agent.Step(t.Context(), "still there?")
	require.NoError(t, err)
	require.Equal(t, "hi", result.Message.Text())
}

func TestEventsEndWithTheError(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.QuotaExceeded()))
	var last error
	for _, err := range agent.Events(t.Context(), "go") {
		last = err
	}
	var api *pygent.APIError
	require.ErrorAs(t, last, &api)
	require.Equal(t, 429, api.Status)
}

func TestOnlyPassingErrorsAreRetried(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		reply pygenttest.Reply
		calls int
		ok    bool
	}{
		{"overloaded", pygenttest.Overloaded(), 2, true},
		{"rate limit", pygenttest.RateLimited(time.Second), 2, true},
		{"disconnect", pygenttest.Disconnect(), 2, true},
		{"quota", pygenttest.QuotaExceeded(), 1, false},
		{"bad request", pygenttest.Status(400, "bad", "no"), 1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := pygenttest.NewScriptedModel(tt.reply, stop)
				retries := 0
				_, err := newAgentOn(t, nowhere{}, model).RunUntilStop(t.Context(), "go", pygent.OnEvent(func(e pygent.Event) {
					if e.Type == pygent.EventRetry {
						retries++
					}
				}))
				require.Equal(t, tt.ok, err == nil, err)
				require.Len(t, model.Requests(), tt.calls)
				require.Equal(t, tt.calls-1, retries)
			})
		})
	}
}

func TestRetriesEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := pygenttest.NewScriptedModel(pygenttest.Status(500, "", "broken")).RepeatLast()
		_, err := newAgentOn(t, nowhere{}, model).RunUntilStop(t.Context(), "go")
		require.ErrorContains(t, err, "gave up after 5 attempts")
		require.Len(t, model.Requests(), 5)
	})
}

func TestRetryAfterBeyondTheBudgetFailsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := pygenttest.NewScriptedModel(pygenttest.RateLimited(time.Hour))
		start := time.Now()
		_, err := newAgentOn(t, nowhere{}, model).RunUntilStop(t.Context(), "go", pygent.MaxTime(time.Minute))
		require.ErrorContains(t, err, "a retry is possible in 1h0m0s, at ")
		require.Zero(t, time.Since(start))
	})
}

func TestRequestPrefixIsStable(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, callBash("date"), callBash("ls"), pygenttest.Text("so"), stop)
	model, err := openai.New(openai.BaseURL(server.URL()))
	require.NoError(t, err)
	_, err = newAgent(t, model).RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	requests := server.Requests()
	require.Len(t, requests, 4)
	for i, r := range requests[1:] {
		before := strings.TrimSuffix(string(requests[i].Fields["messages"]), "]")
		require.True(t, strings.HasPrefix(string(r.Fields["messages"]), before), "request %d", i+1)
		require.Equal(t, string(requests[i].Fields["tools"]), string(r.Fields["tools"]))
	}
}

func TestOneRunAtATime(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	model := pygenttest.NewScriptedModel(pygenttest.Text("x").WithGate(gate), stop)
	agent := newAgent(t, model)
	done := make(chan error, 1)
	go func() {
		_, err := agent.RunUntilStop(t.Context(), "go")
		done <- err
	}()
	require.NoError(t, model.WaitRequests(t.Context(), 1))
	_, err := agent.Step(t.Context(), "me too")
	require.ErrorIs(t, err, pygent.ErrAgentBusy)
	close(gate)
	require.NoError(t, <-done)
}

func TestCloseEndsTheRun(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(pygenttest.Text("x").WithGate(nil))
	agent := newAgent(t, model)
	done := make(chan *pygent.Result, 1)
	go func() {
		result, _ := agent.RunUntilStop(t.Context(), "go")
		done <- result
	}()
	require.NoError(t, model.WaitRequests(t.Context(), 1))
	require.NoError(t, agent.Close())
	require.Equal(t, pygent.StatusCancelled, (<-done).Status)
	_, err := agent.Step(t.Context(), "anyone?")
	require.ErrorIs(t, err, pygent.ErrAgentClosed)
	_, err = agent.Runtime().Bash(t.Context(), "true")
	require.ErrorIs(t, err, pygent.ErrRuntimeClosed)
}

func TestSystemMessageFollowsTheTools(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(pygenttest.Text("a")).RepeatLast()
	agent := newAgent(t, model, project.Read(), pygent.WithPersona(pygent.Persona{Name: "Ada", Description: "a mathematician"}))
	system := func() string {
		_, err := agent.Step(t.Context(), "hi")
		require.NoError(t, err)
		require.Equal(t, chat.RoleSystem, agent.History().Messages()[0].Role)
		return agent.History().Messages()[0].Content
	}
	first := system()
	require.Contains(t, first, "Ada")
	require.Contains(t, first, "a mathematician")
	require.Contains(t, first, "with `background`")
	require.Equal(t, "Ada", agent.Persona().Name)

	// A provider caches a conversation by its first bytes.
	require.NoError(t, agent.Tools().Register("weather", "Tell the weather", nil, sayTool("sunny")))
	require.NoError(t, agent.Runtime().WriteFile(t.Context(), "AGENTS.md", []byte("Use tabs.")))
	require.Equal(t, first, system(), "a tool that the prompt does not explain")
	require.True(t, slices.ContainsFunc(model.Requests()[1].Tools, func(s chat.ToolSpec) bool { return s.Name == "weather" }))

	agent.Tools().Disable("job_output")
	require.NotContains(t, system(), "with `background`")
	require.NotContains(t, system(), "Use tabs.")
	agent.RefreshSystemMessage()
	require.Contains(t, system(), "Use tabs.")
}

func TestPromptBuilderReplacesTheSystemMessage(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Text("a")),
		pygent.WithPrompt(func(info pygent.PromptInfo) string { return "I am " + info.Persona.Name }))
	_, err := agent.Step(t.Context(), "hi")
	require.NoError(t, err)
	require.Equal(t, "I am Pygent", agent.History().Messages()[0].Content)
}

func TestImagesFollowTheResults(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(
		pygenttest.Calls(pygenttest.Call("read_image", map[string]any{"path": "x.gif"}), callBash("echo b")), stop))
	require.NoError(t, agent.Runtime().WriteFile(t.Context(), "x.gif", []byte("GIF89a\x01\x00\x01\x00\x00\x00\x00;")))
	_, err := agent.RunUntilStop(t.Context(), "look")
	require.NoError(t, err)
	messages := agent.History().Messages()
	require.Equal(t, chat.RoleTool, messages[3].Role)
	require.Equal(t, chat.RoleTool, messages[4].Role)
	require.True(t, messages[5].HasImages())
	require.Equal(t, chat.RoleUser, messages[5].Role)
	require.True(t, strings.HasPrefix(messages[5].Parts[1].ImageURL, "data:image/gif;base64,"))
}

func TestCallsWithoutProperIDsGetResults(t *testing.T) {
	t.Parallel()
	for _, quirk := range []pygenttest.Quirk{pygenttest.QuirkNoCallIDs, pygenttest.QuirkDuplicateCallIDs} {
		agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Calls(callBash("echo a"), callBash("echo b")).WithQuirks(quirk), stop))
		result, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		require.Equal(t, pygent.StatusStopped, result.Status)
		require.Len(t, results(agent), 3)
	}
}

func TestDefaultModelServesNewAgents(t *testing.T) {
	model := pygenttest.NewScriptedModel(pygenttest.Text("from the default"))
	pygent.SetDefaultModel(model)
	t.Cleanup(func() { pygent.SetDefaultModel(nil) })
	agent := newAgent(t, nil)
	result, err := agent.Step(t.Context(), "hi")
	require.NoError(t, err)
	require.Equal(t, "from the default", result.Message.Text())
}

func TestToolThatEndsItsGoroutineIsAnError(t *testing.T) {
	t.Parallel()
	leaves := pygent.Tool{Name: "leaves", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
		runtime.Goexit()
		return nil, nil
	}}
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Call("leaves", nil), stop), pygent.WithTools(leaves))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Contains(t, results(agent)[0], "ended its goroutine")

	model := pygent.ModelFunc(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		runtime.Goexit()
		return nil, nil
	})
	_, err = newAgent(t, model).RunUntilStop(t.Context(), "go")
	require.ErrorContains(t, err, "ended its goroutine")
}

func TestStacksGoToTheLogAlone(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	opts := []pygent.Option{
		pygent.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), pygent.WithApprovalFor("bash"),
		pygent.WithApproval(func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) { panic("in approval") }),
	}
	agent := newAgent(t, pygenttest.NewScriptedModel(callBash("true"), stop), opts...)
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, "error: denied: the approval could not be asked for: panic: in approval", results(agent)[0])
	require.Contains(t, log.String(), "agent_test.go")

	model := pygent.ModelFunc(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) { panic("in the model") })
	result, err := newAgent(t, model).RunUntilStop(t.Context(), "go")
	require.EqualError(t, err, "ask the model: panic: in the model")
	require.NotContains(t, result.Reason, "goroutine")
}

func TestStuckRunSkipsTheCallsThatFollow(t *testing.T) {
	t.Parallel()
	same := callBash("echo same")
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Calls(same, same, same, same, same, callBash("touch never"))))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStuck, result.Status)
	require.Equal(t, 5, result.ToolCalls)
	require.Contains(t, results(agent)[5], "not run")
}

func TestDeniedCallHasTakenNoEffect(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	agent := newAgent(t, pygenttest.NewScriptedModel(callBash("true")), pygent.WithApprovalFor("bash"),
		pygent.WithApproval(func(ctx context.Context, _ pygent.ApprovalRequest) (pygent.Decision, error) {
			cancel()
			return pygent.Decision{}, ctx.Err()
		}))
	_, err := agent.RunUntilStop(ctx, "go")
	require.ErrorIs(t, err, context.Canceled)
	require.NotContains(t, results(agent)[0], "may have taken effect")
}

func TestPrefixIsTheSameForAllLocalAgents(t *testing.T) {
	t.Parallel()
	first := func() pygent.ChatRequest {
		model := pygenttest.NewScriptedModel(stop)
		agent := newAgent(t, model)
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		info := agent.Runtime().(pygent.Describer).Describe(t.Context())
		require.True(t, info.Temporary)
		require.DirExists(t, info.Workspace)
		require.NotContains(t, model.Requests()[0].Messages[0].Content, info.Workspace)
		return model.Requests()[0]
	}
	one, two := first(), first()
	require.Equal(t, one.Messages[0].Content, two.Messages[0].Content)
	require.Equal(t, one.Tools, two.Tools)
}

// brokenError is an error whose Error method panics for a nil pointer. A
// function that declares *brokenError as its result returns such a pointer when
// it means to return no error.
type brokenError struct{ text string }

func (e *brokenError) Error() string { return e.text }

func TestErrorThatCannotBeReadHarmsNobody(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]error{
		"nil pointer":           (*brokenError)(nil),
		"nil pointer, wrapped":  fmt.Errorf("wrapped: %w", (*pygent.APIError)(nil)),
		"nil pointer of ours":   (*pygent.APIError)(nil),
		"nil pointer of a tool": errors.Join(errors.New("joined"), (*pygent.ToolError)(nil)),
	} {
		t.Run("model/"+name, func(t *testing.T) {
			agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Error(broken)))
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.ErrorContains(t, err, "panic")
			require.Equal(t, pygent.StatusFailed, result.Status)
		})
		t.Run("tool/"+name, func(t *testing.T) {
			tool := pygent.Tool{Name: "fails", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
				return nil, broken
			}}
			agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Call("fails", nil), stop), pygent.WithTools(tool))
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status)
			require.Contains(t, results(agent)[0], "error: panic")

			_, err = agent.Tools().Execute(t.Context(), pygent.ToolCall{Name: "fails"}, agent.Runtime())
			require.ErrorContains(t, err, "panic")
		})
		t.Run("approval/"+name, func(t *testing.T) {
			agent := newAgent(t, pygenttest.NewScriptedModel(callBash("true"), stop),
				pygent.WithApproval(func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) {
					return pygent.Decision{}, broken
				}))
			_, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Contains(t, results(agent)[0], "denied")
		})
	}
}

// A model may return the same response to several agents, for instance from a
// cache.
func TestResponseStaysTheModelsOwn(t *testing.T) {
	t.Parallel()
	call := pygent.ToolCall{ID: "twice", Name: "stop", Arguments: "{}"}
	shared := &pygent.ChatResponse{Message: chat.AssistantMessage("", call, call)}
	model := pygent.ModelFunc(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) { return shared, nil })
	var runs sync.WaitGroup
	for range 4 {
		agent := newAgent(t, model)
		runs.Go(func() {
			_, err := agent.RunUntilStop(t.Context(), "go")
			assert.NoError(t, err)
		})
	}
	runs.Wait()
	require.Equal(t, "twice", shared.Message.ToolCalls[1].ID)
}

// A program that ends after Close leaves nothing behind, also where something
// else has called Close already.
func TestEveryCloseWaitsForTheEnd(t *testing.T) {
	t.Parallel()
	for range 20 {
		rt := &slowCleanup{begun: make(chan struct{}), free: make(chan struct{})}
		asked := make(chan struct{})
		model := pygent.ModelFunc(func(ctx context.Context, _ *pygent.ChatRequest) (*pygent.ChatResponse, error) {
			close(asked)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		agent, err := pygent.New(pygent.WithModel(model), pygent.WithRuntime(rt))
		require.NoError(t, err)
		var all sync.WaitGroup
		all.Go(func() { _, _ = agent.RunUntilStop(t.Context(), "go") })
		<-asked
		for range 4 {
			all.Go(func() {
				assert.NoError(t, agent.Close())
				assert.True(t, rt.clean.Load())
			})
		}
		<-rt.begun
		close(rt.free)
		all.Wait()
	}
}

// slowCleanup is a runtime whose Cleanup waits.
type slowCleanup struct {
	noRuntime
	begun, free chan struct{}
	clean       atomic.Bool
}

func (rt *slowCleanup) Cleanup() error {
	close(rt.begun)
	<-rt.free
	rt.clean.Store(true)
	return nil
}

// warned collects the warnings about files through which git runs programs.
type warned struct {
	mu    sync.Mutex
	texts []string
}

func (w *warned) event(e pygent.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Type == pygent.EventWarning && strings.Contains(e.Text, "files by which git runs programs") {
		w.texts = append(w.texts, e.Text)
	}
}

// take returns what was collected since its last call.
func (w *warned) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	texts := w.texts
	w.texts = nil
	return texts
}

const (
	writeHook = "mkdir -p .git/hooks && echo id > .git/hooks/pre-commit"
	writeConf = "mkdir -p .git && printf '[core]\\n\\tpager = id\\n' > .git/config"
)

// testGitChanges runs an agent in the workspace dir, whose commands change
// files of git.
func testGitChanges(t *testing.T, dir string, rt pygent.Runtime) {
	var w warned
	agent, err := pygent.New(pygent.WithRuntime(rt), pygent.OnEvent(w.event), pygent.WithModel(pygenttest.NewScriptedModel(
		callBash("echo x > a.txt"), stop,
		pygenttest.Calls(callBash(writeHook), callBash(writeConf)), stop,
		callBash("true"), stop)))
	require.NoError(t, err)
	run := func() []string {
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		return w.take()
	}
	require.Empty(t, run(), "no file of git's was changed")
	told := run()
	require.Len(t, told, 1)
	require.Contains(t, told[0], `"`+filepath.Join(dir, ".git/config")+`" is new, "`+filepath.Join(dir, ".git/hooks/pre-commit")+`" is new. Read them`)
	require.Empty(t, run(), "each change is told once")

	_, err = rt.Bash(t.Context(), "echo worse >> .git/hooks/pre-commit")
	require.NoError(t, err)
	require.NoError(t, agent.Close())
	told = w.take()
	require.Len(t, told, 1, "what runs on after a run is told at the end")
	require.Contains(t, told[0], `pre-commit" is changed`)
}

func TestGitChangesAreToldLocally(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rt, err := pygent.NewLocalRuntime(t.Context(), pygent.WithWorkspace(dir))
	require.NoError(t, err)
	testGitChanges(t, dir, rt)
}

func TestGitChangesInAContainerAreTold(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	dir := t.TempDir()
	testGitChanges(t, dir, newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(dir)))
}

func TestGitChangesInAMountAreTold(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	mount := t.TempDir()
	var w warned
	rt := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithMounts(
		pygent.Mount{Source: mount, Target: "/src"}, pygent.Mount{Source: t.TempDir(), Target: "/fixed", ReadOnly: true}))
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(callBash("cd /src && "+writeHook), stop), pygent.OnEvent(w.event))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	told := w.take()
	require.Len(t, told, 1)
	require.Contains(t, told[0], filepath.Join(mount, ".git/hooks/pre-commit"))
}

func TestGitChangesInAWritableDirectoryAreTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rt, err := pygent.NewLocalRuntime(t.Context(), pygent.WithLocalWritable(dir))
	require.NoError(t, err)
	var w warned
	agent, err := pygent.New(pygent.WithRuntime(rt), pygent.OnEvent(w.event), pygent.WithModel(pygenttest.NewScriptedModel(
		callBash("cd '"+dir+"' && "+writeConf), stop)))
	require.NoError(t, err)
	_, err = agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.NoError(t, agent.Close())
	told := w.take()
	require.Len(t, told, 1)
	require.Contains(t, told[0], filepath.Join(dir, ".git/config"))
}

func TestGitOfATemporaryWorkspaceIsNoConcern(t *testing.T) {
	t.Parallel()
	var w warned
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Calls(callBash(writeHook), pygenttest.Call("write_file", map[string]any{"path": ".git/config", "content": "x"})), stop), pygent.OnEvent(w.event))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Empty(t, w.take())
	require.Contains(t, results(agent)[1], "created .git/config")
}

func TestWritesBelowGitNeedApproval(t *testing.T) {
	t.Parallel()
	write := func(path string) pygenttest.Reply {
		return pygenttest.Call("write_file", map[string]any{"path": path, "content": "x"})
	}
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, ".git/hooks"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".git/config"), []byte("[core]\n"), 0o644))
	require.NoError(t, os.Symlink(".git", filepath.Join(dir, "link")))
	calls := pygenttest.Calls(write("a"), write(".git/hooks/pre-commit"), write("link/hooks/pre-commit"), write("sub/.GIT/config"), write(filepath.Join(dir, ".git/config")),
		pygenttest.Call("edit_file", map[string]any{"path": ".git/config", "old_text": "core", "new_text": "alias"}),
		pygenttest.Call("collect_file", map[string]any{"task_id": "t", "path": "a", "dest": ".git/hooks/pre-push"}), write("'.git/hooks/quoted'"), write(`.git\hooks\other`), write("file://"+dir+"/.git/hooks/url"), stop)
	var a asked
	for name, opts := range map[string][]pygent.Option{
		"nobody":                {pygent.WithConfirmBash(false)},
		"who is asked for them": {pygent.WithConfirmBash(false), pygent.WithApproval(a.approve), pygent.WithApprovalFor("download_file")},
	} {
		t.Run(name, func(t *testing.T) {
			rt, err := pygent.NewLocalRuntime(t.Context(), pygent.WithWorkspace(dir))
			require.NoError(t, err)
			agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(calls, stop), opts...)
			_, err = agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			got := results(agent)
			require.Regexp(t, "^(created|replaced) a", got[0])
			if name == "nobody" {
				for _, result := range got[1:10] {
					require.Contains(t, result, "denied: git on the user's machine obeys what is below .git")
				}
				return
			}
			require.Equal(t, []string{"write_file", "write_file", "write_file", "write_file", "edit_file", "collect_file", "write_file", "write_file", "write_file"}, a.names)
		})
	}
}
