package pygent_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

// While a model writes the arguments of a command, what runs the command is started.
// The arguments of other calls start nothing.
func TestWhatRunsCommandsStartsWhileTheModelWritesOne(t *testing.T) {
	idle := children(t)
	answers := pygenttest.NewScriptedModel(pygenttest.Call("write_file", map[string]any{"path": "f", "content": "x"}), callBash("cat f"), stop)
	model := pygent.StreamFunc(func(ctx context.Context, req *pygent.ChatRequest, emit func(pygent.Delta)) (*pygent.ChatResponse, error) {
		resp, err := answers.Chat(ctx, req)
		if err != nil {
			return nil, err
		}
		tool := resp.Message.ToolCalls[0].Name
		if tool != "stop" {
			assert.ElementsMatch(t, idle, children(t), "before %s", tool)
			emit(pygent.Delta{Call: &chat.CallDelta{Tool: tool}})
			emit(pygent.Delta{Call: &chat.CallDelta{Tool: tool, Bytes: 10}})
		}
		if tool == "bash" {
			assert.Eventually(t, func() bool { return len(children(t)) > len(idle) }, 10*time.Second, time.Millisecond)
		}
		return resp, nil
	})
	agent, err := pygent.New(pygent.WithModel(model), pygent.WithRuntime(localRuntime(t)))
	require.NoError(t, err)
	defer agent.Close()
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, "all done", result.Summary)
}

// A model may write a call of a tool that it was not given.
func TestAnAgentWithoutCommandsStartsNothingForThem(t *testing.T) {
	idle := children(t)
	var tools pygent.Registry
	require.NoError(t, tools.Add(pygent.NewTool("stop", "End.", func(context.Context, pygent.Runtime, struct{}) (string, error) { return "", nil })))
	model := pygent.StreamFunc(func(_ context.Context, _ *pygent.ChatRequest, emit func(pygent.Delta)) (*pygent.ChatResponse, error) {
		emit(pygent.Delta{Call: &chat.CallDelta{Tool: "bash"}})
		assert.Never(t, func() bool { return len(children(t)) > len(idle) }, 300*time.Millisecond, 10*time.Millisecond)
		return &pygent.ChatResponse{Message: chat.AssistantMessage("Done.")}, nil
	})
	rt := localRuntime(t)
	agent, err := pygent.New(pygent.WithModel(model), pygent.WithRuntime(rt), pygent.WithRegistry(&tools))
	require.NoError(t, err)
	_, err = agent.Step(t.Context(), "go")
	require.NoError(t, err)
	require.ElementsMatch(t, idle, children(t))
	require.NoError(t, agent.Close())
}
