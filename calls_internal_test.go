package pygent

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/chat"
)

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
