package objstore_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint/objstore"
	"github.com/x/pygent/internal/progress"
	"github.com/x/pygent/internal/treedir"
)

// shared is a directory that several goroutines can read. Of the names that end as
// refused says, the reading fails.
type shared struct {
	alone
	readers *atomic.Int64
}

func (s shared) Reader() treedir.Reader {
	s.readers.Add(1)
	return refusing{s.local.Reader(), s.refused, s.failure}
}

// alone is one that a single goroutine reads.
type alone struct {
	local   *objstore.Local
	refused string
	failure error // of a whole reading that comes to such a name; nil for none
}

func (a alone) Scan(ctx context.Context, yield func(objstore.Entry) error) error {
	return a.local.Scan(ctx, yield)
}

func (a alone) Read(ctx context.Context, names iter.Seq[string], yield func(string, objstore.Opened, error) error) error {
	return refusing{a.local, a.refused, a.failure}.Read(ctx, names, yield)
}

type refusing struct {
	treedir.Reader
	refused string
	failure error
}

func (r refusing) Read(ctx context.Context, names iter.Seq[string], yield func(string, objstore.Opened, error) error) error {
	return r.Reader.Read(ctx, names, func(name string, f objstore.Opened, err error) error {
		switch {
		case !strings.HasSuffix(name, r.refused):
			return yield(name, f, err)
		case r.failure != nil:
			return r.failure
		}
		return yield(name, nil, fs.ErrPermission)
	})
}

// manyFiles makes 1,000 small files in directories, with some that are large or empty,
// or have the content of another one.
func manyFiles(t *testing.T) (dir string) {
	dir = t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 1000 {
		content := fmt.Sprint(random.Uint64())
		switch {
		case i%10 == 3:
			content = "the same"
		case i%10 == 4:
			content = ""
		case i%250 == 5:
			content = strings.Repeat(content, 150_000)
		}
		write(t, dir, files{fmt.Sprintf("d%02d/f%03d", i%20, i): content})
	}
	return dir
}

func TestSeveralReadersTakeTheSameTree(t *testing.T) {
	dir := manyFiles(t)
	one, several := openStore(t, t.TempDir()), openStore(t, t.TempDir())
	source := alone{local: openLocal(t, dir), refused: "7"}
	var c, d objstore.Cache
	want, wanted, err := one.Take(t.Context(), source, &c, objstore.TakeOptions{Now: later})
	require.NoError(t, err)
	require.Len(t, wanted.LeftOut, 100)

	readers := new(atomic.Int64)
	got, report, err := several.Take(t.Context(), shared{source, readers}, &d, objstore.TakeOptions{Now: later})
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, int64(3), readers.Load(), "four goroutines read")
	require.Equal(t, wanted, report)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "d00/f000"), []byte("new"), 0o600))
	_, report, err = several.Take(t.Context(), shared{source, readers}, &d, objstore.TakeOptions{Now: later})
	require.NoError(t, err)
	require.Equal(t, 101, report.Read, "one is new, and 100 could not be read")

	out := t.TempDir()
	require.Empty(t, apply(t, several, out, objstore.Tree{}, got, objstore.ApplyOptions{}))
	for _, name := range []string{"d00/f020", "d03/f003", "d05/f005", "d14/f014"} {
		was, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		is, err := os.ReadFile(filepath.Join(out, name))
		require.NoError(t, err)
		require.Equal(t, was, is, name)
	}
}

func TestAnErrorOfOneReaderEndsAll(t *testing.T) {
	s, failure := openStore(t, t.TempDir()), errors.New("the disk is gone")
	source := shared{alone{openLocal(t, manyFiles(t)), "f999", failure}, new(atomic.Int64)}
	_, _, err := s.Take(t.Context(), source, nil, objstore.TakeOptions{Now: later})
	require.ErrorIs(t, err, failure)

	source.refused = "none"
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	source.readers.Store(0)
	_, _, err = s.Take(ctx, stoppedAt{source, func() { cancel(stopped) }}, nil, objstore.TakeOptions{Now: later})
	require.ErrorIs(t, err, stopped)
	_, packs := s.Size()
	require.Zero(t, packs)
}

// stoppedAt calls stop when another reader is wanted.
type stoppedAt struct {
	shared
	stop func()
}

func (s stoppedAt) Reader() treedir.Reader {
	s.stop()
	return s.shared.Reader()
}

func TestPermissionsOfAllKindsAreTrusted(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, files{"plain": "1", "setuid": "2", "setgid": "3", "sticky": "4"})
	for name, mode := range map[string]fs.FileMode{"plain": 0o640, "setuid": 0o755 | fs.ModeSetuid, "setgid": 0o755 | fs.ModeSetgid, "sticky": 0o600 | fs.ModeSticky} {
		require.NoError(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	s := openStore(t, t.TempDir())
	var c objstore.Cache
	_, report := takeWith(t, s, dir, &c)
	require.Equal(t, 4, report.Read)
	_, report = takeWith(t, s, dir, &c)
	require.Zero(t, report.Read)
}

func TestTakeCountsWhatItHasDone(t *testing.T) {
	dir, s := manyFiles(t), openStore(t, t.TempDir())
	var c objstore.Cache
	const all = 1020 // with the directories
	for _, first := range []bool{true, false} {
		var told []int64
		ctx := progress.With(t.Context(), func(done, total int64) {
			require.Equal(t, int64(all), total)
			told = append(told, done)
		})
		_, _, err := s.Take(ctx, openLocal(t, dir), &c, objstore.TakeOptions{Now: later})
		require.NoError(t, err)
		require.True(t, slices.IsSorted(told))
		require.Equal(t, int64(all), told[len(told)-1])
		require.Equal(t, first, slices.Contains(told, 500), "each file that is read counts")
	}
}
