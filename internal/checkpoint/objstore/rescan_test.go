package objstore_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint/objstore"
)

// counting counts how often the whole tree is scanned, and which directories are.
type counting struct {
	*objstore.Local
	whole int
	below []string
	fails error // of ScanBelow
	deny  string
}

func (c *counting) Scan(ctx context.Context, yield func(objstore.Entry) error) error {
	c.whole++
	return c.Local.Scan(ctx, c.denying(yield))
}

func (c *counting) ScanBelow(ctx context.Context, dir string, yield func(objstore.Entry) error) error {
	c.below = append(c.below, dir)
	if c.fails != nil {
		return c.fails
	}
	return c.Local.ScanBelow(ctx, dir, c.denying(yield))
}

// denying tells of one directory that it cannot be listed.
func (c *counting) denying(yield func(objstore.Entry) error) func(objstore.Entry) error {
	return func(e objstore.Entry) error {
		err := yield(e)
		if err != nil || e.Name != c.deny {
			return err
		}
		e.Err = fs.ErrPermission
		return errors.Join(yield(e), fs.SkipDir)
	}
}

func TestOnlyWhatWasChangedIsLookedAt(t *testing.T) {
	t.Parallel()
	remove := func(t *testing.T, dir, name string) { require.NoError(t, os.RemoveAll(filepath.Join(dir, name))) }
	for name, c := range map[string]struct {
		change  func(t *testing.T, dir string)
		changed []string
		below   []string
		whole   int
	}{
		"nothing": {func(*testing.T, string) {}, []string{}, []string{""}, 0},
		"a file": {func(t *testing.T, dir string) { write(t, dir, files{"a/b/f": "changed"}) },
			[]string{"a/b/f"}, []string{"", "a", "a/b"}, 0},
		"a file that is gone": {func(t *testing.T, dir string) { remove(t, dir, "a/b/f") },
			[]string{"a/b/f"}, []string{"", "a", "a/b"}, 0},
		"a new directory": {func(t *testing.T, dir string) { write(t, dir, files{"a/n/m/f": "new", "a/n/node_modules/x": "x"}) },
			[]string{"a/n", "a/n/m", "a/n/m/f"}, []string{"", "a", "a/n"}, 0},
		"a directory that is gone": {func(t *testing.T, dir string) { remove(t, dir, "a/b") },
			[]string{"a/b/f", "a/b/g", "a/b"}, []string{"", "a"}, 0},
		"a file in the place of a directory": {func(t *testing.T, dir string) { remove(t, dir, "a/b"); write(t, dir, files{"a/b": "file"}) },
			[]string{"a/b/f", "a/b/g", "a/b"}, []string{"", "a"}, 0},
		"a directory in the place of a file": {func(t *testing.T, dir string) { remove(t, dir, "c/f"); write(t, dir, files{"c/f/x": "1"}) },
			[]string{"c/f", "c/f/x"}, []string{"", "c", "c/f"}, 0},
		"a mode": {func(t *testing.T, dir string) { require.NoError(t, os.Chmod(filepath.Join(dir, "a/b"), 0o700)) },
			[]string{"a/b"}, []string{"", "a"}, 0},
		"a file beside what is left out": {func(t *testing.T, dir string) { write(t, dir, files{"ig/f": "changed", "ig/logs/y": "1"}) },
			[]string{"ig/f"}, []string{"", "ig"}, 0},
		"what is ignored": {func(t *testing.T, dir string) { write(t, dir, files{"ig/.gitignore": ""}) },
			[]string{"ig/.gitignore"}, nil, 1},
		"what is built": {func(t *testing.T, dir string) { write(t, dir, files{"c/Cargo.toml": ""}) },
			[]string{"c/Cargo.toml"}, nil, 1},
		"what is not known": {func(t *testing.T, dir string) { write(t, dir, files{"z/f": "changed"}) }, nil, nil, 1},
		"a directory that others remove": {func(t *testing.T, dir string) {
			remove(t, dir, "a/b")
			write(t, dir, files{"elsewhere": "->a/b"})
			require.NoError(t, os.Symlink("../c", filepath.Join(dir, "a/b")))
		}, []string{"a/b/f"}, []string{"", "a"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, files{
				"a/b/f": "1", "a/b/g": "2", "a/z": "3", "a.b": "4", "c/f": "5", "c/target/f": "6", "empty/": "", "link": "->a/b",
				"ig/.gitignore": "logs\n", "ig/f": "7", "ig/logs/x": "8", "ig/sub/logs/x": "8", "node_modules/x": "9", "z/f": "10",
			})
			s, fresh := openStore(t, t.TempDir()), openStore(t, t.TempDir())
			src := &counting{Local: openLocal(t, dir)}
			var cache objstore.Cache
			_, _, err := s.Take(t.Context(), src, &cache, objstore.TakeOptions{})
			require.NoError(t, err)
			c.change(t, dir)
			src.whole, src.below = 0, nil
			tree, report, err := s.Take(t.Context(), src, &cache, objstore.TakeOptions{Changed: c.changed})
			require.NoError(t, err)
			require.Equal(t, c.whole, src.whole)
			require.Equal(t, c.below, src.below)
			all, whole := takeWith(t, fresh, dir, nil)
			require.Equal(t, all, tree)
			require.Equal(t, []any{whole.Files, whole.Bytes, whole.LeftOut}, []any{report.Files, report.Bytes, report.LeftOut})
			again, _, err := s.Take(t.Context(), src, &cache, objstore.TakeOptions{})
			require.NoError(t, err)
			require.Equal(t, all, again)
		})
	}
}

// A look at what was changed leaves the rest to the next one: also a file whose times do
// not tell yet when it changes.
func TestWhatOthersChangeIsFoundByTheNextLook(t *testing.T) {
	t.Parallel()
	dir, s := t.TempDir(), openStore(t, t.TempDir())
	write(t, dir, files{"a/f": "1", "b/f": "1", "c/f": "1", "c/g": "1"})
	src, cache := &counting{Local: openLocal(t, dir)}, &objstore.Cache{}
	look := func(changed []string) (objstore.Tree, objstore.Report) {
		tree, report, err := s.Take(t.Context(), src, cache, objstore.TakeOptions{Changed: changed})
		require.NoError(t, err)
		return tree, report
	}
	look(nil)
	before, err := os.Stat(filepath.Join(dir, "c/f"))
	require.NoError(t, err)
	write(t, dir, files{"a/f": "2", "b/f": "others", "c/f": "2"})
	require.NoError(t, os.Chtimes(filepath.Join(dir, "c/f"), before.ModTime(), before.ModTime()))
	near, report := look([]string{"a/f"})
	require.Equal(t, 1, report.Read, "nothing else is read")
	all, report := look(nil)
	require.Equal(t, 4, report.Read, "the times of all are too young")
	require.Equal(t, []string{"~b/f", "~c/f"}, changes(t, s, near, all))
	require.Equal(t, take(t, s, dir), all)
}

func TestADirectoryThatCannotBeListedStaysLeftOut(t *testing.T) {
	t.Parallel()
	dir, s := t.TempDir(), openStore(t, t.TempDir())
	write(t, dir, files{"a/f": "1", "data/f": "1"})
	src, cache := &counting{Local: openLocal(t, dir), deny: "data"}, &objstore.Cache{}
	whole, first, err := s.Take(t.Context(), src, cache, objstore.TakeOptions{})
	require.NoError(t, err)
	tree, report, err := s.Take(t.Context(), src, cache, objstore.TakeOptions{Changed: []string{"a/f"}})
	require.NoError(t, err)
	require.Equal(t, whole, tree)
	require.Equal(t, []objstore.Left{{Name: "data", Why: "permission denied"}}, report.LeftOut)
	require.Equal(t, first.LeftOut, report.LeftOut)
	require.Equal(t, []string{"", "a"}, src.below)
}

// A directory that cannot be listed, perhaps because others have just removed it, makes
// the look one at the whole tree.
func TestALookThatFailsIsMadeOfTheWholeTree(t *testing.T) {
	t.Parallel()
	dir, s := t.TempDir(), openStore(t, t.TempDir())
	write(t, dir, files{"a/f": "1", "b/f": "1"})
	src, cache := &counting{Local: openLocal(t, dir)}, &objstore.Cache{}
	_, _, err := s.Take(t.Context(), src, cache, objstore.TakeOptions{})
	require.NoError(t, err)
	write(t, dir, files{"a/f": "2"})
	src.fails = os.ErrNotExist
	tree, _, err := s.Take(t.Context(), src, cache, objstore.TakeOptions{Changed: []string{"a/f"}})
	require.NoError(t, err)
	require.Equal(t, take(t, s, dir), tree)
	require.Equal(t, 2, src.whole)
}
