//go:build linux

package guest_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/guest/server"
	"github.com/x/pygent/internal/guest/supervise"
)

// impatient returns a guest that is given up soon, either by its keepalive or
// by the time limits of calls.
func impatient(t *testing.T) (c *guest.Client, pid int) { return called(t, 300*time.Millisecond) }

// slowly returns a guest for which only the time limits can end a call.
func slowly(t *testing.T) (c *guest.Client, pid int) { return called(t, time.Hour) }

func called(t *testing.T, every time.Duration) (c *guest.Client, pid int) {
	t.Helper()
	c, err := guest.StartLocal(t.Context(), os.Environ(), guest.Config{
		Workspace: t.TempDir(), Patience: 100 * time.Millisecond, KeepAlive: every,
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	pid, err = strconv.Atoi(strings.TrimSpace(output(run(t, c, "cut -d' ' -f4 /proc/$PPID/stat"))))
	require.NoError(t, err)
	return c, pid
}

// suspend stops all threads of a process.
func suspend(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	awaitStop(t, pid)
}

// awaitStop waits until all threads of a process have stopped. One has to run for that,
// and until then the others may go on.
func awaitStop(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		threads, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
		require.NoError(t, err)
		for _, thread := range threads {
			stat, err := os.ReadFile(thread)
			if err != nil || !strings.Contains(string(stat), ") T ") {
				return false
			}
		}
		return true
	}, testTime, time.Millisecond)
}

// requireGone waits until a process has disappeared or is a zombie.
func requireGone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		_, rest, _ := strings.Cut(string(stat), ") ")
		return err != nil || strings.HasPrefix(rest, "Z")
	}, testTime, time.Millisecond)
}

// beginning waits for the process ids that a command writes to a file of the
// workspace when it starts.
func beginning(t *testing.T, path string) (pids []int) {
	t.Helper()
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.HasSuffix(string(text), ".")
	}, testTime, time.Millisecond)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, field := range strings.Fields(strings.TrimSuffix(string(text), ".")) {
		pid, err := strconv.Atoi(field)
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	return pids
}

func TestStoppedGuestIsGivenUpAtTheLimit(t *testing.T) {
	for _, tc := range []struct {
		name  string
		start func(*testing.T) (*guest.Client, int)
		limit time.Duration
	}{
		{"by the deadline of the command", slowly, 3 * time.Second}, // within which a busy machine stops it
		{"by the keepalive, without a limit", impatient, 0},
		{"by the keepalive, before the limit", impatient, time.Hour},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, pid := tc.start(t)
			dir := strings.TrimSpace(output(run(t, c, "pwd")))
			ended := make(chan error, 1)
			go func() {
				_, err := c.Run(context.Background(), guest.Command{
					Script: "setsid sleep 600 & echo $$ $! $PPID >pids; printf . >>pids; kill -STOP " + strconv.Itoa(pid) + "; sleep 600", Timeout: tc.limit,
				})
				ended <- err
			}()
			pids := beginning(t, filepath.Join(dir, "pids"))
			err := <-ended
			require.ErrorIs(t, err, guest.ErrUnresponsive)
			require.ErrorIs(t, err, guest.ErrClosed)
			require.False(t, c.Alive())
			_, err = c.Run(t.Context(), guest.Command{Script: "true"})
			require.ErrorIs(t, err, guest.ErrClosed)
			require.NoError(t, c.Close())
			for _, pid := range pids {
				requireGone(t, pid)
			}
		})
	}
}

func TestEveryCallOfAStoppedGuestEnds(t *testing.T) {
	ctx := context.Background()
	for name, call := range map[string]func(*guest.Client) error{
		"run": func(c *guest.Client) error {
			_, err := c.Run(ctx, guest.Command{Script: "true", Timeout: time.Hour})
			return err
		},
		"start": func(c *guest.Client) error { _, err := c.Start(ctx, guest.Command{Script: "true"}); return err },
		"jobs":  func(c *guest.Client) error { _, err := c.Jobs(ctx); return err },
		"output": func(c *guest.Client) error {
			_, err := c.Output(ctx, "1", 0, 0, time.Hour)
			return err
		},
		"kill": func(c *guest.Client) error { _, err := c.Kill(ctx, "1", time.Hour); return err },
		"dial": func(c *guest.Client) error { _, err := c.Dial(ctx, 1); return err },
		"stat": func(c *guest.Client) error { _, err := c.Stat(ctx, "."); return err },
		"list": func(c *guest.Client) error { _, _, err := c.List(ctx, "."); return err },
		"own":  func(c *guest.Client) error { return c.Own(ctx, ".") },
		"read": func(c *guest.Client) error { _, err := c.ReadFile(ctx, "f", io.Discard, 0, -1); return err },
		"write": func(c *guest.Client) error {
			return c.WriteFile(ctx, "f", strings.NewReader(strings.Repeat("x", 1<<20)), 0)
		},
		"pack": func(c *guest.Client) error {
			return c.Pack(ctx, ".", func(r io.Reader) error { _, err := io.Copy(io.Discard, r); return err })
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, pid := impatient(t)
			suspend(t, pid)
			require.ErrorIs(t, call(c), guest.ErrUnresponsive)
			require.NoError(t, c.Close())
		})
	}
}

func TestStoppedGuestAndSupervisorLeaveNothing(t *testing.T) {
	c, pid := slowly(t)
	dir := strings.TrimSpace(output(run(t, c, "pwd")))
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(context.Background(), guest.Command{
			Script:  "setsid sleep 600 & echo $$ $! $PPID >pids; printf . >>pids; kill -STOP $PPID " + strconv.Itoa(pid) + "; sleep 600",
			Timeout: 2 * time.Second,
		})
		ended <- err
	}()
	pids := beginning(t, filepath.Join(dir, "pids"))
	require.ErrorIs(t, <-ended, guest.ErrUnresponsive)
	require.NoError(t, c.Close())
	for _, pid := range pids {
		requireGone(t, pid)
	}
}

func TestCancelledCommandOfAStoppedGuestEnds(t *testing.T) {
	c, pid := slowly(t)
	dir := strings.TrimSpace(output(run(t, c, "pwd")))
	ctx, cancel := context.WithCancel(t.Context())
	ended, began := make(chan error, 1), make(chan struct{})
	begin := sync.OnceFunc(func() { close(began) })
	go func() {
		// The guest stops only when its host knows of the command: a call that is
		// cancelled before is withdrawn, and says nothing of the guest.
		_, err := c.Run(ctx, guest.Command{
			Script:   "echo begun; until [ -e go ]; do sleep 0.01; done; kill -STOP " + strconv.Itoa(pid) + "; echo $$ >pids; printf . >>pids; sleep 600",
			OnOutput: func(int64, []byte) { begin() },
		})
		ended <- err
	}()
	<-began
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	pids := beginning(t, filepath.Join(dir, "pids"))
	awaitStop(t, pid)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.False(t, c.Alive())
	require.NoError(t, c.Close())
	requireGone(t, pids[0])
}

// TestGuestEndsWhenItsHostIsSilent keeps the stream open, like an engine whose
// client has disappeared.
func TestGuestEndsWhenItsHostIsSilent(t *testing.T) {
	dir := t.TempDir()
	c, err := guest.StartLocal(t.Context(), os.Environ(), guest.Config{
		Workspace: dir, KeepAlive: time.Hour, Silence: time.Second,
	})
	require.NoError(t, err)
	_, err = c.Run(t.Context(), guest.Command{Script: "setsid sleep 600 & echo $$ $! $PPID >pids; printf . >>pids; sleep 600"})
	require.ErrorIs(t, err, guest.ErrClosed)
	<-c.Done()
	for _, pid := range beginning(t, filepath.Join(dir, "pids")) {
		requireGone(t, pid)
	}
	require.NoError(t, c.Close())
}

// TestDeadGuestGetsNothingMore sends a request just when a command learns that
// its guest has ended.
func TestDeadGuestGetsNothingMore(t *testing.T) {
	for range 20 {
		c, pid := slowly(t)
		_, err := c.Run(t.Context(), guest.Command{Script: "kill -9 " + strconv.Itoa(pid) + "; sleep 600"})
		require.ErrorIs(t, err, guest.ErrClosed)
		require.NotErrorIs(t, err, guest.ErrUnsent)
		require.False(t, c.Alive())
		_, err = c.Run(t.Context(), guest.Command{Script: "true"})
		require.ErrorIs(t, err, guest.ErrUnsent)
		require.NoError(t, c.Close())
	}
}

// TestIdleHostCallsItsGuest checks that an idle host sends pings, from which
// the guest knows that the host is alive.
func TestIdleHostCallsItsGuest(t *testing.T) {
	ours, theirs := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- server.New(supervise.NewGroups(), os.Environ()).Serve(theirs) }()
	conn := &counted{Conn: ours, writes: make(chan struct{})}
	c, err := guest.Connect(t.Context(), conn, guest.Config{Workspace: t.TempDir(), KeepAlive: time.Millisecond})
	require.NoError(t, err)
	conn.greeted.Store(true)
	for range 10 {
		<-conn.writes
	}
	conn.greeted.Store(false)
	require.NoError(t, c.Close())
	require.NoError(t, <-served)
}

// counted signals each write to a connection after the start of the session.
type counted struct {
	net.Conn
	greeted atomic.Bool
	writes  chan struct{}
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if c.greeted.Load() {
		select {
		case c.writes <- struct{}{}:
		default:
		}
	}
	return n, err
}
