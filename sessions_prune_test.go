package pygent_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/sessions"
)

// withFiles makes a session whose checkpoints have so many random bytes, last used so
// many days ago.
func withFiles(t *testing.T, base, id string, bytes, days int) {
	t.Helper()
	agent := keptAgent(t, filepath.Join(base, "sessions"), id, withTrees(base))
	content := make([]byte, bytes)
	_, _ = rand.Read(content) // never fails
	require.NoError(t, agent.Runtime().WriteFile(t.Context(), "file", content))
	hears(t, agent, "I am "+id)
	require.NoError(t, agent.Close())
	used := time.Now().AddDate(0, 0, -days)
	require.NoError(t, os.Chtimes(filepath.Join(base, "sessions", id, "session.json"), used, used))
}

func bytesBelow(t *testing.T, dir string) (n int64) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		n += info.Size()
		return err
	}))
	return n
}

func TestCheckpointsCountAsTheSizeOfSessions(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	kept, trees := filepath.Join(base, "sessions"), filepath.Join(base, "trees")
	const size = 200_000
	for i := range 5 {
		withFiles(t, base, fmt.Sprintf("%dx", i), size, i)
	}
	prune := func(limits pygent.SessionLimits) []string {
		t.Helper()
		removed, err := sessions.Prune(t.Context(), kept, trees, limits)
		require.NoError(t, err)
		return removed
	}
	require.Empty(t, prune(pygent.SessionLimits{}))
	require.Greater(t, bytesBelow(t, trees), int64(5*size))
	open := keptAgent(t, kept, "4x", withTrees(base))
	used := time.Now().AddDate(0, 0, -4)
	require.NoError(t, os.Chtimes(filepath.Join(kept, "4x", "session.json"), used, used))
	require.Equal(t, []string{"2x", "3x"}, prune(pygent.SessionLimits{MaxBytes: 3 * size}), "the open one stays")
	require.Less(t, bytesBelow(t, trees), int64(3.5*size))
	require.NoError(t, open.Close())
	require.Equal(t, []string{"1x"}, prune(pygent.SessionLimits{Max: 2}))
	require.Less(t, bytesBelow(t, trees), int64(2.5*size))

	require.Len(t, prune(pygent.SessionLimits{MaxBytes: 1}), 1, "the last one stays")
	last := listed(t, kept)
	require.Len(t, last, 1)
	agent := keptAgent(t, kept, last[0].ID, withTrees(base))
	require.Equal(t, []string{"file"}, namesIn(t, hostDir(t, agent)))
	require.NoError(t, agent.Close())

	require.NoError(t, os.RemoveAll(filepath.Join(kept, last[0].ID))) // not by pygent
	require.Empty(t, prune(pygent.SessionLimits{}))
	require.Less(t, bytesBelow(t, trees), int64(size/10))
}

// Checkpoints of others in the same directory, and of sessions elsewhere, stay.
func TestPruningLeavesCheckpointsOfOthers(t *testing.T) {
	t.Parallel()
	base, other := t.TempDir(), t.TempDir()
	trees := filepath.Join(base, "trees")
	withFiles(t, base, "1abc", 1000, 0)
	agent := keptAgent(t, filepath.Join(other, "sessions"), "2abc", withTrees(base))
	require.NoError(t, agent.Runtime().WriteFile(t.Context(), "f", []byte("x")))
	hears(t, agent, "hi")
	require.NoError(t, agent.Close())
	logs := namesIn(t, filepath.Join(trees, "logs"))
	_, err := sessions.Prune(t.Context(), filepath.Join(base, "sessions"), trees, pygent.SessionLimits{})
	require.NoError(t, err)
	require.Equal(t, logs, namesIn(t, filepath.Join(trees, "logs")))
	link := filepath.Join(t.TempDir(), "link") // another way to the same kept
	require.NoError(t, os.Symlink(base, link))
	_, err = sessions.Prune(t.Context(), filepath.Join(link, "sessions"), filepath.Join(link, "trees"), pygent.SessionLimits{})
	require.NoError(t, err)
	require.Equal(t, logs, namesIn(t, filepath.Join(trees, "logs")))
	agent = keptAgent(t, filepath.Join(link, "sessions"), "1abc", withTrees(base))
	require.Equal(t, []string{"file"}, namesIn(t, hostDir(t, agent)))
	require.NoError(t, agent.Close())
}

func TestSeveralPruneAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	t.Parallel()
	base := t.TempDir()
	kept, trees := filepath.Join(base, "sessions"), filepath.Join(base, "trees")
	for i := range 8 {
		withFiles(t, base, fmt.Sprintf("%dx", i), 1000, i)
	}
	open := keptAgent(t, kept, "7x", withTrees(base))
	var mu sync.Mutex
	var all []string
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			removed, err := sessions.Prune(context.Background(), kept, trees, pygent.SessionLimits{Max: 3})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			all = append(all, removed...)
		})
	}
	wg.Wait()
	require.ElementsMatch(t, []string{"3x", "4x", "5x", "6x"}, all, "each is removed once")
	require.Len(t, listed(t, kept), 4, "the open one stays, too")
	logs, err := filepath.Glob(filepath.Join(trees, "logs", "*.log"))
	require.NoError(t, err)
	require.Len(t, logs, 4)
	hears(t, open, "still here")
	require.NoError(t, open.Close())
}
