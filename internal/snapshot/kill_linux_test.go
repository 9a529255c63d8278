package snapshot_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/snapshot"
)

// childVar has a child process of the tests save there until it is killed.
const childVar = "PYGENT_SNAPSHOT_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVar); dir != "" {
		saveForEver(dir)
	}
	os.Exit(m.Run())
}

// saveForEver replaces one snapshot again and again.
func saveForEver(base string) {
	for i := 0; ; i++ {
		says := fmt.Sprintf("round%06d", i)
		err := put(context.Background(), filepath.Join(base, "forced"), says, 10+i%20, true)
		if err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		fmt.Println(says)
	}
}

// TestKilledSavesLeaveAllOrNothing kills a process that saves, at random moments.
// PYGENT_SNAPSHOT_KILLS sets how often.
func TestKilledSavesLeaveAllOrNothing(t *testing.T) {
	base := t.TempDir()
	kills := 25
	if testing.Short() {
		kills = 3
	}
	if n, err := strconv.Atoi(os.Getenv("PYGENT_SNAPSHOT_KILLS")); err == nil {
		kills = n
	}
	stages := 0
	for round := range kills {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childVar+"="+base)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		lines := bufio.NewScanner(out)
		require.True(t, lines.Scan(), "the child does nothing")
		kill := time.AfterFunc(time.Duration(rand.Int64N(int64(60*time.Millisecond))), func() { _ = child.Process.Kill() })
		for lines.Scan() {
		}
		kill.Stop()
		require.Error(t, child.Wait())
		require.Equal(t, -1, child.ProcessState.ExitCode(), "it ended by itself")
		whole(t, filepath.Join(base, "forced"), round)
		left, err := filepath.Glob(filepath.Join(base, ".pygent-stage-*"))
		require.NoError(t, err)
		stages += len(left)
	}
	t.Logf("%d of %d kills left something beside", stages, kills)
	require.NoError(t, put(t.Context(), filepath.Join(base, "last"), "x", 1, false))
	left, err := filepath.Glob(filepath.Join(base, ".pygent-stage-*"))
	require.NoError(t, err)
	for _, name := range left { // one that was killed before it was marked is empty
		entries, err := os.ReadDir(name)
		require.NoError(t, err)
		require.Empty(t, entries)
	}
}

func isThere(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// whole checks that a snapshot is of one round.
func whole(t *testing.T, dir string, round int) {
	t.Helper()
	about, err := snapshot.Open(t.Context(), dir)
	require.NoError(t, err, "round %d", round)
	var says string
	require.NoError(t, json.Unmarshal(about.Setup, &says))
	data, err := os.ReadFile(filepath.Join(dir, snapshot.History))
	require.NoError(t, err)
	require.Equal(t, says, string(data))
	for i := range about.Contents.Files {
		data, err := os.ReadFile(filepath.Join(dir, snapshot.Workspace, "d", fmt.Sprint(i)))
		require.NoError(t, err)
		require.Contains(t, string(data), says)
	}
}

// TestAKilledNewSaveIsAbsent kills a process while it saves to a place that is new.
func TestAKilledNewSaveIsAbsent(t *testing.T) {
	for range 20 {
		base := t.TempDir()
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childVar+"="+base)
		require.NoError(t, child.Start())
		time.AfterFunc(time.Duration(rand.Int64N(int64(25*time.Millisecond))), func() { _ = child.Process.Kill() })
		_ = child.Wait()
		if dir := filepath.Join(base, "forced"); isThere(dir) {
			whole(t, dir, 0)
		}
	}
}

func TestAFullDiskLeavesWhatWasThere(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	disk := t.TempDir()
	require.NoError(t, syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=2m"))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(disk, syscall.MNT_DETACH)) })
	dir := filepath.Join(disk, "snap")
	require.NoError(t, put(t.Context(), dir, "old", 10, false))
	for _, replace := range []bool{true, false} {
		to := dir
		if !replace {
			to = filepath.Join(disk, "new")
		}
		err := put(t.Context(), to, "new", 100_000, replace)
		require.ErrorIs(t, err, syscall.ENOSPC)
		whole(t, dir, 0)
		entries, err := os.ReadDir(disk)
		require.NoError(t, err)
		require.Len(t, entries, 1)
	}
}
