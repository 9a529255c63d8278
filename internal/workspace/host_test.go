package workspace

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/tree"
)

// exportTo copies a file or directory of a tree to dest.
func exportTo(ctx context.Context, t *Tree, name, dest string) error {
	info, err := t.Stat(name)
	if err != nil {
		return err
	}
	d, err := OpenDestination(dest, filepath.Base(name), info.IsDir())
	if err != nil {
		return err
	}
	defer d.Close()
	return t.Pack(ctx, name, func(r io.Reader) error { return d.Unpack(r, tree.ExtractOptions{}) })
}

func TestNothingAtADestinationIsWrittenThrough(t *testing.T) {
	from := openTest(t)
	require.NoError(t, from.WriteFile("tree/file", []byte("new")))
	require.NoError(t, from.WriteFile("tree/dir/file", []byte("new")))
	outside := t.TempDir()
	victim := filepath.Join(outside, "file")
	require.NoError(t, os.WriteFile(victim, []byte("old"), 0o644))
	for name, tt := range map[string]struct {
		link, target string // what exists at the destination beforehand
		what, dest   string // what is exported, and to where
		err          string
	}{
		"a file in place of a link":             {"file", victim, "tree/file", "file", ""},
		"a file in place of a dangling link":    {"file", "/nowhere/x", "tree/file", "file", ""},
		"a file to a link to a directory":       {"d", outside, "tree/file", "d", "not followed"},
		"a file into a link to a directory":     {"d", outside, "tree/file", "d/", "not followed"},
		"a directory to a link to a directory":  {"d", outside, "tree", "d", "not followed"},
		"a directory to a dangling link":        {"d", "/nowhere/x", "tree", "d", "not followed"},
		"a link below in place of a directory":  {"d/dir", outside, "tree", "d", ""},
		"a link below in place of a file":       {"d/file", victim, "tree", "d", ""},
		"a link below to above":                 {"d/dir", "..", "tree", "d", ""},
		"a link with the name of the directory": {"dir", outside, "tree", ".", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dest := t.TempDir()
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dest, tt.link)), 0o755))
			require.NoError(t, os.Symlink(tt.target, filepath.Join(dest, tt.link)))
			err := exportTo(t.Context(), from, tt.what, dest+"/"+tt.dest)
			if tt.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.err)
			}
			data, err := os.ReadFile(victim)
			require.NoError(t, err)
			require.Equal(t, "old", string(data))
			entries, err := os.ReadDir(outside)
			require.NoError(t, err)
			require.Len(t, entries, 1)
		})
	}
}

func TestSourceOfAProjectStaysInside(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "key"), []byte("secret"), 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "out")))
	require.NoError(t, os.Symlink(filepath.Join(outside, "key"), filepath.Join(dir, "file")))
	require.NoError(t, os.Symlink("..", filepath.Join(dir, "up")))
	for _, name := range []string{"out", "out/key", "file", "up", "../x", "/etc/passwd", "a/../../x"} {
		_, err := OpenSourceIn(dir, name)
		require.ErrorIs(t, err, ErrOutside, name)
	}
	_, err := OpenSourceIn(dir, "missing")
	require.ErrorIs(t, err, fs.ErrNotExist)
	src, err := OpenSourceIn(dir, ".")
	require.NoError(t, err)
	require.True(t, src.Dir)
	require.NoError(t, src.Close())
}

func TestCopyIntoItselfEnds(t *testing.T) {
	to := openTest(t)
	require.NoError(t, to.WriteFile("a/f", []byte("x")))
	src, err := OpenSource(to.Dir())
	require.NoError(t, err)
	defer src.Close()
	fill := func(w io.Writer) error { return src.Pack(w, "", tree.Limits{}) }
	require.NoError(t, unpack(t, to, "copy", fill))
	data, err := to.ReadFile("copy/a/f", 10)
	require.NoError(t, err)
	require.Equal(t, "x", string(data))
	require.NoDirExists(t, filepath.Join(to.Dir(), "copy", "copy"))
	require.NoError(t, unpack(t, to, ".", fill), "onto itself")
}

// unpack unpacks into a directory of a tree.
func unpack(t *testing.T, to *Tree, dir string, fill func(io.Writer) error) error {
	_, err := to.Unpack(t.Context(), dir, fill)
	return err
}

func TestCopyHonoursTheContext(t *testing.T) {
	from := openTest(t)
	require.NoError(t, from.WriteFile("a/f", []byte("x")))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dest := t.TempDir()
	require.ErrorIs(t, exportTo(ctx, from, "a", filepath.Join(dest, "out")), context.Canceled)
	left, err := os.ReadDir(dest)
	require.NoError(t, err)
	require.Empty(t, left, "what was made for the copy is gone")
}

func TestEndOfTheContextComesTooLateForWhatWasTaken(t *testing.T) {
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		fill := func(w io.Writer) error {
			_, err := w.Write(make([]byte, 100))
			return err
		}
		require.NoError(t, Pipe(ctx, fill, func(r io.Reader) error {
			_, err := io.ReadFull(r, make([]byte, 50))
			cancel()
			return err
		}))
	}
}

func TestPipeTellsWhoFailedFirst(t *testing.T) {
	fill := func(w io.Writer) error {
		for {
			if _, err := w.Write(make([]byte, 1<<10)); err != nil {
				return err
			}
		}
	}
	take := func(r io.Reader) error {
		_, err := io.Copy(io.Discard, r)
		return err
	}
	require.ErrorIs(t, Pipe(t.Context(), fill, func(io.Reader) error { return fs.ErrInvalid }), fs.ErrInvalid)
	require.ErrorIs(t, Pipe(t.Context(), func(io.Writer) error { return fs.ErrExist }, take), fs.ErrExist)
}
