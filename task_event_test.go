package pygent_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestEventsOfTasksOfTasksAreSeenOnce(t *testing.T) {
	t.Parallel()
	waits := func(id string) pygenttest.Reply { return wait(id) }
	model := pygenttest.NewScriptedModel(follow(always(delegate("Lead")), waits, always(stop))).RepeatLast().
		On("Lead", follow(always(delegate("Sub")), waits, always(stop))).RepeatLast().
		On("Sub", callBash("echo hi"), stop)
	var mu sync.Mutex
	manager, agents := map[string][]int64{}, map[string][]pygent.EventType{}
	agent := newAgent(t, model,
		pygent.MaxTaskDepth(2), pygent.OnTaskEvent(func(e pygent.Event) {
			mu.Lock()
			defer mu.Unlock()
			manager[e.Task] = append(manager[e.Task], e.Seq)
		}),
		pygent.OnEvent(func(e pygent.Event) {
			mu.Lock()
			defer mu.Unlock()
			if e.Type != pygent.EventOutput { // which may be left out
				agents[e.Task] = append(agents[e.Task], e.Type)
			}
		}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	tasks := byPrompt(t, agent)
	mu.Lock()
	defer mu.Unlock()
	sub, lead := tasks["Sub"], tasks["Lead"]
	require.Equal(t, lead.ID, sub.Parent)
	for i, seq := range manager[sub.ID] {
		require.EqualValues(t, i+1, seq, "each once, in order")
	}
	require.Len(t, manager[sub.ID], int(sub.Seq))
	require.Len(t, manager[lead.ID], int(lead.Seq), "its own alone")
	once := []pygent.EventType{
		pygent.EventTask, pygent.EventUser,
		pygent.EventStep, pygent.EventModelStart, pygent.EventCallDelta, pygent.EventMessage, pygent.EventToolCall, pygent.EventToolStart, pygent.EventToolDone,
		pygent.EventStep, pygent.EventModelStart, pygent.EventCallDelta, pygent.EventMessage, pygent.EventToolCall, pygent.EventToolStart, pygent.EventToolDone,
		pygent.EventRunEnd, pygent.EventTask,
	}
	require.Equal(t, once, agents[sub.ID], "as the agent above sees them")
}

func TestStackOfAPanicIsForTheLog(t *testing.T) {
	t.Parallel()
	panics := func(context.Context, pygent.TaskSpec) ([]pygent.Option, error) { panic("oh no") }
	bad := pygent.WithPrompt(func(pygent.PromptInfo) string { panic("oh no") })
	for name, opt := range map[string]pygent.TaskOption{
		"profile": pygent.WithTaskProfile(panics),
		"prompt": pygent.WithTaskProfile(func(context.Context, pygent.TaskSpec) ([]pygent.Option, error) {
			return []pygent.Option{bad}, nil
		}),
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			m := newTasks(t, pygenttest.NewScriptedModel(stop), pygent.TaskAgents(pygent.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))))
			status := waitTask(t, m, startTask(t, m, "go", localRuntime(t), opt))
			require.Equal(t, pygent.TaskFailed, status.State)
			require.Contains(t, status.Reason, "panic: oh no")
			require.NotContains(t, status.Reason, "goroutine")
			require.NoError(t, m.Close())
			require.Contains(t, log.String(), "goroutine", "the log has the stack")
		})
	}
}

func TestPanicOfTheEventHandlerHarmsNobody(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	m := newTasks(t, pygenttest.NewScriptedModel(stop),
		pygent.TaskAgents(pygent.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))),
		pygent.OnTaskEvent(func(pygent.Event) { panic("oh no") }))
	require.Equal(t, pygent.TaskFinished, waitTask(t, m, startTask(t, m, "go", localRuntime(t))).State)
	require.NoError(t, m.Close())
	require.Contains(t, log.String(), "oh no")
}
