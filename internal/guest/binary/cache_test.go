package binary_test

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/guest/binary"
)

func TestFileIsMadeOnceAndRepaired(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	path, err := binary.File(dir, arch)
	require.NoError(t, err)
	before, err := os.Stat(path)
	require.NoError(t, err)
	again, err := binary.File(dir, arch)
	require.NoError(t, err)
	after, err := os.Stat(again)
	require.NoError(t, err)
	require.True(t, os.SameFile(before, after))
	require.NoError(t, os.WriteFile(path, []byte("broken"), 0o755))
	_, err = binary.File(dir, arch)
	require.NoError(t, err)
	repaired, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, before.Size(), repaired.Size())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// TestOnlyOurFileIsTaken puts wrong files into the cache, and expects that they
// are replaced.
func TestOnlyOurFileIsTaken(t *testing.T) {
	want := unpacked(t)
	for name, spoil := range map[string]func(t *testing.T, path string){
		"another content":     func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, []byte("evil"), 0o755)) },
		"a longer one":        func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, append(want, 0), 0o755)) },
		"others may write it": func(t *testing.T, path string) { require.NoError(t, os.Chmod(path, 0o777)) },
		"a link": func(t *testing.T, path string) {
			require.NoError(t, os.Rename(path, path+".d"))
			require.NoError(t, os.Symlink(path+".d", path))
		},
		"another user's": func(t *testing.T, path string) { chown(t, path) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "cache")
			path, err := binary.File(dir, arch)
			require.NoError(t, err)
			before, err := os.Lstat(path)
			require.NoError(t, err)
			spoil(t, path)
			f, err := binary.Open(dir, arch)
			require.NoError(t, err)
			defer f.Close()
			after, err := os.Lstat(path)
			require.NoError(t, err)
			require.Equal(t, before.Mode(), after.Mode())
			_, err = f.Seek(0, io.SeekStart)
			require.NoError(t, err)
			got, err := io.ReadAll(f)
			require.NoError(t, err)
			require.Equal(t, want, got)
			spoil(t, path)
			read, err := binary.Read(dir, arch)
			require.NoError(t, err)
			require.Equal(t, want, read)
		})
	}
}

// TestCacheOfOthersIsRefused uses directories in which other users could change
// or replace the file after it was checked.
func TestCacheOfOthersIsRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes of Unix")
	}
	for name, spoil := range map[string]func(t *testing.T, parent, dir string){
		"others may write it":          func(t *testing.T, _, dir string) { require.NoError(t, os.Chmod(dir, 0o777)) },
		"another user's":               func(t *testing.T, _, dir string) { chown(t, dir) },
		"others may write its parent":  func(t *testing.T, parent, _ string) { require.NoError(t, os.Chmod(parent, 0o777)) },
		"its parent is another user's": func(t *testing.T, parent, _ string) { chown(t, parent) },
		"a link to another user's": func(t *testing.T, parent, dir string) {
			theirs := filepath.Join(parent, "theirs")
			require.NoError(t, os.Rename(dir, theirs))
			chown(t, theirs)
			require.NoError(t, os.Symlink(theirs, dir))
		},
		"a file": func(t *testing.T, _, dir string) {
			require.NoError(t, os.Remove(dir))
			require.NoError(t, os.WriteFile(dir, nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			parent := filepath.Join(t.TempDir(), "parent")
			dir := filepath.Join(parent, "cache")
			require.NoError(t, os.MkdirAll(dir, 0o700))
			spoil(t, parent, dir)
			_, err := binary.File(dir, arch)
			require.Error(t, err)
			read, err := binary.Read(dir, arch)
			require.NoError(t, err, "it is unpacked where none can be kept")
			require.Equal(t, unpacked(t), read)
		})
	}
	_, err := binary.File("cache", arch)
	require.ErrorContains(t, err, "absolute")
}

// arch is that of the guest that the tests keep.
const arch = "amd64"

// unpacked is that guest.
func unpacked(t *testing.T) []byte {
	t.Helper()
	guest, err := binary.Bytes(arch)
	require.NoError(t, err)
	return guest
}

// TestReadKeepsTheGuest reads the guest from a directory that has none yet, and again.
func TestReadKeepsTheGuest(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	for range 2 {
		guest, err := binary.Read(dir, arch)
		require.NoError(t, err)
		require.Equal(t, unpacked(t), guest)
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, 1)
	}
	path, err := binary.File(dir, arch)
	require.NoError(t, err)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, filepath.Base(path), entries[0].Name())
	_, err = binary.Read(dir, "riscv64")
	require.ErrorIs(t, err, binary.ErrPlatform)
}

// chown gives a file to another user.
func chown(t *testing.T, name string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("takes root")
	}
	require.NoError(t, os.Chown(name, 65534, 65534))
}
