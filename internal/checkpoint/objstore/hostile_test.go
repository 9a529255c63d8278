package objstore_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint/objstore"
	"github.com/x/pygent/internal/tree"
)

// told is a source that tells what it is told to tell.
type told struct {
	entries []objstore.Entry
	read    func(name string) (objstore.Opened, error)
}

func (s told) Scan(_ context.Context, yield func(objstore.Entry) error) error {
	for _, e := range s.entries {
		if err := yield(e); err != nil && !errors.Is(err, fs.SkipDir) {
			return err
		}
	}
	return nil
}

func (s told) Read(_ context.Context, names iter.Seq[string], yield func(string, objstore.Opened, error) error) error {
	for name := range names {
		f, err := s.read(name)
		if err := yield(name, f, err); err != nil {
			return err
		}
	}
	return nil
}

// opened is a file whose size is another one each time that it is asked for.
type opened struct {
	*strings.Reader
	entry  objstore.Entry
	grows  bool
	failed error
}

func (o *opened) Stat() (objstore.Entry, error) {
	if o.grows {
		o.entry.Size++
	}
	return o.entry, o.failed
}

func content(text string) func(string) (objstore.Opened, error) {
	return func(name string) (objstore.Opened, error) {
		return &opened{Reader: strings.NewReader(text), entry: objstore.Entry{Name: name, Size: int64(len(text)), Mode: 0o644}}, nil
	}
}

func TestASourceThatLiesIsRefused(t *testing.T) {
	t.Parallel()
	file := func(names ...string) (all []objstore.Entry) {
		for _, name := range names {
			e := objstore.Entry{Name: strings.TrimSuffix(name, "/"), Mode: 0o644}
			if e.Name != name {
				e.Mode = fs.ModeDir | 0o755
			}
			all = append(all, e)
		}
		return all
	}
	for name, entries := range map[string][]objstore.Entry{
		"twice":               file("a", "a"),
		"not sorted":          file("b", "a"),
		"not sorted below":    file("a/", "a/c", "a/b"),
		"in no directory":     file("a/b"),
		"in a file":           file("a", "a/b"),
		"back in a directory": file("a/", "a/b", "b", "a/c"),
		"above":               file("../a"),
		"the top":             file("."),
		"no name":             file(""),
		"a name that is none": file("a/", "a/"+"."),
		"absolute":            file("/a"),
		"a zero":              file("a\x00b"),
		"a long name":         file(strings.Repeat("a", 5000)),
		"in what is left out": file("node_modules/", "node_modules/a"),
		"in what cannot be listed": append(file("a/"), objstore.Entry{Name: "a", Mode: fs.ModeDir, Err: errors.New("no")},
			objstore.Entry{Name: "a/b", Mode: 0o644}),
		"deep": file(deep(300)...),
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, t.TempDir())
			_, _, err := s.Take(t.Context(), told{entries, content("")}, nil, objstore.TakeOptions{})
			require.ErrorIs(t, err, objstore.ErrSource)
			_, packs := s.Size()
			require.Zero(t, packs)
		})
	}
}

func deep(n int) (names []string) {
	for i := range n {
		names = append(names, strings.Repeat("d/", i+1))
	}
	return names
}

func TestFilesThatChangeWhileTheyAreRead(t *testing.T) {
	t.Parallel()
	entries := []objstore.Entry{{Name: "a", Size: 3, Mode: 0o644}}
	for name, tt := range map[string]struct {
		read func(string) (objstore.Opened, error)
		want string
		torn bool
	}{
		"gone":      {func(string) (objstore.Opened, error) { return nil, fs.ErrNotExist }, "", false},
		"forbidden": {func(string) (objstore.Opened, error) { return nil, fs.ErrPermission }, "", false},
		"growing": {func(n string) (objstore.Opened, error) {
			return &opened{Reader: strings.NewReader("abcdef"), grows: true}, nil
		}, "a", true},
		"shrunk": {func(n string) (objstore.Opened, error) {
			return &opened{Reader: strings.NewReader("ab"), entry: objstore.Entry{Size: 5}}, nil
		}, "ab", true},
		"gone later": {func(n string) (objstore.Opened, error) {
			return &opened{Reader: strings.NewReader("ab"), failed: fs.ErrNotExist}, nil
		}, "", false},
		"another": {content("hello"), "hello", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, t.TempDir())
			tree, report, err := s.Take(t.Context(), told{entries, tt.read}, nil, objstore.TakeOptions{})
			require.NoError(t, err)
			require.Equal(t, tt.torn, len(report.Torn) == 1)
			require.Equal(t, name == "forbidden", len(report.LeftOut) == 1)
			data, err := fs.ReadFile(s.FS(t.Context(), tree), "a")
			if tt.want == "" {
				require.ErrorIs(t, err, fs.ErrNotExist)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, string(data))
		})
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, files{"a": "12345", "b": "12345", "c/": ""})
	s := openStore(t, t.TempDir())
	l := openLocal(t, dir)
	for _, limits := range []tree.Limits{{Bytes: 9}, {Entries: 2}} {
		_, _, err := s.Take(t.Context(), l, nil, objstore.TakeOptions{Limits: limits})
		require.ErrorIs(t, err, tree.ErrTooLarge)
	}
	_, _, err := s.Take(t.Context(), l, nil, objstore.TakeOptions{Limits: tree.Limits{Bytes: 10, Entries: 3}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("over")
	cancel(over)
	_, _, err = s.Take(ctx, l, nil, objstore.TakeOptions{})
	require.ErrorIs(t, err, over)
}

func TestAFileThatIsLargerThanWasListedCountsWhole(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir())
	for name, limit := range map[string]int64{"it fits": 1000, "it does not": 999} {
		t.Run(name, func(t *testing.T) {
			src := told{entries: []objstore.Entry{{Name: "f", Mode: 0o644, Size: 1}}, read: content(strings.Repeat("x", 1000))}
			_, _, err := s.Take(t.Context(), src, nil, objstore.TakeOptions{Limits: tree.Limits{Bytes: limit}})
			if limit < 1000 {
				require.ErrorIs(t, err, tree.ErrTooLarge)
				return
			}
			require.NoError(t, err)
		})
	}
}

func TestAHugeAndADeepDirectory(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a huge directory")
	}
	t.Parallel()
	dir := t.TempDir()
	huge := files{}
	for i := range 12_000 {
		huge[fmt.Sprintf("huge/a-name-that-is-long-enough-for-several-parts-%06d", i)] = ""
	}
	write(t, dir, huge)
	write(t, dir, files{strings.Repeat("d/", tree.MaxDepth+10): ""})
	s := openStore(t, t.TempDir())
	var c objstore.Cache
	a, report := takeWith(t, s, dir, &c)
	require.Len(t, report.LeftOut, 1)
	require.Contains(t, report.LeftOut[0].Why, "nested deeper")
	entries, err := fs.ReadDir(s.FS(t.Context(), a), "huge")
	require.NoError(t, err)
	require.Len(t, entries, len(huge))
	write(t, dir, files{"huge/b": "1"})
	b, report := takeWith(t, s, dir, &c)
	require.Equal(t, 1, report.Read)
	require.Equal(t, []string{"+huge/b"}, changes(t, s, a, b))
	s.Forget(a)
	s.Forget(b)
	_, err = s.Collect(t.Context(), func(yield func(objstore.Tree) bool) { yield(b) })
	require.NoError(t, err)
	require.Equal(t, []string{"+huge/b"}, changes(t, s, a, b)[:1])
}

// Somebody replaces directories by links, all the time: what is read and
// written stays in the root.
func TestNothingLeadsOutOfTheRoot(t *testing.T) {
	if testing.Short() {
		t.Skip("writes for seconds while directories change")
	}
	t.Parallel()
	base := t.TempDir()
	dir, away := filepath.Join(base, "work"), filepath.Join(base, "away")
	write(t, dir, files{"d/f": "inside", "e/f": "inside"})
	write(t, away, files{"f": "OUTSIDE"})
	home := t.TempDir()
	s := openStore(t, home)
	a := take(t, s, dir)
	write(t, dir, files{"d/f": "changed", "d/new": "new", "e/f": "changed"})
	b := take(t, s, dir)

	done, group := make(chan struct{}), sync.WaitGroup{}
	group.Go(func() {
		at, other := filepath.Join(dir, "d"), filepath.Join(base, "other")
		for {
			select {
			case <-done:
				return
			default:
			}
			if os.Rename(at, other) == nil {
				_ = os.Symlink(away, at)
				_ = os.Remove(at)
				_ = os.Rename(other, at)
			}
		}
	})
	l := openLocal(t, dir)
	for i := range 60 {
		from, to := a, b
		if i%2 == 0 {
			from, to = b, a
		}
		_, err := s.Apply(t.Context(), l, from, to, objstore.ApplyOptions{})
		require.NoError(t, err)
		got, _, err := s.Take(t.Context(), l, nil, objstore.TakeOptions{})
		require.NoError(t, err)
		data, err := fs.ReadFile(s.FS(t.Context(), got), "d/f")
		if err == nil {
			require.NotEqual(t, "OUTSIDE", string(data))
		}
		s.Forget(got)
	}
	close(done)
	group.Wait()
	require.Equal(t, files{"f": "-rw-r--r-- OUTSIDE"}, read(t, away))
}
