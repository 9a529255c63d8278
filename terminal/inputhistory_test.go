package terminal

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/filelock"
)

func TestSessionsShareTheHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pygent", "history.jsonl")
	var sessions sync.WaitGroup
	for i := range 4 {
		sessions.Go(func() {
			h := openHistory(path)
			for j := range 50 {
				h.add(fmt.Sprintf("%d.%d\nmore", i, j))
			}
		})
	}
	sessions.Wait()
	h := openHistory(path)
	require.Len(t, h.entries, 200)
	seen := map[string]bool{}
	for _, entry := range h.entries {
		seen[entry] = true
	}
	require.Len(t, seen, 200)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
}

func TestTheHistoryIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	h := openHistory(path)
	for i := range 100 {
		h.add(fmt.Sprint(i) + strings.Repeat("x", maxEntry-10))
	}
	h.add(strings.Repeat("x", maxEntry+1))
	h.add("last")
	h.add("last")
	require.Len(t, h.entries, 101)
	h = openHistory(path)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.LessOrEqual(t, info.Size(), int64(maxHistoryFile))
	require.Equal(t, "last", h.entries[len(h.entries)-1])
	require.Len(t, openHistory(path).entries, len(openHistory(path).entries))
}

func TestADamagedHistoryIsReadAsFarAsItGoes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	require.NoError(t, os.WriteFile(path, []byte("\"one\"\nnot json\n{}\n\"\\u001b[2J two\"\n\"cut"), 0o600))
	require.Equal(t, []string{"one", "[2J two"}, openHistory(path).entries)
	require.Empty(t, openHistory("").entries)
	require.Empty(t, openHistory("/dev/null/no/such").entries)
}

func TestTheDraftIsKeptWhileGoingThroughTheHistory(t *testing.T) {
	h := openHistory("")
	h.add("one")
	h.add("two")
	for _, step := range []struct {
		by   int
		want string
		ok   bool
	}{{1, "", false}, {-1, "two", true}, {-1, "one", true}, {-1, "", false}, {1, "two", true}, {1, "draft", true}} {
		text, ok := h.move(step.by, "draft")
		require.Equal(t, step.ok, ok)
		require.Equal(t, step.want, text)
	}
}

// A session that was stopped while it had the file holds up no other one.
func TestTheHistoryIsLockedByAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	h := openHistory(path)
	h.add("first")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, filelock.Lock(f))
	h = openHistory(path)
	h.add("second")
	require.Equal(t, []string{"first", "second"}, openHistory(path).entries)
}

// A line of which a full disk or a kill has left a part takes no other one with it.
func TestHalfALineOfTheHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.jsonl")
	require.NoError(t, os.WriteFile(path, []byte("\"first\"\n\"hal"), 0o600))
	openHistory(path).add("second")
	openHistory(path).add("third")
	require.Equal(t, []string{"first", "second", "third"}, openHistory(path).entries)
}
