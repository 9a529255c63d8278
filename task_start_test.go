package pygent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// gatedExport is a runtime whose ExportFile blocks until its gate is open.
type gatedExport struct {
	pygent.Runtime
	asked chan struct{} // gets a value at each ExportFile
	gate  chan struct{}
	err   error
}

func (r gatedExport) ExportFile(ctx context.Context, path, dest string) error {
	r.asked <- struct{}{}
	select {
	case <-r.gate:
	case <-ctx.Done():
		return ctx.Err()
	}
	if r.err != nil {
		return r.err
	}
	return r.Runtime.ExportFile(ctx, path, dest)
}

func (r gatedExport) NewTaskRuntime(ctx context.Context) (pygent.Runtime, error) {
	return pygent.NewLocalRuntime(ctx)
}

func newGatedExport(t *testing.T, err error) gatedExport {
	rt := localRuntime(t)
	require.NoError(t, rt.WriteFile(t.Context(), "f", []byte("x")))
	return gatedExport{Runtime: rt, asked: make(chan struct{}, 2), gate: make(chan struct{}), err: err}
}

// startLater starts a task in another goroutine.
func startLater(ctx context.Context, m *pygent.TaskManager, prompt string, rt pygent.Runtime, opts ...pygent.TaskOption) chan error {
	done := make(chan error, 1)
	go func() {
		_, err := m.StartTask(ctx, prompt, rt, opts...)
		done <- err
	}()
	return done
}

func TestOneIDIsOneRequest(t *testing.T) {
	t.Parallel()
	rt := localRuntime(t)
	require.NoError(t, rt.WriteFile(t.Context(), "f", []byte("x")))
	request := func(more ...pygent.TaskOption) []pygent.TaskOption {
		return append([]pygent.TaskOption{
			pygent.WithTaskID("mine"), pygent.WithTaskFiles("f"), pygent.WithTaskPersona(pygent.Persona{Name: "A"}),
			pygent.WithTaskLimits(pygent.Limits{MaxSteps: 3}),
		}, more...)
	}
	model := pygenttest.NewScriptedModel(stop)
	m := newTasks(t, model)
	startTask(t, m, "go", rt, request()...)
	waitTask(t, m, "mine")
	require.NoError(t, rt.WriteFile(t.Context(), "f", []byte("changed since")))
	startTask(t, m, "go", rt, request()...)
	require.Len(t, model.Requests(), 1, "the same request is the same task")

	for name, start := range map[string]struct {
		prompt string
		opts   []pygent.TaskOption
	}{
		"prompt":  {"go away", request()},
		"files":   {"go", request(pygent.WithTaskFiles("g"))},
		"persona": {"go", request(pygent.WithTaskPersona(pygent.Persona{Name: "B"}))},
		"limits":  {"go", request(pygent.WithTaskLimits(pygent.Limits{MaxSteps: 4}))},
		"model":   {"go", request(pygent.WithTaskModelName("m"))},
		"queue":   {"go", request(pygent.WithTaskQueue())},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := m.StartTask(t.Context(), start.prompt, rt, start.opts...)
			require.ErrorIs(t, err, pygent.ErrTaskExists)
			require.ErrorContains(t, err, name)
		})
	}
	all, err := m.Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	require.Len(t, all, 1)
}

func TestStartsAtOnceWithOneID(t *testing.T) {
	t.Parallel()
	for name, prompt := range map[string]string{"the same": "go", "another": "something else"} {
		t.Run(name, func(t *testing.T) {
			rt := newGatedExport(t, nil)
			model := pygenttest.NewScriptedModel(stop)
			m := newTasks(t, model)
			opts := []pygent.TaskOption{pygent.WithTaskID("mine"), pygent.WithTaskFiles("f")}
			first := startLater(t.Context(), m, "go", rt, opts...)
			<-rt.asked
			second := startLater(t.Context(), m, prompt, rt, opts...)
			if prompt != "go" {
				require.ErrorIs(t, <-second, pygent.ErrTaskExists)
				second = nil
			}
			close(rt.gate)
			require.NoError(t, <-first)
			if second != nil {
				require.NoError(t, <-second)
			}
			require.Equal(t, "go", waitTask(t, m, "mine").Prompt)
			require.Len(t, model.Requests(), 1)
			require.Empty(t, rt.asked, "the second one copied nothing")
		})
	}
}

func TestStartIsNotSpoiledByAnotherThatFails(t *testing.T) {
	t.Parallel()
	rt := newGatedExport(t, errors.New("the disk is full"))
	m := newTasks(t, pygenttest.NewScriptedModel(stop))
	opts := []pygent.TaskOption{pygent.WithTaskID("mine"), pygent.WithTaskFiles("f")}
	ctx, cancel := context.WithCancel(t.Context())
	first := startLater(ctx, m, "go", rt, opts...)
	<-rt.asked
	second := startLater(t.Context(), m, "go", rt, opts...)
	cancel()
	require.ErrorIs(t, <-first, context.Canceled)
	<-rt.asked // the second start tries for itself
	close(rt.gate)
	require.ErrorContains(t, <-second, "the disk is full")
	_, err := m.Status(t.Context(), "mine")
	require.ErrorIs(t, err, pygent.ErrUnknownTask)
}

func TestStartHonoursItsContext(t *testing.T) {
	t.Parallel()
	rt := newGatedExport(t, nil)
	m := newTasks(t, pygenttest.NewScriptedModel(stop))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.StartTask(ended, "go", rt)
	require.ErrorIs(t, err, context.Canceled)

	opts := []pygent.TaskOption{pygent.WithTaskID("mine"), pygent.WithTaskFiles("f")}
	first := startLater(t.Context(), m, "go", rt, opts...)
	<-rt.asked
	ctx, cancel := context.WithCancel(t.Context())
	second := startLater(ctx, m, "go", rt, opts...)
	cancel()
	require.ErrorIs(t, <-second, context.Canceled, "it does not wait for the other start")
	close(rt.gate)
	require.NoError(t, <-first)
}

func TestRefusedStartLeavesNothing(t *testing.T) {
	tmp := t.TempDir()
	rt := localRuntime(t)
	require.NoError(t, rt.WriteFile(t.Context(), "f", []byte("x")))
	t.Setenv("TMPDIR", tmp)
	model := pygenttest.NewScriptedModel(stop).RepeatLast().On("Stay put", pygenttest.Text("").WithGate(nil))
	m, err := pygent.NewTaskManager(pygent.MaxTasks(1),
		pygent.TaskPersonas(pygent.Persona{Name: "Tester"}, pygent.Persona{Name: "Writer"}, pygent.Persona{Name: "Reader"}),
		pygent.TaskAgents(pygent.WithModel(model)))
	require.NoError(t, err)
	names := []string{waitTask(t, m, startTask(t, m, "go", rt)).Persona.Name}
	hanging := startTask(t, m, "Stay put", rt)
	status, err := m.Status(t.Context(), hanging)
	require.NoError(t, err)
	names = append(names, status.Persona.Name)
	require.NoError(t, model.WaitRequests(t.Context(), 2)) // by then the task's workspace exists
	entries, err := os.ReadDir(tmp)
	require.NoError(t, err)
	for i := range 4 {
		_, err := m.StartTask(t.Context(), fmt.Sprint("no room ", i), rt, pygent.WithTaskFiles("f"))
		require.ErrorIs(t, err, pygent.ErrTooManyTasks)
		_, err = m.StartTask(t.Context(), "no file", rt, pygent.WithTaskFiles("nope"))
		require.ErrorContains(t, err, "nope")
		_, err = m.StartTask(t.Context(), "no profile", rt, pygent.WithTaskProfileName("nobody"))
		require.ErrorContains(t, err, "no task profile")
	}
	after, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.LessOrEqual(t, len(after), len(entries)+1, "the manager's own directory for files, at most")
	require.NoError(t, m.Cancel(t.Context(), hanging))
	waitTask(t, m, hanging)
	names = append(names, waitTask(t, m, startTask(t, m, "go", rt)).Persona.Name)
	require.Equal(t, []string{"Tester", "Writer", "Reader"}, names, "who was refused had no turn")
	require.NoError(t, m.Close())
	after, err = os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, after)
}

func TestWhatIsMissingIsAnErrorAndNoPanic(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(stop))
	rt := localRuntime(t)
	id := startTask(t, m, "go", rt, nil, pygent.WithTaskID("mine"), pygent.WithTaskProfile(nil), pygent.WithTaskFiles())
	require.Equal(t, pygent.TaskFinished, waitTask(t, m, id).State)
	require.ErrorContains(t, errOf(m.CollectFile(t.Context(), nil, id, "f", "")), "no runtime")
	require.ErrorContains(t, errOf(m.CollectFile(t.Context(), rt, id, "", "")), "the path is empty")

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var none context.Context
	for want, ctx := range map[string]context.Context{"the context is nil": none, "canceled": ended} {
		_, err := m.StartTask(ctx, "go", rt)
		require.ErrorContains(t, err, want)
		_, err = m.Status(ctx, id)
		require.ErrorContains(t, err, want)
		_, err = m.Tasks(ctx, pygent.TaskFilter{})
		require.ErrorContains(t, err, want)
		_, err = m.Wait(ctx, id)
		require.ErrorContains(t, err, want)
		_, err = m.TaskHistory(ctx, id)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, errOf(m.Send(ctx, id, "more")), want)
		require.ErrorContains(t, m.Cancel(ctx, id), want)
		require.ErrorContains(t, errOf(m.CollectFile(ctx, rt, id, "f", "")), want)
		require.ErrorContains(t, m.Remove(ctx, id), want)
	}
	startTask(t, m, "go", rt, pygent.WithTaskID("mine"))
	require.Equal(t, 1, waitTask(t, m, id).Runs, "it is known as before")
}
