package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
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

func TestRunWithoutACommandTellsThatNoneCouldHaveRun(t *testing.T) {
	t.Parallel()
	dockerImage(t)
	server := pygenttest.NewServer(t, pygenttest.Text("It is 42.").WithDelay(2*time.Second), pygenttest.Call("stop", nil))
	got := finish(t, command(t, server.Env(), "run", "--docker", "--image", noImage, "--quiet", "go"))
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
	p.Await("the files are not kept: ", "Keep them?")
	p.reads()
	dir := regexp.MustCompile(`(?s)are not kept: .*they are in\n\s*(/\S+)\n`).FindStringSubmatch(p.All())
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
	p.Await("cleaning up takes a while; Ctrl-C leaves what is left to a later start")
	thaw()
	require.NoError(t, p.Wait(), p.All())
	require.NotContains(t, p.All(), "warning", "all of it is removed")
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
	p := &proxy{path: filepath.Join(t.TempDir(), "engine.sock")}
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
