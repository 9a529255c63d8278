// These tests stop and kill a Docker Engine of their own while commands run in its
// containers.

package pygent_test

import (
	"slices"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit/enginetest"
	"github.com/x/pygent/pygenttest"
)

// ownEngine is a dockerd for one test, which may do anything to it.
type ownEngine struct{ *enginetest.Own }

// newOwnEngine starts a dockerd that has the small image of the tests.
func newOwnEngine(t *testing.T, flags ...string) ownEngine {
	t.Helper()
	return ownEngine{enginetest.Start(t, testEngine(t), testBusyboxImage(), flags...)}
}

// newRuntime makes a runtime on the engine, with a file in its workspace dir.
func (e ownEngine) newRuntime(t *testing.T, opts ...pygent.RuntimeOption) (r pygent.Runtime, dir string) {
	t.Helper()
	dir = realTempDir(t)
	r = newTestRuntime(t, pygent.NewDockerRuntime, append([]pygent.RuntimeOption{
		pygent.WithImage(testBusyboxImage()), pygent.WithDockerHost(e.Host), pygent.WithWorkspace(dir),
	}, opts...)...)
	bash(t, r, "echo kept >f")
	return r, dir
}

// containers returns the containers with a directory, without those that a killed engine
// was removing. The next engine, of version 20.10, sometimes cannot load such a one again
// ("failed to register link for container"), and leaves it dead and without a name, for
// pygent prune.
func (e ownEngine) containers(t *testing.T, dir string) []container.Summary {
	return slices.DeleteFunc(containersOf(t, e.Client, dir), func(c container.Summary) bool {
		return c.State == container.StateDead
	})
}

func TestEngineThatIsStopped(t *testing.T) {
	t.Parallel()
	e := newOwnEngine(t)
	r, dir := e.newRuntime(t, pygent.WithTestAttached(), impatient())
	running := beginBash(t, r, dir, ticking, pygent.BashTimeout(2*time.Second))
	e.Freeze(t)
	res := <-running
	require.NoError(t, res.err)
	require.True(t, res.TimedOut)
	require.Contains(t, res.Note, "the command may still run")
	_, err := r.Bash(t.Context(), "true", pygent.BashTimeout(50*time.Millisecond))
	require.ErrorIs(t, err, pygent.ErrRuntimeLost)
	e.Thaw(t)
	require.Equal(t, "kept\n", bash(t, r, "cat f").Output)
	requireStill(t, dir)
}

// TestEngineThatIsKilled kills the engine while a command runs, which does not
// end the command. An engine that starts again either ends its old containers
// or takes them over.
func TestEngineThatIsKilled(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"ends its containers": nil, "restores its containers": {"--live-restore"}} {
		t.Run(name, func(t *testing.T) {
			e := newOwnEngine(t, flags...)
			r, dir := e.newRuntime(t, pygent.WithTestAttached())
			running := beginBash(t, r, dir, ticking, pygent.BashTimeout(2500*time.Millisecond))
			e.Kill(t)
			res := <-running
			require.NoError(t, res.err)
			require.Contains(t, res.Note, "the connection to the container was lost")
			require.Contains(t, res.Note, "the command may still run")
			_, err := r.Bash(t.Context(), "true", pygent.BashTimeout(50*time.Millisecond))
			require.ErrorIs(t, err, pygent.ErrRuntimeLost)
			e.Start(t)
			require.Equal(t, "kept\n", bash(t, r, "cat f").Output)
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				assert.Len(c, e.containers(t, dir), 1)
			}, 20*time.Second, 20*time.Millisecond, "an engine that comes back removes what it ended in its own time")
			requireStill(t, dir)
		})
	}
}

// TestCommandsGoOnWithoutTheirEngine stops the engine and kills it. What goes to the
// guest does not pass it.
func TestCommandsGoOnWithoutTheirEngine(t *testing.T) {
	t.Parallel()
	e := newOwnEngine(t)
	r, dir := e.newRuntime(t)
	bash(t, r, "echo >/here")
	running := beginBash(t, r, dir, "until test -f stopped; do sleep 0.02; done; echo on")
	e.Freeze(t)
	require.NoError(t, r.WriteFile(t.Context(), "stopped", nil))
	res := <-running
	require.NoError(t, res.err)
	require.Equal(t, "on\n", res.Output)
	limited := bash(t, r, ticking, pygent.BashTimeout(soon))
	require.True(t, limited.TimedOut)
	require.NotContains(t, limited.Note, "may still run")
	requireStill(t, dir)
	e.Thaw(t)

	e.Kill(t)
	require.Equal(t, "kept\n", bash(t, r, "test -f /here && cat f").Output)
	e.Start(t) // which ends the container
	require.Eventually(t, func() bool { return bash(t, r, "test -f /here").ExitCode == 1 }, 20*time.Second, 20*time.Millisecond)
	require.Equal(t, "kept\n", bash(t, r, "cat f").Output)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Len(c, e.containers(t, dir), 1)
	}, 20*time.Second, 20*time.Millisecond)
}

// TestGuestOutlivesItsEngineForAMoment kills the engine, so that only the guest
// itself can end what it runs.
func TestGuestOutlivesItsEngineForAMoment(t *testing.T) {
	t.Parallel()
	e := newOwnEngine(t)
	r, dir := e.newRuntime(t, pygent.WithTestAttached(), pygent.WithTestPace(0, 100*time.Millisecond, time.Second, 0))
	running := beginBash(t, r, dir, "echo $$ >pid; "+ticking, pygent.BashTimeout(2*time.Second))
	e.Kill(t)
	<-running
	requireStill(t, dir)
	e.Start(t)
	require.Equal(t, "kept\n", bash(t, r, "cat f").Output)
}

// The jobs of an engine that is killed are lost: the next run says so, and goes on as
// soon as there is an engine again.
func TestJobsOfAnEngineThatIsKilledAreLost(t *testing.T) {
	t.Parallel()
	e := newOwnEngine(t)
	r, _ := e.newRuntime(t, pygent.WithTestAttached())
	defer r.Cleanup()
	agent := newAgentOn(t, r, pygenttest.NewScriptedModel(background("echo up; sleep 1000"), pygenttest.Text("It runs."), pygenttest.Text("I see."),
		background("echo again; sleep 1000"), pygenttest.Call("job_output", map[string]any{"id": "2", "until": "again"}), pygenttest.Text("It runs again.")), pygent.LendRuntime(r))
	goOn(t, agent)
	e.Kill(t)
	goOn(t, agent)
	e.Start(t)
	goOn(t, agent)
	require.Equal(t, []string{"[job 1 (echo up; sleep 1000) is lost, with the container or process that it ran in; if it is still needed, start it again with bash and background]"}, noticesOfJobs(agent))
	got := results(agent)
	require.Contains(t, got[1], "started job 2 ")
	require.Regexp(t, `^again\n\[job 2 .*; the text was printed\]$`, got[2])
}
