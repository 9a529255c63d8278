package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/x/pygent/internal/patherr"
	"github.com/x/pygent/internal/tree"
)

// Source is a file or directory of this machine that is to be copied.
type Source struct {
	Base string // the base name that the caller used
	Dir  bool

	root *os.Root
	name string // the name below root
	path string
}

// OpenSource opens a file or directory. Symbolic links in path, also as its
// last element, are followed; links below it are copied as links.
func OpenSource(path string) (*Source, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, patherr.Cause(err))
	}
	dir, name := splitHost(real)
	s, err := openSource(dir, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s.Base, s.path = filepath.Base(abs), path
	return s, nil
}

// OpenSourceIn opens a file or directory in dir on behalf of somebody who may
// not use anything else. No symbolic link may lead out of dir; the error then
// matches [ErrOutside].
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
		return nil, patherr.Cause(err)
	}
	info, err := root.Stat(name)
	if err != nil {
		if escapes(root, err) {
			err = ErrOutside
		}
		return nil, errors.Join(patherr.Cause(err), root.Close())
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return nil, errors.Join(tree.ErrNotRegular, root.Close()) // later errors may name the destination
	}
	return &Source{Dir: info.IsDir(), root: root, name: name}, nil
}

// Pack writes the archive of the source; see package tree. as is the name of a
// file in the archive.
func (s *Source) Pack(w io.Writer, as string, limits tree.Limits) error {
	if err := tree.Pack(w, s.root, s.name, tree.PackOptions{As: as, Limits: limits}); err != nil {
		return fmt.Errorf("%s: %w", s.path, patherr.Cause(err))
	}
	return nil
}

// Close releases the source.
func (s *Source) Close() error { return s.root.Close() }

// Destination is the place on this machine where a copy goes.
type Destination struct {
	root *os.Root // the directory that holds the place
	into string   // the directory below root into which the copy goes, and with which it appears; empty for root itself
	as   string   // the name of the file there; empty for the content of a directory
}

// OpenDestination opens the destination of a copy. If path is a directory, the
// content of a copied directory goes into it, and a copied file goes there
// under base. Otherwise path itself becomes the directory or file. The caller
// is responsible for the directories above path. What is at path may belong to
// somebody else: a symbolic link there is replaced by a file, and refused if it
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
		return nil, fmt.Errorf("%s: %w", path, patherr.Cause(err))
	}
	d, err := openDestination(parent, name, base, dir, strings.HasSuffix(filepath.ToSlash(path), "/"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, patherr.Cause(err)), parent.Close())
	}
	if d.root != parent {
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
		return &Destination{root: into, as: base}, err
	case err == nil && (dir || intoDir):
		return nil, errors.New("not a directory")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil && (dir || intoDir):
		if dir {
			base = ""
		}
		return &Destination{root: parent, into: name, as: base}, nil
	}
	return &Destination{root: parent, as: name}, nil
}

// Unpack puts the tree of an archive in its place.
func (d *Destination) Unpack(r io.Reader, o tree.ExtractOptions) error {
	_, err := tree.Extract(r, d.root, d.options(o))
	return err
}

// options adds the place to the options of a copy.
func (d *Destination) options(o tree.ExtractOptions) tree.ExtractOptions {
	o.Into, o.As, o.Fresh = d.into, d.as, d.into != ""
	return o
}

// Close releases the destination.
func (d *Destination) Close() error { return d.root.Close() }

// splitHost splits an absolute path into a directory and a name in it. The root
// of a file system is split into itself and ".".
func splitHost(path string) (dir, name string) {
	dir, name = filepath.Split(filepath.Clean(path))
	if name == "" {
		name = "."
	}
	return dir, name
}
