package pygent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/pygenttest"
)

// children are the processes that this one has started and that run.
func children(t *testing.T) (pids []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/children")
	require.NoError(t, err)
	for _, name := range files {
		data, _ := os.ReadFile(name) // an error means that the thread has ended
		pids = append(pids, strings.Fields(string(data))...)
	}
	return pids
}

// A task that has ended keeps its files and its conversation, and no process, unless it
// left one at work. The children are counted, so no other test may run meanwhile.
func TestALocalTaskAtRestKeepsNoProcess(t *testing.T) {
	parent := localRuntime(t)
	before := children(t)
	m := newTasks(t, pygenttest.NewScriptedModel(
		callBash("echo one >f; echo two >$TMPDIR/f"), pygenttest.Call("stop", map[string]any{"summary": "first"}),
		callBash("cat f $TMPDIR/f"), pygenttest.Call("stop", map[string]any{"summary": "second"}),
		pygenttest.Call("bash", map[string]any{"cmd": "sleep 600", "background": true}), pygenttest.Call("stop", nil), pygenttest.Call("stop", nil)))
	id := startTask(t, m, "begin", parent)
	require.Equal(t, "first", waitTask(t, m, id).Summary())
	require.ElementsMatch(t, before, children(t))

	_, err := m.Send(t.Context(), id, "go on")
	require.NoError(t, err)
	status := waitTask(t, m, id)
	require.Equal(t, "second", status.Summary(), status.Reason)
	require.ElementsMatch(t, before, children(t))

	_, err = m.Send(t.Context(), id, "start a server")
	require.NoError(t, err)
	waitTask(t, m, id)
	require.Greater(t, len(children(t)), len(before), "a job goes on")
	require.NoError(t, m.Close())
	require.ElementsMatch(t, before, children(t))
}
