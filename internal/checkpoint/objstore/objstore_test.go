package objstore_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/x/pygent/internal/checkpoint/objstore"
)

func TestMain(m *testing.M) {
	if child := os.Getenv("PYGENT_STORE_CHILD"); child != "" {
		runChild(child)
		return
	}
	goleak.VerifyTestMain(m)
}

// later is a clock by which all files are old enough to be trusted.
func later() time.Time { return time.Now().Add(time.Hour) }

func openStore(t testing.TB, dir string) *objstore.Store {
	t.Helper()
	s, err := objstore.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func openLocal(t testing.TB, dir string) *objstore.Local {
	t.Helper()
	l, err := objstore.OpenLocal(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func take(t testing.TB, s *objstore.Store, dir string) objstore.Tree {
	t.Helper()
	tree, _ := takeWith(t, s, dir, nil)
	return tree
}

func takeWith(t testing.TB, s *objstore.Store, dir string, c *objstore.Cache) (objstore.Tree, objstore.Report) {
	t.Helper()
	l := openLocal(t, dir)
	tree, report, err := s.Take(t.Context(), l, c, objstore.TakeOptions{Now: later})
	require.NoError(t, err)
	return tree, report
}

func apply(t testing.TB, s *objstore.Store, dir string, from, to objstore.Tree, o objstore.ApplyOptions) []objstore.Conflict {
	t.Helper()
	conflicts, err := s.Apply(t.Context(), openLocal(t, dir), from, to, o)
	require.NoError(t, err)
	return conflicts
}

// files are files by name: a name that ends in "/" is an empty directory, and a
// content that begins with "->" is a link.
type files map[string]string

func write(t testing.TB, dir string, f files) {
	t.Helper()
	for name, content := range f {
		at := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			require.NoError(t, os.MkdirAll(at, 0o755))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))
		if target, ok := strings.CutPrefix(content, "->"); ok {
			require.NoError(t, os.Symlink(target, at))
			continue
		}
		require.NoError(t, os.WriteFile(at, []byte(content), 0o644))
	}
}

// read describes all that is in a directory.
func read(t testing.TB, dir string) files {
	t.Helper()
	f := files{}
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := d.Info()
		require.NoError(t, err)
		rel, _ := filepath.Rel(dir, name)
		switch {
		case d.IsDir():
			f[rel+"/"] = info.Mode().Perm().String()
		case info.Mode().Type() == fs.ModeSymlink:
			target, err := os.Readlink(name)
			require.NoError(t, err)
			f[rel] = "->" + target
		default:
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			f[rel] = info.Mode().Perm().String() + " " + string(data)
		}
		return nil
	}))
	return f
}

func changes(t testing.TB, s *objstore.Store, a, b objstore.Tree) (names []string) {
	t.Helper()
	for c, err := range s.Diff(t.Context(), a, b) {
		require.NoError(t, err)
		sign := "~"
		if c.Old.Kind == objstore.None {
			sign = "+"
		} else if c.New.Kind == objstore.None {
			sign = "-"
		}
		names = append(names, sign+c.Name)
	}
	return names
}

func TestATreeIsRestoredAsItWas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	big := make([]byte, 5<<20+17)
	rand.NewChaCha8([32]byte{1}).Read(big)
	write(t, dir, files{
		"a.txt": "a", "empty": "", "dir/b.txt": "b", "dir/sub/c": "c", "hollow/": "", "link": "->dir/b.txt", "away": "->/etc/passwd", "dead": "->nowhere",
		"big": string(big), "exact": string(big[:objstore.ChunkSize]), "two": string(big[:2*objstore.ChunkSize]), "line\nbreak \xff": "odd", "zeros": string(make([]byte, 3<<20)),
	})
	require.NoError(t, os.Chmod(filepath.Join(dir, "a.txt"), 0o750))
	require.NoError(t, os.Chmod(filepath.Join(dir, "dir/sub"), 0o550))
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "dir/sub"), 0o755) })
	old := time.Unix(1_000_000, 5)
	require.NoError(t, os.Chtimes(filepath.Join(dir, "a.txt"), old, old))

	home := t.TempDir()
	s := openStore(t, home)
	tree, report := takeWith(t, s, dir, nil)
	require.Empty(t, report.LeftOut)
	require.Equal(t, 15, report.Files)

	copied := t.TempDir()
	t.Cleanup(func() { os.Chmod(filepath.Join(copied, "dir/sub"), 0o755) })
	require.Empty(t, apply(t, s, copied, objstore.Tree{}, tree, objstore.ApplyOptions{Times: true}))
	require.Equal(t, read(t, dir), read(t, copied))
	info, err := os.Stat(filepath.Join(copied, "a.txt"))
	require.NoError(t, err)
	require.True(t, info.ModTime().Equal(old))
	require.Empty(t, changes(t, s, tree, take(t, s, copied)))

	// Another process reads the same.
	again := openStore(t, home)
	data, err := fs.ReadFile(again.FS(t.Context(), tree), "big")
	require.NoError(t, err)
	require.True(t, bytes.Equal(big, data))
}

func TestFSIsOneOfTheStandardLibrary(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, files{"a.txt": "a", "dir/b.txt": strings.Repeat("b", objstore.ChunkSize+9), "dir/sub/": ""})
	s := openStore(t, t.TempDir())
	fsys := s.FS(t.Context(), take(t, s, dir))
	require.NoError(t, fstest.TestFS(fsys, "a.txt", "dir/b.txt", "dir/sub"))
	for _, name := range []string{"b.txt", "a.txt/x", "dir/sub/x"} {
		_, err := fs.Stat(fsys, name)
		require.ErrorIs(t, err, fs.ErrNotExist, name)
	}
	for _, name := range []string{"../a.txt", "/a.txt", "dir//b.txt", "", "dir/", "dir/./b.txt"} {
		_, err := fsys.Open(name)
		require.ErrorIs(t, err, fs.ErrInvalid, name)
	}
}

func TestLinksAreNotFollowedOutOfATree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, files{"away": "->/etc/passwd"})
	s := openStore(t, t.TempDir())
	fsys := s.FS(t.Context(), take(t, s, dir))
	_, err := fsys.Open("away")
	require.ErrorContains(t, err, "not followed")
	target, err := fs.ReadLink(fsys, "away")
	require.NoError(t, err)
	require.Equal(t, "/etc/passwd", target)
}

func TestUnchangedFilesAreNotReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, files{"a": "1", "b/c": "2", "b/d": "3"})
	s := openStore(t, t.TempDir())
	var c objstore.Cache
	first, report := takeWith(t, s, dir, &c)
	require.Equal(t, 3, report.Read)
	require.NotZero(t, report.Stored)
	second, report := takeWith(t, s, dir, &c)
	require.Equal(t, first, second)
	require.Zero(t, report.Read)
	require.Zero(t, report.Stored)
	write(t, dir, files{"b/c": "4", "b/new": "5"})
	third, report := takeWith(t, s, dir, &c)
	require.Equal(t, 2, report.Read)
	require.Equal(t, []string{"~b/c", "+b/new"}, changes(t, s, first, third))
	require.Equal(t, []string{"~b/c", "-b/new"}, changes(t, s, third, first))
}

func TestFilesOfJustNowAreReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, files{"a": "1"})
	s := openStore(t, t.TempDir())
	l := openLocal(t, dir)
	var c objstore.Cache
	for _, tt := range []struct {
		age  time.Duration
		read int
	}{{0, 1}, {30 * time.Second, 1}, {40 * time.Second, 1}, {50 * time.Second, 0}, {-time.Hour, 0}} {
		_, report, err := s.Take(t.Context(), l, &c, objstore.TakeOptions{Now: func() time.Time { return time.Now().Add(tt.age) }})
		require.NoError(t, err)
		require.Equal(t, tt.read, report.Read, tt.age)
	}
	// A change that leaves size and time as they were is seen by the change time.
	info, err := os.Stat(filepath.Join(dir, "a"))
	require.NoError(t, err)
	write(t, dir, files{"a": "2"})
	require.NoError(t, os.Chtimes(filepath.Join(dir, "a"), info.ModTime(), info.ModTime()))
	tree, report := takeWith(t, s, dir, &c)
	require.Equal(t, 1, report.Read)
	data, err := fs.ReadFile(s.FS(t.Context(), tree), "a")
	require.NoError(t, err)
	require.Equal(t, "2", string(data))
}

func TestWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	large := strings.Repeat("x", 1<<20+1)
	write(t, dir, files{
		".gitignore": "*.log\n/out/\n!keep.log\n", ".env": "secret", "sub/.gitignore": "!*.log\nbuilt\n**/deep/*.bin\n",
		"small.log": "1", "large.log": large, "keep.log": large, "sub/large.log": large,
		"out/a": "1", "sub/out/a": "1", "sub/built/a": "1", "node_modules/m/a": "1", ".venv/a": "1",
		"rust/Cargo.toml": "", "rust/target/a": "1", "target/a": "1", "sub/x/y/deep/l.bin": large, ".git/HEAD": "ref", "sub/deep/l.bin": large,
	})
	s := openStore(t, t.TempDir())
	tree, report := takeWith(t, s, dir, nil)
	var left []string
	for _, l := range report.LeftOut {
		left = append(left, l.Name+": "+l.Why)
	}
	require.Equal(t, []string{
		".venv: other programs fill it", "large.log: ignored, and larger than 1 MiB", "node_modules: other programs fill it", "out: ignored",
		"rust/target: other programs fill it", "sub/built: ignored", "sub/deep/l.bin: ignored, and larger than 1 MiB", "sub/x/y/deep/l.bin: ignored, and larger than 1 MiB",
	}, left)
	for _, name := range []string{".env", "small.log", "keep.log", "sub/large.log", "sub/out/a", "target/a", ".git/HEAD"} {
		_, err := fs.Stat(s.FS(t.Context(), tree), name)
		require.NoError(t, err, name)
	}

	// What was left out is never removed: neither when it was in the other tree,
	// nor when its directory goes.
	before := read(t, dir)
	write(t, dir, files{".gitignore": "*.log\n"})
	with := take(t, s, dir)
	require.Equal(t, []string{"~.gitignore"}, changes(t, s, tree, with))
	require.Empty(t, apply(t, s, dir, with, tree, objstore.ApplyOptions{}))
	require.Equal(t, before, read(t, dir))
	conflicts := apply(t, s, dir, tree, objstore.Tree{}, objstore.ApplyOptions{Leave: []string{".git"}})
	require.Equal(t, []objstore.Conflict{{Name: "rust", Why: "something else is in it"}, {Name: "sub/deep", Why: "something else is in it"},
		{Name: "sub/x/y/deep", Why: "something else is in it"}, {Name: "sub/x/y", Why: "something else is in it"}, {Name: "sub/x", Why: "something else is in it"},
		{Name: "sub", Why: "something else is in it"}}, conflicts)
	require.Contains(t, read(t, dir), "node_modules/m/a")
	require.Contains(t, read(t, dir), "sub/built/a")
	require.Contains(t, read(t, dir), ".git/HEAD")
}

// Whatever .gitignore files say, and however branches are called, a repository is whole.
func TestNothingOfGitIsLeftOut(t *testing.T) {
	t.Parallel()
	const node = "logs\n*.log\nnpm-debug.log*\n*.pack\ntags\n.cache\ndist\n"
	large := strings.Repeat("x", 1<<20+1)
	for name, ignore := range map[string]string{
		"everything": "*\n", "everything below": "/**\n", "Node's": node, "by path": "/.git/\n.git/refs/\n.git/objects/**\n", "twice": "*\n!.gitignore\n!.git\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			of := files{"HEAD": "ref: refs/heads/node_modules/x\n", "logs/HEAD": "1", "logs/refs/heads/node_modules/x": "1", "refs/tags/v1": "1",
				"refs/heads/node_modules/x": "1", "refs/heads/target/x": "1", "refs/heads/.venv/x": "1", "refs/heads/__pycache__/x": "1",
				"refs/heads/Cargo.toml": "1", "objects/pack/p.pack": large, "modules/tags/HEAD": "1", "modules/tags/objects/a.pack": large, "large.log": large}
			all := files{}
			for name, text := range of {
				all[".git/"+name], all["sub/.git/"+name] = text, text
			}
			write(t, dir, all)
			write(t, dir, files{".gitignore": ignore + "!sub\n", "sub/.gitignore": ignore, "Cargo.toml": "", ".git/.gitignore": "*\n", "sub/f": "1"})
			s := openStore(t, t.TempDir())
			tree, report := takeWith(t, s, dir, nil)
			require.Empty(t, report.LeftOut)
			for name, text := range all {
				got, err := fs.ReadFile(s.FS(t.Context(), tree), name)
				require.NoError(t, err, name)
				require.Equal(t, text, string(got), name)
			}
		})
	}
}

func TestGrowthOfATurn(t *testing.T) {
	if testing.Short() {
		t.Skip("makes thousands of files")
	}
	t.Parallel()
	dir := t.TempDir()
	for i := range 2000 {
		write(t, dir, files{fmt.Sprintf("d%d/e%d/f%d", i%10, i%100, i): strings.Repeat(fmt.Sprintln("line", i), 200)})
	}
	s := openStore(t, t.TempDir())
	var c objstore.Cache
	takeWith(t, s, dir, &c)
	for i := range 10 {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf("d%d/e%d/f%d", i, i, i+100)), os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		fmt.Fprintln(f, "one more")
		require.NoError(t, f.Close())
	}
	_, report := takeWith(t, s, dir, &c)
	require.Equal(t, 10, report.Read)
	require.Less(t, report.Stored, int64(100<<10))
	require.NotZero(t, report.Stored)
}

func TestALineMoreOfALargeFileIsOnePartMore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := make([]byte, 20<<20)
	rand.NewChaCha8([32]byte{2}).Read(data)
	write(t, dir, files{"log": string(data)})
	s := openStore(t, t.TempDir())
	take(t, s, dir)
	write(t, dir, files{"log": string(data) + "line\n"})
	_, report := takeWith(t, s, dir, nil)
	require.Less(t, report.Stored, int64(2<<20))
}
