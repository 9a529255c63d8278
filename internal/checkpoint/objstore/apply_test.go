package objstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint/objstore"
)

func TestApplyGoesToAndFro(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ from, to files }{
		"edits":                 {files{"a": "1", "d/b": "2"}, files{"a": "3", "d/b": "4"}},
		"new and gone":          {files{"a": "1", "d/b": "2"}, files{"c/d/e": "1", "f": "2"}},
		"empty directories":     {files{"a/b/": ""}, files{"a/c/": "", "d/": ""}},
		"a file to a directory": {files{"a": "1"}, files{"a/b/c": "1", "a/d": "2"}},
		"links":                 {files{"a": "->b", "b": "1", "c": "->x"}, files{"a": "1", "b": "->a", "c": "->y"}},
		"a link to a directory": {files{"a": "->b", "b/c": "1"}, files{"a/c": "2", "b": "->a"}},
		"large":                 {files{"a": strings.Repeat("1", 3<<20)}, files{"a": strings.Repeat("2", 3<<20) + "x"}},
		"odd names":             {files{"a\nb": "1", "\xff": "2", "-rf": "", " ": "4"}, files{"a\nb": "5", "\xfe": "2", "*": "4"}},
		"nothing":               {files{}, files{"a/b": "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, slow := range []bool{false, true} {
				dir, other := t.TempDir(), t.TempDir()
				write(t, dir, tt.from)
				write(t, other, tt.to)
				s := openStore(t, t.TempDir())
				a, b := take(t, s, dir), take(t, s, other)
				before, after := read(t, dir), read(t, other)
				l := openLocal(t, dir)
				if slow {
					l.WithoutExchange()
				}
				for range 2 {
					conflicts, err := s.Apply(t.Context(), l, a, b, objstore.ApplyOptions{})
					require.NoError(t, err)
					require.Empty(t, conflicts)
					require.Equal(t, after, read(t, dir))
					conflicts, err = s.Apply(t.Context(), l, b, a, objstore.ApplyOptions{})
					require.NoError(t, err)
					require.Empty(t, conflicts)
					require.Equal(t, before, read(t, dir))
				}
			}
		})
	}
}

func TestModesAreApplied(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, files{"a": "1", "d/b": "2", "e/c": "3"})
	s := openStore(t, t.TempDir())
	a := take(t, s, dir)
	before := read(t, dir)
	require.NoError(t, os.Chmod(filepath.Join(dir, "a"), 0o755))
	require.NoError(t, os.Chmod(filepath.Join(dir, "d/b"), 0o400))
	require.NoError(t, os.Chmod(filepath.Join(dir, "d"), 0o500))
	require.NoError(t, os.Chmod(filepath.Join(dir, "e"), 0o700))
	b := take(t, s, dir)
	after := read(t, dir)
	require.Equal(t, []string{"~a", "~d", "~d/b", "~e"}, changes(t, s, a, b))
	require.Empty(t, apply(t, s, dir, b, a, objstore.ApplyOptions{}))
	require.Equal(t, before, read(t, dir))
	require.Empty(t, apply(t, s, dir, a, b, objstore.ApplyOptions{}))
	require.Equal(t, after, read(t, dir))
	require.NoError(t, os.Chmod(filepath.Join(dir, "d"), 0o700))
}

func TestWhatWasEditedMeanwhileStays(t *testing.T) {
	t.Parallel()
	base := files{"edited": "1", "removed": "1", "modes": "1", "gone": "1", "dir/file": "1", "replaced": "1", "linked/x": "1"}
	dir := t.TempDir()
	write(t, dir, base)
	s := openStore(t, t.TempDir())
	a := take(t, s, dir)
	for _, name := range []string{"edited", "removed", "modes", "replaced", "linked/x"} {
		write(t, dir, files{name: "the agent's"})
	}
	require.NoError(t, os.Remove(filepath.Join(dir, "gone")))
	write(t, dir, files{"made": "the agent's", "new/deep": "the agent's"})
	b := take(t, s, dir)

	// What the user does after that.
	elsewhere := t.TempDir()
	write(t, elsewhere, files{"x": "not in the tree"})
	write(t, dir, files{"edited": "the user's", "gone": "the user's", "made": "the user's", "new/other": "the user's"})
	require.NoError(t, os.Chmod(filepath.Join(dir, "modes"), 0o700))
	for _, name := range []string{"removed", "replaced"} {
		require.NoError(t, os.Remove(filepath.Join(dir, name)))
	}
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "linked")))
	write(t, dir, files{"replaced/": "", "linked": "->" + elsewhere})
	before := read(t, dir)

	conflicts := apply(t, s, dir, b, a, objstore.ApplyOptions{})
	got := map[string]string{}
	for _, c := range conflicts {
		require.Empty(t, c.Kept)
		got[c.Name] = c.Why
	}
	require.Equal(t, map[string]string{
		"edited": "it was changed meanwhile", "removed": "it was changed meanwhile", "modes": "it was changed meanwhile", "replaced": "it was changed meanwhile",
		"gone": "something else is there meanwhile", "made": "it was changed meanwhile", "new": "something else is in it",
		"linked/x": "its directory is gone, or something else is in its place",
	}, got)
	delete(before, "new/deep")
	require.Equal(t, before, read(t, dir))
	require.Equal(t, files{"x": "-rw-r--r-- not in the tree"}, read(t, elsewhere))
}

// meanwhile is a content that does something while it is read: after the target
// has looked at what is there, and before it replaces that.
type meanwhile struct {
	io.Reader
	do func()
}

func (m *meanwhile) Read(p []byte) (int, error) {
	if m.do != nil {
		m.do()
		m.do = nil
	}
	return m.Reader.Read(p)
}

func TestWhatIsEditedInTheLastMomentStays(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		from string // "" for a file that is not there
		edit func(at string) error
		want files
	}{
		"written in place":    {"old", func(at string) error { return os.WriteFile(at, []byte("user"), 0) }, files{"f": "-rw-r--r-- user"}},
		"of the same size":    {"old", func(at string) error { return os.WriteFile(at, []byte("OLD"), 0) }, files{"f": "-rw-r--r-- OLD"}},
		"replaced":            {"old", func(at string) error { return replaceFile(at, "user") }, files{"f": "-rw------- user"}},
		"removed":             {"old", os.Remove, files{}},
		"mode":                {"old", func(at string) error { return os.Chmod(at, 0o755) }, files{"f": "-rwxr-xr-x old"}},
		"a directory instead": {"old", func(at string) error { _ = os.Remove(at); return os.Mkdir(at, 0o700) }, files{"f/": "-rwx------"}},
		"a link instead":      {"old", func(at string) error { _ = os.Remove(at); return os.Symlink("/etc/passwd", at) }, files{"f": "->/etc/passwd"}},
		"made":                {"", func(at string) error { return os.WriteFile(at, []byte("user"), 0o600) }, files{"f": "-rw------- user"}},
		"a link made":         {"", func(at string) error { return os.Symlink("nowhere", at) }, files{"f": "->nowhere"}},
		"the same made":       {"", func(at string) error { return os.WriteFile(at, []byte("new"), 0o644) }, files{"f": "-rw-r--r-- new"}},
	} {
		for _, slow := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %v", name, slow), func(t *testing.T) {
				dir := t.TempDir()
				if tt.from != "" {
					write(t, dir, files{"f": tt.from})
				}
				l := openLocal(t, dir)
				if slow {
					l.WithoutExchange()
				}
				c := change(t, tt.from, "new")
				content := &meanwhile{strings.NewReader("new"), func() { require.NoError(t, tt.edit(filepath.Join(dir, "f"))) }}
				err := l.Make(t.Context(), objstore.Step{Change: c, Aside: ".aside-12345678"}, content)
				if name == "the same made" {
					require.NoError(t, err)
				} else {
					var conflict *objstore.ConflictError
					require.ErrorAs(t, err, &conflict)
					require.Empty(t, conflict.Kept)
				}
				require.Equal(t, tt.want, read(t, dir))
			})
		}
	}
}

func replaceFile(at, content string) error {
	if err := os.WriteFile(at+"~", []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(at+"~", at)
}

// change returns the change of a file "f" from one content to another.
func change(t *testing.T, from, to string) objstore.Change {
	t.Helper()
	s := openStore(t, t.TempDir())
	var trees [2]objstore.Tree
	for i, content := range []string{from, to} {
		dir := t.TempDir()
		if content != "" {
			write(t, dir, files{"f": content})
		}
		trees[i] = take(t, s, dir)
	}
	for c, err := range s.Diff(t.Context(), trees[0], trees[1]) {
		require.NoError(t, err)
		return c
	}
	t.Fatal("no change")
	return objstore.Change{}
}

// Each case is what a process that was killed has left.
func TestAStepIsMadeAgain(t *testing.T) {
	t.Parallel()
	const aside, part, mode = ".aside-12345678", ".aside-12345678.part", "-rw-r--r-- "
	for name, tt := range map[string]struct {
		from, to string
		left     files
		want     files
		conflict bool
	}{
		"not begun":                        {"old", "new", files{"f": "old"}, files{"f": mode + "new"}, false},
		"half written":                     {"old", "new", files{"f": "old", part: "n"}, files{"f": mode + "new"}, false},
		"written":                          {"old", "new", files{"f": "old", aside: "new"}, files{"f": mode + "new"}, false},
		"exchanged":                        {"old", "new", files{"f": "new", aside: "old"}, files{"f": mode + "new"}, false},
		"made":                             {"old", "new", files{"f": "new"}, files{"f": mode + "new"}, false},
		"exchanged with an edit":           {"old", "new", files{"f": "new", aside: "user"}, files{"f": mode + "user"}, true},
		"and edited again":                 {"old", "new", files{"f": "user 2", aside: "user"}, files{"f": mode + "user 2", "f.kept12345678": mode + "user"}, true},
		"written, and edited since":        {"old", "new", files{"f": "user", aside: "new"}, files{"f": mode + "user"}, true},
		"written, and removed since":       {"old", "new", files{aside: "new"}, files{}, true},
		"without exchange, moved":          {"old", "new", files{aside: "old", part: "new"}, files{"f": mode + "new"}, false},
		"without exchange, an edit":        {"old", "new", files{aside: "user", part: "new"}, files{"f": mode + "user"}, true},
		"to be removed, moved":             {"old", "", files{aside: "old"}, files{}, false},
		"to be removed, an edit moved":     {"old", "", files{aside: "user"}, files{"f": mode + "user"}, true},
		"to be removed, made again":        {"old", "", files{aside: "old", "f": "user"}, files{"f": mode + "user"}, true},
		"to be removed, both are the user": {"old", "", files{aside: "user", "f": "user 2"}, files{"f": mode + "user 2", "f.kept12345678": mode + "user"}, true},
		"to be made, half written":         {"", "new", files{part: "n"}, files{"f": mode + "new"}, false},
		"to be made, linked":               {"", "new", files{part: "new", "f": "new"}, files{"f": mode + "new"}, false},
		"to be made, there is one":         {"", "new", files{part: "new", "f": "user"}, files{"f": mode + "user"}, true},
	} {
		for _, slow := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %v", name, slow), func(t *testing.T) {
				dir := t.TempDir()
				write(t, dir, tt.left)
				l := openLocal(t, dir)
				if slow {
					l.WithoutExchange()
				}
				step := objstore.Step{Change: change(t, tt.from, tt.to), Aside: aside, Again: true}
				err := l.Make(t.Context(), step, strings.NewReader(tt.to))
				if tt.conflict {
					var conflict *objstore.ConflictError
					require.ErrorAs(t, err, &conflict)
				} else {
					require.NoError(t, err)
				}
				if slow && name == "exchanged with an edit" {
					require.Contains(t, slices.Collect(maps.Values(read(t, dir))), mode+"user")
					return
				}
				require.Equal(t, tt.want, read(t, dir))
			})
		}
	}
}

// broken is a target that fails once, after some steps.
type broken struct {
	*objstore.Local
	after int
}

func (b *broken) Make(ctx context.Context, s objstore.Step, content io.Reader) error {
	if b.after--; b.after == -1 {
		return io.ErrUnexpectedEOF
	}
	return b.Local.Make(ctx, s, content)
}

func TestAnInterruptedApplyIsFinished(t *testing.T) {
	t.Parallel()
	from, to := files{"a": "1", "d/b": "2", "x/y/z": "3", "k": "4"}, files{"a": "5", "e/c": "6", "x": "7", "k": "4"}
	for after := range 7 {
		dir, other, home := t.TempDir(), t.TempDir(), t.TempDir()
		write(t, dir, from)
		write(t, other, to)
		s := openStore(t, home)
		log, err := s.OpenLog("l")
		require.NoError(t, err)
		a, b := take(t, s, dir), take(t, s, other)
		require.NoError(t, log.Append(t.Context(), objstore.Ref{Tree: a}))
		require.NoError(t, log.Append(t.Context(), objstore.Ref{Tree: b}))
		require.NoError(t, log.Close())
		l := openLocal(t, dir)
		_, err = s.Apply(t.Context(), &broken{l, after}, a, b, objstore.ApplyOptions{})
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		_, err = s.Apply(t.Context(), l, a, b, objstore.ApplyOptions{})
		require.ErrorIs(t, err, objstore.ErrUnfinished)
		// Nothing that is needed to finish is collected.
		require.NoError(t, s.RemoveLog("l"))
		again := openStore(t, home)
		_, err = again.Collect(t.Context(), nil)
		require.NoError(t, err)
		conflicts, found, err := again.Recover(t.Context(), l)
		require.NoError(t, err)
		require.True(t, found)
		require.Empty(t, conflicts)
		require.Equal(t, read(t, other), read(t, dir))
		_, found, err = again.Recover(t.Context(), l)
		require.NoError(t, err)
		require.False(t, found)
	}
}

func TestGitIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, files{".git/HEAD": "1", "sub/.git/HEAD": "1", "a": "1"})
	s := openStore(t, t.TempDir())
	a := take(t, s, dir)
	write(t, dir, files{".git/HEAD": "2", "sub/.git/HEAD": "2", "sub/.git/new": "2", "a": "2"})
	b := take(t, s, dir)
	require.Len(t, changes(t, s, a, b), 4)
	require.Empty(t, apply(t, s, dir, b, a, objstore.ApplyOptions{Leave: []string{".git"}}))
	got := read(t, dir)
	require.Equal(t, "-rw-r--r-- 1", got["a"])
	require.Equal(t, "-rw-r--r-- 2", got[".git/HEAD"])
	require.Contains(t, got, "sub/.git/new")
}

// volume is a target that goes with its process, and where nothing can be changed.
type volume struct{ *broken }

func (volume) ID() string { return "volume 1" }

// TestAChangeThatNobodyFinishesPinsNothing has changes of a volume and of a directory
// that are gone, and one of a directory that is there.
func TestAChangeThatNobodyFinishesPinsNothing(t *testing.T) {
	t.Parallel()
	home, dir, gone := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "gone")
	s := openStore(t, home)
	write(t, dir, files{"a": "1"})
	tree := take(t, s, dir)
	require.NoError(t, os.Mkdir(gone, 0o755))
	local, err := objstore.OpenLocal(gone)
	require.NoError(t, err)
	for _, target := range []objstore.Target{
		volume{&broken{Local: openLocal(t, t.TempDir())}}, &broken{Local: local}, &broken{Local: openLocal(t, dir)},
	} {
		_, err := s.Apply(t.Context(), target, tree, objstore.Tree{}, objstore.ApplyOptions{})
		require.Error(t, err)
	}
	s.Forget(tree)
	require.NoError(t, errors.Join(local.Close(), os.RemoveAll(gone)))
	unfinished := func() int {
		names, err := filepath.Glob(filepath.Join(home, "unfinished", "*.json"))
		require.NoError(t, err)
		locks, err := filepath.Glob(filepath.Join(home, "unfinished", "*.lock"))
		require.NoError(t, err)
		require.Len(t, locks, len(names))
		return len(names)
	}
	collect := func() (left int) {
		_, err := s.Collect(t.Context(), nil)
		require.NoError(t, err)
		return unfinished()
	}
	require.Equal(t, 3, collect(), "they may be finished yet")
	names, err := filepath.Glob(filepath.Join(home, "unfinished", "*"))
	require.NoError(t, err)
	old := time.Now().Add(-8 * 24 * time.Hour)
	for _, name := range names {
		require.NoError(t, os.Chtimes(name, old, old))
	}
	require.Equal(t, 1, collect())
	size, _ := s.Size()
	require.NotZero(t, size)
	_, found, err := s.Recover(t.Context(), openLocal(t, dir))
	require.NoError(t, err)
	require.True(t, found)
	require.Zero(t, collect())
	size, _ = s.Size()
	require.Zero(t, size)
}
