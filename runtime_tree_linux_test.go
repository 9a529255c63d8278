package pygent_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// requireOnDisk requires that a file uses at most limit bytes of disk space.
func requireOnDisk(t *testing.T, path string, limit int64) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.LessOrEqual(t, info.Sys().(*syscall.Stat_t).Blocks*512, limit)
}
