package pygent_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

// containersOf returns the containers that mount dir as their workspace.
func containersOf(t *testing.T, engine *client.Client, dir string) []container.Summary {
	t.Helper()
	all, err := engine.ContainerList(context.Background(), container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", "pygent.runtime")),
	})
	require.NoError(t, err)
	return slices.DeleteFunc(all, func(c container.Summary) bool { // which may mount it twice
		return !slices.ContainsFunc(c.Mounts, func(m container.MountPoint) bool { return m.Source == dir })
	})
}

// realTempDir returns a temporary directory without links in its path, as
// engines see it.
func realTempDir(t *testing.T) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return dir
}

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
