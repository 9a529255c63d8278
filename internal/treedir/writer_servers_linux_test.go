package treedir

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// An undo would leave each file in a home directory on such a server where it is.
func TestARefusedLeaseTellsNothingOnAFileServer(t *testing.T) {
	for name, fs := range map[string]uint32{"NFS": unix.NFS_SUPER_MAGIC, "CIFS": unix.CIFS_SUPER_MAGIC, "SMB2": unix.SMB2_SUPER_MAGIC, "SMB": unix.SMB_SUPER_MAGIC} {
		require.False(t, leasesTell(fs), name)
	}
	require.True(t, leasesTell(unix.EXT4_SUPER_MAGIC))
	require.True(t, leasesTell(unix.OVERLAYFS_SUPER_MAGIC))
}
