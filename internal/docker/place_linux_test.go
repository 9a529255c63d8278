package docker

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFullDiskLeavesNoProbeInTheWorkspace(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("cannot mount a small disk: ", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	require.ErrorIs(t, os.WriteFile(filepath.Join(dir, "all"), bytes.Repeat([]byte("x"), 128<<10), 0o600), syscall.ENOSPC)
	p := place{dir: dir}
	_, err := p.leaveNonce()
	require.ErrorIs(t, err, syscall.ENOSPC)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
