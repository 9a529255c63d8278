package pygent_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/x/pygent"
)

// impatient is the pace for tests of time limits: a guest is given up soon
// after a limit, and the keepalive is too slow to matter.
func impatient() pygent.RuntimeOption {
	return pygent.WithTestPace(100*time.Millisecond, time.Hour, 0, 0)
}

// calling is the pace for tests of the keepalive. A guest on a busy machine has to answer
// within three of its intervals.
func calling() pygent.RuntimeOption {
	return pygent.WithTestPace(100*time.Millisecond, 300*time.Millisecond, 0, 0)
}

// soon is the shortest time limit within which a command has begun on a busy machine.
const soon = 1500 * time.Millisecond

// ended is the result of a call of Bash.
type ended struct {
	pygent.BashResult
	err error
}

// beginBash starts a command, and returns once it runs. A time limit has to leave a busy
// machine the time for what the test does to the command meanwhile.
func beginBash(t *testing.T, r pygent.Runtime, dir, cmd string, opts ...pygent.BashOption) <-chan ended {
	t.Helper()
	name := "begun-" + strings.ReplaceAll(t.Name(), "/", "-")
	result := make(chan ended, 1)
	go func() {
		res, err := r.Bash(context.Background(), "echo >"+name+"; "+cmd, opts...)
		result <- ended{res, err}
	}()
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}, 30*time.Second, time.Millisecond)
	return result
}

// ticking is a command that keeps writing to a file while it runs.
const ticking = "while :; do echo >>ticks; sleep 0.02; done"

// requireStill waits until a ticking command has stopped.
func requireStill(t *testing.T, dir string) {
	t.Helper()
	size := func() int64 {
		info, err := os.Stat(filepath.Join(dir, "ticks"))
		if err != nil {
			return 0 // it was ended before it wrote anything
		}
		return info.Size()
	}
	last := int64(-1)
	require.Eventually(t, func() bool {
		before := last
		last = size()
		return before == last
	}, 30*time.Second, 200*time.Millisecond)
}

// pause pauses a container. On a busy machine the engine may give up before the kernel
// has frozen all processes of one that keeps starting some.
func pause(t *testing.T, engine *client.Client, id string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NoError(c, engine.ContainerPause(t.Context(), id))
	}, 20*time.Second, 10*time.Millisecond)
}

// It is not parallel: a busy engine would pause the container after the time limit.
func TestPausedContainerIsGivenUp(t *testing.T) {
	engine := testEngine(t)
	for name, tc := range map[string]struct {
		pace     pygent.RuntimeOption
		limit    time.Duration
		timedOut bool
	}{
		"at the limit":             {impatient(), 2 * time.Second, true},
		"without a limit":          {calling(), -1, false},
		"long before the limit":    {calling(), time.Hour, false},
		"before the command began": {impatient(), 50 * time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := realTempDir(t)
			r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(dir), tc.pace)
			bash(t, r, "echo kept >f")
			pause := func() {
				pause(t, engine, containersOf(t, engine, dir)[0].ID)
			}
			var res ended
			if name == "before the command began" {
				pause()
				res.BashResult, res.err = r.Bash(t.Context(), "echo >never", pygent.BashTimeout(tc.limit))
			} else {
				running := beginBash(t, r, dir, ticking, pygent.BashTimeout(tc.limit))
				pause()
				res = <-running
			}
			require.NoError(t, res.err)
			require.Equal(t, tc.timedOut, res.TimedOut)
			require.Equal(t, -1, res.ExitCode)
			require.Contains(t, res.Note, "the container did not answer")
			require.Equal(t, "kept\n", bash(t, r, "cat f").Output)
			require.Len(t, containersOf(t, engine, dir), 1)
			require.NoFileExists(t, filepath.Join(dir, "never"))
		})
	}
}

// A container may be paused for a while under a command, which prints nothing then.
func TestACommandIsToldThatItsContainerDoesNotAnswer(t *testing.T) {
	t.Parallel()
	engine := testEngine(t)
	dir := realTempDir(t)
	silent := make(chan pygent.RuntimeEvent, 10)
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(dir), impatient(),
		pygent.OnRuntimeEvent(func(e pygent.RuntimeEvent) {
			if e.Kind == pygent.RuntimeSilent {
				silent <- e
			}
		}))
	running := beginBash(t, r, dir, "until test -e over; do sleep 0.01; done; echo over", pygent.BashTimeout(pygent.NoLimit))
	box := containersOf(t, engine, dir)[0]
	pause(t, engine, box.ID)
	require.Equal(t, "container "+strings.TrimPrefix(box.Names[0], "/")+" does not answer yet", (<-silent).Text)
	require.NoError(t, engine.ContainerUnpause(t.Context(), box.ID))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "over"), nil, 0o600))
	res := <-running
	require.NoError(t, res.err)
	require.Equal(t, "over\n", res.Output)
	require.Empty(t, silent, "it is said once")
}

func TestEveryCallOfAPausedContainerEnds(t *testing.T) {
	t.Parallel()
	engine := testEngine(t)
	for name, call := range map[string]func(context.Context, pygent.Runtime) error{
		"read":  func(ctx context.Context, r pygent.Runtime) error { _, err := r.ReadFile(ctx, "f"); return err },
		"write": func(ctx context.Context, r pygent.Runtime) error { return r.WriteFile(ctx, "f", []byte("x")) },
		"export": func(ctx context.Context, r pygent.Runtime) error {
			return r.ExportFile(ctx, ".", t.TempDir())
		},
		"upload": func(ctx context.Context, r pygent.Runtime) error { return r.UploadFile(ctx, "go.mod", "") },
		"jobs": func(ctx context.Context, r pygent.Runtime) error {
			_, err := r.(pygent.JobRunner).Jobs(ctx)
			return err
		},
		"job": func(ctx context.Context, r pygent.Runtime) error {
			_, err := r.(pygent.JobRunner).StartJob(ctx, "true")
			return err
		},
		"dial": func(ctx context.Context, r pygent.Runtime) error {
			_, err := r.(pygent.Dialer).Dial(ctx, 8080)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := realTempDir(t)
			r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(dir), calling())
			bash(t, r, "echo kept >f")
			pause(t, engine, containersOf(t, engine, dir)[0].ID)
			require.ErrorContains(t, call(context.Background(), r), "did not answer")
			require.Zero(t, bash(t, r, "test -f f").ExitCode)
		})
	}
}

// TestEngineThatDoesNotAnswer freezes the connection to the engine while a
// command runs. The command goes on, but the host cannot know that.
func TestEngineThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"unix", "tcp"} {
		t.Run(network, func(t *testing.T) {
			f := newFaultyEngine(t, network)
			dir := realTempDir(t)
			shared := pygent.WithSharedFiles(true)
			r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(dir),
				pygent.WithDockerHost(f.host), shared, pygent.WithTestAttached(), impatient())
			bash(t, r, "echo kept >f")
			running := beginBash(t, r, dir, ticking, pygent.BashTimeout(2*time.Second))
			f.freeze()
			res := <-running
			require.NoError(t, res.err)
			require.True(t, res.TimedOut)
			require.Contains(t, res.Note, "the command may still run")

			_, err := r.Bash(t.Context(), "echo >early", pygent.BashTimeout(50*time.Millisecond))
			require.ErrorIs(t, err, pygent.ErrRuntimeLost)
			require.NotErrorIs(t, err, pygent.ErrRuntimeStart)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err = r.ReadFile(ctx, "f")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NoFileExists(t, filepath.Join(dir, "early"))

			f.thaw()
			require.Equal(t, "kept\n", bash(t, r, "cat f").Output)
			require.Len(t, containersOf(t, f.engine, dir), 1)
			requireStill(t, dir)
		})
	}
}

// TestGuestNoticesThatItsHostIsGone freezes the connection on the host's side,
// and keeps the engine's side open.
func TestGuestNoticesThatItsHostIsGone(t *testing.T) {
	t.Parallel()
	f := newFaultyEngine(t, "unix")
	dir := realTempDir(t)
	r, err := pygent.NewDockerRuntime(t.Context(), pygent.WithImage(testImage()), pygent.WithWorkspace(dir),
		pygent.WithDockerHost(f.host), pygent.WithTestAttached(), pygent.WithTestPace(100*time.Millisecond, 300*time.Millisecond, 2*time.Second, 0))
	require.NoError(t, err)
	running := beginBash(t, r, dir, ticking, pygent.BashTimeout(-1))
	f.freeze()
	require.Eventually(t, func() bool { return len(containersOf(t, f.engine, dir)) == 0 }, 30*time.Second, 10*time.Millisecond)
	requireStill(t, dir)
	f.thaw()
	res := <-running
	require.NoError(t, res.err)
	require.Contains(t, res.Note, "the container did not answer")
	require.NoError(t, r.Cleanup())
}

// TestEngineThatGoesAway cuts the connection. That ends the container, but the
// host learns of it only when the engine answers again.
func TestEngineThatGoesAway(t *testing.T) {
	t.Parallel()
	f := newFaultyEngine(t, "unix")
	dir := realTempDir(t)
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(dir), pygent.WithDockerHost(f.host), pygent.WithTestAttached())
	running := beginBash(t, r, dir, ticking, pygent.BashTimeout(time.Millisecond*2500))
	f.cut()
	res := <-running
	require.NoError(t, res.err)
	require.Equal(t, -1, res.ExitCode)
	require.Contains(t, res.Note, "the connection to the container was lost")
	require.Contains(t, res.Note, "may still run")
	_, err := r.Bash(t.Context(), "true", pygent.BashTimeout(50*time.Millisecond))
	require.ErrorIs(t, err, pygent.ErrRuntimeLost)
	require.ErrorContains(t, err, "container pygent-", "it says which one")
	f.mend()
	require.Equal(t, "next\n", bash(t, r, "echo next").Output)
	requireStill(t, dir)
	require.Len(t, containersOf(t, f.engine, dir), 1)
}

func TestCleanupWithoutItsEngineSaysWhatIsLeft(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*faultyEngine){"that does not answer": (*faultyEngine).freeze, "that is gone": (*faultyEngine).cut} {
		t.Run(name, func(t *testing.T) {
			f := newFaultyEngine(t, "unix")
			dir := realTempDir(t)
			r, err := pygent.NewDockerRuntime(t.Context(), pygent.WithImage(testImage()), pygent.WithWorkspace(dir), pygent.WithDockerHost(f.host), pygent.WithTestPace(100*time.Millisecond, time.Hour, 0, 100*time.Millisecond))
			require.NoError(t, err)
			bash(t, r, "echo kept >f")
			fault(f)
			err = r.Cleanup()
			require.ErrorIs(t, err, pygent.ErrCleanupIncomplete)
			require.ErrorContains(t, err, "remove container pygent-")
			require.FileExists(t, filepath.Join(dir, "f"))
			f.thaw()
			f.cut()
			require.Eventually(t, func() bool { return len(containersOf(t, f.engine, dir)) == 0 }, 30*time.Second, 10*time.Millisecond)
		})
	}
}

// TestParkedContainerHoldsNobodyUp makes the removal of a container take longer
// than a concurrent call can wait.
func TestParkedContainerHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	f := newFaultyEngine(t, "unix")
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithDockerHost(f.host))
	require.NoError(t, r.WriteFile(t.Context(), "f", []byte("kept")))
	bash(t, r, "true")
	f.freeze()
	remove, parked := pygent.Detach(r), make(chan struct{})
	go func() {
		defer close(parked)
		remove()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := r.ReadFile(ctx, "f")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	select {
	case <-parked:
		require.Fail(t, "the engine cannot have answered")
	default:
	}
	f.thaw()
	<-parked
	require.Equal(t, "kept", bash(t, r, "cat f").Output)
}

// TestRuntimeEventsMayCallTheRuntime calls the runtime from the event handler,
// which could deadlock.
func TestRuntimeEventsMayCallTheRuntime(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	for name, call := range map[string]func(pygent.Runtime) error{
		"cleanup": pygent.Runtime.Cleanup,
		"bash":    func(r pygent.Runtime) error { _, err := r.Bash(context.Background(), "true"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			made, called := make(chan pygent.Runtime, 1), make(chan error, 1)
			r, err := pygent.NewDockerRuntime(t.Context(), pygent.WithImage(testImage()), pygent.OnRuntimeEvent(func(e pygent.RuntimeEvent) {
				if e.Kind == pygent.RuntimeStarted {
					called <- call(<-made)
				}
			}))
			require.NoError(t, err)
			made <- r
			require.NoError(t, <-called)
			require.NoError(t, r.Cleanup())
		})
	}
}

func TestPlainExec(t *testing.T) {
	t.Parallel()
	engine := testEngine(t)
	start := func(t *testing.T, opts ...pygent.RuntimeOption) (pygent.Runtime, string) {
		dir := realTempDir(t)
		r := newTestRuntime(t, pygent.NewDockerRuntime, append([]pygent.RuntimeOption{
			pygent.WithImage(testImage()), pygent.WithWorkspace(dir), pygent.WithTestPlainExec(), impatient(),
		}, opts...)...)
		require.NoError(t, r.(pygent.Starter).Start(t.Context()))
		require.Equal(t, "kept\n", bash(t, r, "echo kept | tee f").Output)
		return r, dir
	}
	t.Run("ends at the limit", func(t *testing.T) {
		// The engine of a busy machine may begin a command only after its limit, and takes
		// its time to begin the one that ends it.
		r, dir := start(t, pygent.WithTestPace(0, time.Hour, 0, 0))
		for limit := soon; ; limit *= 2 {
			res := bash(t, r, "echo a; echo >begun; "+ticking, pygent.BashTimeout(limit))
			require.True(t, res.TimedOut)
			require.Empty(t, res.Note)
			if _, err := os.Stat(filepath.Join(dir, "begun")); err == nil {
				require.Equal(t, "a\n", res.Output)
				break
			}
		}
		requireStill(t, dir)
	})
	t.Run("paused", func(t *testing.T) {
		r, dir := start(t)
		// The limit leaves time for the pause. Where an engine pauses a container in which
		// it is just about to start another command, such as the one that ends this one,
		// it can do nothing with the container any more.
		running := beginBash(t, r, dir, ticking, pygent.BashTimeout(3*time.Second))
		pause(t, engine, containersOf(t, engine, dir)[0].ID)
		res := <-running
		require.NoError(t, res.err)
		require.True(t, res.TimedOut)
		require.Contains(t, res.Note, "the container did not answer")
		require.Equal(t, "kept\n", bash(t, r, "cat f").Output)
		requireStill(t, dir)
	})
	t.Run("an engine that does not answer", func(t *testing.T) {
		f := newFaultyEngine(t, "unix")
		r, dir := start(t, pygent.WithDockerHost(f.host))
		running := beginBash(t, r, dir, ticking, pygent.BashTimeout(2*time.Second))
		f.freeze()
		res := <-running
		require.NoError(t, res.err)
		require.True(t, res.TimedOut)
		require.Contains(t, res.Note, "the command may still run")
		_, err := r.Bash(t.Context(), "true", pygent.BashTimeout(50*time.Millisecond))
		require.ErrorIs(t, err, pygent.ErrRuntimeLost)
		f.thaw()
		require.Equal(t, "kept\n", bash(t, r, "cat f").Output)
		requireStill(t, dir)
	})
	t.Run("killed", func(t *testing.T) {
		r, dir := start(t)
		running := beginBash(t, r, dir, ticking)
		require.NoError(t, engine.ContainerKill(t.Context(), containersOf(t, engine, dir)[0].ID, "KILL"))
		res := <-running
		require.NoError(t, res.err)
		require.Contains(t, res.Note, "the container died")
		require.Equal(t, "kept\n", bash(t, r, "cat f").Output)
	})
}
