package enginetest

import (
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// SocketDir returns a temporary directory for sockets. Its path is short whatever TMPDIR is,
// because the path of a socket has at most 107 bytes, and on macOS 103.
func SocketDir(t testing.TB) string {
	t.Helper()
	in := "/tmp"
	if runtime.GOOS == "windows" {
		in = ""
	}
	dir, err := os.MkdirTemp(in, "pygent-test-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
