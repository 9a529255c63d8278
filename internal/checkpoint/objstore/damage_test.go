package objstore_test

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint/objstore"
)

func packOf(t *testing.T, home string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(home, "packs", "*.pack"))
	require.NoError(t, err)
	require.Len(t, names, 1)
	return names[0]
}

func TestADamagedPackIsRefusedWithWhatIsWrong(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, files{"a": "1", "b/c": strings.Repeat("words and ", 5000)})
	for name, tt := range map[string]struct {
		damage func(data []byte) []byte
		says   string
	}{
		"empty":             {func([]byte) []byte { return nil }, "0 bytes are no pack"},
		"cut":               {func(b []byte) []byte { return b[:len(b)-1] }, "its end tells of an index that it does not have"},
		"another file":      {func(b []byte) []byte { return append([]byte("x"), b...) }, "it does not begin as a pack"},
		"a bit of the tail": {func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, "the checksum of its index is wrong"},
		"a bit of a row":    {func(b []byte) []byte { b[len(b)-60] ^= 1; return b }, "the checksum of its index is wrong"},
		"a huge count":      {func(b []byte) []byte { b[len(b)-40] = 0xff; return b }, "its end tells of an index that it does not have"},
		"a huge offset":     {func(b []byte) []byte { b[len(b)-48] = 0xff; return b }, "its end tells of an index that it does not have"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			s := openStore(t, home)
			tree := take(t, s, dir)
			require.NoError(t, s.Close())
			file := packOf(t, home)
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file, tt.damage(data), 0o600))

			s = openStore(t, home)
			_, err = fs.ReadFile(s.FS(t.Context(), tree), "a")
			require.ErrorIs(t, err, objstore.ErrMissing)
			require.Len(t, s.Damaged(), 1)
			require.ErrorIs(t, s.Damaged()[0], objstore.ErrDamaged)
			require.ErrorContains(t, s.Damaged()[0], tt.says)
			// It is as good as new when the tree is taken again.
			require.Equal(t, tree, take(t, s, dir))
			got, err := fs.ReadFile(s.FS(t.Context(), tree), "a")
			require.NoError(t, err)
			require.Equal(t, "1", string(got))
		})
	}
}

func TestADamagedBlobIsNotPassedOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	noise := make([]byte, 3<<20)
	rand.NewChaCha8([32]byte{3}).Read(noise)
	write(t, dir, files{"a": string(noise), "b": strings.Repeat("words and ", 5000)})
	home := t.TempDir()
	s := openStore(t, home)
	tree := take(t, s, dir)
	file := packOf(t, home)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	for at := 20; at < len(data)-1000; at += len(data) / 40 {
		bad := bytes.Clone(data)
		bad[at] ^= 1
		require.NoError(t, os.WriteFile(file, bad, 0o600))
		s := openStore(t, home)
		var errs []error
		for _, name := range []string{"a", "b"} {
			got, err := fs.ReadFile(s.FS(t.Context(), tree), name)
			if err == nil {
				want, err := os.ReadFile(filepath.Join(dir, name))
				require.NoError(t, err)
				require.True(t, bytes.Equal(want, got))
				continue
			}
			errs = append(errs, err)
		}
		require.Len(t, errs, 1)
		require.ErrorIs(t, errs[0], objstore.ErrDamaged)
		require.NoError(t, s.Close())
	}
}

func TestADamagedLogIsToldAndNothingIsCollected(t *testing.T) {
	t.Parallel()
	dir, home := t.TempDir(), t.TempDir()
	write(t, dir, files{"a": "1"})
	s := openStore(t, home)
	log, err := s.OpenLog("l")
	require.NoError(t, err)
	tree := take(t, s, dir)
	for n := range int64(3) {
		require.NoError(t, log.Append(t.Context(), objstore.Ref{N: n, Tree: tree}))
	}
	require.NoError(t, log.Close())
	file := filepath.Join(home, "logs", "l.log")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	for cut := range len(data) / 3 {
		require.NoError(t, os.WriteFile(file, data[:len(data)-1-cut], 0o600))
		log, err := s.OpenLog("l")
		require.NoError(t, err)
		require.Len(t, log.Refs(), 2)
		require.NoError(t, log.Append(t.Context(), objstore.Ref{N: 9, Tree: tree}))
		require.Len(t, log.Refs(), 3)
		require.NoError(t, log.Close())
		refs, err := s.ReadLog("l")
		require.NoError(t, err)
		require.Equal(t, int64(9), refs[2].N)
	}
	data[5] = 0
	require.NoError(t, os.WriteFile(file, data, 0o600))
	_, err = s.OpenLog("l")
	require.ErrorIs(t, err, objstore.ErrDamaged)
	require.ErrorContains(t, err, `open log "l": damaged: line 1`)
	_, err = s.Collect(t.Context(), nil)
	require.ErrorIs(t, err, objstore.ErrDamaged)
	require.NoError(t, s.RemoveLog("l"))
	_, err = s.Collect(t.Context(), nil)
	require.NoError(t, err)
}

func TestAFullDiskLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	noise := make([]byte, 2<<20)
	rand.NewChaCha8([32]byte{4}).Read(noise)
	write(t, dir, files{"a": "1", "b": string(noise)})
	for _, after := range []int{0, 1000, 1 << 20, 2<<20 + 200} {
		home := t.TempDir()
		s := openStore(t, home)
		s.FailWrites(after, syscall.ENOSPC)
		l := openLocal(t, dir)
		var c objstore.Cache
		_, _, err := s.Take(t.Context(), l, &c, objstore.TakeOptions{Now: later})
		require.ErrorIs(t, err, syscall.ENOSPC)
		names, err := os.ReadDir(filepath.Join(home, "packs"))
		require.NoError(t, err)
		require.Empty(t, names)
		s.FailWrites(1<<30, nil)
		tree, report, err := s.Take(t.Context(), l, &c, objstore.TakeOptions{Now: later})
		require.NoError(t, err)
		require.Equal(t, 2, report.Read)
		got, err := fs.ReadFile(s.FS(t.Context(), tree), "b")
		require.NoError(t, err)
		require.True(t, bytes.Equal(noise, got))
	}
}

func TestAWriterThatFailsIsToldAsIs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, files{"a": "1"})
	s := openStore(t, t.TempDir())
	broken := errors.New("the disk is on fire")
	s.FailWrites(0, broken)
	_, _, err := s.Take(t.Context(), openLocal(t, dir), nil, objstore.TakeOptions{})
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "store tree: ")
}
