package pygent

import (
	"context"
	"encoding/json"
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
		return applyOptions([]Option{agent.inherited(), agent.rulesBelow().option(), WithBannedCommands(name), WithBannedApps(name), WithApprovalFor(name)})
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

func TestRuntimesOfTasksAreMadeLikeTheirParents(t *testing.T) {
	file := t.TempDir()
	for name, opts := range map[string][]RuntimeOption{
		"defaults":        nil,
		"capabilities":    {WithCapabilities("CHOWN")},
		"no capabilities": {WithCapabilities()},
		"limits":          {WithMemory(64 << 20), WithCPUs(0.5), MaxPids(7), MaxCopyBytes(8), MaxNetworkBytes(9)},
		"no limits":       {WithMemory(NoLimit), WithCPUs(NoLimit), MaxPids(NoLimit), MaxCopyBytes(NoLimit), MaxNetworkBytes(NoLimit)},
		"container": {WithImage("i"), WithContainerUser("u"), WithReadOnlyRoot(true), WithGPUs("all"), WithDockerHost("tcp://h:1"),
			WithSharedFiles(false), WithMounts(Mount{Source: file, Target: "/m", ReadOnly: true}), WithEnv("A=1")},
		"hosts":   {WithAllowedHosts("example.org")},
		"network": {WithNetwork("bridge")},
		"local":   {WithLocalProtection(ProtectionOff), WithLocalReadable(file), WithLocalWritable(file), WithLocalEnv("B")},
	} {
		t.Run(name, func(t *testing.T) {
			rt, err := NewLocalRuntime(t.Context(), opts...)
			require.NoError(t, err)
			defer func() { require.NoError(t, rt.Cleanup()) }()
			parent := *rt.(*workspaceRuntime)
			parent.info.Kind = kindDocker // as if there were an engine
			spec, env := parent.sibling()
			data, err := json.Marshal(spec)
			require.NoError(t, err)
			var decoded TaskRuntime
			require.NoError(t, json.Unmarshal(data, &decoded))
			child, err := newRuntimeOptions(decoded.options(env))
			require.NoError(t, err)
			want := *parent.options
			want.docker, want.keepLeftovers = DockerRequired, true
			want.queue, want.logger = child.queue, child.logger
			require.Equal(t, &want, child)
		})
	}
}

// A task that goes on with the next message does not rest in between: Wait would
// return the status of the run before.
func TestATaskWithMailDoesNotRest(t *testing.T) {
	task := newLocalTask(TaskSpec{ID: "t"}, nil)
	task.Begin(0)
	task.finish(task.snapshot(), &Result{Status: StatusStopped}, true, func(s *TaskStatus) { s.end(Limits{}, nil, nil) })
	require.False(t, task.AtRest()) // until Begin or Wait, which the crew calls next
}
