//go:build !race

// Processes that are killed race with nobody, and take five times as long with the race detector.

package objstore_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint/objstore"
)

// TestKilledProcessesLoseNothing kills a process that takes, logs, applies and
// collects, at random moments. PYGENT_STORE_KILLS sets how often.
func TestKilledProcessesLoseNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes")
	}
	t.Parallel()
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		killSome(t, "")
	})
	t.Run("guest", func(t *testing.T) {
		t.Parallel()
		if runtime.GOOS != "linux" {
			t.Skip("the guest is a process of its own on Linux only")
		}
		killSome(t, "1")
	})
}

// killSome does it with changes through a guest, which is killed too, if
// throughGuest is not empty.
func killSome(t *testing.T, throughGuest string) {
	base := t.TempDir()
	dir := filepath.Join(base, "work")
	fill(t, dir)
	kills := 25
	if n, err := strconv.Atoi(os.Getenv("PYGENT_STORE_KILLS")); err == nil {
		kills = n
	}
	last := int64(0)
	unfinished := 0
	for round := range kills {
		last = max(last, killOne(t, base, throughGuest))
		s, l := openStore(t, filepath.Join(base, "store")), openLocal(t, dir)
		to := intended(t, base)
		conflicts, found, err := s.Recover(t.Context(), l)
		require.NoError(t, err)
		require.Equal(t, to != nil, found)
		require.Empty(t, conflicts)
		now := take(t, s, dir)
		if found {
			unfinished++
			require.Empty(t, changes(t, s, *to, now), "round %d", round)
		}
		for name := range read(t, dir) {
			require.NotContains(t, name, ".pygent-")
		}
		checkLog(t, s, last)
		s.Forget(now)
		require.NoError(t, errors.Join(l.Close(), s.Close()))
	}
	t.Logf("%d checkpoints, %d of %d kills were in the middle of a change", last, unfinished, kills)
	s := openStore(t, filepath.Join(base, "store"))
	_, err := s.Collect(t.Context(), nil)
	require.NoError(t, err)
	checkLog(t, s, last)
	left, err := filepath.Glob(filepath.Join(base, "store", "packs", "new-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// killOne runs a child until it is killed, and returns the last checkpoint that
// it said is in the log.
func killOne(t *testing.T, base, throughGuest string) (last int64) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "PYGENT_STORE_CHILD="+base, "PYGENT_STORE_GUEST="+throughGuest)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan(), "the child does nothing")
	kill := time.AfterFunc(time.Duration(rand.Int64N(int64(150*time.Millisecond))), func() { _ = child.Process.Kill() })
	defer kill.Stop()
	for ok := true; ok; ok = lines.Scan() {
		last, err = strconv.ParseInt(lines.Text(), 10, 64)
		require.NoError(t, err)
	}
	require.Error(t, child.Wait())
	require.Equal(t, -1, child.ProcessState.ExitCode(), "it ended by itself")
	return last
}

// intended returns the tree to which an interrupted change leads.
func intended(t *testing.T, base string) *objstore.Tree {
	names, err := filepath.Glob(filepath.Join(base, "store", "unfinished", "*.json"))
	require.NoError(t, err)
	if len(names) == 0 {
		return nil
	}
	data, err := os.ReadFile(names[0])
	require.NoError(t, err)
	var in struct{ To objstore.Tree }
	require.NoError(t, json.Unmarshal(data, &in))
	return &in.To
}

// checkLog reads all files of all trees of the log, which must have the last
// checkpoint that was promised.
func checkLog(t *testing.T, s *objstore.Store, last int64) {
	refs, err := s.ReadLog("child")
	require.NoError(t, err)
	require.NotEmpty(t, refs)
	require.GreaterOrEqual(t, refs[len(refs)-1].N, last)
	for _, ref := range refs {
		fsys := s.FS(t.Context(), ref.Tree)
		require.NoError(t, fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				_, err = fs.ReadFile(fsys, name)
			}
			return err
		}))
	}
	require.Empty(t, s.Damaged())
}
