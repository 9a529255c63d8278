//go:build linux

package pygent_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// ownEngine is a dockerd for one test, which may do anything to it. It has its
// own network namespace, so that it does not disturb the networks of other
// engines.
type ownEngine struct {
	dir    string
	host   string
	flags  []string
	daemon *exec.Cmd
	client *client.Client
}

// newOwnEngine starts a dockerd and loads the small image of the tests.
func newOwnEngine(t *testing.T, flags ...string) *ownEngine {
	t.Helper()
	shared := testEngine(t)
	if _, err := exec.LookPath("dockerd"); err != nil || os.Geteuid() != 0 {
		t.Skip("no Docker here that a test may kill: it takes dockerd and root")
	}
	dir := shortDir(t)
	e := &ownEngine{dir: dir, host: "unix://" + filepath.Join(dir, "s"), flags: flags}
	var err error
	e.client, err = client.NewClientWithOpts(client.WithHost(e.host), client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	t.Cleanup(func() { e.stop(t) })
	e.start(t)
	image, err := shared.ImageSave(t.Context(), []string{testBusyboxImage()})
	require.NoError(t, err)
	defer image.Close()
	loaded, err := e.client.ImageLoad(t.Context(), image)
	require.NoError(t, err)
	defer loaded.Body.Close()
	_, err = io.Copy(io.Discard, loaded.Body)
	require.NoError(t, err)
	return e
}

// start starts the dockerd, or restarts it after kill, and waits until it
// answers.
func (e *ownEngine) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(e.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer log.Close()
	for _, stale := range []string{"pid", "x/containerd/containerd.pid"} { // files that a killed dockerd leaves
		_ = os.Remove(filepath.Join(e.dir, stale))
	}
	e.daemon = exec.Command("unshare", append([]string{"--net", "dockerd", "--host", e.host, "--data-root", filepath.Join(e.dir, "data"),
		"--exec-root", filepath.Join(e.dir, "x"), "--pidfile", filepath.Join(e.dir, "pid"), "--bridge=none", "--iptables=false", "--ip6tables=false"}, e.flags...)...)
	e.daemon.Stdout, e.daemon.Stderr = log, log
	require.NoError(t, e.daemon.Start())
	require.Eventually(t, func() bool {
		_, err := e.client.Ping(context.Background())
		return err == nil
	}, time.Minute, 20*time.Millisecond, "see %s", log.Name())
}

// kill ends the dockerd as a crash does. Its containers keep running.
func (e *ownEngine) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, e.daemon.Process.Kill())
	require.Error(t, e.daemon.Wait())
}

// stop ends the dockerd and its containers in an orderly way.
func (e *ownEngine) stop(t *testing.T) {
	t.Helper()
	_ = e.client.Close()
	if e.daemon.ProcessState != nil {
		e.start(t) // a new dockerd ends the containers that a killed one left
	}
	require.NoError(t, e.daemon.Process.Signal(syscall.SIGCONT))
	require.NoError(t, e.daemon.Process.Signal(syscall.SIGTERM))
	require.NoError(t, e.daemon.Wait())
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); strings.HasPrefix(fields[1], e.dir) {
			require.NoError(t, syscall.Unmount(fields[1], syscall.MNT_DETACH))
		}
	}
}

// newRuntime makes a runtime on the engine, with a file in its workspace dir.
func (e *ownEngine) newRuntime(t *testing.T, opts ...pygent.RuntimeOption) (r pygent.Runtime, dir string) {
	t.Helper()
	dir = realTempDir(t)
	r = newTestRuntime(t, pygent.NewDockerRuntime, append([]pygent.RuntimeOption{
		pygent.WithImage(testBusyboxImage()), pygent.WithDockerHost(e.host), pygent.WithWorkspace(dir),
	}, opts...)...)
	bash(t, r, "echo kept >f")
	return r, dir
}

// containers returns the containers with a directory, without those that a killed engine
// was removing. The next engine, of version 20.10, sometimes cannot load such a one again
// ("failed to register link for container"), and leaves it dead and without a name, for
// pygent prune.
func (e *ownEngine) containers(t *testing.T, dir string) []container.Summary {
	return slices.DeleteFunc(containersOf(t, e.client, dir), func(c container.Summary) bool {
		return c.State == container.StateDead
	})
}

func TestEngineThatIsStopped(t *testing.T) {
	t.Parallel()
	e := newOwnEngine(t)
	r, dir := e.newRuntime(t, pygent.WithTestAttached(), impatient())
	running := beginBash(t, r, dir, ticking, pygent.BashTimeout(2*time.Second))
	require.NoError(t, e.daemon.Process.Signal(syscall.SIGSTOP))
	res := <-running
	require.NoError(t, res.err)
	require.True(t, res.TimedOut)
	require.Contains(t, res.Note, "the command may still run")
	_, err := r.Bash(t.Context(), "true", pygent.BashTimeout(50*time.Millisecond))
	require.ErrorIs(t, err, pygent.ErrRuntimeLost)
	require.NoError(t, e.daemon.Process.Signal(syscall.SIGCONT))
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
			e.kill(t)
			res := <-running
			require.NoError(t, res.err)
			require.Contains(t, res.Note, "the connection to the container was lost")
			require.Contains(t, res.Note, "the command may still run")
			_, err := r.Bash(t.Context(), "true", pygent.BashTimeout(50*time.Millisecond))
			require.ErrorIs(t, err, pygent.ErrRuntimeLost)
			e.start(t)
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
	require.NoError(t, e.daemon.Process.Signal(syscall.SIGSTOP))
	require.NoError(t, r.WriteFile(t.Context(), "stopped", nil))
	res := <-running
	require.NoError(t, res.err)
	require.Equal(t, "on\n", res.Output)
	limited := bash(t, r, ticking, pygent.BashTimeout(soon))
	require.True(t, limited.TimedOut)
	require.NotContains(t, limited.Note, "may still run")
	requireStill(t, dir)
	require.NoError(t, e.daemon.Process.Signal(syscall.SIGCONT))

	e.kill(t)
	require.Equal(t, "kept\n", bash(t, r, "test -f /here && cat f").Output)
	e.start(t) // which ends the container
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
	e.kill(t)
	<-running
	requireStill(t, dir)
	e.start(t)
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
	e.kill(t)
	goOn(t, agent)
	e.start(t)
	goOn(t, agent)
	require.Equal(t, []string{"[job 1 (echo up; sleep 1000) is lost, with the container or process that it ran in; if it is still needed, start it again with bash and background]"}, noticesOfJobs(agent))
	got := results(agent)
	require.Contains(t, got[1], "started job 2 ")
	require.Regexp(t, `^again\n\[job 2 .*; the text was printed\]$`, got[2])
}
