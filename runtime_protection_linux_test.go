// These tests hold what commands without a container may read, write and reach on this
// machine.

package pygent_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/guest/confine"
	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/testkit/enginetest"
)

// stranger is the user as whom root runs tests.
const stranger = 65534

// asRootAndUser runs a test as this user. If that is root, it also runs the
// test as another user, in a separate process, unless only short tests are wanted.
func asRootAndUser(t *testing.T, test func(t *testing.T)) {
	if os.Geteuid() != 0 {
		test(t)
		return
	}
	t.Run("root", test)
	t.Run("user", func(t *testing.T) {
		if testing.Short() {
			t.Skip("does again as another user what root has done")
		}
		runAs(t, stranger)
	})
}

// runAs runs the calling test as a user, in a separate process.
func runAs(t *testing.T, uid int, env ...string) {
	t.Helper()
	home, err := os.MkdirTemp(homes(t), "pygent-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(home)) })
	require.NoError(t, os.Chmod(home, 0o755))
	program := filepath.Join(home, "test")
	require.NoError(t, copyProgram(program))
	require.NoError(t, os.Chown(home, uid, uid))
	name, _, _ := strings.Cut(t.Name(), "/")
	cmd := exec.CommandContext(t.Context(), program, "-test.run", "^"+name+"$", "-test.v")
	cmd.Dir = home
	cmd.Env = append(env, "HOME="+home, "TMPDIR=/tmp", "PATH=/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin", "SHELL=/bin/sh", "LANG=C.UTF-8")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid), NoSetGroups: os.Geteuid() != 0}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+name)
}

// homes returns a directory in which home directories can be made. The
// temporary directory does not work, because commands get another one in its
// place.
func homes(t *testing.T) string {
	t.Helper()
	if os.Geteuid() == 0 {
		return "/home"
	}
	dir, err := os.UserHomeDir()
	require.NoError(t, err)
	return dir
}

// atLevel limits a runtime's protection to a level.
func atLevel(level confine.Level) pygent.RuntimeOption {
	return pygent.WithTestSupport(func(s *confine.Support) {
		if level < s.Level {
			s.Level, s.Why = level, "the test says so"
		}
	})
}

// eachLevel runs a test at every level of protection that this machine
// supports.
func eachLevel(t *testing.T, test func(t *testing.T, level confine.Level)) {
	for level := guest.Confinement(t.Context(), sandbox.MakeTemp).Level; level > confine.None; level-- {
		t.Run(level.String(), func(t *testing.T) { test(t, level) })
	}
}

// canaryHome makes a home directory with secrets that commands must not reach.
func canaryHome(t *testing.T) string {
	t.Helper()
	home, err := os.MkdirTemp(homes(t), "pygent-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(home)) })
	t.Setenv("HOME", home)
	for _, dir := range []string{".ssh", ".aws", ".local/bin", "go/bin"} {
		require.NoError(t, os.MkdirAll(filepath.Join(home, dir), 0o755))
	}
	for name, content := range map[string]string{
		".ssh/id_ed25519": hostSecret, ".aws/credentials": hostSecret, ".npmrc": hostSecret, ".netrc": hostSecret,
		".bashrc": "# mine\n", ".local/bin/tool": "#!/bin/sh\n", "go/bin/tool": "#!/bin/sh\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(home, name), []byte(content), 0o600))
	}
	return home
}

// hostSecret is a secret of the host.
const hostSecret = "canary-of-the-host"

// tree describes all files below a directory.
func tree(t *testing.T, dir string) (lines []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || strings.HasPrefix(path, filepath.Join(dir, ".cache")) {
			return err
		}
		info, err := entry.Info()
		if err == nil && entry.Name() != ".cache" && path != dir {
			lines = append(lines, fmt.Sprint(path, info.Mode(), info.Size(), info.ModTime().UnixNano()))
		}
		return err
	}))
	return lines
}

// TestProtectionHolds tries attacks that every level must stop.
func TestProtectionHolds(t *testing.T) {
	if testing.Short() {
		t.Skip("attacks the protection")
	}
	asRootAndUser(t, func(t *testing.T) {
		eachLevel(t, func(t *testing.T, level confine.Level) {
			home := canaryHome(t)
			outside := t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(outside, "secret"), []byte(hostSecret), 0o666))
			abstract, err := net.Listen("unix", "@pygent-test-"+rand.Text())
			require.NoError(t, err)
			defer abstract.Close()
			foreign := exec.Command("sleep", "600")
			foreign.Env = []string{"SECRET=" + hostSecret}
			require.NoError(t, foreign.Start())
			defer func() { _ = foreign.Wait() }()
			defer func() { require.NoError(t, foreign.Process.Kill()) }()
			before := tree(t, home)
			r := newTestRuntime(t, pygent.NewLocalRuntime, atLevel(level))
			env := pygent.BashEnv("H="+home, "O="+outside, fmt.Sprint("P=", foreign.Process.Pid), fmt.Sprint("T=", os.Getpid()), "A="+abstract.Addr().String()[1:])
			for _, attack := range []string{
				`cat "$H/.ssh/id_ed25519"`, `cat "$H/.aws/credentials"`, `cat "$H/.npmrc"`, `cat $H/.netrc`, `cat $O/secret`, `ls $H/.ssh`,
				`ln -s "$H" up && cat up/.ssh/id_ed25519`, `ln "$H/.ssh/id_ed25519" hard && cat hard`, `ln "$O/secret" hard && cat hard`,
				`mv "$H/.npmrc" .`, `mv $O/secret .`, `cp -r "$H/.ssh" copy`, `tar c -C "$H" .ssh | grep canary`,
				`echo evil >>"$H/.bashrc"`, `: >"$H/.bashrc"`, `truncate -s 0 "$H/.bashrc"`, `rm "$H/.bashrc"`, `rm -r "$H/.ssh"`,
				`echo evil >"$H/.local/bin/git"`, `echo evil >"$H/go/bin/tool"`, `mkdir "$H/.config"`, `touch $O/new`, `cp /bin/true "$H/.local/bin/ls"`,
				`cat /proc/$P/environ | tr '\0' '\n' | grep .`, `cat /proc/$T/environ | tr '\0' '\n' | grep .`, `readlink /proc/$T/fd/0`, `ls /proc/$P/cwd/`, `cat /proc/$P/maps | grep .`,
				`cat /proc/$P/root$H/.ssh/id_ed25519`, `kill -0 $P`, `kill -9 $P`, `kill -STOP $T`,
				`python3 -c 'import socket,os; socket.socket(socket.AF_UNIX).connect("\0"+os.environ["A"])'`,
				`cat /etc/shadow`, `cat /dev/mem`, `cat /dev/vda`, `mknod disk b 254 0 && cat disk`, `mount -t tmpfs none /mnt`, `unshare -r true`,
				`sudo -n true`, `chroot / true`, `echo 1 >/proc/sys/kernel/sysrq`, `touch /usr/evil`, `touch /etc/evil`,
			} {
				res := bash(t, r, "exec 2>&1; "+attack, env)
				require.NotEqual(t, 0, res.ExitCode, "%s", res)
				require.NotContains(t, res.Output, hostSecret, "%s", attack)
			}
			require.Equal(t, before, tree(t, home))
			require.FileExists(t, filepath.Join(outside, "secret"))
			require.NoError(t, foreign.Process.Signal(syscall.Signal(0)))
			require.NoError(t, r.Cleanup())
		})
	})
}

// TestFullProtectionHidesTheMachine tries attacks that only namespaces stop.
func TestFullProtectionHidesTheMachine(t *testing.T) {
	asRootAndUser(t, func(t *testing.T) {
		eachLevel(t, func(t *testing.T, level confine.Level) {
			home := canaryHome(t)
			before := tree(t, home)
			// A socket such as Docker's, in a directory that everybody may
			// enter.
			dir := enginetest.SocketDir(t)
			socket, err := net.Listen("unix", filepath.Join(dir, "docker.sock"))
			require.NoError(t, err)
			defer socket.Close()
			r := newTestRuntime(t, pygent.NewLocalRuntime, atLevel(level))
			env := pygent.BashEnv("H="+home, "S="+socket.Addr().String(), fmt.Sprint("T=", os.Getpid()))
			for _, attack := range []string{
				`ls -a "$H" | grep -e ssh -e bashrc`, `stat "$H/.ssh"`, `chmod 777 "$H/.ssh"`, `touch -d 2001-01-01 "$H/.bashrc"`, `setfattr -n user.x -v y "$H/.bashrc"`,
				`python3 -c 'import socket,os; socket.socket(socket.AF_UNIX).connect(os.environ["S"])'`,
				`test -e /run/docker.sock || test -e /var/run/docker.sock`, `tr '\0' ' ' </proc/$T/cmdline | grep test`, `ls /dev/pts | grep -v ptmx`,
			} {
				res := bash(t, r, "exec 2>&1; "+attack, env)
				if level == confine.Full {
					require.NotEqual(t, 0, res.ExitCode, "%s", res)
				}
			}
			info := r.(pygent.Describer).Describe(t.Context())
			require.Equal(t, level.String(), info.Protection)
			require.Contains(t, info.ProtectionNote, "open: the network")
			if level == confine.Full {
				require.Equal(t, before, tree(t, home))
				require.Equal(t, "1\n", bash(t, r, `cat /proc/self/status | sed -n 's/^NoNewPrivs:\t//p'`).Output)
				require.NotContains(t, info.ProtectionNote, "unix sockets")
				return
			}
			require.Contains(t, info.ProtectionNote, "names, modes and times of other files")
			require.Contains(t, info.ProtectionNote, "the test says so")
		})
	})
}

func TestProtectedGuestThatIsStoppedIsGivenUp(t *testing.T) {
	if testing.Short() {
		t.Skip("kills or stops processes")
	}
	eachLevel(t, func(t *testing.T, level confine.Level) {
		dir := t.TempDir()
		r := newTestRuntime(t, pygent.NewLocalRuntime, atLevel(level), pygent.WithWorkspace(dir), calling())
		done := make(chan pygent.BashResult)
		go func() {
			res, _ := r.Bash(t.Context(), "while :; do echo >>ticks; sleep 0.02; done", pygent.BashTimeout(-1))
			done <- res
		}()
		require.Eventually(t, func() bool {
			_, err := os.Stat(filepath.Join(dir, "ticks"))
			return err == nil
		}, 30*time.Second, time.Millisecond)
		require.Equal(t, 1, signalGuests(t, syscall.SIGSTOP))
		require.Contains(t, (<-done).Note, "did not answer and was killed with all that it ran")
		requireStill(t, dir)
		require.Equal(t, "next\n", bash(t, r, "echo next").Output)
	})
}

func TestProtectedGuestThatIsKilledLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("kills or stops processes")
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	eachLevel(t, func(t *testing.T, level confine.Level) {
		r := newTestRuntime(t, pygent.NewLocalRuntime, atLevel(level))
		long := bash(t, r, "head -c 100000 /dev/zero; setsid sleep 600 >/dev/null 2>&1 &")
		require.NotEmpty(t, long.FullPath)
		require.Equal(t, "100000\n", bash(t, r, "wc -c <"+long.FullPath).Output)
		done := make(chan pygent.BashResult)
		go func() {
			res, _ := r.Bash(t.Context(), "echo >started; sleep 600", pygent.BashTimeout(-1))
			done <- res
		}()
		require.Eventually(t, func() bool {
			_, err := r.ReadFile(t.Context(), "started")
			return err == nil
		}, 30*time.Second, time.Millisecond)
		require.Equal(t, 1, signalGuests(t, syscall.SIGKILL))
		res := <-done
		require.Contains(t, res.Note, "died while the command ran")
		require.Equal(t, "next\n", bash(t, r, "echo next").Output)
		require.NoError(t, r.Cleanup())
		require.Empty(t, entries(t, temp))
	})
}

// signalGuests sends a signal to the guests of this process, and returns their
// number. A test that uses it cannot be parallel, because it would hit the guests of
// others.
func signalGuests(t *testing.T, signal syscall.Signal) (count int) {
	t.Helper()
	for queue := childrenOf(t, "self"); len(queue) > 0; queue = queue[1:] {
		line, err := os.ReadFile("/proc/" + queue[0] + "/cmdline")
		require.NoError(t, err)
		switch strings.TrimRight(string(line), "\x00") {
		case confine.Keeper:
			queue = append(queue, childrenOf(t, queue[0])...)
		case confine.Confined:
			pid, err := strconv.Atoi(queue[0])
			require.NoError(t, err)
			require.NoError(t, syscall.Kill(pid, signal))
			count++
		}
	}
	return count
}

// childrenOf returns the ids of a process's children.
func childrenOf(t *testing.T, pid string) (children []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/" + pid + "/task/*/children")
	require.NoError(t, err)
	for _, file := range files {
		list, err := os.ReadFile(file)
		require.NoError(t, err)
		children = append(children, strings.Fields(string(list))...)
	}
	return children
}

// TestNothingOutlivesAProtectedRuntime runs a command that kills the guest, and
// then the supervisor before it can react.
func TestNothingOutlivesAProtectedRuntime(t *testing.T) {
	if testing.Short() {
		t.Skip("kills or stops processes")
	}
	t.Parallel()
	asRootAndUser(t, func(t *testing.T) {
		eachLevel(t, func(t *testing.T, level confine.Level) {
			dir := t.TempDir()
			r := newTestRuntime(t, pygent.NewLocalRuntime, atLevel(level), pygent.WithWorkspace(dir))
			res, err := r.Bash(t.Context(), `
				setsid sh -c 'while :; do echo >>ticks; sleep 0.02; done' >/dev/null 2>&1 &
				until test -e ticks; do sleep 0.01; done
				guest=$(ps -o ppid= $PPID) && kill -STOP $PPID && kill -9 $guest && kill -9 $PPID
				sleep 600`, pygent.BashTimeout(2*time.Second))
			require.NoError(t, err)
			require.NotContains(t, res.Note, "unless that has killed its supervisor")
			require.NoError(t, r.Cleanup())
			requireStill(t, dir)
		})
	})
}

func TestProtectionIsDecidedByUserAndKernel(t *testing.T) {
	t.Parallel()
	none := pygent.WithTestSupport(func(s *confine.Support) { *s = confine.Support{Why: "no Landlock"} })
	tests := []struct {
		name  string
		opts  []pygent.RuntimeOption
		level string
		note  string
	}{
		{"off", []pygent.RuntimeOption{pygent.WithLocalProtection(pygent.ProtectionOff)}, "none", "turned off"},
		{"nothing there", []pygent.RuntimeOption{none}, "none", "no Landlock"},
		{"everything is the workspace", []pygent.RuntimeOption{pygent.WithWorkspace("/")}, "none", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newTestRuntime(t, pygent.NewLocalRuntime, tt.opts...)
			info := r.(pygent.Describer).Describe(t.Context())
			require.Equal(t, tt.level, info.Protection)
			require.Contains(t, info.ProtectionNote, tt.note)
			require.Equal(t, "fine\n", bash(t, r, "echo fine").Output)
		})
	}
	_, err := pygent.NewLocalRuntime(t.Context(), none, pygent.WithLocalProtection(pygent.ProtectionRequired))
	require.ErrorIs(t, err, pygent.ErrUnprotected)
	require.ErrorIs(t, err, pygent.ErrRuntimeStart)
	require.ErrorContains(t, err, "no Landlock")
	_, err = pygent.NewLocalRuntime(t.Context(), pygent.WithLocalProtection(7))
	require.ErrorContains(t, err, "unknown Protection(7)")
}

func TestProtectionTellsOfAHomeInTheWorkspace(t *testing.T) {
	home := canaryHome(t)
	r := newTestRuntime(t, pygent.NewLocalRuntime, pygent.WithWorkspace(home))
	if info := r.(pygent.Describer).Describe(t.Context()); info.Protection != "none" {
		require.Contains(t, info.ProtectionNote, "holds your home directory")
	}
	require.Equal(t, hostSecret, bash(t, r, "cat .npmrc").Output)
}

func TestPathsThatAreNotThereAreTold(t *testing.T) {
	t.Parallel()
	missing, there := filepath.Join(t.TempDir(), "missing"), t.TempDir()
	var texts []string
	r := newTestRuntime(t, pygent.NewLocalRuntime, pygent.WithLocalWritable(there, missing), pygent.OnRuntimeEvent(func(e pygent.RuntimeEvent) {
		if e.Kind == pygent.RuntimeLimited {
			texts = append(texts, e.Text)
		}
	}))
	if r.(pygent.Describer).Describe(t.Context()).Protection == "none" {
		t.Skip("commands are not confined here")
	}
	require.Len(t, texts, 1)
	require.Contains(t, texts[0], missing)
}

func TestMorePathsCanBeOpened(t *testing.T) {
	t.Parallel()
	eachLevel(t, func(t *testing.T, level confine.Level) {
		readable, writable, links := t.TempDir(), t.TempDir(), t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(readable, "f"), []byte("text\n"), 0o644))
		require.NoError(t, os.Symlink(readable, filepath.Join(links, "link")))
		r := newTestRuntime(t, pygent.NewLocalRuntime, atLevel(level), pygent.WithLocalReadable(filepath.Join(links, "link")), pygent.WithLocalWritable(writable))
		env := pygent.BashEnv("R="+readable, "W="+writable, "L="+links)
		require.Equal(t, "text\n", bash(t, r, "cat $R/f", env).Output)
		require.Equal(t, "text\n", bash(t, r, "cat $L/link/f", env).Output)
		require.NotEqual(t, 0, bash(t, r, "echo >>$R/f", env).ExitCode)
		require.Equal(t, 0, bash(t, r, "echo made >$W/made && ln $W/made $W/made2 && mkdir $W/d && mv $W/made $W/d", env).ExitCode)
		require.FileExists(t, filepath.Join(writable, "d", "made"))
	})
	_, err := pygent.NewLocalRuntime(t.Context(), pygent.WithLocalReadable(""))
	require.ErrorContains(t, err, "a path is empty")
	_, err = pygent.NewLocalRuntime(t.Context(), pygent.WithLocalReadable("/"))
	require.ErrorContains(t, err, "whole file system")
}

func TestDevicesCanBeOpened(t *testing.T) {
	if testing.Short() {
		t.Skip("tries all levels of protection")
	}
	t.Parallel()
	device := ""
	for _, path := range []string{"/dev/fuse", "/dev/loop-control", "/dev/net/tun", "/dev/kvm"} {
		if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
			require.NoError(t, f.Close())
			device = path
		}
	}
	if device == "" {
		t.Skip("there is no device here that is not opened anyway")
	}
	eachLevel(t, func(t *testing.T, level confine.Level) {
		env := pygent.BashEnv("D=" + device)
		closed := newTestRuntime(t, pygent.NewLocalRuntime, atLevel(level))
		require.NotEqual(t, 0, bash(t, closed, "exec 3<>$D", env).ExitCode)
		open := newTestRuntime(t, pygent.NewLocalRuntime, atLevel(level), pygent.WithLocalWritable(device))
		require.Equal(t, 0, bash(t, open, "exec 3<>$D", env).ExitCode)
		all := newTestRuntime(t, pygent.NewLocalRuntime, atLevel(level), pygent.WithLocalReadable("/dev"))
		res := bash(t, all, "exec 2>&1; echo >/dev/null && exec 3<$D", env)
		require.Equal(t, 0, res.ExitCode, "%s", res)
	})
}

// TestCommandsCannotChooseWhatTheNextGuestReads uses paths that the user trusts
// and that lead through the workspace. A command makes them lead to a secret.
func TestCommandsCannotChooseWhatTheNextGuestReads(t *testing.T) {
	if testing.Short() {
		t.Skip("attacks the protection")
	}
	eachLevel(t, func(t *testing.T, level confine.Level) {
		home, dir := canaryHome(t), t.TempDir()
		t.Setenv("VIRTUAL_ENV", filepath.Join(dir, "venv"))
		t.Setenv("PATH", os.Getenv("PATH")+":"+filepath.Join(home, "direct", "bin"))
		require.NoError(t, os.Symlink(filepath.Join(dir, "a", "b"), filepath.Join(home, "direct")))
		require.NoError(t, os.WriteFile(filepath.Join(home, ".gitconfig"), []byte("[include]\n\tpath = "+filepath.Join(dir, "git")+"\n"), 0o600))
		first := newTestRuntime(t, pygent.NewLocalRuntime, atLevel(level), pygent.WithWorkspace(dir))
		res := bash(t, first, `ln -s "$H/.ssh" venv && mkdir -p a/b && ln -s "$H/.aws" a/b/bin && printf '[core]\n\texcludesFile = ~/.npmrc\n[include]\n\tpath = ~/.netrc\n' >git`, pygent.BashEnv("H="+home))
		require.Equal(t, 0, res.ExitCode, "%s", res)
		next := newTestRuntime(t, pygent.NewLocalRuntime, atLevel(level), pygent.WithWorkspace(dir))
		for _, file := range []string{".ssh/id_ed25519", ".aws/credentials", ".npmrc", ".netrc"} {
			res := bash(t, next, `exec 2>&1; cat "$H/`+file+`"`, pygent.BashEnv("H="+home))
			require.NotEqual(t, 0, res.ExitCode, "%s", res)
			require.NotContains(t, res.Output, hostSecret)
		}
	})
}

func TestCommandsInheritOnlyWhatToolsNeed(t *testing.T) {
	secrets := []string{"TOKEN", "APIKEY", "GITHUB_PAT", "PGPASSWORD", "DATABASE_URL", "AWS_PROFILE", "SSH_AUTH_SOCK", "OPENAI_API_KEY", "KUBECONFIG", "DOCKER_HOST"}
	for _, name := range secrets {
		t.Setenv(name, hostSecret)
	}
	t.Setenv("HTTPS_PROXY", "http://user:"+hostSecret+"@proxy:1")
	t.Setenv("HTTP_PROXY", "http://proxy:1")
	t.Setenv("GITLAB", "mine")
	t.Setenv("LC_TIME", "C")
	r := newTestRuntime(t, pygent.NewLocalRuntime, pygent.WithEnv("TOKEN"), pygent.WithLocalEnv("GITLAB"))
	got := strings.Split(bash(t, r, "env").Output, "\n")
	require.Contains(t, got, "TOKEN="+hostSecret)
	require.Contains(t, got, "GITLAB=mine")
	require.Contains(t, got, "LC_TIME=C")
	require.Contains(t, got, "HTTP_PROXY=http://proxy:1")
	require.Equal(t, 1, strings.Count(strings.Join(got, "\n"), hostSecret))
}

func TestHardenedProcessStartsGuests(t *testing.T) {
	if testing.Short() {
		t.Skip("attacks the protection")
	}
	const child = "PYGENT_TEST_HARDENED"
	if os.Getenv(child) == "" {
		runAs(t, os.Geteuid(), child+"=1")
		if os.Geteuid() == 0 {
			runAs(t, stranger, child+"=1", "SECRET="+hostSecret)
		}
		return
	}
	require.NoError(t, os.Unsetenv(child))
	reader := newTestRuntime(t, pygent.NewLocalRuntime, pygent.WithLocalProtection(pygent.ProtectionOff))
	look := fmt.Sprintf("tr '\\0' '\\n' </proc/%d/environ | grep ^SECRET=", os.Getpid())
	if os.Geteuid() != 0 { // nothing is closed to root
		require.Contains(t, bash(t, reader, look).Output, hostSecret)
	}
	pygent.HardenProcess()
	if os.Geteuid() != 0 {
		require.NotContains(t, bash(t, reader, look).Output, hostSecret)
	}
	eachLevel(t, func(t *testing.T, level confine.Level) {
		r := newTestRuntime(t, pygent.NewLocalRuntime, atLevel(level))
		require.Equal(t, "fine\n", bash(t, r, "echo fine").Output)
	})
	off := newTestRuntime(t, pygent.NewLocalRuntime, pygent.WithLocalProtection(pygent.ProtectionOff))
	require.Equal(t, "fine\n", bash(t, off, "echo fine").Output)
}

// TestGuestStartsWhereMemoryIsNotExecuted runs itself where files in memory are
// not executable by default, and where they never are.
func TestGuestStartsWhereMemoryIsNotExecuted(t *testing.T) {
	if testing.Short() {
		t.Skip("attacks the protection")
	}
	t.Parallel()
	level := guest.Confinement(t.Context(), sandbox.MakeTemp).Level.String()
	if want := os.Getenv("PYGENT_TEST_NOEXEC"); want != "" {
		require.Equal(t, want, level)
		eachLevel(t, func(t *testing.T, level confine.Level) {
			r := newTestRuntime(t, pygent.NewLocalRuntime, atLevel(level))
			require.Equal(t, "runs\n", bash(t, r, "echo runs").Output)
		})
		return
	}
	for _, value := range []string{"1", "2"} {
		prepare := exec.CommandContext(t.Context(), "unshare", "--pid", "--fork", "--mount-proc", "sysctl", "-qw", "vm.memfd_noexec="+value)
		if out, err := prepare.CombinedOutput(); err != nil {
			t.Skipf("needs root, and Linux 6.3: %s", out)
		}
		cmd := exec.CommandContext(t.Context(), "unshare", "--pid", "--fork", "--mount-proc", "sh", "-c",
			`sysctl -qw vm.memfd_noexec=$0 && exec "$@"`, value, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), "PYGENT_TEST_NOEXEC="+level)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
}

// TestUmaskOfRootClosesNothingToOthers sets a umask with which only root can
// use what root makes. It then runs a command as another user.
func TestUmaskOfRootClosesNothingToOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	defer syscall.Umask(syscall.Umask(0o077))
	r := newTestRuntime(t, pygent.NewLocalRuntime)
	res := bash(t, r, `umask; setpriv --reuid 65534 --clear-groups sh -c "echo x >/dev/null && echo fine"`)
	require.Equal(t, "0077\nfine\n", res.Output)
}

// TestNextGuestKeepsToTheWorkspaceThatItWas replaces the workspace by a link,
// as another agent could if its workspace contains this one.
func TestNextGuestKeepsToTheWorkspaceThatItWas(t *testing.T) {
	if testing.Short() {
		t.Skip("tries all levels of protection")
	}
	eachLevel(t, func(t *testing.T, level confine.Level) {
		above, private := t.TempDir(), t.TempDir()
		dir := filepath.Join(above, "work")
		require.NoError(t, os.Mkdir(dir, 0o700))
		r := newTestRuntime(t, pygent.NewLocalRuntime, atLevel(level), pygent.WithWorkspace(dir))
		require.Equal(t, "first\n", bash(t, r, "echo first").Output)
		require.Equal(t, 1, signalGuests(t, syscall.SIGKILL))
		require.NoError(t, os.Rename(dir, dir+".old"))
		require.NoError(t, os.Symlink(private, dir))
		require.Eventually(t, func() bool {
			_, err := r.Bash(t.Context(), "echo evil >"+filepath.Join(private, "new"))
			return err != nil && strings.Contains(err.Error(), "not the directory any more")
		}, 10*time.Second, 10*time.Millisecond)
		require.NoFileExists(t, filepath.Join(private, "new"))
	})
}

// TestCacheOfAnotherIsNotUsed lets root run pygent with a user's home first,
// which leaves a cache in which the user could write nothing.
func TestCacheOfAnotherIsNotUsed(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		home, err := os.MkdirTemp("/home", "pygent-test-")
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(home)) })
		require.NoError(t, os.Chmod(home, 0o755))
		require.NoError(t, os.MkdirAll(filepath.Join(home, "pygent", "local"), 0o755))
		runAs(t, stranger, "XDG_CACHE_HOME="+home)
		return
	}
	r := newTestRuntime(t, pygent.NewLocalRuntime)
	res := bash(t, r, `mkdir "$XDG_CACHE_HOME/x" && echo fine`)
	require.Equal(t, "fine\n", res.Output)
}

// withoutLandlock is a Python script that runs its arguments as on a kernel
// without Landlock.
const withoutLandlock = `
import ctypes, os, struct, sys
code = [(0x20, 0, 0, 0), (0x35, 0, 2, 444), (0x25, 1, 0, 446), (6, 0, 0, 0x50026), (6, 0, 0, 0x7fff0000)]
filter = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))
program = struct.pack("HxxxxxxQ", len(code), ctypes.addressof(filter))
assert ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0 and ctypes.CDLL(None).prctl(22, 2, program, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
`

// TestRootSetsNothingOfTheKernelWithoutLandlock tries the files below /proc
// that root may write without any capability, such as the one that names the
// program to run when another program crashes.
func TestRootSetsNothingOfTheKernelWithoutLandlock(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	const inside = "PYGENT_TEST_NO_LANDLOCK"
	if os.Getenv(inside) == "" {
		cmd := exec.CommandContext(t.Context(), "python3", "-c", withoutLandlock, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	support := guest.Confinement(t.Context(), sandbox.MakeTemp)
	require.Zero(t, support.Landlock)
	if support.Level != confine.Full {
		t.Skip("needs namespaces")
	}
	r := newTestRuntime(t, pygent.NewLocalRuntime)
	for _, attack := range []string{
		`: >>/proc/sys/kernel/core_pattern`, `cp /proc/sys/vm/swappiness s && cat s >/proc/sys/vm/swappiness`, `mount -o remount,rw /proc`,
		`unshare -U -m -p --fork sh -c 'mount -i -t proc p /mnt && : >>/mnt/sys/kernel/core_pattern'`,
	} {
		require.NotZero(t, bash(t, r, attack).ExitCode, attack)
	}
}

// TestKeyringsOfTheUserAreOutOfReach puts a key into the session keyring, where
// for instance Kerberos keeps its keys.
func TestKeyringsOfTheUserAreOutOfReach(t *testing.T) {
	if testing.Short() {
		t.Skip("attacks the protection")
	}
	t.Parallel()
	asRootAndUser(t, func(t *testing.T) {
		eachLevel(t, func(t *testing.T, level confine.Level) {
			runtime.LockOSThread() // never unlocked, because the keyring belongs to this thread
			if _, err := unix.KeyctlJoinSessionKeyring("pygent-test"); err != nil {
				t.Skipf("the kernel keeps no keys: %v", err)
			}
			key, err := unix.AddKey("user", "pygent-test", []byte(hostSecret), unix.KEY_SPEC_SESSION_KEYRING)
			require.NoError(t, err)
			r := newTestRuntime(t, pygent.NewLocalRuntime, atLevel(level))
			res := bash(t, r, `python3 -c '
import ctypes, os
c, buf = ctypes.CDLL(None), ctypes.create_string_buffer(100)
keyctl = int(os.environ["KEYCTL"])
print(c.syscall(keyctl, 8, -4, -3)) # the keyring of the user into that of the session
print(c.syscall(keyctl, 11, int(os.environ["KEY"]), buf, 100), buf.value)
'`, pygent.BashEnv("KEY="+strconv.Itoa(key), "KEYCTL="+strconv.Itoa(unix.SYS_KEYCTL)))
			require.Equal(t, "-1\n-1 b''\n", res.Output)
		})
	})
}

// toolchains are scripts that work without confinement. Each begins in an empty
// directory and ends by printing "ok".
var toolchains = []struct{ name, program, script string }{
	{"git", "git", `git init -q . && echo a >a && git add a && git commit -qm first && git log --format=%an | grep -qx Included &&
		git clone -q . ../clone && git -C ../clone log --oneline | grep -q first && git -C ../clone status --short --ignored`},
	{"go", "go", `cat >go.mod <<'.' && cat >main.go <<'.' && cat >main_test.go <<'.' && go build -o prog . && ./prog | grep -qx fine && go test . && go install . && "$GOBIN/tool" | grep -qx fine && tool | grep -qx fine
module example.test/tool
go 1.26
.
package main
import "fmt"
func main() { fmt.Println(text()) }
func text() string { return "fine" }
.
package main
import ("os"; "testing")
func TestText(t *testing.T) {
	if text() != "fine" { t.Fatal(text()) }
	if err := os.WriteFile(t.TempDir()+"/f", nil, 0o600); err != nil { t.Fatal(err) }
}
.`},
	{"go get", "go", `cat >go.mod <<'.' && go get golang.org/x/sys@` + sysVersion + ` && go mod download && test -d "$GOMODCACHE/golang.org/x/sys@` + sysVersion + `"
module example.test/get
go 1.26
.`},
	// pip is the machine's own, because installing it into the environment takes most of
	// the time of a venv and makes the same accesses as installing the package does: both
	// run pip, which reads archives, unpacks them below the temporary directory and writes
	// to site-packages and bin. What it wrote there is run as a module and as a program.
	{"venv and pip", "pip3", `mkdir -p src/thing && echo 'def main(): print("fine")' >src/thing/__init__.py && echo 'from thing import main; main()' >src/thing/__main__.py &&
		python3 - <<'.' && python3 -m venv --system-site-packages --without-pip env && env/bin/python -m pip install -q --no-index ./thing-1-py3-none-any.whl && env/bin/python -m thing | grep -qx fine && env/bin/thing | grep -qx fine
import zipfile
w = zipfile.ZipFile("thing-1-py3-none-any.whl", "w")
w.write("src/thing/__main__.py", "thing/__main__.py"); w.write("src/thing/__init__.py", "thing/__init__.py")
w.writestr("thing-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1\n")
w.writestr("thing-1.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
w.writestr("thing-1.dist-info/entry_points.txt", "[console_scripts]\nthing = thing:main\n")
w.writestr("thing-1.dist-info/RECORD", "")
w.close()
.`},
	{"multiprocessing", "python3", `cat >m.py <<'.' && python3 m.py
import multiprocessing as m, tempfile
from multiprocessing import shared_memory
def square(n): return n * n
if __name__ == "__main__":
    with m.Pool(2) as pool: assert pool.map(square, [1, 2, 3]) == [1, 4, 9]
    s = shared_memory.SharedMemory(create=True, size=10); s.buf[0] = 1; s.close(); s.unlink()
    with m.Manager() as manager: manager.list([1])
    tempfile.NamedTemporaryFile().write(b"x")
.`},
	// Each start of npm takes long, so tar packs the package, and the installation shows
	// whether npm knows its settings.
	{"npm", "npm", `mkdir -p package && echo '{"name":"dep","version":"1.0.0","main":"i.js"}' >package/package.json && echo 'module.exports = "fine"' >package/i.js &&
		tar -czf dep.tgz package && echo '{"name":"app","version":"1.0.0","scripts":{"go":"node app.js"}}' >package.json && echo 'console.log(require("dep"))' >app.js &&
		{ npm install --no-audit --no-fund ./dep.tgz >log 2>&1 || { cat log; false; }; } && ! grep "Unknown env config" log && npm run --silent go | grep -qx fine`},
	{"cargo", "cargo", `mkdir -p dep/src src && printf '[package]\nname = "dep"\nversion = "1.0.0"\nedition = "2021"\n' >dep/Cargo.toml && echo 'pub fn text() -> &'"'static"' str { "fine" }' >dep/src/lib.rs &&
		printf '[package]\nname = "app"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\ndep = { path = "dep" }\n' >Cargo.toml && echo 'fn main() { println!("{}", dep::text()); }' >src/main.rs &&
		cargo build --offline -q && ./target/debug/app | grep -qx fine && cargo install --offline -q --path . && app | grep -qx fine`},
	{"gcc", "gcc", `printf '#include <stdio.h>\nint main(void) { puts("fine"); return tmpfile() == NULL; }\n' >a.c && gcc -O1 -o a a.c && ./a | grep -qx fine`},
	{"sqlite", "python3", `python3 -c 'import sqlite3; c = sqlite3.connect("db"); c.execute("pragma journal_mode=wal"); c.execute("create table t(x)"); c.execute("insert into t values(1)"); c.commit(); c.execute("vacuum"); assert c.execute("select x from t").fetchone() == (1,)'`},
	{"a terminal", "script", `script -qec 'test -t 0 && echo is a tty' /dev/null </dev/null | grep -q 'is a tty'`},
	{"java and its temporary files", "javac", quickJava + `cat >A.java <<'.' && javac A.java && java A | grep -qx 'fine true'
class A {
	public static void main(String[] a) throws Exception {
		System.out.println("fine " + java.io.File.createTempFile("abc", "d").exists());
	}
}
.`},
	{"maven", "mvn", quickJava + `echo '<project><modelVersion>4.0.0</modelVersion><groupId>a</groupId><artifactId>a</artifactId><version>1</version></project>' >pom.xml && mvn -o -q validate`},
	{"tmux", "tmux", `tmux new-session -d 'sleep 100' && tmux list-sessions && tmux kill-server`},
	{"temporary files", "sh", `f=$(mktemp) && echo x >"$f" && mkdir d && mv "$f" d/f && ln d/f hard && mv d e && test -s e/f && exec 3<<'.' && cat <&3 >/dev/null && : >/dev/null && : 2>/dev/stderr
.`},
	{"processes", "sh", `sleep 100 & kill $! && ! wait $! && (sleep 0.01; true) && test -r /proc/self/status && ps >/dev/null`},
}

// quickJava makes Java compile little: programs this short end sooner without the best
// code. It keeps the options with which commands get their temporary directory.
const quickJava = `export JAVA_TOOL_OPTIONS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC $JAVA_TOOL_OPTIONS"; `

// sysVersion is the version of a module that the tests depend on, so that it is
// there.
const sysVersion = "v0.49.0"

// requireTools names an environment variable. Unless it is set, tests of tools
// that this machine lacks are skipped. scripts/tools.sh installs all tools.
const requireTools = "PYGENT_TEST_REQUIRE_TOOLS"

// TestToolchainsWorkWhereTheyAreConfined makes and builds a project with the
// machine's tools, at every level of protection, as root and as an ordinary
// user.
func TestToolchainsWorkWhereTheyAreConfined(t *testing.T) {
	if testing.Short() {
		t.Skip("builds projects in seven languages, four times")
	}
	if os.Geteuid() != 0 {
		testToolchains(t)
		return
	}
	t.Run("root", testToolchains)
	t.Run("user", func(t *testing.T) {
		runAs(t, stranger, "GOMODCACHE="+publicModules(t), "XDG_CACHE_HOME="+cacheFor(t, stranger), "GOSUMDB=off", requireTools+"="+os.Getenv(requireTools))
	})
}

func testToolchains(t *testing.T) {
	if cache, err := os.UserCacheDir(); err == nil {
		t.Setenv("XDG_CACHE_HOME", cache) // where Go's standard library is built only once
	}
	if home, err := os.UserHomeDir(); err == nil {
		// The tools belong to the user, and so do the variables that lead to
		// them. The user's configuration of git is not used.
		t.Setenv("RUSTUP_HOME", or(os.Getenv("RUSTUP_HOME"), filepath.Join(home, ".rustup")))
		t.Setenv("GOMODCACHE", or(os.Getenv("GOMODCACHE"), filepath.Join(home, "go", "pkg", "mod")))
	}
	home := canaryHome(t)
	require.NoError(t, os.WriteFile(filepath.Join(home, ".gitconfig"), []byte("[include]\n\tpath = ~/dotfiles/git\n"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(home, "dotfiles"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(home, "dotfiles", "git"), []byte("[user]\n\tname = Included\n\temail = i@example.test\n"), 0o600))
	t.Setenv("GOFLAGS", "-buildvcs=false")
	t.Setenv("GOTOOLCHAIN", "local")
	before := tree(t, home)
	eachLevel(t, func(t *testing.T, level confine.Level) {
		r := newTestRuntime(t, pygent.NewLocalRuntime, atLevel(level), pygent.WithLocalProtection(pygent.ProtectionRequired))
		for i, tool := range toolchains {
			t.Run(tool.name, func(t *testing.T) {
				t.Parallel()
				if _, err := exec.LookPath(tool.program); err != nil {
					require.NotEqual(t, "1", os.Getenv(requireTools), "scripts/tools.sh installs it for every user: %v", err)
					t.Skip(err)
				}
				dir := filepath.Join("work", string(rune('a'+i)), "dir")
				require.NoError(t, r.WriteFile(t.Context(), filepath.Join(dir, "script"), []byte(tool.script)))
				res := bash(t, r, "script=$(cat script); rm script; eval \"$script\" && echo ok", pygent.BashDir(dir), pygent.BashTimeout(5*time.Minute))
				require.Equal(t, 0, res.ExitCode, "%s", res)
				require.Contains(t, res.Output, "ok\n")
			})
		}
	})
	require.Equal(t, before, tree(t, home))
}

// publicModules returns a cache of Go modules that every user can read, with
// the module that the toolchains use.
func publicModules(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "golang.org/x/sys@"+sysVersion).Output()
	require.NoError(t, err, "%s", out)
	var module struct{ Info string }
	require.NoError(t, json.Unmarshal(out, &module))
	dir, err := os.MkdirTemp("/home", "pygent-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	to := filepath.Join(dir, "cache", "download", "golang.org", "x", "sys", "@v")
	require.NoError(t, os.CopyFS(to, os.DirFS(filepath.Dir(module.Info))))
	return dir
}

// cacheFor gives a user what the go command has built of its standard library for
// this one, which takes most of the test's time.
func cacheFor(t *testing.T, uid int) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	dir, err := os.MkdirTemp("/home", "pygent-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	const built = "pygent/local/go-build"
	require.NoError(t, os.MkdirAll(filepath.Join(dir, built), 0o700))
	require.NoError(t, os.CopyFS(filepath.Join(dir, built), os.DirFS(filepath.Join(cache, built))))
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, uid, uid))
	}))
	return dir
}

func or(value, otherwise string) string {
	if value != "" {
		return value
	}
	return otherwise
}
