package writewatch_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint/writewatch"
)

func TestWhatProgramsOfThisMachineWriteIsTold(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	w, err := writewatch.Open(dir)
	if errors.Is(err, os.ErrPermission) {
		t.Skip("only root may watch writers")
	}
	require.NoError(t, err)
	inode := func(name string) uint64 {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		return info.Sys().(*syscall.Stat_t).Ino
	}
	sh := func(script string, attr *syscall.SysProcAttr) {
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir, cmd.SysProcAttr = dir, attr
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	require.NoError(t, os.WriteFile(filepath.Join(other, "elsewhere"), []byte("1"), 0o600))
	sh("echo 1 > short; echo 2 > renamed.tmp; mv renamed.tmp renamed; mkdir d; echo 3 > d/deep; : > empty; mkfifo pipe; cat pipe >/dev/null & echo 4 > pipe; wait; rm pipe", nil)
	sh("echo 1 > inside; cat short", &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS})
	// A command makes a file where another one was removed, and may get its inode.
	sh("rm short", nil)
	sh("echo 1 > again", &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS})
	written := w.Written()
	told := map[string]bool{}
	for _, name := range []string{"again", "renamed", "d/deep", "empty", "inside"} {
		told[name] = written.Has(filepath.Join(dir, name), inode(name))
	}
	require.Equal(t, map[string]bool{"again": false, "renamed": true, "d/deep": true, "empty": true, "inside": false}, told)
	require.False(t, written.Has(filepath.Join(dir, "again"), inode("renamed")), "another file has the name")
	require.False(t, written.Has(filepath.Join(dir, "gone"), inode("renamed")))
	require.Empty(t, w.Written(), "they are told once")

	// A file that stays open is known as soon as it is written.
	f, err := os.OpenFile(filepath.Join(dir, "empty"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteString("more")
	require.NoError(t, err)
	require.True(t, w.Written().Has(f.Name(), inode("empty")))

	// One that a command has open is not others', also if it is waited for.
	_, err = f.WriteString("and more")
	require.NoError(t, err)
	command := exec.Command("sh", "-c", "exec 3>log; echo 1 >&3; echo; read end")
	command.Dir, command.SysProcAttr = dir, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	end, err := command.StdinPipe()
	require.NoError(t, err)
	begun, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	_, err = begun.Read(make([]byte, 1))
	require.NoError(t, err)
	log := filepath.Join(dir, "log")
	for range 2 {
		late, open := w.Late([]string{log, f.Name(), filepath.Join(dir, "renamed"), filepath.Join(dir, "gone")})
		require.False(t, late.Has(log, inode("log")))
		require.True(t, open.Has(log, inode("log")))
		require.False(t, open.Has(filepath.Join(dir, "renamed"), inode("renamed")))
	}
	require.True(t, w.IsOpen(log))
	require.NoError(t, end.Close())
	require.Error(t, command.Wait(), "there was nothing to read")
	require.False(t, w.IsOpen(log))
	require.NoError(t, w.Close())
	require.Empty(t, w.Written(), "nothing is known any more")
}

// The kernel tells each listener of each write to the whole mount. One for each of many
// agents in a process slows down all writers, and is told too much at last.
func TestManyWatchesAreOneListener(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may watch writers")
	}
	listeners := func() (n int) {
		names, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		for _, name := range names {
			if target, err := os.Readlink("/proc/self/fd/" + name.Name()); err == nil && target == "anon_inode:[fanotify]" {
				n++
			}
		}
		return n
	}
	write := func(dir, name string) {
		cmd := exec.Command("sh", "-c", `echo 1 > "$1"`, "sh", name)
		cmd.Dir = dir
		require.NoError(t, cmd.Run())
	}
	watches := map[string]*writewatch.Watch{}
	for range 20 {
		dir := t.TempDir()
		write(dir, "before")
		w, err := writewatch.Open(dir)
		require.NoError(t, err)
		watches[dir] = w
	}
	require.Equal(t, 1, listeners())
	for dir := range watches {
		write(dir, "f")
	}
	for dir, w := range watches {
		info, err := os.Stat(filepath.Join(dir, "f"))
		require.NoError(t, err)
		written := w.Written()
		require.Len(t, written, 1)
		require.True(t, written.Has(filepath.Join(dir, "f"), info.Sys().(*syscall.Stat_t).Ino))
		require.False(t, w.Missed())
	}
	for dir, w := range watches {
		write(dir, "f")
		require.Equal(t, 1, listeners())
		require.NoError(t, w.Close())
		require.NoError(t, w.Close(), "a second time does nothing")
		require.Empty(t, w.Written())
	}
	require.Zero(t, listeners())
}

// The kernel opens a file for each event, and drops the event if it cannot.
func TestWhatTheKernelCannotTellIsMissed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may watch writers")
	}
	const alone = "PYGENT_TEST_FEW_FILES"
	if os.Getenv(alone) == "" { // the limit is one of the whole process
		child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		child.Env = append(os.Environ(), alone+"=1")
		out, err := child.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: "+t.Name())
		return
	}
	dir := t.TempDir()
	w, err := writewatch.Open(dir)
	require.NoError(t, err)
	writer := exec.Command("sh", "-c", `while read name; do echo 1 > "$name"; echo; done`)
	writer.Dir = dir
	names, err := writer.StdinPipe()
	require.NoError(t, err)
	done, err := writer.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, writer.Start())
	write := func(name string) {
		_, err := names.Write([]byte(name + "\n"))
		require.NoError(t, err)
		_, err = done.Read(make([]byte, 1))
		require.NoError(t, err)
	}
	write("told")
	require.Len(t, w.Written(), 1)
	require.False(t, w.Missed())

	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 64, Max: 64}))
	var open []*os.File
	for err == nil {
		var f *os.File
		if f, err = os.Open(os.DevNull); err == nil {
			open = append(open, f)
		}
	}
	write("missed")
	require.Empty(t, w.Written())
	for _, f := range open {
		require.NoError(t, f.Close())
	}
	require.True(t, w.Missed())
	write("told again")
	require.Len(t, w.Written(), 1)
	require.False(t, w.Missed())
	require.NoError(t, names.Close())
	require.NoError(t, writer.Wait())
	require.NoError(t, w.Close())
}
