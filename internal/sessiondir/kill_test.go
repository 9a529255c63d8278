package sessiondir_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/filelock"
	"github.com/x/pygent/internal/sessiondir"
)

// childVar has a child process of the tests make and remove sessions there until it is
// killed.
const childVar = "PYGENT_SESSIONDIR_CHILD"

// TestSessionsChild is the process that TestAKilledRemovalLeavesAllOrNothing kills.
// Without its environment variable it does nothing.
func TestSessionsChild(t *testing.T) {
	for dir := os.Getenv(childVar); dir != ""; {
		require.NoError(t, make1(dir, fmt.Sprintf("%dx", rand.IntN(20))))
		_ = sessiondir.Remove(dir, fmt.Sprintf("%dx", rand.IntN(20)))
	}
}

// make1 makes a session whose files all say its name.
func make1(dir, id string) error {
	s, err := sessiondir.Open(filepath.Join(dir, id))
	if err != nil {
		return err
	}
	for i := range 3 {
		if err := os.WriteFile(filepath.Join(dir, id, sessiondir.HistoryFile), []byte(strings.Repeat(id, 20+i)), 0o600); err != nil {
			return err
		}
		if err := s.WriteInfo([]byte(strings.Repeat(id, 20+i))); err != nil {
			return err
		}
	}
	return s.Close()
}

// TestAKilledRemovalLeavesAllOrNothing kills a process that writes and removes
// sessions: each has all of its files afterwards, or is none.
func TestAKilledRemovalLeavesAllOrNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes")
	}
	dir := t.TempDir()
	cut := 0
	for round := range 100 {
		child := exec.Command(os.Args[0], "-test.run=^TestSessionsChild$")
		child.Env = append(os.Environ(), childVar+"="+dir)
		child.Stderr = os.Stderr
		require.NoError(t, child.Start())
		time.AfterFunc(time.Duration(10+rand.IntN(30))*time.Millisecond, func() { _ = child.Process.Kill() })
		_ = child.Wait()
		require.Equal(t, -1, child.ProcessState.ExitCode(), "it ended by itself")
		list, err := sessiondir.List(dir)
		require.NoError(t, err)
		for _, e := range list {
			if e.Err == nil {
				require.Zero(t, len(e.Info)%len(e.ID), "round %d: %s", round, e.ID)
				require.Contains(t, string(e.Info), e.ID, "round %d", round)
				require.FileExists(t, filepath.Join(dir, e.ID, sessiondir.HistoryFile), "round %d", round)
			}
			require.False(t, e.Open)
		}
		marks, err := filepath.Glob(filepath.Join(dir, "*", "session.json.removed"))
		require.NoError(t, err)
		cut += len(marks)
		for _, mark := range marks {
			for _, e := range list {
				require.NotEqual(t, filepath.Base(filepath.Dir(mark)), e.ID, "round %d: a session that was removed is listed", round)
			}
		}
	}
	t.Logf("%d removals were cut short", cut)
	removed, err := sessiondir.Prune(t.Context(), dir, sessiondir.Limits{}, time.Now().Add(2*time.Hour))
	require.NoError(t, err)
	require.Empty(t, removed)
	marks, err := filepath.Glob(filepath.Join(dir, "*", "session.json.removed"))
	require.NoError(t, err)
	require.Empty(t, marks)
}

func TestOnlyOneProcessPrunes(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, make1(dir, "1x"))
	lock, err := os.OpenFile(filepath.Join(dir, ".prune"), os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	require.NoError(t, filelock.Lock(lock))
	removed, err := sessiondir.Prune(t.Context(), dir, sessiondir.Limits{Age: 1}, time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Empty(t, removed)
	require.NoError(t, lock.Close())
	removed, err = sessiondir.Prune(t.Context(), dir, sessiondir.Limits{Age: 1}, time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, []string{"1x"}, removed)
	require.ErrorIs(t, sessiondir.Remove(dir, "1x"), fs.ErrNotExist)
}
