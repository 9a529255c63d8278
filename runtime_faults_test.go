// These tests hold what users see when containers, engines and helper processes hang or go
// away, and how an engine is found at all.

package pygent_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit/enginetest"
	"github.com/x/pygent/pygenttest"
)

// ticking is a command that keeps writing to a file while it runs.
const ticking = "while :; do echo >>ticks; sleep 0.02; done"

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

// faultyEngine forwards connections to the shared engine of the tests, and can
// freeze or cut them. The engine itself is not affected.
type faultyEngine struct {
	host   string // value for DOCKER_HOST
	engine *client.Client

	mu     sync.Mutex // guards what follows
	moves  *sync.Cond
	frozen bool // no bytes are forwarded in either direction
	down   bool // new connections are refused
	open   map[net.Conn]bool
}

// newFaultyEngine listens on a Unix socket or on TCP, as a remote engine does.
func newFaultyEngine(t *testing.T, network string) *faultyEngine {
	t.Helper()
	return newFaultyEngineOf(t, testEngine(t), network)
}

func newFaultyEngineOf(t *testing.T, engine *client.Client, network string) *faultyEngine {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(enginetest.SocketDir(t), "s")
	}
	l, err := net.Listen(network, address)
	require.NoError(t, err)
	f := &faultyEngine{host: network + "://" + l.Addr().String(), engine: engine, open: map[net.Conn]bool{}}
	f.moves = sync.NewCond(&f.mu)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { f.pass(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		f.thaw()
		f.cut()
		wg.Wait()
	})
	return f
}

// pass forwards a connection to the engine and back.
func (f *faultyEngine) pass(outside net.Conn) {
	defer outside.Close()
	f.mu.Lock()
	down := f.down
	f.mu.Unlock()
	if down {
		return
	}
	inside, err := f.engine.Dialer()(context.Background())
	if err != nil {
		return
	}
	defer inside.Close()
	f.mu.Lock()
	f.open[outside], f.open[inside] = true, true
	f.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() {
		io.Copy(inside, held{f, outside})
		inside.(interface{ CloseWrite() error }).CloseWrite()
	})
	io.Copy(outside, held{f, inside})
	outside.Close()
	wg.Wait()
}

// held is a connection that forwards nothing while the engine is frozen.
type held struct {
	f *faultyEngine
	net.Conn
}

func (h held) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	for h.f.frozen {
		h.f.moves.Wait()
	}
	return n, err
}

// freeze stops all bytes without closing a connection, as when a network fails.
func (f *faultyEngine) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = true
}

func (f *faultyEngine) thaw() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen = false
	f.moves.Broadcast()
}

// cut closes all connections, and refuses new ones until mend.
func (f *faultyEngine) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = true
	for conn := range f.open {
		conn.Close()
	}
	clear(f.open)
}

func (f *faultyEngine) mend() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = false
}

// standIn forwards connections from a listener to the engine, and so acts as an
// engine at another address. It returns a function that counts the connections.
func standIn(t *testing.T, l net.Listener) (connections func() int) {
	t.Helper()
	engine := testEngine(t)
	var wg sync.WaitGroup
	var mu sync.Mutex // guards open and count
	open, count := map[net.Conn]bool{}, 0
	pass := func(outside net.Conn) {
		defer outside.Close()
		inside, err := engine.Dialer()(context.Background())
		if err != nil {
			return
		}
		defer inside.Close()
		mu.Lock()
		open[outside], open[inside] = true, true
		count++
		mu.Unlock()
		wg.Go(func() {
			io.Copy(inside, outside)
			inside.(interface{ CloseWrite() error }).CloseWrite()
		})
		io.Copy(outside, inside)
	}
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { pass(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for conn := range open {
			conn.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return count
	}
}

func listenUnix(t *testing.T, path string) net.Listener {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	return l
}

// writeContext makes a context of the docker command.
func writeContext(t *testing.T, config, name, host string) (id string) {
	t.Helper()
	sum := sha256.Sum256([]byte(name))
	id = hex.EncodeToString(sum[:])
	write(t, config, map[string]string{
		"contexts/meta/" + id + "/meta.json": fmt.Sprintf(`{"Name":%q,"Endpoints":{"docker":{"Host":%q}}}`, name, host),
	})
	return id
}

// unsetEngine removes all settings from which an engine could be found. The
// default socket cannot be hidden and is still tried first.
func unsetEngine(t *testing.T) (home string) {
	home = enginetest.SocketDir(t)
	for _, name := range []string{"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "XDG_RUNTIME_DIR"} {
		t.Setenv(name, "")
	}
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	t.Setenv("HOME", home)
	return home
}

func requireUsed(t *testing.T, connections func() int, opts ...pygent.RuntimeOption) {
	t.Helper()
	r := newTestRuntime(t, pygent.NewDockerRuntime, append([]pygent.RuntimeOption{pygent.WithImage(testImage())}, opts...)...)
	require.NoError(t, r.WriteFile(t.Context(), "f", []byte("content")))
	require.Equal(t, "content", bash(t, r, "cat f").Output)
	require.NotZero(t, connections())
	require.NoError(t, r.Cleanup())
}

func TestEngineOfDockerHost(t *testing.T) {
	t.Run("unix", func(t *testing.T) {
		l := listenUnix(t, filepath.Join(enginetest.SocketDir(t), "s"))
		connections := standIn(t, l)
		unsetEngine(t)
		t.Setenv("DOCKER_HOST", "unix://"+l.Addr().String())
		requireUsed(t, connections)
	})
	t.Run("tcp", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		connections := standIn(t, l)
		unsetEngine(t)
		t.Setenv("DOCKER_HOST", "tcp://"+l.Addr().String())
		requireUsed(t, connections)
	})
}

func TestEnginesThatCannotBeAskedAreNamedInPlainWords(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	requireUnavailable(t, "tcp://"+silent.Addr().String(), "it did not answer within 5s")
	requireUnavailable(t, "tcp://127.0.0.1:1", "Cannot connect")
}

func TestAnEngineThatSSHDoesNotReachIsNamedInPlainWords(t *testing.T) {
	program := filepath.Join(t.TempDir(), "ssh")
	write(t, filepath.Dir(program), map[string]string{"ssh": "#!/bin/sh\necho 'Host key verification failed.' >&2\necho 'Lost.' >&2\nexit 255\n"})
	require.NoError(t, os.Chmod(program, 0o700))
	t.Setenv("PATH", filepath.Dir(program)+":"+os.Getenv("PATH"))
	requireUnavailable(t, "ssh://none.invalid", "Host key verification failed.; Lost.")
}

// requireUnavailable checks that the engine of a host cannot be asked, and that the error
// says why in a line, and not how it was asked.
func requireUnavailable(t *testing.T, host, why string) {
	t.Helper()
	_, err := pygent.NewDockerRuntime(t.Context(), pygent.WithDockerHost(host))
	require.ErrorIs(t, err, pygent.ErrDockerUnavailable)
	require.ErrorContains(t, err, "(tried "+host)
	require.ErrorContains(t, err, why)
	require.NotContains(t, err.Error(), "\n")
	require.NotContains(t, err.Error(), "_ping")
}

func TestAnEngineIsNotWaitedForOnceTheContextHasEnded(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(enginetest.SocketDir(t), "engine.sock"))
	require.NoError(t, err)
	defer listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if conn, err := listener.Accept(); err == nil { // it is never answered
			defer conn.Close()
			cancel()
			<-t.Context().Done()
		}
	}()
	_, err = pygent.NewWithContext(ctx, pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithDockerHost("unix://"+listener.Addr().String()))
	require.ErrorIs(t, err, context.Canceled, "commands would run on this machine otherwise")
}

func TestEngineOfAContext(t *testing.T) {
	l := listenUnix(t, filepath.Join(enginetest.SocketDir(t), "s"))
	connections := standIn(t, l)
	home := unsetEngine(t)
	t.Run("in use", func(t *testing.T) {
		writeContext(t, filepath.Join(home, ".docker"), "mine", "unix://"+l.Addr().String())
		write(t, home, map[string]string{".docker/config.json": `{"currentContext":"mine"}`})
		requireUsed(t, connections)
	})
	t.Run("named, elsewhere", func(t *testing.T) {
		config := t.TempDir()
		writeContext(t, config, "other", "unix://"+l.Addr().String())
		t.Setenv("DOCKER_CONFIG", config)
		t.Setenv("DOCKER_CONTEXT", "other")
		before := connections()
		requireUsed(t, func() int { return connections() - before })
	})
	t.Run("that does not answer", func(t *testing.T) {
		config := t.TempDir()
		writeContext(t, config, "gone", "unix:///nonexistent/s")
		t.Setenv("DOCKER_CONFIG", config)
		t.Setenv("DOCKER_CONTEXT", "gone")
		_, err := pygent.NewDockerRuntime(t.Context())
		require.ErrorIs(t, err, pygent.ErrDockerUnavailable)
		require.ErrorContains(t, err, "context gone")
	})
}

// TestEngineBehindTLS uses an engine that identifies its clients by
// certificates.
func TestEngineBehindTLS(t *testing.T) {
	certs := t.TempDir()
	config := writeCertificates(t, certs)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	connections := standIn(t, tls.NewListener(l, config))
	address := "tcp://" + l.Addr().String()
	unsetEngine(t)

	t.Run("by the environment", func(t *testing.T) {
		t.Setenv("DOCKER_HOST", address)
		t.Setenv("DOCKER_TLS_VERIFY", "1")
		t.Setenv("DOCKER_CERT_PATH", certs)
		requireUsed(t, connections)
	})
	t.Run("by a context", func(t *testing.T) {
		docker := t.TempDir()
		id := writeContext(t, docker, "secure", address)
		require.NoError(t, os.MkdirAll(filepath.Join(docker, "contexts", "tls", id), 0o700))
		require.NoError(t, os.CopyFS(filepath.Join(docker, "contexts", "tls", id, "docker"), os.DirFS(certs)))
		t.Setenv("DOCKER_CONFIG", docker)
		t.Setenv("DOCKER_CONTEXT", "secure")
		before := connections()
		requireUsed(t, func() int { return connections() - before })
	})
	t.Run("without a certificate", func(t *testing.T) {
		t.Setenv("DOCKER_HOST", address)
		_, err := pygent.NewDockerRuntime(t.Context())
		require.ErrorIs(t, err, pygent.ErrDockerUnavailable)
		require.ErrorContains(t, err, strings.TrimPrefix(address, "tcp://"))
	})
}

// writeCertificates makes a certificate authority, and a client certificate in
// files named as the docker command expects. It returns the configuration of a
// server.
func writeCertificates(t *testing.T, dir string) *tls.Config {
	t.Helper()
	authority := certificate(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	user := certificate(t, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, &authority)
	server := certificate(t, &x509.Certificate{
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, &authority)
	key, err := x509.MarshalPKCS8PrivateKey(user.PrivateKey)
	require.NoError(t, err)
	for name, block := range map[string]pem.Block{
		"ca.pem":   {Type: "CERTIFICATE", Bytes: authority.Certificate[0]},
		"cert.pem": {Type: "CERTIFICATE", Bytes: user.Certificate[0]},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: key},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&block), 0o600))
	}
	pool := x509.NewCertPool()
	pool.AddCert(authority.Leaf)
	return &tls.Config{Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
}

func certificate(t *testing.T, template *x509.Certificate, authority *tls.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: "pygent test"}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, by := template, any(key)
	if authority != nil {
		parent, by = authority.Leaf, authority.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}
