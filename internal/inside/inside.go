// Package inside finds out whether a file of the user's lies where others may
// write: below a workspace, or below what is mounted into a container.
package inside

import (
	"errors"
	"os"
	"path/filepath"
)

// Of returns the directory among dirs that path is in, and the path as it begins
// with that directory. Both are empty when it is in none.
//
// The path is gone down from its top, and ends at the first of the directories:
// what is below is theirs who write there, and is not asked where it leads.
func Of(dirs []string, path string) (dir, name string, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return "", "", err
	}
	infos, err := infosOf(dirs)
	if err != nil {
		return "", "", err
	}
	if dir = firstAmong(infos, path); dir != "" {
		return dir, path, nil
	}
	// A link of the user's own may lead there.
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, os.ErrNotExist) {
		real, err = filepath.EvalSymlinks(filepath.Dir(path))
		real = filepath.Join(real, filepath.Base(path))
	}
	if errors.Is(err, os.ErrNotExist) {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	if dir = firstAmong(infos, real); dir != "" {
		return dir, real, nil
	}
	return "", "", nil
}

// infosOf returns what the directories are. One that does not exist holds no
// file yet, and is made so that it is known when it does.
func infosOf(dirs []string) ([]os.FileInfo, error) {
	infos := make([]os.FileInfo, 0, len(dirs))
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, err
		}
		info, err := os.Stat(dir)
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// firstAmong returns the topmost directory on the way to path that is one of
// those.
func firstAmong(dirs []os.FileInfo, path string) string {
	parent := filepath.Dir(path)
	if parent != path {
		if above := firstAmong(dirs, parent); above != "" {
			return above
		}
	}
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return ""
	}
	for _, dir := range dirs {
		if os.SameFile(dir, info) {
			return path
		}
	}
	return ""
}

// OpenFile opens the file at path as os.OpenFile does. Below one of dirs it
// follows no link: neither in the place of the file, nor out of the directory.
func OpenFile(dirs []string, path string, flag int, perm os.FileMode) (*os.File, error) {
	dir, name, err := Of(dirs, path)
	if err != nil {
		return nil, err
	}
	if dir == "" {
		return os.OpenFile(path, flag, perm)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	rel, err := filepath.Rel(dir, name)
	if err != nil {
		return nil, err
	}
	if info, err := root.Lstat(rel); err == nil && !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "open", Path: path, Err: errNotRegular}
	}
	return root.OpenFile(rel, flag, perm)
}

var errNotRegular = errors.New("not a regular file, where commands of the agent can write")
