//go:build unix

// These tests hold who owns the files that commands make, and that a normal user can remove
// all of them.

package pygent_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/testkit/enginetest"
)

// nobody is a user without special rights on this machine.
const nobody = 65534

// messyScript makes files that only their owner can read or remove, and files
// that not even the owner can without changing a mode first.
const messyScript = `umask 077; mkdir -p private/deep readonly none; for d in private/deep readonly none; do echo x >$d/f; done
chmod 555 readonly; chmod 000 none; ln -s /etc etc`

// TestNormalUserCanRemoveWhatRootMade runs this test binary as a user who has
// no rights except those of the engine's group.
func TestNormalUserCanRemoveWhatRootMade(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == nobody {
		t.Skip("not as nobody")
	}
	requireDocker(t)
	asNobody(t, "TestAsNobodyWorkspacesAreRemovedOrOwned", engineGroup())
}

// engineGroup returns the group that may use this machine's engine.
func engineGroup() int {
	if info, err := os.Stat("/var/run/docker.sock"); err == nil {
		return int(info.Sys().(*syscall.Stat_t).Gid)
	}
	return nobody // enough if DOCKER_HOST names another engine
}

// TestSocketOfAUserIsFound has engines that a user runs for themselves. The
// machine's own engine refuses this user.
func TestSocketOfAUserIsFound(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == nobody {
		t.Skip("not as nobody")
	}
	requireDocker(t)
	for _, socket := range []string{"docker.sock", "podman/podman.sock"} {
		t.Run(socket, func(t *testing.T) {
			dir := enginetest.SocketDir(t)
			path := filepath.Join(dir, socket)
			connections := standIn(t, listenUnix(t, path))
			require.NoError(t, os.Chmod(dir, 0o755))
			require.NoError(t, os.Chmod(path, 0o777))
			asNobody(t, "TestAsNobodyTheSocketIsFound", nobody, "XDG_RUNTIME_DIR="+dir, "DOCKER_HOST=", "DOCKER_CONTEXT=")
			require.NotZero(t, connections())
		})
	}
}

func TestAsNobodyTheSocketIsFound(t *testing.T) {
	t.Parallel()
	if os.Getenv(nobodyVariable) == "" {
		return // only TestSocketOfAUserIsFound runs this
	}
	r, err := pygent.NewDockerRuntime(t.Context(), pygent.WithImage(testImage()))
	require.NoError(t, err)
	require.Equal(t, "ran\n", bash(t, r, "echo ran").Output)
	require.NoError(t, r.Cleanup())
}

// asNobody runs a test of this binary as nobody, in a group and with additional
// variables. It skips the test if this process may not change its user.
func asNobody(t *testing.T, test string, group int, env ...string) {
	t.Helper()
	asUser(t, nobody, test, group, env...)
}

// asUser is asNobody for any user, whose group has the same number.
func asUser(t *testing.T, user int, test string, group int, env ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	home := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(home), 0o755))
	require.NoError(t, os.Chown(home, user, user))
	binary := filepath.Join(home, "test")
	require.NoError(t, copyProgram(binary))
	cmd := exec.Command(binary, "-test.run=^"+test+"$", "-test.v")
	cmd.Dir = home
	cmd.Env = append(append(os.Environ(), "HOME="+home, "TMPDIR="+home, "XDG_CACHE_HOME=", nobodyVariable+"=1"), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(user), Gid: uint32(user), Groups: []uint32{uint32(group)}}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	t.Logf("%s", out)
}

// copyProgram copies this program to a file that can be executed at once. A child that
// another test starts meanwhile would have the file open for writing for a moment, in
// which nobody may execute it.
func copyProgram(to string) error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(to, program, 0o755)
}

// nobodyVariable is set in processes that asNobody starts.
const nobodyVariable = "PYGENT_TEST_AS_NOBODY"

func TestAsNobodyWorkspacesAreRemovedOrOwned(t *testing.T) {
	if os.Getenv(nobodyVariable) == "" {
		return // only TestNormalUserCanRemoveWhatRootMade runs this
	}
	require.Equal(t, nobody, os.Geteuid())
	for name, opts := range map[string][]pygent.RuntimeOption{
		"root":                 nil,
		"without capabilities": {pygent.WithCapabilities()},
		"another user":         {pygent.WithContainerUser("1234:1234")},
		"read-only root":       {pygent.WithReadOnlyRoot(true)},
	} {
		opts = append(opts, pygent.WithImage(testImage()))
		t.Run(name+", temporary", func(t *testing.T) {
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			r, err := pygent.NewDockerRuntime(t.Context(), opts...)
			require.NoError(t, err)
			require.Zero(t, bash(t, r, messyScript).ExitCode)
			require.NoError(t, r.Cleanup())
			require.Empty(t, entries(t, temp))
		})
		t.Run(name+", killed", func(t *testing.T) {
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			r, err := pygent.NewDockerRuntime(t.Context(), opts...)
			require.NoError(t, err)
			require.Zero(t, bash(t, r, messyScript).ExitCode)
			killOurs(t)
			require.NoError(t, r.Cleanup())
			require.Empty(t, entries(t, temp))
		})
		t.Run(name+", kept", func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "ws")
			require.NoError(t, os.Mkdir(dir, 0o777))
			require.NoError(t, os.Chmod(dir, 0o777)) // Mkdir applied the umask, and the other user must be able to write
			r, err := pygent.NewDockerRuntime(t.Context(), append(opts, pygent.WithWorkspace(dir))...)
			require.NoError(t, err)
			require.Zero(t, bash(t, r, messyScript).ExitCode)
			_, err = r.(pygent.JobRunner).StartJob(t.Context(), "while :; do : >new; rm new; : >last; done")
			require.NoError(t, err)
			require.NoError(t, r.Cleanup())
			for _, name := range []string{"private", "private/deep", "private/deep/f", "readonly", "readonly/f", "none", "etc"} {
				require.Equal(t, "65534:65534", ownerOf(t, filepath.Join(dir, name)), name)
			}
			for _, entry := range entries(t, dir) {
				require.Equal(t, "65534:65534", ownerOf(t, filepath.Join(dir, entry.Name())), entry.Name())
			}
			require.NoError(t, os.Chmod(filepath.Join(dir, "none"), 0o700))
			require.NoError(t, os.Chmod(filepath.Join(dir, "readonly"), 0o700))
		})
	}
	if os.Getenv("PYGENT_TEST_REMOTE_ENGINE") == "" {
		return
	}
	t.Run("remote", func(t *testing.T) {
		dir := t.TempDir()
		r := newRemoteRuntime(t, pygent.WithWorkspace(dir))
		require.Zero(t, bash(t, r, messyScript).ExitCode)
		require.NoError(t, r.Cleanup())
		require.Equal(t, "65534:65534", ownerOf(t, filepath.Join(dir, "private/deep/f")))
		again := newRemoteRuntime(t, pygent.WithWorkspace(dir))
		require.NoError(t, os.Chmod(filepath.Join(dir, "none"), 0o700))
		require.Equal(t, "xx", bash(t, again, "cat private/deep/f readonly/f | tr -d '\n'; rm -r private none").Output)
		require.NoError(t, again.Cleanup())
		require.NoDirExists(t, filepath.Join(dir, "private"))
		require.NoError(t, os.Chmod(filepath.Join(dir, "readonly"), 0o700))
	})
}

// TestNormalUserCanRemoveVeryDeepWorkspaces lets nobody remove 6,000 nested
// directories, also those that root made.
func TestNormalUserCanRemoveVeryDeepWorkspaces(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == nobody {
		t.Skip("not as nobody")
	}
	requireDocker(t)
	asNobody(t, "TestAsNobodyVeryDeepWorkspacesAreRemoved", engineGroup())
}

// deepScript makes nested directories, the last of which cannot be entered.
const deepScript = `perl -e 'for (1..6000) { mkdir "d"; chdir "d" or die "$_: $!" } mkdir "e"; chmod 0, "e"; chmod 0, "."'; mkdir closed; touch closed/f; chmod 0 closed`

func TestAsNobodyVeryDeepWorkspacesAreRemoved(t *testing.T) {
	if os.Getenv(nobodyVariable) == "" {
		return // only TestNormalUserCanRemoveVeryDeepWorkspaces runs this
	}
	for _, kind := range runtimeCases()[:2] {
		t.Run(kind.Name, func(t *testing.T) {
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			// Landlock checks all parents of each new file, which would take
			// too long here.
			r := kind.New(t, pygent.WithLocalProtection(pygent.ProtectionOff))
			require.Zero(t, bash(t, r, deepScript, pygent.BashTimeout(-1)).ExitCode)
			require.NoError(t, r.Cleanup())
			require.Empty(t, entries(t, temp))
		})
	}
}

// Root in a container may change the owner of the workspace's directory and
// then kill the container. Nothing may end up with the new owner.
func TestOwnerStaysWhatCommandsMakeOfIt(t *testing.T) {
	requireDocker(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can make a workspace of another owner")
	}
	for name, again := range map[string]bool{"at the end": false, "before another command": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.Chown(dir, 1234, 1235))
			r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(dir))
			bash(t, r, "echo x >f && chown -R 4242:4243 /workspace")
			killOurs(t)
			if again {
				bash(t, r, "echo x >g")
			}
			require.NoError(t, r.WriteFile(t.Context(), "h", []byte("x")))
			require.NoError(t, r.Cleanup())
			require.Equal(t, "1234:1235", ownerOf(t, dir))
			for _, e := range entries(t, dir) {
				require.Equal(t, "1234:1235", ownerOf(t, filepath.Join(dir, e.Name())), e.Name())
			}
		})
	}
}

// killOurs kills the containers of this process, so a test that uses it cannot be
// parallel.
func killOurs(t *testing.T) {
	t.Helper()
	engine, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	defer engine.Close()
	require.NoError(t, started.close())
	containers, _ := oursOn(t, engine)
	require.Len(t, containers, 1)
	ended, failed := engine.ContainerWait(t.Context(), containers[0].ID, container.WaitConditionRemoved)
	require.NoError(t, engine.ContainerKill(context.Background(), containers[0].ID, strconv.Itoa(int(syscall.SIGKILL))))
	select {
	case <-ended:
	case err := <-failed:
		require.NoError(t, err)
	}
}

func TestRemoteFilesEndOwnedByTheWorkspacesOwner(t *testing.T) {
	remoteEngine(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can make a workspace of another owner")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chown(dir, 1234, 1235))
	r := newRemoteRuntime(t, pygent.WithWorkspace(dir))
	bash(t, r, "mkdir d && echo x >d/f && ln -s f d/l")
	require.NoError(t, r.Cleanup())
	for _, name := range []string{"d", "d/f", "d/l"} {
		require.Equal(t, "1234:1235", ownerOf(t, filepath.Join(dir, name)), name)
	}
}

// ownerOf returns the owner of a file as "uid:gid".
func ownerOf(t *testing.T, name string) string {
	t.Helper()
	info, err := os.Lstat(name)
	require.NoError(t, err)
	stat := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d:%d", stat.Uid, stat.Gid)
}

// TestWhatNoCommandTouchesKeepsItsOwner has files of several users in a workspace, one of
// them with the setuid bit.
func TestWhatNoCommandTouchesKeepsItsOwner(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of other users")
	}
	for name, opts := range map[string][]pygent.RuntimeOption{
		"guest":                     nil,
		"guest of an ordinary user": {pygent.WithContainerUser("4321")},
		"plain exec":                {pygent.WithTestPlainExec()},
		"plain exec, busybox":       {pygent.WithTestPlainExec(), pygent.WithImage(testBusyboxImage())},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := realTempDir(t)
			require.NoError(t, os.Chmod(dir, 0o777))
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "site", "uploads"), 0o755))
			tool, odd := filepath.Join(dir, "site", "tool"), filepath.Join(dir, "site", "-odd\n name")
			for _, file := range []string{tool, odd, filepath.Join(dir, "changed")} {
				require.NoError(t, os.WriteFile(file, nil, 0o666))
			}
			require.NoError(t, os.Chmod(filepath.Join(dir, "changed"), 0o666))
			require.NoError(t, os.Chown(dir, 1234, 1235))
			for file, id := range map[string]int{"site": 33, "site/uploads": 33, "site/tool": 34, "site/-odd\n name": 35, "changed": 36} {
				require.NoError(t, os.Lchown(filepath.Join(dir, file), id, id))
			}
			require.NoError(t, os.Chmod(tool, 0o755|os.ModeSetuid))
			waitUntilStampsAreOld(t, tool)
			r := newTestRuntime(t, pygent.NewDockerRuntime, append([]pygent.RuntimeOption{pygent.WithImage(testImage()), pygent.WithWorkspace(dir)}, opts...)...)
			require.Zero(t, bash(t, r, "mkdir made && echo x >made/f && echo x >>changed").ExitCode)
			require.NoError(t, r.Cleanup())
			for file, owner := range map[string]string{
				"site": "33:33", "site/uploads": "33:33", "site/tool": "34:34", "site/-odd\n name": "35:35",
				".": "1234:1235", "made": "1234:1235", "made/f": "1234:1235", "changed": "1234:1235",
			} {
				require.Equal(t, owner, ownerOf(t, filepath.Join(dir, file)), file)
			}
			info, err := os.Stat(tool)
			require.NoError(t, err)
			require.NotZero(t, info.Mode()&os.ModeSetuid)
		})
	}
}

// waitUntilStampsAreOld waits until nothing that was made before can pass for something
// that is made now: stamps are a little behind the clock, and plain exec counts in seconds.
func waitUntilStampsAreOld(t *testing.T, file string) {
	t.Helper()
	info, err := os.Lstat(file)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return time.Since(info.ModTime()) > 1100*time.Millisecond }, 30*time.Second, 10*time.Millisecond)
}

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

// TestAUserExportsWhatOnlyRootMayRead runs this test binary as a user whose workspace
// has files of the container's root.
func TestAUserExportsWhatOnlyRootMayRead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only as root")
	}
	requireDocker(t)
	asUser(t, 4321, "TestAsUserRootsFilesAreExported", engineGroup())
}

func TestAsUserRootsFilesAreExported(t *testing.T) {
	if os.Getenv(nobodyVariable) == "" {
		return // only TestAUserExportsWhatOnlyRootMayRead runs this
	}
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()))
	require.Zero(t, bash(t, r, "umask 077; mkdir -p d/private; echo a >d/a; echo b >d/private/b; mkdir -m 755 closed").ExitCode)
	to := t.TempDir()
	require.NoError(t, r.ExportFile(t.Context(), "d", to))
	require.Equal(t, map[string]string{"a": "600 a\n", "private/": "700", "private/b": "600 b\n"}, read(t, to))
	require.NoError(t, r.UploadFile(t.Context(), to, "closed/up"), "into a directory of root")
	require.NoError(t, r.UploadFile(t.Context(), to, "own"))
	require.Equal(t, "4321 4321\n4321 4321\n", bash(t, r, "stat -c '%u %g' closed/up/a own/a").Output)
}

// An error names the file that it is about, once, and as the caller does.
func TestCopiesOfWhatIsNoFileSaySo(t *testing.T) {
	r := localRuntime(t)
	bash(t, r, "mkfifo pipe")
	to := t.TempDir()
	require.EqualError(t, r.ExportFile(t.Context(), "pipe", to), "export pipe: not a regular file")
	pipe := filepath.Join(to, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.EqualError(t, r.UploadFile(t.Context(), pipe, "up"), "upload "+pipe+": not a regular file")
}
