// These tests hold what a dead process leaves on this machine and its engines, and that a
// later start or Prune removes that and nothing else.

package pygent_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/testkit"
)

// machines makes owners for processes of one user on several machines.
type machines struct{ state string }

// at returns a process on a machine in one of its boots; "" is the current
// boot.
func (m machines) at(t *testing.T, machine, boot string) *owner.Self {
	t.Helper()
	p := owner.ThisPlace()
	p.Host, p.Machine = "laptop", machine
	if boot != "" {
		p.Boot = boot
	}
	self := owner.Open(m.state, p)
	require.NoError(t, self.Err())
	return self
}

// dead returns a process of an earlier boot and a living one, of the same user
// on the same machine.
func dead(t *testing.T) (gone, alive *owner.Self) {
	t.Helper()
	m := machines{t.TempDir()}
	return m.at(t, "a", "earlier"), m.at(t, "a", "")
}

// thing is a container or a volume that the tests made on the engine.
type thing struct{ kind, name string }

// things makes containers and volumes, and removes them at the end.
type things struct {
	t      *testing.T
	engine *client.Client
	id     string // part of all their names
}

func newThings(t *testing.T) *things {
	return &things{t, testEngine(t), strings.ToLower(rand.Text()[:12])}
}

// container makes a container without starting it.
func (th *things) container(name, image string, labels map[string]string, mounts ...mount.Mount) thing {
	th.t.Helper()
	made, err := th.engine.ContainerCreate(th.t.Context(),
		&container.Config{Image: image, Cmd: []string{"cat"}, OpenStdin: true, Labels: labels},
		&container.HostConfig{NetworkMode: "none", Mounts: mounts}, nil, nil, name)
	require.NoError(th.t, err)
	th.t.Cleanup(func() {
		_ = th.engine.ContainerRemove(context.Background(), made.ID, container.RemoveOptions{Force: true})
	})
	return thing{owner.Container, name}
}

func (th *things) volume(name string, labels map[string]string) thing {
	th.t.Helper()
	_, err := th.engine.VolumeCreate(th.t.Context(), volume.CreateOptions{Name: name, Labels: labels})
	require.NoError(th.t, err)
	th.t.Cleanup(func() { _ = th.engine.VolumeRemove(context.Background(), name, true) })
	return thing{owner.Volume, name}
}

// of makes a container and a volume like those of an owner's runtime.
func (th *things) of(self *owner.Self, holds owner.Holds) []thing {
	th.t.Helper()
	id := th.id + strings.ToLower(rand.Text()[:12])
	name := owner.NamePrefix + id
	return []thing{
		th.container(name+"-1", testBusyboxImage(), self.Prove(owner.Container, name+"-1", self.Labels(id, owner.HoldsNothing))),
		th.volume(name, self.Prove(owner.Volume, name, self.Labels(id, holds))),
	}
}

// left returns the things that still exist.
func (th *things) left(all []thing) []thing {
	th.t.Helper()
	return slices.DeleteFunc(slices.Clone(all), func(x thing) bool {
		var err error
		if x.kind == owner.Container {
			_, err = th.engine.ContainerInspect(th.t.Context(), x.name)
		} else {
			_, err = th.engine.VolumeInspect(th.t.Context(), x.name)
		}
		require.True(th.t, err == nil || errdefs.IsNotFound(err), "%v", err)
		return err != nil
	})
}

// listed returns what Leftovers reports of the given things.
func (th *things) listed(self *owner.Self, of ...thing) []pygent.Leftover {
	th.t.Helper()
	all, err := pygent.Leftovers(th.t.Context(), pygent.WithTestOwner(self), pygent.WithDocker(pygent.DockerRequired))
	require.NoError(th.t, err)
	return slices.DeleteFunc(all, func(l pygent.Leftover) bool { return !slices.Contains(of, thing{l.Kind, l.Name}) })
}

func TestSweepRemovesWhatADeadProcessOfThisMachineLeft(t *testing.T) {
	t.Parallel()
	th := newThings(t)
	gone, alive := dead(t)
	left := th.of(gone, owner.HoldsNothing)
	used := th.of(alive, owner.HoldsNothing)
	for _, l := range th.listed(alive, left...) {
		require.True(t, l.Ours && l.Sure, l)
		require.Empty(t, l.Why)
		require.WithinDuration(t, time.Now(), l.Created, time.Hour)
	}
	require.Empty(t, th.listed(alive, used...))
	pygent.SweepEngine(t.Context(), th.engine, alive)
	require.Empty(t, th.left(left))
	require.Equal(t, used, th.left(used))
}

func TestSweepLeavesWhatHoldsAWorkspace(t *testing.T) {
	t.Parallel()
	th := newThings(t)
	gone, alive := dead(t)
	left := th.of(gone, owner.HoldsWorkspace)
	work := left[1]
	pygent.SweepEngine(t.Context(), th.engine, alive)
	require.Equal(t, []thing{work}, th.left(left))
	listed := th.listed(alive, work)
	require.Len(t, listed, 1)
	require.True(t, listed[0].Ours)
	require.False(t, listed[0].Sure)
	require.Contains(t, listed[0].String(), "a workspace that was not brought back")

	require.NoError(t, gone.MarkSaved(work.name))
	require.True(t, th.listed(alive, work)[0].Sure, "it was brought back, and could not be removed")
	pygent.SweepEngine(t.Context(), th.engine, alive)
	require.Empty(t, th.left(left))
	require.False(t, alive.Saved(work.name))
}

// TestMachinesWithEqualNamesLeaveEachOtherAlone has two machines with the same
// name, and in one case the same home, that use one engine.
func TestMachinesWithEqualNamesLeaveEachOtherAlone(t *testing.T) {
	t.Parallel()
	th := newThings(t)
	home := machines{t.TempDir()}
	a, b, stranger := home.at(t, "a", "first"), home.at(t, "b", ""), machines{t.TempDir()}.at(t, "a", "")
	of := th.of(a, owner.HoldsNothing)
	for _, other := range []*owner.Self{b, stranger} {
		pygent.SweepEngine(t.Context(), th.engine, other)
		require.Equal(t, of, th.left(of))
		for _, l := range th.listed(other, of...) {
			require.False(t, l.Ours || l.Sure, l)
			require.NotEmpty(t, l.Why)
		}
	}
	pygent.SweepEngine(t.Context(), th.engine, home.at(t, "a", "second"))
	require.Empty(t, th.left(of))
}

// TestLabelsOfAnImageMakeNothingOurs uses images with labels like ours:
// invented ones, those of an earlier version, and all labels of a committed
// container.
func TestLabelsOfAnImageMakeNothingOurs(t *testing.T) {
	t.Parallel()
	th := newThings(t)
	gone, alive := dead(t)
	for name, labels := range map[string]map[string]string{
		"committed":       nil,
		"made-up":         {owner.LabelRuntime: th.id, owner.LabelOwner: gone.Name(), owner.LabelInstallation: alive.Installation(), owner.LabelHolds: "nothing"},
		"earlier-version": {owner.LabelRuntime: th.id, owner.LabelOwner: "laptop/boot/pid:[1]/1/1"},
		"hostile":         {owner.LabelRuntime: "x", owner.LabelOwner: "\x1b[2J" + strings.Repeat("/", 1<<16), owner.LabelInstallation: alive.Installation()},
	} {
		t.Run(name, func(t *testing.T) {
			ours := th.of(gone, owner.HoldsNothing)[0]
			inspect, err := th.engine.ContainerInspect(t.Context(), ours.name)
			require.NoError(t, err)
			config := inspect.Config
			if labels != nil {
				config = &container.Config{Labels: labels}
			}
			made, err := th.engine.ContainerCommit(t.Context(), ours.name, container.CommitOptions{Config: config})
			require.NoError(t, err)
			defer func() {
				_, err := th.engine.ImageRemove(context.Background(), made.ID, image.RemoveOptions{Force: true, PruneChildren: true})
				require.NoError(t, err)
			}()
			victim := th.container(ours.name+"-"+name, made.ID, nil)
			got, err := th.engine.ContainerInspect(t.Context(), victim.name)
			require.NoError(t, err)
			require.NotEmpty(t, got.Config.Labels[owner.LabelOwner], "labels are inherited")
			listed := th.listed(alive, victim)
			require.Len(t, listed, 1)
			require.False(t, listed[0].Ours || listed[0].Sure)
			require.Less(t, len(listed[0].String()), 2000)
			require.NotContains(t, listed[0].String(), "\x1b")
			pygent.SweepEngine(t.Context(), th.engine, alive)
			require.Equal(t, []thing{victim}, th.left([]thing{victim}))
			require.NoError(t, th.engine.ContainerRemove(t.Context(), victim.name, container.RemoveOptions{}))
		})
	}
}

func TestSweepLeavesWhatIsInUse(t *testing.T) {
	t.Parallel()
	th := newThings(t)
	gone, alive := dead(t)
	running := th.of(gone, owner.HoldsNothing)[0]
	require.NoError(t, th.engine.ContainerStart(t.Context(), running.name, container.StartOptions{}))
	paused := th.of(gone, owner.HoldsNothing)[0]
	require.NoError(t, th.engine.ContainerStart(t.Context(), paused.name, container.StartOptions{}))
	pause(t, th.engine, paused.name)
	mounted := th.of(gone, owner.HoldsNothing)[1]
	th.container("of-somebody-"+mounted.name, testBusyboxImage(), nil, mount.Mount{Type: mount.TypeVolume, Source: mounted.name, Target: "/x"})
	used := []thing{running, paused, mounted}
	pygent.SweepEngine(t.Context(), th.engine, alive)
	require.Equal(t, used, th.left(used))

	for _, l := range th.listed(alive, running, paused) {
		require.True(t, l.Ours && !l.Sure, l)
		require.Contains(t, l.Why, "it runs")
		require.NoError(t, pygent.Prune(t.Context(), []pygent.Leftover{l}, pygent.WithTestOwner(alive)), "it was chosen")
	}
	require.Error(t, pygent.Prune(t.Context(), th.listed(alive, mounted), pygent.WithTestOwner(alive)))
	require.Equal(t, []thing{mounted}, th.left(used))
}

// TestContainerStartedAfterTheListIsNotRemoved has a leftover container that
// somebody starts before the sweep removes it.
func TestContainerStartedAfterTheListIsNotRemoved(t *testing.T) {
	t.Parallel()
	th := newThings(t)
	gone, alive := dead(t)
	left := th.of(gone, owner.HoldsNothing)[0]
	listed := th.listed(alive, left)
	require.True(t, listed[0].Sure)
	require.NoError(t, th.engine.ContainerStart(t.Context(), left.name, container.StartOptions{}))
	require.Error(t, pygent.Prune(t.Context(), listed, pygent.WithTestOwner(alive)))
	require.Equal(t, []thing{left}, th.left([]thing{left}))
}

func TestPruneRefusesWhatIsNotLeft(t *testing.T) {
	t.Parallel()
	th := newThings(t)
	_, alive := dead(t)
	used := th.of(alive, owner.HoldsNothing)
	foreign := []thing{th.container("db-"+th.id, testBusyboxImage(), nil), th.volume("data-"+th.id, nil)}
	for _, x := range append(used, foreign...) {
		err := pygent.Prune(t.Context(), []pygent.Leftover{{Kind: x.kind, Name: x.name, Sure: true}}, pygent.WithTestOwner(alive))
		require.ErrorContains(t, err, x.name)
	}
	require.Equal(t, used, th.left(used))
	require.Equal(t, foreign, th.left(foreign))
}

func TestWithoutAStateDirectoryNothingIsSwept(t *testing.T) {
	t.Parallel()
	th := newThings(t)
	gone, _ := dead(t)
	left := th.of(gone, owner.HoldsNothing)
	file := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	homeless := owner.Open(filepath.Join(file, "state"), owner.ThisPlace())
	require.Error(t, homeless.Err())
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	pygent.SweepEngine(t.Context(), th.engine, homeless, pygent.WithLogger(logger))
	require.Equal(t, left, th.left(left))
	require.Contains(t, log.String(), "level=DEBUG")
	require.Contains(t, log.String(), file)

	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithTestOwner(homeless), pygent.WithImage(testBusyboxImage()))
	require.Equal(t, "works\n", bash(t, r, "echo works").Output)
}

// crash runs this test binary as a process that makes a runtime and dies.
func crash(t *testing.T, kind string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestCrashingProcess$")
	cmd.Env = append(os.Environ(), "PYGENT_TEST_CRASH="+kind)
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "%s", out)
	require.Equal(t, -1, cmd.ProcessState.ExitCode(), "%s", out)
}

// TestCrashingProcess is the process that crash starts.
func TestCrashingProcess(t *testing.T) {
	t.Parallel()
	kind := os.Getenv("PYGENT_TEST_CRASH")
	if kind == "" {
		return
	}
	opts := []pygent.RuntimeOption{pygent.WithImage(testImage())}
	create := pygent.NewLocalRuntime
	if kind == "local, without a sweep" {
		opts = append(opts, pygent.WithSweep(false))
	} else if kind == "local, in a workspace" {
		opts = append(opts, pygent.WithWorkspace(filepath.Join(os.TempDir(), "ws")))
	} else if kind != "local" {
		create = pygent.NewDockerRuntime
		opts = append(opts, pygent.WithSharedFiles(kind == "docker"))
	}
	r, err := create(t.Context(), opts...)
	require.NoError(t, err)
	_, err = r.Bash(t.Context(), "echo here > f")
	require.NoError(t, err)
	me, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	require.NoError(t, me.Kill())
	select {}
}

// childProcess returns a command that runs this test binary as one of the parts
// in TestPartOfAChild.
func childProcess(t *testing.T, part string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestPartOfAChild$", "-test.v")
	cmd.Env = append(os.Environ(), "PYGENT_TEST_PART="+part)
	return cmd
}

// TestPartOfAChild is the process that childProcess starts.
func TestPartOfAChild(t *testing.T) {
	t.Parallel()
	onVolume := []pygent.RuntimeOption{pygent.WithImage(testBusyboxImage()), pygent.WithSharedFiles(false)}
	switch os.Getenv("PYGENT_TEST_PART") {
	case "lose the workspace":
		dir := filepath.Join(t.TempDir(), "ws")
		r, err := pygent.NewDockerRuntime(t.Context(), append(onVolume, pygent.WithWorkspace(dir))...)
		require.NoError(t, err)
		require.Zero(t, bash(t, r, "echo precious >f").ExitCode)
		require.NoError(t, os.RemoveAll(dir))
		t.Log(r.Cleanup())
	case "run":
		engine := testEngine(t)
		dir := realTempDir(t)
		r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testBusyboxImage()), pygent.WithWorkspace(dir), pygent.WithReadOnlyRoot(true))
		require.Equal(t, "alive\n", bash(t, r, "echo alive").Output)
		made := containersOf(t, engine, dir)
		require.Len(t, made, 1)
		for _, m := range made[0].Mounts {
			require.False(t, m.Type == mount.TypeBind && m.Source != dir, "%+v", m)
		}
	case "start and end":
		for range 2 {
			r, err := pygent.NewDockerRuntime(t.Context(), onVolume...)
			require.NoError(t, err)
			require.Equal(t, "alive\n", bash(t, r, "echo alive").Output)
			require.NoError(t, r.WriteFile(t.Context(), "f", []byte("kept")))
			require.Equal(t, "kept", bash(t, r, "cat f").Output)
			require.NoError(t, r.Cleanup())
		}
	}
}

// TestGuestIsCopiedWhereNoCacheIsOursAlone has no home directory, and in the
// temporary directory a cache of another user. It then has a cache that others
// may write.
func TestGuestIsCopiedWhereNoCacheIsOursAlone(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	temp := t.TempDir()
	theirs := filepath.Join(temp, fmt.Sprintf("pygent-cache-%d", os.Getuid()))
	require.NoError(t, os.Mkdir(theirs, 0o755))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(theirs, 65534, 65534))
	}
	open := filepath.Join(t.TempDir(), "cache")
	require.NoError(t, os.MkdirAll(filepath.Join(open, "pygent"), 0o755))
	require.NoError(t, os.Chmod(filepath.Join(open, "pygent"), 0o777))
	for _, cache := range []string{"", open} {
		cmd := childProcess(t, "run")
		cmd.Env = append(cmd.Env, "HOME=", "XDG_CACHE_HOME="+cache, "TMPDIR="+temp)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Empty(t, entries(t, theirs))
	}
	require.Empty(t, entries(t, filepath.Join(open, "pygent")))
}

// TestRescuedWorkspaceSurvivesTheNextProcess has a workspace that cannot be
// copied back. The error says which volume still holds it.
func TestRescuedWorkspaceSurvivesTheNextProcess(t *testing.T) {
	t.Parallel()
	engine := testEngine(t)
	out, err := childProcess(t, "lose the workspace").CombinedOutput()
	require.NoError(t, err, "%s", out)
	_, text, kept := strings.Cut(string(out), "kept in the engine's volume ")
	require.True(t, kept, "%s", out)
	name, _, _ := strings.Cut(text, ")")
	defer func() { require.NoError(t, engine.VolumeRemove(context.Background(), name, false)) }()

	pygent.SweepEngine(t.Context(), engine, owner.Here())
	_, err = engine.VolumeInspect(t.Context(), name)
	require.NoError(t, err)
	found, err := pygent.Leftovers(t.Context(), pygent.WithDocker(pygent.DockerRequired), pygent.WithImage(testBusyboxImage()))
	require.NoError(t, err)
	i := slices.IndexFunc(found, func(l pygent.Leftover) bool { return l.Name == name })
	require.GreaterOrEqual(t, i, 0)
	require.True(t, found[i].Ours && !found[i].Sure, found[i])
	requireRescue(t, string(out), name)
	requireRescue(t, found[i].String(), name)
}

// TestVolumeThatWasBroughtBackIsSafeToRemove has a volume that is still in use
// after the workspace was copied back from it.
func TestVolumeThatWasBroughtBackIsSafeToRemove(t *testing.T) {
	t.Parallel()
	th := newThings(t)
	self := machines{t.TempDir()}.at(t, "a", "")
	dir := t.TempDir()
	r, err := pygent.NewDockerRuntime(t.Context(), pygent.WithTestOwner(self), pygent.WithImage(testBusyboxImage()),
		pygent.WithSharedFiles(false), pygent.WithWorkspace(dir))
	require.NoError(t, err)
	require.Zero(t, bash(t, r, "echo work >f").ExitCode)
	ours, err := th.engine.VolumeList(t.Context(), volume.ListOptions{Filters: filters.NewArgs(filters.Arg("label", owner.LabelOwner+"="+self.Name()),
		filters.Arg("label", owner.LabelHolds+"="+string(owner.HoldsWorkspace)))})
	require.NoError(t, err)
	require.Len(t, ours.Volumes, 1)
	name := ours.Volumes[0].Name
	user := th.container("of-somebody-"+name, testBusyboxImage(), nil, mount.Mount{Type: mount.TypeVolume, Source: name, Target: "/x"})
	require.ErrorIs(t, r.Cleanup(), pygent.ErrCleanupIncomplete)
	require.FileExists(t, filepath.Join(dir, "f"))
	require.True(t, self.Saved(name))
	require.NoError(t, th.engine.ContainerRemove(t.Context(), user.name, container.RemoveOptions{}))
	require.NoError(t, th.engine.VolumeRemove(t.Context(), name, false))
}

// TestProcessesThatStartAndSweepAtOnce has processes that start and end
// runtimes while others sweep all the time.
func TestProcessesThatStartAndSweepAtOnce(t *testing.T) {
	t.Parallel()
	engine := testEngine(t)
	ctx, cancel := context.WithCancel(t.Context())
	var sweeper, starters sync.WaitGroup
	sweeper.Go(func() {
		for ctx.Err() == nil {
			pygent.SweepEngine(ctx, engine, owner.Here())
		}
	})
	for range 3 {
		cmd := childProcess(t, "start and end") // each also sweeps when it starts
		starters.Go(func() {
			out, err := cmd.CombinedOutput()
			assert.NoError(t, err, "%s", out)
		})
	}
	starters.Wait()
	cancel()
	sweeper.Wait()
}

func TestPruneRemovesWhatACrashLeft(t *testing.T) {
	kinds := map[string]pygent.RuntimeOption{"local": pygent.WithDocker(pygent.DockerNever)}
	if testkit.DockerAnswers() == nil {
		kinds["docker"] = pygent.WithDocker(pygent.DockerRequired)
		kinds["volume"] = pygent.WithDocker(pygent.DockerRequired)
	}
	for kind, where := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			alive := newTestRuntime(t, pygent.NewLocalRuntime)
			require.NoError(t, alive.WriteFile(t.Context(), "f", []byte("in use")))
			crash(t, kind)
			require.Eventually(t, func() bool { // the dead process's containers end by themselves
				found, err := pygent.Leftovers(t.Context(), where)
				require.NoError(t, err)
				return !slices.ContainsFunc(found, func(l pygent.Leftover) bool { return l.Kind == "container" && l.Ours })
			}, time.Minute, 20*time.Millisecond)
			sure := sureOnes(t, where)
			require.True(t, sure["directory"] != nil)
			require.Equal(t, kind == "volume", sure["volume"] != nil)
			require.NoError(t, pygent.Prune(t.Context(), slices.Concat(sure["directory"], sure["volume"]), where))
			require.Empty(t, sureOnes(t, where))
			data, err := alive.ReadFile(t.Context(), "f")
			require.NoError(t, err)
			require.Equal(t, "in use", string(data))
		})
	}
}

// sureOnes returns what is certainly left over, by kind.
func sureOnes(t *testing.T, where pygent.RuntimeOption) map[string][]pygent.Leftover {
	t.Helper()
	found, err := pygent.Leftovers(t.Context(), where)
	require.NoError(t, err)
	sure := map[string][]pygent.Leftover{}
	for _, l := range found {
		if l.Sure {
			sure[l.Kind] = append(sure[l.Kind], l)
		}
	}
	return sure
}

func TestNextProcessSweepsWhatACrashLeft(t *testing.T) {
	if testing.Short() {
		t.Skip("kills or stops processes")
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	workspaces := func() []string {
		found, err := filepath.Glob(filepath.Join(temp, "pygent-*"))
		require.NoError(t, err)
		return found
	}
	crash(t, "local")
	first := workspaces() // also a temporary directory, if commands are confined
	require.NotEmpty(t, first)
	crash(t, "local, without a sweep")
	require.Subset(t, workspaces(), first)
	require.Len(t, workspaces(), 2*len(first))
	crash(t, "local") // sweeps first, and then leaves its own workspace
	last := workspaces()
	require.Len(t, last, len(first))
	require.NotSubset(t, last, first)
	crash(t, "local, in a workspace") // sweeps as well, and perhaps leaves a temporary directory
	for _, dir := range workspaces() {
		require.NotContains(t, last, dir)
	}
	again := workspaces()
	crash(t, "local, in a workspace")
	for _, dir := range workspaces() {
		require.NotContains(t, again, dir)
	}
}

// TestSweepLeavesDirectoriesOfOthers has directories with names like ours: an
// empty one that is too old to be in the making, and a workspace that the user
// has renamed.
func TestSweepLeavesDirectoriesOfOthers(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	crash(t, "local")
	made, err := filepath.Glob(filepath.Join(temp, "pygent-*", "workspace", "f"))
	require.NoError(t, err)
	require.Len(t, made, 1)
	saved, empty := filepath.Join(temp, "pygent-saved"), filepath.Join(temp, "pygent-1")
	require.NoError(t, os.Rename(filepath.Dir(filepath.Dir(made[0])), saved))
	require.NoError(t, os.Mkdir(empty, 0o700))
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(empty, old, old))
	crash(t, "local")
	require.FileExists(t, filepath.Join(saved, "workspace", "f"))
	require.DirExists(t, empty)

	found, err := pygent.Leftovers(t.Context(), pygent.WithDocker(pygent.DockerNever))
	require.NoError(t, err)
	sure := map[string]bool{}
	for _, l := range found {
		sure[l.Name] = l.Sure
	}
	require.False(t, sure[saved])
	require.NotContains(t, sure, empty)
	delete(sure, saved)
	for name, mine := range sure {
		require.True(t, mine, "%s is of the last process", name)
	}
}

func TestPruneTouchesNothingElse(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "pygent-")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600))
	found, err := pygent.Leftovers(t.Context(), pygent.WithDocker(pygent.DockerNever))
	require.NoError(t, err)
	for _, l := range found {
		require.NotEqual(t, dir, l.Name)
	}
	require.Error(t, pygent.Prune(t.Context(), []pygent.Leftover{{Kind: "directory", Name: dir}}, pygent.WithDocker(pygent.DockerNever)))
	require.FileExists(t, filepath.Join(dir, "mine"))
}
