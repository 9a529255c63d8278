package pygent_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// hundred is what each model call costs here.
var hundred = pygent.Usage{PromptTokens: 90, CompletionTokens: 10}

// spender calls tools without end, and each call costs hundred.
func spender() pygenttest.Reply {
	n := 0
	return pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
		n++
		return callBash(fmt.Sprint("echo ", n)).WithUsage(hundred)
	})
}

func TestTasksShareTheTokensOfTheRun(t *testing.T) {
	t.Parallel()
	all := pygenttest.Call("task_status", map[string]any{"wait": 60}).WithUsage(hundred)
	for name, tt := range map[string]struct {
		limits pygent.Limits
		want   []string // descriptions of the tasks, in the order of their start
	}{
		"a quarter each": {pygent.Limits{}, []string{
			"error: 1300 of 1250 tokens are used (MaxTokens)", "error: 1300 of 1250 tokens are used (MaxTokens)"}},
		"what they ask for, while there is some": {pygent.Limits{MaxTokens: 4000}, []string{
			"error: 4000 of 4000 tokens are used (MaxTokens)", "error: 900 of 900 tokens are used (MaxTokens)"}},
	} {
		t.Run(name, func(t *testing.T) {
			gate := make(chan struct{})
			begun := make(chan struct{})
			model := pygenttest.NewScriptedModel(
				pygenttest.Calls(delegate("One"), pygenttest.Call("next", nil), delegate("Two")).WithUsage(hundred),
				all, all, all, stop.WithUsage(hundred)).
				On("One", pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
					close(begun)
					return callBash("true").WithUsage(hundred)
				}).WithGate(gate), spender()).On("Two", callBash("true").WithUsage(hundred), spender()).RepeatLast()
			next := pygent.NewTool("next", "", func(ctx context.Context, _ pygent.Runtime, _ struct{}) (string, error) {
				close(gate) // only now, so that One gets its share before Two
				<-begun
				return "", nil
			})
			agent := newAgent(t, model, pygent.WithTools(next),
				pygent.TaskDefaults(tt.limits), pygent.TaskDefaults(pygent.Limits{MaxSteps: 100}))
			result, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxTokens(5000), pygent.MaxSteps(10))
			require.NoError(t, err)
			tasks := byPrompt(t, agent)
			require.Equal(t, tt.want, []string{tasks["One"].String(), tasks["Two"].String()})
			sum := result.Usage.Total() + tasks["One"].Usage.Total() + tasks["Two"].Usage.Total()
			require.LessOrEqual(t, sum, int64(5000+3*100), "but for the last call of each")
		})
	}
}

func TestWhatATaskDoesNotSpendGoesBack(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(follow(
		always(delegate("Cheap").WithUsage(hundred)),
		func(id string) pygenttest.Reply { return wait(id).WithUsage(hundred) },
		always(callBash("echo 1").WithUsage(hundred)), always(callBash("echo 2").WithUsage(hundred)),
		always(callBash("echo 3").WithUsage(hundred)), always(callBash("echo 4").WithUsage(hundred)))).RepeatLast().
		On("Cheap", stop.WithUsage(hundred))
	agent := newAgent(t, model)
	result, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxTokens(600))
	require.NoError(t, err)
	require.Equal(t, pygent.StatusBudget, result.Status, result.Reason)
	require.Equal(t, "600 of 600 tokens are used (MaxTokens)", result.Reason)
	require.EqualValues(t, 500, result.Usage.Total())
	require.EqualValues(t, 100, result.TaskUsage.Total())
}

func TestRunStopsShortOfWhatItsTasksMaySpend(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(
		delegate("Hang").WithUsage(hundred),
		callBash("echo 1").WithUsage(hundred), callBash("echo 2").WithUsage(hundred), callBash("echo 3").WithUsage(hundred)).
		On("Hang", pygenttest.Text("").WithGate(nil))
	agent := newAgent(t, model)
	result, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxTokens(400))
	require.NoError(t, err)
	require.Equal(t, "300 tokens are used and 100 reserved for running tasks, of 400 (MaxTokens)", result.Reason)
}

func TestTasksOfTasksSpendTheSameTokens(t *testing.T) {
	t.Parallel()
	usage := func(r pygenttest.Reply) func(id string) pygenttest.Reply { return always(r.WithUsage(hundred)) }
	waits := func(id string) pygenttest.Reply { return wait(id).WithUsage(hundred) }
	model := pygenttest.NewScriptedModel(follow(usage(delegate("Lead")), waits, usage(stop))).RepeatLast().
		On("Lead", follow(usage(delegate("Sub")), waits, usage(stop))).RepeatLast().
		On("Sub", spender()).RepeatLast()
	agent := newAgent(t, model, pygent.MaxTaskDepth(2))
	result, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxTokens(8000))
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status, result.Reason)
	tasks := byPrompt(t, agent)
	require.Equal(t, pygent.TaskFinished, tasks["Lead"].State)
	require.Equal(t, "error: 500 of 500 tokens are used (MaxTokens)", tasks["Sub"].String(), "a quarter of a quarter")
	require.EqualValues(t, 500, tasks["Lead"].Result.TaskUsage.Total())
	require.EqualValues(t, 800, result.TaskUsage.Total(), "of all of them, each once")
}

func TestNoTaskStartsWhenNothingIsLeft(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(delegate("Late").WithUsage(hundred))
	agent := newAgent(t, model)
	result, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxTokens(100))
	require.NoError(t, err)
	require.Equal(t, pygent.StatusBudget, result.Status)
	require.Contains(t, results(agent)[0], "the budget of the run is used up")
	require.Empty(t, byPrompt(t, agent))
}

func TestMessageAfterTheRunIsNotBoundByItsTokens(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(follow(
		always(delegate("Ask").WithUsage(hundred)),
		func(id string) pygenttest.Reply { return wait(id).WithUsage(hundred) },
		always(stop.WithUsage(hundred)))).RepeatLast().
		On("Ask", pygenttest.Call("continue", map[string]any{"prompt": "Which?"}).WithUsage(hundred),
			callBash("echo 1").WithUsage(hundred), callBash("echo 2").WithUsage(hundred), stop.WithUsage(hundred))
	agent := newAgent(t, model)
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxTokens(400))
	require.NoError(t, err)
	id := byPrompt(t, agent)["Ask"].ID
	require.NoError(t, errOf(agent.Tasks().Send(t.Context(), id, "this one")))
	require.Equal(t, pygent.TaskFinished, waitTask(t, agent.Tasks(), id).State)
}

func TestTaskOfAToolCallIsDelegatedByItsAgent(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		opts func(ctx context.Context) []pygent.TaskOption
		want string
	}{
		"said": {func(ctx context.Context) []pygent.TaskOption {
			return []pygent.TaskOption{pygent.WithTaskCall(ctx)}
		}, "error: 300 of 250 tokens are used (MaxTokens)"},
		"not said": {func(context.Context) []pygent.TaskOption { return nil }, "error: the limit of 20 steps is reached (MaxSteps)"},
	} {
		t.Run(name, func(t *testing.T) {
			var agent *pygent.Agent
			hand := pygent.NewTool("hand", "", func(ctx context.Context, rt pygent.Runtime, _ struct{}) (string, error) {
				id, err := agent.Tasks().StartTask(ctx, "Spend", rt, tt.opts(ctx)...)
				if err != nil {
					return "", err
				}
				_, err = agent.Tasks().Wait(ctx, id)
				return id, err
			})
			model := pygenttest.NewScriptedModel(pygenttest.Call("hand", nil).WithUsage(hundred), stop.WithUsage(hundred)).
				On("Spend", spender()).RepeatLast()
			agent = newAgent(t, model, pygent.WithTools(hand))
			_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxTokens(1000))
			require.NoError(t, err)
			task := byPrompt(t, agent)["Spend"]
			require.Equal(t, tt.want, task.String())
			require.Equal(t, agent.ID(), task.Parent)
		})
	}
}

func TestWithTaskCallNeedsTheContextOfACall(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(stop))
	var none context.Context
	for _, ctx := range []context.Context{t.Context(), none} {
		_, err := m.StartTask(t.Context(), "go", nil, pygent.WithTaskCall(ctx))
		require.ErrorContains(t, err, "option WithTaskCall: the context is not that of a tool call")
	}
}

func TestTasksHaveTheLimitsOfTheirAgentsRuns(t *testing.T) {
	t.Parallel()
	const none = pygent.NoLimit
	steps, total := pygent.DefaultTaskStepTimeout, pygent.DefaultTaskMaxTime
	for name, tt := range map[string]struct {
		opts []pygent.Option
		want pygent.Limits
	}{
		"defaults":  {nil, pygent.Limits{StepTimeout: steps, MaxTime: total}},
		"set":       {[]pygent.Option{pygent.MaxSteps(7), pygent.MaxToolCalls(8), pygent.StepTimeout(9 * time.Minute), pygent.MaxTokens(10_000)}, pygent.Limits{MaxSteps: 7, MaxToolCalls: 8, StepTimeout: 9 * time.Minute, MaxTime: total}},
		"none":      {[]pygent.Option{pygent.MaxSteps(none), pygent.MaxToolCalls(none), pygent.StepTimeout(none)}, pygent.Limits{MaxSteps: none, MaxToolCalls: none, StepTimeout: none, MaxTime: total}},
		"overruled": {[]pygent.Option{pygent.MaxSteps(7), pygent.TaskDefaults(pygent.Limits{MaxSteps: 300, StepTimeout: none})}, pygent.Limits{MaxSteps: 300, StepTimeout: none, MaxTime: total}},
	} {
		t.Run(name, func(t *testing.T) {
			agent := newAgent(t, pygenttest.NewScriptedModel(stop), tt.opts...)
			var got pygent.Limits
			id := startTask(t, agent.Tasks(), "go", nil, pygent.WithTaskProfile(func(_ context.Context, spec pygent.TaskSpec) ([]pygent.Option, error) {
				got = spec.Limits
				return []pygent.Option{pygent.WithDocker(pygent.DockerNever)}, nil // else it would fetch the default image
			}))
			require.Equal(t, pygent.TaskFinished, waitTask(t, agent.Tasks(), id).State)
			require.Equal(t, tt.want, got)
		})
	}
}

// Twenty tasks at once, or twenty tasks of two tasks, spend no more than the limit
// and one last call each.
func TestManyTasksAtOnceShareALimit(t *testing.T) {
	if testing.Short() {
		t.Skip("runs many tasks")
	}
	t.Parallel()
	const each = 100
	for name, tt := range map[string]struct {
		depth int
		limit pygent.RunOption
		task  pygent.Limits // each of them
	}{
		"tokens, depth 1": {1, pygent.MaxTokens(6_000), pygent.Limits{MaxTokens: 250}}, "tokens, depth 2": {2, pygent.MaxTokens(6_000), pygent.Limits{}},
		"money, depth 1": {1, pygent.MaxCost(6), pygent.Limits{MaxCost: 0.25}}, "money, depth 2": {2, pygent.MaxCost(6), pygent.Limits{}},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			n, started := 0, map[int]int{}
			depthOf := func(text string) int {
				switch {
				case strings.Contains(text, "Work hard"):
					return 2
				case strings.Contains(text, "Lead them"):
					return 1
				}
				return 0
			}
			answers := pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
				mu.Lock()
				defer mu.Unlock()
				n++
				depth := depthOf(req.Messages[1].Text())
				if depth == 2 || started[depth] >= 20 {
					return priced(pygenttest.Call("bash", map[string]any{"cmd": fmt.Sprint("echo ", n)}))
				}
				prompt := "Work hard"
				if tt.depth == 2 && depth == 0 {
					prompt = "Lead them"
				}
				var calls []pygenttest.Reply
				for range 10 {
					started[depth]++
					calls = append(calls, delegate(prompt))
				}
				return priced(pygenttest.Calls(calls...))
			})
			model := pygenttest.NewScriptedModel(answers).RepeatLast()
			// An answer that streams is cut off if another task spends the rest meanwhile.
			whole := pygent.ModelFunc(model.Chat)
			agent := newAgentOn(t, hollow{}, whole, pygent.WithPrices(dollars), pygent.WithModelName("m"), pygent.MaxTaskDepth(tt.depth),
				pygent.TaskDefaults(tt.task), pygent.TaskDefaults(pygent.Limits{MaxSteps: 1_000, MaxToolCalls: pygent.NoLimit}), pygent.MaxTasks(20))
			_, err := agent.RunUntilStop(t.Context(), "go", tt.limit, pygent.MaxSteps(1_000), pygent.MaxToolCalls(pygent.NoLimit))
			require.NoError(t, err)
			var all []pygent.TaskStatus
			for rested := -1; rested < len(all); { // those of tasks begin meanwhile
				rested = len(all)
				all, err = agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
				require.NoError(t, err)
				for _, task := range all {
					waitTask(t, agent.Tasks(), task.ID)
				}
			}
			t.Logf("%d tasks", len(all))
			cancelled := 0 // with the task above, and so perhaps in a call that is not counted
			for _, task := range all {
				if task.State == pygent.TaskCancelled {
					cancelled++
				}
			}
			require.GreaterOrEqual(t, len(all), 10, "more only if the first ones leave something")
			used := agent.Usage()
			require.InDelta(t, each*len(model.Requests()), used.Total().Total(), float64(each*cancelled))
			require.LessOrEqual(t, used.Total().Total(), int64(6_000+each*(len(all)+1)))
			require.GreaterOrEqual(t, used.Total().Total(), int64(3_000), "what a task does not use of its share is not used twice, but most is")
			require.InDelta(t, float64(used.Total().Total())/1000, used.Cost, 1e-9)
		})
	}
}
