package pygent

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpenTasksAreThoseAtWork(t *testing.T) {
	gate := make(chan struct{})
	agent, err := New(WithRuntimeOptions(WithDocker(DockerNever)), WithModel(ModelFunc(func(ctx context.Context, _ *ChatRequest) (*ChatResponse, error) {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return &ChatResponse{Message: AssistantMessage("", ToolCall{ID: "c", Name: "stop"})}, nil
	})))
	require.NoError(t, err)
	defer agent.Close()

	open, err := agent.openTasks(t.Context())
	require.NoError(t, err)
	require.Empty(t, open, "none was ever started")
	id, err := agent.Tasks().StartTask(t.Context(), "work", agent.Runtime())
	require.NoError(t, err)
	open, err = agent.openTasks(t.Context())
	require.NoError(t, err)
	require.Len(t, open, 1)
	require.Equal(t, id, open[0].ID)
	close(gate)
	_, err = agent.Tasks().Wait(t.Context(), id)
	require.NoError(t, err)
	open, err = agent.openTasks(t.Context())
	require.NoError(t, err)
	require.Empty(t, open, "it rests")
}
