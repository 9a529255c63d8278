//go:build linux

package pygent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// stopGuest is a script that stops its own ancestor which is a child of the
// test: the guest.
const stopGuest = `p=$$
while read -r _ _ _ parent _ </proc/$p/stat && [ "$parent" != %d ]; do p=$parent; done
kill -STOP $p; while :; do echo >>ticks; sleep 0.02; done`

func TestLocalGuestThatIsStoppedIsGivenUp(t *testing.T) {
	if testing.Short() {
		t.Skip("kills or stops processes")
	}
	t.Parallel()
	for name, tc := range map[string]struct {
		pace     pygent.RuntimeOption
		limit    time.Duration
		timedOut bool
	}{
		"at the limit":          {impatient(), 2 * time.Second, true},
		"without a limit":       {calling(), -1, false},
		"long before the limit": {calling(), time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := newTestRuntime(t, pygent.NewLocalRuntime, pygent.WithWorkspace(dir), tc.pace, reachable())
			bash(t, r, "echo kept >f; echo >ticks")
			res := bash(t, r, fmt.Sprintf(stopGuest, os.Getpid()), pygent.BashTimeout(tc.limit))
			require.Equal(t, tc.timedOut, res.TimedOut)
			require.Equal(t, -1, res.ExitCode)
			require.Contains(t, res.Note, "did not answer and was killed with all that it ran")
			requireStill(t, dir)
			require.Equal(t, "kept\n", bash(t, r, "cat f").Output)
		})
	}
}

// It is not parallel, because it measures time.
func TestARunDoesNotWaitForAStoppedGuestAfterEachCall(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits 10 s, and nothing runs beside it")
	}
	dir := t.TempDir()
	r := newTestRuntime(t, pygent.NewLocalRuntime, pygent.WithWorkspace(dir), impatient(), reachable())
	look := pygenttest.Call("look", nil)
	stopped := pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
		for os.WriteFile(filepath.Join(dir, "go"), nil, 0o600) == nil && t.Context().Err() == nil {
			if _, err := os.Stat(filepath.Join(dir, "ticks")); err == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		return pygenttest.Calls(look, look, look, look)
	})
	var heard jobEvents
	agent := newAgentOn(t, r, pygenttest.NewScriptedModel(background("until [ -e go ]; do sleep 0.02; done; "+fmt.Sprintf(stopGuest, os.Getpid())), stopped, stop).RepeatLast(),
		pygent.WithTools(plainTool("look", nil)), pygent.OnEvent(heard.hear))
	start := time.Now()
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Less(t, time.Since(start), 11*time.Second, "30 s if it waits after each call, and before the model is asked")
	require.Equal(t, []string{"1 true"}, heard.list())
	bash(t, r, "true", pygent.BashTimeout(100*time.Millisecond)) // gives the guest up, which otherwise has 10 s to end
}

func TestStoppedSupervisorEndsAtTheLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("kills or stops processes")
	}
	t.Parallel()
	dir := t.TempDir()
	r := newTestRuntime(t, pygent.NewLocalRuntime, pygent.WithWorkspace(dir))
	res := bash(t, r, "echo >ticks; kill -STOP $PPID; while :; do echo >>ticks; sleep 0.02; done", pygent.BashTimeout(soon))
	require.True(t, res.TimedOut)
	requireStill(t, dir)
	require.Zero(t, bash(t, r, "true").ExitCode)
}

func TestLocalRuntimeThatCannotStart(t *testing.T) {
	t.Run("no shell", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		_, err := pygent.NewLocalRuntime(t.Context())
		require.ErrorIs(t, err, pygent.ErrRuntimeStart)
		require.ErrorContains(t, err, "bash")
	})
	t.Run("no workspace", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		_, err := pygent.NewLocalRuntime(t.Context(), pygent.WithWorkspace(filepath.Join(file, "dir")))
		require.ErrorIs(t, err, pygent.ErrRuntimeStart)
	})
	t.Run("the workspace is gone", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "dir")
		r := newTestRuntime(t, pygent.NewLocalRuntime, pygent.WithWorkspace(dir))
		require.NoError(t, os.Remove(dir))
		_, err := r.Bash(t.Context(), "true")
		require.ErrorIs(t, err, pygent.ErrRuntimeStart)
		require.ErrorIs(t, r.(pygent.Starter).Start(t.Context()), pygent.ErrRuntimeStart)
	})
}
