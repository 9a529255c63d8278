package pygent_test

import (
	"archive/tar"
	"bytes"
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
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/internal/testkit/enginetest"
)

// TestDockerCopiesWithAContainerThatRuns does what docker cp does, for which the engine
// mounts again everything that the container has mounted.
func TestDockerCopiesWithAContainerThatRuns(t *testing.T) {
	t.Parallel()
	engine := testEngine(t)
	dir := realTempDir(t)
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(dir))
	bash(t, r, "echo here >/f")
	id := containersOf(t, engine, dir)[0].ID
	content, _, err := engine.CopyFromContainer(t.Context(), id, "/f")
	require.NoError(t, err)
	defer content.Close()
	require.NoError(t, engine.CopyToContainer(t.Context(), id, "/tmp", content, container.CopyToContainerOptions{}))
	require.Equal(t, "here\n", bash(t, r, "cat /tmp/f").Output)
}

// guestDirs matches the beginning of what a container sees of its guest.
var guestDirs = regexp.MustCompile(`^/\.pygent-[a-z0-9]{12}/`)

func TestDockerContainerIsHardened(t *testing.T) {
	t.Parallel()
	engine := testEngine(t)
	dir := realTempDir(t)
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(dir))
	bash(t, r, "true")
	found := containersOf(t, engine, dir)
	require.Len(t, found, 1)
	info, err := engine.ContainerInspect(t.Context(), found[0].ID)
	require.NoError(t, err)

	host := info.HostConfig
	require.Equal(t, []string{"ALL"}, []string(host.CapDrop))
	require.ElementsMatch(t, []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_SETGID", "CAP_SETUID", "CAP_KILL"}, []string(host.CapAdd))
	require.Equal(t, []string{"no-new-privileges"}, host.SecurityOpt)
	require.EqualValues(t, 512<<20, host.Memory)
	require.EqualValues(t, 512<<20, host.MemorySwap)
	require.EqualValues(t, 256, *host.PidsLimit)
	require.EqualValues(t, "none", host.NetworkMode)
	require.Equal(t, "none", host.LogConfig.Type)
	require.False(t, host.Privileged)
	require.True(t, host.AutoRemove)
	require.Empty(t, host.Binds)
	writable := map[string]bool{}
	for _, m := range info.Mounts {
		writable[guestDirs.ReplaceAllString(m.Destination, "/GUEST/")] = m.RW
	}
	require.Equal(t, map[string]bool{"/workspace": true, dir: true, "/GUEST/guest": false, "/GUEST/socket": false, "/GUEST/gitconfig": false}, writable)
	require.True(t, info.Config.OpenStdin)
	require.True(t, info.Config.StdinOnce)
	require.NotEmpty(t, info.Config.Labels["pygent.runtime"])

	require.Contains(t, bash(t, r, "grep NoNewPrivs /proc/self/status").Output, "1")
	require.NotZero(t, bash(t, r, "mount -t tmpfs none /mnt 2>&1").ExitCode)

	require.NoError(t, r.Cleanup())
	require.Empty(t, containersOf(t, engine, dir))
}

func TestDockerOptionsReachTheContainer(t *testing.T) {
	t.Parallel()
	engine := testEngine(t)
	dir, extra := realTempDir(t), realTempDir(t)
	require.NoError(t, os.WriteFile(filepath.Join(extra, "f"), []byte("extra"), 0o644))
	require.NoError(t, os.Chmod(dir, 0o777))
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(dir),
		pygent.WithMemory(64<<20), pygent.WithCPUs(0.5), pygent.MaxPids(64), pygent.WithContainerUser("1234:1234"),
		pygent.WithCapabilities(), pygent.WithReadOnlyRoot(true), pygent.WithMounts(pygent.Mount{Source: extra, Target: "/extra", ReadOnly: true}))
	require.Equal(t, "1234\n/tmp\n", bash(t, r, "id -u; echo $HOME").Output)
	require.Equal(t, "extra", bash(t, r, "cat /extra/f").Output)
	require.NotZero(t, bash(t, r, "echo x >/extra/f").ExitCode)
	require.NotZero(t, bash(t, r, "echo x >/f").ExitCode)
	require.Zero(t, bash(t, r, "echo x >/tmp/f && echo x >f").ExitCode)

	info, err := engine.ContainerInspect(t.Context(), containersOf(t, engine, dir)[0].ID)
	require.NoError(t, err)
	require.EqualValues(t, 64<<20, info.HostConfig.Memory)
	require.EqualValues(t, 5e8, info.HostConfig.NanoCPUs)
	require.EqualValues(t, 64, *info.HostConfig.PidsLimit)
	require.Empty(t, info.HostConfig.CapAdd)
}

func TestDockerUserCanWriteATemporaryWorkspace(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithContainerUser("1234"))
	require.Zero(t, bash(t, r, "echo x >f").ExitCode)
}

func TestDockerFilesEndOwnedByTheWorkspacesOwner(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can make a workspace of another owner")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chown(dir, 1234, 1235))
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(dir))
	bash(t, r, "mkdir d && echo x >d/f")
	require.NoError(t, r.Cleanup())
	out, err := pygent.NewLocalRuntime(t.Context(), pygent.WithWorkspace(dir))
	require.NoError(t, err)
	defer out.Cleanup()
	require.Equal(t, "1234:1235\n", bash(t, out, "stat -c %u:%g d/f").Output)
}

func TestDockerMissingImageIsOneClearError(t *testing.T) {
	t.Parallel()
	engine := testEngine(t)
	dir := realTempDir(t)
	var mu sync.Mutex
	var events []pygent.RuntimeEvent
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage("127.0.0.1:1/pygent-test/none:1"), pygent.WithWorkspace(dir),
		pygent.OnRuntimeEvent(func(e pygent.RuntimeEvent) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e)
		}))
	for range 2 { // the image is pulled only once nevertheless
		_, err := r.Bash(t.Context(), "true")
		require.ErrorIs(t, err, pygent.ErrRuntimeStart)
		require.ErrorContains(t, err, `pull image "127.0.0.1:1/pygent-test/none:1": `)
		require.ErrorContains(t, err, "docker pull 127.0.0.1:1/pygent-test/none:1")
		require.NotContains(t, err.Error(), " --", "a program has no flags of the command")
	}
	require.Eventually(t, func() bool { // Cleanup hands over no more
		mu.Lock()
		defer mu.Unlock()
		return len(events) >= 2
	}, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, r.Cleanup())
	mu.Lock()
	require.Len(t, events, 2)
	require.Equal(t, pygent.RuntimePull, events[0].Kind)
	require.Equal(t, pygent.RuntimeFailed, events[1].Kind)
	mu.Unlock()
	require.Empty(t, r.(pygent.Describer).Describe(t.Context()).Shell)
	require.Empty(t, containersOf(t, engine, dir))
}

func TestDockerCleanupDuringTheStart(t *testing.T) {
	t.Parallel()
	engine := testEngine(t)
	for range 3 {
		dir := realTempDir(t)
		r, err := pygent.NewDockerRuntime(t.Context(), pygent.WithImage(testImage()), pygent.WithWorkspace(dir))
		require.NoError(t, err)
		require.NoError(t, r.Cleanup())
		require.Empty(t, containersOf(t, engine, dir))
	}
}

func TestDockerStartOutlivesACancelledCommand(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Bash(ctx, "true")
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, bash(t, r, "true").ExitCode)
}

func TestDockerContainerThatDiesIsReplaced(t *testing.T) {
	t.Parallel()
	engine := testEngine(t)
	dir := realTempDir(t)
	lost := make(chan pygent.RuntimeEvent, 10)
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(dir),
		pygent.OnRuntimeEvent(func(e pygent.RuntimeEvent) {
			if e.Kind == pygent.RuntimeLost {
				lost <- e
			}
		}))
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
	require.NoError(t, engine.ContainerKill(t.Context(), containersOf(t, engine, dir)[0].ID, "KILL"))
	res := <-ended
	require.Contains(t, res.Note, "the container died")
	require.NotContains(t, res.Note, "memory")
	<-lost
	require.Equal(t, "kept\n", bash(t, r, "cat f").Output)
	require.Len(t, containersOf(t, engine, dir), 1)
	require.NoError(t, r.Cleanup())
	require.Empty(t, containersOf(t, engine, dir))
	require.Empty(t, lost)
}

// A container may die while nothing runs in it. Its content outside the
// workspace is lost, and the next result says so, once.
func TestNewContainerIsTold(t *testing.T) {
	t.Parallel()
	engine := testEngine(t)
	dir := realTempDir(t)
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(dir))
	require.Empty(t, bash(t, r, "echo >/etc/installed").Note)
	require.NoError(t, engine.ContainerKill(t.Context(), containersOf(t, engine, dir)[0].ID, "KILL"))
	require.Eventually(t, func() bool { return len(containersOf(t, engine, dir)) == 0 }, 30*time.Second, time.Millisecond)
	res := bash(t, r, "cat /etc/installed")
	require.Equal(t, 1, res.ExitCode)
	require.Contains(t, res.Note, "a new container on the same workspace")
	require.Empty(t, bash(t, r, "true").Note)
}

func TestDockerOutOfMemoryIsExplained(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithMemory(32<<20))
	res := bash(t, r, "python3 -c 'x = bytearray(256 << 20)'")
	require.Equal(t, 137, res.ExitCode)
	require.Contains(t, res.Note, "memory limit of 32MiB")
	require.Zero(t, bash(t, r, "true").ExitCode)
}

// atItsLimit matches what a container did that is out of memory. Of three in a hundred the
// engine tells only that they died: its containerd says nothing of a control group that has
// gone meanwhile.
const atItsLimit = `(reached|was killed, most likely at) its memory limit of 16MiB`

// The guest is the last that the kernel kills for memory, unless a command offers it. Its
// container dies with it.
func TestAContainerThatRunsOutOfMemoryIsExplained(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithMemory(16<<20))
	res := bash(t, r, "echo 1000 >/proc/1/oom_score_adj; while :; do head -c 1M /dev/zero >>/dev/shm/full; done")
	require.Regexp(t, `the container died while the command ran, since it `+atItsLimit+`; the next command gets a new one`, res.Note)
	require.Zero(t, bash(t, r, "true").ExitCode)
}

// The same while no command runs: the next one says why its container is a new one.
func TestAContainerThatRanOutOfMemoryBetweenCommandsIsExplained(t *testing.T) {
	t.Parallel()
	engine := testEngine(t)
	dir := realTempDir(t)
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(dir), pygent.WithMemory(16<<20))
	_, err := r.(pygent.JobRunner).StartJob(t.Context(), "echo 1000 >/proc/1/oom_score_adj; until [ -e go ]; do sleep 0.05; done; while :; do head -c 1M /dev/zero >>/dev/shm/full; done")
	require.NoError(t, err)
	require.Empty(t, bash(t, r, "touch go").Note)
	require.Eventually(t, func() bool { return len(containersOf(t, engine, dir)) == 0 }, 30*time.Second, 10*time.Millisecond)
	require.Regexp(t, `this is a new container on the same workspace, since the last one `+atItsLimit+`: what was installed`, bash(t, r, "true").Note)
	require.Empty(t, bash(t, r, "true").Note)
}

// What kills a container, and not through the engine, is nearly always the kernel.
func TestAContainerThatTheEngineDidNotKillWasMostLikelyOutOfMemory(t *testing.T) {
	t.Parallel()
	engine := testEngine(t)
	dir := realTempDir(t)
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(dir), pygent.WithMemory(16<<20))
	running := beginBash(t, r, dir, "sleep 60")
	box, err := engine.ContainerInspect(t.Context(), containersOf(t, engine, dir)[0].ID)
	require.NoError(t, err)
	killer, err := engine.ContainerCreate(t.Context(), &container.Config{Image: testBusyboxImage(), Cmd: []string{"sh", "-c", "kill -9 " + strconv.Itoa(box.State.Pid)}},
		&container.HostConfig{NetworkMode: "none", PidMode: "host"}, nil, nil, "")
	require.NoError(t, err)
	defer func() {
		require.NoError(t, engine.ContainerRemove(context.Background(), killer.ID, container.RemoveOptions{Force: true}))
	}()
	require.NoError(t, engine.ContainerStart(t.Context(), killer.ID, container.StartOptions{}))
	res := <-running
	require.NoError(t, res.err)
	require.Contains(t, res.Note, "the container died while the command ran, since it was killed, most likely at its memory limit of 16MiB; the next command gets a new one")
}

// TestDockerContainerEndsWithItsProcess starts this test binary as a process
// with a runtime, and kills it.
func TestDockerContainerEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	const variable = "PYGENT_TEST_HOLD_RUNTIME"
	if dir := os.Getenv(variable); dir != "" {
		r, err := pygent.NewDockerRuntime(context.Background(), pygent.WithImage(testImage()), pygent.WithWorkspace(dir))
		require.NoError(t, err)
		_, err = r.Bash(context.Background(), "echo >begun; sleep 600", pygent.BashTimeout(-1))
		require.NoError(t, err)
		return
	}
	engine := testEngine(t)
	dir := realTempDir(t)
	holder := exec.Command(os.Args[0], "-test.run=^TestDockerContainerEndsWithItsProcess$")
	holder.Env = append(os.Environ(), variable+"="+dir)
	require.NoError(t, holder.Start())
	require.Eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(dir, "begun"))
		return err == nil
	}, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, holder.Process.Kill())
	require.Error(t, holder.Wait())
	require.Eventually(t, func() bool { return len(containersOf(t, engine, dir)) == 0 }, 30*time.Second, 10*time.Millisecond)
}

func TestContainersMayHaveNoLimits(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()),
		pygent.WithMemory(pygent.NoLimit), pygent.WithCPUs(pygent.NoLimit), pygent.MaxPids(pygent.NoLimit))
	require.Equal(t, "fine\n", bash(t, r, "echo fine").Output)
	killed := bash(t, r, "kill -9 $$")
	require.Equal(t, 137, killed.ExitCode)
	require.Equal(t, "killed; perhaps the engine's machine ran out of memory", killed.Note)
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

// imageWithLink makes an image in which name is a symbolic link. Nothing runs for that.
func imageWithLink(t *testing.T, engine *client.Client, name, target string) (id string) {
	t.Helper()
	made, err := engine.ContainerCreate(t.Context(), &container.Config{Image: testBusyboxImage()}, nil, nil, nil, "")
	require.NoError(t, err)
	defer func() {
		require.NoError(t, engine.ContainerRemove(t.Context(), made.ID, container.RemoveOptions{Force: true}))
	}()
	archive := &bytes.Buffer{}
	w := tar.NewWriter(archive)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeSymlink, Mode: 0o777}))
	require.NoError(t, w.Close())
	require.NoError(t, engine.CopyToContainer(t.Context(), made.ID, "/", archive, container.CopyToContainerOptions{}))
	committed, err := engine.ContainerCommit(t.Context(), made.ID, container.CommitOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := engine.ImageRemove(context.Background(), committed.ID, image.RemoveOptions{Force: true})
		require.NoError(t, err)
	})
	return committed.ID
}

// TestImageCannotLeadTheGuestIntoTheWorkspace starts an image that knows where guests
// were before they had a place that no image can know.
func TestImageCannotLeadTheGuestIntoTheWorkspace(t *testing.T) {
	t.Parallel()
	engine := testEngine(t)
	linked := imageWithLink(t, engine, ".pygent", "/workspace")
	dir := realTempDir(t)
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(linked), pygent.WithWorkspace(dir))
	require.Equal(t, "here\n", bash(t, r, "ls -A; echo here").Output)
	require.NoError(t, r.Cleanup())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestNoSSHOfTheWorkspaceIsRun has several programs called ssh in PATH.
// Commands can write the first ones, or change where they lead, but not the
// last one.
func TestNoSSHOfTheWorkspaceIsRun(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("its programs are scripts of a Unix shell")
	}
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	ran := filepath.Join(top, "ran")
	for _, dir := range []string{"work/venv/bin", "mount/bin", "good"} {
		require.NoError(t, os.MkdirAll(filepath.Join(top, dir), 0o755))
		script := "#!/bin/sh\necho \"$0 $*\" >>" + ran + "\nexit 1\n"
		require.NoError(t, os.WriteFile(filepath.Join(top, dir, "ssh"), []byte(script), 0o755))
	}
	require.NoError(t, os.Symlink(filepath.Join(top, "work", "venv"), filepath.Join(top, "link")))
	t.Chdir(filepath.Join(top, "work"))
	in := func(names ...string) string {
		for i, name := range names {
			names[i] = filepath.Join(top, name)
		}
		return strings.Join(names, ":") + ":venv/bin:.:"
	}
	options := []pygent.RuntimeOption{
		pygent.WithDockerHost("ssh://me@engine.invalid/run/docker.sock"), pygent.WithDocker(pygent.DockerRequired),
		pygent.WithWorkspace("."), pygent.WithMounts(pygent.Mount{Source: filepath.Join(top, "mount"), Target: "/m"}),
	}
	t.Setenv("PATH", in("work/venv/bin", "link/bin", "mount/bin", "good"))
	_, err = pygent.NewDockerRuntime(t.Context(), options...)
	require.ErrorIs(t, err, pygent.ErrDockerUnavailable)
	lines, err := os.ReadFile(ran)
	require.NoError(t, err)
	require.NotEmpty(t, lines)
	for line := range strings.Lines(string(lines)) {
		require.Equal(t, filepath.Join(top, "good", "ssh")+" -l me -o ConnectTimeout=30 -T -- engine.invalid docker '--host=unix:///run/docker.sock' system dial-stdio\n", line)
	}

	t.Setenv("PATH", in("work/venv/bin", "link/bin", "mount/bin"))
	_, err = pygent.NewRuntime(t.Context(), options...)
	require.ErrorContains(t, err, "ssh: executable file not found in $PATH outside of what commands can write")
}

// seedAndChange lets a runtime's commands change a workspace in all ways, and
// checks the result after Cleanup.
func seedAndChange(t *testing.T, dir string, start func() pygent.Runtime) {
	write(t, dir, map[string]string{
		"kept": "kept", "changed": "old", "deleted": "x", "tool": "#!/bin/sh\necho tool\n", "empty/": "",
		"gone/deep/f": "f", "readonly/f": "f", "readonly/gone": "x", "link": "->kept", "dangling": "->nowhere", "away": "->/etc/passwd",
		"file-to-dir": "x", "dir-to-file/f": "x", "dir-to-link/f": "x", "link-to-dir": "->/etc", "link-to-file": "->kept",
	})
	require.NoError(t, os.Chmod(filepath.Join(dir, "tool"), 0o755))
	require.NoError(t, os.Chmod(filepath.Join(dir, "readonly"), 0o555))
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "readonly"), 0o755) })

	r := start()
	require.Equal(t, "tool\n", bash(t, r, "./tool").Output)
	res := bash(t, r, `set -e
		echo new >changed; rm deleted; rm -r gone; chmod 600 kept; chmod u+w readonly; rm readonly/gone; chmod 555 readonly
		rm file-to-dir; mkdir file-to-dir; echo in >file-to-dir/in
		rm -r dir-to-file; echo now >dir-to-file
		rm -r dir-to-link; ln -s /tmp dir-to-link
		rm link-to-dir; mkdir link-to-dir; echo in >link-to-dir/in
		rm link-to-file; echo file >link-to-file
		mkdir -p made/private; chmod 700 made/private; echo '#!/bin/sh' >made/private/run; chmod 750 made/private/run; chmod 500 made/private
		ln kept hard; mkfifo pipe; printf '\0\377' >'odd name
'`)
	require.Zero(t, res.ExitCode, res.Output)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "of somebody else"), []byte("new"), 0o644))
	require.NoError(t, r.Cleanup())
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "made", "private"), 0o755) })
	require.Equal(t, map[string]string{
		"kept": "600 kept", "hard": "600 kept", "changed": "644 new\n", "tool": "755 #!/bin/sh\necho tool\n", "empty/": "755",
		"readonly/": "555", "readonly/f": "644 f", "link": "->kept", "dangling": "->nowhere", "away": "->/etc/passwd",
		"file-to-dir/": "755", "file-to-dir/in": "644 in\n", "dir-to-file": "644 now\n", "dir-to-link": "->/tmp",
		"link-to-dir/": "755", "link-to-dir/in": "644 in\n", "link-to-file": "644 file\n",
		"made/": "755", "made/private/": "500", "made/private/run": "750 #!/bin/sh\n", "odd name\n": "644 \x00\xff",
		"of somebody else": "644 new",
	}, read(t, dir))
}

// tarOf returns an archive of one file.
func tarOf(t *testing.T, name string) io.Reader {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	b := &bytes.Buffer{}
	w := tar.NewWriter(b)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: filepath.Base(name), Mode: 0o755, Size: int64(len(data)), Typeflag: tar.TypeReg}))
	_, err = w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b
}
