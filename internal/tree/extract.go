package tree

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/x/pygent/internal/patherr"
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
	// Fresh says that there is nothing under the name Into yet, or nothing that is to be
	// followed: what appears there meanwhile is treated as what is in a place of the tree.
	Fresh bool
	// Owner, if set, gets every file, directory and link that is made, as far as this
	// process may give them away.
	Owner *Owner
}

// Owner is the owner of a file.
type Owner struct{ UID, GID int }

// Placed says what was put in its place.
type Placed struct {
	Files    int // files and links of the tree
	Replaced int // files and links that were there, and in whose place something else is now
}

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
	in, err := NewReader(r, NewBudget(o.Limits))
	if err != nil {
		return Placed{}, err
	}
	s, err := in.Stage(root, o)
	if err != nil {
		return Placed{}, err
	}
	switch n, err := io.Copy(io.Discard, io.LimitReader(in.r, maxPadding+1)); {
	case err != nil:
		return Placed{}, errors.Join(brokenArchive(err), s.Discard())
	case n > maxPadding:
		return Placed{}, errors.Join(fmt.Errorf("%w: it goes on after its end", ErrHostile), s.Discard())
	}
	return s.Commit()
}

// Staged is a tree that is complete but not in its place yet.
type Staged struct {
	tree *builder
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
	return stage(root, o, func(b *builder, missing string) error {
		x := &extractor{builder: b, in: t, into: missing}
		return x.unpack()
	})
}

// stage builds a tree in a new stage. fill builds it below a path in the stage.
func stage(root *os.Root, o ExtractOptions, fill func(b *builder, into string) error) (*Staged, error) {
	dir, under := o.Into, ""
	if o.Fresh {
		dir, under = filepath.Split(filepath.Clean(filepath.FromSlash(o.Into)))
	}
	base, missing, err := openInto(root, dir)
	if err != nil {
		return nil, err
	}
	// A process that was killed may have left a stage here. When a workspace is
	// opened, nobody looks for them in its subdirectories.
	_ = RemoveStages(context.Background(), base)
	s, err := stageIn(base, o, func(b *builder) error { return fill(b, filepath.Join(missing, under)) })
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
	for again := false; ; {
		base, err = openRoot(root, at)
		if err == nil || at == "." || !errors.Is(err, fs.ErrNotExist) {
			return base, missing, err
		}
		switch there, absent := root.Lstat(at); {
		case absent != nil:
			at, missing = filepath.Dir(at), filepath.Join(filepath.Base(at), missing)
		case again || there.Mode()&fs.ModeSymlink != 0:
			return nil, "", err // a link that leads nowhere
		default:
			again = true // somebody else has made it meanwhile
		}
	}
}

// stageIn builds a tree in a new stage in base.
func stageIn(base *os.Root, o ExtractOptions, fill func(*builder) error) (*Staged, error) {
	// The stage is private, so the directory for the tree can be as any other: it shows
	// what the file system makes of new ones.
	name, lock, err := newStage(base, 0o777)
	if err != nil {
		return nil, err
	}
	s := &Staged{root: base, name: name, lock: lock}
	dir, err := openRoot(base, filepath.Join(name, stageTree))
	if err == nil {
		s.tree, err = newBuilder(dir, o)
	}
	if err == nil {
		err = fill(s.tree)
		err = cmp.Or(err, s.tree.end())
	}
	if err != nil {
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
	return Placed{Files: int(s.tree.files.Load()), Replaced: m.replaced}, s.tree.setModes(s.root)
}

// Discard removes what is not in its place yet.
func (s *Staged) Discard() error { return errors.Join(s.removeStage(), s.root.Close()) }

func (s *Staged) removeStage() error {
	err := errors.Join(Remove(s.root, s.name), closeLock(s.lock))
	s.lock = nil
	return err
}

// extractor unpacks an archive.
type extractor struct {
	*builder
	in   *Reader
	into string // the directory into which the tree goes, below the stage
	buf  []byte
	free chan []byte // buffers for the content of small files
	used int         // buffers that were made
}

// maxSmall is the size of the largest file whose content is read before the file is
// made, so that somebody else can make it.
const maxSmall = 64 << 10

func (x *extractor) unpack() error {
	x.buf = make([]byte, 256<<10)
	if into := filepath.Clean(x.into); into != "." {
		if _, err := x.enter(into); err != nil {
			return err
		}
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
			return err
		}
	}
}

func (x *extractor) entry(h *tar.Header) error {
	name, err := localName(h.Name)
	if err == nil {
		path := filepath.Join(x.into, cmp.Or(x.options.As, name))
		switch h.Typeflag {
		case tar.TypeDir:
			err = x.directory(path, permissions(h))
		case tar.TypeSymlink:
			err = x.link(path, h.Linkname)
		default:
			return x.regular(path, h)
		}
	}
	return unpacking(h.Name, err)
}

// unpacking says what an error is about.
func unpacking(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("unpack %q: %w", name, patherr.Cause(err))
}

func (x *extractor) regular(path string, h *tar.Header) error {
	size, parts, err := extentsOf(h)
	if err != nil {
		return unpacking(h.Name, err)
	}
	name := h.Name
	f := newFile{path: path, mode: permissions(h), modTime: h.ModTime, drop: func() {}}
	f.failed = func(err error) error { return unpacking(name, err) }
	if !x.in.dir || size > maxSmall || size != h.Size {
		f.fill = func(file *os.File, buf []byte) error { return fill(file, x.in.tr, size, parts, buf) }
		return x.file(f, x.buf)
	}
	content := x.buffer()
	f.drop = func() { x.free <- content }
	if _, err := io.ReadFull(x.in.tr, content[:size]); err != nil {
		f.drop()
		return unpacking(name, unexpectedEOF(err))
	}
	f.fill = func(file *os.File, _ []byte) error { return writeSmall(file, content[:size]) }
	return x.fileLater(f, x.buf)
}

// unexpectedEOF turns the end of an archive into an error.
func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// buffer returns a buffer for a small file. It waits for one if there are as many as
// jobs can be under way.
func (x *extractor) buffer() []byte {
	const most = maxJobs + maxWriters + 1
	if x.free == nil {
		x.free = make(chan []byte, most)
	}
	select {
	case b := <-x.free:
		return b
	default:
	}
	if x.used < most {
		x.used++
		return make([]byte, maxSmall)
	}
	return <-x.free
}

// setModes sets the modes of directories. It leaves out a directory that a
// later entry of the archive has replaced.
func (b *builder) setModes(root *os.Root) error {
	var result error
	// Start with the deepest directories: a mode may make what is below
	// unreachable.
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(b.modes))) {
		if info, err := root.Lstat(name); err == nil && info.IsDir() {
			result = errors.Join(result, root.Chmod(name, b.modes[name]))
		}
	}
	return result
}
