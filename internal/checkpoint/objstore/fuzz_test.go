package objstore_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint/objstore"
)

// FuzzPack opens a store with a pack that is not as it was written, and reads
// all that can be reached.
func FuzzPack(f *testing.F) {
	dir, home := f.TempDir(), f.TempDir()
	write(f, dir, files{"a": "1", "b/c": strings.Repeat("words and ", 300), "b/link": "->a"})
	s := openStore(f, home)
	tree := take(f, s, dir)
	names, err := filepath.Glob(filepath.Join(home, "packs", "*.pack"))
	require.NoError(f, err)
	data, err := os.ReadFile(names[0])
	require.NoError(f, err)
	f.Add(data)
	f.Add(data[:len(data)-10])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		home := t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Join(home, "packs"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(home, "packs", "x.pack"), data, 0o600))
		s := openStore(t, home)
		fsys := s.FS(context.Background(), tree)
		_ = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				_, err = fs.ReadFile(fsys, name)
			}
			return err
		})
	})
}

// FuzzIndex reads an index whose checksum is right.
func FuzzIndex(f *testing.F) {
	f.Add([]byte("abc"), []byte{1}, uint32(3), uint32(3), byte('d'), int64(16))
	f.Fuzz(func(t *testing.T, blobs, name []byte, stored, raw uint32, kind byte, offset int64) {
		data := objstore.PackOf(blobs, name, stored, raw, kind, offset)
		rows, err := objstore.ReadIndex(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			require.ErrorIs(t, err, objstore.ErrDamaged)
			return
		}
		require.Len(t, rows, 1)
		require.LessOrEqual(t, int(stored), len(blobs))
		require.LessOrEqual(t, raw, uint32(objstore.ChunkSize))
	})
}

// FuzzNode parses a directory, and what is written of it again.
func FuzzNode(f *testing.F) {
	f.Add([]byte("N"))
	f.Add([]byte("N\x01ax\x01bl\x02zz"))
	f.Add(append([]byte("N\x01af\xa4\x03\x05\x02"), make([]byte, 32)...))
	f.Add(append([]byte("N\x02..d\xed\x03"), make([]byte, 32)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		again, names, err := objstore.NodeAgain(data)
		if err != nil {
			require.ErrorIs(t, err, objstore.ErrDamaged)
			return
		}
		require.True(t, slices.IsSorted(names))
		for _, name := range names {
			require.False(t, name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00"), "%q", name)
		}
		if len(again) == len(data) {
			require.Equal(t, data, again)
		}
	})
}

// FuzzPaths compares the order of paths with that of their elements.
func FuzzPaths(f *testing.F) {
	f.Add("a/b", "a b")
	f.Add("a", "a/b")
	f.Fuzz(func(t *testing.T, a, b string) {
		require.Equal(t, slices.Compare(strings.Split(a, "/"), strings.Split(b, "/")), objstore.ByPath(a, b))
	})
}

// FuzzIgnore compares lines with paths: it must end soon.
func FuzzIgnore(f *testing.F) {
	f.Add("*.log\n!/a/**/b\n", "a/b/c.log", false)
	f.Add(strings.Repeat("**/a*", 20), strings.Repeat("a/", 100)+"b", true)
	f.Fuzz(func(t *testing.T, lines, name string, dir bool) { objstore.Ignores(lines, name, dir) })
}

func TestIgnorePatterns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		lines, name string
		dir, want   bool
	}{
		{"a", "a", false, true}, {"a", "x/a", false, true}, {"/a", "x/a", false, false}, {"/a", "a", false, true}, {"a/", "a", false, false}, {"a/", "a", true, true},
		{"*.o", "x/y.o", false, true}, {"x/*.o", "x/y/z.o", false, false}, {"x/**", "x/y/z.o", false, true}, {"x/**", "x", true, false}, {"**/z", "x/y/z", false, true},
		{"**/z", "z", false, true}, {"x/**/z", "x/z", false, true}, {"x/**/z", "x/a/b/z", false, true}, {"x/**/z", "y/z", false, false}, {"#a", "#a", false, false},
		{`\#a`, "#a", false, true}, {`\!a`, "!a", false, true}, {"a\n!a", "a", false, false}, {"!a\na", "a", false, true}, {"a  ", "a", false, true}, {`a\ `, "a ", false, true},
		{"[!a]b", "cb", false, true}, {"[!a]b", "ab", false, false}, {"[", "[", false, false}, {"", "", false, false}, {"a\r\n", "a", false, true}, {"x/y", "x/y", false, true}, {"x/y", "z/x/y", false, false},
	} {
		require.Equal(t, tt.want, objstore.Ignores(tt.lines, tt.name, tt.dir), "%q %q", tt.lines, tt.name)
	}
}
