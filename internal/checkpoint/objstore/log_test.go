package objstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint/objstore"
)

func TestALogKeepsItsTrees(t *testing.T) {
	t.Parallel()
	dir, home := t.TempDir(), t.TempDir()
	s := openStore(t, home)
	log, err := s.OpenLog("one")
	require.NoError(t, err)
	defer log.Close()
	_, err = openStore(t, home).OpenLog("one")
	require.ErrorIs(t, err, objstore.ErrInUse)
	require.ErrorIs(t, s.RemoveLog("one"), objstore.ErrInUse)

	changing := func(n int64) string { // most of a pack, so that it is written anew without it
		noise := make([]byte, 200_000)
		rand.NewChaCha8([32]byte{byte(n)}).Read(noise)
		return string(noise)
	}
	var trees []objstore.Tree
	for n := range int64(5) {
		write(t, dir, files{"same": strings.Repeat("s", 10_000), "changing": changing(n), "large": strings.Repeat("l", int(n)<<20)})
		tree := take(t, s, dir)
		_, err := s.Collect(t.Context(), nil)
		require.ErrorIs(t, err, objstore.ErrInUse, "a tree that is in no log yet could be collected")
		require.NoError(t, log.Append(t.Context(), objstore.Ref{N: n, Tree: tree, Offset: 10 * n, Data: json.RawMessage(`{"a":1}`)}))
		trees = append(trees, tree)
	}
	freed, err := s.Collect(t.Context(), nil)
	require.NoError(t, err)
	require.Zero(t, freed)

	refs := log.Refs()
	require.NoError(t, log.Replace(t.Context(), refs[3:]))
	freed, err = s.Collect(t.Context(), slices.Values(trees[:1]))
	require.NoError(t, err)
	require.NotZero(t, freed)
	for n, tree := range trees {
		data, err := fs.ReadFile(s.FS(t.Context(), tree), "changing")
		if n == 1 || n == 2 {
			require.ErrorIs(t, err, objstore.ErrMissing)
			require.ErrorIs(t, log.Append(t.Context(), objstore.Ref{Tree: tree}), objstore.ErrMissing)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, changing(int64(n)), string(data))
	}
	got, err := openStore(t, home).ReadLog("one")
	require.NoError(t, err)
	require.Equal(t, refs[3:], got)
	names, err := s.Logs()
	require.NoError(t, err)
	require.Equal(t, []string{"one"}, names)

	require.NoError(t, log.Close())
	require.NoError(t, s.RemoveLog("one"))
	_, err = s.Collect(t.Context(), nil)
	require.NoError(t, err)
	size, packs := s.Size()
	require.Zero(t, size)
	require.Zero(t, packs)
}

func TestManySmallPacksBecomeOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, t.TempDir())
	log, err := s.OpenLog("l")
	require.NoError(t, err)
	defer log.Close()
	for n := range int64(40) {
		write(t, dir, files{fmt.Sprint(n): fmt.Sprint(n)})
		require.NoError(t, log.Append(t.Context(), objstore.Ref{N: n, Tree: take(t, s, dir)}))
	}
	_, packs := s.Size()
	require.Equal(t, 40, packs)
	_, err = s.Collect(t.Context(), nil)
	require.NoError(t, err)
	_, packs = s.Size()
	require.Equal(t, 1, packs)
	for _, ref := range log.Refs() {
		data, err := fs.ReadFile(s.FS(t.Context(), ref.Tree), fmt.Sprint(ref.N))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(ref.N), string(data))
	}
}

func TestNamesOfLogs(t *testing.T) {
	t.Parallel()
	s := openStore(t, t.TempDir())
	for _, name := range []string{"", "a/b", "..", "a.b", "a\n", "é", strings.Repeat("a", 129)} {
		_, err := s.OpenLog(name)
		require.ErrorContains(t, err, "cannot be the name of a log", name)
	}
	_, err := s.ReadLog("missing")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorIs(t, s.RemoveLog("missing"), fs.ErrNotExist)
}

func TestSeveralStoresOfOneDirectory(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	var group sync.WaitGroup
	errs := make([]error, 4)
	dirs := make([]string, len(errs))
	for i := range errs {
		dirs[i] = t.TempDir()
		write(t, dirs[i], files{"shared": strings.Repeat("x", 100_000), "own": fmt.Sprint(i)})
		group.Go(func() { errs[i] = takeAndCollect(t.Context(), home, dirs[i], fmt.Sprint("log", i)) })
	}
	group.Wait()
	require.NoError(t, errors.Join(errs...))
	s := openStore(t, home)
	for i := range errs {
		refs, err := s.ReadLog(fmt.Sprint("log", i))
		require.NoError(t, err)
		require.Len(t, refs, 20)
		for n, ref := range refs {
			data, err := fs.ReadFile(s.FS(t.Context(), ref.Tree), "turn")
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(n), string(data))
		}
	}
}

func takeAndCollect(ctx context.Context, home, dir, name string) error {
	s, err := objstore.Open(home)
	if err != nil {
		return err
	}
	defer s.Close()
	l, err := objstore.OpenLocal(dir)
	if err != nil {
		return err
	}
	defer l.Close()
	log, err := s.OpenLog(name)
	if err != nil {
		return err
	}
	defer log.Close()
	for n := range int64(20) {
		if err := os.WriteFile(filepath.Join(dir, "turn"), []byte(fmt.Sprint(n)), 0o600); err != nil {
			return err
		}
		tree, _, err := s.Take(ctx, l, nil, objstore.TakeOptions{})
		if err == nil {
			err = log.Append(ctx, objstore.Ref{N: n, Tree: tree})
		}
		if err != nil {
			return err
		}
		if _, err := s.Collect(ctx, nil); err != nil && !errors.Is(err, objstore.ErrInUse) {
			return err
		}
	}
	return nil
}

func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	fill(t, filepath.Join(base, "work"))
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "PYGENT_STORE_CHILD="+base)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	defer child.Wait()
	defer child.Process.Kill()
	_, err = out.Read(make([]byte, 1))
	require.NoError(t, err)
	dir := t.TempDir()
	write(t, dir, files{"own": "mine"})
	require.NoError(t, takeAndCollect(t.Context(), filepath.Join(base, "store"), dir, "parent"))
	s := openStore(t, filepath.Join(base, "store"))
	_, err = s.OpenLog("child")
	require.ErrorIs(t, err, objstore.ErrInUse)
	refs, err := s.ReadLog("parent")
	require.NoError(t, err)
	for _, ref := range refs {
		_, err := fs.ReadFile(s.FS(t.Context(), ref.Tree), "own")
		require.NoError(t, err)
	}
}
