package workspace

import (
	"io/fs"
	"os"
	"path/filepath"
)

// MakeTemp makes a temporary workspace and returns its path. Its parent is
// private to the caller, so that a workspace which any user of a container may
// write (open) is still closed to the other users of this machine.
func MakeTemp(open bool) (string, error) {
	parent, err := os.MkdirTemp("", "pygent-")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(parent, "workspace")
	err = os.Mkdir(dir, 0o700)
	if err == nil && open {
		err = os.Chmod(dir, 0o777) // past the umask
	}
	if err != nil {
		os.RemoveAll(parent)
		return "", err
	}
	return dir, nil
}

// RemoveTemp removes a workspace of MakeTemp, read-only directories included.
func RemoveTemp(dir string) error {
	parent := filepath.Dir(dir)
	if err := os.RemoveAll(parent); err == nil {
		return nil
	}
	// Commands leave directories without write permission, such as Go's module
	// cache, that keep their content from being removed by anyone but root.
	filepath.WalkDir(parent, func(path string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() {
			os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(parent)
}
