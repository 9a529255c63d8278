package pygent_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireOnDisk requires that a file takes no more than limit bytes of the disk.
func requireOnDisk(t *testing.T, path string, limit int64) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.LessOrEqual(t, info.Sys().(*syscall.Stat_t).Blocks*512, limit)
}
