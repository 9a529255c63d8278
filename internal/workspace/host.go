package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/x/pygent/internal/tree"
)

// Source is a file or directory of this machine that is to be copied.
type Source struct {
	Base string // the name that it was given by
	Dir  bool

	root *os.Root
	name string // below root
	path string
}

// OpenSource opens what its caller names. A link by that name, or on the way to
// it, is what it leads to; links below it are links.
func OpenSource(path string) (*Source, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, cause(err))
	}
	dir, name := splitHost(real)
	s, err := openSource(dir, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.Base, s.path = filepath.Base(abs), path
	return s, nil
}

// OpenSourceIn opens what somebody names who may only name what is in dir: no
// link leads out of it. The error of one that does matches [ErrOutside].
func OpenSourceIn(dir, name string) (*Source, error) {
	if !filepath.IsLocal(name) {
		return nil, fmt.Errorf("%s: %w", name, ErrOutside)
	}
	s, err := openSource(dir, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s.Base, s.path = filepath.Base(name), name
	if s.Base == "." {
		s.Base = filepath.Base(dir)
	}
	return s, nil
}

func openSource(dir, name string) (*Source, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, cause(err)
	}
	info, err := root.Stat(name)
	if err != nil {
		if escapes(root, err) {
			err = ErrOutside
		}
		return nil, errors.Join(cause(err), root.Close())
	}
	return &Source{Dir: info.IsDir(), root: root, name: name}, nil
}

// Pack writes the archive of the source, as package tree makes it. As is what a
// file is to be called.
func (s *Source) Pack(w io.Writer, as string, limits tree.Limits) error {
	if err := tree.Pack(w, s.root, s.name, tree.PackOptions{As: as, Limits: limits}); err != nil {
		return fmt.Errorf("%s: %w", s.path, cause(err))
	}
	return nil
}

// Close releases the source.
func (s *Source) Close() error { return s.root.Close() }

// Destination is where on this machine a copy goes.
type Destination struct {
	into *os.Root // the directory that the copy goes into
	as   string   // the file's name there; empty for a directory's content

	parent *os.Root // of a directory that was made for the copy, else nil
	made   string
	filled bool // the copy is complete
}

// OpenDestination opens the place of a copy of a file or directory: a directory
// at path is filled, and takes a file under its base name; else path becomes
// that directory or file. The way to path is the caller's. What is at path may
// be somebody else's: a link there is replaced by a file, and refused where it
// leads to a directory.
func OpenDestination(path, base string, dir bool) (*Destination, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	above, name := splitHost(abs)
	if err := os.MkdirAll(above, 0o777); err != nil {
		return nil, err
	}
	parent, err := os.OpenRoot(above)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, cause(err))
	}
	d, err := openDestination(parent, name, base, dir, strings.HasSuffix(filepath.ToSlash(path), "/"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, cause(err)), parent.Close())
	}
	if d.into != parent && d.parent != parent {
		err = parent.Close()
	}
	return d, err
}

var errLinkedDirectory = errors.New("a symbolic link to a directory, which is not followed: name the directory itself")

func openDestination(parent *os.Root, name, base string, dir, intoDir bool) (*Destination, error) {
	info, err := parent.Lstat(name)
	switch {
	case err == nil && info.Mode()&fs.ModeSymlink != 0:
		if at, err := os.Stat(filepath.Join(parent.Name(), name)); dir || intoDir || err == nil && at.IsDir() {
			return nil, errLinkedDirectory
		}
	case err == nil && info.IsDir():
		into, err := parent.OpenRoot(name)
		if dir {
			base = ""
		}
		return &Destination{into: into, as: base}, err
	case err == nil && (dir || intoDir):
		return nil, errors.New("not a directory")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil && (dir || intoDir):
		return makeDestination(parent, name, base, dir)
	}
	return &Destination{into: parent, as: name}, nil
}

// makeDestination makes the directory that a copy goes into.
func makeDestination(parent *os.Root, name, base string, dir bool) (*Destination, error) {
	if err := parent.Mkdir(name, 0o777); err != nil {
		return nil, err
	}
	into, err := parent.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if dir {
		base = ""
	}
	return &Destination{into: into, as: base, parent: parent, made: name}, nil
}

// Unpack puts the tree of an archive in its place.
func (d *Destination) Unpack(r io.Reader, o tree.ExtractOptions) error {
	o.As = d.as
	err := tree.Extract(r, d.into, o)
	d.filled = err == nil
	return err
}

// Close releases the destination. What was made for a copy that did not come is
// gone then.
func (d *Destination) Close() error {
	err := d.into.Close()
	if d.parent == nil {
		return err
	}
	if !d.filled {
		_ = d.parent.Remove(d.made) // stays where it is no longer empty
	}
	return errors.Join(err, d.parent.Close())
}

// splitHost splits an absolute path into a directory and a name in it. The root
// of a file system is its own directory.
func splitHost(path string) (dir, name string) {
	dir, name = filepath.Split(filepath.Clean(path))
	if name == "" {
		name = "."
	}
	return dir, name
}
