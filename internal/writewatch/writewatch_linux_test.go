package writewatch_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/writewatch"
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
	written := w.Written()
	for ino := range written { // the pipe is gone
		if ino != inode("short") && ino != inode("renamed") && ino != inode("d/deep") && ino != inode("empty") {
			delete(written, ino)
		}
	}
	require.Equal(t, map[uint64]bool{inode("short"): true, inode("renamed"): true, inode("d/deep"): true, inode("empty"): true}, written)
	require.Empty(t, w.Written(), "they are told once")

	// A file that stays open is known as soon as it is written.
	f, err := os.OpenFile(filepath.Join(dir, "short"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteString("more")
	require.NoError(t, err)
	require.True(t, w.Written()[inode("short")])
	require.NoError(t, w.Close())
	require.Empty(t, w.Written(), "nothing is known any more")
}
