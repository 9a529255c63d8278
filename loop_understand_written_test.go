package pygent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

const writtenEcho = "I say hello.\n\n<tool_call>\n<function=bash>\n<parameter=cmd>\necho hello\n</parameter>\n<parameter=timeout>\n5\n</parameter>\n</function>\n</tool_call>"

// noticesOf makes a run and returns the texts of its notices.
func noticesOf(t *testing.T, agent *pygent.Agent, opts ...pygent.RunOption) (notices []string, result *pygent.Result) {
	for _, e := range eventsOf(t, agent, "go", opts...) {
		if e.Type == pygent.EventNotice {
			notices = append(notices, e.Text)
		}
		result = e.Result
	}
	return notices, result
}

func TestACallWrittenAsTextRunsAsACall(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, pygenttest.Text(writtenEcho), callBash("echo again").WithQuirks(pygenttest.QuirkCallsAsText), stop)
	model, err := pygent.NewOpenAIModel(pygent.OpenAIBaseURL(server.URL()))
	require.NoError(t, err)
	agent := newAgent(t, model)
	notices, result := noticesOf(t, agent)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Len(t, notices, 1, "it is told once in a run")
	require.Contains(t, notices[0], "printed a call of bash as text, which is taken as a call")
	got := results(agent)
	require.Contains(t, got[0], "hello\n")
	require.Contains(t, got[1], "again\n")
	said := agent.History().Messages()[2]
	require.Equal(t, "I say hello.", said.Content)
	require.Equal(t, "bash", said.ToolCalls[0].Name)
	require.NotEmpty(t, said.ToolCalls[0].ID)
	require.Equal(t, said.ToolCalls[0].ID, agent.History().Messages()[3].ToolCallID)
}

func TestAWrittenCallIsAskedAboutAsAnyOther(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Text(writtenEcho), stop), pygent.WithApprovalFor("bash"),
		pygent.WithApproval(func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
			require.Equal(t, `{"cmd":"echo hello","timeout":5}`, r.Call.Arguments)
			return pygent.Decision{Reason: "not now"}, nil
		}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, "error: denied: not now", results(agent)[0])
}

func TestAWrittenCallThatMayBeAQuotationDoesNotRun(t *testing.T) {
	t.Parallel()
	reads := pygent.Tool{Name: "reads", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
		return &pygent.ToolResult{Content: "README: " + strings.TrimPrefix(writtenEcho, "I say hello.")}, nil
	}}
	for name, text := range map[string]string{
		"read before":      writtenEcho,
		"text after it":    strings.ReplaceAll(writtenEcho, "hello", "x") + "\nSo it goes.",
		"wrong arguments":  "<function=bash>\n<parameter=what>x</parameter>\n</function>",
		"cut off":          "<function=bash>\n<parameter=cmd>x",
		"a list in JSON":   `[{"name":"bash","arguments":{"cmd":"x"}},{"name":"bash","arguments":{"cmd":"y"}}]`,
		"among other text": "One calls " + `{"name":"bash","arguments":{"cmd":"x"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("reads", nil), pygenttest.Text(text), stop), pygent.WithTools(reads))
			notices, _ := noticesOf(t, agent)
			require.Len(t, results(agent), 2, "reads, and stop")
			require.Len(t, notices, 1)
			require.Contains(t, notices[0], "printed a tool call as text instead of calling it")
			nudge := agent.History().Messages()[5]
			require.Equal(t, "Your last answer has a call of bash as text, which was not run. Call the tool itself, with nothing about it in the text.", nudge.Text())
		})
	}
}

func TestAWrittenCallThatAFileHasDoesNotRun(t *testing.T) {
	t.Parallel()
	rt := newTestRuntime(t, pygent.NewLocalRuntime)
	require.NoError(t, rt.WriteFile(t.Context(), "README.md", []byte("# Notes\n\n"+writtenEcho+"\n")))
	_, call, _ := strings.Cut(writtenEcho, "\n\n")
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(
		pygenttest.Call("download_file", map[string]any{"path": "README.md"}), pygenttest.Text("As it says:.\n\n"+call), stop))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Len(t, results(agent), 2, "download_file, and stop")
}

func TestAWrittenCallOfADisabledToolDoesNotRun(t *testing.T) {
	t.Parallel()
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Text(writtenEcho), stop), pygent.WithDisabledTools("bash"))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Len(t, results(agent), 1)
}

func TestAnAnswerInJSONIsACallOnlyOfAToolByItsOwnName(t *testing.T) {
	t.Parallel()
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Text(`{"name":"finish","arguments":{"message":"x"}}`)))
	result, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.NotEqual(t, pygent.StatusStopped, result.Status)
	require.Empty(t, results(agent))
}

func TestABrokenWrittenCallDoesNotEndTheRunAtOnce(t *testing.T) {
	t.Parallel()
	broken := pygenttest.Text("<function=bash>\n<parameter=cmd>x")
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(broken, pygenttest.Text("Well, it is done.")))
	result, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.Equal(t, pygent.StatusReplied, result.Status)
	require.Equal(t, 2, result.Steps)
	agent = newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(broken, broken, stop))
	result, err = agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.Equal(t, pygent.StatusReplied, result.Status)
	require.Equal(t, 2, result.Steps)
}

func TestAWrittenStopEndsTheRun(t *testing.T) {
	t.Parallel()
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Text("<tool_call>{\"name\": \"finish\", \"arguments\": {\"result\": \"It is done.\"}}</tool_call>")))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Equal(t, "It is done.", result.Summary)
}

func TestWrittenCallsAreTakenFromEveryProvider(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		provider pygenttest.Provider
		api      pygent.OpenAIProtocol
	}{
		{"", pygent.OpenAIChat}, {"", pygent.OpenAIResponses},
		{pygenttest.Gemini, pygent.OpenAIChat}, {pygenttest.Mistral, pygent.OpenAIChat}, {pygenttest.Ollama, pygent.OpenAIChat},
	} {
		for _, streams := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s %s %t", tt.provider, tt.api, streams), func(t *testing.T) {
				server := pygenttest.NewServer(t,
					pygenttest.Text(writtenEcho).WithReasoning("I think."),
					pygenttest.Text(`<tool_call>{"name":"shell","arguments":{"command":"echo two"}}</tool_call>`),
					callBash("echo three"),
					pygenttest.Text(`[TOOL_CALLS]bash{"cmd":"echo four"}`),
					stop).Strict(tt.provider)
				model, err := pygent.NewOpenAIModel(pygent.OpenAIBaseURL(server.URL()), pygent.OpenAIAPI(tt.api))
				require.NoError(t, err)
				agent := newAgent(t, model)
				if streams {
					noticesOf(t, agent)
				} else {
					_, err = agent.RunUntilStop(t.Context(), "go")
					require.NoError(t, err)
				}
				for i, want := range []string{"hello\n", "two\n", "three\n", "four\n"} {
					require.Contains(t, results(agent)[i], want)
				}
			})
		}
	}
}

// TestResumeKnowsWrittenCallsAndOtherNames resumes where a call has no result yet:
// what may run twice is made again, whatever the model called it.
func TestResumeKnowsWrittenCallsAndOtherNames(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		call pygent.ToolCall
		want string
	}{
		"reading again": {recordedCall("s", "read_file", `{"path":"none"}`), "error: read none: no such file"},
		"a command":     {recordedCall("s", "shell", `{"command":"echo x"}`), "interrupted; it may have taken effect"},
		"writing again": {recordedCall("s", "str_replace_editor", `{"command":"create","path":"a","file_text":"x"}`), "created a with 1 byte"},
		"an edit":       {recordedCall("s", "str_replace_editor", `{"command":"str_replace","path":"a","old_str":"x","new_str":"y"}`), "interrupted; it may have taken effect"},
	} {
		t.Run(name, func(t *testing.T) {
			agent := newAgent(t, pygenttest.NewScriptedModel(stop),
				pygent.WithHistory(pygent.NewHistory(pygent.UserMessage("go"), pygent.AssistantMessage("", tt.call))))
			_, err := agent.Resume(t.Context())
			require.NoError(t, err)
			require.Contains(t, results(agent)[0], tt.want)
		})
	}
}
