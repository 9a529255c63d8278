package pygent_test

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
)

func TestToolCallsAreBoundedByTheStepsUnlessSet(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		opts []pygent.RunOption
		want int
	}{
		{"by default", nil, 100},
		{"few steps", []pygent.RunOption{pygent.MaxSteps(2)}, 100},
		{"more steps", []pygent.RunOption{pygent.MaxSteps(25)}, 125},
		{"any number of steps", []pygent.RunOption{pygent.MaxSteps(math.MaxInt)}, 130},
		{"set", []pygent.RunOption{pygent.MaxToolCalls(7), pygent.MaxSteps(25)}, 7},
		{"zero is the default", []pygent.RunOption{pygent.MaxToolCalls(0)}, 100},
		{"no limit", []pygent.RunOption{pygent.MaxToolCalls(pygent.NoLimit)}, 130},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var calls []pygenttest.Reply
			for i := range 130 {
				calls = append(calls, pygenttest.Call("job_output", map[string]any{"id": fmt.Sprint(i)}))
			}
			agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Calls(calls...), pygenttest.Text("done"), pygenttest.Text("done"), pygenttest.Text("done")))
			result, err := agent.RunUntilStop(t.Context(), "go", tt.opts...)
			require.NoError(t, err)
			require.Equal(t, tt.want, result.ToolCalls)
		})
	}
}

func TestOptionsThatContradictEachOtherAreRefused(t *testing.T) {
	t.Parallel()
	m, err := pygent.NewTaskManager()
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	model := pygent.WithModel(pygenttest.NewScriptedModel())
	tests := []struct{ one, other pygent.Option }{
		{model, pygent.WithOpenAI(openai.Key("k"))},
		{pygent.WithRuntime(nowhere{}), pygent.WithImage("x")},
		{pygent.WithHistory(chat.NewHistory()), pygent.WithHistoryFile("x.json")},
		{pygent.WithTaskManager(m), pygent.MaxTasks(1)},
	}
	names := [][2]string{{"WithModel", "WithOpenAI"}, {"WithRuntime", "WithImage"}, {"WithHistory", "WithHistoryFile"}, {"WithTaskManager", "MaxTasks"}}
	for i, tt := range tests {
		for _, opts := range [][]pygent.Option{{tt.one, tt.other}, {tt.other, tt.one}} {
			_, err := pygent.New(opts...)
			want := "options " + names[i][0] + " and " + names[i][1] + ": the second would be ignored"
			require.ErrorContains(t, err, want)
			_, err = pygent.NewTaskManager(pygent.TaskAgents(opts...))
			require.ErrorContains(t, err, "option TaskAgents: "+want)
		}
	}
}

func TestNilTakesBackWhatContradictsAnotherOption(t *testing.T) {
	t.Parallel()
	m, err := pygent.NewTaskManager()
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	agent, err := pygent.New(
		pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithModel(nil), pygent.WithOpenAI(openai.Key("k")),
		pygent.WithRuntime(nowhere{}), pygent.WithRuntime(nil), pygent.WithDocker(pygent.DockerNever),
		pygent.WithTaskManager(m), pygent.WithTaskManager(nil), pygent.MaxTasks(1),
		pygent.WithHistory(chat.NewHistory()), pygent.WithHistoryFile("x"), pygent.WithHistoryFile(""))
	require.NoError(t, err)
	require.NoError(t, agent.Close())
}

func TestNilBehindAnInterfaceIsNoPart(t *testing.T) {
	t.Parallel()
	var model *openai.Model
	var rt *struct{ pygent.Runtime }
	for want, opt := range map[string]pygent.Option{
		"the model is a nil *openai.Model":               pygent.WithModel(model),
		"the model is a nil pygent.ModelFunc":            pygent.WithModel(pygent.ModelFunc(nil)),
		"option WithModelMiddleware: it returned no":     pygent.WithModelMiddleware(func(pygent.Model) pygent.Model { return model }),
		"option WithRuntime: the runtime is a nil *stru": pygent.WithRuntime(rt),
		"option LendRuntime: the runtime is a nil *stru": pygent.LendRuntime(rt),
	} {
		_, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithRuntime(nowhere{}), opt)
		require.ErrorContains(t, err, want)
	}
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(stop))
	require.ErrorContains(t, agent.SetModel(model, ""), "set the model: the model is a nil *openai.Model")
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err, "it keeps its model")
}

func TestATaskWithoutAModelOfItsOwnHasThatOfTheOthers(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(stop))
	id, err := m.StartTask(t.Context(), "work", nil, pygent.WithTaskModel(nil))
	require.NoError(t, err)
	require.Equal(t, pygent.TaskFinished, waitTask(t, m, id).State)
}

func TestOptionsGoBeforeTheConfiguration(t *testing.T) {
	t.Setenv("PYGENT_HISTORY_FILE", filepath.Join(t.TempDir(), "of-the-environment.json"))
	cfg := pygent.Config{Workspace: t.TempDir(), Container: pygent.ContainerConfig{Image: "x"}, HistoryFile: filepath.Join(t.TempDir(), "h.json")}
	cfg.OpenAI.APIKey = "k"
	history := chat.NewHistory(chat.UserMessage("before"))
	agent, err := pygent.New(append(cfg.Options(),
		pygent.WithModel(pygenttest.NewScriptedModel(stop)), pygent.WithRuntime(nowhere{}), pygent.WithHistory(history))...)
	require.NoError(t, err)
	defer func() { require.NoError(t, agent.Close()) }()
	require.Same(t, history, agent.History())
	require.NoFileExists(t, cfg.HistoryFile)
	require.Equal(t, nowhere{}, agent.Runtime())
}

func TestOpenAIOptionsGoBeforeTheDefaultModel(t *testing.T) {
	server := pygenttest.NewServer(t, stop)
	pygent.SetDefaultModel(pygenttest.NewScriptedModel())
	defer pygent.SetDefaultModel(nil)
	agent, err := pygent.New(pygent.WithOpenAI(openai.BaseURL(server.URL())), pygent.WithRuntime(nowhere{}))
	require.NoError(t, err)
	defer func() { require.NoError(t, agent.Close()) }()
	_, err = agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Len(t, server.Requests(), 1)
}

func TestNilOptionsAreLeftOut(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, stop, stop)
	agent, err := pygent.New(nil, nil, pygent.WithOpenAI(openai.BaseURL(server.URL())), nil, pygent.WithDocker(pygent.DockerNever),
		nil, pygent.MaxTasks(1), nil, pygent.OnEvent(nil),
		pygent.WithModel(nil), pygent.WithPrompt(nil), pygent.WithHistory(nil), pygent.WithRuntime(nil), pygent.WithRegistry(nil), pygent.WithApproval(nil),
		pygent.OnEvent(nil), pygent.WithTaskManager(nil), pygent.WithLogger(nil), pygent.WithIO(nil, nil))
	require.NoError(t, err)
	defer func() { require.NoError(t, agent.Close()) }()
	result, err := agent.RunUntilStop(t.Context(), "go", nil, pygent.OnEvent(nil))
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Contains(t, agent.History().Messages()[0].Content, "You are Pygent")
	_, err = agent.Runtime().Bash(t.Context(), "true", nil)
	require.NoError(t, err)
	id, err := agent.Tasks().StartTask(t.Context(), "work", nil, nil)
	require.NoError(t, err)
	waitTask(t, agent.Tasks(), id)

	_, err = pygent.New(pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithRuntime(nowhere{}), pygent.WithTools(pygent.Tool{Name: "empty"}))
	require.ErrorContains(t, err, "tool empty: Run is nil")
}

func TestOptionsOfPartsAreOptionsOfTheAgent(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, callBash("echo one"), callBash("echo two"), callBash("echo three"))
	dir := t.TempDir()
	var events []pygent.EventType
	agent, err := pygent.New(
		pygent.WithWorkspace(dir), pygent.WithDocker(pygent.DockerNever),
		pygent.WithOpenAI(openai.BaseURL(server.URL())), pygent.WithOpenAI(openai.DefaultModel("mine")),
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
		"MaxSteps":          func(n int) pygent.Option { return pygent.MaxSteps(n) },
		"MaxToolCalls":      func(n int) pygent.Option { return pygent.MaxToolCalls(n) },
		"MaxReplies":        func(n int) pygent.Option { return pygent.MaxReplies(n) },
		"MaxTokens":         func(n int) pygent.Option { return pygent.MaxTokens(int64(n)) },
		"MaxCost":           func(n int) pygent.Option { return pygent.MaxCost(float64(n)) },
		"StepTimeout":       func(n int) pygent.Option { return pygent.StepTimeout(time.Duration(n)) },
		"MaxTime":           func(n int) pygent.Option { return pygent.MaxTime(time.Duration(n)) },
		"MaxTasks":          func(n int) pygent.Option { return pygent.MaxTasks(n) },
		"MaxTaskDepth":      func(n int) pygent.Option { return pygent.MaxTaskDepth(n) },
		"WithMemory":        func(n int) pygent.Option { return pygent.WithMemory(int64(n)) },
		"WithCPUs":          func(n int) pygent.Option { return pygent.WithCPUs(float64(n)) },
		"MaxPids":           func(n int) pygent.Option { return pygent.MaxPids(int64(n)) },
		"MaxCopyBytes":      func(n int) pygent.Option { return pygent.MaxCopyBytes(int64(n)) },
		"MaxNetworkBytes":   func(n int) pygent.Option { return pygent.MaxNetworkBytes(int64(n)) },
		"openai.AnswerTime": func(n int) pygent.Option { return pygent.WithOpenAI(openai.AnswerTime(time.Duration(n))) },
		"openai.MaxTokens":  func(n int) pygent.Option { return pygent.WithOpenAI(openai.MaxTokens(n)) },
		"openai.StallTimeouts": func(n int) pygent.Option {
			return pygent.WithOpenAI(openai.StallTimeouts(time.Duration(n), time.Duration(n)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := pygenttest.NewServer(t, callBash("true"), stop, callBash("true"), stop)
			for _, n := range []int{0, pygent.NoLimit} {
				agent, err := pygent.New(pygent.WithDocker(pygent.DockerNever), pygent.WithOpenAI(openai.BaseURL(server.URL())), limit(n))
				require.NoError(t, err)
				result, err := agent.RunUntilStop(t.Context(), "go")
				require.NoError(t, err)
				require.Equal(t, pygent.StatusStopped, result.Status)
				require.NoError(t, agent.Close())
			}
			_, err := pygent.New(pygent.WithDocker(pygent.DockerNever), pygent.WithOpenAI(openai.BaseURL(server.URL())), limit(-2))
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
