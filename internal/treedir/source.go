package treedir

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
)

// Source is a tree that can be taken: a directory of this machine, or one that
// is seen through a guest. What it tells is not trusted.
type Source interface {
	// Scan calls yield for everything in the tree, sorted by name within each
	// directory, and for a directory before its content. yield may return
	// [fs.SkipDir] for a directory. Scan returns the first other error of yield.
	// yield may call Read.
	Scan(ctx context.Context, yield func(Entry) error) error
	// Read calls yield with each of some files of the tree, in the order of the
	// names. err says why a file cannot be read: [fs.ErrNotExist] if it has gone,
	// or is no regular file now. file is closed when yield has returned.
	Read(ctx context.Context, names iter.Seq[string], yield func(name string, file Opened, err error) error) error
}

// Reader reads files as a [Source] does.
type Reader interface {
	Read(ctx context.Context, names iter.Seq[string], yield func(name string, file Opened, err error) error) error
}

// Sharer is a [Source] whose files several goroutines can read at once.
type Sharer interface {
	Source
	// Reader returns what another goroutine can read files of the tree with, as long
	// as the source is open; nil if only the source itself reads them.
	Reader() Reader
}

// Opened is an open file of a source.
type Opened interface {
	io.Reader
	// Stat describes the file as it is now.
	Stat() (Entry, error)
}

// Entry is what a source tells about a name.
type Entry struct {
	Name       string      // slash-separated, from the top of the tree
	Mode       fs.FileMode // type and permissions
	Size       int64       // of a file, in bytes
	ModTime    int64       // in nanoseconds since 1970
	ChangeTime int64       // of the file or what is known of it, in the same unit; the ModTime if the system has none
	Inode      uint64      // 0 if the system has none
	Target     string      // of a symbolic link
	Ignores    bool        // there is a .gitignore in the directory; told with the first entry of it
	// Err says why something cannot be read. For a directory it is told in a
	// second entry for it, in place of its content.
	Err error
}

// Unchanged reports whether two entries of one name are the same file with the
// same content, if its times can be trusted.
func (e Entry) Unchanged(other Entry) bool {
	return e.Mode == other.Mode && e.Size == other.Size && e.ModTime == other.ModTime &&
		e.ChangeTime == other.ChangeTime && e.Inode == other.Inode
}

// Reason returns an error without the path that it names.
func Reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}
