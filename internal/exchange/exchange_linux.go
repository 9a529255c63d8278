package exchange

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Exchange exchanges two names of a directory at once. The error is
// errors.ErrUnsupported where that cannot be done.
func Exchange(dir *os.Root, a, b string) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	fd := int(d.Fd())
	err = unix.Renameat2(fd, a, fd, b, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return errors.ErrUnsupported
	}
	return err
}

// SyncAll puts all files of a directory's file system on stable storage.
func SyncAll(dir *os.Root) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Syncfs(int(d.Fd()))
}
