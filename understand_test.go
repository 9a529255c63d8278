package pygent_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// rawCall is a call with arguments as a model wrote them.
func rawCall(name, args string) pygenttest.Reply {
	return pygenttest.Message(pygent.AssistantMessage("", pygent.ToolCall{ID: "c1", Name: name, Arguments: args}))
}

func TestToolsOfOtherAgentsMeanOurs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.txt"), []byte("one\ntwo\n"), 0o600))
	rt, err := pygent.NewLocalRuntime(t.Context(), pygent.WithWorkspace(dir))
	require.NoError(t, err)
	var seen []string
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(
		rawCall("shell", `{"command":["sh","-c","echo hi"]}`),
		rawCall("Bash", "```json\n{'command': 'echo \"two\"\nexit 3',}\n```"),
		rawCall("Read", `{"file_path":"a.txt"}`),
		rawCall("str_replace_editor", `{"command":"str_replace","path":"a.txt","old_str":"two","new_str":"2"}`),
		rawCall("create_file", `{"filePath":"b.txt","text":"new\n"}`),
		rawCall("attempt_completion", `{"result":"It is done."}`),
	))
	events := eventsOf(t, agent, "go")
	for _, e := range events {
		if e.Type == pygent.EventToolCall || e.Type == pygent.EventToolStart {
			seen = append(seen, e.Call.Name+" "+e.Call.Arguments)
		}
	}
	result := events[len(events)-1].Result
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Equal(t, "It is done.", result.Summary)
	got := results(agent)
	require.Contains(t, got[0], "hi\n")
	require.Contains(t, got[1], "two\n")
	require.Contains(t, got[1], "3")
	require.Contains(t, got[2], "one\n")
	for path, want := range map[string]string{"a.txt": "one\n2\n", "b.txt": "new\n"} {
		data, err := os.ReadFile(filepath.Join(dir, path))
		require.NoError(t, err)
		require.Equal(t, want, string(data))
	}
	require.Len(t, seen, 12, "%v %q", seen, got)
	for i, want := range []string{
		`bash {"cmd":"echo hi"}`,
		`bash {"cmd":"echo \"two\"\nexit 3"}`,
		`download_file {"path":"a.txt"}`,
		`edit_file {"new_text":"2","old_text":"two","path":"a.txt"}`,
		`write_file {"content":"new\n","path":"b.txt"}`,
		`stop {"summary":"It is done."}`,
	} {
		require.Equal(t, want, seen[2*i])
		require.Equal(t, want, seen[2*i+1], "it starts as it was announced")
	}
	said := agent.History().Messages()[2].ToolCalls[0]
	require.Equal(t, "shell", said.Name, "the history has the model's own words")
	require.Equal(t, `{"command":["sh","-c","echo hi"]}`, said.Arguments)
}

func TestNamesWithWhatServersPutAroundThemAreUnderstood(t *testing.T) {
	t.Parallel()
	say := pygent.NewTool("say-it", "", func(_ context.Context, _ pygent.Runtime, in struct {
		FilePath string `json:"file_path"`
	}) (string, error) {
		return "said " + in.FilePath, nil
	})
	for _, name := range []string{"say-it", "functions.say-it", "say-it<|channel|>commentary", "default_api:say_it", "tools/SayIt", "functions.say-it:0"} {
		var r pygent.Registry
		require.NoError(t, r.Add(say))
		result, err := r.Execute(t.Context(), toolCall(name, `{"filePath":"x"}`), nowhere{})
		require.NoError(t, err, name)
		require.Equal(t, "said x", result.Content)
	}
	var r pygent.Registry
	require.NoError(t, r.Add(say))
	again := say
	again.Name = "say_it"
	require.NoError(t, r.Add(again))
	_, err := r.Execute(t.Context(), toolCall("SayIt", `{}`), nowhere{})
	require.ErrorIs(t, err, pygent.ErrUnknownTool, "two tools are spelled so")
}

func TestADisabledToolIsNotReachedByAnotherName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"bash", "Bash", "shell", "functions.bash", "container.exec", "grep"} {
		agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(rawCall(name, `{"command":"ls","pattern":"x"}`), stop), pygent.WithDisabledTools("bash"))
		var err error
		_, err = agent.Tools().Execute(t.Context(), toolCall(name, `{"command":"ls"}`), nowhere{})
		require.ErrorIs(t, err, pygent.ErrToolDisabled, name)
	}
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(stop))
	agent.Tools().Disable("read_file", "shell")
	for _, name := range []string{"read_file", "ReadFile", "shell", "functions.Shell"} {
		_, err := agent.Tools().Execute(t.Context(), toolCall(name, `{"path":"x"}`), nowhere{})
		require.ErrorIs(t, err, pygent.ErrToolDisabled, name)
	}
	require.NoError(t, agent.Tools().Remove("bash"))
	_, err := agent.Tools().Execute(t.Context(), toolCall("run_command", `{"command":"ls"}`), nowhere{})
	require.ErrorIs(t, err, pygent.ErrUnknownTool)
}

func TestRegisteredToolsComeBeforeTheNamesOfOthers(t *testing.T) {
	t.Parallel()
	ours := pygent.NewTool("read_file", "", func(context.Context, pygent.Runtime, struct{}) (string, error) { return "mine", nil })
	motor := pygent.NewTool("stop", "Stop the motor.", func(context.Context, pygent.Runtime, struct{}) (string, error) { return "stopped the motor", nil })
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(stop), pygent.WithTools(ours, motor))
	result, err := agent.Tools().Execute(t.Context(), toolCall("read_file", `{}`), nowhere{})
	require.NoError(t, err)
	require.Equal(t, "mine", result.Content)
	_, err = agent.Tools().Execute(t.Context(), toolCall("finish", `{}`), nowhere{})
	require.ErrorIs(t, err, pygent.ErrUnknownTool, "a tool in the place of ours may do something else")
}

func TestRulesForAToolHoldByAnyName(t *testing.T) {
	t.Parallel()
	var asked []string
	approve := pygent.WithApproval(func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
		asked = append(asked, r.Call.Name+" "+r.Call.Arguments+" "+r.Tool.Summary)
		return pygent.Decision{Allow: true, Session: true}, nil
	})
	agent := newAgent(t, pygenttest.NewScriptedModel(
		rawCall("shell", `{"command":["rm","x"]}`),
		rawCall("execute_command", `{"command":"echo hi"}`),
		rawCall("bash", `{"cmd":"echo hi"}`),
		rawCall("run", `{"script":"echo hi"}`),
		stop,
	), approve, pygent.WithApprovalFor("bash"), pygent.WithBannedCommands("rm"))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	got := results(agent)
	require.Contains(t, got[0], `"rm" is banned`)
	require.Equal(t, []string{`bash {"cmd":"echo hi"} $ echo hi`}, asked, "a decision for the session covers the command by any name")
	for _, result := range got[1:4] {
		require.Contains(t, result, "hi\n")
	}
}

func TestTheSameCallInOtherWordsIsARepetition(t *testing.T) {
	t.Parallel()
	replies := []pygenttest.Reply{}
	for range 10 {
		replies = append(replies, rawCall("shell", `{"command":"true"}`), rawCall("bash", `{"cmd":"true"}`), rawCall("Bash", `{"Cmd": "true"}`))
	}
	agent := newAgent(t, pygenttest.NewScriptedModel(replies...))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStuck, result.Status)
}

func TestATypedRunTakesItsValueFromAnotherAgentsEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, args string }{
		{"finish", `{"verdict":"approve"}`},
		{"submit", `{"result":{"verdict":"approve"}}`},
		{"functions.final_answer", `{"arguments":"{\"verdict\":\"approve\"}"}`},
		{"FinalAnswer", `{'verdict': 'approve',}`},
	} {
		got, _, err := pygent.RunTyped[review](t.Context(), newAgentWithoutCheck(t, rawCall(c.name, c.args)), "go")
		require.NoError(t, err, c.name)
		require.Equal(t, "approve", got.Verdict)
	}
	n, _, err := pygent.RunTyped[int](t.Context(), newAgentWithoutCheck(t, rawCall("attempt_completion", `{"result":"42"}`)), "go")
	require.NoError(t, err)
	require.Equal(t, 42, n)
}

// newAgentWithoutCheck makes an agent whose history may have names that no
// provider takes.
func newAgentWithoutCheck(t *testing.T, replies ...pygenttest.Reply) *pygent.Agent {
	agent, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel(replies...)), pygent.WithRuntime(nowhere{}))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, agent.Close())
		require.NoError(t, pygenttest.CheckConversation(agent.History().Conversation()))
	})
	return agent
}

func TestACallThatIsCutOffNeverRuns(t *testing.T) {
	t.Parallel()
	whole := `{"path":"a.txt","content":"first\nsecond \"third\"","append":true}`
	for n := range whole {
		ran := ""
		write := pygent.Tool{Name: "write_file", Parameters: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"},"append":{"type":"boolean"}},"required":["path"],"additionalProperties":false}`),
			Run: func(_ context.Context, _ pygent.Runtime, args json.RawMessage) (*pygent.ToolResult, error) {
				ran = string(args)
				return nil, nil
			}}
		var r pygent.Registry
		require.NoError(t, r.Add(write))
		_, err := r.Execute(t.Context(), toolCall("write_file", whole[:n]), nowhere{})
		require.Error(t, err, whole[:n])
		require.Empty(t, ran)
	}
}

func TestUnknownToolsAreNamedWithTheNearest(t *testing.T) {
	t.Parallel()
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(stop))
	for name, want := range map[string]string{
		"bsh":                    `unknown tool "bsh", did you mean bash? The tools are: bash, `,
		"functions.edit_fil":     `unknown tool "functions.edit_fil", did you mean edit_file? The tools are: bash, `,
		"apply_patch":            `unknown tool "apply_patch"; use edit_file with path, old_text and new_text, and write_file for a new file; the tools are: bash, `,
		"image_generation":       `unknown tool "image_generation"; the tools are: bash, `,
		"insert":                 `unknown tool "insert"; insert with edit_file: old_text is the line there, new_text that line with the new ones; the tools are: bash, `,
		"ba\u200bsh":             `unknown tool "ba\u200bsh"; the tools are: bash, `,
		"\ufeffbash":             `unknown tool "\ufeffbash"; the tools are: bash, `,
		"b\u0430sh":              `did you mean bash?`,
		strings.Repeat("x", 1e6): `xxx"; the tools are: bash, `,
	} {
		_, err := agent.Tools().Execute(t.Context(), toolCall(name, `{}`), nowhere{})
		require.ErrorIs(t, err, pygent.ErrUnknownTool)
		require.ErrorContains(t, err, want)
		require.Less(t, len(err.Error()), 600)
	}
}

func TestARunThatEndedByAnotherNameIsOver(t *testing.T) {
	t.Parallel()
	record := []pygent.Message{pygent.UserMessage("go"), pygent.AssistantMessage("", recordedCall("s", "finish", `{"result":"it was done"}`)), pygent.ToolMessage("s", "stopped")}
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(), pygent.WithHistory(pygent.NewHistory(record...)))
	result, err := agent.Resume(t.Context())
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Equal(t, "it was done", result.Summary)
}

func TestTheSummaryAtALimitIsTakenByAnyName(t *testing.T) {
	t.Parallel()
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(
		rawCall("nothing", `{}`), rawCall("nothing", `{"a":1}`), rawCall("finish", `{"message":"half of it"}`)))
	result, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(2))
	require.NoError(t, err)
	require.Equal(t, "half of it", result.Summary)
}

// TestEverybodySeesTheCallThatRuns makes calls in the words of other agents: what
// middleware, approvals, decisions for the session and events see is ours.
func TestEverybodySeesTheCallThatRuns(t *testing.T) {
	t.Parallel()
	var saw []string
	agent := newAgent(t, pygenttest.NewScriptedModel(
		rawCall("Execute", `{"command":"echo hi"}`),
		rawCall("Write", `{"file_path":"a","content":"y"}`),
		rawCall("create_file", `{"path":"./a","content":"z","overwrite":true}`),
		rawCall("edit", `{"path":"sub/../a","old_string":"z","new_string":"w"}`),
		stop,
	), pygent.WithToolMiddleware(func(next pygent.ToolHandler) pygent.ToolHandler {
		return func(ctx context.Context, rt pygent.Runtime, c pygent.ToolCall) (*pygent.ToolResult, error) {
			info, _ := pygent.CallFrom(ctx)
			require.Equal(t, c, info.Call)
			saw = append(saw, "runs "+c.Name+" "+c.Arguments)
			return next(ctx, rt, c)
		}
	}), pygent.WithApproval(func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
		require.Equal(t, r.Call.Name, r.Tool.Name)
		saw = append(saw, "asks "+r.Call.Name+" "+r.Call.Arguments+", "+r.Session)
		return pygent.Decision{Allow: true, Session: true}, nil
	}))
	for e, err := range agent.Events(t.Context(), "go") {
		require.NoError(t, err)
		if e.Call != nil && e.Tool != nil {
			require.Equal(t, e.Call.Name, e.Tool.Name)
		}
		if e.Decision != nil && e.Decision.By != "" {
			saw = append(saw, "decided by "+e.Decision.By)
		}
	}
	require.Equal(t, []string{
		`asks bash {"cmd":"echo hi"}, this very command`,
		`runs bash {"cmd":"echo hi"}`,
		`asks write_file {"content":"y","path":"a"}, writes to this file`,
		`runs write_file {"content":"y","path":"a"}`,
		`decided by rule`,
		`runs write_file {"content":"z","path":"./a"}`,
		`decided by rule`,
		`runs edit_file {"new_text":"w","old_text":"z","path":"sub/../a"}`,
		`runs stop {"summary":"all done"}`,
	}, saw)
}
