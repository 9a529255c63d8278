package stash

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/tree"
	"github.com/x/pygent/internal/workspace"
)

// newPlace returns the place of a directory of this machine.
func newPlace(t *testing.T) (Place, string) {
	t.Helper()
	dir := t.TempDir()
	w, err := workspace.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return Place{
		Workspace: func(context.Context) string { return dir },
		Pack:      w.Pack,
		Unpack: func(ctx context.Context, dest string, in *tree.Reader) (string, tree.Placed, error) {
			placed, err := w.Unpack(ctx, dest, func(out io.Writer) error { return tree.Copy(out, in, in.Name()) })
			return dest, placed, err
		},
	}, dir
}

func TestFilesAreStoredOncePerContent(t *testing.T) {
	from, dir := newPlace(t)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "d", "f"), []byte("x"), 0o644))
	var store Store
	one, err := store.Collect(t.Context(), from, []string{"d/f"})
	require.NoError(t, err)
	two, err := store.Collect(t.Context(), from, []string{dir + "/d/f"})
	require.NoError(t, err)
	require.Equal(t, one, two)
	require.True(t, strings.HasPrefix(one, "sha256:"))
	store.Release(one)
	require.FileExists(t, store.path(two))
	to, there := newPlace(t)
	require.NoError(t, store.Unpack(t.Context(), to, two))
	require.FileExists(t, filepath.Join(there, "d", "f"))

	path := store.path(two)
	store.Release(two)
	require.NoFileExists(t, path)
	kept := store.dir
	require.NoError(t, store.Close())
	require.NoDirExists(t, kept)
	_, err = store.Collect(t.Context(), from, []string{"d/f"})
	require.ErrorIs(t, err, ErrClosed)
}

func TestPathsOfAPlace(t *testing.T) {
	place := Place{Workspace: func(context.Context) string { return "/work" }}
	nowhere := Place{Workspace: func(context.Context) string { return "" }}
	for name, tt := range map[string]struct {
		place     Place
		path      string
		rel, same string // empty if there is none
	}{
		"relative":          {place, "a/../b", "b", "b"},
		"the workspace":     {place, "/work/", ".", "."},
		"below it":          {place, "/work/d/f", "d/f", "d/f"},
		"beside it":         {place, "/workshop/f", "", "f"},
		"above it":          {place, "../f", "", ""},
		"the root":          {place, "/", "", ""},
		"nothing":           {place, "", "", ""},
		"absolute, nowhere": {nowhere, "/work/f", "", "f"},
	} {
		t.Run(name, func(t *testing.T) {
			rel, err := tt.place.Rel(t.Context(), tt.path)
			require.Equal(t, tt.rel, rel)
			require.Equal(t, tt.rel == "", err != nil)
			same, err := tt.place.SamePath(t.Context(), tt.path)
			require.Equal(t, tt.same, same)
			require.Equal(t, tt.same == "", err != nil)
		})
	}
}

func TestReceiveTellsWhyThePlaceFailed(t *testing.T) {
	to, _ := newPlace(t)
	to.Unpack = func(context.Context, string, *tree.Reader) (string, tree.Placed, error) {
		return "", tree.Placed{}, os.ErrPermission
	}
	from, dir := newPlace(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), make([]byte, 1<<20), 0o600))
	_, err := to.Receive(t.Context(), func(w io.Writer) error { return from.CopyTo(t.Context(), w, "f") }, "f")
	require.Equal(t, os.ErrPermission, err, "not as an error of the file that was being sent")
}

func TestAPlaceTellsOfNoMoreFilesThanItWasSent(t *testing.T) {
	from, dir := newPlace(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "f"), []byte("xyz"), 0o600))
	for _, tt := range []struct{ says, want tree.Placed }{
		{tree.Placed{Files: 1, Replaced: 1}, tree.Placed{Files: 1, Replaced: 1}},
		{tree.Placed{Files: 1 << 62, Replaced: 1 << 62}, tree.Placed{Files: 1, Replaced: 1}},
		{tree.Placed{Files: -1 << 62, Replaced: -1 << 62}, tree.Placed{}},
		{tree.Placed{Files: 1, Replaced: Unknown}, tree.Placed{Files: 1, Replaced: Unknown}},
	} {
		to := Place{Unpack: func(_ context.Context, dest string, in *tree.Reader) (string, tree.Placed, error) {
			return dest, tt.says, tree.Copy(io.Discard, in, "f")
		}}
		c, err := to.Receive(t.Context(), func(w io.Writer) error { return from.CopyTo(t.Context(), w, "f") }, "g")
		require.NoError(t, err)
		require.Equal(t, Copied{At: "g", Files: tt.want.Files, Replaced: tt.want.Replaced, Bytes: 3}, c)
	}
}

func TestReceiveTellsWhyTheExportFailed(t *testing.T) {
	to, _ := newPlace(t)
	_, err := to.Receive(t.Context(), func(io.Writer) error { return os.ErrPermission }, "f")
	require.ErrorIs(t, err, os.ErrPermission)
	_, err = to.Receive(t.Context(), func(io.Writer) error { return tree.ErrTooLarge }, "f")
	require.ErrorIs(t, err, tree.ErrTooLarge)
	require.ErrorContains(t, err, "pack them smaller")
}
