// These tests hold how containers start, what is reported meanwhile, and what a run does
// when one cannot start.

package pygent_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/sessions"
)

func TestContainerThatCannotStart(t *testing.T) {
	t.Parallel()
	engine := testEngine(t)
	for name, tc := range map[string]struct {
		opt  pygent.RuntimeOption
		want []string // parts of the cause and of the remedy
	}{
		"name":       {pygent.WithImage("Not/A Name"), []string{"invalid reference format", "an image is named as NAME"}},
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

// Now and then containerd loses a container at its start.
func TestAStartThatContainerdLosesIsTriedAgain(t *testing.T) {
	t.Parallel()
	var lost, starts atomic.Int64
	host := losingEngine(t, isStart, func() bool { return starts.Add(1) <= lost.Load() })
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithDockerHost(host), pygent.WithSharedFiles(true))
	lost.Store(2)
	_, err := r.Bash(t.Context(), "true")
	require.ErrorIs(t, err, pygent.ErrRuntimeStart)
	require.ErrorContains(t, err, "the container ended at its start: Error response from daemon: failed to create shim task")
	starts.Store(0)
	lost.Store(1)
	require.Equal(t, "here\n", bash(t, r, "echo here").Output)
	require.EqualValues(t, 2, starts.Load())
}

// Somebody, or the kernel, may kill a container before its guest has said anything.
func TestAContainerThatIsKilledAtItsStartIsStartedAgain(t *testing.T) {
	t.Parallel()
	engine := testEngine(t)
	var starts, kills atomic.Int64
	host := proxyOf(t, engine, func(res *http.Response) error {
		if !isStart(res.Request) || starts.Add(1) > kills.Load() {
			return nil
		}
		name := path.Base(path.Dir(res.Request.URL.Path))
		return engine.ContainerKill(res.Request.Context(), name, "KILL")
	})
	dir := realTempDir(t)
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithDockerHost(host), pygent.WithSharedFiles(true),
		pygent.WithWorkspace(dir), pygent.WithTestAttached())
	kills.Store(2)
	_, err := r.Bash(t.Context(), "true")
	require.ErrorIs(t, err, pygent.ErrRuntimeStart)
	require.ErrorContains(t, err, "the container ended at its start")
	require.Empty(t, containersOf(t, engine, dir))
	starts.Store(0)
	kills.Store(1)
	require.Equal(t, "here\n", bash(t, r, "echo here").Output)
	require.EqualValues(t, 2, starts.Load())
}

// proxyOf serves an engine, and lets change see its answers before the client does.
func proxyOf(t *testing.T, engine *client.Client, change func(*http.Response) error) (host string) {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return engine.Dialer()(ctx) }}
	server := httptest.NewServer(&httputil.ReverseProxy{Transport: transport, ModifyResponse: change, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine"
	}})
	t.Cleanup(func() {
		server.Close()
		transport.CloseIdleConnections()
	})
	return "tcp://" + server.Listener.Addr().String()
}

// Before it has started, a command looks as if it ran.
func TestAContainerThatTakesItsTimeToStartIsTold(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]func(*http.Request) bool{
		"start": isStart,
		"image": func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/images/") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, told := slowToStart(t, slow, func() bool { return false })
			require.Equal(t, "here\n", bash(t, r, "echo here").Output)
			starting, started := <-told, <-told
			require.Equal(t, pygent.RuntimeStarting, starting.Kind)
			require.Equal(t, pygent.RuntimeStarted, started.Kind)
			require.Equal(t, started.Container, starting.Container)
			require.Equal(t, "container "+started.Container+" is starting", starting.Text)
		})
	}
}

// Into a volume, large files take their time.
func TestAContainerHasStartedOnceItHasItsFiles(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	work, away := filepath.Join(realTempDir(t), "work"), filepath.Join(realTempDir(t), "away")
	require.NoError(t, os.Mkdir(work, 0o755))
	started := make(chan string, 10)
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(work), pygent.WithSharedFiles(false),
		pygent.OnRuntimeEvent(func(e pygent.RuntimeEvent) {
			if e.Kind == pygent.RuntimeStarted {
				started <- e.Container
			}
		}))
	require.NoError(t, os.Rename(work, away))
	_, err := r.Bash(t.Context(), "true")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, os.Rename(away, work))
	require.Equal(t, "here\n", bash(t, r, "echo here").Output)
	require.Contains(t, <-started, "-2", "the first one got no files")
}

// Who has heard that a container is starting hears each time how that ends.
func TestAStartThatIsToldOfAndFailsIsToldToHaveFailed(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func() bool{
		"for good":              func() bool { return true },
		"since the engine ends": func() bool { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, told := slowToStart(t, isStart, lose)
			for range 2 {
				_, err := r.Bash(t.Context(), "true")
				require.Error(t, err)
				starting, failed := <-told, <-told
				require.Equal(t, pygent.RuntimeStarting, starting.Kind)
				require.Equal(t, pygent.RuntimeFailed, failed.Kind)
				require.ErrorContains(t, err, failed.Text)
			}
		})
	}
}

// slowToStart is a runtime of a [losingEngine], which answers the requests only after the
// runtime has told something. told gets all that it tells.
func slowToStart(t *testing.T, which func(*http.Request) bool, lose func() bool) (r pygent.Runtime, told chan pygent.RuntimeEvent) {
	t.Helper()
	told = make(chan pygent.RuntimeEvent, 10)
	host := losingEngine(t, which, func() bool {
		e := <-told
		told <- e
		return lose()
	})
	return newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithDockerHost(host), pygent.WithSharedFiles(true),
		pygent.OnRuntimeEvent(func(e pygent.RuntimeEvent) { told <- e })), told
}

// isStart tells the requests that start a container.
func isStart(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/start") }

// losingEngine serves the engine of the tests. Of the requests that which names, it
// answers those as if a container were lost for which lose returns true. It ends after the
// runtimes that are made later.
func losingEngine(t *testing.T, which func(*http.Request) bool, lose func() bool) (host string) {
	t.Helper()
	engine := testEngine(t)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return engine.Dialer()(ctx) }}
	pass := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine"
	}}
	ctx, cancel := context.WithCancel(context.Background())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !which(r) || !lose() {
			pass.ServeHTTP(w, r.WithContext(ctx)) // the stream of a container that never starts has no other end
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintln(w, `{"message":"failed to create shim task: ttrpc: closed: unknown"}`)
	}))
	t.Cleanup(func() {
		cancel()
		server.Close()
		transport.CloseIdleConnections()
	})
	return "tcp://" + server.Listener.Addr().String()
}

// refusingEngine serves an engine that has no image, and refuses to pull one when pull
// returns.
func refusingEngine(t *testing.T, pull func()) pygent.RuntimeOption {
	t.Helper()
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/images/create"):
			pull()
			fmt.Fprintln(w, `{"error":"there is no such image"}`)
		case strings.Contains(r.URL.Path, "/images/"):
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(engine.Close)
	return pygent.WithDockerHost("tcp://" + engine.Listener.Addr().String())
}

// A run does not wait for an answer whose commands could not run.
func TestARunEndsWhenItsContainerCannotStart(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	model := pygent.ModelFunc(func(ctx context.Context, _ *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		asked <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	rt, err := pygent.NewDockerRuntime(t.Context(), refusingEngine(t, func() { <-asked }))
	require.NoError(t, err)
	agent := newAgentOn(t, rt, model)
	result, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnStartFailure())
	require.ErrorIs(t, err, pygent.ErrRuntimeStart)
	require.ErrorContains(t, err, "there is no such image")
	require.NotErrorIs(t, err, context.Canceled, "nobody has cancelled the run")
	require.Equal(t, pygent.StatusFailed, result.Status)
	require.Equal(t, err.Error(), result.Reason)
	require.Equal(t, err.Error(), result.NoCommand)
	require.Equal(t, "go", agent.History().Messages()[1].Text(), "the message is there for a run that can start")
}

func TestNoModelIsAskedForARuntimeThatIsKnownNotToStart(t *testing.T) {
	t.Parallel()
	failed := make(chan struct{}, 1)
	rt, err := pygent.NewDockerRuntime(t.Context(), refusingEngine(t, func() {}), pygent.OnRuntimeEvent(func(e pygent.RuntimeEvent) {
		if e.Kind == pygent.RuntimeFailed {
			failed <- struct{}{}
		}
	}))
	require.NoError(t, err)
	<-failed
	model := pygenttest.NewScriptedModel()
	_, err = newAgentOn(t, rt, model).RunUntilStop(t.Context(), "go", pygent.WithEndOnStartFailure())
	require.ErrorIs(t, err, pygent.ErrRuntimeStart)
	require.Empty(t, model.Requests())
}

// An engine that is busy is asked again by the next command.
func TestASecondPullIsSaidToBeOne(t *testing.T) {
	t.Parallel()
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/images/create") {
			w.WriteHeader(http.StatusServiceUnavailable)
		} else if strings.Contains(r.URL.Path, "/images/") {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(engine.Close)
	var told []string
	rt, err := pygent.NewDockerRuntime(t.Context(), pygent.WithDockerHost("tcp://"+engine.Listener.Addr().String()), pygent.WithImage("x:1"), pygent.OnRuntimeEvent(func(e pygent.RuntimeEvent) {
		if e.Kind == pygent.RuntimePull {
			told = append(told, e.Text)
		}
	}))
	require.NoError(t, err)
	for range 2 {
		require.Error(t, second(rt.Bash(t.Context(), "true")))
	}
	require.NoError(t, rt.Cleanup())
	require.Equal(t, "pulling x:1", told[0])
	require.Equal(t, "pulling x:1 again", told[len(told)-1])
}

// Only commands need the container: files are where they are.
func TestAModelWithoutCommandsIsAskedWithoutAContainer(t *testing.T) {
	t.Parallel()
	rt, err := pygent.NewDockerRuntime(t.Context(), refusingEngine(t, func() {}))
	require.NoError(t, err)
	require.Error(t, rt.(pygent.Starter).Start(t.Context()))
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(stop), pygent.WithDisabledTools("bash"))
	_, err = agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnStartFailure())
	require.NoError(t, err)

	agent = newAgentOn(t, rt, pygenttest.NewScriptedModel(stop))
	_, err = agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err, "nothing has asked for it")
}

// TestARunTriesAgainToStart has the second run find what the first one missed.
func TestARunTriesAgainToStart(t *testing.T) {
	t.Parallel()
	engine := testEngine(t)
	name := "pygent-test-" + strings.ToLower(sessions.NewID())
	rt, err := pygent.NewDockerRuntime(t.Context(), pygent.WithImage(testImage()), pygent.WithNetwork(name))
	require.NoError(t, err)
	agent := newAgentOn(t, rt, pygent.ModelFunc(func(ctx context.Context, _ *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	for range 2 {
		_, err = agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnStartFailure())
		require.ErrorIs(t, err, pygent.ErrRuntimeStart)
	}
	_, err = engine.NetworkCreate(t.Context(), name, network.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = engine.NetworkRemove(context.Background(), name) })
	calls := pygenttest.NewScriptedModel(callBash("echo runs"), stop)
	require.NoError(t, agent.SetModel(calls, ""))
	_, err = agent.RunUntilStop(t.Context(), "", pygent.WithEndOnStartFailure())
	require.NoError(t, err)
	require.Contains(t, results(agent)[0], "runs")
	require.NoError(t, agent.Close(), "the container leaves the network")
}

// TestARunTriesAgainToPull has the first run miss the network, say.
func TestARunTriesAgainToPull(t *testing.T) {
	t.Parallel()
	var pulls atomic.Int32
	rt, err := pygent.NewDockerRuntime(t.Context(), refusingEngine(t, func() { pulls.Add(1) }))
	require.NoError(t, err)
	agent := newAgentOn(t, rt, pygent.ModelFunc(func(ctx context.Context, _ *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	for want := range int32(3) {
		_, err = agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnStartFailure())
		require.ErrorIs(t, err, pygent.ErrRuntimeStart)
		require.Equal(t, want+1, pulls.Load())
	}
}

// A call that waits for the container ends with the words of whoever ended it.
func TestACallThatWaitsForTheStartSaysWhyItEnded(t *testing.T) {
	t.Parallel()
	pulls, hangs := make(chan struct{}), make(chan struct{})
	rt, err := pygent.NewDockerRuntime(t.Context(), refusingEngine(t, func() {
		close(pulls)
		<-hangs
	}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Cleanup()) })
	t.Cleanup(func() { close(hangs) })
	<-pulls
	enough := errors.New("the user had enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(enough) })
	_, err = rt.Bash(ctx, "true")
	require.ErrorIs(t, err, enough)
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, enough.Error())
}

// Nobody waits for an image that is being pulled, whose shell may long be unknown.
func TestTheFirstRequestDoesNotWaitForAnImageThatIsPulled(t *testing.T) {
	t.Parallel()
	pulls, asked := make(chan struct{}), make(chan struct{})
	rt, err := pygent.NewDockerRuntime(t.Context(), refusingEngine(t, func() {
		close(pulls)
		<-asked
	}))
	require.NoError(t, err)
	<-pulls
	require.Empty(t, rt.(pygent.Describer).Describe(t.Context()).Shell)
	agent := newAgentOn(t, rt, pygent.ModelFunc(func(ctx context.Context, _ *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		close(asked)
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	_, err = agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnStartFailure())
	require.ErrorIs(t, err, pygent.ErrRuntimeStart)
}

// phases are the requests by which a container starts, and a command in one that has no
// guest.
var phases = map[string]func(*http.Request) bool{
	"image":   func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/images/") },
	"create":  func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/containers/create") },
	"attach":  func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/attach") },
	"start":   isStart,
	"command": func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/exec") },
}

// An engine that fails again and again lets each command wait, and the model would go on.
func TestARunInWhichNoCommandCanStartFails(t *testing.T) {
	t.Parallel()
	for name, phase := range phases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var fails atomic.Bool
			fails.Store(true)
			host := losingEngine(t, phase, func() bool {
				if fails.Load() {
					panic(http.ErrAbortHandler) // as an engine that ends
				}
				return false
			})
			opts := []pygent.RuntimeOption{pygent.WithImage(testImage()), pygent.WithDockerHost(host), pygent.WithSharedFiles(true)}
			if name == "command" {
				opts = append(opts, pygent.WithTestPlainExec())
			}
			agent := newAgentOn(t, newTestRuntime(t, pygent.NewDockerRuntime, opts...), pygenttest.NewScriptedModel(
				callBash("echo 1"), callBash("echo 2"), callBash("echo never"),
			))
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.ErrorIs(t, err, pygent.ErrRuntimeStart)
			require.ErrorContains(t, err, "2 commands in a row could not begin")
			require.Equal(t, pygent.StatusFailed, result.Status)
			require.Equal(t, err.Error(), result.Reason)
			require.Equal(t, err.Error(), result.NoCommand)
			require.Len(t, results(agent), 2, "the third one is not tried")

			require.NoError(t, agent.SetModel(pygenttest.NewScriptedModel(callBash("echo 1"), stop), ""))
			result, err = agent.RunUntilStop(t.Context(), "go on")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status)
			require.NotEmpty(t, result.NoCommand, "the only one could not begin")

			again := pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
				fails.Store(false)
				return callBash("exit 3")
			})
			require.NoError(t, agent.SetModel(pygenttest.NewScriptedModel(callBash("echo 1"), again, stop), ""))
			result, err = agent.RunUntilStop(t.Context(), "go on")
			require.NoError(t, err)
			require.Empty(t, result.NoCommand, "one began, and failed")
		})
	}
}

// notReady is a runtime of a program whose commands begin only if they are to.
type notReady struct{ pygent.Runtime }

func (notReady) Bash(_ context.Context, cmd string, _ ...pygent.BashOption) (pygent.BashResult, error) {
	if cmd == "fail" {
		return pygent.BashResult{ExitCode: -1}, fmt.Errorf("the machine sleeps: %w", pygent.ErrRuntimeNotReady)
	}
	return pygent.BashResult{ExitCode: 1}, nil
}

func (r notReady) Unwrap() pygent.Runtime { return r.Runtime }

func TestCommandsThatCouldNotBeginAreCountedInARow(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		commands []string
		ends     bool   // whether that ends the run
		no       string // command could run
	}{
		"never": {[]string{"fail", "fail", "ok"}, true, "the runtime cannot start: 2 commands in a row could not begin: the machine sleeps: no command can run now"},
		"late":  {[]string{"ok", "fail", "fail", "ok"}, true, ""},
		"apart": {[]string{"fail", "ok", "fail", "ok"}, false, ""},
		"last":  {[]string{"ok", "fail"}, false, ""},
		"once":  {[]string{"fail"}, false, "the machine sleeps: no command can run now"},
		"none":  {nil, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var replies []pygenttest.Reply
			for _, cmd := range tt.commands {
				replies = append(replies, callBash(cmd))
			}
			var warned []string
			rt := notReady{newTestRuntime(t, pygent.NewLocalRuntime)}
			agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(append(replies, stop)...), pygent.LendRuntime(rt), pygent.OnEvent(func(e pygent.Event) {
				if e.Type == pygent.EventWarning {
					warned = append(warned, e.Text)
				}
			}))
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.Equal(t, tt.ends, err != nil, err)
			require.Equal(t, tt.no, result.NoCommand)
			if tt.ends {
				require.ErrorIs(t, err, pygent.ErrRuntimeStart)
				require.EqualError(t, err, "the runtime cannot start: 2 commands in a row could not begin: the machine sleeps: no command can run now")
			}
			if tt.no != "" && !tt.ends {
				require.Equal(t, []string{"no command could run: " + tt.no}, warned)
			}
		})
	}
}

// Who gives up does not wait for an engine that does not answer.
func TestCleanupDoesNotWaitForAnEngineThatNeverMakesTheContainer(t *testing.T) {
	t.Parallel()
	asked, gate := make(chan struct{}), make(chan struct{})
	host := losingEngine(t, phases["create"], func() bool {
		close(asked)
		<-gate
		return false
	})
	rt, err := pygent.NewDockerRuntime(t.Context(), pygent.WithImage(testImage()), pygent.WithDockerHost(host), pygent.WithSharedFiles(true), pygent.WithWorkspace(realTempDir(t)))
	require.NoError(t, err)
	<-asked
	cleaned := make(chan error, 1)
	go func() { cleaned <- rt.Cleanup() }()
	select {
	case err = <-cleaned:
	case <-time.After(20 * time.Second):
		require.Fail(t, "it waits for the engine")
	}
	require.ErrorIs(t, err, pygent.ErrCleanupIncomplete)
	require.Regexp(t, `container pygent-\w+-1 may be left: the engine has not answered in time`, err.Error())
	close(gate) // what the engine makes then is removed
}
