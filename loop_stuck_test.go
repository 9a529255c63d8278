package pygent_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestOneResultValueEachTimeIsFoundStuck(t *testing.T) {
	t.Parallel()
	same := &pygent.ToolResult{Content: "no news"}
	asked := pygent.Tool{Name: "ask", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) { return same, nil }}
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("ask", nil)).RepeatLast(), pygent.WithTools(asked))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStuck, result.Status)
	require.Equal(t, 5, result.Steps)
	require.Equal(t, &pygent.ToolResult{Content: "no news"}, same, "the tool's own value stays as it was")
	require.Contains(t, results(agent)[2], "3 times in a row")
}

func TestAlternatingFailuresAreFoundStuck(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		round []pygenttest.Reply
		want  string
	}{
		"two":   {[]pygenttest.Reply{callBash("exit 3"), pygenttest.Call("download_file", map[string]any{"path": "none"})}, "the last 2 calls failed in the same way"},
		"three": {[]pygenttest.Reply{callBash("exit 3"), callBash("exit 4"), pygenttest.Call("none", nil)}, "the last 3 calls failed in the same way"},
	} {
		t.Run(name, func(t *testing.T) {
			var replies []pygenttest.Reply
			for range 6 {
				replies = append(replies, tt.round...)
			}
			agent := newAgent(t, pygenttest.NewScriptedModel(replies...))
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStuck, result.Status)
			require.Equal(t, tt.want+" 5 times in a row", result.Reason)
			require.Equal(t, 5*len(tt.round), result.ToolCalls)
			got := results(agent)
			require.NotContains(t, got[3*len(tt.round)-2], "try something else")
			require.Contains(t, got[3*len(tt.round)-1], tt.want+" 3 times in a row; try something else")
		})
	}
}

func TestAlternatingCallsThatFindNothingNewAreFoundStuck(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		round []pygenttest.Reply
		steps int
		want  string
	}{
		"two":              {[]pygenttest.Reply{callBash("ls"), callBash("true")}, 20, "the last 2 calls gave the same results 10 times in a row"},
		"one of two fails": {[]pygenttest.Reply{callBash("ls"), callBash("exit 3")}, 20, "the last 2 calls gave the same results 10 times in a row"},
		"with a wait":      {[]pygenttest.Reply{callBash("sleep 0.01"), callBash("true")}, 40, "the last 2 calls gave the same results 20 times in a row"},
		"a poll":           {[]pygenttest.Reply{callBash("echo curl pending")}, 10, "bash gave the same result 10 times in a row"},
		"a wait":           {[]pygenttest.Reply{callBash("sleep 0.01; echo pending")}, 20, "bash gave the same result 20 times in a row"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent := newAgent(t, pygenttest.NewScriptedModel(tt.round...).Loop())
			result, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(100))
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStuck, result.Status)
			require.Equal(t, tt.want, result.Reason)
			require.Equal(t, tt.steps, result.Steps)
		})
	}
}

func TestAlternatingWorkThatGetsSomewhereIsNotStuck(t *testing.T) {
	t.Parallel()
	var replies []pygenttest.Reply
	for range 6 {
		replies = append(replies, callBash("echo x >> log"), callBash("wc -l < log; false"))
	}
	for range 6 { // a wait: nothing changes, but nothing fails either
		replies = append(replies, callBash("true"), callBash("echo not yet"))
	}
	agent := newAgent(t, pygenttest.NewScriptedModel(append(replies, stop)...))
	result, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(100))
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
}

func TestLongOutputThatIsKeptInAFileIsFoundStuck(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(callBash("seq 20000")).RepeatLast())
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Contains(t, results(agent)[0], "the output is in")
	require.Equal(t, pygent.StatusStuck, result.Status)
}
