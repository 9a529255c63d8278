package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/x/pygent/internal/patherr"
)

// mover moves the content of a stage to the same names below root.
type mover struct {
	root     *os.Root
	stage    string // the directory with the content, below root
	replaced int    // files and links in whose place something goes
	moved    bool   // something was moved
}

// look counts what is replaced when the content of the directory dir of the stage
// is moved. It fails where a directory is in the place of a file.
func (m *mover) look(dir string) error {
	return m.each(dir, func(name string, isDir bool) error {
		there, err := m.root.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !there.IsDir():
			m.replaced++
			return nil
		case isDir:
			return m.look(name)
		}
		return inItsPlace(name)
	})
}

// merge moves the content of the directory dir of the stage.
func (m *mover) merge(dir string) error {
	return m.each(dir, func(name string, isDir bool) error {
		move := m.file
		if isDir {
			move = m.directory
		}
		return move(name)
	})
}

// each calls do for everything in a directory of the stage, with its name below
// root.
func (m *mover) each(dir string, do func(name string, isDir bool) error) error {
	f, err := m.root.Open(filepath.Join(m.stage, dir))
	if err != nil {
		return placing(dir, err)
	}
	entries, err := f.ReadDir(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return placing(dir, err)
	}
	for _, e := range entries {
		if err := do(filepath.Join(dir, e.Name()), e.IsDir()); err != nil {
			return err
		}
	}
	return nil
}

// file moves a file or link, and replaces an existing one.
func (m *mover) file(name string) error {
	err := m.rename(name)
	if err == nil {
		return nil
	}
	if there, lerr := m.root.Lstat(name); lerr == nil && there.IsDir() {
		err = inItsPlace(name)
	}
	return m.halfway(err)
}

// directory moves a directory. If it exists already, only its content is moved. A
// file or link in its place is removed.
func (m *mover) directory(name string) error {
	there, err := m.root.Lstat(name)
	switch {
	case err == nil && there.IsDir():
		return m.merge(name)
	case err == nil:
		err = m.root.Remove(name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return m.halfway(err)
	}
	if err = m.rename(name); err == nil {
		return nil
	}
	if there, lerr := m.root.Lstat(name); lerr == nil && there.IsDir() {
		return m.merge(name) // somebody else has made it meanwhile
	}
	return m.halfway(err)
}

func (m *mover) rename(name string) error {
	err := m.root.Rename(filepath.Join(m.stage, name), name)
	m.moved = m.moved || err == nil
	return placing(name, err)
}

// placing says which file of the tree an error is about, whose name in the stage nobody
// knows.
func placing(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("put %s in its place: %w", name, patherr.Cause(err))
}

// halfway adds to an error that the tree is neither in its place nor gone.
func (m *mover) halfway(err error) error {
	if m.moved {
		return fmt.Errorf("%w; a part of the tree is in its place already", err)
	}
	return err
}

func inItsPlace(name string) error {
	return fmt.Errorf("%s: there is a directory in its place: %w", name, fs.ErrExist)
}
