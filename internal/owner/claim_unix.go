//go:build unix

package owner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tick is longer than the stamps of files are behind the clock, which is 10 ms at most.
const tick = 20 * time.Millisecond

// lookAt returns a claim for a directory, with the name of its record. The name
// is made of properties that no container can change: the inode number, and the
// time at which the directory was made, which no later directory shares. If the
// file system does not know that time, the device number is used, although it
// may change with every boot.
func lookAt(dir string) (*Claim, error) {
	path, err := filepath.Abs(dir)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, nil
	}
	c := &Claim{Path: path, UID: int(stat.Uid), GID: int(stat.Gid), Dev: uint64(stat.Dev), Ino: uint64(stat.Ino), Since: time.Now().Add(-tick)}
	c.now = [2]int{c.UID, c.GID}
	if made := birth(path); made != "" {
		c.record = fmt.Sprintf("%d-%s", c.Ino, made)
	} else {
		c.record = fmt.Sprintf("%d%s%d", c.Ino, onDevice, c.Dev)
	}
	return c, nil
}

// GiveBack gives the directory itself back to its owner, if this process has
// the right to do so. If another directory is in its place, GiveBack leaves it
// alone.
func (c *Claim) GiveBack() error {
	dir, err := os.OpenFile(c.Path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	info, err := dir.Stat()
	if err != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || uint64(stat.Dev) != c.Dev || stat.Ino != c.Ino {
		return fmt.Errorf("%s: %w", c.Path, errReplaced)
	}
	return dir.Chown(c.UID, c.GID)
}

// errReplaced means that another directory is in the place of the claimed one.
var errReplaced = errors.New("another directory is in its place")

func lockShared(f *os.File) error { return flock(f, unix.LOCK_SH) }

// lockAlone reports whether no other process holds a lock of the file.
func lockAlone(f *os.File) bool { return flock(f, unix.LOCK_EX|unix.LOCK_NB) == nil }

func unlock(f *os.File) error { return flock(f, unix.LOCK_UN) }

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("flock", err)
		}
	}
}
