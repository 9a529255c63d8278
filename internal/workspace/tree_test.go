package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// state is the directory where the owners of the tests keep their key.
var state string

func TestMain(m *testing.M) {
	var err error
	if state, err = os.MkdirTemp("", "state"); err != nil {
		panic(err)
	}
	os.Setenv("XDG_STATE_HOME", state)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(state)
		os.Exit(code)
	}))
}

// State is the directory of this user's records.
func State() string { return filepath.Join(state, "pygent") }

func openTest(t testing.TB, mounts ...string) *Tree {
	t.Helper()
	tree, err := Open(t.TempDir(), mounts...)
	require.NoError(t, err)
	t.Cleanup(func() { tree.Close() })
	return tree
}

func TestRel(t *testing.T) {
	tree := openTest(t, "/workspace")
	for name, want := range map[string]string{
		"": ".", ".": ".", "a": "a", "a/b/": "a/b", "./a//b": "a/b", "a/../b": "b", "..a": "..a",
		"/workspace": ".", "/workspace/": ".", "/workspace/a": "a", "/workspace/../workspace/a": "a",
		tree.Dir() + "/x": "x",
	} {
		got, err := tree.Rel(name)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
	for _, name := range []string{"..", "../a", "a/../..", "/", "/etc", "/workspaces", "/workspace/..", tree.Dir() + "x"} {
		_, err := tree.Rel(name)
		require.ErrorIs(t, err, ErrOutside, name)
	}
}

func FuzzRelStaysInside(f *testing.F) {
	for _, seed := range []string{"a/b", "../x", "/workspace/../x", "a/../../b", "//workspace", "a\\..\\b", "\x00"} {
		f.Add(seed)
	}
	tree := openTest(f, "/workspace")
	f.Fuzz(func(t *testing.T, name string) {
		rel, err := tree.Rel(name)
		if err != nil {
			require.ErrorIs(t, err, ErrOutside)
			return
		}
		require.False(t, path.IsAbs(rel))
		require.True(t, filepath.IsLocal(filepath.FromSlash(rel)), rel)
	})
}

func FuzzFilesStayInside(f *testing.F) {
	for _, seed := range []string{"a", "up/x", "out", "dir/../up/x", "abs/x", "in/../up/../x"} {
		f.Add(seed)
	}
	parent := f.TempDir()
	dir := filepath.Join(parent, "ws")
	require.NoError(f, os.MkdirAll(filepath.Join(dir, "in"), 0o755))
	require.NoError(f, os.Symlink("..", filepath.Join(dir, "up")))
	require.NoError(f, os.Symlink("../outside", filepath.Join(dir, "out")))
	require.NoError(f, os.Symlink(parent, filepath.Join(dir, "abs")))
	tree, err := Open(dir)
	require.NoError(f, err)
	defer tree.Close()
	f.Fuzz(func(t *testing.T, name string) {
		_ = tree.WriteFile(name, []byte("x"))
		entries, err := os.ReadDir(parent)
		require.NoError(t, err)
		require.Len(t, entries, 1, "only the workspace itself")
	})
}

func TestLinksInsideAreFollowed(t *testing.T) {
	tree := openTest(t)
	require.NoError(t, tree.WriteFile("dir/file", []byte("one")))
	require.NoError(t, os.Symlink("dir/file", filepath.Join(tree.Dir(), "link")))
	require.NoError(t, tree.WriteFile("link", []byte("two")))
	data, err := tree.ReadFile("dir/file", 10)
	require.NoError(t, err)
	require.Equal(t, "two", string(data))
	_, err = tree.ReadFile("dir/file", 2)
	require.ErrorIs(t, err, ErrTooLarge)
	_, err = tree.ReadFile("dir", 2)
	require.EqualError(t, err, "dir: is a directory")
	require.EqualError(t, tree.WriteFile("dir", nil), "dir: is a directory")
}

func TestWhatCannotBeWrittenThroughALinkStaysAsItIs(t *testing.T) {
	tree := openTest(t)
	require.NoError(t, tree.WriteFile("dir/sub/file", []byte("one")))
	require.NoError(t, os.Chmod(filepath.Join(tree.Dir(), "dir/sub/file"), 0o750))
	for _, link := range []struct{ name, to string }{
		{"link", "dir/sub/file"}, {"dir/again", "../link"}, {"elsewhere", "dir/sub"}, {"dir/within", "../elsewhere/file"}, {"beside", "elsewhere/../sub/file"},
	} {
		require.NoError(t, os.Symlink(link.to, filepath.Join(tree.Dir(), link.name)))
	}
	for _, name := range []string{"link", "dir/again", "dir/within", "elsewhere/file"} {
		full := errors.New("no space left")
		err := tree.WriteFrom(name, io.MultiReader(strings.NewReader("tw"), iotest.ErrReader(full)))
		require.ErrorIs(t, err, full)
		data, err := tree.ReadFile("dir/sub/file", 10)
		require.NoError(t, err)
		require.Equal(t, "one", string(data), name)
		require.NoError(t, tree.WriteFile(name, []byte("one")))
	}
	require.NoError(t, tree.WriteFile("beside", []byte("two")))
	data, err := tree.ReadFile("dir/sub/file", 10)
	require.NoError(t, err)
	require.Equal(t, "two", string(data))
	info, err := os.Lstat(filepath.Join(tree.Dir(), "link"))
	require.NoError(t, err)
	require.Equal(t, fs.ModeSymlink, info.Mode().Type())
	info, err = os.Stat(filepath.Join(tree.Dir(), "link"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o750), info.Mode().Perm())
}

func TestReadRange(t *testing.T) {
	tree := openTest(t)
	require.NoError(t, tree.WriteFile("f", []byte("0123456789")))
	for _, tc := range []struct {
		offset, limit int64
		want          string
	}{{0, 3, "012"}, {8, 10, "89"}, {10, 1, ""}, {50, 1, ""}, {2, 0, ""}} {
		data, size, err := tree.ReadRange("f", tc.offset, tc.limit)
		require.NoError(t, err)
		require.EqualValues(t, 10, size)
		require.Equal(t, tc.want, string(data))
	}
	_, _, err := tree.ReadRange("f", -1, 1)
	require.Error(t, err)
}

func TestTemporaryWorkspacesCanAlwaysBeRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir, err := MakeTemp(true)
	require.NoError(t, err)
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o777), info.Mode().Perm())
	require.True(t, strings.HasPrefix(dir, os.TempDir()))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a", "b", "f"), nil, 0o444))
	require.NoError(t, os.Chmod(filepath.Join(dir, "a", "b"), 0o555))
	require.NoError(t, os.Chmod(filepath.Join(dir, "a"), 0o000))
	require.NoError(t, RemoveTemp(dir))
	require.NoDirExists(t, filepath.Dir(dir))
}

func TestOfALargeDirectoryTheFirstNamesAreListed(t *testing.T) {
	if testing.Short() {
		t.Skip("makes thousands of files")
	}
	dir := t.TempDir()
	for i := range 3000 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%04d", i)), nil, 0o600))
	}
	tree, err := Open(dir)
	require.NoError(t, err)
	defer tree.Close()
	names := func(infos []fs.FileInfo) (names []string) {
		for _, info := range infos {
			names = append(names, info.Name())
		}
		return names
	}
	infos, more, err := tree.List(".", 3)
	require.NoError(t, err)
	require.True(t, more)
	require.Equal(t, []string{"f0000", "f0001", "f0002"}, names(infos))

	infos, more, err = tree.List(".", 3000)
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, infos, 3000)
	require.Equal(t, "f2999", infos[2999].Name())
}
