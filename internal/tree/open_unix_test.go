//go:build unix

package tree

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPipeInTheNameOfADirectoryIsNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	for _, name := range []string{"pipe", "pipe/below"} {
		_, _, err = openInto(root, name)
		require.ErrorIs(t, err, syscall.ENOTDIR)
	}
	into, missing, err := openInto(root, "a/b/c")
	require.NoError(t, err)
	defer into.Close()
	require.Equal(t, "c", missing)
}
