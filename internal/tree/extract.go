package tree

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ExtractOptions adjust [Extract].
type ExtractOptions struct {
	Limits Limits
	// As names the file that the tree must be; empty for the archive's own word.
	As string
	// NoLinks refuses symbolic links.
	NoLinks bool
	// Open keeps write permissions of the group and of others that the umask of
	// this process takes from new files.
	Open bool
	// Chown, if set, is called for every file, directory and link that is made.
	Chown func(root *os.Root, name string)
}

// maxModes bounds the names of directories that are held until their modes can
// be set, in bytes.
const maxModes = 64 << 20

// Extract unpacks an archive below root, where the tree is put together beside
// its place and moved there when it is complete: after an error nothing of it is
// left, unless the error is that of the moving. Permission bits, but for those to
// write that the umask forbids, times of files and symbolic links are kept; links may lead anywhere, and nothing is written
// through them. Files and links in the way are replaced, directories merged.
func Extract(r io.Reader, root *os.Root, o ExtractOptions) error {
	s, err := Stage(r, root, o)
	if err != nil {
		return err
	}
	return s.Commit()
}

// Staged is a tree that is complete, and not in its place yet.
type Staged struct {
	x    *extractor
	root *os.Root
	name string // of the directory that holds it
	lock *os.File
}

// Stage does the first half of [Extract].
func Stage(r io.Reader, root *os.Root, o ExtractOptions) (*Staged, error) {
	in, err := NewReader(r, NewBudget(o.Limits))
	if err != nil {
		return nil, err
	}
	return in.Stage(root, o)
}

// Stage does what the function does, with an archive that is being read. Limits
// are the reader's.
func (t *Reader) Stage(root *os.Root, o ExtractOptions) (*Staged, error) {
	if o.As != "" && t.IsDir() {
		return nil, fmt.Errorf("%s: a directory now, and no file", o.As)
	}
	name, lock, err := newStage(root)
	if err != nil {
		return nil, err
	}
	dir, err := root.OpenRoot(name)
	if err != nil {
		return nil, errors.Join(err, root.Remove(name), closeLock(lock))
	}
	x := &extractor{root: dir, in: t, options: o, modes: make(map[string]fs.FileMode), buf: make([]byte, 64<<10)}
	s := &Staged{x: x, root: root, name: name, lock: lock}
	if err := errors.Join(x.unpack(), dir.Close()); err != nil {
		return nil, errors.Join(err, s.Discard())
	}
	return s, nil
}

// Commit moves the tree to its place.
func (s *Staged) Commit() error {
	err := merge(s.root, s.name, ".")
	if err = errors.Join(err, s.Discard()); err != nil {
		return err
	}
	return s.x.setModes(s.root)
}

// Discard removes what is not in its place.
func (s *Staged) Discard() error {
	err := errors.Join(Remove(s.root, s.name), closeLock(s.lock))
	s.lock = nil
	return err
}

// extractor is one run of [Extract].
type extractor struct {
	root    *os.Root // where the tree is put together
	in      *Reader
	options ExtractOptions
	modes   map[string]fs.FileMode // of directories, set at the end
	held    int                    // bytes of the names in modes
	parent  string                 // a directory that is known to be one, all the way down
	buf     []byte
}

func (x *extractor) unpack() error {
	for {
		h, err := x.in.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if isTop(h) {
			continue // the directory is there, and its mode its owner's
		}
		if err := x.entry(h); err != nil {
			return fmt.Errorf("unpack %q: %w", h.Name, err)
		}
	}
}

func (x *extractor) entry(h *tar.Header) error {
	name, err := localName(h.Name)
	if err != nil {
		return err
	}
	if x.options.As != "" {
		name = x.options.As
	}
	if h.Typeflag == tar.TypeSymlink && x.options.NoLinks {
		return ErrLink
	}
	if err := x.parents(name); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		err = x.directory(name, h)
	case tar.TypeSymlink:
		err = x.inPlace(name, func() error { return x.root.Symlink(h.Linkname, name) })
	default:
		err = x.file(name, h)
	}
	if err == nil {
		x.chown(name)
	}
	return err
}

func (x *extractor) chown(name string) {
	if x.options.Chown != nil {
		x.options.Chown(x.root, name)
	}
}

// parents makes the directories above name that are not there. A file or link
// in the place of one is replaced.
func (x *extractor) parents(name string) error {
	dir := filepath.Dir(name)
	if dir == "." || dir == x.parent {
		return nil
	}
	elements := strings.Split(dir, string(filepath.Separator))
	for i := range elements {
		if err := x.makeDir(filepath.Join(elements[:i+1]...)); err != nil {
			return err
		}
	}
	x.parent = dir
	return nil
}

// makeDir makes a directory, or keeps the one that is there.
func (x *extractor) makeDir(name string) error {
	if info, err := x.root.Lstat(name); err == nil && info.IsDir() {
		return nil
	}
	err := x.inPlace(name, func() error { return x.root.Mkdir(name, 0o777) })
	if err == nil {
		x.chown(name)
	}
	return err
}

func (x *extractor) directory(name string, h *tar.Header) error {
	if err := x.makeDir(name); err != nil {
		return err
	}
	if _, ok := x.modes[name]; !ok {
		if x.held += len(name); x.held > maxModes {
			return fmt.Errorf("%w: the names of its directories alone exceed %s", ErrTooLarge, size(maxModes))
		}
	}
	info, err := x.root.Lstat(name)
	if err != nil {
		return err
	}
	// Its mode may forbid what is still to be put into it, so it comes last.
	x.modes[name] = x.mode(permissions(h), info)
	return nil
}

// mode returns the mode of a file or directory that was made with all
// permissions to write, of which the umask has left those in made.
func (x *extractor) mode(wanted fs.FileMode, made fs.FileInfo) fs.FileMode {
	const writable = 0o022
	if x.options.Open {
		return wanted
	}
	return wanted &^ (writable &^ made.Mode())
}

// inPlace makes something new, in the place of a file or link that the archive
// had there before.
func (x *extractor) inPlace(name string, create func() error) error {
	err := create()
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := x.root.Lstat(name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("there is a directory in its place: %w", fs.ErrExist)
	}
	if err := x.root.Remove(name); err != nil {
		return err
	}
	return create()
}

func (x *extractor) file(name string, h *tar.Header) error {
	size, parts, err := extentsOf(h)
	if err != nil {
		return err
	}
	var file *os.File
	err = x.inPlace(name, func() (err error) {
		file, err = x.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o622) // nobody else gets into the stage
		return err
	})
	if err != nil {
		return err
	}
	made, err := file.Stat()
	if err == nil {
		err = fill(file, x.in.tr, size, parts, x.buf)
	}
	if err == nil {
		err = file.Chmod(x.mode(permissions(h), made))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if h.ModTime.Unix() > 0 {
		// A file system that keeps no times is no reason to fail.
		_ = x.root.Chtimes(name, time.Time{}, h.ModTime)
	}
	return nil
}

// merge moves what is in the directory dir of a stage to the same names below
// root.
func merge(root *os.Root, stage, dir string) error {
	f, err := root.Open(filepath.Join(stage, dir))
	if err != nil {
		return err
	}
	entries, err := f.ReadDir(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if e.IsDir() {
			err = moveDir(root, stage, name)
		} else {
			err = moveFile(root, stage, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// moveFile replaces a file or link by the one of the stage.
func moveFile(root *os.Root, stage, name string) error {
	err := root.Rename(filepath.Join(stage, name), name)
	if err == nil {
		return nil
	}
	if there, lerr := root.Lstat(name); lerr == nil && there.IsDir() {
		return fmt.Errorf("%s: there is a directory in its place: %w", name, fs.ErrExist)
	}
	return err
}

// moveDir moves a directory of the stage, or what is in it where there is one
// already. A file or link in its place is removed.
func moveDir(root *os.Root, stage, name string) error {
	there, err := root.Lstat(name)
	switch {
	case err == nil && there.IsDir():
		return merge(root, stage, name)
	case err == nil:
		err = root.Remove(name)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return root.Rename(filepath.Join(stage, name), name)
}

// setModes sets the modes of directories. One that was replaced meanwhile by a
// later entry has none to set.
func (x *extractor) setModes(root *os.Root) error {
	var result error
	// The deepest first: a mode may take away the way to what is below.
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(x.modes))) {
		if info, err := root.Lstat(name); err == nil && info.IsDir() {
			result = errors.Join(result, root.Chmod(name, x.modes[name]))
		}
	}
	return result
}
