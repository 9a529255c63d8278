//go:build unix

package tree_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// allowDescriptors lets this process have n open files more than it has, until the test
// ends.
func allowDescriptors(t *testing.T, n int) {
	t.Helper()
	next, err := os.Open(os.DevNull)
	require.NoError(t, err)
	used := uint64(next.Fd())
	require.NoError(t, next.Close())
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	limit := before
	limit.Cur = min(limit.Cur, used+uint64(n))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	t.Cleanup(func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)) })
}
