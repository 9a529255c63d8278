//go:build linux

package enginetest

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"
)

// Own is a dockerd for one test. It has its own network namespace, so that it does not
// disturb the networks of other engines. One goroutine uses it.
type Own struct {
	Host   string // value for DOCKER_HOST
	Client *client.Client

	dir    string // of its data
	run    string // of its sockets
	flags  []string
	daemon *exec.Cmd
}

// Start starts a dockerd, which ends with the test, and loads an image that the shared
// engine has. It skips the test where no dockerd can be started.
func Start(t *testing.T, shared *client.Client, image string, flags ...string) *Own {
	t.Helper()
	if _, err := exec.LookPath("dockerd"); err != nil || os.Geteuid() != 0 {
		t.Skip("no Docker here that a test may kill: it takes dockerd and root")
	}
	dir, err := os.MkdirTemp("", "e")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	run := SocketDir(t)
	e := &Own{dir: dir, run: run, Host: "unix://" + filepath.Join(run, "s"), flags: flags}
	e.Client, err = client.NewClientWithOpts(client.WithHost(e.Host), client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	t.Cleanup(func() { e.end(t) })
	e.Start(t)
	saved, err := shared.ImageSave(t.Context(), []string{image})
	require.NoError(t, err)
	defer saved.Close()
	loaded, err := e.Client.ImageLoad(t.Context(), saved)
	require.NoError(t, err)
	defer loaded.Body.Close()
	_, err = io.Copy(io.Discard, loaded.Body)
	require.NoError(t, err)
	return e
}

// Start starts the dockerd again after Kill or Stop, and waits until it answers.
func (e *Own) Start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(e.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	defer log.Close()
	for _, stale := range []string{"pid", "x/containerd/containerd.pid"} { // files that a killed dockerd leaves
		_ = os.Remove(filepath.Join(e.run, stale))
	}
	e.daemon = exec.Command("unshare", append([]string{"--net", "dockerd", "--host", e.Host, "--data-root", filepath.Join(e.dir, "data"),
		"--exec-root", filepath.Join(e.run, "x"), "--pidfile", filepath.Join(e.run, "pid"), "--bridge=none", "--iptables=false", "--ip6tables=false"}, e.flags...)...)
	e.daemon.Stdout, e.daemon.Stderr = log, log
	require.NoError(t, e.daemon.Start())
	require.Eventually(t, func() bool {
		_, err := e.Client.Ping(context.Background())
		return err == nil
	}, time.Minute, 20*time.Millisecond, "see %s", log.Name())
}

// Kill ends the dockerd as a crash does. Its containers keep running.
func (e *Own) Kill(t *testing.T) {
	t.Helper()
	require.NoError(t, e.daemon.Process.Kill())
	require.Error(t, e.daemon.Wait())
}

// Stop ends the dockerd and its containers in an orderly way.
func (e *Own) Stop(t *testing.T) {
	t.Helper()
	require.NoError(t, e.daemon.Process.Signal(syscall.SIGTERM))
	_ = e.daemon.Wait() // its status says how its containers have ended
}

// Freeze has the dockerd do nothing until Thaw. The kernel still takes connections for it.
func (e *Own) Freeze(t *testing.T) {
	t.Helper()
	require.NoError(t, e.daemon.Process.Signal(syscall.SIGSTOP))
}

// Thaw ends Freeze.
func (e *Own) Thaw(t *testing.T) {
	t.Helper()
	require.NoError(t, e.daemon.Process.Signal(syscall.SIGCONT))
}

// Back has the dockerd answer again, whatever was done to it.
func (e *Own) Back(t *testing.T) {
	t.Helper()
	if e.daemon.ProcessState != nil {
		e.Start(t)
		return
	}
	e.Thaw(t)
}

// end ends the dockerd, its containers and its mounts.
func (e *Own) end(t *testing.T) {
	t.Helper()
	_ = e.Client.Close()
	e.Back(t) // a new dockerd ends the containers that a killed one left
	e.Stop(t)
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); strings.HasPrefix(fields[1], e.dir) || strings.HasPrefix(fields[1], e.run) {
			require.NoError(t, syscall.Unmount(fields[1], syscall.MNT_DETACH))
		}
	}
}
