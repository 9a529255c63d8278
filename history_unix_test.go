//go:build unix

package pygent_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

func TestReplacementKeepsPermissions(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	h := openHistory(t, path)
	require.NoError(t, os.Chmod(path, 0o664))
	if os.Getuid() == 0 {
		require.NoError(t, os.Chown(path, 1234, 1235))
	}
	require.NoError(t, h.Close())
	h = openHistory(t, path)
	require.NoError(t, h.SetSystem("s"))
	requireOthersFile(t, path)
	require.NoError(t, os.Remove(path))
	require.NoError(t, h.Append(pygent.UserMessage("it is written anew")))
	requireOthersFile(t, path)
}

func requireOthersFile(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o664), info.Mode().Perm())
	if os.Getuid() == 0 {
		require.Equal(t, uint32(1234), info.Sys().(*syscall.Stat_t).Uid)
		require.Equal(t, uint32(1235), info.Sys().(*syscall.Stat_t).Gid)
	}
}
