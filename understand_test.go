package pygent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
)

// rawCall is a call with arguments as a model wrote them.
func rawCall(name, args string) pygenttest.Reply {
	return pygenttest.Message(chat.AssistantMessage("", pygent.ToolCall{ID: "c1", Name: name, Arguments: args}))
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
	record := []pygent.Message{chat.UserMessage("go"), chat.AssistantMessage("", recordedCall("s", "finish", `{"result":"it was done"}`)), chat.ToolMessage("s", "stopped")}
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(), pygent.WithHistory(chat.NewHistory(record...)))
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
		`asks bash {"cmd":"echo hi"}, this exact command`,
		`runs bash {"cmd":"echo hi"}`,
		`asks write_file {"content":"y","path":"a"}, all writes to this file`,
		`runs write_file {"content":"y","path":"a"}`,
		`decided by rule`,
		`runs write_file {"content":"z","path":"./a"}`,
		`decided by rule`,
		`runs edit_file {"new_text":"w","old_text":"z","path":"sub/../a"}`,
		`runs stop {"summary":"all done"}`,
	}, saw)
}

const severalFiles = `*** Begin Patch
*** Update File: a.go
@@ func B() int {
-	return 1
+	return 2
*** Add File: d/new.txt
+new
*** Delete File: old.txt
*** End Patch
`

const twoFunctions = "package a\n\nfunc A() int {\n\treturn 1\n}\n\nfunc B() int {\n\treturn 1\n}\n"

// patchCalls are the ways in which models write the same patch.
func patchCalls(t *testing.T) map[string]pygenttest.Reply {
	return map[string]pygenttest.Reply{
		"a tool":          rawCall("apply_patch", jsonOf(t, map[string]any{"input": severalFiles})),
		"without JSON":    rawCall("functions.apply_patch", severalFiles),
		"a here-document": rawCall("bash", jsonOf(t, map[string]any{"cmd": "apply_patch <<'EOF'\n" + severalFiles + "EOF\n"})),
		"codex's shell":   rawCall("shell", jsonOf(t, map[string]any{"command": []string{"bash", "-lc", "cd . && apply_patch <<'EOF'\n" + severalFiles + "EOF"}})),
		"its arguments":   rawCall("container.exec", jsonOf(t, map[string]any{"cmd": []string{"apply_patch", severalFiles}})),
	}
}

func TestAPatchChangesSeveralFilesInOneCall(t *testing.T) {
	t.Parallel()
	for name, call := range patchCalls(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, rt := workspaceWith(t, map[string]string{"a.go": twoFunctions, "old.txt": "old\n"})
			var ids, asked []string
			agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(call, stop), pygent.WithApproval(func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
				asked = append(asked, r.Call.Name+" "+r.Session)
				if r.Call.Name != "bash" && r.Call.Name != "stop" {
					require.Len(t, r.Changes, 1)
					require.NotEmpty(t, r.Changes[0].Diff())
				}
				return pygent.Decision{Allow: true}, nil
			}), pygent.OnEvent(func(e pygent.Event) {
				if e.Type == pygent.EventToolCall || e.Type == pygent.EventToolDone {
					ids = append(ids, string(e.Type)+" "+e.Call.ID)
				}
			}))
			_, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, map[string]string{"a.go": strings.Replace(twoFunctions, "B() int {\n\treturn 1", "B() int {\n\treturn 2", 1), "d/new.txt": "new\n"}, filesIn(t, dir))
			require.Equal(t, []string{"edit_file all writes to this file", "write_file all writes to this file", "bash this exact command"}, asked)
			require.Equal(t, []string{"tool_call c1.1", "tool_call c1.2", "tool_call c1", "tool_done c1.1", "tool_done c1.2", "tool_done c1"}, ids[:6])
			said := agent.History().Messages()[3].Text()
			require.True(t, strings.HasPrefix(said, "[edit a.go]\nedited a.go at line 7\n"), said)
			require.Contains(t, said, "\n[write d/new.txt]\ncreated d/new.txt with 4 bytes")
			require.Contains(t, said, "\n[$ rm -- old.txt]\n")
			var changed []string
			for _, c := range agent.Changes() {
				changed = append(changed, c.Path)
			}
			require.Equal(t, []string{"a.go", "d/new.txt"}, changed)
		})
	}
}

func TestNothingOfAPatchIsDoneUnlessAllCanBe(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a.go": twoFunctions, "old.txt": "old\n", "locked": "x\n"}
	missing := strings.Replace(severalFiles, "*** Delete File: old.txt", "*** Update File: old.txt\n@@\n-other\n+new", 1)
	outside := strings.Replace(severalFiles, "d/new.txt", "../new.txt", 1)
	locked := strings.Replace(severalFiles, "*** Delete File: old.txt", "*** Update File: locked\n@@\n-x\n+y", 1)
	for name, c := range map[string]struct {
		patch  string
		denies string
		says   string
		opts   []pygent.Option
	}{
		"a part that is not found": {missing, "", "old_text does not occur in the file", nil},
		"a part that is denied":    {severalFiles, "bash", "denied: not this one", nil},
		"a part without a tool":    {severalFiles, "", "the tool is disabled", []pygent.Option{pygent.WithDisabledTools("bash")}},
		"a new file outside":       {outside, "", "outside the workspace", nil},
		"a file that is read-only": {locked, "", "locked is read-only", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, rt := workspaceWith(t, files)
			require.NoError(t, os.Chmod(filepath.Join(dir, "locked"), 0o444))
			opts := append(c.opts, pygent.WithApproval(func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
				return pygent.Decision{Allow: r.Call.Name != c.denies, Reason: "not this one"}, nil
			}))
			agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(rawCall("apply_patch", jsonOf(t, map[string]any{"input": c.patch})), stop), opts...)
			_, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, files, filesIn(t, dir))
			said := agent.History().Messages()[3].Text()
			require.Contains(t, said, c.says)
			if c.denies != "" {
				require.Contains(t, said, "another part of the same call cannot be done")
			}
		})
	}
}

func TestAPatchObeysTheRulesOfEachFile(t *testing.T) {
	t.Parallel()
	in := func(name string) pygenttest.Reply {
		return rawCall("apply_patch", jsonOf(t, map[string]any{"input": "*** Begin Patch\n*** Add File: " + name + "\n+x\n*** End Patch"}))
	}
	dir, rt := workspaceWith(t, map[string]string{".git/config": "", "latin": "caf\xe9 ol\xe9 d\xe9j\xe0 vu\r\nend\r\n", "locked": "x\n"})
	require.NoError(t, os.Chmod(filepath.Join(dir, "locked"), 0o444))
	edits := rawCall("apply_patch", jsonOf(t, map[string]any{"input": "*** Begin Patch\n*** Update File: latin\n@@\n café olé déjà vu\n-end\n+fin é\n*** End Patch"}))
	locked := rawCall("apply_patch", jsonOf(t, map[string]any{"input": "*** Begin Patch\n*** Update File: locked\n@@\n-x\n+y\n*** End Patch"}))
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(in(".git/config"), in("../outside"), in(`"`+dir+`/quoted.txt"`), edits, locked, stop))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	said := agent.History().Messages()
	require.Contains(t, said[3].Text(), "files below .git can make git")
	require.Contains(t, said[5].Text(), "outside")
	require.Contains(t, said[11].Text(), "locked is read-only")
	require.Equal(t, map[string]string{".git/config": "", "latin": "caf\xe9 ol\xe9 d\xe9j\xe0 vu\r\nfin \xe9\r\n", "locked": "x\n", "quoted.txt": "x\n"}, filesIn(t, dir))
	_, err = os.Stat(filepath.Join(filepath.Dir(dir), "outside"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestCallsInsideACallRun(t *testing.T) {
	t.Parallel()
	dir, rt := workspaceWith(t, map[string]string{"a": "one\n", "b": "two\n"})
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(
		rawCall("multi_tool_use.parallel", jsonOf(t, map[string]any{"tool_uses": []any{
			map[string]any{"recipient_name": "functions.download_file", "parameters": map[string]any{"path": "a"}},
			map[string]any{"recipient_name": "functions.apply_patch", "parameters": map[string]any{"input": "*** Begin Patch\n*** Add File: c\n+x\n*** Add File: d\n+x\n*** End Patch"}},
			map[string]any{"recipient_name": "functions.bash", "parameters": map[string]any{"cmd": "exit 3"}},
		}})),
		rawCall("read_many_files", `{"paths":["a","b"]}`),
		rawCall("edit_file", `{"path":"e","old_text":"","new_text":"five\n"}`),
		rawCall("bash", jsonOf(t, map[string]any{"cmd": "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: b\n@@\n-two\n+2\n*** End Patch\nEOF\ncat b"})),
		rawCall("delete_file", `{"path":"a"}`),
		rawCall("update_plan", `{"plan":[{"step":"x","status":"done"}]}`),
		stop,
	))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"b": "2\n", "c": "x\n", "d": "x\n", "e": "five\n"}, filesIn(t, dir))
	said := agent.History().Messages()
	first := said[3].Text()
	for _, part := range []string{"[read a]\n", "1\tone", "\n[write c]\n", "\n[write d]\n", "\n[$ exit 3]\n", "exit"} {
		require.Contains(t, first, part)
	}
	require.Equal(t, pygent.OutcomeFailed, agent.History().Entries()[3].Outcome)
	require.Contains(t, said[5].Text(), "[read b]\n")
	require.Contains(t, said[7].Text(), "created e with 5 bytes")
	require.Contains(t, said[9].Text(), "[$ cat b]\n$ cat b\n2")
	require.Equal(t, "noted", said[13].Text())
	require.Equal(t, 10, result.ToolCalls-2)
}

func TestAPatchIsNoPatchWhereNothingCanBeEdited(t *testing.T) {
	t.Parallel()
	_, rt := workspaceWith(t, nil)
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(patchCalls(t)["a here-document"], stop), pygent.WithDisabledTools("edit_file"))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Contains(t, agent.History().Messages()[3].Text(), "apply_patch")
	require.Empty(t, agent.Changes())
}

// A call that stands for none, or whose first part stands for several, gets its results.
func TestACallOfNoCallsHasAResult(t *testing.T) {
	t.Parallel()
	patch := "*** Begin Patch\n*** Add File: new\n+1\n*** Add File: other\n+2\n*** End Patch"
	for name, tt := range map[string]struct {
		tool, args, want string
		files            map[string]string
	}{
		"moved to itself": {"apply_patch", jsonOf(t, map[string]any{"input": "*** Begin Patch\n*** Update File: a\n*** Move to: a\n*** End Patch"}), "changes nothing", map[string]string{"a": "1\n"}},
		"and so written":  {"apply_patch", jsonOf(t, map[string]any{"input": "*** Begin Patch\n*** Update File: a\n*** Move to: ./a\n*** End Patch"}), "changes nothing", map[string]string{"a": "1\n"}},
		"a patch first": {"multi_tool_use.parallel", jsonOf(t, map[string]any{"tool_uses": []any{
			map[string]any{"recipient_name": "functions.apply_patch", "parameters": map[string]any{"input": patch}},
		}}), "", map[string]string{"a": "1\n", "new": "1\n", "other": "2\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, rt := workspaceWith(t, map[string]string{"a": "1\n"})
			agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(rawCall(tt.tool, tt.args), pygenttest.Text("done")))
			_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
			require.NoError(t, err)
			require.Equal(t, tt.files, filesIn(t, dir))
			require.Contains(t, results(agent)[0], tt.want)
		})
	}
}

// Fifteen calls that fail in one answer are told before they end a run.
func TestCallsOfOneAnswerDoNotEndTheRun(t *testing.T) {
	t.Parallel()
	var failing []pygenttest.Reply
	for i := range 16 {
		failing = append(failing, pygenttest.Call("download_file", map[string]any{"path": fmt.Sprint("none", i)}))
	}
	_, rt := workspaceWith(t, nil)
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(pygenttest.Calls(failing...), pygenttest.Text("They are not there.")))
	result, err := agent.RunUntilStop(t.Context(), "Read them.", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.Equal(t, pygent.StatusReplied, result.Status)
}

func TestAPatchWithPathsOfTheWorkspaceThatBeginAtTheRoot(t *testing.T) {
	t.Parallel()
	dir, rt := workspaceWith(t, map[string]string{"a": "1\n", "old name": "2\n", "gone": ""})
	at := filepath.ToSlash(dir)
	patch := "*** Begin Patch\n*** Update File: " + at + "/a\n@@\n-1\n+one\n*** Update File: " + at + "/old name\n*** Move to: " + at + "/d/new é\n*** Delete File: " + at + "/gone\n*** End Patch"
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(rawCall("apply_patch", jsonOf(t, map[string]any{"input": patch})), stop))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "one\n", "d/new é": "2\n"}, filesIn(t, dir), results(agent)[0])
}

// Who is asked about a second change of a file sees what both make of it.
func TestWhoIsAskedAboutAPatchSeesAllChangesOfAFile(t *testing.T) {
	t.Parallel()
	_, rt := workspaceWith(t, map[string]string{"a": "1\n2\n"})
	patch := "*** Begin Patch\n*** Update File: a\n@@\n-1\n+one\n*** Update File: a\n@@\n one\n-2\n+two\n*** End Patch"
	var diffs []string
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(rawCall("apply_patch", jsonOf(t, map[string]any{"input": patch})), stop),
		pygent.WithApproval(func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
			for _, c := range r.Changes {
				diffs = append(diffs, c.After+c.Note)
			}
			return pygent.Decision{Allow: true}, nil
		}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, []string{"one\ntwo\n"}, diffs)
}

// A file that two paths of a patch lead to is one file.
func TestAPatchKnowsAFileByAllItsNames(t *testing.T) {
	t.Parallel()
	patch := "*** Begin Patch\n*** Add File: n\n+1\n*** Delete File: a\n*** Update File: link/a\n@@\n-x\n+y\n*** End Patch"
	forEachRuntime(t, func(t *testing.T, rt pygent.Runtime) {
		bash(t, rt, "echo x >a && ln -s . link")
		agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(rawCall("apply_patch", jsonOf(t, map[string]any{"input": patch})), stop))
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		require.Contains(t, results(agent)[0], "link/a: there is no such file")
		require.Equal(t, "a\nlink\n", bash(t, rt, "ls").Output)
	})
}

// Who is asked about a file that a patch renames and then changes sees the change.
func TestWhoIsAskedAboutAPatchSeesTheChangeOfARenamedFile(t *testing.T) {
	t.Parallel()
	dir, rt := workspaceWith(t, map[string]string{"a": "1\n2\n"})
	patch := "*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** Update File: b\n@@\n-1\n+one\n*** End Patch"
	var asked []string
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(rawCall("apply_patch", jsonOf(t, map[string]any{"input": patch})), stop),
		pygent.WithApproval(func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
			for _, c := range r.Changes {
				asked = append(asked, c.Path+": "+c.After+c.Note)
			}
			return pygent.Decision{Allow: true}, nil
		}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, []string{"a: one\n2\n"}, asked)
	require.Equal(t, map[string]string{"b": "one\n2\n"}, filesIn(t, dir))
}

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
	model, err := openai.New(openai.BaseURL(server.URL()))
	require.NoError(t, err)
	agent := newAgent(t, model, pygent.WithApproval(approving))
	notices, result := noticesOf(t, agent)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Len(t, notices, 1, "it is told once in a run")
	require.Contains(t, notices[0], "wrote a call of bash as text, which is treated as a call")
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
		m, err := openai.New(openai.BaseURL(server.URL()), openai.DefaultModel("small"))
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
		require.Equal(t, []string{"the model wrote it as text, and may only be quoting something it read"}, why)
	}
}

// Whoever can be asked by a task is asked about what its model writes.
func TestAWrittenCallOfATaskIsAskedAbout(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	approve := func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
		asked.Add(1)
		return pygent.Decision{Allow: r.Why == "the model wrote it as text, and may only be quoting something it read"}, nil
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
		api      openai.Protocol
	}{
		{"", openai.Chat}, {"", openai.Responses},
		{pygenttest.Gemini, openai.Chat}, {pygenttest.Mistral, openai.Chat}, {pygenttest.Ollama, openai.Chat},
	} {
		for _, streams := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s %s %t", tt.provider, tt.api, streams), func(t *testing.T) {
				server := pygenttest.NewServer(t,
					pygenttest.Text(writtenEcho).WithReasoning("I think."),
					pygenttest.Text(`<tool_call>{"name":"shell","arguments":{"command":"echo two"}}</tool_call>`),
					pygenttest.Text(`[TOOL_CALLS]bash{"cmd":"echo three"}`),
					callBash("echo four"),
					stop).Strict(tt.provider)
				model, err := openai.New(openai.BaseURL(server.URL()), openai.API(tt.api))
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
				pygent.WithHistory(chat.NewHistory(chat.UserMessage("go"), chat.AssistantMessage("", tt.call))))
			_, err := agent.Resume(t.Context())
			require.NoError(t, err)
			require.Contains(t, results(agent)[0], tt.want)
		})
	}
}
