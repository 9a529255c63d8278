package pathname

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Inside returns the directory among dirs that holds path. It also returns the path
// itself, spelled so that it begins with that directory. Both are empty if no
// directory holds the path.
//
// The path is followed from its top, through the user's own symbolic links, and
// the walk ends at the first of the directories. What lies below may have been
// written by others, so links there are not followed.
func Inside(dirs []string, path string) (dir, name string, err error) {
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
	return follow(infos, path)
}

// maxFollowed is the largest number of symbolic links that are followed for one
// path.
const maxFollowed = 40

const separator = string(filepath.Separator)

// follow walks down an absolute path, link by link, to the first of the
// directories.
func follow(dirs []os.FileInfo, path string) (dir, name string, err error) {
	at, rest := split(path)
	for links := 0; len(rest) > 0; {
		next := filepath.Join(at, rest[0]) // safe also for "..", since at has no symbolic links
		rest = rest[1:]
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return "", "", nil
		case err != nil:
			return "", "", err
		case info.Mode()&os.ModeSymlink != 0:
			if links++; links > maxFollowed {
				return "", "", &os.PathError{Op: "open", Path: path, Err: errLinks}
			}
			target, err := os.Readlink(next)
			if err != nil {
				return "", "", err
			}
			if filepath.IsAbs(target) {
				at = ""
			}
			top, way := split(target)
			at, rest = cmp.Or(at, top), append(way, rest...)
			continue
		}
		at = next
		if among(dirs, info) && !leaves(rest) {
			return at, filepath.Join(at, filepath.Join(rest...)), nil
		}
	}
	return "", "", nil
}

// split returns the top of a path and its elements below the top.
func split(path string) (top string, elements []string) {
	volume := filepath.VolumeName(path)
	elements = strings.Split(filepath.ToSlash(path[len(volume):]), "/")
	return volume + separator, slices.DeleteFunc(elements, func(e string) bool { return e == "" || e == "." })
}

// leaves reports whether the elements of a relative path lead out of its start.
func leaves(elements []string) bool { return len(elements) > 0 && elements[0] == ".." }

// infosOf returns what identifies the directories. A directory that does not
// exist is made: it holds no file yet, but must be recognised when it does.
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

// firstAmong returns the topmost parent of path that is one of dirs.
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
	if !among(dirs, info) {
		return ""
	}
	return path
}

func among(dirs []os.FileInfo, info os.FileInfo) bool {
	return slices.ContainsFunc(dirs, func(dir os.FileInfo) bool { return os.SameFile(dir, info) })
}

// OpenInside opens the file at path as os.OpenFile does. Below one of dirs it
// follows no symbolic link as the last element, and none that leads out of the
// directory.
func OpenInside(dirs []string, path string, flag int, perm os.FileMode) (*os.File, error) {
	dir, name, err := Inside(dirs, path)
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

var (
	errNotRegular = errors.New("not a regular file, where commands of the agent can write")
	errLinks      = errors.New("too many symbolic links")
)
