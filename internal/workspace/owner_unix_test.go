//go:build unix

package workspace_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/workspace"
)

func TestWrittenFilesKeepTheirOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir := t.TempDir()
	tree, err := workspace.Open(dir)
	require.NoError(t, err)
	defer tree.Close()
	path := filepath.Join(dir, "f")
	require.NoError(t, os.WriteFile(path, []byte("one"), 0o600))
	require.NoError(t, os.Chown(path, 4242, 4243))
	require.NoError(t, os.Chmod(path, 0o4751|os.ModeSetuid))
	require.NoError(t, tree.WriteFile("f", []byte("two")))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o751), info.Mode(), "the bit that lends the owner's rights goes")
	stat := info.Sys().(*syscall.Stat_t)
	require.Equal(t, []uint32{4242, 4243}, []uint32{stat.Uid, stat.Gid})
}
