package docker

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/x/pygent/internal/filelock"
	"github.com/x/pygent/internal/guest/binary"
	"github.com/x/pygent/internal/owner"
)

// socketDir is where the sockets of containers are, each in a directory of its own. It is
// in the directory of the guest's program. Other users cannot even look into it.
const socketDir = "sockets"

// socketName is the name of a socket in its directory.
const socketName = "socket"

// settleTime is longer than a process takes to lock the directory that it has made for a
// socket. Older ones that nobody has locked were left by a process that was killed.
const settleTime = time.Minute

// guestSocket is a socket of this process that one container mounts, for its guest. As
// soon as that has connected, nobody else can. But its name stays as long as the
// container: to copy files into or out of it, or to start it again, the engine mounts
// everything once more.
type guestSocket struct {
	*net.UnixListener
	path   string       // for the mount
	lock   *os.File     // the directory of the socket, locked as long as the name is needed
	forget func() error // removes the directory, and ends listening; runs once
}

// listenForGuest returns a socket for the guest of a container that may run on our kernel
// and see our files. It is an error if other users could connect to it, or put another in
// its place.
func listenForGuest() (*guestSocket, error) {
	if runtime.GOOS != "linux" {
		return nil, errors.ErrUnsupported
	}
	place, err := socketPlace()
	if err != nil {
		return nil, err
	}
	removeOldSockets(place)
	dir := filepath.Join(place, rand.Text())
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	s := &guestSocket{path: filepath.Join(dir, socketName)}
	s.forget = sync.OnceValue(func() error { return errors.Join(s.close(), os.RemoveAll(dir)) })
	if err := s.listen(dir); err != nil {
		return nil, errors.Join(err, s.forget())
	}
	return s, nil
}

// socketPlace makes [socketDir] if need be, and returns its path. Only this user and root
// can look into it or replace it.
func socketPlace() (string, error) {
	cache, err := binary.CacheDir()
	if err != nil {
		return "", err
	}
	root, err := owner.OpenPrivate(cache)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if cache, err = filepath.EvalSymlinks(cache); err != nil {
		return "", err
	}
	path := filepath.Join(cache, socketDir)
	if err := owner.Secluded(path); err != nil {
		return "", err
	}
	dir, err := owner.OpenPrivate(path)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	info, err := os.Lstat(path)
	if err == nil && (!info.IsDir() || !owner.Private(info, 0o077)) {
		err = fmt.Errorf("%s: %w", path, owner.ErrShared)
	}
	return path, err
}

func (s *guestSocket) listen(dir string) (err error) {
	if s.lock, err = os.Open(dir); err != nil {
		return err
	}
	if err := filelock.Lock(s.lock); err != nil {
		return err
	}
	// The path may be longer than an address can be.
	address := &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("/proc/self/fd/%d/%s", s.lock.Fd(), socketName)}
	if s.UnixListener, err = net.ListenUnix("unix", address); err != nil {
		return err
	}
	s.SetUnlinkOnClose(false)
	return os.Chmod(s.path, 0o666) // for every user of the container
}

// close ends listening and unlocks the directory.
func (s *guestSocket) close() error {
	if s.UnixListener != nil {
		_ = s.Close() // the stream of the container may have closed it
	}
	if s.lock == nil {
		return nil
	}
	return filelock.Close(s.lock)
}

// removeOldSockets removes what killed processes have left.
func removeOldSockets(place string) {
	list, _ := os.ReadDir(place)
	for _, e := range list {
		if info, err := e.Info(); err == nil && info.IsDir() && time.Since(info.ModTime()) > settleTime {
			removeOldSocket(filepath.Join(place, e.Name()))
		}
	}
}

// removeOldSocket removes the directory of a socket unless a process has locked it.
func removeOldSocket(dir string) {
	lock, err := os.Open(dir)
	if err != nil {
		return
	}
	defer filelock.Close(lock)
	if filelock.Lock(lock) == nil {
		_ = os.Remove(filepath.Join(dir, socketName))
		_ = os.Remove(dir) // whatever else it holds is not ours
	}
}

// isNamed reports whether an error of the engine is about the socket.
func (s *guestSocket) isNamed(err error) bool {
	return err != nil && strings.Contains(err.Error(), s.path)
}
