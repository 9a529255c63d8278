package pygent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/project"
	"github.com/x/pygent/pygenttest"
)

// broken is a runtime whose container cannot start.
type broken struct {
	nowhere
	reads error // returned by ReadFile
}

var errNoImage = fmt.Errorf("%w: no such image: nope:latest", pygent.ErrRuntimeStart)

func (broken) Bash(context.Context, string, ...pygent.BashOption) (pygent.BashResult, error) {
	return pygent.BashResult{ExitCode: -1}, errNoImage
}

func (b broken) ReadFile(context.Context, string) ([]byte, error) { return nil, b.reads }

func TestRuntimeThatCannotStartFailsTheRun(t *testing.T) {
	t.Parallel()
	reply := pygenttest.Calls(callBash("one"), callBash("two"))
	t.Run("in a tool", func(t *testing.T) {
		model := pygenttest.NewScriptedModel(reply, stop)
		agent := newAgentOn(t, broken{reads: fs.ErrNotExist}, model)
		result, err := agent.RunUntilStop(t.Context(), "go")
		require.ErrorIs(t, err, pygent.ErrRuntimeStart)
		require.Equal(t, pygent.StatusFailed, result.Status)
		require.Contains(t, result.Reason, "no such image: nope:latest")
		require.Equal(t, result.Reason, result.NoCommand)
		require.Len(t, model.Requests(), 1)
		require.Len(t, results(agent), 2)
		require.Contains(t, results(agent)[1], "not run: the runtime cannot start")
	})
	t.Run("in the system message", func(t *testing.T) {
		model := pygenttest.NewScriptedModel(reply)
		result, err := newAgentOn(t, broken{reads: errNoImage}, model, project.Read()).RunUntilStop(t.Context(), "go")
		require.ErrorIs(t, err, pygent.ErrRuntimeStart)
		require.Equal(t, pygent.StatusFailed, result.Status)
		require.Empty(t, model.Requests())
	})
	t.Run("in a resumed call", func(t *testing.T) {
		again := pygent.Tool{Name: "again", Idempotent: true, Run: func(ctx context.Context, rt pygent.Runtime, _ json.RawMessage) (*pygent.ToolResult, error) {
			_, err := rt.Bash(ctx, "true")
			return nil, err
		}}
		history := chat.NewHistory(chat.UserMessage("go"), chat.AssistantMessage("", recordedCall("a", "again", ""), recordedCall("b", "bash", "{}")))
		result, err := newAgentOn(t, broken{reads: fs.ErrNotExist}, pygenttest.NewScriptedModel(), pygent.WithTools(again), pygent.WithHistory(history)).Resume(t.Context())
		require.ErrorIs(t, err, pygent.ErrRuntimeStart)
		require.Equal(t, pygent.StatusFailed, result.Status)
	})
}

func TestReplyIsNudgedOnceAndIsTheSummary(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(
		pygenttest.TextAndCalls("Looking.", callBash("true")),
		pygenttest.Text("The answer is 42."), pygenttest.Text("I told you already!"))
	result, err := newAgent(t, model).RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusReplied, result.Status)
	require.Equal(t, "The answer is 42.", result.Summary)
	require.Equal(t, "I told you already!", result.Message.Text())
	require.Equal(t, 3, result.Steps)
}

func TestSummaryOfAReplyThatWasCutOffIsTheNext(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(pygenttest.Text("The answ").WithFinish(chat.FinishLength), pygenttest.Text("It is 42."))
	result, err := newAgent(t, model).RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, "It is 42.", result.Summary)
}

func TestStopIsRefusedOnceBesideAFailedCall(t *testing.T) {
	t.Parallel()
	missing := pygenttest.Call("download_file", map[string]any{"path": "nope"})
	for name, failing := range map[string]pygenttest.Reply{"an error": missing, "an exit code": callBash("exit 3")} {
		t.Run(name, func(t *testing.T) {
			both := pygenttest.Calls(failing, stop)
			agent := newAgent(t, pygenttest.NewScriptedModel(both, both))
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status)
			require.Equal(t, 2, result.Steps, "the second stop counts")
			require.Regexp(t, "^not stopped: in the same answer (bash|download_file) failed", results(agent)[1])
			require.Equal(t, "stopped", results(agent)[3])
		})
	}
	t.Run("several", func(t *testing.T) {
		agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Calls(missing, callBash("exit 3"), missing, stop), stop))
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		require.Contains(t, results(agent)[3], "in the same answer bash, download_file (2 times) failed. See to it")
	})
	t.Run("a success", func(t *testing.T) {
		result, err := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Calls(callBash("true"), stop))).RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		require.Equal(t, 1, result.Steps)
	})
}

func TestStopIsRefusedOnceWhileJobsRun(t *testing.T) {
	t.Parallel()
	job := pygenttest.Call("bash", map[string]any{"cmd": "sleep 600", "background": true})
	agent := newAgent(t, pygenttest.NewScriptedModel(job, stop, stop))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Equal(t, 3, result.Steps)
	require.Regexp(t, `^not stopped: job \S+ runs: sleep 600\. See to it`, results(agent)[1])
}

func TestStopIsRefusedOnceWhileTasksWork(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(delegate("Hang"), stop, stop).On("Hang", pygenttest.Text("").WithGate(nil))
	agent := newAgent(t, model)
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Equal(t, 3, result.Steps)
	require.Regexp(t, `^not stopped: task \S+ is running\. See to it`, results(agent)[1])
}

func TestARefusedStopIsNotTheEndOfAResumedRun(t *testing.T) {
	t.Parallel()
	record := []pygent.Message{
		chat.UserMessage("go"), chat.AssistantMessage("", recordedCall("a", "stop", "{}")),
		chat.ToolMessage("a", "not stopped: task x is running. See to it, or call stop again to stop all the same"),
	}
	model := pygenttest.NewScriptedModel(stop)
	result, err := newAgent(t, model, pygent.WithHistory(chat.NewHistory(record...))).Resume(t.Context())
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Len(t, model.Requests(), 1)
}

// counting calls bash with a different command each time.
func counting() pygenttest.Reply {
	n := 0
	return pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
		n++
		return callBash(fmt.Sprintf("echo %d", n))
	})
}

func TestModelIsToldOfTheLastStepsAndSumsUp(t *testing.T) {
	t.Parallel()
	next := counting()
	model := pygenttest.NewScriptedModel(next, next, next, next, next, pygenttest.Text("Half of it is done."))
	agent := newAgent(t, model)
	var spoken []string
	result, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(5), pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventMessage {
			spoken = append(spoken, e.Message.Text())
		}
	}))
	require.NoError(t, err)
	require.Equal(t, pygent.StatusMaxSteps, result.Status)
	require.Equal(t, "Half of it is done.", result.Summary)
	require.Equal(t, "Half of it is done.", spoken[5])
	require.Equal(t, 5, result.Steps, "summing up is no step")
	got := results(agent)
	require.NotContains(t, got[0], "possible in this run")
	require.Contains(t, got[1], "[3 more steps are possible in this run")
	require.Contains(t, got[2], "[2 more steps are possible in this run")
	require.Contains(t, got[3], "[One more step is possible in this run")
	require.Contains(t, got[4], "the limit of 5 steps is reached, and no tool is run any more")
	requests := model.Requests()
	require.Len(t, requests, 6)
	require.Equal(t, requests[0].Tools, requests[5].Tools, "providers refuse calls in a conversation without tools")
	for _, m := range requests[5].Messages[2:] {
		require.NotEqual(t, chat.RoleUser, m.Role, "some providers refuse a user after a tool")
	}
}

func TestSummingUp(t *testing.T) {
	t.Parallel()
	usage := pygent.Usage{PromptTokens: 50}
	two := pygenttest.Calls(callBash("echo a"), callBash("echo b"))
	last := pygenttest.Text("So far.")
	tests := []struct {
		name    string
		replies []pygenttest.Reply
		opts    []pygent.RunOption
		status  pygent.Status
		summary string
		asked   int
	}{
		{"at the limit of calls", []pygenttest.Reply{two, two, last}, []pygent.RunOption{pygent.MaxToolCalls(3)}, pygent.StatusMaxToolCalls, "So far.", 3},
		{"by a call of stop", []pygenttest.Reply{two, callBash("c"), stop}, []pygent.RunOption{pygent.MaxSteps(2)}, pygent.StatusMaxSteps, "all done", 3},
		{"with a call that is refused", []pygenttest.Reply{two, callBash("c"), pygenttest.TextAndCalls("Well.", callBash("touch never"))}, []pygent.RunOption{pygent.MaxSteps(2)}, pygent.StatusMaxSteps, "Well.", 3},
		{"not after a reply", []pygenttest.Reply{two, last}, []pygent.RunOption{pygent.MaxSteps(2)}, pygent.StatusMaxSteps, "So far.", 2},
		{"after an empty answer", []pygenttest.Reply{two, pygenttest.Text(""), last}, []pygent.RunOption{pygent.MaxSteps(2)}, pygent.StatusMaxSteps, "So far.", 3},
		{"not in a run of one step", []pygenttest.Reply{two}, []pygent.RunOption{pygent.MaxSteps(1)}, pygent.StatusMaxSteps, "", 1},
		{"not when the tokens are spent", []pygenttest.Reply{two.WithUsage(usage), two.WithUsage(usage)}, []pygent.RunOption{pygent.MaxSteps(2), pygent.MaxTokens(100)}, pygent.StatusMaxSteps, "", 2},
		{"failing changes nothing", []pygenttest.Reply{two, two, pygenttest.Status(400, "bad", "no")}, []pygent.RunOption{pygent.MaxSteps(2)}, pygent.StatusMaxSteps, "", 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			model := pygenttest.NewScriptedModel(tt.replies...)
			agent := newAgent(t, model)
			result, err := agent.RunUntilStop(t.Context(), "go", tt.opts...)
			require.NoError(t, err)
			require.Equal(t, tt.status, result.Status)
			require.Equal(t, tt.summary, result.Summary)
			require.Len(t, model.Requests(), tt.asked)
			_, err = agent.Runtime().ReadFile(t.Context(), "never")
			require.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}

func TestSummingUpKeepsTheTimeLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := pygenttest.NewScriptedModel(pygenttest.Call("download_file", map[string]any{"path": "x"}), pygenttest.Call("write_file", map[string]any{"path": "x", "content": ""}),
			pygenttest.Text("late").WithDelay(time.Hour))
		start := time.Now()
		warned := ""
		result, err := newAgentOn(t, nowhere{}, model).RunUntilStop(t.Context(), "go", pygent.MaxSteps(2), pygent.MaxTime(time.Minute), pygent.OnEvent(func(e pygent.Event) {
			if e.Type == pygent.EventWarning {
				warned = e.Text
			}
		}))
		require.NoError(t, err)
		require.Equal(t, pygent.StatusMaxSteps, result.Status)
		require.Equal(t, time.Minute, time.Since(start))
		require.Contains(t, warned, "the model did not summarise: ")
	})
}

func TestCausesAndContextErrorsAreBothFound(t *testing.T) {
	t.Parallel()
	why := errors.New("the user had enough")
	hang := func() *pygent.Agent {
		return newAgent(t, pygenttest.NewScriptedModel(pygenttest.Text("").WithGate(nil)))
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	_, err := hang().RunUntilStop(ctx, "go")
	require.ErrorIs(t, err, why)
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, "the user had enough")

	ctx, done := context.WithTimeoutCause(t.Context(), time.Millisecond, why)
	defer done()
	result, err := hang().RunUntilStop(ctx, "go")
	require.ErrorIs(t, err, why)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, pygent.StatusTimeout, result.Status)
}

func TestStopThatEndedTheRunIsNoError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	agent := newAgent(t, pygenttest.NewScriptedModel(stop))
	result, err := agent.RunUntilStop(ctx, "go", pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventToolDone {
			cancel()
		}
	}))
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
}

func TestSkippedCallsAreToldAsSuch(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Calls(callBash("true"), stop, callBash("touch never"))))
	var told []string
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.OnEvent(func(e pygent.Event) {
		if strings.HasPrefix(string(e.Type), "tool_") {
			told = append(told, string(e.Type)+" "+e.Call.Name)
		}
	}))
	require.NoError(t, err)
	require.Equal(t, []string{"tool_call bash", "tool_start bash", "tool_done bash", "tool_call stop", "tool_start stop", "tool_done stop", "tool_skipped bash"}, told)
}

func TestNilContextIsRefused(t *testing.T) {
	t.Parallel()
	var none context.Context
	agent := newAgent(t, pygenttest.NewScriptedModel(stop))
	_, err := agent.RunUntilStop(none, "go")
	require.ErrorContains(t, err, "the context is nil")
	_, err = pygent.NewWithContext(none)
	require.ErrorContains(t, err, "the context is nil")
	_, err = agent.Step(none, "go")
	require.ErrorContains(t, err, "the context is nil")
	for _, err = range agent.Events(none, "go") {
		require.ErrorContains(t, err, "the context is nil")
	}
	_, err = agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err, "and the agent is free")

	model, err := openai.New(openai.Key("k"))
	require.NoError(t, err)
	_, err = model.Chat(none, &pygent.ChatRequest{})
	require.ErrorContains(t, err, "the context is nil")
	_, err = pygent.Leftovers(none)
	require.ErrorContains(t, err, "the context is nil")
	require.ErrorContains(t, pygent.Prune(none, []pygent.Leftover{{Kind: "container", Name: "x"}}), "the context is nil")
}

func TestHistoryIsTheRunsWhileItGoesOn(t *testing.T) {
	t.Parallel()
	var agent *pygent.Agent
	var inTool, atEnd error
	tool := pygent.Tool{Name: "append", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
		inTool = agent.History().Append(chat.UserMessage("by the way"))
		return &pygent.ToolResult{Content: "seen by the model"}, nil
	}}
	model := pygenttest.NewScriptedModel(pygenttest.Call("append", nil), stop)
	agent = newAgent(t, model, pygent.WithTools(tool), pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventRunEnd {
			atEnd = agent.History().Append(chat.UserMessage("it ended"))
		}
	}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.NoError(t, atEnd)
	require.ErrorIs(t, inTool, chat.ErrHistoryBusy)
	last := model.Requests()[1].Messages
	require.Equal(t, "seen by the model", last[len(last)-1].Content)
	require.NoError(t, agent.History().Append(chat.UserMessage("now")))

	shared := chat.NewHistory()
	gate := make(chan struct{})
	one := newAgent(t, pygenttest.NewScriptedModel(stop.WithGate(gate)), pygent.WithHistory(shared))
	two := newAgent(t, pygenttest.NewScriptedModel(stop), pygent.WithHistory(shared))
	ended := make(chan error)
	go func() {
		_, err := one.RunUntilStop(t.Context(), "go", pygent.OnEvent(func(e pygent.Event) {
			if e.Type == pygent.EventStep {
				_, err := two.RunUntilStop(t.Context(), "go")
				ended <- err
			}
		}))
		ended <- err
	}()
	require.ErrorIs(t, <-ended, chat.ErrHistoryBusy)
	close(gate)
	require.NoError(t, <-ended)
}

func TestLimitOfARunAroundItIsNotItsOwn(t *testing.T) {
	t.Parallel()
	waits := pygent.ModelFunc(func(ctx context.Context, _ *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	for _, tt := range []struct {
		limit pygent.RunOption
		is    error
		want  pygent.Status
	}{
		{pygent.StepTimeout(time.Second), context.Canceled, pygent.StatusCancelled},
		{pygent.MaxTime(time.Second), context.DeadlineExceeded, pygent.StatusTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			inner := newAgentOn(t, nowhere{}, waits)
			asks := pygent.Tool{Name: "asks", Run: func(ctx context.Context, _ pygent.Runtime, _ json.RawMessage) (*pygent.ToolResult, error) {
				result, err := inner.RunUntilStop(ctx, "go", pygent.StepTimeout(time.Hour), pygent.MaxTime(time.Hour))
				require.ErrorIs(t, err, tt.is)
				require.Equal(t, tt.want, result.Status)
				require.NotContains(t, result.Reason, "1h0m0s")
				return nil, err
			}}
			outer := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("asks", nil)), pygent.WithTools(asks))
			result, err := outer.RunUntilStop(t.Context(), "go", tt.limit)
			require.NoError(t, err)
			require.Equal(t, pygent.StatusTimeout, result.Status)
		})
	}
}

func TestAnswerOfAModelStaysItsOwn(t *testing.T) {
	t.Parallel()
	call := pygent.ToolCall{Name: "noop", Arguments: "{}"} // without an id, as from some servers
	answer := &pygent.ChatResponse{Message: pygent.Message{ToolCalls: []pygent.ToolCall{call}}}
	model := pygent.ModelFunc(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) { return answer, nil })
	noop := pygent.NewTool("noop", "Do nothing.", func(context.Context, pygent.Runtime, struct{}) (string, error) { return "", nil })
	agent := newAgentOn(t, nowhere{}, model, pygent.WithTools(noop))
	for range 2 {
		_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(2))
		require.NoError(t, err)
	}
	require.Empty(t, answer.Message.Role)
	require.Equal(t, []pygent.ToolCall{call}, answer.Message.ToolCalls)
	ids := map[string]bool{}
	for _, m := range agent.History().Messages() {
		if m.Role == chat.RoleAssistant {
			ids[m.ToolCalls[0].ID] = true
		}
	}
	require.Len(t, ids, 6, "of two runs, each of two steps and a summary")
}

func TestStepWithoutAMessageIsAnError(t *testing.T) {
	t.Parallel()
	filtered := pygent.ModelFunc(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		return &pygent.ChatResponse{FinishReason: chat.FinishFilter}, nil
	})
	waits := pygent.ModelFunc(func(ctx context.Context, _ *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	for _, tt := range []struct {
		model pygent.Model
		is    error
		want  string
	}{
		{pygenttest.NewScriptedModel(pygenttest.Text("")), pygent.ErrNoAnswer, "the model gave no answer"},
		{filtered, pygent.ErrNoAnswer, "the model gave no answer: the provider's content filter withheld the answer"},
		{waits, context.DeadlineExceeded, "the step took longer than 1s (StepTimeout): context deadline exceeded"},
	} {
		synctest.Test(t, func(t *testing.T) {
			agent := newAgentOn(t, nowhere{}, tt.model, pygent.StepTimeout(time.Second))
			_, err := agent.Step(t.Context(), "go")
			require.ErrorIs(t, err, tt.is)
			require.EqualError(t, err, tt.want)
		})
	}
}

func TestStopDoesNotWaitLongForTheJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		agent := newAgentOn(t, silentJobs{}, pygenttest.NewScriptedModel(callBash("true"), stop))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		result, err := agent.RunUntilStop(ctx, "go")
		require.NoError(t, err)
		require.Equal(t, pygent.StatusStopped, result.Status)
		require.NoError(t, ctx.Err())
	})
}

// Everything that a model says stays in memory and is part of each later
// request.
func TestConversationsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("plays long conversations")
	}
	t.Parallel()
	model := pygent.ModelFunc(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		return &pygent.ChatResponse{Message: chat.AssistantMessage(strings.Repeat("x", 10<<20))}, nil
	})
	result, err := newAgent(t, model, pygent.WithCompaction(pygent.CompactionPolicy{Disabled: true})).
		RunUntilStop(t.Context(), "go", pygent.MaxSteps(20), pygent.MaxReplies(20))
	require.ErrorContains(t, err, "larger than 64 MiB")
	require.Equal(t, pygent.StatusContextFull, result.Status)
	require.Equal(t, 8, result.Steps)
}

// A call that has not begun when the context of the run ends does not run.
func TestNoCallBeginsAfterTheEndOfItsContext(t *testing.T) {
	t.Parallel()
	for name, readOnly := range map[string]bool{"one after the other": false, "at the same time": true} {
		for _, from := range []pygent.EventType{"", pygent.EventToolCall} {
			t.Run(name+" "+string(from), func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				first := testkit.ActionTool(t, "first", func() string {
					if from == "" {
						cancel()
					}
					return "done"
				})
				late := testkit.ActionTool(t, "late", func() string { t.Error("it began after the end"); return "" })
				late.ReadOnly = readOnly
				agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Calls(pygenttest.Call("first", nil), pygenttest.Call("late", nil), pygenttest.Call("late", nil))),
					pygent.WithTools(first, late))
				result, err := agent.RunUntilStop(ctx, "go", pygent.OnEvent(func(e pygent.Event) {
					if e.Type == from && e.Call.Name == "late" {
						cancel()
					}
					if e.Type == pygent.EventToolStart && e.Call.Name == "late" {
						t.Error("it was started after the end")
					}
				}))
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, pygent.StatusCancelled, result.Status)
				if from == "" {
					require.Equal(t, 1, result.ToolCalls, "the others are not even announced")
				}
			})
		}
	}
}

func TestOneResultValueEachTimeIsFoundStuck(t *testing.T) {
	t.Parallel()
	same := &pygent.ToolResult{Content: "no news"}
	asked := pygent.Tool{Name: "ask", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) { return same, nil }}
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("ask", nil)).RepeatLast(), pygent.WithTools(asked))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStuck, result.Status)
	require.Equal(t, 5, result.Steps)
	require.Equal(t, &pygent.ToolResult{Content: "no news"}, same, "the tool's own value stays as it was")
	require.Contains(t, results(agent)[2], "3 times in a row")
}

func TestAlternatingFailuresAreFoundStuck(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		round []pygenttest.Reply
		want  string
	}{
		"two":   {[]pygenttest.Reply{callBash("exit 3"), pygenttest.Call("download_file", map[string]any{"path": "none"})}, "the last 2 calls failed in the same way"},
		"three": {[]pygenttest.Reply{callBash("exit 3"), callBash("exit 4"), pygenttest.Call("none", nil)}, "the last 3 calls failed in the same way"},
	} {
		t.Run(name, func(t *testing.T) {
			var replies []pygenttest.Reply
			for range 6 {
				replies = append(replies, tt.round...)
			}
			agent := newAgent(t, pygenttest.NewScriptedModel(replies...))
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStuck, result.Status)
			require.Equal(t, tt.want+" 5 times in a row", result.Reason)
			require.Equal(t, 5*len(tt.round), result.ToolCalls)
			got := results(agent)
			require.NotContains(t, got[3*len(tt.round)-2], "try something else")
			require.Contains(t, got[3*len(tt.round)-1], tt.want+" 3 times in a row; try something else")
		})
	}
}

func TestAlternatingCallsThatFindNothingNewAreFoundStuck(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		round []pygenttest.Reply
		steps int
		want  string
	}{
		"two":              {[]pygenttest.Reply{callBash("ls"), callBash("true")}, 20, "the last 2 calls gave the same results 10 times in a row"},
		"one of two fails": {[]pygenttest.Reply{callBash("ls"), callBash("exit 3")}, 20, "the last 2 calls gave the same results 10 times in a row"},
		"with a wait":      {[]pygenttest.Reply{callBash("sleep 0.01"), callBash("true")}, 40, "the last 2 calls gave the same results 20 times in a row"},
		"a poll":           {[]pygenttest.Reply{callBash("echo curl pending")}, 10, "bash gave the same result 10 times in a row"},
		"a wait":           {[]pygenttest.Reply{callBash("sleep 0.01; echo pending")}, 20, "bash gave the same result 20 times in a row"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent := newAgent(t, pygenttest.NewScriptedModel(tt.round...).Loop())
			result, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(100))
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStuck, result.Status)
			require.Equal(t, tt.want, result.Reason)
			require.Equal(t, tt.steps, result.Steps)
		})
	}
}

func TestAlternatingWorkThatGetsSomewhereIsNotStuck(t *testing.T) {
	t.Parallel()
	var replies []pygenttest.Reply
	for range 6 {
		replies = append(replies, callBash("echo x >> log"), callBash("wc -l < log; false"))
	}
	for range 6 { // a wait: nothing changes, but nothing fails either
		replies = append(replies, callBash("true"), callBash("echo not yet"))
	}
	agent := newAgent(t, pygenttest.NewScriptedModel(append(replies, stop)...))
	result, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(100))
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
}

func TestLongOutputThatIsKeptInAFileIsFoundStuck(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(callBash("seq 20000")).RepeatLast())
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Contains(t, results(agent)[0], "the output is in")
	require.Equal(t, pygent.StatusStuck, result.Status)
}

// TestWhatCountsAsTheAnswer has what models say beside their calls and before they stop
// without a word.
func TestWhatCountsAsTheAnswer(t *testing.T) {
	t.Parallel()
	text, bare := pygenttest.Text, pygenttest.Call("stop", nil)
	beside := func(said string) pygenttest.Reply { return pygenttest.TextAndCalls(said, callBash("true")) }
	always, fix, why := []pygent.RunOption(nil), "Fix the test.", "Why does the test fail?"
	answers, replies := []pygent.RunOption{pygent.WithEndOnAnswer()}, []pygent.RunOption{pygent.WithEndOnReply()}
	for name, tt := range map[string]struct {
		opts    []pygent.RunOption
		prompt  string
		replies []pygenttest.Reply
		status  pygent.Status
		summary string
	}{
		"beside a call":                {always, fix, []pygenttest.Reply{beside("I'll look at the file now."), bare}, pygent.StatusStopped, ""},
		"beside a call, for an answer": {answers, fix, []pygenttest.Reply{beside("All tests pass."), bare}, pygent.StatusStopped, ""},
		"beside the stop":              {answers, fix, []pygenttest.Reply{beside("I look."), pygenttest.TextAndCalls("It is fixed.", bare)}, pygent.StatusStopped, "It is fixed."},
		"a step beside the stop":       {answers, fix, []pygenttest.Reply{beside("I look."), pygenttest.TextAndCalls("I'll look again.", bare)}, pygent.StatusStopped, ""},
		"announced before a call":      {always, fix, []pygenttest.Reply{text("I'll do it."), callBash("true"), bare}, pygent.StatusStopped, ""},
		"said before a call":           {always, fix, []pygenttest.Reply{callBash("true"), text("It is fixed."), callBash("true"), bare}, pygent.StatusStopped, "It is fixed."},
		"claimed before the work":      {answers, fix, []pygenttest.Reply{text("It is fixed."), callBash("true"), bare}, pygent.StatusStopped, ""},
		"a question without an answer": {answers, why, []pygenttest.Reply{beside("I look."), bare, pygenttest.Call("stop", map[string]any{"summary": "It is old."})}, pygent.StatusStopped, "It is old."},
		"a question, and no answer":    {answers, why, []pygenttest.Reply{beside("I look."), bare, bare}, pygent.StatusStopped, ""},
		"a question that is answered":  {answers, why, []pygenttest.Reply{beside("I look."), pygenttest.TextAndCalls("It is old.", bare)}, pygent.StatusStopped, "It is old."},
		"a question in a chat":         {replies, why, []pygenttest.Reply{beside("I look."), bare}, pygent.StatusStopped, ""},
		"when a limit is reached":      {append(answers, pygent.MaxSteps(1)), fix, []pygenttest.Reply{beside("I look.")}, pygent.StatusMaxSteps, ""},
		"beside a question":            {answers, fix, []pygenttest.Reply{pygenttest.TextAndCalls("There are two.", pygenttest.Call("continue", map[string]any{"prompt": "Which?"}))}, pygent.StatusAwaitingUser, "There are two."},

		"a chat puts the work off":        {replies, fix, []pygenttest.Reply{text("I'll do it."), callBash("true"), text("It is fixed.")}, pygent.StatusReplied, "It is fixed."},
		"a chat puts the work off, twice": {replies, fix, []pygenttest.Reply{text("I'll do it."), text("I'll do it now.")}, pygent.StatusReplied, "I'll do it."},
		"a chat puts the next step off":   {replies, fix, []pygenttest.Reply{callBash("true"), text("I see it. Let me fix it."), callBash("true"), text("It is fixed.")}, pygent.StatusReplied, "It is fixed."},
		"a chat about words":              {replies, "Remember that I like tabs.", []pygenttest.Reply{text("I'll remember it.")}, pygent.StatusReplied, "I'll remember it."},
		"a chat with a single reply":      {append(replies, pygent.MaxReplies(1)), fix, []pygenttest.Reply{text("I'll do it.")}, pygent.StatusReplied, "I'll do it."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := pygenttest.NewScriptedModel(tt.replies...)
			result, err := newAgentOn(t, hollow{}, model).RunUntilStop(t.Context(), tt.prompt, tt.opts...)
			require.NoError(t, err)
			require.Equal(t, tt.status, result.Status)
			require.Equal(t, tt.summary, result.Summary)
			require.Zero(t, model.Remaining())
		})
	}
}

// pausedRuntime answers nothing before the model is asked until it is resumed.
type pausedRuntime struct {
	pygent.Runtime
	resumed chan struct{}
}

func (r pausedRuntime) ReadFile(ctx context.Context, path string) ([]byte, error) {
	select {
	case <-r.resumed:
		return r.Runtime.ReadFile(ctx, path)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestARuntimeThatDoesNotAnswerIsSaidToHoldTheRunUp(t *testing.T) {
	t.Parallel()
	rt := pausedRuntime{localRuntime(t), make(chan struct{})}
	var told []string
	agent, err := pygent.New(project.Read(), pygent.LendRuntime(rt), pygent.WithModel(pygenttest.NewScriptedModel(stop)),
		pygent.OnEvent(func(e pygent.Event) {
			switch e.Type {
			case pygent.EventNotice:
				told = append(told, e.Text)
				close(rt.resumed)
			case pygent.EventModelStart:
				told = append(told, "the model is asked")
			}
		}))
	require.NoError(t, err)
	defer func() { require.NoError(t, agent.Close()) }()
	_, err = agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, []string{"the workspace does not answer yet; the model is called when it does, or without it", "the model is asked"}, told)
}
