package workspace

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/x/pygent/internal/owner"
)

// TempPattern matches the parents of temporary workspaces in the directory for
// temporary files.
const TempPattern = "pygent-*"

// ownerFile, beside a temporary workspace, names the process it belongs to.
const ownerFile = "owner"

// MakeTemp makes a temporary workspace and returns its path. Its parent is
// private to the caller, so that a workspace which any user of a container may
// write (open) is still closed to the other users of this machine.
func MakeTemp(open bool) (string, error) {
	parent, err := os.MkdirTemp("", "pygent-")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(parent, "workspace")
	err = os.WriteFile(filepath.Join(parent, ownerFile), []byte(owner.Current()), 0o600)
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err == nil && open {
		err = os.Chmod(dir, 0o777) // past the umask
	}
	if err != nil {
		os.RemoveAll(parent)
		return "", err
	}
	return dir, nil
}

// OwnerOf returns the owner of the parent of a temporary workspace. Directories
// that MakeTemp did not make for this user have none.
func OwnerOf(parent string) (string, bool) {
	if info, err := os.Lstat(parent); err != nil || !info.IsDir() || !ours(info) {
		return "", false
	}
	f, err := os.Open(filepath.Join(parent, ownerFile))
	if err != nil {
		return "", false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 1024))
	return string(data), err == nil && len(data) > 0
}

// RemoveStale removes the parent of a temporary workspace.
func RemoveStale(parent string) error {
	if _, ok := OwnerOf(parent); !ok {
		return errors.New("not a temporary workspace")
	}
	return RemoveTemp(filepath.Join(parent, "workspace"))
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
