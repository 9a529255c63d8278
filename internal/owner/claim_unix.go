//go:build unix

package owner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// lookAt looks at a directory. Its record is named by what no container can change,
// and no later directory shares: where the file system knows it, the time at
// which the directory was made takes the place of the device, whose number may
// change with every start of the machine.
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
	c := &Claim{Path: path, UID: int(stat.Uid), GID: int(stat.Gid), Dev: uint64(stat.Dev), Ino: uint64(stat.Ino)}
	c.now = [2]int{c.UID, c.GID}
	if made := birth(path); made != "" {
		c.record = fmt.Sprintf("%d-%s", c.Ino, made)
	} else {
		c.record = fmt.Sprintf("%d%s%d", c.Ino, onDevice, c.Dev)
	}
	return c, nil
}

// GiveBack gives the directory itself to its owner, if this process may do that. What
// others have put in its place is left alone.
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

// errReplaced tells of a directory that is not the one that was claimed.
var errReplaced = errors.New("another directory is in its place")

func lockShared(f *os.File) error { return flock(f, unix.LOCK_SH) }

// lockAlone reports whether nobody else has the file locked.
func lockAlone(f *os.File) bool { return flock(f, unix.LOCK_EX|unix.LOCK_NB) == nil }

func unlock(f *os.File) error { return flock(f, unix.LOCK_UN) }

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("flock", err)
		}
	}
}
