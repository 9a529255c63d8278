package pygent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

const writtenEcho = "I say hello.\n\n<tool_call>\n<function=bash>\n<parameter=cmd>\necho hello\n</parameter>\n<parameter=timeout>\n5\n</parameter>\n</function>\n</tool_call>"

// leaving is a model whose server leaves its calls in the text.
type leaving struct{ *pygenttest.ScriptedModel }

func (leaving) LeavesCalls(string) bool { return true }

func leavingModel(replies ...pygenttest.Reply) leaving {
	return leaving{pygenttest.NewScriptedModel(replies...)}
}

// approving is a user who allows everything.
func approving(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) {
	return pygent.Decision{Allow: true}, nil
}

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
	agent := newAgent(t, model, pygent.WithApproval(approving))
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
	agent := newAgent(t, leavingModel(pygenttest.Text(writtenEcho), stop), pygent.WithApprovalFor("bash"),
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
	for name, tt := range map[string]struct{ text, form string }{
		"read before":      {writtenEcho, "a <function> tag"},
		"text after it":    {strings.ReplaceAll(writtenEcho, "hello", "x") + "\nSo it goes.", "a <function> tag"},
		"wrong arguments":  {"<function=bash>\n<parameter=what>x</parameter>\n</function>", "a <function> tag"},
		"cut off":          {"<function=bash>\n<parameter=cmd>x", "a <function> tag"},
		"a list in JSON":   {`[{"name":"bash","arguments":{"cmd":"x"}},{"name":"bash","arguments":{"cmd":"y"}}]`, "JSON"},
		"among other text": {"One calls " + `{"name":"bash","arguments":{"cmd":"x"}}`, "JSON"},
		"of ReAct":         {"Thought: I look.\nAction: bash\nAction Input: {\"cmd\": \"ls\"}", "an Action line"},
		"of Cline":         {"I look.\n\n<execute_command>\n<command>ls</command>\n</execute_command>", "XML"},
		"of OpenHands":     {"<execute_bash>\nls\n</execute_bash>", "XML"},
		"of Gemini":        {"```tool_code\nprint(default_api.bash(cmd=\"ls\"))\n```", "a fence of tool_code"},
		"of Gemma":         {"<|tool_call>call:bash{cmd:<|\"|>ls<|\"|>}<tool_call|>", "Gemma's marks"},
		"of gpt-oss":       {"commentary to=functions.bash json{\"cmd\":\"ls\"}", "harmony's channels"},
	} {
		t.Run(name, func(t *testing.T) {
			agent := newAgentOn(t, nowhere{}, leavingModel(pygenttest.Call("reads", nil), pygenttest.Text(tt.text), stop), pygent.WithTools(reads))
			notices, _ := noticesOf(t, agent)
			require.Len(t, results(agent), 2, "reads, and stop")
			require.Len(t, notices, 1)
			require.Contains(t, notices[0], "printed a tool call as text instead of calling it (bash, in "+tt.form+")")
			nudge := agent.History().Messages()[5]
			require.Equal(t, "Your last answer has a call of bash as text, in "+tt.form+", which was not run. Call the tool itself, with nothing about it in the text.", nudge.Text())
		})
	}
}

func TestAWrittenCallThatAFileHasDoesNotRun(t *testing.T) {
	t.Parallel()
	rt := newTestRuntime(t, pygent.NewLocalRuntime)
	require.NoError(t, rt.WriteFile(t.Context(), "README.md", []byte("# Notes\n\n"+writtenEcho+"\n")))
	_, call, _ := strings.Cut(writtenEcho, "\n\n")
	agent := newAgentOn(t, rt, leavingModel(
		pygenttest.Call("download_file", map[string]any{"path": "README.md"}), pygenttest.Text("As it says:.\n\n"+call), stop))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Len(t, results(agent), 2, "download_file, and stop")
}

func TestAWrittenCallOfADisabledToolDoesNotRun(t *testing.T) {
	t.Parallel()
	agent := newAgentOn(t, nowhere{}, leavingModel(pygenttest.Text(writtenEcho), stop), pygent.WithDisabledTools("bash"))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Len(t, results(agent), 1)
}

// An answer that is only JSON may be what the user asked for.
func TestAnAnswerInJSONIsNoCall(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{"name":"stop","arguments":{"summary":"x"}}`, "```json\n{\"name\":\"bash\",\"arguments\":{\"cmd\":\"echo x\"}}\n```"} {
		agent := newAgentOn(t, nowhere{}, leavingModel(pygenttest.Text(text), pygenttest.Text(text)))
		result, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
		require.NoError(t, err)
		require.Equal(t, pygent.StatusReplied, result.Status)
		require.Empty(t, results(agent))
	}
}

func TestAnExampleOfACallIsToldToNobody(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"A call looks so:\n\n```json\n{\"name\":\"bash\",\"arguments\":{\"cmd\":\"x\"}}\n```\n\nThe server reads it.",
		"The test sends `{\"name\":\"bash\",\"arguments\":{\"cmd\":\"x\"}}` and waits.",
	} {
		agent := newAgentOn(t, nowhere{}, leavingModel(pygenttest.Text(text), stop))
		notices, _ := noticesOf(t, agent, pygent.WithEndOnReply())
		require.Empty(t, notices)
	}
}

// Whether text may be a call is a question of the server.
func TestTextOfAServerThatDeliversCallsIsNoCall(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, callBash("echo one"), pygenttest.Text(writtenEcho), pygenttest.Text("Done."), pygenttest.Text(writtenEcho), pygenttest.Text(writtenEcho), stop)
	model := func() pygent.Model {
		m, err := pygent.NewOpenAIModel(pygent.OpenAIBaseURL(server.URL()), pygent.OpenAIDefaultModel("small"))
		require.NoError(t, err)
		return m
	}
	agent := newAgent(t, model(), pygent.WithApproval(approving))
	notices, _ := noticesOf(t, agent, pygent.WithEndOnReply())
	require.Len(t, results(agent), 1)
	require.Equal(t, []string{"the model printed a tool call as text instead of calling it (bash, in a <function> tag)"}, notices)
	other := newAgent(t, model(), pygent.WithApproval(approving))
	_, err := other.RunUntilStop(t.Context(), "go", pygent.MaxReplies(1))
	require.NoError(t, err)
	require.Empty(t, results(other), "the process remembers the server")
	named := newAgent(t, model(), pygent.WithApproval(approving), pygent.WithModelName("large"))
	_, err = named.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Contains(t, results(named)[0], "hello\n", "the server may have no parser for another model")
}

func TestAModelThatDoesNotSaySoWritesNoCalls(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Text(writtenEcho), pygenttest.Text(writtenEcho), stop), pygent.WithApproval(approving))
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxReplies(3))
	require.NoError(t, err)
	require.Len(t, results(agent), 1, "stop")
}

// Where nobody can be asked, a call that may change something runs only if the model
// writes it again.
func TestAWrittenCallThatChangesSomethingIsWrittenTwice(t *testing.T) {
	t.Parallel()
	write := func(cmd string) pygenttest.Reply {
		return pygenttest.Text("<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"cmd\": \"echo " + cmd + "\"}}\n</tool_call>")
	}
	spaced := pygenttest.Text("So I run it.\n\n<function=bash>\n<parameter=cmd>echo one</parameter>\n</function>")
	for name, c := range map[string]struct {
		replies []pygenttest.Reply
		want    []string // what the results contain
	}{
		"once":                        {[]pygenttest.Reply{write("one"), stop}, []string{""}},
		"twice":                       {[]pygenttest.Reply{write("one"), write("one"), stop}, []string{"one\n", ""}},
		"twice, in another template":  {[]pygenttest.Reply{write("one"), spaced, stop}, []string{"one\n", ""}},
		"twice, not alike":            {[]pygenttest.Reply{write("one"), write("two"), stop}, []string{""}},
		"twice, with words between":   {[]pygenttest.Reply{write("one"), pygenttest.Text("Hm."), write("one"), stop}, []string{""}},
		"three times":                 {[]pygenttest.Reply{write("one"), write("one"), write("one"), stop}, []string{"one\n", ""}},
		"one after another":           {[]pygenttest.Reply{write("one"), write("one"), write("two"), write("two"), stop}, []string{"one\n", "two\n", ""}},
		"what only reads, at once":    {[]pygenttest.Reply{pygenttest.Text("<function=job_list>\n</function>"), stop}, []string{"", ""}},
		"with a call in between them": {[]pygenttest.Reply{write("one"), pygenttest.Call("job_list", nil), write("one"), stop}, []string{"", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent := newAgent(t, leavingModel(c.replies...))
			_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxReplies(4))
			require.NoError(t, err)
			got := results(agent)
			require.Len(t, got, len(c.want))
			for i, want := range c.want {
				require.Contains(t, got[i], want)
			}
		})
	}
	agent := newAgent(t, leavingModel(spaced, spaced, pygenttest.Text("It is done.")))
	result, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.Equal(t, "It is done.", result.Summary, "a call that is withheld does not end the run")
	require.Contains(t, results(agent)[0], "one\n")
}

// A person is asked about a call in the text, also where no other command is asked about.
func TestAPersonIsAskedAboutAWrittenCall(t *testing.T) {
	t.Parallel()
	for _, confirm := range []bool{true, false} {
		model := leavingModel(callBash("echo one"), pygenttest.Text(writtenEcho), pygenttest.Text("<function=job_list>\n</function>"), stop)
		agent := newAgent(t, model, pygent.WithConfirmBash(confirm))
		var why []string
		end := agent.FaceSession().Answers(t.Context(), pygent.FaceUser{Approve: func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
			why = append(why, r.Why)
			return pygent.Decision{}, nil
		}})
		_, err := agent.RunUntilStop(t.Context(), "go")
		end()
		require.NoError(t, err)
		require.Len(t, results(agent), 4)
		require.Contains(t, results(agent)[1], "error: denied")
		if confirm {
			require.Len(t, why, 2)
			continue
		}
		require.Equal(t, []string{"the model wrote it as text, which may repeat what it has read"}, why)
	}
}

// Whoever can be asked by a task is asked about what its model writes.
func TestAWrittenCallOfATaskIsAskedAbout(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	approve := func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
		asked.Add(1)
		return pygent.Decision{Allow: r.Why == "the model wrote it as text, which may repeat what it has read"}, nil
	}
	for _, tt := range []struct {
		who   string
		opts  []pygent.Option
		face  pygent.ApprovalFunc
		asked int32
	}{
		{"the agent's user", nil, approve, 2},
		{"the tasks'", []pygent.Option{pygent.TaskApproval(approve)}, nil, 2},
		{"the task's own", []pygent.Option{pygent.TaskAgents(pygent.WithApproval(approve), pygent.WithConfirmBash(false))}, nil, 2},
		{"nobody", nil, nil, 0},
	} {
		t.Run(tt.who, func(t *testing.T) {
			asked.Store(0)
			model := leavingModel(pygenttest.Text(writtenEcho), pygenttest.Text(writtenEcho), stop)
			agent := newAgent(t, model, append(tt.opts, pygent.WithConfirmBash(false))...)
			if tt.face != nil {
				defer agent.FaceSession().Answers(t.Context(), pygent.FaceUser{Approve: tt.face})()
			}
			id, err := agent.Tasks().StartTask(t.Context(), "go", agent.Runtime())
			require.NoError(t, err)
			status, err := agent.Tasks().Wait(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, pygent.TaskFinished, status.State)
			require.Equal(t, tt.asked, asked.Load())
			last := model.Requests()[2].Messages
			require.Contains(t, last[len(last)-1].Content, "hello\n", "it ran, at the latest as it came again")
		})
	}
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
	agent := newAgentOn(t, nowhere{}, leavingModel(pygenttest.Text("<tool_call>{\"name\": \"finish\", \"arguments\": {\"result\": \"It is done.\"}}</tool_call>")))
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
					pygenttest.Text(`[TOOL_CALLS]bash{"cmd":"echo three"}`),
					callBash("echo four"),
					stop).Strict(tt.provider)
				model, err := pygent.NewOpenAIModel(pygent.OpenAIBaseURL(server.URL()), pygent.OpenAIAPI(tt.api))
				require.NoError(t, err)
				// A server of another test may have had the same port, and delivered calls.
				agent := newAgent(t, model, pygent.WithApproval(approving), pygent.WithModelName(fmt.Sprintf("writes-%s-%s-%t", tt.provider, tt.api, streams)))
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
