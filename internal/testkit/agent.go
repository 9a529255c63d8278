package testkit

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

// NewAgent makes an agent, which is closed at the end of the test.
func NewAgent(t testing.TB, opts ...pygent.Option) *pygent.Agent {
	t.Helper()
	agent, err := pygent.New(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, agent.Close()) })
	return agent
}

// NewLocalAgent makes an agent as [NewAgentOn] does, whose commands run on this machine.
func NewLocalAgent(t testing.TB, model pygent.Model, opts ...pygent.Option) *pygent.Agent {
	t.Helper()
	rt, err := pygent.NewLocalRuntime(t.Context())
	require.NoError(t, err)
	return NewAgentOn(t, rt, model, opts...)
}

// NewAgentOn makes an agent on a runtime. At the end of the test it closes both, and checks
// that every provider would accept the history.
func NewAgentOn(t testing.TB, rt pygent.Runtime, model pygent.Model, opts ...pygent.Option) *pygent.Agent {
	t.Helper()
	agent, err := pygent.New(append([]pygent.Option{
		pygent.WithModel(model),
		pygent.WithRuntime(rt),
		pygent.WithRetry(pygent.RetryPolicy{BaseDelay: time.Millisecond}),
	}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, agent.Close())
		if agent.History().Len() > 0 {
			require.NoError(t, pygenttest.CheckConversation(agent.History().Messages()))
		}
	})
	return agent
}

// Quick makes an agent without files and instructions, which is closed at the end of the
// test.
func Quick(t testing.TB, model pygent.Model, opts ...pygent.Option) *pygent.Agent {
	t.Helper()
	return NewAgent(t, append([]pygent.Option{pygent.WithModel(model), pygent.WithRuntime(NoRuntime{})}, opts...)...)
}

// Results returns the contents of all tool messages in an agent's history.
func Results(a *pygent.Agent) []string {
	var all []string
	for _, m := range a.History().Messages() {
		if m.Role == chat.RoleTool {
			all = append(all, m.Content)
		}
	}
	return all
}

// CallBash is a reply that runs a command.
func CallBash(cmd string) pygenttest.Reply {
	return pygenttest.Call("bash", map[string]any{"cmd": cmd})
}

// Stop is a reply that ends a run.
var Stop = pygenttest.Call("stop", map[string]any{"summary": "all done"})

// MaxPrefix is how large the system prompt and the tools may be together, in
// bytes as they are sent. A provider processes them with every request, and bills
// them whenever they are not in its cache.
const MaxPrefix = 10_000

// ToolsSize is how large tools are as they are sent, in bytes.
func ToolsSize(t testing.TB, specs []chat.ToolSpec) (size int) {
	t.Helper()
	for _, spec := range specs {
		encoded, err := json.Marshal(spec)
		require.NoError(t, err)
		size += len(encoded)
	}
	return size
}
