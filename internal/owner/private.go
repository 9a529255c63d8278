package owner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
)

// ErrShared is returned for a directory that others may change, or that belongs
// to another user.
var ErrShared = errors.New("others may change it")

// OpenPrivate opens a directory that only this user can change. It is made where
// there is none.
func OpenPrivate(dir string) (*os.Root, error) {
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

// Private reports whether a file is this user's, and others have none of the
// permissions.
func Private(info fs.FileInfo, others fs.FileMode) bool {
	return ownedByUs(info) && (runtime.GOOS == "windows" || info.Mode().Perm()&others == 0)
}
