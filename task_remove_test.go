package pygent_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// shutting is a runtime whose ExportFile blocks until Cleanup is called.
type shutting struct {
	hollow
	reading, closed chan struct{}
}

func (s shutting) NewTaskRuntime(context.Context) (pygent.Runtime, error) { return s, nil }

func (s shutting) ExportFile(context.Context, string, string) error {
	close(s.reading)
	<-s.closed
	return pygent.ErrRuntimeClosed
}

func (s shutting) Cleanup() error {
	close(s.closed)
	return nil
}

func TestRemoveWhileFilesAreCollected(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		call func(m *pygent.TaskManager) error
		want error
	}{
		"remove": {func(m *pygent.TaskManager) error { return m.Remove(t.Context(), "mine") }, pygent.ErrUnknownTask},
		"close":  {func(m *pygent.TaskManager) error { return m.Close() }, pygent.ErrTaskManagerClosed},
	} {
		t.Run(name, func(t *testing.T) {
			rt := shutting{reading: make(chan struct{}), closed: make(chan struct{})}
			m := newTasks(t, pygenttest.NewScriptedModel(stop))
			startTask(t, m, "go", rt, pygent.WithTaskID("mine"))
			waitTask(t, m, "mine")
			collected := make(chan error)
			go func() { collected <- errOf(m.CollectFile(t.Context(), localRuntime(t), "mine", "f", "")) }()
			<-rt.reading
			require.NoError(t, end.call(m))
			require.ErrorIs(t, <-collected, end.want)
		})
	}
}

func TestRemoveHonoursItsContext(t *testing.T) {
	t.Parallel()
	rt := stuck{called: make(chan struct{}), free: make(chan struct{})}
	m := newTasks(t, pygenttest.NewScriptedModel(stop))
	startTask(t, m, "go", rt, pygent.WithTaskID("mine"))
	waitTask(t, m, "mine")
	ctx, cancel := context.WithCancel(t.Context())
	removed := make(chan error)
	go func() { removed <- m.Remove(ctx, "mine") }()
	<-rt.called
	cancel()
	err := <-removed
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "still being removed")
	_, err = m.Status(t.Context(), "mine")
	require.ErrorIs(t, err, pygent.ErrUnknownTask)
	close(rt.free)
	require.NoError(t, m.Close(), "which waits for the removal")
}

func TestFilesOfATaskThatNeverBegan(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(stop))
	status := waitTask(t, m, startTask(t, m, "go", nowhere{}))
	require.Equal(t, pygent.TaskFailed, status.State)
	_, err := m.CollectFile(t.Context(), localRuntime(t), status.ID, "f", "")
	require.ErrorContains(t, err, "it has no workspace: it ended before it had one")
}

func TestWithdrawnQuestionKeepsNoContainer(t *testing.T) {
	engine := testEngine(t)
	parent := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()))
	bash(t, parent, "true")
	before, _ := oursOn(t, engine)
	m := newTasks(t, pygenttest.NewScriptedModel(callBash("echo made > f"), pygenttest.Call("continue", map[string]any{"prompt": "Which?"})))
	id := startTask(t, m, "make it", parent)
	require.Equal(t, pygent.TaskAwaitingUser, waitTask(t, m, id).State)
	require.NoError(t, m.Cancel(t.Context(), id))
	after, _ := oursOn(t, engine)
	require.Len(t, after, len(before))
	require.NoError(t, errOf(m.CollectFile(t.Context(), parent, id, "f", "")))
}

func TestHistoryOfATaskIsThereUntilItIsRemoved(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(stop).RepeatLast())
	kept, removed := startTask(t, m, "keep me", hollow{}), startTask(t, m, "remove me", hollow{})
	for _, id := range []string{kept, removed} {
		waitTask(t, m, id)
	}
	require.Equal(t, []string{"keep me"}, userTexts(t, m, kept))
	require.NoError(t, m.Remove(t.Context(), removed))
	_, err := m.TaskHistory(t.Context(), removed)
	require.ErrorIs(t, err, pygent.ErrUnknownTask)
	require.NoError(t, m.Close())
	require.Equal(t, []string{"keep me"}, userTexts(t, m, kept))
}
