package gitwatch

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadEntriesFindsWhatPackageOSFinds(t *testing.T) {
	dir := t.TempDir()
	for i := range 2000 { // more than one call of the kernel tells
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("a file with a longer name %d", i)), nil, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "not UTF-8 \xff"), nil, 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "directory"), 0o700))
	require.NoError(t, os.Symlink("directory", filepath.Join(dir, "link")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	byName := func(a, b entry) int { return cmp.Compare(a.name, b.name) }
	for _, tt := range []struct {
		read func(*os.File, int) ([]entry, error)
		name string
	}{{readEntries, "from records"}, {statEntries, "without types in the records"}} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := root.Open(".")
			require.NoError(t, err)
			defer f.Close()
			want, err := listEntries(f, 10_000)
			require.NoError(t, err)
			_, err = f.Seek(0, io.SeekStart)
			require.NoError(t, err)
			got, err := tt.read(f, 10_000)
			require.NoError(t, err)
			slices.SortFunc(want, byName)
			slices.SortFunc(got, byName)
			require.Len(t, want, 2004)
			require.Equal(t, want, got)
			_, err = f.Seek(0, io.SeekStart)
			require.NoError(t, err)
			got, err = tt.read(f, 7)
			require.NoError(t, err)
			require.Len(t, got, 7)
		})
	}
	f, err := root.Open("not UTF-8 \xff")
	require.NoError(t, err)
	defer f.Close()
	got, err := readEntries(f, 10)
	require.ErrorIs(t, err, syscall.ENOTDIR)
	require.Empty(t, got)
}

func TestNextEntryRefusesWhatIsCut(t *testing.T) {
	record := make([]byte, 32)
	binary.NativeEndian.PutUint16(record[sizeAt:], 32)
	record[typeAt] = syscall.DT_DIR
	copy(record[nameAt:], "name\x00")
	e, known, rest, err := nextEntry(record)
	require.NoError(t, err)
	require.Equal(t, entry{"name", true}, e)
	require.True(t, known)
	require.Empty(t, rest)
	for n := range 32 {
		_, _, _, err := nextEntry(record[:n])
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, n)
	}
	binary.NativeEndian.PutUint16(record[sizeAt:], nameAt-1)
	_, _, _, err = nextEntry(record)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF, "a record that ends before its name")
	binary.NativeEndian.PutUint16(record[sizeAt:], 32)
	record[typeAt] = syscall.DT_UNKNOWN
	_, known, _, err = nextEntry(record)
	require.NoError(t, err)
	require.False(t, known)
}
