package owner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

// ErrShared means that other users may change a directory, or that it belongs
// to another user.
var ErrShared = errors.New("others may change it")

// OpenPrivate opens a directory that only this user can change. It makes the
// directory if it does not exist, unless that would be in a directory of another user: what
// root made there, in a home that sudo kept, would lock that user out.
func OpenPrivate(dir string) (*os.Root, error) {
	if err := mayMake(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	if err == nil && !Private(info, 0o022) {
		err = fmt.Errorf("%s: %w", dir, ErrShared)
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// Private reports whether a file belongs to this user and gives other users
// none of the permissions in others.
func Private(info fs.FileInfo, others fs.FileMode) bool {
	return ownedByUs(info) && (runtime.GOOS == "windows" || info.Mode().Perm()&others == 0)
}
