//go:build linux

package bench

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit/enginetest"
)

// soakers is how many runtimes are used at once.
const soakers = 8

// TestSoak runs commands on several runtimes at once, with random time limits
// and cancels, and with containers that are killed. Each result must be right,
// and in the end nothing may be left. PYGENT_SOAK sets the number of commands,
// and PYGENT_SOAK_SEED repeats a run.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("runs hundreds of commands")
	}
	commands := envNumber(t, "PYGENT_SOAK", 240)
	seed := envNumber(t, "PYGENT_SOAK_SEED", int(time.Now().UnixNano()&0xffff))
	t.Logf("%d commands, PYGENT_SOAK_SEED=%d", commands, seed)
	engine := soakEngine(t)
	t.Setenv("TMPDIR", t.TempDir())

	// What a process makes once and then keeps is not a leak.
	warmUp(t, engine)
	before, ignored := takeStock(t, engine), goleak.IgnoreCurrent()

	counts := &tally{counts: map[string]int{}, took: map[string]time.Duration{}}
	var all sync.WaitGroup
	for i := range soakers {
		all.Go(func() {
			s := &soaker{t: t, kind: i, engine: engine, tally: counts, random: rand.New(rand.NewPCG(uint64(seed), uint64(i)))}
			if err := s.soak(commands / soakers); err != nil {
				t.Errorf("runtime %d: %v", i, err)
			}
		})
	}
	all.Wait()
	t.Logf("done:\n%v", counts)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		require.Equal(c, before, takeStock(c, engine))
	}, 20*time.Second, 50*time.Millisecond, "what was left behind")
	require.NoError(t, goleak.Find(ignored))
}

func envNumber(t *testing.T, name string, otherwise int) int {
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	require.NoError(t, err, name)
	return n
}

// soakEngine returns a client of the engine, or nil without one.
func soakEngine(t *testing.T) *client.Client {
	engine, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	t.Cleanup(func() { engine.Close() })
	if err := enginetest.Has("", enginetest.Image(), enginetest.Busybox()); err != nil {
		if enginetest.Required() {
			t.Fatalf("an engine is required: %v", err)
		}
		t.Logf("no engine, so all runtimes are local: %v", err)
		return nil
	}
	return engine
}

// warmUp makes what a process makes only once, such as unpacked guests.
func warmUp(t *testing.T, engine *client.Client) {
	for kind := range 4 {
		r, err := soakRuntime(t.Context(), engine, kind)
		require.NoError(t, err)
		_, err = r.Bash(t.Context(), "true")
		require.NoError(t, err)
		require.NoError(t, r.Cleanup())
	}
}

// soakRuntime makes one of four kinds of runtime.
func soakRuntime(ctx context.Context, engine *client.Client, kind int) (pygent.Runtime, error) {
	construct, opts := pygent.NewDockerRuntime, []pygent.RuntimeOption{pygent.WithImage(enginetest.Image())}
	switch {
	case engine == nil || kind%4 == 0:
		construct = pygent.NewLocalRuntime
		opts = append(opts, pygent.WithLocalProtection(pygent.ProtectionOff)) // so that commands can kill their guest
	case kind%4 == 1:
		opts = []pygent.RuntimeOption{pygent.WithImage(enginetest.Busybox())}
	case kind%4 == 2:
		opts = append(opts, pygent.WithSharedFiles(false))
	}
	return construct(ctx, opts...)
}

// stock is what could leak, except goroutines.
type stock struct {
	files      []string // open in this process
	temporary  []string // names of temporary files
	processes  []string // started on this machine
	containers int
	volumes    int
}

func takeStock(t require.TestingT, engine *client.Client) stock {
	var s stock
	if engine != nil {
		labelled := filters.NewArgs(filters.Arg("label", "pygent.runtime"))
		containers, err := engine.ContainerList(context.Background(), container.ListOptions{All: true, Filters: labelled})
		require.NoError(t, err)
		volumes, err := engine.VolumeList(context.Background(), volume.ListOptions{Filters: labelled})
		require.NoError(t, err)
		for _, c := range containers {
			s.containers += ours(c.Labels)
		}
		for _, v := range volumes.Volumes {
			s.volumes += ours(v.Labels)
		}
		_ = engine.Close() // its idle connections would count
	}
	for _, fd := range listing(t, "/proc/self/fd") {
		if file, err := os.Readlink("/proc/self/fd/" + fd); err == nil { // the descriptor of the listing itself is closed by now
			kind, _, _ := strings.Cut(file, "[") // sockets and pipes have numbers
			s.files = append(s.files, kind)
		}
	}
	slices.Sort(s.files)
	s.temporary = listing(t, os.TempDir())
	for _, pid := range listing(t, "/proc") {
		env, err := os.ReadFile(filepath.Join("/proc", pid, "environ"))
		if err == nil && strings.Contains(string(env), "TMPDIR="+os.TempDir()) {
			s.processes = append(s.processes, pid)
		}
	}
	return s
}

// ours returns 1 for labels that name this process.
func ours(labels map[string]string) int {
	pid := strconv.Itoa(os.Getpid())
	if labels["pygent.pid"] == pid || strings.Contains(labels["pygent.owner"], "/"+pid+"/") {
		return 1
	}
	return 0
}

func listing(t require.TestingT, dir string) []string {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
