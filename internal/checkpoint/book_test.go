package checkpoint_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint"
)

// A Start may be missing in the log, because it could not be written. The one before it
// is of a turn that has changed files.
func TestUnchangedTakesNoFilesOfAnotherTurn(t *testing.T) {
	t.Parallel()
	at := func(kind checkpoint.Kind, place string) checkpoint.Entry {
		return checkpoint.Entry{Note: checkpoint.Note{Kind: kind, Place: json.RawMessage(place)}}
	}
	kinds := func(b *checkpoint.Book) (all []checkpoint.Kind) {
		for _, e := range b.Entries() {
			all = append(all, e.Kind)
		}
		return all
	}
	for _, kind := range []checkpoint.Kind{checkpoint.Start, checkpoint.Resumed} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			b, err := checkpoint.Open(t.Context(), t.TempDir(), "log", "", false)
			require.NoError(t, err)
			defer b.Close()
			start, end := at(kind, "1"), at(checkpoint.End, "9")
			require.NoError(t, b.Unchanged(t.Context(), start, end))
			require.Empty(t, kinds(b))
			_, err = b.Take(t.Context(), checkpoint.Local(t.TempDir()), start)
			require.NoError(t, err)

			require.NoError(t, b.Unchanged(t.Context(), at(kind, "2"), end))
			require.Equal(t, []checkpoint.Kind{kind}, kinds(b))

			require.NoError(t, b.Unchanged(t.Context(), start, end))
			require.Equal(t, []checkpoint.Kind{kind, checkpoint.End}, kinds(b))
			all := b.Entries()
			require.False(t, all[0].Tree.IsZero())
			require.Equal(t, all[0].Tree, all[1].Tree)
			require.Equal(t, all[0].Dir, all[1].Dir)

			require.NoError(t, b.Unchanged(t.Context(), start, end))
			require.Len(t, b.Entries(), 2)
		})
	}
}
