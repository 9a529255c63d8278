package tree_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/tree"
)

// duplicate copies the whole of a directory into another one.
func duplicate(ctx context.Context, t testing.TB, from, to string, o tree.ExtractOptions) error {
	return errOf(tree.Duplicate(ctx, openRoot(t, from), ".", openRoot(t, to), o, func(int64) {}))
}

// byArchive does the same in the other way.
func byArchive(_ context.Context, t testing.TB, from, to string, o tree.ExtractOptions) error {
	var b bytes.Buffer
	err := tree.Pack(&b, openRoot(t, from), ".", tree.PackOptions{Limits: o.Limits})
	if err != nil {
		return err
	}
	return extract(&b, openRoot(t, to), o)
}

// bothWays are the two ways to copy a tree.
var bothWays = map[string]func(context.Context, testing.TB, string, string, tree.ExtractOptions) error{
	"duplicate": duplicate, "archive": byArchive,
}

// describe tells everything about a tree that a copy keeps.
func describe(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		require.NoError(t, err)
		name, err := filepath.Rel(dir, path)
		require.NoError(t, err)
		switch found[name] = info.Mode().String(); {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			found[name] += fmt.Sprintf(" %d %x %s", len(data), sha256.Sum256(data), info.ModTime())
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			require.NoError(t, err)
			found[name] += " " + target
		}
		return nil
	}))
	return found
}

// fill makes a tree of many kinds of files, and returns its directory.
func fill(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	noise := rand.NewChaCha8([32]byte{1})
	write := func(name string, size int, mode fs.FileMode) {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		data := make([]byte, size)
		_, _ = noise.Read(data)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		require.NoError(t, os.Chmod(path, mode))
		then := time.Unix(1_500_000_000+int64(size), int64(size)*1000)
		require.NoError(t, os.Chtimes(path, then, then))
	}
	for _, size := range []int{0, 1, 511, 512, 513, 64<<10 - 1, 64 << 10, 64<<10 + 1, 1<<20 + 3, 20 << 20} {
		write(fmt.Sprintf("sizes/%d", size), size, 0o640)
	}
	for i := range 300 {
		write(fmt.Sprintf("many/d%d/f%d", i%20, i), i, 0o644)
	}
	for _, mode := range []fs.FileMode{0o400, 0o444, 0o600, 0o644, 0o664, 0o666, 0o700, 0o755, 0o777} {
		write(fmt.Sprintf("modes/%o", mode), 10, mode)
	}
	write(strings.TrimSuffix(strings.Repeat("deep/", 200), "/")+"/file", 5, 0o644)
	holes, err := os.Create(filepath.Join(dir, "holes"))
	require.NoError(t, err)
	_, err = holes.WriteAt([]byte("data"), 3<<20)
	require.NoError(t, err)
	require.NoError(t, holes.Truncate(9<<20))
	require.NoError(t, holes.Close())
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "empty", "er"), 0o755))
	require.NoError(t, os.Symlink("../../etc/passwd", filepath.Join(dir, "link")))
	return dir
}

func TestBothWaysToCopyMakeTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("copies a large tree many times")
	}
	from := fill(t)
	want := describe(t, from)
	for way, do := range bothWays {
		t.Run(way, func(t *testing.T) {
			for _, into := range []string{"", "new/directory"} {
				to := t.TempDir()
				require.NoError(t, do(t.Context(), t, from, to, tree.ExtractOptions{Into: into, Open: true}))
				require.Equal(t, want, describe(t, filepath.Join(to, into)))
			}
		})
	}
}

func TestADuplicateOfAFileGetsItsName(t *testing.T) {
	from, to := fill(t), t.TempDir()
	placed, err := tree.Duplicate(t.Context(), openRoot(t, from), "sizes/513", openRoot(t, to), tree.ExtractOptions{Into: "a/b", As: "c"}, func(int64) {})
	require.NoError(t, err)
	require.Equal(t, tree.Placed{Files: 1}, placed)
	require.FileExists(t, filepath.Join(to, "a", "b", "c"))
	_, err = tree.Duplicate(t.Context(), openRoot(t, from), "sizes", openRoot(t, to), tree.ExtractOptions{As: "c"}, func(int64) {})
	require.ErrorContains(t, err, "a directory now")
}

func TestTreesThatAreTooLargeLeaveNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("copies a large tree many times")
	}
	deep := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(deep, strings.Repeat("d/", 300)), 0o755))
	for way, do := range bothWays {
		for name, c := range map[string]struct {
			from   string
			limits tree.Limits
		}{
			"bytes": {fill(t), tree.Limits{Bytes: 15 << 20}},
			"files": {fill(t), tree.Limits{Entries: 100}},
			"depth": {deep, tree.Limits{}},
		} {
			t.Run(way+" "+name, func(t *testing.T) {
				to := t.TempDir()
				require.ErrorIs(t, do(t.Context(), t, c.from, to, tree.ExtractOptions{Limits: c.limits}), tree.ErrTooLarge)
				require.Empty(t, describe(t, to))
			})
		}
	}
}

func TestADuplicateEndsWithItsContextAtAnyMoment(t *testing.T) {
	if testing.Short() {
		t.Skip("copies a large tree twenty times")
	}
	from := fill(t)
	random := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		to, left := t.TempDir(), atomic.Int64{}
		left.Store(random.Int64N(25 << 20))
		ctx, cancel := context.WithCancel(t.Context())
		_, err := tree.Duplicate(ctx, openRoot(t, from), ".", openRoot(t, to), tree.ExtractOptions{}, func(n int64) {
			if left.Add(-n) <= 0 {
				cancel()
			}
		})
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
			require.Empty(t, describe(t, to))
		}
		cancel()
	}
}

// Whoever writes the files meanwhile decides what is copied, but no copy fails, and
// none is longer than the file was at some moment.
func TestFilesThatChangeAreCopiedNevertheless(t *testing.T) {
	if testing.Short() {
		t.Skip("copies for seconds while files change")
	}
	from := t.TempDir()
	sizes := []int64{0, 10, 64 << 10, 300 << 10, 9 << 20}
	for i := range 8 {
		require.NoError(t, os.WriteFile(filepath.Join(from, fmt.Sprint(i)), []byte("x"), 0o644))
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		random := rand.New(rand.NewPCG(5, 6))
		for {
			select {
			case <-stop:
				return
			default:
				_ = os.Truncate(filepath.Join(from, fmt.Sprint(random.IntN(8))), sizes[random.IntN(len(sizes))])
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	for way, do := range bothWays {
		for range 10 {
			to := t.TempDir()
			require.NoError(t, do(t.Context(), t, from, to, tree.ExtractOptions{}), way)
			require.Len(t, describe(t, to), 8)
			for i := range 8 {
				info, err := os.Stat(filepath.Join(to, fmt.Sprint(i)))
				require.NoError(t, err)
				require.Contains(t, append(sizes, 1), info.Size(), way)
			}
		}
	}
}

// Others exchange files and directories for links that lead out while they are copied.
func TestADuplicateTakesNothingFromOutside(t *testing.T) {
	if testing.Short() {
		t.Skip("copies for seconds while directories change")
	}
	outside, from := t.TempDir(), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(outside, "in"), 0o755))
	for _, name := range []string{"file", "in/file", "secret"} {
		require.NoError(t, os.WriteFile(filepath.Join(outside, name), []byte("secret"), 0o644))
	}
	const dirs = 30
	for i := range dirs {
		dir := filepath.Join(from, fmt.Sprintf("d%02d", i))
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "in"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("public"), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "in", "file"), []byte("public"), 0o644))
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		random := rand.New(rand.NewPCG(7, 8))
		for {
			select {
			case <-stop:
				return
			default:
			}
			base := []string{"", "in", "file", "in/file"}[random.IntN(4)]
			name := filepath.Join(from, fmt.Sprintf("d%02d", random.IntN(dirs)), base)
			if os.Rename(name, name+".away") != nil {
				continue
			}
			_ = os.Symlink(filepath.Join(outside, base), name)
			_ = os.Remove(name)
			_ = os.Rename(name+".away", name)
		}
	}()
	defer func() { close(stop); <-stopped }()
	for range 40 {
		to := t.TempDir()
		require.NoError(t, duplicate(t.Context(), t, from, to, tree.ExtractOptions{}))
		require.NoError(t, filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			require.NotEqual(t, "secret", d.Name())
			data, err := os.ReadFile(path)
			require.Equal(t, "public", string(data), path)
			return err
		}))
	}
}

// Several entries of an archive may have one name. The last one counts, whoever makes
// the files.
func TestOfEqualNamesTheLastCounts(t *testing.T) {
	if testing.Short() {
		t.Skip("unpacks many archives")
	}
	random := rand.New(rand.NewPCG(9, 10))
	for range 20 {
		var entries []entry
		want := map[string]string{}
		for i := range 400 {
			name := fmt.Sprintf("f%d", random.IntN(5))
			if random.IntN(4) == 0 {
				entries = append(entries, link(tar.TypeSymlink, name, fmt.Sprint(i)))
				want[name] = "-> " + fmt.Sprint(i)
				continue
			}
			content := strings.Repeat(fmt.Sprint(i, " "), 1+random.IntN(100))
			entries = append(entries, file(name, content))
			want[name] = content
		}
		for name := range want { // a directory takes the place of a file
			entries = append(entries, file(name+"/in", "in"))
			delete(want, name)
			want[name+"/in"] = "in"
			break
		}
		to := t.TempDir()
		placed, err := tree.Extract(bytes.NewReader(tarOf(t, entries...)), openRoot(t, to), tree.ExtractOptions{})
		require.NoError(t, err)
		require.Equal(t, len(want), placed.Files)
		for name, content := range want {
			got, err := os.Readlink(filepath.Join(to, name))
			if got = "-> " + got; err != nil {
				data, err := os.ReadFile(filepath.Join(to, name))
				require.NoError(t, err)
				got = string(data)
			}
			require.Equal(t, content, got, name)
		}
	}
}

// TestManyDirectoriesAreCopied copies many times as many directories as may be open.
func TestManyDirectoriesAreCopied(t *testing.T) {
	if testing.Short() {
		t.Skip("makes three thousand directories")
	}
	from := t.TempDir()
	for i := range 1000 {
		require.NoError(t, os.MkdirAll(filepath.Join(from, fmt.Sprintf("%d/%d", i%100, i)), 0o755))
	}
	allowDescriptors(t, 100)
	for way, do := range bothWays {
		to := t.TempDir()
		require.NoError(t, do(t.Context(), t, from, to, tree.ExtractOptions{}), way)
		require.Len(t, describe(t, to), 1100, way)
	}
}

// What appears where a copy is to make a directory is not followed.
func TestAFreshDirectoryIsNotALinkToAnother(t *testing.T) {
	from := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(from, "file"), []byte("new"), 0o644))
	for way, do := range bothWays {
		to := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(to, "other"), 0o755))
		require.NoError(t, os.Symlink("other", filepath.Join(to, "new")))
		require.NoError(t, do(t.Context(), t, from, to, tree.ExtractOptions{Into: "new", Fresh: true}), way)
		require.NoFileExists(t, filepath.Join(to, "other", "file"))
		require.FileExists(t, filepath.Join(to, "new", "file"))
	}
}

// A file that cannot be written ends the copy, whoever makes it.
func TestAnErrorOfOneFileEndsTheCopy(t *testing.T) {
	var entries []entry
	for i := range 500 {
		entries = append(entries, file(fmt.Sprintf("f%d", i), "content"))
	}
	entries = append(entries, entry{Header: tar.Header{Typeflag: tar.TypeDir, Name: "dir/"}}, file("dir", "content"))
	to := t.TempDir()
	err := extract(bytes.NewReader(tarOf(t, append(entries, entries[:500]...)...)), openRoot(t, to), tree.ExtractOptions{})
	require.ErrorContains(t, err, `unpack "dir": there is a directory in its place`)
	require.True(t, errors.Is(err, fs.ErrExist))
	require.Empty(t, describe(t, to))
}
