package pygent_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// texts returns the texts of messages.
func texts(messages []pygent.Message) (all []string) {
	for _, m := range messages {
		all = append(all, m.Text())
	}
	return all
}

func TestANewConversationSendsNothingOfTheOldOne(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	all, told := compactions()
	model := pygenttest.NewScriptedModel(pygenttest.Text("Hello."), pygenttest.Text("Welcome."), pygenttest.Text("Again."))
	open := func() *pygent.Agent {
		return newAgentOn(t, nowhere{}, model, told, pygent.WithHistoryFile(path), pygent.WithPrompt(func(pygent.PromptInfo) string { return "Be short." }))
	}
	say := func(agent *pygent.Agent, text string) {
		_, err := agent.RunUntilStop(t.Context(), text, pygent.WithEndOnReply())
		require.NoError(t, err)
	}
	agent := open()
	require.NoError(t, agent.NewConversation(t.Context()), "nothing was said yet")
	require.Empty(t, *all)
	say(agent, "Hi.")
	result, err := agent.RunCommand(t.Context(), "/new", nil)
	require.NoError(t, err)
	require.Equal(t, pygent.CommandResult{}, result)
	require.Equal(t, []string{"Be short."}, texts(agent.History().Conversation()))
	_, err = agent.Resume(t.Context())
	require.ErrorIs(t, err, pygent.ErrNothingToResume)
	say(agent, "Who are you?")
	require.Equal(t, []string{"Be short.", "Who are you?"}, texts(model.Requests()[1].Messages))
	require.Equal(t, []string{"Be short.", "Hi.", "Hello.", "Who are you?", "Welcome."}, texts(agent.History().Messages()), "the history keeps all")
	require.NoError(t, agent.Close())
	require.Len(t, *all, 1)
	require.Contains(t, (*all)[0].String(), "a new conversation begins; what was said before (2 messages) stays in the history")

	agent = open()
	say(agent, "And now?")
	require.Equal(t, []string{"Be short.", "Who are you?", "Welcome.", "And now?"}, texts(model.Requests()[2].Messages), "also after a restart")
}

func TestANewConversationAfterAnInterruptedRunIsLegal(t *testing.T) {
	t.Parallel()
	history := pygent.NewHistory(
		pygent.UserMessage("Go."),
		pygent.AssistantMessage("", pygent.ToolCall{ID: "a", Name: "bash", Arguments: `{"cmd":"true"}`}))
	model := pygenttest.NewScriptedModel(pygenttest.Text("Hello."))
	agent := newAgentOn(t, nowhere{}, model, pygent.WithHistory(history))
	require.NoError(t, agent.NewConversation(t.Context()))
	_, err := agent.RunUntilStop(t.Context(), "Hi.", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.Len(t, model.Requests()[0].Messages, 2)
	require.NoError(t, pygenttest.CheckConversation(agent.History().Messages()))
}

func TestASummaryQuotesNothingOfAnEarlierConversation(t *testing.T) {
	t.Parallel()
	server := worker(t, 12, pygenttest.Text("The second wish was worked on, with many calls of spill."))
	agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(server.URL())), pygent.WithTools(spill(4000)))
	_, err := agent.RunUntilStop(t.Context(), "the first wish", pygent.MaxSteps(3))
	require.NoError(t, err)
	require.NoError(t, agent.NewConversation(t.Context()))
	_, err = agent.RunUntilStop(t.Context(), "the second wish")
	require.NoError(t, err)
	require.NotContains(t, jsonOf(t, agent.History().Conversation()), "the first wish")
	_, err = agent.RunUntilStop(t.Context(), "the third wish")
	require.NoError(t, err)
	done, err := agent.Compact(t.Context())
	require.NoError(t, err)
	require.True(t, done.ByModel)
	require.Contains(t, done.Summary, "the second wish")
	require.NotContains(t, done.Summary, "the first wish")
}

func TestANewConversationWaitsForNoRun(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	model := pygenttest.NewScriptedModel(pygenttest.Text("Hello.").WithGate(gate))
	agent := newAgentOn(t, nowhere{}, model)
	done := make(chan error, 1)
	go func() {
		_, err := agent.RunUntilStop(t.Context(), "Hi.", pygent.WithEndOnReply())
		done <- err
	}()
	require.NoError(t, model.WaitRequests(t.Context(), 1))
	require.ErrorIs(t, agent.NewConversation(t.Context()), pygent.ErrAgentBusy)
	close(gate)
	require.NoError(t, <-done)
}
