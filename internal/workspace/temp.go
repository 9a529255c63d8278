package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/tree"
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

// abandonedAfter is how long a directory that is being made may have nothing in
// it: past it, its maker was killed.
const abandonedAfter = 10 * time.Minute

// Abandoned reports whether a directory is the parent of a temporary workspace
// that was never finished, so that it does not even tell whom it belongs to.
func Abandoned(parent string) bool {
	info, err := os.Lstat(parent)
	if err != nil || !info.IsDir() || !ours(info) || time.Since(info.ModTime()) < abandonedAfter {
		return false
	}
	entries, err := os.ReadDir(parent)
	if err != nil || len(entries) > 1 {
		return false
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || e.Name() != ownerFile || info.Size() > 0 {
			return false
		}
	}
	return true
}

// RemoveStale removes the parent of a temporary workspace.
func RemoveStale(parent string) error {
	if _, ok := OwnerOf(parent); !ok && !Abandoned(parent) {
		return errors.New("not a temporary workspace")
	}
	return RemoveTemp(filepath.Join(parent, "workspace"))
}

// RemoveTemp removes a workspace of MakeTemp, read-only directories and very
// deep ones included. What tells whom it belongs to goes last, so that a removal
// that is cut short is finished by whoever finds it.
func RemoveTemp(dir string) error {
	parent := filepath.Dir(dir)
	root, err := os.OpenRoot(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = errors.Join(tree.Remove(root, filepath.Base(dir)), root.Close())
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return os.RemoveAll(parent)
}
