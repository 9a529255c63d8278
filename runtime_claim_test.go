//go:build unix

package pygent_test

import (
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/owner"
)

// theft is a script that gives all files of a workspace to another user, as
// root in a container can.
const theft = "mkdir -p d && echo x >d/f && ln -sf f d/l && chown -hR 4242:4243 /workspace && chmod 700 d"

// robbed is a workspace whose owner was changed by a process's commands before
// that process was killed.
type robbed struct {
	dir   string
	owner string // the owner of the directory before that, as "uid:gid"
	self  *owner.Self
	state string // where the process kept its records
}

func newRobbed(t *testing.T, opts string) robbed {
	t.Helper()
	requireDocker(t)
	r := robbed{dir: realTempDir(t), owner: "65534:65534"}
	if os.Geteuid() == 0 {
		r.owner = "1234:1235"
		require.NoError(t, os.Chown(r.dir, 1234, 1235))
	}
	state := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestRobbedProcess$")
	cmd.Env = append(os.Environ(), "PYGENT_TEST_ROBBED="+r.dir, "PYGENT_TEST_ROBBED_OPTIONS="+opts, "XDG_STATE_HOME="+state)
	out, err := cmd.CombinedOutput()
	require.Error(t, err, "%s", out)
	require.Equal(t, -1, cmd.ProcessState.ExitCode(), "%s", out)
	require.Equal(t, "4242:4243", ownerOf(t, r.dir))
	r.state = filepath.Join(state, "pygent")
	r.self = owner.Open(r.state, owner.ThisPlace())
	require.NoError(t, r.self.Err())
	return r
}

// TestRobbedProcess is the process that newRobbed starts.
func TestRobbedProcess(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("PYGENT_TEST_ROBBED")
	if dir == "" {
		return
	}
	r, err := pygent.NewDockerRuntime(t.Context(), robbedOptions(dir, os.Getenv("PYGENT_TEST_ROBBED_OPTIONS"))...)
	require.NoError(t, err)
	require.Zero(t, bash(t, r, theft).ExitCode)
	me, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	require.NoError(t, me.Kill())
	select {}
}

func robbedOptions(dir, more string) []pygent.RuntimeOption {
	opts := []pygent.RuntimeOption{pygent.WithImage(testImage()), pygent.WithWorkspace(dir), pygent.WithSweep(false)}
	if more == "plain exec" {
		opts = append(opts, pygent.WithTestPlainExec())
	}
	return opts
}

func (r robbed) requireGivenBack(t *testing.T) {
	t.Helper()
	for _, name := range []string{".", "d", "d/f", "d/l"} {
		require.Equal(t, r.owner, ownerOf(t, filepath.Join(r.dir, name)), name)
	}
	require.Empty(t, r.self.Abandoned())
}

// TestOwnerOutlivesAKilledProcess checks that the next process knows the owner
// of a workspace, even if commands of a killed process changed it.
func TestOwnerOutlivesAKilledProcess(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"guest", "plain exec"} {
		t.Run(kind, func(t *testing.T) {
			was := newRobbed(t, kind)
			r, err := pygent.NewDockerRuntime(t.Context(), append(robbedOptions(was.dir, kind), pygent.WithTestOwner(was.self))...)
			require.NoError(t, err)
			require.Equal(t, was.owner, ownerOf(t, was.dir), "it can be entered")
			require.Zero(t, bash(t, r, theft).ExitCode)
			require.NoError(t, r.Cleanup())
			was.requireGivenBack(t)
		})
	}
	t.Run("of the next process too", func(t *testing.T) {
		was := newRobbed(t, "")
		self := pygent.WithTestOwner(was.self)
		first, err := pygent.NewDockerRuntime(t.Context(), append(robbedOptions(was.dir, ""), self)...)
		require.NoError(t, err)
		require.Zero(t, bash(t, first, theft).ExitCode)
		second, err := pygent.NewDockerRuntime(t.Context(), append(robbedOptions(was.dir, ""), self)...)
		require.NoError(t, err)
		require.Zero(t, bash(t, second, theft).ExitCode)
		require.NoError(t, first.Cleanup())
		require.Zero(t, bash(t, second, theft).ExitCode)
		require.NoError(t, second.Cleanup())
		was.requireGivenBack(t)
	})
}

// TestSweepGivesBackWhatAKilledProcessWasRobbedOf checks that a sweep restores
// the owner even if nothing else uses the workspace again.
func TestSweepGivesBackWhatAKilledProcessWasRobbedOf(t *testing.T) {
	t.Parallel()
	was := newRobbed(t, "")
	engine := testEngine(t)
	held, err := was.self.Claim(was.dir)
	require.NoError(t, err)
	pygent.SweepEngine(t.Context(), engine, was.self, pygent.WithImage(testImage()))
	require.Equal(t, "4242:4243", ownerOf(t, was.dir), "a living process uses it")
	require.NoError(t, held.Release(false))
	pygent.SweepEngine(t.Context(), engine, was.self, pygent.WithImage(testImage()), pygent.WithSharedFiles(false))
	require.Equal(t, "4242:4243", ownerOf(t, was.dir), "the engine has another directory of that name")
	pygent.SweepEngine(t.Context(), engine, was.self, pygent.WithImage(testImage()))
	was.requireGivenBack(t)
}

// TestContainerOutlivesItsProcess has a killed process whose container still
// runs for a while. What that container does after another process restored the
// owner is undone too.
func TestContainerOutlivesItsProcess(t *testing.T) {
	t.Parallel()
	was := newRobbed(t, "")
	engine := testEngine(t)
	self, opts := pygent.WithTestOwner(was.self), robbedOptions(was.dir, "")
	r, err := pygent.NewDockerRuntime(t.Context(), append(opts, self)...)
	require.NoError(t, err)
	require.Zero(t, bash(t, r, "true").ExitCode)
	lingers := lingering(t, engine, was)
	require.NoError(t, r.Cleanup())
	require.NoError(t, os.Lchown(was.dir, 4242, 4243)) // stands for what the remaining container does
	pygent.SweepEngine(t.Context(), engine, was.self, pygent.WithImage(testImage()))
	require.Equal(t, was.owner, ownerOf(t, was.dir))
	require.NoError(t, os.Lchown(was.dir, 4242, 4243))
	require.NoError(t, engine.ContainerRemove(t.Context(), lingers, container.RemoveOptions{Force: true}))
	pygent.SweepEngine(t.Context(), engine, was.self, pygent.WithImage(testImage()))
	was.requireGivenBack(t)
}

// lingering starts a container that seems to belong to a dead process, and
// returns its id.
func lingering(t *testing.T, engine *client.Client, was robbed) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away without a container")
	}
	dead := owner.ThisPlace()
	dead.Boot = "earlier"
	gone := owner.Open(was.state, dead)
	require.NoError(t, gone.Err())
	runtime := strings.ToLower(rand.Text()[:12]) // other processes may run this test, too
	name := owner.NamePrefix + runtime
	labels := gone.Prove(owner.Container, name, gone.Labels(runtime, owner.HoldsNothing))
	made, err := engine.ContainerCreate(t.Context(), &container.Config{
		Image: testImage(), Labels: labels, Entrypoint: []string{"sleep", "600"},
	}, &container.HostConfig{NetworkMode: "none", AutoRemove: true}, nil, nil, name)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = engine.ContainerRemove(context.Background(), made.ID, container.RemoveOptions{Force: true})
	})
	require.NoError(t, engine.ContainerStart(t.Context(), made.ID, container.StartOptions{}))
	return made.ID
}

// TestNobodyIsRobbedForGood runs these tests without the rights of root.
func TestNobodyIsRobbedForGood(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == nobody {
		return // this process runs the tests named below
	}
	requireDocker(t)
	for _, test := range []string{"TestOwnerOutlivesAKilledProcess", "TestSweepGivesBackWhatAKilledProcessWasRobbedOf"} {
		t.Run(test, func(t *testing.T) { asNobody(t, test, engineGroup()) })
	}
}

// TestPlainExecGivesToWhomTheHostNames uses a container without a guest, in
// which commands replace the programs that would restore the owner.
func TestPlainExecGivesToWhomTheHostNames(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can make a workspace of another owner")
	}
	dir := realTempDir(t)
	require.NoError(t, os.Chown(dir, 1234, 1235))
	r := newTestRuntime(t, pygent.NewDockerRuntime, robbedOptions(dir, "plain exec")...)
	res := bash(t, r, theft+" && for p in chown stat cat; do ln -sf /bin/true $(command -v $p); done")
	require.Zero(t, res.ExitCode, res.Output)
	require.NoError(t, r.Cleanup())
	for _, name := range []string{".", "d", "d/f", "d/l"} {
		require.Equal(t, "1234:1235", ownerOf(t, filepath.Join(dir, name)), name)
	}
}

// TestNextStartRemovesWhatAKilledCopyLeft also checks that a directory with
// only a similar name stays.
func TestNextStartRemovesWhatAKilledCopyLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	left, mine := filepath.Join(dir, ".pygent-stage-1y2p0ij32e8e71y2p0ij32e8e7"), filepath.Join(dir, ".pygent-stage-mine1y2p0ij32e8e7")
	for _, name := range []string{left, mine} {
		require.NoError(t, os.MkdirAll(filepath.Join(name, "d"), 0o700))
	}
	mark := "pygent removes the directory " + filepath.Base(left) + " when no process uses it.\n"
	require.NoError(t, os.WriteFile(filepath.Join(left, "made-by-pygent"), []byte(mark), 0o600))
	newTestRuntime(t, pygent.NewLocalRuntime, pygent.WithWorkspace(dir))
	require.NoDirExists(t, left)
	require.DirExists(t, mine)
}
