package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit/enginetest"
	"github.com/x/pygent/pygenttest"
)

// noImage is an image that no engine has or can pull.
const noImage = "127.0.0.1:1/pygent/none:latest"

func TestRunWhoseContainerCannotStartIsASetUpError(t *testing.T) {
	t.Parallel()
	dockerImage(t)
	server := pygenttest.NewServer(t, bash("true"), pygenttest.Call("stop", nil))
	got := finish(t, command(t, server.Env(), "run", "--docker", "--image", noImage, "--quiet", "go"))
	require.Equal(t, exitUsage, got.code, got.stderr)
	require.Equal(t, 1, strings.Count(got.stderr, "\n"), got.stderr)
	require.Contains(t, got.stderr, noImage)
}

func TestRunSaysOnceWhyTheContainerCannotStart(t *testing.T) {
	t.Parallel()
	dockerImage(t)
	server := pygenttest.NewServer(t, pygenttest.Calls(bash("true"), bash("false")))
	got := finish(t, command(t, server.Env(), "run", "--docker", "--image", noImage, "go"))
	require.Equal(t, exitUsage, got.code, got.stderr)
	require.Equal(t, 1, strings.Count(got.stderr, "pull image"), got.stderr)
}

// An answer is not waited, and paid, for when no command of it could run.
func TestRunWhoseContainerCannotStartDoesNotWaitForTheModel(t *testing.T) {
	t.Parallel()
	image := dockerImage(t)
	for name, args := range map[string][]string{
		"--image":   {"--image", noImage},
		"no image":  {"--image", "No Image"},
		"--network": {"--image", image, "--network", "pygent-none-such"},
		"--user":    {"--image", image, "--user", "pygent-none-such"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := pygenttest.NewServer(t, pygenttest.Text("It is 42.").WithGate(nil))
			cmd := command(t, server.Env(), append([]string{"run", "--docker", "--quiet", "go"}, args...)...)
			got := finish(t, cmd)
			require.Equal(t, exitUsage, got.code, got.stderr)
			require.Empty(t, got.stdout)
			require.Contains(t, got.stderr, "pygent: the runtime cannot start: ")
			require.Equal(t, 1, strings.Count(got.stderr, "\n"), got.stderr)
		})
	}
}

// The message of a run that could not start is there for the next one.
func TestARunWhoseContainerCouldNotStartGoesOnWithAnotherOne(t *testing.T) {
	t.Parallel()
	image, state, dir := dockerImage(t), t.TempDir(), t.TempDir()
	run := func(server *pygenttest.Server, args ...string) outcome {
		cmd := command(t, append(server.Env(), "XDG_STATE_HOME="+state), append([]string{"run"}, args...)...)
		cmd.Dir = dir
		return finish(t, cmd)
	}
	never := pygenttest.NewServer(t, pygenttest.Text("").WithGate(nil))
	got := run(never, "--docker", "--image", image, "--network", "pygent-none-such", "go")
	require.Equal(t, exitUsage, got.code, got.stderr)
	require.Contains(t, got.stderr, sessionSaved)
	server := pygenttest.NewServer(t, bash("echo made"), pygenttest.Call("stop", map[string]any{"summary": "done"}))
	got = run(server, "--continue", "--network", "none")
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, "done\n", got.stdout)
	require.Equal(t, "go", server.Requests()[0].Chat.Messages[1].Text())
}

// A container that is paused cannot end, so the person hears what is waited for, and may
// leave it. Whoever was sent another signal first needs no second Ctrl-C.
func TestAnInterruptEndsAnInterruptedRunAtOnce(t *testing.T) {
	for _, first := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(first.String(), func(t *testing.T) {
			t.Parallel()
			p := runPaused(t)
			require.NoError(t, p.cmd.Process.Signal(first))
			p.await("pygent: waiting for container " + p.container + " to end; Ctrl-C ")
			require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
			p.await("pygent: interrupted again: container " + p.container + " may still be running; \"pygent prune " + p.container + "\" removes it")
			require.Error(t, p.cmd.Wait())
			require.Equal(t, exitCancel, p.cmd.ProcessState.ExitCode())

			got := finish(t, command(t, p.cmd.Env, "prune", p.container))
			require.Equal(t, 0, got.code, got.stderr)
			p.requireGone()
		})
	}
}

// A task has a container of its own. That of one that is over is gone.
func TestTheSecondInterruptNamesTheContainersOfTasks(t *testing.T) {
	t.Parallel()
	image := dockerImage(t)
	engine, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	t.Cleanup(func() { _ = engine.Close() })
	delegate := func(prompt string) pygenttest.Reply {
		return pygenttest.Call("delegate_task", map[string]any{"prompt": prompt})
	}
	server := pygenttest.NewServer(t, delegate("Begin"), pygenttest.Call("task_status", map[string]any{"wait": 60}), delegate("Wait"), bash("sleep 1000")).
		On("Begin", bash("true"), stop("Begun.")).On("Wait", bash("sleep 1000"))
	cmd := command(t, append(server.Env(), "XDG_STATE_HOME="+t.TempDir()), "run", "--docker", "--image", image, "--json", "--cwd", "go")
	events, err := cmd.StdoutPipe()
	require.NoError(t, err)
	p := &pausedRun{t: t, engine: engine}
	p.start(cmd)
	boxes, calls := map[string]string{}, 0
	for lines := bufio.NewScanner(events); (calls < 2 || len(boxes) < 2) && lines.Scan(); {
		var e pygent.Event
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		switch {
		case e.Runtime != nil && e.Runtime.Kind == pygent.RuntimeStarted:
			boxes[e.Task] = e.Runtime.Container
		case e.Type == pygent.EventTask && e.TaskStatus.State == pygent.TaskFinished:
			delete(boxes, e.Task)
		case e.Type == pygent.EventToolStart && strings.Contains(e.Call.Arguments, "sleep"):
			calls++
		}
	}
	go func() { _, _ = io.Copy(io.Discard, events) }()
	own := boxes[""]
	delete(boxes, "")
	require.Len(t, boxes, 1)
	names := own
	for _, box := range boxes {
		names += ", " + box
	}
	for name := range strings.SplitSeq(names, ", ") {
		t.Cleanup(func() {
			_ = engine.ContainerRemove(context.Background(), name, container.RemoveOptions{Force: true})
		})
		require.NoError(t, engine.ContainerPause(t.Context(), name))
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	p.await("pygent: waiting for containers " + names + " to end; Ctrl-C again ends pygent at once")
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	p.await("pygent: interrupted again: containers " + names + " may still be running; ")
	requireExit(t, cmd, exitCancel)
}

// Whoever manages processes sends SIGTERM and then kills. Some send it twice at once, as
// timeout does, which is no reason to leave anything.
func TestOneSignalRemovesAPausedContainer(t *testing.T) {
	for _, times := range []int{1, 2} {
		t.Run(strconv.Itoa(times), func(t *testing.T) {
			t.Parallel()
			p := runPaused(t)
			for range times {
				require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
			}
			p.await("pygent: terminated")
			require.Error(t, p.cmd.Wait())
			require.Equal(t, 128+int(syscall.SIGTERM), p.cmd.ProcessState.ExitCode())
			p.requireGone()
		})
	}
}

// pausedRun is a run whose command is in a paused container.
type pausedRun struct {
	t         *testing.T
	engine    *client.Client
	cmd       *exec.Cmd
	lines     *bufio.Scanner // of standard error
	container string
}

func runPaused(t *testing.T) *pausedRun {
	t.Helper()
	image := dockerImage(t)
	engine, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	t.Cleanup(func() { _ = engine.Close() })
	server := pygenttest.NewServer(t, bash("sleep 1000"))
	p := &pausedRun{t: t, engine: engine}
	p.start(command(t, append(server.Env(), "XDG_STATE_HOME="+t.TempDir()), "run", "--docker", "--image", image, "go"))
	p.container = strings.Fields(p.await("· container pygent-"))[2]
	t.Cleanup(func() {
		_ = engine.ContainerRemove(context.Background(), p.container, container.RemoveOptions{Force: true})
	})
	require.NoError(t, engine.ContainerPause(t.Context(), p.container))
	return p
}

func (p *pausedRun) start(cmd *exec.Cmd) {
	p.t.Helper()
	p.cmd = cmd
	stderr, err := cmd.StderrPipe()
	require.NoError(p.t, err)
	require.NoError(p.t, cmd.Start())
	p.lines = bufio.NewScanner(stderr)
}

// await returns the next line that has words.
func (p *pausedRun) await(words string) string {
	p.t.Helper()
	for p.lines.Scan() && !strings.Contains(p.lines.Text(), words) {
	}
	require.Contains(p.t, p.lines.Text(), words)
	return p.lines.Text()
}

func (p *pausedRun) requireGone() {
	p.t.Helper()
	_, err := p.engine.ContainerInspect(p.t.Context(), p.container)
	require.True(p.t, errdefs.IsNotFound(err), "%v", err)
}

// Nobody has heard the name of a container that does not run yet, and it may be there.
func TestTheSecondInterruptTellsOfAContainerThatStarts(t *testing.T) {
	t.Parallel()
	image := dockerImage(t)
	begun := make(chan struct{})
	host := engineBehind(t, func(r *http.Request, pass func()) {
		if strings.HasSuffix(r.URL.Path, "/containers/create") {
			close(begun)
		}
		if strings.Contains(r.URL.Path, "/containers/") && r.Method != http.MethodGet {
			_, _ = io.Copy(io.Discard, r.Body) // else the end of the request is not noticed
			<-r.Context().Done()
			return
		}
		pass()
	})
	server := pygenttest.NewServer(t, bash("true"))
	p := &pausedRun{t: t}
	p.start(command(t, append(server.Env(), "DOCKER_HOST="+host, "XDG_STATE_HOME="+t.TempDir()), "run", "--docker", "--image", image, "go"))
	<-begun
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	p.await("pygent: waiting for what runs to end; Ctrl-C again ends pygent at once")
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	p.await("pygent: interrupted again: a container that was starting may be left over; \"pygent prune\" lists it")
	require.Error(t, p.cmd.Wait())
	require.Equal(t, exitCancel, p.cmd.ProcessState.ExitCode())
}

func TestARunTellsThatItsContainerTakesItsTimeToStart(t *testing.T) {
	t.Parallel()
	image := dockerImage(t)
	gate := make(chan struct{})
	goOn := sync.OnceFunc(func() { close(gate) })
	host := engineBehind(t, func(r *http.Request, pass func()) {
		if strings.HasSuffix(r.URL.Path, "/start") {
			<-gate
		}
		pass()
	})
	t.Cleanup(goOn) // before the engine's server waits for its requests
	server := pygenttest.NewServer(t, bash("echo made"), stop("done"))
	p := &pausedRun{t: t}
	p.start(command(t, append(server.Env(), "XDG_STATE_HOME="+t.TempDir(), "DOCKER_HOST="+host), "run", "--docker", "--image", image, "--cwd", "go"))
	p.await("» $ echo made")
	p.await("· still starting the container · ")
	goOn()
	p.await(" runs " + image)
	p.await("  made")
	requireExit(t, p.cmd, exitOK)
}

// A session in which nothing was said is not kept, whatever became of its container.
func TestASessionWhoseContainerCannotStartLeavesNothing(t *testing.T) {
	t.Parallel()
	dockerImage(t)
	env := append(pygenttest.NewServer(t).Env(), "XDG_STATE_HOME="+t.TempDir())
	got := finish(t, command(t, env, "--docker", "--image", noImage))
	require.Equal(t, 0, got.code, got.stderr)
	got = finish(t, command(t, env, "sessions", "list", "--all"))
	require.Equal(t, noSessions, got.stdout)
}

func TestRunWithoutACommandTellsThatNoneCouldHaveRun(t *testing.T) {
	t.Parallel()
	dockerImage(t)
	server := pygenttest.NewServer(t, pygenttest.Text("It is 42.").WithDelay(2*time.Second), pygenttest.Call("stop", nil))
	got := finish(t, command(t, server.Env(), "run", "--docker", "--image", noImage, "--omit-tool", "bash", "--quiet", "go"))
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, "It is 42.\n", got.stdout)
	require.Contains(t, got.stderr, "warning: no command could have run: the runtime cannot start")
	require.Contains(t, got.stderr, noImage)
}

func TestSessionSaysAtOnceThatTheContainerCannotStart(t *testing.T) {
	t.Parallel()
	dockerImage(t)
	cmd := command(t, pygenttest.NewServer(t).Env(), "--docker", "--image", noImage)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(stdout)
	said := ""
	for said == "" && lines.Scan() {
		if strings.HasPrefix(lines.Text(), "! commands cannot run: ") {
			said = lines.Text()
		}
	}
	require.Contains(t, said, `: pull image "`+noImage)
	require.Contains(t, said, "--no-docker")
	require.NotContains(t, said, "the runtime cannot start", "it is said once")
	require.NoError(t, stdin.Close())
	_, err = io.Copy(io.Discard, stdout)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
}

func TestASessionSaysAtOnceThatTheContainerCannotStart(t *testing.T) {
	t.Parallel()
	dockerImage(t)
	p := atTerminal(t, command(t, pygenttest.NewServer(t).Env(), "--docker", "--image", noImage))
	p.Await("✗ commands cannot run: pull image ", noImage, "docker load", "--image", "--no-docker", "Ready")
	p.leaves()
	require.Equal(t, 1, strings.Count(p.All(), "cannot run"), p.All())
}

// The runtime begins to pull before the session is there to be told of it.
func TestASessionSaysThatAnImageIsPulled(t *testing.T) {
	t.Parallel()
	dockerImage(t)
	registry, err := net.Listen("tcp", "127.0.0.1:0") // it never answers
	require.NoError(t, err)
	defer registry.Close()
	image := registry.Addr().String() + "/pygent/slow:latest"
	p := atTerminal(t, command(t, pygenttest.NewServer(t).Env(), "--docker", "--image", image))
	p.Await("· pulling "+image, "Ready")
	p.leaves()
	require.Equal(t, 1, strings.Count(p.All(), "pulling"), p.All())

	cmd := command(t, pygenttest.NewServer(t).Env(), "--docker", "--image", image)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(stderr)
	for lines.Scan() && lines.Text() != "· pulling "+image {
	}
	require.Equal(t, "· pulling "+image, lines.Text())
	require.NoError(t, stdin.Close())
	_, err = io.Copy(io.Discard, stderr)
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
}

func TestEngineThatGoesAwayAtTheEndIsAWarning(t *testing.T) {
	t.Parallel()
	image := dockerImage(t)
	engine := startProxy(t)
	server := pygenttest.NewServer(t, bash("echo made"), pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
		engine.cut()
		return pygenttest.Call("stop", map[string]any{"summary": "done"})
	}))
	cmd := command(t, append(server.Env(), "DOCKER_HOST=unix://"+engine.path), "run", "--docker", "--image", image, "--quiet", "--cwd", "go")
	got := finish(t, cmd)
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, "done\n", got.stdout)
	require.Contains(t, got.stderr, "pygent: warning: ")
}

// The files of a temporary workspace end with the session, although they are on this
// machine, so a person who cannot have them copied is told where they are.
func TestASessionWhoseEngineHasGoneSaysWhereTheFilesAre(t *testing.T) {
	t.Parallel()
	image := dockerImage(t)
	engine := startProxy(t)
	server := pygenttest.NewServer(t, bash("echo precious > made.txt"), pygenttest.Text("Made."))
	// Without a cache there is no socket, by which the files could be kept all the same.
	env := append(server.Env(), "DOCKER_HOST=unix://"+engine.path, "XDG_CACHE_HOME="+os.DevNull)
	p := atTerminal(t, command(t, env, "--docker", "--image", image))
	p.Await("Ready")
	p.Type("go\n")
	p.Await("Made.", "Ready")
	engine.cut()
	p.Key("ctrl+d")
	p.Await("Keep them?")
	p.reads()
	p.Type("k")
	p.Await("the files could not be kept: ", "Keep them?")
	p.reads()
	dir := regexp.MustCompile(`(?s)could not be kept: .*files are in\n\s*(/\S+)\n`).FindStringSubmatch(p.All())
	require.NotNil(t, dir, p.All())
	data, err := os.ReadFile(filepath.Join(dir[1], "made.txt"))
	require.NoError(t, err)
	require.Equal(t, "precious\n", string(data))
	p.Type("d")
	require.NoError(t, p.Wait(), p.All())
}

func TestASessionSaysThatCleaningUpTakesAWhile(t *testing.T) {
	t.Parallel()
	image := dockerImage(t)
	engine := startProxy(t)
	server := pygenttest.NewServer(t, bash("echo made"), pygenttest.Text("Made."))
	p := atTerminal(t, command(t, append(server.Env(), "DOCKER_HOST=unix://"+engine.path), "--docker", "--image", image, "--cwd"))
	p.Await("Ready")
	p.Type("go\n")
	p.Await("Made.", "Ready")
	engine.frozen.Lock()
	thaw := sync.OnceFunc(engine.frozen.Unlock)
	t.Cleanup(thaw)
	p.Key("ctrl+d")
	p.Await("still cleaning up… Ctrl-C to finish next time")
	thaw()
	require.NoError(t, p.Wait(), p.All())
	require.NotContains(t, p.All(), "warning", "all of it is removed")
}

// The answer of a run is there before its container is gone.
func TestARunSaysThatCleaningUpTakesAWhile(t *testing.T) {
	for name, interrupt := range map[string]bool{"waits": false, "leaves": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			image := dockerImage(t)
			gate := make(chan struct{})
			answer := sync.OnceFunc(func() { close(gate) })
			host := engineBehind(t, func(r *http.Request, pass func()) {
				if r.Method == http.MethodDelete {
					<-gate
				}
				pass()
			})
			t.Cleanup(answer) // before the engine's server waits for its requests
			server := pygenttest.NewServer(t, bash("echo made"), pygenttest.Call("stop", map[string]any{"summary": "done"}))
			p := &pausedRun{t: t}
			p.start(command(t, append(server.Env(), "XDG_STATE_HOME="+t.TempDir(), "DOCKER_HOST="+host), "run", "--docker", "--image", image, "--cwd", "go"))
			name := strings.Fields(p.await("· container pygent-"))[2]
			p.await("pygent: still cleaning up… Ctrl-C to finish next time")
			if !interrupt {
				answer()
				requireExit(t, p.cmd, exitOK)
				return
			}
			require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
			p.await("pygent: interrupted: container " + name + " may still be running; \"pygent prune " + name + "\" removes it")
			requireExit(t, p.cmd, exitCancel)
			answer()
			finish(t, command(t, p.cmd.Env, "prune", name)) // unless it has ended by itself meanwhile
		})
	}
}

func TestOnlyLeftoversAreWarnings(t *testing.T) {
	t.Parallel()
	broken := errors.New("the history is broken")
	left := fmt.Errorf("%w: container x", pygent.ErrCleanupIncomplete)
	tests := []struct {
		name   string
		err    error
		rest   error
		warned []string
	}{
		{"nothing", nil, nil, nil},
		{"a leftover", left, nil, []string{"something is left on the engine: container x"}},
		{"wrapped", fmt.Errorf("close: %w", left), nil, []string{"close: something is left on the engine: container x"}},
		{"with its cause", fmt.Errorf("%w: %w", pygent.ErrCleanupIncomplete, broken), nil, []string{"something is left on the engine: the history is broken"}},
		{"left behind", errors.Join(fmt.Errorf("close the agent: the tool slow %w", pygent.ErrLeftBehind)), nil, []string{"close the agent: the tool slow did not end in time and is left behind"}},
		{"two", errors.Join(left, errors.Join(nil, left)), nil, []string{left.Error(), left.Error()}},
		{"two in one", fmt.Errorf("close: %w", errors.Join(left, left)), nil, []string{"close: " + left.Error() + "\n" + left.Error()}},
		{"something else", broken, broken, nil},
		{"both", errors.Join(broken, left), broken, []string{left.Error()}},
		{"both in one", fmt.Errorf("close: %w", errors.Join(broken, left)), broken, []string{left.Error()}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var warned []string
			rest := withoutLeftovers(tt.err, func(err error) { warned = append(warned, err.Error()) })
			require.ErrorIs(t, rest, tt.rest)
			require.False(t, tellsOfLeftovers(rest))
			require.Equal(t, tt.warned, warned)
		})
	}
}

// proxy stands between the command and the engine, until it is cut.
type proxy struct {
	path     string
	listener net.Listener

	frozen sync.RWMutex // locked while nothing is passed on

	mu    sync.Mutex
	conns []net.Conn
	wg    sync.WaitGroup
}

func startProxy(t *testing.T) *proxy {
	t.Helper()
	host := os.Getenv("DOCKER_HOST")
	if host == "" {
		host = client.DefaultDockerHost
	}
	engine, err := client.ParseHostURL(host)
	require.NoError(t, err)
	p := &proxy{path: filepath.Join(enginetest.SocketDir(t), "engine.sock")}
	p.listener, err = net.Listen("unix", p.path)
	require.NoError(t, err)
	p.wg.Go(func() { p.serve(engine.Scheme, engine.Host) })
	t.Cleanup(func() {
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) serve(network, address string) {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial(network, address)
		if err != nil {
			in.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, in, out)
		p.mu.Unlock()
		p.wg.Go(func() { pass(out, &gated{in, &p.frozen}) })
		p.wg.Go(func() { pass(in, &gated{out, &p.frozen}) })
	}
}

// pass copies until either side ends. It closes only the direction that ended,
// since the engine still answers in the other.
func pass(to net.Conn, from io.Reader) {
	_, _ = io.Copy(to, from)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// gated is a reader that keeps what it has read while its gate is locked.
type gated struct {
	io.Reader
	gate *sync.RWMutex
}

func (g *gated) Read(b []byte) (int, error) {
	n, err := g.Reader.Read(b)
	g.gate.RLock()
	defer g.gate.RUnlock()
	return n, err
}

// cut ends all connections and accepts no more.
func (p *proxy) cut() {
	_ = p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
}
