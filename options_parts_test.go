package pygent_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestOptionsOfPartsAreOptionsOfTheAgent(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, callBash("echo one"), callBash("echo two"), callBash("echo three"))
	dir := t.TempDir()
	var events []pygent.EventType
	agent, err := pygent.New(
		pygent.WithWorkspace(dir), pygent.WithDocker(pygent.DockerNever),
		pygent.OpenAIBaseURL(server.URL()), pygent.OpenAIDefaultModel("mine"),
		pygent.MaxSteps(2),
		pygent.MaxTasks(5), pygent.TaskPersonas(pygent.Persona{Name: "Ada", Description: "counts"}),
		pygent.OnEvent(func(e pygent.Event) { events = append(events, e.Type) }),
	)
	require.NoError(t, err)
	defer func() { require.NoError(t, agent.Close()) }()
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusMaxSteps, result.Status)
	require.Equal(t, 2, result.Steps)
	require.Contains(t, string(server.Requests()[0].Body[:100]), `"mine"`)
	require.Equal(t, "Ada", agent.Tasks().Personas()[0].Name)
	require.Equal(t, dir, agent.Runtime().(pygent.Describer).Describe(t.Context()).Workspace)
	require.Contains(t, events, pygent.EventRunEnd)
}

func TestRunOptionsOfTheAgentAreWhereItsRunsStart(t *testing.T) {
	t.Parallel()
	replies := []pygenttest.Reply{callBash("echo a"), callBash("echo b"), callBash("echo c"), stop}
	agent := newAgent(t, pygenttest.NewScriptedModel(replies...), pygent.MaxSteps(1))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusMaxSteps, result.Status)
	result, err = agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(pygent.NoLimit))
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
}

func TestOfEveryLimitZeroIsTheDefaultAndNoLimitIsNone(t *testing.T) {
	if testing.Short() {
		t.Skip("runs many agents")
	}
	t.Parallel()
	for name, limit := range map[string]func(n int) pygent.Option{
		"MaxSteps":            func(n int) pygent.Option { return pygent.MaxSteps(n) },
		"MaxToolCalls":        func(n int) pygent.Option { return pygent.MaxToolCalls(n) },
		"MaxReplies":          func(n int) pygent.Option { return pygent.MaxReplies(n) },
		"MaxTokens":           func(n int) pygent.Option { return pygent.MaxTokens(int64(n)) },
		"MaxCost":             func(n int) pygent.Option { return pygent.MaxCost(float64(n)) },
		"StepTimeout":         func(n int) pygent.Option { return pygent.StepTimeout(time.Duration(n)) },
		"MaxTime":             func(n int) pygent.Option { return pygent.MaxTime(time.Duration(n)) },
		"MaxTasks":            func(n int) pygent.Option { return pygent.MaxTasks(n) },
		"MaxTaskDepth":        func(n int) pygent.Option { return pygent.MaxTaskDepth(n) },
		"WithMemory":          func(n int) pygent.Option { return pygent.WithMemory(int64(n)) },
		"WithCPUs":            func(n int) pygent.Option { return pygent.WithCPUs(float64(n)) },
		"MaxPids":             func(n int) pygent.Option { return pygent.MaxPids(int64(n)) },
		"MaxCopyBytes":        func(n int) pygent.Option { return pygent.MaxCopyBytes(int64(n)) },
		"MaxNetworkBytes":     func(n int) pygent.Option { return pygent.MaxNetworkBytes(int64(n)) },
		"OpenAIAnswerTime":    func(n int) pygent.Option { return pygent.OpenAIAnswerTime(time.Duration(n)) },
		"OpenAIMaxTokens":     func(n int) pygent.Option { return pygent.OpenAIMaxTokens(n) },
		"OpenAIStallTimeouts": func(n int) pygent.Option { return pygent.OpenAIStallTimeouts(time.Duration(n), time.Duration(n)) },
	} {
		t.Run(name, func(t *testing.T) {
			server := pygenttest.NewServer(t, callBash("true"), stop, callBash("true"), stop)
			for _, n := range []int{0, pygent.NoLimit} {
				agent, err := pygent.New(pygent.WithDocker(pygent.DockerNever), pygent.OpenAIBaseURL(server.URL()), limit(n))
				require.NoError(t, err)
				result, err := agent.RunUntilStop(t.Context(), "go")
				require.NoError(t, err)
				require.Equal(t, pygent.StatusStopped, result.Status)
				require.NoError(t, agent.Close())
			}
			_, err := pygent.New(pygent.WithDocker(pygent.DockerNever), pygent.OpenAIBaseURL(server.URL()), limit(-2))
			require.ErrorContains(t, err, name)
		})
	}
}

func TestTasksMayHaveNoLimits(t *testing.T) {
	t.Parallel()
	none := pygent.Limits{MaxSteps: pygent.NoLimit, MaxToolCalls: pygent.NoLimit, MaxTokens: pygent.NoLimit, MaxCost: pygent.NoLimit, StepTimeout: pygent.NoLimit, MaxTime: pygent.NoLimit}
	m := newTasks(t, pygenttest.NewScriptedModel(callBash("true"), stop))
	id := startTask(t, m, "go", localRuntime(t), pygent.WithTaskLimits(none))
	status, err := m.Wait(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, pygent.TaskFinished, status.State)
}

func TestEventsOfTheRuntimeReachItsOwnHandlerToo(t *testing.T) {
	t.Parallel()
	var own, agents []string
	limited := func(e *pygent.RuntimeEvent) bool { return e != nil && e.Kind == pygent.RuntimeLimited }
	agent, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithDocker(pygent.DockerNever),
		pygent.WithAllowedHosts("example.org"), // which the local runtime says to be no limit
		pygent.OnEvent(func(e pygent.Event) {
			if limited(e.Runtime) {
				agents = append(agents, e.Text)
			}
		}),
		pygent.OnRuntimeEvent(func(e pygent.RuntimeEvent) {
			if limited(&e) {
				own = append(own, e.Text)
			}
			panic("which must not reach New")
		}))
	require.NoError(t, err)
	require.NoError(t, agent.Close())
	require.NotEmpty(t, own)
	require.Equal(t, agents, own)
}
