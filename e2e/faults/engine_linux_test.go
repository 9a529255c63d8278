// Package faults stops, kills and freezes a Docker Engine of its own at each phase of a run
// of the command. Each time the run has to end soon, with the right status and with words
// that are true, and to leave nothing that the next one does not remove. "make faults" runs
// all of it; the tests of the module run a part.
package faults

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/cmdtest"
	"github.com/x/pygent/internal/testkit/enginetest"
	"github.com/x/pygent/pygenttest"
)

func TestMain(m *testing.M) { cmdtest.Main(m, nil) }

// phase is a moment of a run.
type phase struct {
	at     func(*http.Request) bool // the request before which it happens
	after  bool                     // it happens after that request
	remote bool                     // the engine is on another machine, as it seems
	begun  bool                     // a command has begun
	done   bool                     // the work is done
	short  bool                     // it belongs to the tests of the module
}

func ends(how string) func(*http.Request) bool {
	return func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, how) }
}

var phases = map[string]phase{
	"the image is looked at": {at: func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/images/") }},
	"the container is made":  {at: ends("/containers/create"), short: true},
	"it is attached to":      {at: ends("/attach")},
	"it is started":          {at: ends("/start"), short: true},
	"its guest is spoken to": {at: ends("/start"), after: true, remote: true},
	"the volume is made":     {at: ends("/volumes/create"), remote: true},
	"the volume is opened": {at: func(r *http.Request) bool {
		return ends("/containers/create")(r) && strings.HasSuffix(r.URL.Query().Get("name"), "-volume")
	}, remote: true},
	"the guest is copied": {at: func(r *http.Request) bool {
		return r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/archive")
	}, remote: true},
	"a command runs":           {remote: true, begun: true},
	"the container is removed": {at: func(r *http.Request) bool { return r.Method == http.MethodDelete }, done: true, short: true},
}

// fault is what is done to the engine.
type fault struct {
	do    func(*enginetest.Own, *testing.T)
	waits bool // the engine still takes connections
	short bool
}

var faults = map[string]fault{
	"stopped": {do: (*enginetest.Own).Stop},
	"killed":  {do: (*enginetest.Own).Kill, short: true},
	"frozen":  {do: (*enginetest.Own).Freeze, waits: true},
}

// longest is how long a run may take whose engine fails: the engine has half a minute to
// answer, or to come back, and then some seconds for each second start and for the end.
const longest = 75 * time.Second

func TestARunEndsWhateverBecomesOfItsEngine(t *testing.T) {
	all := os.Getenv("PYGENT_TEST_FAULTS") != ""
	for when, p := range phases {
		for what, f := range faults {
			if !all && !(p.short && f.short) {
				continue
			}
			t.Run(what+" when "+when, func(t *testing.T) {
				t.Parallel()
				try(t, p, f)
			})
		}
	}
}

func try(t *testing.T, p phase, f fault) {
	e := enginetest.Start(t, sharedEngine(t), image())
	fail := sync.OnceFunc(func() { f.do(e, t) })
	host := behind(t, e, p, fail)
	home, state := t.TempDir(), t.TempDir()
	run := func(host string, server *pygenttest.Server, args ...string) (code int, stderr string) {
		cmd := cmdtest.Command(t.Context(), t, append(server.Env(), "DOCKER_HOST="+host, "HOME="+home, "XDG_STATE_HOME="+state), args...)
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		_ = cmd.Run()
		return cmd.ProcessState.ExitCode(), out.String()
	}
	bash := func(cmd string) pygenttest.Reply {
		return pygenttest.Call("bash", map[string]any{"cmd": cmd, "timeout": 5})
	}
	long := 5
	if !f.waits {
		long = 60 // an engine that stops lets its containers end before
	}
	stop := pygenttest.Call("stop", map[string]any{"summary": "done"})
	server := pygenttest.NewServer(t)
	switch {
	case p.begun:
		server.Add(pygenttest.Call("bash", map[string]any{"cmd": "echo up; sleep 1000", "timeout": long}), bash("echo 2"), bash("echo 3"), stop)
		go func() {
			if awaitCommand(t, e, "sleep 1000") {
				fail()
			}
		}()
	case p.done:
		server.Add(bash("echo 1"), stop)
	default:
		server.Add(bash("echo 1"), bash("echo 2"), stop)
	}
	start := time.Now()
	code, said := run(host, server, "run", "--docker", "--image", image(), "go")
	t.Logf("it took %s, status %d:\n%s", time.Since(start).Round(time.Second), code, said)
	require.Less(t, time.Since(start), longest)
	if p.done {
		require.Equal(t, 0, code, said)
		require.Contains(t, said, "container pygent-", "it says what may be left")
	} else {
		require.Equal(t, 2, code, said)
		require.Contains(t, said, "2 commands in a row could not begin")
	}
	if !f.waits {
		require.NotContains(t, said, "does not answer", "nobody waits for an answer there")
	}

	fail() // it may still go on: an engine that is stopped takes its time
	e.Back(t)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		code, said = run(e.Host, pygenttest.NewServer(t, bash("echo 1"), stop), "run", "--docker", "--image", image(), "go")
		assert.Equal(c, 0, code, said)
	}, time.Minute, time.Second, "the engine is back")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		code, said = run(e.Host, server, "prune", "--yes")
		assert.Equal(c, 0, code, said)
		assert.Empty(c, left(t, e), "prune removes what is left: %s", said)
	}, time.Minute, time.Second)
}

// behind serves the engine, and fails it at a phase.
func behind(t *testing.T, e *enginetest.Own, p phase, fail func()) (host string) {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(e.Host, "unix://"))
	}}
	next := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine"
	}, ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
		panic(http.ErrAbortHandler) // as the engine, which closes the connection
	}}
	network, address := "unix", filepath.Join(enginetest.SocketDir(t), "s")
	if p.remote {
		network, address = "tcp", "127.0.0.1:0"
	}
	l, err := net.Listen(network, address)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		matches := p.at != nil && p.at(r)
		if matches && !p.after {
			fail()
		}
		r, done := r.WithContext(r.Context()), context.AfterFunc(ctx, transport.CloseIdleConnections)
		defer done()
		next.ServeHTTP(w, r)
		if matches && p.after {
			fail()
		}
	})}}
	server.Start()
	t.Cleanup(func() {
		cancel()
		server.CloseClientConnections()
		server.Close()
	})
	return network + "://" + l.Addr().String()
}

// awaitCommand waits until a command runs in a container of a run.
func awaitCommand(t *testing.T, e *enginetest.Own, command string) bool {
	for t.Context().Err() == nil {
		for _, c := range left(t, e) {
			top, err := e.Client.ContainerTop(t.Context(), c.ID, nil)
			if err == nil && strings.Contains(fmt.Sprint(top.Processes), command) {
				return true
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	return false
}

// left are the containers of pygent on the engine.
func left(t *testing.T, e *enginetest.Own) []container.Summary {
	found, err := e.Client.ContainerList(context.WithoutCancel(t.Context()), container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", "pygent.runtime"))})
	if err != nil {
		return []container.Summary{{ID: err.Error()}}
	}
	return found
}

func image() string { return enginetest.Busybox() }

// sharedEngine is the engine of all tests, which has the image.
func sharedEngine(t *testing.T) *client.Client {
	t.Helper()
	shared, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	t.Cleanup(func() { _ = shared.Close() })
	enginetest.Need(t, image())
	return shared
}
