package pygent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/lines"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
)

// echoTool returns its arguments.
func echoTool(adjust ...func(*pygent.Tool)) pygent.Tool {
	type in struct {
		Text string `json:"text"`
	}
	return pygent.NewTool("echo", "", func(_ context.Context, _ pygent.Runtime, in in) (string, error) { return "said " + in.Text, nil }, adjust...)
}

// before makes hooks of a function that decides about calls.
func before(f func(call pygent.ToolCall) (pygent.CallVerdict, error)) pygent.Option {
	return pygent.WithHooks(pygent.Hooks{BeforeCall: func(_ context.Context, _ *pygent.Agent, call pygent.ToolCall) (pygent.CallVerdict, error) {
		return f(call)
	}})
}

// resultOf runs an agent that makes one call of echo, and returns the result as the model sees it.
func resultOf(t *testing.T, opts ...pygent.Option) string {
	t.Helper()
	model := pygenttest.NewScriptedModel(pygenttest.Call("echo", map[string]string{"text": "a"}), pygenttest.Text("done"))
	agent := newAgentOn(t, nowhere{}, model, opts...)
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	for _, m := range agent.History().Messages() {
		if m.Role == chat.RoleTool {
			return m.Text()
		}
	}
	t.Fatal("no result")
	return ""
}

func TestHooksDecideAboutCalls(t *testing.T) {
	t.Parallel()
	verdict := func(v pygent.CallVerdict) pygent.Option {
		return before(func(pygent.ToolCall) (pygent.CallVerdict, error) { return v, nil })
	}
	b := json.RawMessage(`{"text":"b"}`)
	const changed = "said b\n[the rules here changed the arguments of this call; it ran with {\"text\":\"b\"}]"
	for _, tt := range []struct {
		name  string
		hooks []pygent.Option
		want  string
	}{
		{"none", []pygent.Option{pygent.WithHooks(pygent.Hooks{})}, "said a"},
		{"no objection", []pygent.Option{verdict(pygent.CallVerdict{})}, "said a"},
		{"deny", []pygent.Option{verdict(pygent.CallVerdict{Deny: "not on Mondays"})}, "error: denied: not on Mondays"},
		{"deny overrides", []pygent.Option{verdict(pygent.CallVerdict{}), verdict(pygent.CallVerdict{Deny: "no"}), verdict(pygent.CallVerdict{})}, "error: denied: no"},
		{"change", []pygent.Option{verdict(pygent.CallVerdict{Arguments: b})}, changed},
		{"change to the same", []pygent.Option{verdict(pygent.CallVerdict{Arguments: json.RawMessage(`{"text":"a"}`)})}, "said a"},
		{"change to what does not fit", []pygent.Option{verdict(pygent.CallVerdict{Arguments: json.RawMessage(`{"txt":1}`)})},
			"error: denied: the arguments that a hook gave cannot be used: "},
		{"note", []pygent.Option{verdict(pygent.CallVerdict{Note: "one"}), verdict(pygent.CallVerdict{Note: "two"})}, "said a\none\ntwo"},
		{"change and note", []pygent.Option{verdict(pygent.CallVerdict{Arguments: b, Note: "one"})}, changed + "\none"},
		{"the next one sees the change", []pygent.Option{verdict(pygent.CallVerdict{Arguments: b}), before(func(call pygent.ToolCall) (pygent.CallVerdict, error) {
			return pygent.CallVerdict{Deny: call.Arguments}, nil
		})}, `error: denied: {"text":"b"}`},
		{"an error denies", []pygent.Option{before(func(pygent.ToolCall) (pygent.CallVerdict, error) {
			return pygent.CallVerdict{}, errors.New("broken")
		})}, "error: denied: the hook that decides about calls failed: broken"},
		{"a panic denies", []pygent.Option{before(func(pygent.ToolCall) (pygent.CallVerdict, error) { panic("broken") })},
			"error: denied: the hook that decides about calls failed: panic: broken"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := resultOf(t, append(tt.hooks, pygent.WithTools(echoTool()))...)
			require.True(t, strings.HasPrefix(got, tt.want), got)
			if !strings.HasSuffix(tt.want, ": ") {
				require.Equal(t, tt.want, got)
			}
		})
	}
}

// A change comes before the approval, which sees what will run.
func TestHooksComeBeforeApprovalsAndAllowNothing(t *testing.T) {
	t.Parallel()
	change := before(func(pygent.ToolCall) (pygent.CallVerdict, error) {
		return pygent.CallVerdict{Arguments: json.RawMessage(`{"text":"b"}`)}, nil
	})
	var asked string
	got := resultOf(t, change, pygent.WithTools(echoTool()), pygent.WithApproval(func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
		asked = r.Call.Arguments
		return pygent.Decision{Reason: "no"}, nil
	}))
	require.Equal(t, `{"text":"b"}`, asked)
	require.Equal(t, "error: denied: no", got)
	got = resultOf(t, change, pygent.WithTools(echoTool()), pygent.WithApprovalFor("echo"))
	require.Equal(t, "error: denied: this tool needs approval, and nobody is here to approve it", got)
}

func TestHooksChangeNothingIntoABannedCommand(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(pygenttest.Call("bash", map[string]string{"cmd": "ls"}), pygenttest.Text("done"))
	agent := newAgentOn(t, nowhere{}, model, pygent.WithBannedCommands("rm"), before(func(pygent.ToolCall) (pygent.CallVerdict, error) {
		return pygent.CallVerdict{Arguments: json.RawMessage(`{"cmd":"rm a"}`)}, nil
	}))
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.Contains(t, agent.History().Messages()[3].Text(), `the command "rm" is banned here`)
}

func TestHooksHoldForCallsThatRunTogether(t *testing.T) {
	t.Parallel()
	call := func(text string) pygenttest.Reply { return pygenttest.Call("echo", map[string]string{"text": text}) }
	model := pygenttest.NewScriptedModel(pygenttest.Calls(call("a"), call("b"), call("c")), pygenttest.Text("done"))
	readOnly := func(t *pygent.Tool) { t.ReadOnly = true }
	agent := newAgentOn(t, nowhere{}, model, pygent.WithTools(echoTool(readOnly)), before(func(call pygent.ToolCall) (pygent.CallVerdict, error) {
		switch call.Arguments {
		case `{"text":"a"}`:
			return pygent.CallVerdict{Arguments: json.RawMessage(`{"text":"x"}`), Note: "x it is"}, nil
		case `{"text":"b"}`:
			return pygent.CallVerdict{Deny: "not b"}, nil
		}
		return pygent.CallVerdict{}, nil
	}))
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	var results []string
	for _, m := range agent.History().Messages() {
		if m.Role == chat.RoleTool {
			results = append(results, m.Text())
		}
	}
	require.Len(t, results, 3)
	require.True(t, strings.HasPrefix(results[0], "said x\n[the rules here changed"), results[0])
	require.Contains(t, results[0], "\nx it is")
	require.Equal(t, "error: denied: not b", results[1])
	require.True(t, strings.HasPrefix(results[2], "said c"), results[2])
}

func TestHooksHoldForTasks(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(pygenttest.Call("echo", map[string]string{"text": "a"}), pygenttest.Call("stop", map[string]string{"summary": "tried"}))
	rt := localRuntime(t)
	agent := newAgentOn(t, rt, model, pygent.WithTools(echoTool()), before(func(call pygent.ToolCall) (pygent.CallVerdict, error) {
		if call.Name == "echo" {
			return pygent.CallVerdict{Deny: "nowhere"}, nil
		}
		return pygent.CallVerdict{}, nil
	}))
	var got string
	id, err := agent.Tasks().StartTask(t.Context(), "say a", rt)
	require.NoError(t, err)
	status := waitTask(t, agent.Tasks(), id)
	require.Equal(t, pygent.TaskFinished, status.State, status.Reason)
	for e, err := range agent.Tasks().Events(t.Context(), id, 0) {
		require.NoError(t, err)
		if e.Type == pygent.EventToolDone && e.Call.Name == "echo" {
			got = e.Output.Content
			break
		}
	}
	require.Equal(t, "error: denied: nowhere", got)
}

func TestHooksAtTheStartAndTheEnd(t *testing.T) {
	t.Parallel()
	var began, ended []string
	hooks := func(name string) pygent.Option {
		return pygent.WithHooks(pygent.Hooks{
			RunStart: func(ctx context.Context, a *pygent.Agent, message string) (string, error) {
				info, ok := pygent.CallFrom(ctx)
				require.True(t, ok)
				began = append(began, name+" "+message+" "+info.Agent)
				return "note of " + name, nil
			},
			RunEnd: func(_ context.Context, a *pygent.Agent, result *pygent.Result) error {
				ended = append(ended, name+" "+string(result.Status)+" "+a.ID())
				return errors.New("broken " + name)
			},
		})
	}
	var warnings []string
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Text("one"), pygenttest.Text("two")), pygent.WithID("me"), hooks("a"), hooks("b"),
		pygent.OnEvent(func(e pygent.Event) {
			if e.Type == pygent.EventWarning {
				warnings = append(warnings, e.Text)
			}
		}))
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.Equal(t, []string{"a go me", "b go me"}, began)
	require.Equal(t, []string{"a replied me", "b replied me"}, ended)
	require.Equal(t, []string{"hook at the end of the run: broken a", "hook at the end of the run: broken b"}, warnings)
	messages := agent.History().Messages()
	require.Len(t, messages, 4)
	require.Equal(t, "note of a\nnote of b", messages[2].Text())
}

func TestAHookThatFailsAtTheStartEndsTheRun(t *testing.T) {
	t.Parallel()
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(), pygent.WithHooks(pygent.Hooks{
		RunStart: func(context.Context, *pygent.Agent, string) (string, error) { return "", errors.New("closed today") },
	}))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.ErrorContains(t, err, "hook at the start of the run: closed today")
	require.Equal(t, pygent.StatusFailed, result.Status)
}

func TestTheHookAtTheEndIsCalledAfterACancelledRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var status pygent.Status
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Func(func(ctx context.Context, _ *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	})), pygent.WithHooks(pygent.Hooks{
		RunEnd: func(ctx context.Context, _ *pygent.Agent, result *pygent.Result) error {
			status = result.Status
			return ctx.Err()
		},
	}))
	_, err := agent.RunUntilStop(ctx, "go")
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, pygent.StatusCancelled, status)
}

func TestToolsThatRunCommandsNeedApprovalAsBashDoes(t *testing.T) {
	t.Parallel()
	runs := func(t *pygent.Tool) { t.RunsCommands, t.ReadOnly = true, true }
	asked := func(opts ...pygent.Option) bool {
		var asked bool
		got := resultOf(t, append([]pygent.Option{pygent.WithTools(echoTool(runs)), pygent.WithApproval(func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) {
			asked = true
			return pygent.Decision{Allow: true}, nil
		})}, opts...)...)
		require.Equal(t, "said a", got)
		return asked
	}
	require.True(t, asked(), "although it only reads")
	require.True(t, asked(pygent.WithApprovalFor("bash")))
	require.False(t, asked(pygent.WithApprovalFor("write_file")))
	require.True(t, asked(pygent.WithApprovalFor("write_file"), pygent.WithConfirmBash(true)))
	require.False(t, asked(pygent.WithConfirmBash(false)))
}

func TestCheckCommandTellsTheBansOfTheAgent(t *testing.T) {
	t.Parallel()
	var inTool error
	check := pygent.Tool{Name: "echo", Run: func(ctx context.Context, _ pygent.Runtime, _ json.RawMessage) (*pygent.ToolResult, error) {
		inTool = pygent.CheckCommand(ctx, "x; sudo rm a")
		return nil, nil
	}, Unchecked: true}
	resultOf(t, pygent.WithTools(check), pygent.WithBannedCommands("rm"))
	require.ErrorContains(t, inTool, `"rm" is banned here`)
	require.NoError(t, pygent.CheckCommand(t.Context(), "rm a"), "outside of a call there is no agent")
}

// noted is model middleware that notes its calls under a name.
func noted(name string, notes *[]string) func(pygent.Model) pygent.Model {
	return func(next pygent.Model) pygent.Model {
		return pygent.StreamFunc(func(ctx context.Context, req *pygent.ChatRequest, emit func(pygent.Delta)) (*pygent.ChatResponse, error) {
			*notes = append(*notes, name)
			return pygent.Stream(ctx, next, req, emit)
		})
	}
}

// orElse is model middleware that asks another model when one fails.
func orElse(other pygent.Model) func(pygent.Model) pygent.Model {
	return func(next pygent.Model) pygent.Model {
		return pygent.StreamFunc(func(ctx context.Context, req *pygent.ChatRequest, emit func(pygent.Delta)) (*pygent.ChatResponse, error) {
			resp, err := pygent.Stream(ctx, next, req, emit)
			if err == nil || ctx.Err() != nil {
				return resp, err
			}
			emit(pygent.Delta{Withdrawn: true, Notice: "another model answers: " + err.Error()})
			return pygent.Stream(ctx, other, req, emit)
		})
	}
}

func TestModelMiddlewareStreamsThroughAllLayers(t *testing.T) {
	t.Parallel()
	var notes, streamed []string
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Text("one two three")),
		pygent.WithModelMiddleware(noted("a", &notes), nil, noted("b", &notes)), pygent.WithModelMiddleware(noted("c", &notes)))
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply(), pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventText {
			streamed = append(streamed, e.Text)
		}
	}))
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c"}, notes)
	require.Equal(t, "one two three", strings.Join(streamed, ""))
}

func TestStreamFuncsWorkWithoutAListener(t *testing.T) {
	t.Parallel()
	f := pygent.StreamFunc(func(_ context.Context, _ *pygent.ChatRequest, emit func(pygent.Delta)) (*pygent.ChatResponse, error) {
		emit(pygent.Delta{Text: "a"})
		return &pygent.ChatResponse{Message: chat.AssistantMessage("a")}, nil
	})
	for name, ask := range map[string]func() (*pygent.ChatResponse, error){
		"Chat":       func() (*pygent.ChatResponse, error) { return f.Chat(t.Context(), &pygent.ChatRequest{}) },
		"a nil emit": func() (*pygent.ChatResponse, error) { return f.ChatStream(t.Context(), &pygent.ChatRequest{}, nil) },
		"Stream":     func() (*pygent.ChatResponse, error) { return pygent.Stream(t.Context(), f, &pygent.ChatRequest{}, nil) },
		"no streaming": func() (*pygent.ChatResponse, error) {
			return pygent.Stream(t.Context(), pygent.ModelFunc(f.Chat), &pygent.ChatRequest{}, func(pygent.Delta) { t.Error("emitted") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := ask()
			require.NoError(t, err)
			require.Equal(t, "a", resp.Message.Text())
		})
	}
}

func TestAFallbackTakesBackWhatWasStreamed(t *testing.T) {
	t.Parallel()
	broken := pygenttest.NewScriptedModel(pygenttest.Text("Half an answer").FailAfter(1, "server_error", "out of memory"))
	other := pygenttest.NewScriptedModel(pygenttest.TextAndCalls("Whole.", stop))
	var events []pygent.Event
	var shown strings.Builder
	show := lines.EventPrinter(&shown)
	agent := newAgentOn(t, nowhere{}, broken, pygent.WithModelMiddleware(orElse(other)))
	result, err := agent.RunUntilStop(t.Context(), "go", pygent.OnEvent(func(e pygent.Event) {
		events = append(events, e)
		show(e)
	}))
	require.NoError(t, err)
	require.Equal(t, "Whole.", result.Message.Text())
	require.Len(t, broken.Requests(), 1, "the agent does not repeat what the fallback answered")

	var text string // as a face shows it
	for _, e := range events {
		switch e.Type {
		case pygent.EventText:
			text += e.Text
		case pygent.EventRetry:
			require.NotEmpty(t, text)
			require.Contains(t, e.Retry.Error, "another model answers: ")
			require.Zero(t, e.Retry.Attempt)
			text = ""
		}
	}
	require.Equal(t, "Whole.", text)
	require.Contains(t, shown.String(), "out of memory\n! what was written so far is withdrawn\nWhole.\n")
	require.NotContains(t, shown.String(), "retrying in")
}

func TestRetriesGoThroughTheMiddleware(t *testing.T) {
	t.Parallel()
	var notes []string
	model := pygenttest.NewScriptedModel(pygenttest.Overloaded(), pygenttest.Overloaded(), stop)
	agent := newAgentOn(t, nowhere{}, model, pygent.WithModelMiddleware(noted("a", &notes)))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "a", "a"}, notes)
}

func TestBadMiddlewareIsAnErrorOfNew(t *testing.T) {
	t.Parallel()
	for want, opt := range map[string]pygent.Option{
		"option WithModelMiddleware: it returned no model":  pygent.WithModelMiddleware(func(pygent.Model) pygent.Model { return nil }),
		"option WithModelMiddleware: panic: no":             pygent.WithModelMiddleware(func(pygent.Model) pygent.Model { panic("no") }),
		"option WithToolMiddleware: it returned no handler": pygent.WithToolMiddleware(func(pygent.ToolHandler) pygent.ToolHandler { return nil }),
		"option WithToolMiddleware: panic: no":              pygent.WithToolMiddleware(func(pygent.ToolHandler) pygent.ToolHandler { panic("no") }),
	} {
		_, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithRuntime(nowhere{}), opt)
		require.EqualError(t, err, want)
	}
}

// around makes tool middleware from a function that replaces its handler.
func around(f func(ctx context.Context, rt pygent.Runtime, call pygent.ToolCall, next pygent.ToolHandler) (*pygent.ToolResult, error)) pygent.Option {
	return pygent.WithToolMiddleware(func(next pygent.ToolHandler) pygent.ToolHandler {
		return func(ctx context.Context, rt pygent.Runtime, call pygent.ToolCall) (*pygent.ToolResult, error) {
			return f(ctx, rt, call, next)
		}
	})
}

func TestToolMiddleware(t *testing.T) {
	t.Parallel()
	echo := pygent.Tool{
		Name:       "echo",
		Parameters: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
		Run: func(_ context.Context, _ pygent.Runtime, args json.RawMessage) (*pygent.ToolResult, error) {
			return &pygent.ToolResult{Content: string(args)}, nil
		},
	}
	type handler = func(context.Context, pygent.Runtime, pygent.ToolCall, pygent.ToolHandler) (*pygent.ToolResult, error)
	for name, tt := range map[string]struct {
		handle handler
		want   string
	}{
		"passes on": {func(ctx context.Context, rt pygent.Runtime, call pygent.ToolCall, next pygent.ToolHandler) (*pygent.ToolResult, error) {
			return next(ctx, rt, call)
		}, `{"text":"a"}`},
		"adds a note": {func(ctx context.Context, rt pygent.Runtime, call pygent.ToolCall, next pygent.ToolHandler) (*pygent.ToolResult, error) {
			result, err := next(ctx, rt, call)
			result.Content += " (noted)"
			return result, err
		}, `{"text":"a"} (noted)`},
		"denies": {func(context.Context, pygent.Runtime, pygent.ToolCall, pygent.ToolHandler) (*pygent.ToolResult, error) {
			return nil, errors.New("not today")
		}, "error: not today"},
		"answers with nothing": {func(context.Context, pygent.Runtime, pygent.ToolCall, pygent.ToolHandler) (*pygent.ToolResult, error) {
			return nil, nil
		}, ""},
		"panics": {func(context.Context, pygent.Runtime, pygent.ToolCall, pygent.ToolHandler) (*pygent.ToolResult, error) {
			panic("oops")
		}, "error: panic: oops"},
		"changes the arguments": {func(ctx context.Context, rt pygent.Runtime, call pygent.ToolCall, next pygent.ToolHandler) (*pygent.ToolResult, error) {
			call.Arguments = `{"text":"b"}`
			return next(ctx, rt, call)
		}, "error: tool middleware: only the call that was approved can run, with its arguments"},
		"changes the tool": {func(ctx context.Context, rt pygent.Runtime, call pygent.ToolCall, next pygent.ToolHandler) (*pygent.ToolResult, error) {
			call.Name = "bash"
			return next(ctx, rt, call)
		}, "error: tool middleware: only the call that was approved can run, with its arguments"},
		"loses the context": {func(_ context.Context, rt pygent.Runtime, call pygent.ToolCall, next pygent.ToolHandler) (*pygent.ToolResult, error) {
			return next(context.Background(), rt, call)
		}, "error: tool middleware: the context is not that of the call"},
		"loses the runtime": {func(ctx context.Context, _ pygent.Runtime, call pygent.ToolCall, next pygent.ToolHandler) (*pygent.ToolResult, error) {
			return next(ctx, nil, call)
		}, "error: tool middleware: the runtime is nil"},
	} {
		t.Run(name, func(t *testing.T) {
			agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("echo", map[string]any{"text": "a"}), stop),
				pygent.WithTools(echo), around(func(ctx context.Context, rt pygent.Runtime, call pygent.ToolCall, next pygent.ToolHandler) (*pygent.ToolResult, error) {
					if call.Name != "echo" {
						return next(ctx, rt, call)
					}
					require.Equal(t, `{"text":"a"}`, call.Arguments)
					require.NotEmpty(t, call.ID)
					return tt.handle(ctx, rt, call, next)
				}))
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status)
			require.Equal(t, tt.want, results(agent)[0])
		})
	}
}

func TestToolMiddlewareSeesOnlyCallsThatMayRun(t *testing.T) {
	t.Parallel()
	var seen []string
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(
		pygenttest.Calls(pygenttest.Call("nope", nil), pygenttest.Call("bash", map[string]any{"no": 1}), callBash("denied")), stop),
		pygent.WithApprovalFor("bash"),
		around(func(ctx context.Context, rt pygent.Runtime, call pygent.ToolCall, next pygent.ToolHandler) (*pygent.ToolResult, error) {
			seen = append(seen, call.Name)
			return next(ctx, rt, call)
		}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, []string{"stop"}, seen)
}

func TestTasksInheritTheMiddleware(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked, ran int
	count := func(n *int) {
		mu.Lock()
		defer mu.Unlock()
		*n++
	}
	model := pygenttest.NewScriptedModel(delegate("sub"), stop, stop).On("sub", callBash("echo a"), stop)
	agent := newAgent(t, model,
		pygent.WithModelMiddleware(func(next pygent.Model) pygent.Model {
			return pygent.ModelFunc(func(ctx context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
				count(&asked)
				return next.Chat(ctx, req)
			})
		}),
		around(func(ctx context.Context, rt pygent.Runtime, call pygent.ToolCall, next pygent.ToolHandler) (*pygent.ToolResult, error) {
			if call.Name == "bash" {
				count(&ran)
			}
			return next(ctx, rt, call)
		}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	tasks, err := agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	require.Len(t, tasks, 1)
	waitTask(t, agent.Tasks(), tasks[0].ID)
	require.Equal(t, len(model.Requests()), asked)
	require.Equal(t, 1, ran)
}

func TestSetModelTakesEffectAtTheNextCall(t *testing.T) {
	t.Parallel()
	first := pygenttest.NewScriptedModel(pygenttest.Call("switch", nil))
	second := pygenttest.NewScriptedModel(pygenttest.Text("from the second"), stop)
	var agent *pygent.Agent
	var notes []string
	change := pygent.Tool{Name: "switch", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
		return nil, agent.SetModel(second, "second")
	}}
	agent = newAgentOn(t, nowhere{}, first, pygent.WithTools(change), pygent.WithModelMiddleware(noted("a", &notes)))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Len(t, first.Requests(), 1)
	require.Equal(t, "second", second.Requests()[0].Model)
	require.Equal(t, []string{"a", "a", "a"}, notes, "the middleware wraps the new model, too")

	second.Add(pygenttest.Text("again"))
	require.NoError(t, agent.SetModel(nil, "third"))
	_, err = agent.Step(t.Context(), "and on")
	require.NoError(t, err)
	require.Equal(t, "third", second.Requests()[2].Model, "a nil model keeps the model")
}

func TestSetModelBetweenAttempts(t *testing.T) {
	t.Parallel()
	var agent *pygent.Agent
	healthy := pygenttest.NewScriptedModel(stop)
	agent = newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Overloaded(), pygenttest.Overloaded()),
		pygent.OnEvent(func(e pygent.Event) {
			if e.Type == pygent.EventRetry {
				require.NoError(t, agent.SetModel(healthy, "h"))
			}
		}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, "h", healthy.Requests()[0].Model)
}

func TestSetModelIsSafeWhileTheAgentRuns(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(callBash("true")).RepeatLast()
	agent := newAgentOn(t, nowhere{}, model)
	var others sync.WaitGroup
	for range 3 {
		others.Go(func() {
			for range 50 {
				require.NoError(t, agent.SetModel(model, "m"))
			}
		})
	}
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(4))
	others.Wait()
	require.NoError(t, err)
	require.NoError(t, agent.Close())
	require.ErrorIs(t, agent.SetModel(model, "m"), pygent.ErrAgentClosed)
}

// wrapped is a runtime around another one that shows its abilities.
type wrapped struct {
	pygent.Runtime
	shows func() pygent.Runtime
}

func (w wrapped) Unwrap() pygent.Runtime { return w.shows() }

func TestRuntimeAs(t *testing.T) {
	t.Parallel()
	rt := localRuntime(t)
	all := func() pygent.Runtime { return rt }
	someOnly := func() pygent.Runtime {
		return struct {
			pygent.Runtime
			pygent.Describer
		}{rt, rt.(pygent.Describer)}
	}
	for name, tt := range map[string]struct {
		rt               pygent.Runtime
		jobs, describing bool
	}{
		"itself":         {rt, true, true},
		"wrapped twice":  {wrapped{rt, func() pygent.Runtime { return wrapped{rt, all} }}, true, true},
		"hidden":         {wrapped{rt, func() pygent.Runtime { return nil }}, false, false},
		"no Unwrap":      {struct{ pygent.Runtime }{rt}, false, false},
		"some of it":     {wrapped{rt, someOnly}, false, true},
		"no runtime":     {nil, false, false},
		"without either": {nowhere{}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, jobs := pygent.RuntimeAs[pygent.JobRunner](tt.rt)
			_, describing := pygent.RuntimeAs[pygent.Describer](tt.rt)
			require.Equal(t, tt.jobs, jobs)
			require.Equal(t, tt.describing, describing)
		})
	}
}

func TestAWrappedRuntimeKeepsItsAbilities(t *testing.T) {
	t.Parallel()
	rt := localRuntime(t)
	outer := wrapped{rt, func() pygent.Runtime { return rt }}
	model := pygenttest.NewScriptedModel(
		pygenttest.Call("bash", map[string]any{"cmd": "echo from a job", "background": true}),
		delegate("sub", "in.txt"), stop, stop).On("sub", callBash("cat in.txt"), stop)
	require.NoError(t, rt.WriteFile(t.Context(), "in.txt", []byte("for the task\n")))
	agent := newAgentOn(t, outer, model)
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Contains(t, results(agent)[0], "job")
	tasks, err := agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	require.Len(t, tasks, 1, results(agent))
	require.Equal(t, pygent.TaskFinished, waitTask(t, agent.Tasks(), tasks[0].ID).State)
	history, err := agent.Tasks().TaskHistory(t.Context(), tasks[0].ID)
	require.NoError(t, err)
	require.Contains(t, history[3].Content, "for the task", "the task has a runtime of the wrapped kind")
}

func TestALentRuntimeOutlivesItsAgents(t *testing.T) {
	t.Parallel()
	rt := localRuntime(t)
	lent := func(reply pygenttest.Reply) *pygent.Agent {
		agent, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel(reply, stop)), pygent.LendRuntime(rt))
		require.NoError(t, err)
		return agent
	}
	first, second := lent(callBash("echo one > f")), lent(callBash("cat f"))
	_, err := first.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.NoError(t, first.Close())
	_, err = second.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Contains(t, results(second)[0], "one")
	require.NoError(t, second.Close())
	_, err = rt.Bash(t.Context(), "true")
	require.NoError(t, err)

	_, err = pygent.New(pygent.WithModel(pygenttest.NewScriptedModel()), pygent.LendRuntime(rt), pygent.WithImage("i"))
	require.ErrorContains(t, err, "options LendRuntime and WithImage")
}

func TestATaskLeavesALentRuntime(t *testing.T) {
	t.Parallel()
	rt := localRuntime(t)
	m := newTasks(t, pygenttest.NewScriptedModel(callBash("echo one > f"), stop), pygent.TaskAgents(pygent.LendRuntime(rt)))
	id := startTask(t, m, "go", nil)
	require.Equal(t, pygent.TaskFinished, waitTask(t, m, id).State)
	require.NoError(t, m.Remove(t.Context(), id))
	data, err := rt.ReadFile(t.Context(), "f")
	require.NoError(t, err)
	require.Equal(t, "one\n", string(data))
}

func TestAModelRefusesANilRequest(t *testing.T) {
	t.Parallel()
	m := testkit.NewModel(t, openai.BaseURL("http://127.0.0.1:1/v1"))
	_, err := m.Chat(t.Context(), nil)
	require.EqualError(t, err, "model request: it is nil")
	_, err = m.ChatStream(t.Context(), nil, func(pygent.Delta) {})
	require.EqualError(t, err, "model request: it is nil")
}

func TestModelStartNamesTheModelThatIsAsked(t *testing.T) {
	t.Parallel()
	var agent *pygent.Agent
	var asked []string
	model := pygenttest.NewScriptedModel(pygenttest.Overloaded(), stop)
	agent = newAgentOn(t, nowhere{}, model, pygent.WithModelName("one"), pygent.OnEvent(func(e pygent.Event) {
		switch e.Type {
		case pygent.EventModelStart:
			asked = append(asked, e.Model)
		case pygent.EventRetry:
			require.NoError(t, agent.SetModel(nil, "two"))
		}
	}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, []string{"one", "two"}, asked)
	require.Equal(t, "two", model.Requests()[1].Model)
}

// TestAHistoryMovesBetweenProviders switches the model of a conversation from
// server to server. Each refuses what the real one refuses.
func TestAHistoryMovesBetweenProviders(t *testing.T) {
	t.Parallel()
	type place struct {
		provider pygenttest.Provider
		api      openai.Protocol
	}
	places := []place{
		{"", openai.Responses}, {pygenttest.Mistral, openai.Chat}, {pygenttest.Gemini, openai.Chat},
		{"", openai.Chat}, {pygenttest.Ollama, openai.Chat}, {"", openai.Responses},
		{pygenttest.Gemini, openai.Chat}, {pygenttest.Mistral, openai.Chat}, {"", openai.Responses},
	}
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel())
	for i, p := range places {
		call := pygenttest.TextAndCalls("Let me look.", callBash(fmt.Sprint("ls ", i))).WithReasoning("Hm.")
		s := pygenttest.NewServer(t, call, pygenttest.Text("Done.").WithReasoning("Aha.")).Strict(p.provider)
		m := testkit.NewModel(t, openai.BaseURL(s.URL()), openai.API(p.api))
		require.NoError(t, agent.SetModel(m, fmt.Sprint("model-", i%2)))
		_, err := agent.RunUntilStop(t.Context(), "Go on.", pygent.WithEndOnReply())
		require.NoError(t, err, "place %d: %+v", i, p)
		require.Zero(t, s.Remaining())
	}
}

func TestASessionShowsWithdrawnTextOnce(t *testing.T) {
	t.Parallel()
	broken := pygenttest.NewScriptedModel(pygenttest.Text("Half an answer").FailAfter(1, "server_error", "out of memory"))
	var out strings.Builder
	agent := newAgentOn(t, nowhere{}, broken, pygent.WithIO(strings.NewReader("hello\n"), &out),
		pygent.WithModelMiddleware(orElse(pygenttest.NewScriptedModel(pygenttest.Text("Whole.")))))
	require.NoError(t, agent.RunInteractive(t.Context()))
	require.Contains(t, out.String(), "what was written so far is withdrawn\nWhole.\n")
	require.Equal(t, 1, strings.Count(out.String(), "Whole."))
}

func TestTasksUseTheModelThatWasSet(t *testing.T) {
	t.Parallel()
	second := pygenttest.NewScriptedModel(delegate("sub"), stop, stop).On("sub", stop)
	agent := newAgent(t, pygenttest.NewScriptedModel())
	require.NoError(t, agent.SetModel(second, "second"))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	tasks, err := agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	require.Equal(t, pygent.TaskFinished, waitTask(t, agent.Tasks(), tasks[0].ID).State)
	for _, req := range second.Requests() {
		require.Equal(t, "second", req.Model)
	}
}

// wrapsItself is a runtime whose Unwrap never comes to an end.
type wrapsItself struct{ noRuntime }

func (w *wrapsItself) Unwrap() pygent.Runtime { return w }

func TestARuntimeThatWrapsItselfEndsTheSearch(t *testing.T) {
	t.Parallel()
	_, ok := pygent.RuntimeAs[pygent.JobRunner](&wrapsItself{})
	require.False(t, ok)
	agent := quick(t, pygenttest.NewScriptedModel(stop), pygent.WithRuntime(&wrapsItself{}))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
}
