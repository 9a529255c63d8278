package pygent_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/x/pygent"
)

func TestContainerThatCannotStart(t *testing.T) {
	t.Parallel()
	engine := testEngine(t)
	for name, tc := range map[string]struct {
		opt  pygent.RuntimeOption
		want []string // parts of the cause and of the remedy
	}{
		"name":       {pygent.WithImage("Not/A Name"), []string{"invalid reference format"}},
		"network":    {pygent.WithNetwork("pygent-none-such"), []string{"pygent-none-such", "docker network ls"}},
		"mount":      {pygent.WithMounts(pygent.Mount{Source: "/nonexistent/network", Target: "/x"}), []string{"/nonexistent/network", "the source of a mount"}},
		"capability": {pygent.WithCapabilities("NONE_SUCH"), []string{"NONE_SUCH", "check the names"}},
		"gpus":       {pygent.WithGPUs("all"), []string{"device driver", "the engine has no driver for GPUs"}},
		"user":       {pygent.WithContainerUser("nobody-of-the-network"), []string{"nobody-of-the-network", "the image has to know the user"}},
		"cpus":       {pygent.WithCPUs(100_000), []string{"CPUs", "lower the limit"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := realTempDir(t)
			failed := make(chan pygent.RuntimeEvent, 10)
			r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), tc.opt, pygent.WithWorkspace(dir),
				pygent.OnRuntimeEvent(func(e pygent.RuntimeEvent) {
					if e.Kind == pygent.RuntimeFailed {
						failed <- e
					}
				}))
			event := <-failed // comes without any command
			for what, err := range map[string]error{
				"start": r.(pygent.Starter).Start(t.Context()),
				"bash":  second(r.Bash(t.Context(), "true")),
				"job":   second(r.(pygent.JobRunner).StartJob(t.Context(), "true")),
				"jobs":  second(r.(pygent.JobRunner).Jobs(t.Context())),
				"dial":  second(r.(pygent.Dialer).Dial(t.Context(), 80)),
			} {
				require.ErrorIs(t, err, pygent.ErrRuntimeStart, what)
				for _, want := range tc.want {
					require.ErrorContains(t, err, want, what)
					require.Contains(t, event.Text, want)
				}
			}
			require.Empty(t, containersOf(t, engine, dir))
		})
	}
}

func second[T any](_ T, err error) error { return err }

// TestStartErrorsThatPass uses an engine that is busy or gone for a while.
func TestStartErrorsThatPass(t *testing.T) {
	t.Parallel()
	t.Run("busy", func(t *testing.T) {
		var inspected atomic.Int64
		busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/images/") {
				inspected.Add(1)
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		defer busy.Close()
		r, err := pygent.NewDockerRuntime(t.Context(), pygent.WithDockerHost("tcp://"+busy.Listener.Addr().String()))
		require.NoError(t, err)
		require.NotErrorIs(t, second(r.Bash(t.Context(), "true")), pygent.ErrRuntimeStart)
		require.Error(t, r.(pygent.Starter).Start(t.Context()))
		require.EqualValues(t, 2, inspected.Load(), "it is tried again")
		require.NoError(t, r.Cleanup())
	})
	t.Run("gone", func(t *testing.T) {
		f := newFaultyEngine(t, "unix")
		r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithDockerHost(f.host), pygent.WithTestAttached())
		bash(t, r, "true")
		f.cut()
		require.Eventually(t, func() bool {
			_, err := r.Bash(t.Context(), "true", pygent.BashTimeout(50*time.Millisecond))
			require.NotErrorIs(t, err, pygent.ErrRuntimeStart)
			return err != nil
		}, 30*time.Second, time.Millisecond)
		f.mend()
		require.NoError(t, r.(pygent.Starter).Start(t.Context()))
	})
}
