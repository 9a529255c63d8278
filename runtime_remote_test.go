package pygent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/internal/testkit/enginetest"
)

func newRemoteRuntime(t *testing.T, opts ...pygent.RuntimeOption) pygent.Runtime {
	t.Helper()
	return newTestRuntime(t, pygent.NewDockerRuntime, append(onRemote(t), opts...)...)
}

// remoteEngine returns a client of the remote engine. The test fails if it
// leaves containers or volumes of this process there, and so cannot be parallel.
func remoteEngine(t *testing.T) *client.Client {
	t.Helper()
	host := testkit.RequireEngine(t, "PYGENT_TEST_REMOTE_ENGINE")
	enginetest.NeedAt(t, host, testImage())
	engine, err := client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	require.NoError(t, started.close())
	t.Cleanup(func() {
		defer engine.Close()
		containers, volumes := oursOn(t, engine)
		require.Empty(t, containers)
		require.Empty(t, volumes)
	})
	return engine
}

// oursOn returns the containers and volumes on an engine that belong to this
// process.
func oursOn(t *testing.T, engine *client.Client) ([]container.Summary, []*volume.Volume) {
	t.Helper()
	ours := filters.NewArgs(filters.Arg("label", owner.LabelOwner+"="+owner.Here().Name()))
	containers, err := engine.ContainerList(context.Background(), container.ListOptions{All: true, Filters: ours})
	require.NoError(t, err)
	volumes, err := engine.VolumeList(context.Background(), volume.ListOptions{Filters: ours})
	require.NoError(t, err)
	return containers, volumes.Volumes
}

func TestRemoteWorkspaceIsAVolume(t *testing.T) {
	engine := remoteEngine(t)
	r := newRemoteRuntime(t, pygent.WithInitialFiles("go.mod"))
	require.Equal(t, "module github.com/x/pygent\n", bash(t, r, "head -n 1 go.mod").Output)
	containers, volumes := oursOn(t, engine)
	require.Len(t, containers, 1)
	require.Len(t, volumes, 2, "the workspace and the guest")
	info, err := engine.ContainerInspect(t.Context(), containers[0].ID)
	require.NoError(t, err)
	require.Empty(t, info.HostConfig.Binds)
	require.Len(t, info.Mounts, 2)
	for _, m := range info.Mounts {
		require.Equal(t, mount.TypeVolume, m.Type)
		if m.Destination != "/workspace" {
			require.Regexp(t, guestDirs, m.Destination+"/")
		}
	}
	require.NoError(t, r.Cleanup())
}

func TestRemoteWorkspaceIsSeededAndBroughtBack(t *testing.T) {
	remoteEngine(t)
	dir := t.TempDir()
	seedAndChange(t, dir, func() pygent.Runtime { return newRemoteRuntime(t, pygent.WithWorkspace(dir)) })
	require.NoDirExists(t, "/tmp/in", "nothing is written through links")
}

func TestRemoteExportsTheWholeWorkspace(t *testing.T) {
	remoteEngine(t)
	r := newRemoteRuntime(t)
	bash(t, r, "umask 022; mkdir -p a/b; echo x >a/b/f; ln -s a/b/f l; touch e; chmod 755 e")
	out := filepath.Join(t.TempDir(), "snapshot")
	require.NoError(t, r.ExportFile(t.Context(), ".", out))
	require.Equal(t, map[string]string{"a/": "755", "a/b/": "755", "a/b/f": "644 x\n", "l": "->a/b/f", "e": "755 "}, read(t, out))
}

func TestRemoteWithoutRights(t *testing.T) {
	remoteEngine(t)
	dir := t.TempDir()
	write(t, dir, map[string]string{"d/f": "seed"})
	r := newRemoteRuntime(t, pygent.WithWorkspace(dir), pygent.WithContainerUser("1234:1234"), pygent.WithReadOnlyRoot(true), pygent.WithCapabilities())
	require.Equal(t, "1234\nseed", bash(t, r, "id -u; cat d/f").Output)
	require.NotZero(t, bash(t, r, "echo x >/f").ExitCode)
	require.Zero(t, bash(t, r, "echo x >/tmp/f && echo changed >d/f && echo new >f").ExitCode)
	require.NoError(t, r.WriteFile(t.Context(), "by/us", []byte("us")))
	require.Zero(t, bash(t, r, "echo more >>by/us").ExitCode)
	require.NoError(t, r.Cleanup())
	require.Equal(t, map[string]string{"d/": "755", "d/f": "644 changed\n", "f": "644 new\n", "by/": "755", "by/us": "644 usmore\n"}, read(t, dir))
}

func TestRemoteContainerThatDiesKeepsItsVolume(t *testing.T) {
	engine := remoteEngine(t)
	dir := t.TempDir()
	r := newRemoteRuntime(t, pygent.WithWorkspace(dir))
	bash(t, r, "echo kept >f")
	ended := make(chan pygent.BashResult, 1)
	go func() {
		res, err := r.Bash(context.Background(), "echo >begun; sleep 60")
		if err != nil {
			res.Note = err.Error()
		}
		ended <- res
	}()
	awaitFile(t, r, "begun")
	kill := func() {
		containers, _ := oursOn(t, engine)
		require.Len(t, containers, 1)
		require.NoError(t, engine.ContainerKill(t.Context(), containers[0].ID, "KILL"))
	}
	kill()
	require.Contains(t, (<-ended).Note, "the container died")
	require.Equal(t, "kept\n", bash(t, r, "cat f").Output)
	kill() // the workspace is copied back nevertheless
	require.NoError(t, r.Cleanup())
	require.Equal(t, map[string]string{"f": "644 kept\n", "begun": "644 \n"}, read(t, dir))
}

func TestRemoteFailedStartsLeaveNothing(t *testing.T) {
	remoteEngine(t)
	for name, tc := range map[string]struct {
		opt  pygent.RuntimeOption
		want string
	}{
		"image": {pygent.WithImage("127.0.0.1:1/pygent-test/none:1"), "pull image"},
		"mount": {pygent.WithMounts(pygent.Mount{Source: "/nonexistent/x", Target: "/x"}), "/nonexistent/x"},
		"user":  {pygent.WithContainerUser("nobody-of-this-name"), "nobody-of-this-name"},
	} {
		t.Run(name, func(t *testing.T) {
			engine := remoteEngine(t)
			r := newRemoteRuntime(t, tc.opt)
			for range 2 {
				_, err := r.Bash(t.Context(), "true")
				require.ErrorContains(t, err, tc.want)
			}
			containers, _ := oursOn(t, engine)
			require.Empty(t, containers)
			require.NoError(t, r.Cleanup())
		})
	}
	t.Run("cleanup meanwhile", func(t *testing.T) {
		for range 3 {
			r := newRemoteRuntime(t)
			require.NoError(t, r.Cleanup())
		}
	})
}

func TestRemoteWorkspaceThatCannotComeBackStays(t *testing.T) {
	engine := remoteEngine(t)
	dir := filepath.Join(t.TempDir(), "ws")
	r, err := pygent.NewDockerRuntime(t.Context(), append(onRemote(t), pygent.WithWorkspace(dir))...)
	require.NoError(t, err)
	bash(t, r, "echo precious >f")
	_, volumes := oursOn(t, engine)
	require.NoError(t, os.RemoveAll(dir))
	err = r.Cleanup()
	require.ErrorContains(t, err, "bring the workspace back (it is kept in the engine's volume pygent-")
	require.ErrorIs(t, err, fs.ErrNotExist)

	containers, left := oursOn(t, engine)
	require.Empty(t, containers)
	require.Len(t, left, 1)
	require.Contains(t, err.Error(), left[0].Name)
	require.Len(t, volumes, 2)
	requireRescue(t, err.Error(), left[0].Name)
	require.NoError(t, engine.VolumeRemove(t.Context(), left[0].Name, false))
}

// requireRescue runs the command at the end of a line of text, in an empty
// directory.
func requireRescue(t *testing.T, text, volume string) {
	t.Helper()
	_, command, found := strings.Cut(text, "what copies it here is: ")
	require.True(t, found, text)
	command, _, _ = strings.Cut(command, "\n")
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", command)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", command, out)
	require.Equal(t, map[string]string{"f": "644 precious\n"}, read(t, filepath.Join(dir, volume)))
}

func TestEngineThatIsSaidNotToShareFiles(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	dir := t.TempDir()
	seedAndChange(t, dir, func() pygent.Runtime {
		return newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(dir), pygent.WithSharedFiles(false))
	})
}

func TestEngineThatIsWronglySaidToShareFiles(t *testing.T) {
	engine := remoteEngine(t)
	t.Run("it lacks the directory", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, map[string]string{"f": "seed"})
		r := newRemoteRuntime(t, pygent.WithWorkspace(dir), pygent.WithSharedFiles(true))
		require.Equal(t, "seed", bash(t, r, "cat f; rm f; echo x >g").Output)
		require.NoError(t, r.Cleanup())
		require.Equal(t, map[string]string{"g": "644 x\n"}, read(t, dir))
	})
	t.Run("it has another directory of the name", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, map[string]string{"f": "seed"})
		local := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(dir))
		bash(t, local, "true") // so that the cache has what is mounted
		require.NoError(t, local.Cleanup())
		twin(t, engine, dir)
		r := newRemoteRuntime(t, pygent.WithWorkspace(dir), pygent.WithSharedFiles(true))
		require.Equal(t, "seed", bash(t, r, "cat f; rm f; echo x >g").Output)
		_, volumes := oursOn(t, engine)
		require.Len(t, volumes, 2)
		require.NoError(t, r.Cleanup())
		require.Equal(t, map[string]string{"g": "644 x\n"}, read(t, dir))
	})
}

// TestRemoteEngineBehindASocketOfThisMachine has an address that suggests that the engine
// sees files of this machine, a socket among them.
func TestRemoteEngineBehindASocketOfThisMachine(t *testing.T) {
	engine := remoteEngine(t)
	for name, opts := range map[string][]pygent.RuntimeOption{"nobody says": nil, "it is said not to": {pygent.WithSharedFiles(false)}} {
		t.Run(name, func(t *testing.T) {
			f := newFaultyEngineOf(t, engine, "unix")
			dir := t.TempDir()
			write(t, dir, map[string]string{"f": "seed"})
			r := newTestRuntime(t, pygent.NewDockerRuntime, append(opts, pygent.WithImage(testImage()), pygent.WithWorkspace(dir), pygent.WithDockerHost(f.host))...)
			require.Equal(t, "seed", bash(t, r, "cat f; rm f; echo x >g").Output)
			require.NoError(t, r.Cleanup())
			require.Equal(t, map[string]string{"g": "644 x\n"}, read(t, dir))
		})
	}
}

// twin makes the engine's machine have a directory of the same name as dir, and
// a guest and git's configuration at the same paths as here, so that a container which
// mounts them starts.
func twin(t *testing.T, engine *client.Client, dir string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	cache = filepath.Join(cache, "pygent")
	made, err := engine.ContainerCreate(t.Context(), &container.Config{Image: testBusyboxImage(), Cmd: []string{"true"}},
		&container.HostConfig{NetworkMode: "none", Binds: []string{dir + ":/dir", cache + ":/cache"}}, nil, nil, "")
	require.NoError(t, err)
	defer func() {
		require.NoError(t, engine.ContainerRemove(context.Background(), made.ID, container.RemoveOptions{Force: true}))
	}()
	for _, kind := range []string{"guest-*", "gitconfig-*"} {
		files, err := filepath.Glob(filepath.Join(cache, kind))
		require.NoError(t, err)
		for _, file := range files {
			require.NoError(t, engine.CopyToContainer(t.Context(), made.ID, "/cache", tarOf(t, file), container.CopyToContainerOptions{}))
		}
	}
}

// server is a Python program that answers every HTTP request with its path. The
// image's Python lacks the module for that.
const server = `
import socket
s = socket.create_server(("127.0.0.1", 8080))
print("ready", flush=True)
while True:
    c, _ = s.accept()
    request = b""
    while b"\r\n\r\n" not in request:
        request += c.recv(4096)
    c.sendall(b"HTTP/1.0 200 OK\r\n\r\nserved " + request.split()[1])
    c.close()
`

func TestRemotePortsAndJobs(t *testing.T) {
	remoteEngine(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := free.Addr().(*net.TCPAddr).Port
	require.NoError(t, free.Close())

	r := newRemoteRuntime(t, pygent.WithPublish(fmt.Sprintf("%d:8080", port)))
	ctx := t.Context()
	require.NoError(t, r.WriteFile(ctx, "server.py", []byte(server)))
	jobs := r.(pygent.JobRunner)
	job, err := jobs.StartJob(ctx, "exec python3 server.py")
	require.NoError(t, err)
	for said, next := "", int64(0); said != "ready\n"; {
		out, err := jobs.JobOutput(ctx, job.ID, next, time.Minute)
		require.NoError(t, err)
		require.True(t, out.Job.Running, out.Text)
		said, next = said+out.Text, out.Next
	}

	get := func(c *http.Client, url string) string {
		res, err := c.Get(url)
		require.NoError(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return string(body)
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return r.(pygent.Dialer).Dial(ctx, 8080)
	}}
	require.Equal(t, "served /dialed", get(&http.Client{Transport: transport}, "http://inside/dialed"))
	published := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	require.Equal(t, "served /published", get(published, fmt.Sprintf("http://127.0.0.1:%d/published", port)))

	job, err = jobs.KillJob(ctx, job.ID)
	require.NoError(t, err)
	require.False(t, job.Running)
	_, err = r.(pygent.Dialer).Dial(ctx, 8080)
	require.Error(t, err)
	_, err = jobs.JobOutput(ctx, "none", 0, 0)
	require.True(t, errors.Is(err, pygent.ErrUnknownJob), "%v", err)
}

func TestRemoteThroughSSH(t *testing.T) {
	remoteEngine(t)
	t.Setenv("DOCKER_HOST", testkit.RequireEngine(t, "PYGENT_TEST_SSH_ENGINE"))
	dir := t.TempDir()
	write(t, dir, map[string]string{"f": "seed"})
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(dir))
	require.Equal(t, "seed", bash(t, r, "cat f; echo new >g").Output)
	require.NoError(t, r.WriteFile(t.Context(), "h", []byte("h")))
	require.NoError(t, r.Cleanup())
	require.Equal(t, map[string]string{"f": "644 seed", "g": "644 new\n", "h": "644 h"}, read(t, dir))
}

func TestWorkspaceTooLargeToComeBackStaysWhereItIs(t *testing.T) {
	engine := remoteEngine(t)
	dir := t.TempDir()
	write(t, dir, map[string]string{"deleted": "x", "kept": "old"})
	r, err := pygent.NewDockerRuntime(t.Context(), append(onRemote(t), pygent.WithWorkspace(dir), pygent.MaxCopyBytes(1<<20))...)
	require.NoError(t, err)
	bash(t, r, "rm deleted; echo new >kept; head -c 2000000 /dev/urandom >big")
	err = r.Cleanup()
	require.ErrorIs(t, err, pygent.ErrCopyTooLarge)
	require.ErrorContains(t, err, "it is kept in the engine's volume")
	require.Equal(t, map[string]string{"deleted": "644 x", "kept": "644 old"}, read(t, dir), "the directory is as it was")
	_, volumes := oursOn(t, engine)
	require.Len(t, volumes, 1)
	require.NoError(t, engine.VolumeRemove(t.Context(), volumes[0].Name, true))
}
