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
	t.Parallel()
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
	t.Parallel()
	require.NotPanics(t, func() {
		agent := quick(t, pygenttest.NewScriptedModel(pygenttest.Call("write_file", map[string]any{"path": "a", "content": "b"}), stop), pygent.WithRuntime(isolates{}))
		_, _ = agent.RunUntilStop(t.Context(), "go")
	})
}

// A decision for the session does not cover another tool that gets the name of
// the one that was decided about.
func TestASessionDecisionCoversNoOtherTool(t *testing.T) {
	t.Parallel()
	describes := func(text string) func(*pygent.Tool) {
		return func(t *pygent.Tool) { t.Description = text }
	}
	for name, change := range map[string]func(*pygent.Tool){
		"the same":    describes("Deploys to staging."),
		"description": describes("Deploys to production."),
		"kind":        func(t *pygent.Tool) { t.Description, t.Kind = "Deploys to staging.", pygent.ToolRun },
		"reads only":  func(t *pygent.Tool) { t.Description, t.ReadOnly, t.NeedsApproval = "Deploys to staging.", true, true },
		"parameters": func(t *pygent.Tool) {
			t.Description, t.Parameters = "Deploys to staging.", json.RawMessage(`{"type":"object","properties":{"host":{"type":"string"}}}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			agent := quick(t, pygenttest.NewScriptedModel(pygenttest.Call("deploy", nil), pygenttest.Call("deploy", nil), pygenttest.Call("deploy", nil), stop),
				pygent.WithTools(plainTool("deploy", describes("Deploys to staging."))),
				pygent.WithApproval(func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) {
					asked++
					return pygent.Decision{Allow: true, Session: true}, nil
				}))
			_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(1))
			require.NoError(t, err)
			require.NoError(t, agent.Tools().Add(plainTool("deploy", change)))
			_, err = agent.RunUntilStop(t.Context(), "again")
			require.NoError(t, err)
			want := 2
			if name == "the same" {
				want = 1
			}
			require.Equal(t, want, asked)
		})
	}
}

// A tool under a built-in name that takes the same arguments does something
// else, and gets no decision for the built-in one.
func TestADecisionForABuiltinToolCoversNoOther(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]map[string]any{"bash": {"cmd": "ls"}, "write_file": {"path": "a", "content": "b"}} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			agent := quick(t, pygenttest.NewScriptedModel(pygenttest.Call(name, args), pygenttest.Call(name, args), stop, pygenttest.Call(name, args), stop),
				pygent.WithApproval(func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) {
					asked++
					return pygent.Decision{Allow: true, Session: true}, nil
				}))
			_, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, 1, asked)
			var same pygent.Tool
			for _, tool := range agent.Tools().Tools() {
				if tool.Name == name {
					same = tool
				}
			}
			other := plainTool(name, func(t *pygent.Tool) { t.Description, t.Parameters = "Elsewhere.", same.Parameters })
			require.NoError(t, agent.Tools().Add(other))
			_, err = agent.RunUntilStop(t.Context(), "again")
			require.NoError(t, err)
			require.Equal(t, 2, asked)
		})
	}
}
