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
	err = unix.RenameatxNp(fd, a, fd, b, unix.RENAME_SWAP)
	if errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return errors.ErrUnsupported
	}
	return err
}

// SyncAll asks the system to write everything.
func SyncAll(*os.Root) error { return unix.Sync() }
