package cli

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/enginetest"
	"github.com/x/pygent/pygenttest"
)

// What a process has learned of an image, the next one knows before there is a
// container, which starts while the model is asked. The test runs alone: the first
// process waits for its container for a limited time.
func TestTheFirstRequestWaitsForNoContainerOfAKnownImage(t *testing.T) {
	image := dockerImage(t)
	state := t.TempDir()
	var until atomic.Pointer[pygenttest.Server] // no container is created before this model is asked
	host := engineBehind(t, func(r *http.Request, pass func()) {
		if model := until.Load(); model != nil && strings.HasSuffix(r.URL.Path, "/containers/create") {
			_ = model.WaitRequests(r.Context(), 1) // else the test fails by what the request lacks
		}
		pass()
	})
	first := func(held bool) (system string) {
		server := pygenttest.NewServer(t, bash("true"), pygenttest.Call("stop", map[string]any{"summary": "done"}))
		until.Store(nil)
		if held {
			until.Store(server)
		}
		cmd := command(t, append(server.Env(), "DOCKER_HOST="+host, "XDG_STATE_HOME="+state), "run", "--docker", "--image", image, "--quiet", "go")
		got := finish(t, cmd)
		require.Equal(t, 0, got.code, got.stderr)
		require.Equal(t, "done\n", got.stdout)
		require.Empty(t, got.stderr)
		return server.Requests()[0].Chat.Messages[0].Content
	}
	require.Contains(t, first(false), "The shell is bash.", "nothing is known, so the container is waited for")
	system := first(true)
	require.Contains(t, system, "The shell is bash.")
	require.Regexp(t, `- The system is Debian.*\.\n- Programs: `, system)

	files, err := filepath.Glob(filepath.Join(state, "pygent", "known", "*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.NoError(t, os.WriteFile(files[0], []byte(strings.Repeat("{", 1<<20)), 0o600))
	require.Contains(t, first(false), "The shell is bash.", "what is damaged is asked again")
	require.Equal(t, system, first(true), "and known again, to the byte")
}

// Whoever reads the answer does not wait for the removal of the container, and whoever
// waits for the process does.
func TestTheAnswerIsThereBeforeTheContainerIsRemoved(t *testing.T) {
	t.Parallel()
	image := dockerImage(t)
	answered := make(chan struct{})
	var removed atomic.Bool
	host := engineBehind(t, func(r *http.Request, pass func()) {
		if r.Method == http.MethodDelete {
			<-answered
			defer removed.Store(true)
		}
		pass()
	})
	server := pygenttest.NewServer(t, bash("true"), pygenttest.Call("stop", map[string]any{"summary": "done"}))
	cmd := command(t, append(server.Env(), "DOCKER_HOST="+host), "run", "--docker", "--image", image, "--quiet", "go")
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	close(answered)
	require.NoError(t, err)
	require.Equal(t, "done\n", line)
	require.NoError(t, cmd.Wait())
	require.True(t, removed.Load(), "the engine has answered that it is gone")
}

// engineBehind serves what answers for the engine on a socket, and returns its address.
// serve may pass a request on to the engine.
func engineBehind(t *testing.T, serve func(r *http.Request, pass func())) (host string) {
	t.Helper()
	from := os.Getenv("DOCKER_HOST")
	if from == "" {
		from = client.DefaultDockerHost
	}
	engine, err := client.ParseHostURL(from)
	require.NoError(t, err)
	next := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "engine"})
	next.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, engine.Scheme, engine.Host)
	}}
	socket := filepath.Join(enginetest.SocketDir(t), "engine.sock")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serve(r, func() { next.ServeHTTP(w, r) })
	})}}
	server.Start()
	t.Cleanup(server.Close)
	return "unix://" + socket
}
