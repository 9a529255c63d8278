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

// ExtractOptions are the options of [Extract].
type ExtractOptions struct {
	Limits Limits
	// As is the name under which a tree that is a file is written. If it is
	// set, the tree must be a file. Empty means the name in the archive, and
	// allows a directory.
	As string
	// NoLinks refuses symbolic links.
	NoLinks bool
	// Open keeps the permissions to write for the group and others, which the
	// umask of this process would remove from new files.
	Open bool
	// Into is the directory below the root into which the tree goes. If it does
	// not exist, it appears together with the tree. Empty means the root itself.
	Into string
	// Chown, if set, is called for every file, directory and link that is made.
	Chown func(root *os.Root, name string)
}

// Placed says what was put in its place.
type Placed struct {
	Files    int // files and links of the tree
	Replaced int // files and links that were there, and in whose place something else is now
}

// maxModes limits the memory for directories whose modes are still to be set:
// it is the total size of their names, in bytes.
const maxModes = 64 << 20

// maxPadding is how many bytes may follow an archive.
const maxPadding = 1 << 20

// Extract unpacks an archive below root. The tree is first built in a temporary
// directory, and moved to its place when it is complete and r has ended without
// an error. After an error nothing of it is left, unless moving it has failed,
// which the error says then. Extract keeps permission bits (except write permissions
// that the umask forbids), the modification times of files, and symbolic links. A
// link may lead anywhere; nothing is written through it. Existing files and links with the same names are replaced, and
// directories are merged. A directory is not replaced by a file.
func Extract(r io.Reader, root *os.Root, o ExtractOptions) (Placed, error) {
	s, err := Stage(r, root, o)
	if err != nil {
		return Placed{}, err
	}
	switch n, err := io.Copy(io.Discard, io.LimitReader(r, maxPadding+1)); {
	case err != nil:
		return Placed{}, errors.Join(brokenArchive(err), s.Discard())
	case n > maxPadding:
		return Placed{}, errors.Join(fmt.Errorf("%w: it goes on after its end", ErrHostile), s.Discard())
	}
	return s.Commit()
}

// Staged is a tree that is complete but not in its place yet.
type Staged struct {
	x    *extractor
	root *os.Root // the directory that holds the stage, and where the tree goes
	name string   // the temporary directory that holds it
	lock *os.File
}

// Stage does the first half of [Extract]: it unpacks the archive, but does not
// move the tree to its place.
func Stage(r io.Reader, root *os.Root, o ExtractOptions) (*Staged, error) {
	in, err := NewReader(r, NewBudget(o.Limits))
	if err != nil {
		return nil, err
	}
	return in.Stage(root, o)
}

// Stage is like the function [Stage], for an archive that is already being
// read. The reader's limits apply.
func (t *Reader) Stage(root *os.Root, o ExtractOptions) (*Staged, error) {
	if o.As != "" && t.IsDir() {
		return nil, fmt.Errorf("%s: a directory now, and no file", o.As)
	}
	base, missing, err := openInto(root, o.Into)
	if err != nil {
		return nil, err
	}
	// A process that was killed may have left a stage here. When a workspace is
	// opened, nobody looks for them in its subdirectories.
	_ = RemoveStages(base)
	s, err := t.stage(base, missing, o)
	if err != nil {
		_ = base.Close()
		return nil, err
	}
	return s, nil
}

// openInto opens the directory into which a tree goes, or the nearest one above
// it that exists, and returns what is missing below that. Links are followed.
func openInto(root *os.Root, dir string) (base *os.Root, missing string, err error) {
	at := filepath.Clean(filepath.FromSlash(dir))
	for {
		base, err = openRoot(root, at)
		if err == nil || at == "." || !errors.Is(err, fs.ErrNotExist) {
			return base, missing, err
		}
		if _, there := root.Lstat(at); there == nil {
			return nil, "", err // a link that leads nowhere
		}
		at, missing = filepath.Dir(at), filepath.Join(filepath.Base(at), missing)
	}
}

// stage unpacks the archive in a new stage in base.
func (t *Reader) stage(base *os.Root, missing string, o ExtractOptions) (*Staged, error) {
	name, lock, err := newStage(base)
	if err != nil {
		return nil, err
	}
	dir, err := openRoot(base, filepath.Join(name, stageTree))
	if err != nil {
		return nil, errors.Join(err, Remove(base, name), closeLock(lock))
	}
	x := &extractor{root: dir, in: t, into: missing, options: o, modes: make(map[string]fs.FileMode), buf: make([]byte, 64<<10)}
	s := &Staged{x: x, root: base, name: name, lock: lock}
	if err := errors.Join(x.unpack(), dir.Close()); err != nil {
		return nil, errors.Join(err, s.removeStage())
	}
	return s, nil
}

// Commit moves the tree to its place. If a directory is in the place of a file,
// it moves nothing.
func (s *Staged) Commit() (Placed, error) {
	defer s.root.Close()
	m := mover{root: s.root, stage: filepath.Join(s.name, stageTree)}
	err := m.look(".")
	if err == nil {
		err = m.merge(".")
	}
	if err = errors.Join(err, s.removeStage()); err != nil {
		return Placed{}, err
	}
	return Placed{Files: s.x.files, Replaced: m.replaced}, s.x.setModes(s.root)
}

// Discard removes what is not in its place yet.
func (s *Staged) Discard() error { return errors.Join(s.removeStage(), s.root.Close()) }

func (s *Staged) removeStage() error {
	err := errors.Join(Remove(s.root, s.name), closeLock(s.lock))
	s.lock = nil
	return err
}

// extractor is one run of [Extract].
type extractor struct {
	root    *os.Root // where the tree is built
	in      *Reader
	into    string // the directory into which the tree goes, below root
	options ExtractOptions
	files   int                    // files and links that were made
	modes   map[string]fs.FileMode // of directories, set at the end
	held    int                    // bytes of the names in modes
	parent  string                 // a directory that is known to exist, without links on its path
	buf     []byte
}

func (x *extractor) unpack() error {
	if err := x.directories(filepath.Clean(x.into)); err != nil {
		return err
	}
	for {
		h, err := x.in.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if isTop(h) {
			continue // the directory exists, and keeps its mode
		}
		if err := x.entry(h); err != nil {
			return fmt.Errorf("unpack %q: %w", h.Name, withoutPath(err))
		}
	}
}

// withoutPath removes the path of a file in the stage from an error.
func withoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func (x *extractor) entry(h *tar.Header) error {
	name, err := localName(h.Name)
	if err != nil {
		return err
	}
	if x.options.As != "" {
		name = x.options.As
	}
	name = filepath.Join(x.into, name)
	if h.Typeflag == tar.TypeSymlink && x.options.NoLinks {
		return ErrLink
	}
	if err := x.directories(filepath.Dir(name)); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		err = x.directory(name, h)
	case tar.TypeSymlink:
		if err = x.inPlace(name, func() error { return x.root.Symlink(h.Linkname, name) }); err == nil {
			x.files++
		}
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

// directories makes a directory and those above it, if they are missing. A file
// or link in the place of such a directory is replaced.
func (x *extractor) directories(dir string) error {
	if dir == "." || dir == x.parent {
		return nil
	}
	// What is known of the last directory is known of those above it, too. Looking at
	// all of them for each entry would take cubic time for a deep tree.
	for i := commonDir(dir, x.parent); i < len(dir); {
		i++ // behind the separator; a name has at least one byte
		if n := strings.IndexByte(dir[i:], filepath.Separator); n >= 0 {
			i += n
		} else {
			i = len(dir)
		}
		if err := x.makeDir(dir[:i]); err != nil {
			return err
		}
	}
	x.parent = dir
	return nil
}

// commonDir returns the length of the part of both paths that is a directory of both.
func commonDir(a, b string) (n int) {
	for i := 0; ; i++ {
		aEnds, bEnds := i == len(a) || a[i] == filepath.Separator, i == len(b) || b[i] == filepath.Separator
		if aEnds && bEnds {
			n = i
		}
		if i == len(a) || i == len(b) || a[i] != b[i] {
			return n
		}
	}
}

// makeDir makes a directory, or keeps an existing one.
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
	// The directory's mode may forbid to write into it, so it is set at the
	// end.
	x.modes[name] = x.mode(permissions(h), info)
	return nil
}

// mode returns the mode for a file or directory. It was made with all write
// permissions, and made shows which of them the umask has left.
func (x *extractor) mode(wanted fs.FileMode, made fs.FileInfo) fs.FileMode {
	const writable = 0o022
	if x.options.Open {
		return wanted
	}
	return wanted &^ (writable &^ made.Mode())
}

// inPlace makes something new. It replaces a file or link that an earlier entry
// of the archive has made under the same name.
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
	x.files--
	return create()
}

func (x *extractor) file(name string, h *tar.Header) error {
	size, parts, err := extentsOf(h)
	if err != nil {
		return err
	}
	var file *os.File
	err = x.inPlace(name, func() (err error) {
		file, err = x.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o622) // only this process can reach it in the stage
		return err
	})
	if err != nil {
		return err
	}
	x.files++
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
		// Some file systems keep no times, which is no reason to fail.
		_ = x.root.Chtimes(name, time.Time{}, h.ModTime)
	}
	return nil
}

// setModes sets the modes of directories. It leaves out a directory that a
// later entry of the archive has replaced.
func (x *extractor) setModes(root *os.Root) error {
	var result error
	// Start with the deepest directories: a mode may make what is below
	// unreachable.
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(x.modes))) {
		if info, err := root.Lstat(name); err == nil && info.IsDir() {
			result = errors.Join(result, root.Chmod(name, x.modes[name]))
		}
	}
	return result
}
