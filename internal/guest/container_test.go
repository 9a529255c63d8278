package guest_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/guest"
)

func TestReadOnlyRootAndOrdinaryUser(t *testing.T) {
	for _, image := range []func(testing.TB) string{debianImage, busyboxImage} {
		r := container(t, image(t), containerOptions{user: "1000:1000", readonly: true})
		c := r.client
		require.Equal(t, 1000, c.Info().UID)
		require.True(t, strings.HasPrefix(c.Info().Spill, "/dev/shm/"), c.Info().Spill)
		res := runCommand(t, c, guest.Command{Script: "i=0; while [ $i -lt 9000 ]; do echo $i$i$i$i; i=$((i+1)); done", Head: 10, Tail: 10})
		require.NotEmpty(t, res.Spill)
		require.Equal(t, fmt.Sprintln(res.Total), output(run(t, c, "wc -c < "+res.Spill)))
		big := strings.Repeat("#"+strings.Repeat("x", 1000)+"\n", 500) + "echo big"
		require.Equal(t, "big\n", output(run(t, c, big)))
		r1 := runCommand(t, c, guest.Command{Script: breakaway, Timeout: 500 * time.Millisecond})
		require.True(t, r1.TimedOut)
		require.Zero(t, r1.Survivors)
		require.Empty(t, sleepers(t, c))
		require.NoError(t, c.WriteFile(context.Background(), "f", strings.NewReader("x"), 0))
	}
}

func TestGuestThatCannotConnectUsesStdio(t *testing.T) {
	for name, socket := range map[string]string{"no such file": "/none", "no socket": "/.pygent/guest", "too long": "/" + strings.Repeat("x", 200)} {
		t.Run(name, func(t *testing.T) {
			g := container(t, busyboxImage(t), containerOptions{socket: socket})
			require.Equal(t, "hello\n", output(run(t, g.client, "echo hello")))
		})
	}
}

func TestNonceInAContainer(t *testing.T) {
	r := container(t, busyboxImage(t), containerOptions{config: guest.Config{Nonce: "nonce"}})
	require.False(t, r.client.Info().NonceSeen)
	require.NoError(t, os.WriteFile(filepath.Join(r.workspace, "shared"), []byte("s"), 0o644))
	require.Equal(t, "s", readFile(t, r.client, "shared"))
}

func TestDialReachesAServerWithoutNetwork(t *testing.T) {
	c := container(t, debianImage(t), containerOptions{}).client
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	_, err := c.Dial(ctx, 8080)
	require.ErrorIs(t, err, guest.ErrRefused)
	// The server answers once the client has closed its sending direction.
	job, err := c.Start(ctx, guest.Command{Script: `exec python3 -u -c '
import socket
s = socket.create_server(("127.0.0.1", 8080))
print("ready")
while True:
    c, _ = s.accept()
    n = 0
    while b := c.recv(65536): n += len(b)
    c.sendall(b"got %d" % n)
    c.close()
'`})
	require.NoError(t, err)
	out, err := c.Output(ctx, job.ID, 0, 0, testTime)
	require.NoError(t, err)
	require.Contains(t, string(out.Data), "ready")
	for _, size := range []int{0, 5, 3 << 20} {
		conn, err := c.Dial(ctx, 8080)
		require.NoError(t, err)
		_, err = conn.Write(make([]byte, size))
		require.NoError(t, err)
		require.NoError(t, conn.CloseWrite())
		got, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("got %d", size), string(got))
		require.NoError(t, conn.Close())
	}
	abandoned, err := c.Dial(ctx, 8080)
	require.NoError(t, err)
	require.NoError(t, abandoned.SetReadDeadline(time.Now().Add(time.Millisecond)))
	_, err = abandoned.Read(make([]byte, 1))
	require.Error(t, err)
	require.NoError(t, abandoned.Close())
	_, err = c.Kill(ctx, job.ID, 0)
	require.NoError(t, err)
}

func TestManyCommandsAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, c *guest.Client) {
		var all sync.WaitGroup
		results := make([]guest.Result, 40)
		errs := make([]error, 40)
		for i := range results {
			all.Go(func() {
				results[i], errs[i] = c.Run(context.Background(), guest.Command{
					Script: fmt.Sprintf("sleep 0.2; echo %d; exit %d", i, i), Timeout: testTime,
				})
			})
		}
		all.Wait()
		for i, r := range results {
			require.NoError(t, errs[i])
			require.Equal(t, i, r.ExitCode)
			require.Equal(t, fmt.Sprintln(i), output(r))
		}
	})
}

func TestTooManyProcessesIsAnErrorAndPasses(t *testing.T) {
	c := container(t, busyboxImage(t), containerOptions{pids: 40}).client
	var all sync.WaitGroup
	errs := make([]error, 40)
	for i := range errs {
		all.Go(func() {
			_, errs[i] = c.Run(context.Background(), guest.Command{Script: "sleep 0.5"})
		})
	}
	all.Wait()
	failed := 0
	for _, err := range errs {
		if err != nil {
			require.ErrorIs(t, err, guest.ErrProcesses)
			failed++
		}
	}
	require.NotZero(t, failed)
	require.Equal(t, "fine\n", output(run(t, c, "echo fine")))
}

func TestEndOfStreamEndsTheContainer(t *testing.T) {
	r := container(t, debianImage(t), containerOptions{})
	_, err := r.client.Start(context.Background(), guest.Command{Script: breakaway})
	require.NoError(t, err)
	require.NoError(t, r.client.Close()) // The clean-up waits for the container's end.
}

func TestLostGuestIsNoticed(t *testing.T) {
	r := startContainer(t, debianImage(t), containerOptions{})
	result := make(chan error, 1)
	go func() {
		_, err := r.client.Run(context.Background(), guest.Command{Script: "sleep 600"})
		result <- err
	}()
	run(t, r.client, "true")
	require.NoError(t, r.engine.ContainerKill(context.Background(), r.id, "KILL"))
	require.ErrorIs(t, <-result, guest.ErrClosed)
	<-r.client.Done()
}

func TestOutOfMemoryKillsTheCommandAlone(t *testing.T) {
	c := container(t, debianImage(t), containerOptions{}).client
	r := runCommand(t, c, guest.Command{Script: "python3 -c 'x = bytearray(900 << 20)'; echo after"})
	require.Contains(t, output(r), "after")
	require.Equal(t, "fine\n", output(run(t, c, "echo fine")))
}

// hostProcess is an environment variable. If it is set, the test's program is a
// host that is going to be killed: it starts a guest in the workspace that the
// variable names, and waits.
const hostProcess = "PYGENT_TEST_HOST"

// actAsHost starts a guest with a command, and waits until it is killed.
func actAsHost(workspace string) {
	c, err := guest.StartLocal(context.Background(), os.Environ(), guest.Config{Workspace: workspace})
	if err == nil {
		_, err = c.Start(context.Background(), guest.Command{Script: "echo $$ > pid; " + breakaway})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {}
}

func TestKilledHostLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	host := exec.Command(os.Args[0])
	host.Env = append(os.Environ(), hostProcess+"="+dir)
	require.NoError(t, host.Start())
	var pid []byte
	require.Eventually(t, func() bool {
		pid, _ = os.ReadFile(filepath.Join(dir, "pid"))
		return strings.HasSuffix(string(pid), "\n")
	}, testTime, time.Millisecond)
	require.NoError(t, host.Process.Kill())
	_ = host.Wait()
	c := local(t)
	require.Eventually(t, func() bool {
		return output(run(t, c, `for p in /proc/[0-9]*; do [ "$(readlink $p/cwd)" = "`+dir+`" ] && echo $p; done 2>/dev/null; true`)) == ""
	}, testTime, time.Millisecond)
}
