package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint/objstore"
)

func TestWhatMayHaveChangedIsAPathOrOnTheWayThere(t *testing.T) {
	t.Parallel()
	w := Work{Only: []string{"x", "a/b"}}
	for name, want := range map[string]bool{"a/b": true, "a": true, "x": true, "a/b/c": false, "a/c": false, "ab": false, "a/bc": false, "b": false} {
		require.Equal(t, want, w.mayChange(name), name)
	}
}

// An entry of a call that says who wrote what is not dropped: otherwise a restore would take
// back what others have written.
func TestEntriesOfCallsThatKnowMoreAreKept(t *testing.T) {
	t.Parallel()
	known := []Note{{Others: true}, {Only: []string{"a"}}, {Not: []string{"a"}}}
	of := func(kind Kind, n Note) Entry {
		n.Kind = kind
		return Entry{Note: n}
	}
	kept := func(call, next Entry, rest ...Entry) bool {
		seen := append([]Entry{of(End, Note{}), call, next}, rest...)
		left := len((&Book{seen: seen}).withoutCalls())
		require.GreaterOrEqual(t, left, len(seen)-1)
		return left == len(seen)
	}
	plain, end := of(call, Note{}), of(End, Note{})
	require.False(t, kept(plain, end))
	require.False(t, kept(of(call, Note{Unsure: true}), of(End, Note{Unsure: true})))
	require.True(t, kept(of(call, Note{Unsure: true}), end))
	require.True(t, kept(plain, of(End, Note{Unsure: true})))
	for _, n := range known {
		require.True(t, kept(of(call, n), end), n)
		require.True(t, kept(plain, of(End, n)), n)
	}
	require.True(t, kept(plain, of(Restored, Note{})), "it comes about from another one")
	require.True(t, kept(plain, of(restoring, Note{}), end), "it has no files")
	require.True(t, kept(plain, plain), "the last turn goes on")
}

// A look that cannot be compared with the one before, or noted, fails, so that the turn
// looks no more. Otherwise what others have changed until then would be the agent's.
func TestALookThatCannotBeNotedFails(t *testing.T) {
	t.Parallel()
	dir, stores := t.TempDir(), t.TempDir()
	write := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte(text), 0o600))
	}
	open := func(stores string) *Book {
		b, err := Open(t.Context(), stores, "log", "", false)
		require.NoError(t, err)
		t.Cleanup(func() { _ = b.Close() }) // its log is closed
		_, err = b.Take(t.Context(), Local(dir), Entry{Note: Note{Kind: Start}})
		require.NoError(t, err)
		return b
	}
	fails := func(b *Book) {
		_, err := b.Look(t.Context(), Local(dir), Work{Ran: true, Only: []string{"a"}})
		require.Error(t, err)
		require.Len(t, b.seen, 1)
		s, err := objstore.Open(stores)
		require.NoError(t, err)
		_, err = s.Collect(t.Context(), nil)
		require.NoError(t, errors.Join(err, s.Close()), "the tree that was taken is in no log, and holds up nothing")
	}
	write("of another store")
	elsewhere := open(t.TempDir())
	write("0")
	b := open(stores)
	write("1")
	here := b.seen[0].Tree
	b.seen[0].Tree = elsewhere.seen[0].Tree
	fails(b)
	b.seen[0].Tree = here
	require.NoError(t, b.log.Close())
	fails(b)
}
