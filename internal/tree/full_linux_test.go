package tree_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/x/pygent/internal/tree"
)

func TestAFullDiskKeepsNothingOfACopy(t *testing.T) {
	if testing.Short() {
		t.Skip("copies a large tree many times")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root mounts a small file system")
	}
	from := fill(t)
	for way, do := range bothWays {
		for _, options := range []string{"size=4m", "size=64m,nr_inodes=50"} {
			t.Run(way+" "+options, func(t *testing.T) {
				to := t.TempDir()
				if err := unix.Mount("tmpfs", to, "tmpfs", 0, options); err != nil {
					t.Skipf("mount a small file system: %v", err)
				}
				defer func() { require.NoError(t, unix.Unmount(to, unix.MNT_DETACH)) }()
				require.ErrorIs(t, do(t.Context(), t, from, to, tree.ExtractOptions{}), unix.ENOSPC)
				require.Empty(t, describe(t, to))
			})
		}
	}
}
