//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package filelock_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/x/pygent/internal/filelock"
)

// A second descriptor of the open file, as a child has it that is being started, does
// not keep the lock.
func TestAClosedFileIsUnlockedAtOnce(t *testing.T) {
	at := filepath.Join(t.TempDir(), "lock")
	f := open(t, at)
	require.NoError(t, filelock.Lock(f))
	inherited, err := unix.Dup(int(f.Fd()))
	require.NoError(t, err)
	defer unix.Close(inherited)
	require.NoError(t, filelock.Close(f))
	require.NoError(t, filelock.Lock(open(t, at)))
}
