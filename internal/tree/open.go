package tree

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// openRoot opens a directory below root. [os.Root.OpenRoot] alone would wait for
// ever if a pipe is there, or takes the directory's place just then: it asks for
// no directory where the name ends, but does for what is above a ".".
func openRoot(root *os.Root, name string) (*os.Root, error) {
	dir, err := root.OpenRoot(name + string(filepath.Separator) + ".")
	var bad *fs.PathError
	if errors.As(err, &bad) {
		bad.Path = name
	}
	return dir, err
}

// OpenFile opens an entry that is a regular file. It never blocks, and follows no
// link.
func OpenFile(e Entry) (*os.File, error) {
	f, err := e.Dir.OpenFile(e.Base, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	if is, err := f.Stat(); err != nil || !is.Mode().IsRegular() || !os.SameFile(is, e.Info) {
		return nil, errors.Join(err, f.Close(), ErrNotRegular)
	}
	return f, nil
}
