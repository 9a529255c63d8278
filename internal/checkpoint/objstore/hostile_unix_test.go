//go:build unix

package objstore_test

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint/objstore"
)

func TestSpecialFilesAreLeftOutAndKept(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, files{"a": "1", "was": "1"})
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, ".gitignore"), 0o600))
	t.Chdir(dir)
	socket, err := net.Listen("unix", "socket")
	require.NoError(t, err)
	defer socket.Close()
	write(t, dir, files{"sub/x": "1"})

	s := openStore(t, t.TempDir())
	a, report := takeWith(t, s, dir, nil)
	require.Equal(t, []objstore.Left{
		{Name: ".gitignore", Why: "neither a file nor a directory nor a link"}, {Name: "fifo", Why: "neither a file nor a directory nor a link"},
		{Name: "socket", Why: "neither a file nor a directory nor a link"},
	}, report.LeftOut)

	// A file that has become a pipe stays one: nothing waits for its writer.
	write(t, dir, files{"was": "2"})
	b := take(t, s, dir)
	require.NoError(t, os.Remove(filepath.Join(dir, "was")))
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "was"), 0o600))
	conflicts := apply(t, s, dir, b, a, objstore.ApplyOptions{})
	require.Equal(t, []objstore.Conflict{{Name: "was", Why: "it was changed meanwhile"}}, conflicts)
	// Neither is it removed.
	c := take(t, s, dir)
	require.Empty(t, changes(t, s, b, c))
	apply(t, s, dir, c, objstore.Tree{}, objstore.ApplyOptions{})
	for _, name := range []string{"fifo", "was", "socket", ".gitignore"} {
		_, err := os.Lstat(filepath.Join(dir, name))
		require.NoError(t, err)
	}
}

func TestAStoreOfOthersIsRefused(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	require.NoError(t, os.Chmod(home, 0o777))
	_, err := objstore.Open(home)
	require.ErrorContains(t, err, "others may change it")
}

func TestFilesOfTheStoreArePrivate(t *testing.T) {
	t.Parallel()
	dir, home := t.TempDir(), t.TempDir()
	write(t, dir, files{".env": "secret"})
	s := openStore(t, home)
	log, err := s.OpenLog("l")
	require.NoError(t, err)
	require.NoError(t, log.Append(t.Context(), objstore.Ref{Tree: take(t, s, dir)}))
	require.NoError(t, log.Close())
	for name, content := range read(t, home) {
		require.Contains(t, []string{"-rw-------", "-rwx------"}, content[:10], name)
	}
}
