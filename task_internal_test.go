package pygent

import (
	"context"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
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

// Logs and replays are bounded by what sizeOf counts.
func TestLongTextsOfEventsCount(t *testing.T) {
	const size = 1 << 20
	// Names, ids and kinds are short, and so is what this package makes itself.
	short := []string{"ID", "Task", "Type", "Source", "Model", "Role", "ToolCallID", "Name", "FileName", "Title", "Kind", "Agent", "Why", "Session",
		"By", "Status", "Code", "RequestID", "End", "Outcome", "Path", "Tool", "Parent", "Root", "Call", "State", "Paths", "Disabled", "FullPath", "Note", "Host"}
	made := regexp.MustCompile(`\.(Runtime|Settings|Retry|Refused\[\])\.`)
	for k := 0; ; k++ {
		var e Event
		n := k
		path := setLeaf(reflect.ValueOf(&e).Elem(), &n, "Event", size)
		if path == "" {
			require.Greater(t, k, 100)
			with := Message{Extra: map[string]json.RawMessage{"reasoning_content": make([]byte, size)}}
			require.GreaterOrEqual(t, sizeOf(Event{Message: &with}), size)
			return
		}
		name := strings.TrimRight(path[strings.LastIndexByte(path, '.')+1:], "[]")
		if !slices.Contains(short, name) && !made.MatchString(path) {
			require.GreaterOrEqual(t, sizeOf(e), size, path)
		}
	}
}

// setLeaf sets the nth text below v to one of the given size, and returns its path; it is empty if
// there is none.
func setLeaf(v reflect.Value, n *int, path string, size int) string {
	switch v.Kind() {
	case reflect.String:
		if *n--; *n >= 0 {
			return ""
		}
		v.SetString(strings.Repeat("x", size))
		return path
	case reflect.Pointer:
		if strings.Count(path, ".") > 5 {
			return ""
		}
		to := reflect.New(v.Type().Elem())
		path = setLeaf(to.Elem(), n, path, size)
		if path != "" {
			v.Set(to)
		}
		return path
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if *n--; *n >= 0 {
				return ""
			}
			v.SetBytes(make([]byte, size))
			return path
		}
		all := reflect.MakeSlice(v.Type(), 1, 1)
		path = setLeaf(all.Index(0), n, path+"[]", size)
		if path != "" {
			v.Set(all)
		}
		return path
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			if at := setLeaf(v.Field(i), n, path+"."+f.Name, size); at != "" {
				return at
			}
		}
	}
	return ""
}
