package setid

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// children are the functions that the test's program runs as a child process:
// each changes modes and reports the results.
var children = map[string]func(){
	"closed": func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		tell("f")
	},
	"chroot": func() {
		if err := errors.Join(syscall.Chroot("."), syscall.Chdir("/")); err != nil {
			panic(err)
		}
		tell("/f", "f", "sub/../f", "to/f", "absolute", "../f", "sub/up")
	},
	"users": func() { tell("f") },
	"nested": func() {
		g, err := Start()
		if err != nil {
			panic(err)
		}
		_, _ = os.Stdout.WriteString(string(g.Level()) + "\n")
		g.Do(func() { tell("f") })
		if err := g.Close(); err != nil {
			panic(err)
		}
	},
}

// tell changes the modes of files and writes the error numbers.
func tell(names ...string) {
	results := map[string]syscall.Errno{}
	for _, name := range names {
		var errno syscall.Errno
		_ = errors.As(syscall.Chmod(name, 0o4711), &errno)
		results[name] = errno
	}
	_ = json.NewEncoder(os.Stdout).Encode(results)
}

// newGuard returns a guard, or nil where this user cannot have one.
func newGuard(t *testing.T) *Guard {
	t.Helper()
	g, err := Start()
	if os.Getuid() != 0 && err != nil {
		require.ErrorIs(t, err, ErrUnsupported)
		return nil
	}
	require.NoError(t, err)
	require.Equal(t, Stripped, g.Level())
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return g
}

// child returns a command that runs one of children in dir.
func child(what, dir string) (*exec.Cmd, *bytes.Buffer) {
	out := &bytes.Buffer{}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), childVariable+"="+what)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, os.Stderr
	return cmd, out
}

func start(t *testing.T, g *Guard, cmd *exec.Cmd) {
	t.Helper()
	var err error
	g.Do(func() { err = cmd.Start() })
	require.NoError(t, err)
}

func requireResults(t *testing.T, want map[string]syscall.Errno, out *bytes.Buffer) {
	t.Helper()
	var results map[string]syscall.Errno
	require.NoError(t, json.Unmarshal(out.Bytes(), &results), out.String())
	require.Equal(t, want, results)
}

func requireMode(t *testing.T, want fs.FileMode, file string) {
	t.Helper()
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, want, info.Mode(), file)
}

// The process that answers the calls may end before the commands do. Their
// calls then fail and do not block.
func TestCallsFailOnceTheGuardHasEnded(t *testing.T) {
	g := newGuard(t)
	if g == nil {
		return
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o644))
	cmd, out := child("closed", dir)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	start(t, g, cmd)
	require.NoError(t, g.Close())
	_, err = in.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
	requireResults(t, map[string]syscall.Errno{"f": unix.ENOSYS}, out)
	requireMode(t, 0o644, filepath.Join(dir, "f"))
}

// A path is resolved as the caller would: if the caller has another root
// directory, a link to /f leads to a different file.
func TestPathsAreThoseOfTheCallersRoot(t *testing.T) {
	g := newGuard(t)
	if g == nil {
		return
	}
	outside := t.TempDir()
	root := filepath.Join(outside, "root")
	require.NoError(t, os.MkdirAll(filepath.Join(root, "sub"), 0o755))
	for _, file := range []string{filepath.Join(outside, "f"), filepath.Join(root, "f")} {
		require.NoError(t, os.WriteFile(file, nil, 0o644))
	}
	require.NoError(t, os.Symlink(outside, filepath.Join(root, "to")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "f"), filepath.Join(root, "absolute")))
	require.NoError(t, os.Symlink("../../f", filepath.Join(root, "sub/up")))
	cmd, out := child("chroot", root)
	start(t, g, cmd)
	require.NoError(t, cmd.Wait())
	requireResults(t, map[string]syscall.Errno{
		"/f": 0, "f": 0, "sub/../f": 0,
		"to/f": unix.EPERM, "absolute": unix.EPERM, "../f": unix.EPERM, "sub/up": unix.EPERM,
	}, out)
	requireMode(t, 0o711, filepath.Join(root, "f"))
	requireMode(t, 0o644, filepath.Join(outside, "f"))
}

// Root of another user namespace looks like root, but may do less.
func TestCapabilitiesOfAnotherNamespaceAreNone(t *testing.T) {
	g := newGuard(t)
	if g == nil {
		return
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o644))
	cmd, out := child("users", dir)
	own := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: own, GidMappings: own}
	start(t, g, cmd)
	require.NoError(t, cmd.Wait())
	requireResults(t, map[string]syscall.Errno{"f": unix.EPERM}, out)
	requireMode(t, 0o644, filepath.Join(dir, "f"))
}

// Only one listener can exist for a process. A guard below another one refuses
// calls.
func TestGuardBelowAnotherRefuses(t *testing.T) {
	g := newGuard(t)
	if g == nil {
		return
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o644))
	cmd, out := child("nested", dir)
	start(t, g, cmd)
	require.NoError(t, cmd.Wait())
	level, err := out.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, string(Refused)+"\n", level)
	requireResults(t, map[string]syscall.Errno{"f": unix.EPERM}, out)
	requireMode(t, 0o644, filepath.Join(dir, "f"))
}

// The guest itself makes files, and must not be restricted.
func TestOnlyTheThreadIsUnderTheFilter(t *testing.T) {
	g := newGuard(t)
	if g == nil {
		return
	}
	file := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	require.NoError(t, os.Chmod(file, 0o755|fs.ModeSetuid))
	requireMode(t, 0o755|fs.ModeSetuid, file)
	g.Do(func() { require.NoError(t, os.Chmod(file, 0o700|fs.ModeSetuid)) })
	requireMode(t, 0o700, file)
}
