package pygent_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

const unclosedCall = `<function=bash>{"cmd": "ls"</function>`

func TestAModelIsToldOfTheCallThatItsServerRefused(t *testing.T) {
	t.Parallel()
	groq := pygenttest.ToolUseFailed(unclosedCall)
	proxy := func(message string) pygenttest.Reply {
		return pygenttest.Raw(400, "application/json", `{"error":{"message":"`+message+`","code":"bad_request","failed_generation":"{\"cmd\": \"ls\""}}`)
	}
	for name, tt := range map[string]struct {
		reply pygenttest.Reply
		wrote string
	}{
		"Groq":         {groq, unclosedCall},
		"a stream":     {groq.InStream(), unclosedCall},
		"another code": {proxy("cannot read it"), `{"cmd": "ls"`},
		"both":         {proxy("failed to parse input at pos 3: x"), `{"cmd": "ls"`},
		"llama.cpp":    {llamaError, `<tool_call>{"cmd": "ls"`},
		"Ollama":       {ollamaError, `{"cmd": "ls"`},
		"Gemini":       {pygenttest.Text("").WithFinish("MALFORMED_FUNCTION_CALL"), ""},
		"Gemini, too":  {pygenttest.Text("").WithFinish("UNEXPECTED_TOOL_CALL"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, server := serve(t, tt.reply, tt.reply, stop)
			agent := newAgentOn(t, nowhere{}, m)
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status)
			requests := server.Requests()
			require.Len(t, requests, 3)
			require.Equal(t, len(requests[0].Chat.Messages), len(requests[1].Chat.Messages), "at first it is only asked again")
			said := texts(requests[2].Chat.Messages)
			require.Contains(t, strings.Join(said, "\n"), "Your last answer could not be read by your server, so no tool was called: ")
			if tt.wrote != "" {
				require.Contains(t, said, tt.wrote)
			}
		})
	}
}

func TestAModelThatIsNeverReadEndsTheRun(t *testing.T) {
	t.Parallel()
	m, server := serve(t, pygenttest.ToolUseFailed(unclosedCall))
	server.RepeatLast()
	agent := newAgentOn(t, nowhere{}, m)
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.ErrorContains(t, err, "Failed to call a function")
	require.Equal(t, pygent.StatusFailed, result.Status)
	require.Len(t, server.Requests(), 6)
}

func TestACallThatAServerRefusedIsReadAsText(t *testing.T) {
	t.Parallel()
	failed := pygenttest.ToolUseFailed(`<tool_call>` + "\n" + `{"name": "bash", "arguments": {"cmd": "true"}}` + "\n" + `</tool_call>`)
	m, _ := serve(t, failed, failed, stop)
	agent := newAgent(t, m, pygent.WithApproval(approving))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Len(t, results(agent), 2, "the call ran")
}

func TestAnAnswerWithoutEndIsCutOff(t *testing.T) {
	t.Parallel()
	endless := pygenttest.Text("I check the file again. ").WithQuirks(pygenttest.QuirkEndless)
	for name, reply := range map[string]pygenttest.Reply{
		"text": endless, "thoughts": pygenttest.Text("").WithReasoning("I check the file again. ").WithQuirks(pygenttest.QuirkEndless),
	} {
		t.Run(name, func(t *testing.T) {
			m, server := serve(t, reply, reply, reply, stop)
			_, err := m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
			require.ErrorContains(t, err, "the model repeated itself without end: \"I check")
			agent := newAgentOn(t, nowhere{}, m)
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status)
			requests := server.Requests()[1:]
			require.Len(t, requests, 3)
			require.Contains(t, texts(requests[2].Chat.Messages)[len(requests[2].Chat.Messages)-1], "repeated \"")
		})
	}
}

// TestAFileOfEqualLinesIsWritten has a call whose text repeats itself, as a fixture does.
func TestAFileOfEqualLinesIsWritten(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("all work and no play makes a dull boy\n", 800)
	m, _ := serve(t, pygenttest.Call("write_file", map[string]any{"path": "a", "content": content}))
	resp, err := m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
	require.NoError(t, err)
	require.Contains(t, resp.Message.ToolCalls[0].Arguments, strings.TrimSuffix(strings.ReplaceAll(content, "\n", `\n`), `\n`))
}

var (
	llamaError  = pygenttest.Status(500, "", `Failed to parse input at pos 17: <tool_call>{"cmd": "ls"`)
	ollamaError = pygenttest.Status(500, "", `error parsing tool call: raw='{"cmd": "ls"', err=unexpected end of JSON input`)
)

func TestThoughtsOfARefusedAnswerAreNotItsText(t *testing.T) {
	t.Parallel()
	failed := pygenttest.ToolUseFailed("<think>\nI list it.\n</think>\nThere is none.")
	m, server := serve(t, failed, failed, stop)
	_, err := newAgentOn(t, nowhere{}, m).RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	said := texts(server.Requests()[2].Chat.Messages)
	require.Contains(t, said, "There is none.")
	require.NotContains(t, strings.Join(said, "\n"), "I list it.")

	failed = pygenttest.ToolUseFailed("<think>\nI list it.\n<tool_call>\n" + `{"name": "bash", "arguments": {"cmd": "true"}}` + "\n</tool_call>")
	m, _ = serve(t, failed, failed, stop)
	agent := newAgent(t, m, pygent.WithApproval(approving))
	_, err = agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Len(t, results(agent), 2, "the call ran")
}

func TestACallThatTheUserDemandsStaysDemanded(t *testing.T) {
	t.Parallel()
	groq := pygenttest.Status(400, "tool_use_failed", "Tool choice is required, but model did not call a tool")
	s := pygenttest.NewServer(t, groq, pygenttest.Text("Hi."))
	m := newModel(t, pygent.OpenAIBaseURL(s.URL()), pygent.OpenAIExtraBody(map[string]any{"tool_choice": "required"}))
	req := ask()
	req.Tools, req.MustCall = []pygent.ToolSpec{{Name: "bash"}}, true
	_, err := m.Chat(t.Context(), req)
	require.True(t, apiError(t, err).Retryable)
	require.Len(t, s.Requests(), 1)
}
