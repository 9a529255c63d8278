package pygent

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpenTasksAreThoseAtWork(t *testing.T) {
	gate := make(chan struct{})
	agent, err := New(WithDocker(DockerNever), WithModel(ModelFunc(func(ctx context.Context, _ *ChatRequest) (*ChatResponse, error) {
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

func TestTasksAddToWhatTheyInheritApart(t *testing.T) {
	agent, err := New(WithDocker(DockerNever), WithModel(ModelFunc(nil)),
		WithBannedCommands("a"), WithBannedCommands("b"), WithBannedCommands("c"),
		WithBannedApps("a"), WithBannedApps("b"), WithBannedApps("c"),
		WithApprovalFor("bash"), WithApprovalFor("stop"), WithApprovalFor("bash"))
	require.NoError(t, err)
	defer agent.Close()
	add := func(name string) options {
		return applyOptions([]Option{agent.inherited(), WithBannedCommands(name), WithBannedApps(name), WithApprovalFor(name)})
	}
	one, two := add("one"), add("two")
	for name, o := range map[string]options{"one": one, "two": two} {
		require.Equal(t, []string{"a", "b", "c", name}, o.banned)
		require.Equal(t, []string{"a", "b", "c", name}, o.bannedApps)
		require.Equal(t, []string{"bash", "stop", "bash", name}, o.approvalFor)
	}
}

func TestEventsThatAreKeptLongest(t *testing.T) {
	require.Less(t, worthOf(Event{Type: EventText}), worthOf(Event{Type: EventMessage}))
	require.Less(t, worthOf(Event{Type: EventReasoning}), worthOf(Event{Type: EventApproval}))
	require.Less(t, worthOf(Event{Type: EventApproval}), worthOf(Event{Type: EventTask}))
}
