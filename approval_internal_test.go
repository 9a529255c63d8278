package pygent

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/chat"
)

// A session at a terminal sets who is asked, and takes it back at its end.
func TestSettingsTellOfASessionsApproval(t *testing.T) {
	t.Parallel()
	type told struct{ asks, confirms bool }
	var all []told
	agent, err := New(WithModel(ModelFunc(noAnswer)), WithRuntime(struct{ Runtime }{}), OnEvent(func(e Event) {
		if e.Type == EventSettings {
			all = append(all, told{e.Settings.Approval, e.Settings.Confirm})
		}
	}))
	require.NoError(t, err)
	ask := func(context.Context, ApprovalRequest) (Decision, error) { return Decision{}, nil }
	session := agent.FaceSession()
	session.Answers(t.Context(), FaceUser{})() // nobody is asked, as in a session without a person
	session.Answers(t.Context(), FaceUser{Approve: ask})()
	end := session.Answers(t.Context(), FaceUser{Approve: ask})
	agent.SetApproval(ask)
	end() // what SetApproval set stays
	agent.events.awaitHandled(t.Context())
	require.Equal(t, []told{{true, true}, {false, false}, {true, true}, {true, true}, {true, false}}, all)
}

// Whoever is asked about hosts is told of a call that goes on, also of one that
// runs beside others.
func TestACallGoesOnWhileSeveralRun(t *testing.T) {
	t.Parallel()
	var agent *Agent
	looked := make(chan string, 1)
	read := func(name string, run func()) Tool {
		return Tool{Name: name, ReadOnly: true, Run: func(context.Context, Runtime, json.RawMessage) (*ToolResult, error) {
			run()
			return nil, nil
		}}
	}
	calls := []ToolCall{{ID: "a", Name: "first", Arguments: "{}"}, {ID: "b", Name: "second", Arguments: "{}"}}
	agent, err := New(WithRuntime(struct{ Runtime }{}),
		WithModel(ModelFunc(func(context.Context, *ChatRequest) (*ChatResponse, error) {
			return &ChatResponse{Message: chat.AssistantMessage("", calls...)}, nil
		})),
		WithTools(
			read("first", func() { require.Equal(t, "first", <-looked) }),
			read("second", func() {
				info, _ := CallFrom(agent.callGoingOn())
				looked <- info.Call.Name
			})))
	require.NoError(t, err)
	_, err = agent.Step(t.Context(), "go")
	require.NoError(t, err)
	require.Nil(t, agent.callGoingOn())
	require.Empty(t, agent.foreign.Names())
}

func TestASessionLeavesWhatSetAskHasSet(t *testing.T) {
	t.Parallel()
	asks := func(text string) FaceUser {
		return FaceUser{Answer: func(context.Context, AskRequest) (Answer, error) { return Answer{Text: text}, nil }}
	}
	agent := &Agent{}
	agent.deciders.opts = &agent.opts
	agent.deciders.approver.Begin(FaceUser{}, nil, FaceUser.over)
	agent.deciders.approver.Enter(asks("session"), nil)()
	require.Nil(t, agent.deciders.asker())
	end := agent.deciders.approver.Enter(asks("session"), nil)
	agent.SetAsk(asks("program").Answer)
	end()
	answer, err := agent.deciders.asker()(t.Context(), AskRequest{})
	require.NoError(t, err)
	require.Equal(t, "program", answer.Text)
}
