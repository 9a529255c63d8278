package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sort"
	"strings"
	"time"

	"github.com/x/pygent/internal/treedir"
)

// FS returns the files of a tree, which must be in a log, or taken and not
// forgotten. Names need not be valid UTF-8. Symbolic links are not followed:
// they are opened as [fs.ReadLinkFS] does. What was left out is not there.
// ctx ends each call that waits for the store to be collected.
func (s *Store) FS(ctx context.Context, t Tree) fs.FS { return &files{ctx, s, t} }

type files struct {
	ctx  context.Context
	s    *Store
	tree Tree
}

var _ fs.ReadLinkFS = (*files)(nil)

// Open implements fs.FS.
func (f *files) Open(name string) (fs.File, error) {
	found, err := f.find("open", name)
	if err != nil {
		return nil, err
	}
	o := &openFile{info: found, files: f}
	switch found.Kind {
	case File:
		o.Reader, err = f.open(found.Item)
	case Dir:
		err = f.held(func() error {
			o.children, err = f.s.children(found.Content)
			return err
		})
	default:
		err = errors.New("a symbolic link, which is not followed")
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return o, nil
}

// Reader reads a file of a tree for which FS would do, without a search for it. It is for
// one goroutine.
func (s *Store) Reader(ctx context.Context, file Item) (io.Reader, error) {
	return (&files{ctx: ctx, s: s}).open(file)
}

func (f *files) open(file Item) (r io.Reader, err error) {
	err = f.held(func() error {
		c, err := f.s.content(file)
		if err == nil {
			c.get = f.blob
			r = c.reader()
		}
		return err
	})
	return r, err
}

// Lstat implements fs.ReadLinkFS.
func (f *files) Lstat(name string) (fs.FileInfo, error) { return f.find("lstat", name) }

// ReadLink implements fs.ReadLinkFS.
func (f *files) ReadLink(name string) (string, error) {
	found, err := f.find("readlink", name)
	if err != nil {
		return "", err
	}
	if found.Kind != Link {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	return found.Target, nil
}

func (f *files) held(do func() error) error {
	release, err := f.s.hold(f.ctx)
	if err != nil {
		return err
	}
	defer release()
	return do()
}

func (f *files) find(op, name string) (found info, err error) {
	err = f.held(func() (err error) {
		found, err = f.walk(name)
		return err
	})
	if err != nil {
		return info{}, &fs.PathError{Op: op, Path: name, Err: err}
	}
	return found, nil
}

// walk finds a name, element by element.
func (f *files) walk(name string) (info, error) {
	at := info{child{".", Item{Kind: Dir, Mode: 0o755, Content: f.tree.root}}}
	if name == "." {
		return at, nil
	}
	for element := range strings.SplitSeq(name, "/") {
		if !treedir.ValidBase(element) {
			return info{}, fs.ErrInvalid
		}
		if at.Kind != Dir {
			return info{}, fs.ErrNotExist
		}
		children, err := f.s.children(at.Content)
		if err != nil {
			return info{}, err
		}
		i := sort.Search(len(children), func(i int) bool { return children[i].name >= element })
		if i == len(children) || children[i].name != element || children[i].Kind == LeftOut {
			return info{}, fs.ErrNotExist
		}
		at = info{children[i]}
	}
	return at, nil
}

// blob holds the store while it reads a part of a file.
func (f *files) blob(kind byte, name hash) (raw []byte, err error) {
	err = f.held(func() error {
		raw, err = f.s.blob(kind, name)
		return err
	})
	return raw, err
}

// openFile is an open file or directory. It is used by one goroutine at a time.
type openFile struct {
	io.Reader // nil for a directory
	info      info
	files     *files
	children  []child // those that are not read yet
}

func (o *openFile) Stat() (fs.FileInfo, error) { return o.info, nil }

func (o *openFile) Close() error { return nil }

// Read implements fs.File.
func (o *openFile) Read(p []byte) (int, error) {
	if o.Reader == nil {
		return 0, &fs.PathError{Op: "read", Path: o.info.name, Err: errors.New("a directory")}
	}
	return o.Reader.Read(p)
}

// ReadDir implements fs.ReadDirFile.
func (o *openFile) ReadDir(n int) (entries []fs.DirEntry, err error) {
	if o.Reader != nil {
		return nil, &fs.PathError{Op: "readdir", Path: o.info.name, Err: errors.New("not a directory")}
	}
	for len(o.children) > 0 && (n <= 0 || len(entries) < n) {
		if c := o.children[0]; c.Kind != LeftOut {
			entries = append(entries, fs.FileInfoToDirEntry(info{c}))
		}
		o.children = o.children[1:]
	}
	if n > 0 && len(entries) == 0 {
		return nil, io.EOF
	}
	return entries, nil
}

// info describes a child.
type info struct{ child }

func (i info) Name() string       { return path.Base(i.name) }
func (i info) Size() int64        { return i.Item.Size }
func (i info) IsDir() bool        { return i.Kind == Dir }
func (i info) Sys() any           { return nil }
func (i info) ModTime() time.Time { return time.Unix(0, i.Item.ModTime) }
func (i info) String() string     { return fmt.Sprintf("%q", i.name) }

// Mode returns the type and the permissions.
func (i info) Mode() fs.FileMode {
	switch i.Kind {
	case Dir:
		return fs.ModeDir | i.Item.Mode
	case Link:
		return fs.ModeSymlink | 0o777
	}
	return i.Item.Mode
}

// Find returns what a tree has at a name, and the zero Item for nothing.
func (s *Store) Find(ctx context.Context, t Tree, name string) (Item, error) {
	if t.IsZero() {
		return Item{}, nil
	}
	found, err := (&files{ctx, s, t}).find("find", name)
	if errors.Is(err, fs.ErrNotExist) {
		return Item{}, nil
	}
	return found.Item, err
}
