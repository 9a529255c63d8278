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
	"runtime"
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
		}, pygent.StatusFailed, "call the model: no luck"},
		{"context", func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) {
			return nil, &pygent.APIError{Status: 400, ContextTooLarge: true}
		}, pygent.StatusContextFull, "(400)"},
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
	require.Equal(t, "error: denied: asking for approval failed: panic: in approval", results(agent)[0])
	require.Contains(t, log.String(), "agent_test.go")

	model := pygent.ModelFunc(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) { panic("in the model") })
	result, err := newAgent(t, model).RunUntilStop(t.Context(), "go")
	require.EqualError(t, err, "call the model: panic: in the model")
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

func TestCloseWithinIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	var agent *pygent.Agent
	var refused []error
	closes := pygent.Tool{Name: "closes", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
		refused = append(refused, agent.Close())
		return nil, nil
	}}
	ask := func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) {
		refused = append(refused, agent.Close())
		return pygent.Decision{Allow: true}, nil
	}
	agent = newAgent(t, pygenttest.NewScriptedModel(pygenttest.Call("closes", nil), stop), pygent.WithTools(closes),
		pygent.WithApproval(ask), pygent.WithApprovalFor("closes"),
		pygent.OnEvent(func(e pygent.Event) {
			if e.Type == pygent.EventToolDone {
				refused = append(refused, agent.Close())
			}
		}))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Len(t, refused, 4)
	for _, err := range refused {
		require.ErrorIs(t, err, pygent.ErrInCallback)
	}
}

// endless is a runtime whose Cleanup blocks until free is closed.
type endless struct {
	nowhere
	free chan struct{}
}

func (e endless) Cleanup() error {
	<-e.free
	return nil
}

// cleaning is a runtime whose Cleanup reports that it began, and then blocks.
type cleaning struct {
	nowhere
	begun, goOn chan struct{}
}

func (c cleaning) Cleanup() error {
	close(c.begun)
	<-c.goOn
	return nil
}

func TestAgentThatIsBeingClosedIsNotBusy(t *testing.T) {
	t.Parallel()
	rt := cleaning{begun: make(chan struct{}), goOn: make(chan struct{})}
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel())
	closed := make(chan error)
	go func() { closed <- agent.Close() }()
	<-rt.begun
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.ErrorIs(t, err, pygent.ErrAgentClosed)
	close(rt.goOn)
	require.NoError(t, <-closed)
}

func TestCloseNamesWhatItLeavesBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		deaf := pygent.ModelFunc(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) {
			<-free
			return nil, errors.New("late")
		})
		agent, err := pygent.New(pygent.WithModel(deaf), pygent.WithRuntime(endless{free: free}),
			pygent.OnEvent(func(e pygent.Event) {
				if e.Type == pygent.EventRunEnd {
					<-free
				}
			}))
		require.NoError(t, err)
		ended := make(chan error)
		go func() {
			_, err := agent.RunUntilStop(t.Context(), "go")
			ended <- err
		}()
		synctest.Wait()
		start := time.Now()
		closed := make(chan error)
		go func() { closed <- agent.Close() }()
		require.ErrorIs(t, <-ended, pygent.ErrAgentClosed)
		err = <-closed
		require.ErrorIs(t, err, pygent.ErrLeftBehind)
		require.ErrorContains(t, err, "an event handler, the model, the runtime's Cleanup")
		require.Less(t, time.Since(start), 2*time.Minute)
		require.NoError(t, agent.Close())
		close(free)
		synctest.Wait()
	})
}

func TestPanickingCleanupIsAnError(t *testing.T) {
	t.Parallel()
	agent, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithRuntime(panicsAtCleanup{}))
	require.NoError(t, err)
	require.ErrorContains(t, agent.Close(), "panic: oops")
}

type panicsAtCleanup struct{ nowhere }

func (panicsAtCleanup) Cleanup() error { panic("oops") }
