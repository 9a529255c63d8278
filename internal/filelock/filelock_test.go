//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd || windows

package filelock_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/filelock"
)

func open(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestALockKeepsOthersOut(t *testing.T) {
	for name, tt := range map[string]struct {
		first, second func(*os.File) error
		held          bool
	}{
		"alone, alone":   {filelock.Lock, filelock.Lock, true},
		"alone, shared":  {filelock.Lock, filelock.Share, true},
		"shared, alone":  {filelock.Share, filelock.Lock, true},
		"shared, shared": {filelock.Share, filelock.Share, false},
	} {
		t.Run(name, func(t *testing.T) {
			at := filepath.Join(t.TempDir(), "lock")
			a, b := open(t, at), open(t, at)
			require.NoError(t, tt.first(a))
			err := tt.second(b)
			if tt.held {
				require.ErrorIs(t, err, filelock.ErrHeld)
				require.ErrorContains(t, err, at)
			} else {
				require.NoError(t, err)
				require.NoError(t, filelock.Unlock(b))
			}
			require.NoError(t, filelock.Unlock(a))
			require.NoError(t, filelock.Lock(b))
			require.NoError(t, b.Close())
			require.NoError(t, filelock.Lock(a), "closing the file unlocks it")
		})
	}
}

func TestALockedFileCanBeReadAndWritten(t *testing.T) {
	at := filepath.Join(t.TempDir(), "lock")
	f := open(t, at)
	require.NoError(t, filelock.Lock(f))
	_, err := f.WriteString("text")
	require.NoError(t, err)
	data, err := os.ReadFile(at)
	require.NoError(t, err)
	require.Equal(t, "text", string(data))
}

// TestTheLockOfAKilledProcessIsReleased lets a process lock a file and die.
func TestTheLockOfAKilledProcessIsReleased(t *testing.T) {
	if at := os.Getenv("PYGENT_TEST_LOCK"); at != "" {
		require.NoError(t, filelock.Lock(open(t, at)))
		me, err := os.FindProcess(os.Getpid())
		require.NoError(t, err)
		require.NoError(t, me.Kill())
		select {}
	}
	at := filepath.Join(t.TempDir(), "lock")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTheLockOfAKilledProcessIsReleased$")
	cmd.Env = append(os.Environ(), "PYGENT_TEST_LOCK="+at)
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.NotContains(t, string(out), "FAIL")
	require.FileExists(t, at)
	require.NoError(t, filelock.Lock(open(t, at)))
}
