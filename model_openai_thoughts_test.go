package pygent_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// shown is what a face shows of a stream.
type shown struct{ text, reasoning, notice string }

func (s *shown) add(d pygent.Delta) {
	if d.Withdrawn {
		s.text, s.reasoning = "", ""
	}
	s.text += d.Text
	s.reasoning += d.Reasoning
	s.notice += d.Notice
}

func TestThoughtsInTagsAreNotTheAnswer(t *testing.T) {
	t.Parallel()
	thinks := pygenttest.Text("Hello there.").WithReasoning("They greet me.").WithQuirks(pygenttest.QuirkThinkTags)
	bothWays(t, func(t *testing.T, chat func(*pygent.OpenAIModel, *pygent.ChatRequest) (*pygent.ChatResponse, error)) {
		m, server := serve(t, thinks, pygenttest.Text("Again."), pygenttest.Text("Other."))
		resp, err := chat(m, ask())
		require.NoError(t, err)
		require.Equal(t, "Hello there.", resp.Message.Text())

		history := ask(pygent.UserMessage("Hi."), resp.Message, pygent.UserMessage("And?"))
		_, err = chat(m, history)
		require.NoError(t, err)
		sent := server.Requests()[1].Chat.Messages[1]
		require.Equal(t, "<think>\nThey greet me.\n</think>\n\nHello there.", sent.Text(), "that model gets back what it wrote")
		require.Empty(t, sent.Extra)

		history.Model = "another"
		_, err = chat(m, history)
		require.NoError(t, err)
		sent = server.Requests()[2].Chat.Messages[1]
		require.Equal(t, "Hello there.", sent.Text())
		require.Empty(t, sent.Extra)
	})
	t.Run("faces", func(t *testing.T) {
		m, _ := serve(t, thinks)
		var s shown
		_, err := m.ChatStream(t.Context(), ask(), s.add)
		require.NoError(t, err)
		require.Equal(t, shown{"Hello there.", "\nThey greet me.\n", ""}, s)
	})
	t.Run("switched off", func(t *testing.T) {
		s := pygenttest.NewServer(t, thinks, pygenttest.Text("Again."))
		m := newModel(t, pygent.OpenAIBaseURL(s.URL()), pygent.OpenAISendReasoning(false))
		resp, err := m.Chat(t.Context(), ask())
		require.NoError(t, err)
		_, err = m.Chat(t.Context(), ask(pygent.UserMessage("Hi."), resp.Message, pygent.UserMessage("And?")))
		require.NoError(t, err)
		require.Equal(t, "Hello there.", s.Requests()[1].Chat.Messages[1].Text())
	})
}

func TestThoughtsWhoseTagIsInThePrompt(t *testing.T) {
	t.Parallel()
	thinks := pygenttest.Text("They greet me.\n</think>\n\nHello there.")
	m, _ := serve(t, thinks, thinks, pygenttest.Text("Just this."))
	for i, want := range []shown{
		{"Hello there.", "They greet me.", "the beginning of the answer was the model's reasoning, whose opening tag its server leaves out"},
		{"Hello there.", "They greet me.\n", ""},
		{"Just this.", "", "the model answered without reasoning"},
	} {
		var s shown
		resp, err := m.ChatStream(t.Context(), ask(), s.add)
		require.NoError(t, err)
		require.Equal(t, want, s, i)
		require.Equal(t, want.text, resp.Message.Text())
	}
}

func TestAnAnswerOfThoughtsAloneIsEmpty(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]pygenttest.Reply{
		"tags":     pygenttest.Text("<think>\nI should answer."),
		"a field":  pygenttest.Text("").WithReasoning("I should answer."),
		"unclosed": pygenttest.Text("<think>I should answer.</think>"),
	} {
		t.Run(name, func(t *testing.T) {
			m, server := serve(t, reply, reply)
			var notices []string
			agent := newAgentOn(t, nowhere{}, m, pygent.OnEvent(func(e pygent.Event) {
				if e.Type == pygent.EventNotice {
					notices = append(notices, e.Text)
				}
			}))
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusEmpty, result.Status)
			require.Contains(t, result.Reason, "only reasoning, twice; check its server's reasoning parser")
			require.Contains(t, strings.Join(notices, "\n"), "the model gave only reasoning and no answer")
			messages := server.Requests()[1].Chat.Messages
			require.Contains(t, messages[len(messages)-1].Text(), "had only reasoning")
		})
	}
}

func TestACallInThoughtsIsFound(t *testing.T) {
	t.Parallel()
	call := "I list the tasks.\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"cmd\": \"true\"}}\n</tool_call>"
	for name, reply := range map[string]pygenttest.Reply{
		"tags": pygenttest.Text("<think>\n" + call), "a field": pygenttest.Text("").WithReasoning(call),
		"in a line": pygenttest.Text("").WithReasoning(strings.Replace(call, "\n", " ", 1)),
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := serve(t, reply, stop)
			agent := newAgent(t, m, pygent.WithApproval(approving))
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status)
			require.Len(t, results(agent), 2, "the call ran")
		})
	}
}

// A model whose thoughts end with a call that cannot be run hears which it was.
func TestACallInThoughtsIsTold(t *testing.T) {
	t.Parallel()
	call := "I would write <tool_call>{\"name\": \"bash\", \"arguments\": {\"cmd\": \"true\"}}</tool_call>"
	for thoughts, want := range map[string]string{
		call: "has a call of bash in its reasoning, where nothing is run",
		"I'll call bash({\"cmd\": \"true\"}) later.": "had only reasoning",
	} {
		m, server := serve(t, pygenttest.Text("").WithReasoning(thoughts), stop)
		agent := newAgentOn(t, nowhere{}, m)
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		messages := server.Requests()[1].Chat.Messages
		require.Contains(t, messages[len(messages)-1].Text(), want)
	}
}

func TestThoughtsThatAreCutOffAreNoText(t *testing.T) {
	t.Parallel()
	half := pygenttest.Text("Hm, I sh").WithFinish(pygent.FinishLength)
	for _, closing := range []string{"</think>", "[/THINK]"} {
		bothWays(t, func(t *testing.T, chat func(*pygent.OpenAIModel, *pygent.ChatRequest) (*pygent.ChatResponse, error)) {
			m, _ := serve(t, pygenttest.Text("They greet me.\n"+closing+"\n\nHello."), half, pygenttest.Text("Short."+closing+"Hi."), pygenttest.Text("Plain."), half)
			for i, want := range []string{"Hello.", "", "Hi.", "Plain.", "Hm, I sh"} { // the last model does not think any more
				resp, err := chat(m, ask())
				require.NoError(t, err)
				require.Equal(t, want, resp.Message.Text(), i)
			}
		})
	}
}
