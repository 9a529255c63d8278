//go:build !linux

package gitrepo

import (
	"errors"
	"os"
	"path/filepath"
)

// Identify returns the identity of the directory at a path that leads through no symbolic
// link.
func Identify(dir string) (id Identity, err error) {
	real, err := filepath.EvalSymlinks(dir)
	if err == nil && real != dir {
		err = &os.PathError{Op: "open", Path: dir, Err: errors.New("it leads through a symbolic link")}
	}
	return id, err
}
