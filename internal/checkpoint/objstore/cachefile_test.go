package objstore_test

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint/objstore"
)

// needsInodes skips a test of a cache that another session has kept.
func needsInodes(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("a kept cache counts only where files have inodes")
	}
}

func TestAKeptCacheSavesReading(t *testing.T) {
	needsInodes(t)
	t.Parallel()
	base, dir := t.TempDir(), t.TempDir()
	write(t, dir, files{"a": "one", "d/b": "two", "d.x": "three", "d/\xff": "four", "l": "->a", "empty/": ""})
	s := openStore(t, filepath.Join(base, "store"))
	log, err := s.OpenLog("log")
	require.NoError(t, err)
	c := s.LoadCache(dir)
	tree, report := takeWith(t, s, dir, c)
	require.Equal(t, 4, report.Read)
	require.NoError(t, log.Append(t.Context(), objstore.Ref{N: 1, Tree: tree}))
	require.NoError(t, s.SaveCache("log", dir, c))
	require.NoError(t, log.Close())

	next := openStore(t, filepath.Join(base, "store"))
	write(t, dir, files{"a": "1"})
	changed, report := takeWith(t, next, dir, next.LoadCache(dir))
	require.Equal(t, 1, report.Read)
	require.Equal(t, []string{"~a"}, changes(t, next, tree, changed))
	next.Forget(changed)
	_, report = takeWith(t, next, dir, next.LoadCache(dir+"/other"))
	require.Equal(t, 4, report.Read, "another directory")

	file := filepath.Join(base, "store", "logs", "log.cache")
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	for i := range whole {
		damaged := append([]byte(nil), whole...)
		damaged[i] ^= 1
		require.NoError(t, os.WriteFile(file, damaged, 0o600))
		_, report = takeWith(t, next, dir, next.LoadCache(dir))
		require.Equal(t, 4, report.Read, "byte %d", i)
	}
	require.NoError(t, next.RemoveLog("log"))
	left, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	require.Empty(t, left)
	require.ErrorContains(t, s.SaveCache(strings.Repeat("/", 3), dir, c), "cannot be the name of a log")
}

// withoutInodes is a directory of a system that knows no more of a file than its time.
type withoutInodes struct{ local *objstore.Local }

func (d withoutInodes) Scan(ctx context.Context, yield func(objstore.Entry) error) error {
	return d.local.Scan(ctx, func(e objstore.Entry) error { return yield(withoutInode(e)) })
}

func (d withoutInodes) Read(ctx context.Context, names iter.Seq[string], yield func(string, objstore.Opened, error) error) error {
	return d.local.Read(ctx, names, func(name string, f objstore.Opened, err error) error {
		return yield(name, openedWithoutInode{f}, err)
	})
}

type openedWithoutInode struct{ objstore.Opened }

func (o openedWithoutInode) Stat() (objstore.Entry, error) {
	e, err := o.Opened.Stat()
	return withoutInode(e), err
}

func withoutInode(e objstore.Entry) objstore.Entry {
	e.Inode, e.ChangeTime = 0, e.ModTime
	return e
}

func TestFilesThatCannotBeToldApartAreReadAgainByTheNextSession(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, files{"a": "one", "d/b": "two"})
	s, source, c := openStore(t, t.TempDir()), withoutInodes{openLocal(t, dir)}, new(objstore.Cache)
	for _, read := range []int{2, 0} {
		_, report, err := s.Take(t.Context(), source, c, objstore.TakeOptions{Now: later})
		require.NoError(t, err)
		require.Equal(t, read, report.Read)
	}
	require.NoError(t, s.SaveCache("log", dir, c))
	_, report, err := s.Take(t.Context(), source, s.LoadCache(dir), objstore.TakeOptions{Now: later})
	require.NoError(t, err)
	require.Equal(t, 2, report.Read)
}

func TestTheLastCacheOfADirectoryCounts(t *testing.T) {
	needsInodes(t)
	t.Parallel()
	base, dir, other := t.TempDir(), t.TempDir(), t.TempDir()
	s := openStore(t, filepath.Join(base, "store"))
	kept := func(log, dir string, when time.Time) {
		l, err := s.OpenLog(log)
		require.NoError(t, err)
		defer l.Close()
		c := s.LoadCache(dir)
		tree, _ := takeWith(t, s, dir, c)
		require.NoError(t, l.Append(t.Context(), objstore.Ref{N: 1, Tree: tree}))
		require.NoError(t, s.SaveCache(log, dir, c))
		require.NoError(t, os.Chtimes(filepath.Join(base, "store", "logs", log+".cache"), when, when))
	}
	read := func() int {
		_, report := takeWith(t, s, dir, s.LoadCache(dir))
		return report.Read
	}
	now := time.Now()
	write(t, dir, files{"a": "1", "b": "2", "c": "3"})
	write(t, other, files{"a": "1"})
	kept("first", dir, now.Add(-time.Minute))
	kept("elsewhere", other, now)
	write(t, dir, files{"a": "new"})
	require.Equal(t, 1, read())
	kept("second", dir, now.Add(-time.Second))
	require.Zero(t, read())
	require.NoError(t, os.WriteFile(filepath.Join(base, "store", "logs", "second.cache"), []byte("damaged"), 0o600))
	require.Equal(t, 1, read(), "the one before it")
	require.NoError(t, s.RemoveLog("first"))
	require.Equal(t, 3, read())
}

// Each session keeps one, and only the last is read.
func TestTheCachesOfADirectoryDoNotAddUp(t *testing.T) {
	t.Parallel()
	base, dir, other := t.TempDir(), t.TempDir(), t.TempDir()
	s := openStore(t, base)
	write(t, dir, files{"a": "1"})
	save := func(log, dir string, age int) {
		c := s.LoadCache(dir)
		tree, _ := takeWith(t, s, dir, c)
		s.Forget(tree)
		require.NoError(t, s.SaveCache(log, dir, c))
		then := time.Now().Add(-time.Duration(age) * time.Minute)
		require.NoError(t, os.Chtimes(filepath.Join(base, "logs", log+".cache"), then, then))
	}
	save("other", other, 99)
	for i := range 9 {
		save(fmt.Sprintf("log%d", i), dir, 50-i)
	}
	left, err := fs.Glob(os.DirFS(filepath.Join(base, "logs")), "*.cache")
	require.NoError(t, err)
	require.Equal(t, []string{"log6.cache", "log7.cache", "log8.cache", "other.cache"}, left)
	_, report := takeWith(t, s, dir, s.LoadCache(dir))
	require.Zero(t, report.Read)
}

func TestACacheKnowsTheDirectoriesThatWereTaken(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, files{".git/HEAD": "ref", ".git/refs/heads/main": "1", "a/b/c": "2", "a.b": "3", "z": "->a"})
	s := openStore(t, t.TempDir())
	c := s.LoadCache(dir)
	require.True(t, c.Dir(".git").IsZero(), "nothing was taken")
	takeWith(t, s, dir, c)
	for name, file := range map[string]string{".git": "HEAD", ".git/refs": "heads/main", "a": "b/c", "a/b": "c"} {
		_, err := fs.Stat(s.FS(t.Context(), c.Dir(name)), file)
		require.NoError(t, err, name)
	}
	for _, name := range []string{"a.b", "z", "none", "", "a/"} {
		require.True(t, c.Dir(name).IsZero(), name)
	}
}

// What a cache says of a file may be true when only a part of the file is still stored:
// nobody kept the tree that it is of, and the parts were in another pack.
func TestAFileOfWhichPartsWereCollectedIsReadAgain(t *testing.T) {
	t.Parallel()
	dir, away := t.TempDir(), filepath.Join(t.TempDir(), "d")
	random := rand.NewChaCha8([32]byte{3})
	piece := func(chunks int) string {
		data := make([]byte, chunks*objstore.ChunkSize)
		_, _ = random.Read(data)
		return string(data)
	}
	s := openStore(t, t.TempDir())
	var c objstore.Cache
	large := piece(2)
	write(t, dir, files{"d/large": large})
	before, _ := takeWith(t, s, dir, &c)
	large += "more"
	write(t, dir, files{"d/large": large, "other": piece(4)})
	unkept, _ := takeWith(t, s, dir, &c)

	require.NoError(t, os.Rename(filepath.Join(dir, "d"), away)) // which changes no time of the file
	log, err := s.OpenLog("log")
	require.NoError(t, err)
	defer log.Close()
	tree := take(t, s, dir)
	require.NoError(t, log.Append(t.Context(), objstore.Ref{N: 1, Tree: tree}))
	s.Forget(before)
	s.Forget(unkept)
	freed, err := s.Collect(t.Context(), nil)
	require.NoError(t, err)
	require.Greater(t, freed, int64(2*objstore.ChunkSize), "the first two parts")
	require.Less(t, freed, int64(3*objstore.ChunkSize), "and not the pack of the list of them")

	require.NoError(t, os.Rename(away, filepath.Join(dir, "d")))
	require.NoError(t, s.SaveCache("log", dir, &c))
	again, report := takeWith(t, s, dir, s.LoadCache(dir))
	data, err := fs.ReadFile(s.FS(t.Context(), again), "d/large")
	require.NoError(t, err)
	require.Equal(t, large, string(data))
	require.Equal(t, 1, report.Read, "the other is whole")
}
