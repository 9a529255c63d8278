package objstore_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint/objstore"
)

// TestBlobsOfEarlierVersionsAreRead reads a store whose blobs are compressed with zstd,
// and takes another tree into it.
func TestBlobsOfEarlierVersionsAreRead(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	require.NoError(t, os.CopyFS(home, os.DirFS("testdata/zstd")))
	s := openStore(t, home)
	refs, err := s.ReadLog("session")
	require.NoError(t, err)
	require.Len(t, refs, 1)
	was := refs[0].Tree
	var big strings.Builder
	for i := range 60_000 {
		big.WriteString(strings.Repeat("lines of a log ", i%7) + string(rune('a'+i*i%23)) + "\n")
	}
	for name, want := range map[string]string{"a": "1", "b/c": strings.Repeat("words and ", 300), "big": big.String()} {
		got, err := fs.ReadFile(s.FS(t.Context(), was), name)
		require.NoError(t, err, name)
		require.Equal(t, want, string(got), name)
	}

	dir := t.TempDir()
	write(t, dir, files{"a": "2", "b/c": strings.Repeat("words and ", 300), "d": strings.Repeat("more words ", 300)})
	now := take(t, s, dir)
	require.Equal(t, []string{"~a", "-big", "+d"}, changes(t, s, was, now))
	packs, err := filepath.Glob(filepath.Join(home, "packs", "*.pack"))
	require.NoError(t, err)
	require.Len(t, packs, 2)
	require.Empty(t, s.Damaged())
}

func TestZstdOfTheWrongSizeIsDamaged(t *testing.T) {
	t.Parallel()
	// A frame of one block that says it has four bytes, all of them 'a'.
	frame := "\x28\xb5\x2f\xfd\x20\x04\x23\x00\x00a"
	for size, want := range map[int]string{3: "it has 4 or more", 4: "", 5: "it has 4: unexpected EOF"} {
		raw, err := objstore.DecompressZstd([]byte(frame), size)
		if want == "" {
			require.NoError(t, err)
			require.Equal(t, "aaaa", string(raw))
			continue
		}
		require.ErrorContains(t, err, want)
	}
	_, err := objstore.DecompressZstd([]byte(frame[:7]), 4)
	require.Error(t, err)
}
