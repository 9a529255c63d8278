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
	"time"

	"github.com/x/pygent/internal/guest/binary"
	"github.com/x/pygent/internal/owner"
)

// socketDir is where the sockets are of containers that are about to start, in the
// directory of the guest's program. Other users cannot even look into it.
const socketDir = "sockets"

// socketTime is longer than a container takes to start. An older socket was left by a
// process that was killed.
const socketTime = time.Hour

// guestSocket is a socket of this process that one container mounts, for its guest. As
// soon as that has connected, nobody else can.
type guestSocket struct {
	*net.UnixListener
	dir  *os.Root
	path string // for the mount
	name string
}

// listenForGuest returns a socket for the guest of a container that may run on our kernel
// and see our files. It is an error if other users could connect to it, or put another in
// its place.
func listenForGuest() (*guestSocket, error) {
	if runtime.GOOS != "linux" {
		return nil, errors.ErrUnsupported
	}
	path, err := socketPlace()
	if err != nil {
		return nil, err
	}
	dir, err := owner.OpenPrivate(path)
	if err != nil {
		return nil, err
	}
	s := &guestSocket{dir: dir, name: rand.Text()}
	s.path = filepath.Join(path, s.name)
	if err := s.listen(); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return s, nil
}

// socketPlace returns the path of [socketDir], which only this user and root can replace.
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
	return path, owner.Secluded(path)
}

func (s *guestSocket) listen() error {
	here, err := s.dir.Open(".")
	if err != nil {
		return err
	}
	defer here.Close()
	info, err := here.Stat()
	if err == nil && !owner.Private(info, 0o077) {
		err = owner.ErrShared
	}
	if err != nil {
		return err
	}
	s.removeOld(here)
	// The path may be longer than an address can be.
	address := &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("/proc/self/fd/%d/%s", here.Fd(), s.name)}
	if s.UnixListener, err = net.ListenUnix("unix", address); err != nil {
		return err
	}
	s.SetUnlinkOnClose(false)                          // here is closed by then
	if err := s.dir.Chmod(s.name, 0o666); err != nil { // for every user of the container
		return errors.Join(err, s.Close(), s.dir.Remove(s.name))
	}
	return nil
}

// removeOld removes what killed processes have left.
func (s *guestSocket) removeOld(here *os.File) {
	list, _ := here.ReadDir(-1)
	for _, e := range list {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > socketTime {
			_ = s.dir.Remove(e.Name())
		}
	}
}

// isNamed reports whether an error of the engine is about the socket.
func (s *guestSocket) isNamed(err error) bool {
	return err != nil && strings.Contains(err.Error(), s.name)
}

// forget removes the name of the socket, which nobody needs once a container has mounted
// it, and ends listening.
func (s *guestSocket) forget() error {
	_ = s.Close() // the stream of the container may have closed it
	return errors.Join(s.dir.Remove(s.name), s.dir.Close())
}
