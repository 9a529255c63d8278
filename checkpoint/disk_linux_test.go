package checkpoint_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/checkpoint"
)

// mountDisk mounts a disk of 4 MiB at a directory.
func mountDisk(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,mode=755"); err != nil {
		t.Skip("cannot mount a small disk: ", err)
	}
	// A process that another test starts has our open files for a moment.
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
}

// noise returns bytes that cannot be compressed.
func noise(size int) string {
	data := make([]byte, size)
	rand.NewChaCha8([32]byte{byte(size)}).Read(data)
	return string(data)
}

// TestAnUndoOnAFullDisk is finished when there is room.
func TestAnUndoOnAFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("fills disks")
	}
	t.Parallel()
	base := t.TempDir()
	mountDisk(t, filepath.Join(base, "work"))
	k := openKeeper(t, base)
	k.write("large", noise(2<<20))
	k.write("a", "1")
	k.turn("rm large; printf 2 > a; printf 2 > new")
	k.write("filler", noise(3<<20))
	_, err := k.Undo(t.Context(), 1)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Len(t, k.said(), 1, "the conversation waits for the files")
	_, err = k.Undo(t.Context(), 1)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, os.Remove(filepath.Join(k.dir, "filler")))
	require.NoError(t, k.Close())

	k = openKeeper(t, base)
	require.Empty(t, k.said())
	require.Equal(t, contents{"large": noise(2 << 20), "a": "1"}, k.files())
	require.Empty(t, leftovers(k.dir))
	k.redo()
	require.Equal(t, contents{"a": "2", "new": "2"}, k.files())
}

// TestAFullStore fails no run. What could not be kept is not undone by halves.
func TestAFullStore(t *testing.T) {
	if testing.Short() {
		t.Skip("fills disks")
	}
	t.Parallel()
	base := t.TempDir()
	mountDisk(t, filepath.Join(base, "disk"))
	k := openKeeper(t, base, checkpoint.Keep(filepath.Join(base, "disk", "trees")))
	k.write("a", "1")
	k.turn("printf 2 > a")
	k.turn("printf 3 > a; head -c 5000000 /dev/urandom > large")
	before := k.files()
	_, err := k.Undo(t.Context(), 1)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, before, k.files())
	require.Len(t, k.said(), 2)

	require.NoError(t, os.Remove(filepath.Join(k.dir, "large")))
	done := k.undo(1)
	require.Equal(t, contents{"a": "3"}, k.files(), "what the turn has changed is not known")
	require.Equal(t, []string{"a"}, kept(done))
	require.Len(t, k.said(), 1)
	require.NoError(t, k.Close())
	require.Equal(t, 1, k.events.saying("the checkpoint lacks the files: "))
}

// TestAnUndoOfAReadOnlyDisk changes nothing there, and says why.
func TestAnUndoOfAReadOnlyDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("fills disks")
	}
	t.Parallel()
	base := t.TempDir()
	work := filepath.Join(base, "work")
	mountDisk(t, work)
	k := openKeeper(t, base)
	k.write("a", "1")
	k.turn("printf 2 > a; printf 2 > b")
	require.NoError(t, syscall.Mount("", work, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	_, err := k.Undo(t.Context(), 1)
	require.ErrorIs(t, err, syscall.EROFS)
	require.Equal(t, contents{"a": "2", "b": "2"}, k.files())
	require.NoError(t, syscall.Mount("", work, "", syscall.MS_REMOUNT, ""))
	require.NoError(t, k.Close())
	k = openKeeper(t, base)
	require.Equal(t, contents{"a": "1"}, k.files(), "it is finished now")
	require.Empty(t, k.said())
}
