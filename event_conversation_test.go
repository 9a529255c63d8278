package pygent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// onlyOf returns the events of some types.
func onlyOf(events []pygent.Event, types ...pygent.EventType) []pygent.Event {
	var only []pygent.Event
	for _, e := range events {
		for _, t := range types {
			if e.Type == t {
				only = append(only, e)
			}
		}
	}
	return only
}

// eventsOf makes a run and returns its events.
func eventsOf(t *testing.T, agent *pygent.Agent, msg string, opts ...pygent.RunOption) []pygent.Event {
	t.Helper()
	var events []pygent.Event
	for e, err := range agent.Events(t.Context(), msg, opts...) {
		require.NoError(t, err)
		events = append(events, e)
	}
	return events
}

func TestUserEventsSayWhoSpoke(t *testing.T) {
	t.Parallel()
	look := pygenttest.Call("look", map[string]any{})
	picture := pygent.Tool{Name: "look", Description: "Look", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
		return &pygent.ToolResult{Content: "seen", Images: []string{"data:image/png;base64,AA=="}}, nil
	}}
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Text("hello"), look, stop), pygent.WithTools(picture))
	var said []string
	for _, e := range onlyOf(eventsOf(t, agent, "do it"), pygent.EventUser) {
		said = append(said, fmt.Sprint(e.Source))
		require.Nil(t, e.Message)
		require.Equal(t, agent.History().Messages()[e.Messages].Text(), e.Text)
	}
	require.Equal(t, []string{"user", "nudge", "images"}, said)
}

func TestEventsTellTheLengthOfTheHistory(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(callBash("echo 1"), pygenttest.Text("hm"), stop))
	events := eventsOf(t, agent, "go", pygent.MaxToolCalls(1))
	history := agent.History().Messages()
	told := 1 // the system message, which comes first in the end, has no event
	for _, e := range onlyOf(events, pygent.EventUser, pygent.EventMessage, pygent.EventToolDone, pygent.EventToolSkipped) {
		told++
		require.Equal(t, told-1, e.Messages)
		switch last := history[e.Messages]; e.Type {
		case pygent.EventUser:
			require.Equal(t, pygent.RoleUser, last.Role)
		case pygent.EventMessage:
			require.Equal(t, e.Message.Text(), last.Text())
		default:
			require.Equal(t, e.Call.ID, last.ToolCallID)
		}
	}
	require.Equal(t, len(history), told)
}

func TestModelStartTellsEachAttempt(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Overloaded(), stop), pygent.WithModelName("m1"))
	var attempts []int
	for _, e := range onlyOf(eventsOf(t, agent, "go"), pygent.EventModelStart) {
		require.Equal(t, "m1", e.Model)
		require.Equal(t, 1, e.Messages)
		attempts = append(attempts, e.Attempt)
	}
	require.Equal(t, []int{1, 2}, attempts)
}

func TestLeavingAtModelStartDoesNotAsk(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(stop)
	agent := newAgent(t, model)
	for e, err := range agent.Events(t.Context(), "go") {
		require.NoError(t, err)
		if e.Type == pygent.EventModelStart {
			break
		}
	}
	require.Empty(t, model.Requests())
}

func TestRunEndDoesNotRepeatTheAnswer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		reply   pygenttest.Reply
		summary string
	}{
		"a reply":              {pygenttest.Text("the long answer"), ""},
		"a summary of its own": {pygenttest.TextAndCalls("the long answer", pygenttest.Call("stop", map[string]any{"summary": "short"})), "short"},
	} {
		t.Run(name, func(t *testing.T) {
			agent := newAgent(t, pygenttest.NewScriptedModel(tt.reply))
			events := eventsOf(t, agent, "go", pygent.WithEndOnReply())
			end := events[len(events)-1]
			require.Equal(t, "the long answer", end.Result.Message.Text(), "in Go it is complete")
			require.NotEmpty(t, end.Result.Summary)
			data, err := json.Marshal(end)
			require.NoError(t, err)
			require.NotContains(t, string(data), "long answer")
			var back pygent.Event
			require.NoError(t, json.Unmarshal(data, &back))
			require.Equal(t, tt.summary, back.Result.Summary)
			data, err = json.Marshal(end.Result)
			require.NoError(t, err)
			require.Contains(t, string(data), "long answer", "the result alone is complete")
		})
	}
}

func TestMessagesTellHowFullTheContextIs(t *testing.T) {
	t.Parallel()
	use := func(prompt, completion, reasoning int64) pygenttest.Reply {
		return pygenttest.Text("hi").WithUsage(pygent.Usage{PromptTokens: prompt, CompletionTokens: completion, ReasoningTokens: reasoning})
	}
	agent := newAgent(t, pygenttest.NewScriptedModel(use(1000, 50, 20), use(0, 0, 0)), pygent.WithModelName("gpt-4.1-mini"))
	var uses []pygent.ContextUse
	for _, e := range onlyOf(eventsOf(t, agent, "go"), pygent.EventMessage) {
		uses = append(uses, e.Context)
	}
	require.Equal(t, pygent.ContextUse{Used: 1030, Window: 1_047_576}, uses[0])
	require.True(t, uses[1].Estimated)
	require.NotZero(t, uses[1].Used)
	require.Equal(t, uses[1], agent.State().Context)
}
