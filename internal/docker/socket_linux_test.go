package docker

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/owner"
)

// newCache makes an empty cache of this user.
func newCache(t *testing.T) (sockets string) {
	t.Helper()
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	return filepath.Join(cache, "pygent", socketDir)
}

// fallOld makes a directory as old as what a process left that was killed.
func fallOld(t *testing.T, dir string) {
	t.Helper()
	old := time.Now().Add(-2 * settleTime)
	require.NoError(t, os.Chtimes(dir, old, old))
}

func requireHolds(t *testing.T, dir string, count int) {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, list, count)
}

func listenForTest(t *testing.T) *guestSocket {
	t.Helper()
	s, err := listenForGuest()
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.forget() })
	return s
}

func TestASocketKeepsItsNameUntilItIsForgotten(t *testing.T) {
	sockets := newCache(t)
	s := listenForTest(t)
	conn, err := net.Dial("unix", s.Addr().String())
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.NoError(t, s.Close())
	_, err = net.Dial("unix", s.Addr().String())
	require.Error(t, err, "nobody can connect any more")
	fallOld(t, filepath.Dir(s.path))
	other := listenForTest(t)
	require.FileExists(t, s.path, "the container may need it for long")
	require.NoError(t, s.forget())
	require.NoError(t, other.forget())
	requireHolds(t, sockets, 0)
}

func TestSocketsOfKilledProcessesAreRemoved(t *testing.T) {
	sockets := newCache(t)
	s := listenForTest(t)
	left := filepath.Join(sockets, "LEFT")
	require.NoError(t, os.Mkdir(left, 0o700))
	require.NoError(t, os.Rename(s.path, filepath.Join(left, socketName)))
	requireGone := func(gone bool) {
		require.NoError(t, listenForTest(t).forget())
		_, err := os.Lstat(left)
		require.Equal(t, gone, err != nil)
	}
	requireGone(false) // its process may be about to lock it
	require.NoError(t, os.WriteFile(filepath.Join(left, "notes"), []byte("somebody's"), 0o600))
	fallOld(t, left)
	requireGone(false)
	require.NoError(t, os.Remove(filepath.Join(left, "notes")))
	fallOld(t, left)
	requireGone(true)
}

func TestASocketIsOnlyWhereOthersCannotReachIt(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, sockets string){
		"others may enter":      func(t *testing.T, sockets string) { require.NoError(t, os.Chmod(sockets, 0o755)) },
		"others change a place": func(t *testing.T, sockets string) { require.NoError(t, os.Chmod(filepath.Dir(sockets), 0o777)) },
		"others change one above": func(t *testing.T, sockets string) {
			require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(sockets)), 0o777))
		},
		"a symbolic link": func(t *testing.T, sockets string) {
			require.NoError(t, os.Remove(sockets))
			require.NoError(t, os.Symlink(t.TempDir(), sockets))
		},
	} {
		t.Run(name, func(t *testing.T) {
			sockets := newCache(t)
			require.NoError(t, listenForTest(t).forget())
			spoil(t, sockets)
			_, err := listenForGuest()
			require.ErrorIs(t, err, owner.ErrShared)
			requireHolds(t, sockets, 0)
		})
	}
}

func TestASocketMayHaveALongPath(t *testing.T) {
	newCache(t)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(os.Getenv("XDG_CACHE_HOME"), strings.Repeat("long/", 40)))
	s := listenForTest(t)
	require.Greater(t, len(s.path), 200)
	info, err := os.Stat(s.path)
	require.NoError(t, err)
	require.Equal(t, os.ModeSocket|0o666, info.Mode())
}

// TestAnUnseenSocketIsNoUnseenWorkspace has a workspace that holds the directory of the
// sockets, so that an error about the socket names both.
func TestAnUnseenSocketIsNoUnseenWorkspace(t *testing.T) {
	p := place{dir: "/home/user", socket: &guestSocket{path: "/home/user/.cache/pygent/sockets/a/socket"}}
	unseen := func(path string) error {
		return fmt.Errorf("invalid mount config for type %q: bind source path does not exist: %s", "bind", path)
	}
	require.False(t, p.missing(unseen(p.socket.path)))
	require.True(t, p.missing(unseen(p.dir)))
	require.True(t, p.missing(unseen("/home/user/.cache/pygent/guest-1")))
}

// closingFails are commands of a container that cannot be closed.
type closingFails struct{ *execCommander }

func (closingFails) Close() error { return errors.ErrUnsupported }

// Whatever goes wrong with it, a container that is given up leaves no socket, and no
// goroutine that watches it.
func TestAContainerThatIsGivenUpForgetsItsSocket(t *testing.T) {
	sockets := newCache(t)
	b := newContainer(nil, containerSpec{}, "pygent-x-1", nil)
	b.commands, b.socket = closingFails{}, listenForTest(t)
	near, far := net.Pipe()
	b.stream.Conn = near
	watched := false
	b.watched.Go(func() {
		_, _ = io.Copy(io.Discard, far)
		time.Sleep(10 * time.Millisecond) // it has more to do
		watched = true
	})
	require.ErrorIs(t, b.hangUp(), errors.ErrUnsupported)
	require.True(t, watched)
	requireHolds(t, sockets, 0)
}
