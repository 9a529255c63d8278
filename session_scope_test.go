package pygent_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// A decision for the session about a tool of the program's own under a built-in
// name covers the very same call only.
func TestASessionDecisionCoversNoOtherArguments(t *testing.T) {
	for name, calls := range map[string][2]map[string]any{
		"bash":       {{"cmd": "deploy", "host": "staging"}, {"cmd": "deploy", "host": "production"}},
		"write_file": {{"path": "a", "content": "x", "host": "staging"}, {"path": "a", "content": "x", "host": "production"}},
	} {
		var asked []string
		approve := func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
			asked = append(asked, r.Call.Arguments)
			return pygent.Decision{Allow: true, Session: true}, nil
		}
		own := pygent.Tool{Name: name, Description: "Elsewhere",
			Run:        func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) { return nil, nil },
			Parameters: json.RawMessage(`{"type":"object","properties":{"cmd":{"type":"string"},"path":{"type":"string"},"content":{"type":"string"},"host":{"type":"string"}}}`)}
		model := pygenttest.NewScriptedModel(pygenttest.Call(name, calls[0]), pygenttest.Call(name, calls[1]), pygenttest.Call(name, calls[1]), stop)
		agent := quick(t, model, pygent.WithTools(own), pygent.WithApproval(approve))
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		require.Len(t, asked, 2, name)
	}
}

// isolates panics when it is asked whether it isolates.
type isolates struct{ noRuntime }

func (isolates) Isolated() bool { panic("unknown") }

func TestARuntimeWhoseIsolationPanics(t *testing.T) {
	require.NotPanics(t, func() {
		agent := quick(t, pygenttest.NewScriptedModel(pygenttest.Call("write_file", map[string]any{"path": "a", "content": "b"}), stop), pygent.WithRuntime(isolates{}))
		_, _ = agent.RunUntilStop(t.Context(), "go")
	})
}
