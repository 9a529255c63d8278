package owner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestOwnerOutlivesACopyOfAnOverlay uses a workspace in a lower layer of an
// overlay. The overlay copies the directory as soon as its owner changes.
func TestOwnerOutlivesACopyOfAnOverlay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount, and give a directory away")
	}
	layers, at := t.TempDir(), t.TempDir()
	for _, name := range []string{"lower/ws", "upper", "work"} {
		require.NoError(t, os.MkdirAll(filepath.Join(layers, name), 0o700))
	}
	options := "lowerdir=" + layers + "/lower,upperdir=" + layers + "/upper,workdir=" + layers + "/work"
	if err := unix.Mount("overlay", at, "overlay", 0, options); err != nil {
		t.Skip("there are no overlays here: ", err)
	}
	defer func() { require.NoError(t, unix.Unmount(at, unix.MNT_DETACH)) }()
	c := newClaims(t)
	c.dir = filepath.Join(at, "ws")
	require.NoError(t, c.claim().Release(false))
	require.NoError(t, os.Chown(c.dir, 4242, 4243))
	found := c.self.Abandoned()
	require.Len(t, found, 1)
	require.True(t, found[0].Lost())
	require.Equal(t, []int{0, 0}, []int{found[0].UID, found[0].GID})
}
