package store

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// exchange exchanges two names of a directory at once. The error is
// errors.ErrUnsupported where that cannot be done.
func exchange(dir *os.Root, a, b string) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	fd := int(d.Fd())
	err = unix.RenameatxNp(fd, a, fd, b, unix.RENAME_SWAP)
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return errors.ErrUnsupported
	}
	return err
}

// syncAll asks the system to write everything.
func syncAll(*os.Root) error { return unix.Sync() }
