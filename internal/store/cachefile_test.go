package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/store"
)

func TestAKeptCacheSavesReading(t *testing.T) {
	t.Parallel()
	base, dir := t.TempDir(), t.TempDir()
	write(t, dir, files{"a": "one", "d/b": "two", "d.x": "three", "d/\xff": "four", "l": "->a", "empty/": ""})
	s := openStore(t, filepath.Join(base, "store"))
	log, err := s.OpenLog("log")
	require.NoError(t, err)
	c := s.LoadCache("log", dir)
	tree, report := takeWith(t, s, dir, c)
	require.Equal(t, 4, report.Read)
	require.NoError(t, log.Append(t.Context(), store.Ref{N: 1, Tree: tree}))
	require.NoError(t, s.SaveCache("log", dir, c))
	require.NoError(t, log.Close())

	next := openStore(t, filepath.Join(base, "store"))
	write(t, dir, files{"a": "1"})
	changed, report := takeWith(t, next, dir, next.LoadCache("log", dir))
	require.Equal(t, 1, report.Read)
	require.Equal(t, []string{"~a"}, changes(t, next, tree, changed))
	next.Forget(changed)
	_, report = takeWith(t, next, dir, next.LoadCache("log", dir+"/other"))
	require.Equal(t, 4, report.Read, "another directory")

	file := filepath.Join(base, "store", "logs", "log.cache")
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	for i := range whole {
		damaged := append([]byte(nil), whole...)
		damaged[i] ^= 1
		require.NoError(t, os.WriteFile(file, damaged, 0o600))
		_, report = takeWith(t, next, dir, next.LoadCache("log", dir))
		require.Equal(t, 4, report.Read, "byte %d", i)
	}
	require.NoError(t, next.RemoveLog("log"))
	left, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	require.Empty(t, left)
	require.ErrorContains(t, s.SaveCache(strings.Repeat("/", 3), dir, c), "cannot be the name of a log")
}
