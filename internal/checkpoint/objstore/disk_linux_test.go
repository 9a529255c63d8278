package objstore_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint/objstore"
)

// smallDisk mounts a disk of 4 MiB.
func smallDisk(t *testing.T) string {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m,mode=700"); err != nil {
		t.Skip("cannot mount a small disk: ", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

func noise(seed byte, size int) string {
	b := make([]byte, size)
	rand.NewChaCha8([32]byte{seed}).Read(b)
	return string(b)
}

func TestAStoreOnAFullDisk(t *testing.T) {
	t.Parallel()
	disk, dir := smallDisk(t), t.TempDir()
	s, err := objstore.Open(filepath.Join(disk, "store"))
	require.NoError(t, err)
	defer s.Close()
	log, err := s.OpenLog("l")
	require.NoError(t, err)
	defer log.Close()
	write(t, dir, files{"a": noise(1, 2<<20)})
	first := take(t, s, dir)
	require.NoError(t, log.Append(t.Context(), objstore.Ref{N: 1, Tree: first}))
	write(t, dir, files{"a": noise(2, 3<<20)})
	l := openLocal(t, dir)
	_, _, err = s.Take(t.Context(), l, nil, objstore.TakeOptions{})
	require.ErrorIs(t, err, syscall.ENOSPC)

	// The disk is full to the last byte, and the log stays as it was.
	f, err := os.Create(filepath.Join(disk, "all"))
	require.NoError(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 512))
	}
	require.NoError(t, f.Close())
	padding := bytes.Repeat([]byte("1"), 8<<10)
	require.ErrorIs(t, log.Append(t.Context(), objstore.Ref{N: 2, Tree: first, Data: padding}), syscall.ENOSPC)
	require.ErrorIs(t, log.Replace(t.Context(), []objstore.Ref{{N: 2, Tree: first, Data: padding}}), syscall.ENOSPC)
	require.Len(t, log.Refs(), 1)
	require.NoError(t, os.Remove(f.Name()))
	require.NoError(t, log.Append(t.Context(), objstore.Ref{N: 3, Tree: first}))
	refs, err := s.ReadLog("l")
	require.NoError(t, err)
	require.Equal(t, log.Refs(), refs)

	// Without the old tree there is room.
	require.NoError(t, log.Replace(t.Context(), nil))
	_, err = s.Collect(t.Context(), nil)
	require.NoError(t, err)
	take(t, s, dir)
}

func TestATargetOnAFullDiskIsFinishedWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	disk, dir := smallDisk(t), t.TempDir()
	s := openStore(t, t.TempDir())
	write(t, disk, files{"a": noise(1, 1<<20), "b": "1"})
	a := take(t, s, disk)
	write(t, dir, files{"a": noise(2, 2<<20), "b": "2", "c": noise(3, 1<<20)})
	b := take(t, s, dir)
	write(t, disk, files{"room/filler": noise(4, 1<<20)})
	l := openLocal(t, disk)
	defer l.Close()
	_, err := s.Apply(t.Context(), l, a, b, objstore.ApplyOptions{})
	require.ErrorIs(t, err, syscall.ENOSPC)
	got := read(t, disk)
	require.Contains(t, got, "a")
	require.True(t, got["a"] == "-rw-r--r-- "+noise(1, 1<<20) || got["a"] == "-rw-r--r-- "+noise(2, 2<<20))
	require.NoError(t, os.RemoveAll(filepath.Join(disk, "room")))
	conflicts, found, err := s.Recover(t.Context(), l)
	require.NoError(t, err)
	require.True(t, found)
	require.Empty(t, conflicts)
	require.Equal(t, read(t, dir), read(t, disk))
}
