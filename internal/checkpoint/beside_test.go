package checkpoint_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint"
)

func TestAgentsInOneDirectoryKnowOfEachOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func(name string) *checkpoint.Book {
		b, err := checkpoint.Open(t.Context(), dir, name, "", false)
		require.NoError(t, err)
		return b
	}
	beside := func(b *checkpoint.Book, of string) string {
		text, err := b.Beside(of)
		require.NoError(t, err)
		return text
	}
	one, two, other := open("one"), open("two"), open("other")
	require.Empty(t, beside(one, "/work"))
	require.Empty(t, beside(other, "/elsewhere"))
	require.Contains(t, beside(two, "/work"), "1 other session works in this directory, too")
	require.Contains(t, beside(one, "/work"), "1 other session works")
	three := open("three")
	require.Contains(t, beside(three, "/work"), "2 other sessions work")
	require.NoError(t, two.Close())
	require.NoError(t, three.Close())
	require.Empty(t, beside(one, "/work"))

	// One that was killed leaves its file, and no lock.
	files, err := filepath.Glob(filepath.Join(dir, "beside", "*"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, name := range files {
		require.NoError(t, os.WriteFile(name+"x", nil, 0o600))
	}
	require.Empty(t, beside(one, "/work"))
	require.NoError(t, one.Close())
	require.NoError(t, other.Close())
	_, err = one.Beside("/work")
	require.Error(t, err)
}
