//go:build unix

package tree

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

const stageFlags = os.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NONBLOCK

// hold locks a stage for as long as the file is open. If the file system has no
// locks, the stage is used without one.
func hold(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, stageFlags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errAbandoned
	}
	if err != nil {
		return nil, err
	}
	locked := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if _, gone := root.Lstat(name); locked == unix.EWOULDBLOCK || gone != nil {
		return nil, errors.Join(errAbandoned, f.Close())
	}
	return f, nil
}

// take locks a stage that no process uses. A directory that other users may
// enter is not a stage, but somebody's directory with a similar name, because
// stages are private.
func take(root *os.Root, name string) (lock *os.File, ok bool) {
	f, err := root.OpenFile(name, stageFlags, 0)
	if err != nil {
		return nil, false
	}
	info, err := f.Stat()
	if err != nil || info.Mode().Perm()&0o077 != 0 || unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		f.Close()
		return nil, false
	}
	return f, true
}
