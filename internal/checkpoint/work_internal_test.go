package checkpoint

import (
	"testing"

	"github.com/stretchr/testify/require"
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
