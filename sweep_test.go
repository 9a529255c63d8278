package pygent_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/owner"
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
