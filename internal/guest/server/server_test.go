package server_test

import (
	"context"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/guest/server"
	"github.com/x/pygent/internal/guest/supervise"
	"github.com/x/pygent/internal/guest/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inside runs the guest's server in this process, as on machines where no child
// process can be the guest.
func inside(t *testing.T, config guest.Config) *guest.Client {
	t.Helper()
	return insideOn(t, config, func(conn net.Conn) io.ReadWriteCloser { return conn })
}

// insideOn is inside with a stream of the test's own.
func insideOn(t *testing.T, config guest.Config, wrap func(net.Conn) io.ReadWriteCloser) *guest.Client {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs a POSIX shell")
	}
	ours, theirs := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- server.New(supervise.NewGroups(), os.Environ()).Serve(wrap(theirs)) }()
	if config.Workspace == "" {
		config.Workspace = t.TempDir()
	}
	c, err := guest.Connect(context.Background(), ours, config)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = c.Close()
		require.NoError(t, <-served)
	})
	return c
}

func TestCommandsRunInProcessGroups(t *testing.T) {
	c := inside(t, guest.Config{})
	require.False(t, c.Info().Supervised)
	ctx := context.Background()
	r, err := c.Run(ctx, guest.Command{Script: "echo out; echo err >&2; exit 3"})
	require.NoError(t, err)
	require.Equal(t, "out\nerr\n", string(r.Head))
	require.Equal(t, 3, r.ExitCode)

	r, err = c.Run(ctx, guest.Command{Script: "trap '' TERM; echo on; while :; do sleep 1; done", Timeout: time.Second, Grace: 10 * time.Millisecond})
	require.NoError(t, err)
	require.True(t, r.TimedOut)
	require.Equal(t, 9, r.Signal)
	require.Equal(t, "on\n", string(r.Head))

	r, err = c.Run(ctx, guest.Command{Script: "sleep 600 & echo hi"})
	require.NoError(t, err)
	require.Equal(t, "hi\n", string(r.Head))
	require.NotEmpty(t, r.Job)
	require.NotEmpty(t, r.Left)
	require.Zero(t, r.Survivors, "nothing was to end them")
	job, err := c.Kill(ctx, r.Job, -1)
	require.NoError(t, err)
	require.False(t, job.Running)
	require.True(t, job.Killed)
	_, err = c.Run(ctx, guest.Command{Script: "true", Dir: "missing"})
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "directory of the command")
}

func TestACommandGoesOnAfterItsTime(t *testing.T) {
	c := inside(t, guest.Config{})
	ctx := context.Background()
	r, err := c.Run(ctx, guest.Command{Script: "echo on; sleep 600", Timeout: 300 * time.Millisecond, GoOn: true})
	require.NoError(t, err)
	require.True(t, r.GoesOn)
	require.False(t, r.TimedOut)
	require.NotEmpty(t, r.Job)
	job, err := c.Kill(ctx, r.Job, -1)
	require.NoError(t, err)
	require.False(t, job.Running)
	require.False(t, job.TimedOut)
}

// A script that looks for processes by their arguments must not find itself.
func TestAScriptThatSearchesIsNotInArguments(t *testing.T) {
	c := inside(t, guest.Config{})
	for script, want := range map[string]bool{"": true, "# pkill": false, "# pgrep": false} {
		r, err := c.Run(context.Background(), guest.Command{Script: script + "\nps -o args= -p $$; true # findme"})
		require.NoError(t, err)
		require.Equal(t, want, strings.Contains(string(r.Head), "findme"), "%s: %s", script, r.Head)
	}
	_, err := c.Run(context.Background(), guest.Command{Script: "echo a # \x00"})
	require.NoError(t, err, "no argument can have a zero byte")
}

func TestJobsHaveTitlesForPeople(t *testing.T) {
	c := inside(t, guest.Config{})
	for script, want := range map[string]string{
		"sleep 600":                              "sleep 600",
		"\n  sleep 600 \n# more":                 "sleep 600 …",
		"sleep 600 # a\xffb":                     "sleep 600 # ab",
		"sleep 600 #" + strings.Repeat("x", 200): "sleep 600 #" + strings.Repeat("x", 109) + " …",
	} {
		job, err := c.Start(context.Background(), guest.Command{Script: script})
		require.NoError(t, err)
		require.Equal(t, want, job.Command)
	}
}

func TestServeEndsWhatRuns(t *testing.T) {
	c := inside(t, guest.Config{})
	_, err := c.Start(context.Background(), guest.Command{Script: "sleep 600 & sleep 600"})
	require.NoError(t, err)
	_, err = c.Start(context.Background(), guest.Command{Script: strings.Repeat("#\n", 100_000) + "echo big; sleep 600"})
	require.NoError(t, err)
}

func TestRequestsNeedAHello(t *testing.T) {
	ours, theirs := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- server.New(supervise.NewGroups(), nil).Serve(theirs) }()
	session, err := wire.NewHost(ours)
	require.NoError(t, err)
	ask := func(kind wire.Kind, m wire.Message) error {
		stream, err := session.OpenStream()
		require.NoError(t, err)
		defer stream.Close()
		require.NoError(t, wire.WriteFrame(stream, kind, m))
		return wire.ReadReply(stream, &wire.Welcome{})
	}
	dir := t.TempDir()
	require.ErrorIs(t, ask(wire.KindRun, &wire.Run{}), wire.ErrMalformed)
	require.ErrorIs(t, ask(wire.KindHello, &wire.Hello{Version: 99, Workspace: dir}), wire.ErrVersion)
	require.ErrorIs(t, ask(wire.KindHello, &wire.Hello{Version: wire.Version, Workspace: dir + "/missing"}), os.ErrNotExist)
	require.NoError(t, ask(wire.KindHello, &wire.Hello{Version: wire.Version, Workspace: dir}))
	require.ErrorIs(t, ask(wire.KindHello, &wire.Hello{Version: wire.Version, Workspace: dir}), wire.ErrMalformed)
	require.ErrorIs(t, ask(wire.Kind(200), nil), wire.ErrMalformed)
	require.NoError(t, session.Close())
	require.NoError(t, <-served)
}

func TestSpillNeedsNoWorkspaceAndNoRoom(t *testing.T) {
	dir := t.TempDir()
	c := inside(t, guest.Config{Workspace: dir, SpillDirs: []string{dir, dir + "/missing"}})
	require.Empty(t, c.Info().Spill)
	require.NotEmpty(t, c.Info().SpillNote)
	r, err := c.Run(context.Background(), guest.Command{Script: "printf '%01000d' 1", Head: 10, Tail: 10})
	require.NoError(t, err)
	require.EqualValues(t, 1000, r.Total)
	require.Empty(t, r.Spill)
}

func TestIdleSessionsAreSmall(t *testing.T) {
	const sessions = 200
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // new stacks are as large as the collector has found others
	used := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapInuse + m.StackInuse)
	}
	before := used()
	for range sessions {
		c := inside(t, guest.Config{})
		_, err := c.Jobs(context.Background())
		require.NoError(t, err)
	}
	each := (used() - before) / sessions
	t.Logf("%d KiB for both sides of a session", each>>10)
	require.Less(t, each, int64(64<<10))
}

// FuzzServer sends the guest's side anything that a host could send.
func FuzzServer(f *testing.F) {
	f.Add([]byte{0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 5, 3, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		ours, theirs := net.Pipe()
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = server.New(supervise.NewGroups(), nil).Serve(theirs)
		}()
		go func() {
			buf := make([]byte, 4096)
			for {
				if _, err := ours.Read(buf); err != nil {
					return
				}
			}
		}()
		_ = ours.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = ours.Write(b)
		_ = ours.Close()
		<-served
	})
}
