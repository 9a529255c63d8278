package pygent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
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
	require.Equal(t, "error: denied: this tool needs approval, and nobody can give it here", got)
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
