package pygent_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit/fakebash"
)

// windowsHost is an environment variable. If it is set, the test's program is a
// host that is going to be killed: it runs a command in the workspace that the
// variable names.
const windowsHost = "PYGENT_TEST_WINDOWS_HOST"

func init() {
	fakebash.Act()
	if dir := os.Getenv(windowsHost); dir != "" {
		r, err := pygent.NewLocalRuntime(context.Background(), pygent.WithWorkspace(dir))
		if err == nil {
			_, err = r.Bash(context.Background(), "hold one & hold two")
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// tempDir is like t.TempDir but does not use os.RemoveAll, because wine lacks a
// function that this needs.
func tempDir(t *testing.T) string {
	t.Helper()
	root, err := os.MkdirTemp("", "pygent-test-")
	require.NoError(t, err)
	t.Cleanup(func() { removeTree(t, root) })
	return root
}

func removeTree(t *testing.T, path string) {
	list, _ := os.ReadDir(path) // nil for a file
	for _, entry := range list {
		removeTree(t, filepath.Join(path, entry.Name()))
	}
	// The file of a killed program stays in use for a moment.
	require.Eventually(t, func() bool { return os.Remove(path) == nil }, time.Minute, 10*time.Millisecond, path)
}

// installGit puts a stand-in for Git for Windows where its installer would,
// below a path with a space, and hides any other installation.
func installGit(t *testing.T) {
	t.Helper()
	root := filepath.Join(tempDir(t), "Program Files", "Git")
	require.NoError(t, fakebash.Install(filepath.Join(root, "bin", "bash.exe")))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "cmd"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "cmd", "git.exe"), nil, 0o755))
	t.Setenv("Path", filepath.Join(root, "cmd"))
}

// windowsRuntime returns a local runtime whose workspace has a space in its
// name.
func windowsRuntime(t *testing.T) (pygent.Runtime, string) {
	t.Helper()
	installGit(t)
	dir := filepath.Join(tempDir(t), "my work")
	return newTestRuntime(t, pygent.NewLocalRuntime, pygent.WithWorkspace(dir)), dir
}

// holder returns the process that wrote its id to a file.
func holder(t *testing.T, path string) *os.Process {
	t.Helper()
	var text []byte
	require.Eventually(t, func() bool {
		var err error
		text, err = os.ReadFile(path)
		return err == nil
	}, time.Minute, 10*time.Millisecond, path)
	pid, err := strconv.Atoi(string(text))
	require.NoError(t, err)
	p, err := os.FindProcess(pid)
	require.NoError(t, err)
	t.Cleanup(func() { p.Release() })
	return p
}

func requireEnd(t *testing.T, processes ...*os.Process) {
	t.Helper()
	for _, p := range processes {
		_, err := p.Wait() // bounded by the time limit of the test
		require.NoError(t, err)
	}
}

func TestWindowsFindsTheShellBesideGit(t *testing.T) {
	r, _ := windowsRuntime(t)
	require.Equal(t, "bash", r.(pygent.Describer).Describe(t.Context()).Shell)
	require.Equal(t, "found\n", bash(t, r, "echo found").Output)
}

func TestWindowsDoesNotTakeTheShellOfAnotherSystem(t *testing.T) {
	root := tempDir(t)
	var path []string
	for _, dir := range []string{`Windows\System32`, `AppData\Microsoft\WindowsApps`} {
		dir = filepath.Join(root, dir)
		require.NoError(t, fakebash.Install(filepath.Join(dir, "bash.exe")))
		path = append(path, dir)
	}
	for _, name := range []string{"ProgramFiles", "ProgramW6432", "ProgramFiles(x86)", "LocalAppData"} {
		t.Setenv(name, root)
	}
	t.Setenv("Path", strings.Join(path, ";"))
	_, err := pygent.NewLocalRuntime(t.Context(), pygent.WithWorkspace(filepath.Join(root, "ws")))
	require.ErrorIs(t, err, pygent.ErrRuntimeStart)
	require.ErrorContains(t, err, "install Git for Windows")
	require.NoError(t, fakebash.Install(filepath.Join(root, "Git", "bin", "bash.exe")))
	r := newTestRuntime(t, pygent.NewLocalRuntime, pygent.WithWorkspace(filepath.Join(root, "ws")))
	require.Equal(t, "found\n", bash(t, r, "echo found").Output)
}

func TestWindowsTimeLimitEndsTheTree(t *testing.T) {
	r, dir := windowsRuntime(t)
	res := bash(t, r, "hold one & hold two", pygent.BashTimeout(3*time.Second))
	require.True(t, res.TimedOut)
	for _, name := range []string{"one", "two"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		pid, err := strconv.Atoi(string(text))
		require.NoError(t, err)
		if p, err := os.FindProcess(pid); err == nil {
			requireEnd(t, p)
		}
	}
}

func TestWindowsCancelEndsTheTree(t *testing.T) {
	r, dir := windowsRuntime(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := r.Bash(ctx, "hold one & hold two", pygent.BashTimeout(-1))
		ended <- err
	}()
	one, two := holder(t, filepath.Join(dir, "one")), holder(t, filepath.Join(dir, "two"))
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	requireEnd(t, one, two)
}

func TestWindowsDeathOfTheHostEndsTheTree(t *testing.T) {
	installGit(t)
	dir := filepath.Join(tempDir(t), "my work")
	self, err := os.Executable()
	require.NoError(t, err)
	host := exec.Command(self)
	host.Env = append(os.Environ(), windowsHost+"="+dir)
	require.NoError(t, host.Start())
	one, two := holder(t, filepath.Join(dir, "one")), holder(t, filepath.Join(dir, "two"))
	require.NoError(t, host.Process.Kill())
	_ = host.Wait()
	requireEnd(t, one, two)
}

func TestWindowsScriptsAndFiles(t *testing.T) {
	r, dir := windowsRuntime(t)
	ctx := t.Context()
	require.Equal(t, "a\nb\n", bash(t, r, "echo a\r\necho b\r\n").Output)
	require.NoError(t, r.WriteFile(ctx, `sub dir\crlf.txt`, []byte("1\r\n2\r\n")))
	data, err := r.ReadFile(ctx, "sub dir/crlf.txt")
	require.NoError(t, err)
	require.Equal(t, "1\r\n2\r\n", string(data))
	require.FileExists(t, filepath.Join(dir, "sub dir", "crlf.txt"))
	bash(t, r, "echo here >made", pygent.BashDir(`sub dir`))
	require.FileExists(t, filepath.Join(dir, "sub dir", "made"))
	require.ErrorIs(t, r.WriteFile(ctx, `..\out`, nil), pygent.ErrOutsideWorkspace)
	_, err = r.ReadFile(ctx, "missing")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, 7, bash(t, r, "exit 7").ExitCode)
	require.Equal(t, "end\n", bash(t, r, strings.Repeat("# a line of a long script\n", 5000)+"echo end\n").Output)
	require.Equal(t, "given\n", bash(t, r, "echo $GIVEN", pygent.BashEnv("given=no", "GIVEN=given")).Output)
}
