package tempname

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/x/pygent/internal/filelock"
)

// File is a new file under a transient name. While its process lives, it is locked; so
// [Sweep] knows at once which ones a process has left that was killed. Of a file below the
// top of a workspace, a locked file at the top says where it is, since nobody looks
// through a whole workspace for it.
type File struct {
	*os.File
	root *os.Root
	name string

	marker     *os.File // nil for none
	markerName string
}

// maxPath bounds what is read of a marker.
const maxPath = 4096

// Create makes a file in a directory of a workspace, for [File.Become] or [File.Remove].
func Create(root *os.Root, dir string, perm fs.FileMode) (*File, error) {
	f := &File{root: root, name: path.Join(dir, Prefix+rand.Text())}
	if path.Dir(f.name) != "." && locked {
		// Where the top cannot be written, the file is made without a marker.
		if marker, name, err := create(root, Prefix+rand.Text(), 0o600); err == nil {
			f.marker, f.markerName = marker, name
			if _, err := marker.WriteString(f.name); err != nil {
				return nil, errors.Join(err, f.unmark())
			}
		}
	}
	var err error
	if f.File, f.name, err = create(root, f.name, perm); err != nil {
		return nil, errors.Join(err, f.unmark())
	}
	return f, nil
}

// tries is how often a file is made, at most, while others sweep at that very moment.
const tries = 100

// create makes a locked file, and returns its name. A sweep may see a file at the top before
// it is locked, and take it for one that was left; then one of another name is made.
func create(root *os.Root, name string, perm fs.FileMode) (*os.File, string, error) {
	for range tries {
		f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
		if errors.Is(err, fs.ErrPermission) { // such as of a mode that does not let its owner read
			f, err = root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		}
		if err != nil || !locked {
			return f, name, err
		}
		err = filelock.Lock(f)
		if err == nil && isAt(root, name, f) || err != nil && !errors.Is(err, filelock.ErrHeld) {
			return f, name, nil // a file system without locks grants none to Sweep either
		}
		_ = root.Remove(name) // unless the sweep has
		_ = filelock.Close(f)
		name = path.Join(path.Dir(name), Prefix+rand.Text())
	}
	return nil, "", &os.PathError{Op: "create", Path: name, Err: filelock.ErrHeld}
}

// isAt reports whether a name is still that of an open file.
func isAt(root *os.Root, name string, f *os.File) bool {
	now, _ := root.Lstat(name) // no file is the same as none
	opened, _ := f.Stat()
	return os.SameFile(now, opened)
}

// Name is the path of the file in the workspace.
func (f *File) Name() string { return f.name }

// Become puts the file in the place of another one. The file is closed in any case, and
// removed if that fails.
func (f *File) Become(dest string) error {
	release, err := closeHeld(f.File)
	defer release()
	if err == nil {
		err = f.root.Rename(f.name, dest)
	}
	if err != nil {
		_ = f.root.Remove(f.name)
	}
	return errors.Join(err, f.unmark())
}

// Remove closes and removes the file.
func (f *File) Remove() error {
	err := f.root.Remove(f.name)
	closed := filelock.Close(f.File)
	if err != nil { // a system that removes no open file
		err = f.root.Remove(f.name)
	}
	return errors.Join(err, closed, f.unmark())
}

func (f *File) unmark() error {
	if f.marker == nil {
		return nil
	}
	err := f.root.Remove(f.markerName)
	return errors.Join(err, filelock.Close(f.marker))
}

// Sweep removes from the top of a workspace the files of [Create] whose processes have
// ended, and what they say is below. Whatever fails is tried again by the next one.
func Sweep(root *os.Root) {
	for _, name := range Left(root) {
		_ = remove(root, name)
	}
}

// Left lists the files at the top of a workspace that Sweep would remove.
func Left(root *os.Root) (names []string) {
	if !locked {
		return nil
	}
	dir, err := root.Open(".")
	if err != nil {
		return nil
	}
	defer dir.Close()
	all, _ := dir.Readdirnames(-1)
	for _, name := range all {
		if isMade(name) {
			if f := abandoned(root, name); f != nil {
				names = append(names, name)
				_ = filelock.Close(f)
			}
		}
	}
	return names
}

// RemoveLeft removes a file that Left has listed.
func RemoveLeft(root *os.Root, name string) error {
	if !isMade(name) {
		return &os.PathError{Op: "remove", Path: name, Err: errors.New("not a file that pygent has left")}
	}
	return remove(root, name)
}

// remove removes a file at the top, and the one that it names.
func remove(root *os.Root, name string) error {
	f := abandoned(root, name)
	if f == nil {
		return nil
	}
	defer filelock.Close(f)
	said, _ := io.ReadAll(io.LimitReader(f, maxPath+1))
	// Anybody may have written a marker; the root refuses what leads out of it.
	if other := string(said); len(said) <= maxPath && path.Clean(other) != name && isMade(path.Base(other)) {
		if info, err := root.Lstat(other); err == nil && info.Mode().IsRegular() {
			if err := root.Remove(other); err != nil {
				return err
			}
		}
	}
	return root.Remove(name)
}

// abandoned returns the locked file of a name whose process has ended, or nil.
func abandoned(root *os.Root, name string) *os.File {
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil
	}
	if filelock.Lock(f) == nil && isAt(root, name, f) {
		return f
	}
	_ = f.Close()
	return nil
}

// isMade reports whether Create has chosen a name. Other transient names have lower case.
func isMade(base string) bool {
	rest, ok := strings.CutPrefix(base, Prefix)
	return ok && len(rest) == longest && strings.Trim(rest, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}
