package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/x/pygent/internal/patherr"
)

// Duplicate copies the file or directory name below from into to, where both are on this
// machine. It does what [Extract] does with what [Pack] makes, without the archive:
// the kernel copies the content, and shares it where the file system can. A file that
// is all zeros, but has no holes, does not get any.
//
// copied is called with how many bytes of files were copied since it was last called.
// Several goroutines call it. It ends early when ctx does.
func Duplicate(ctx context.Context, from *os.Root, name string, to *os.Root, o ExtractOptions, copied func(int64)) (Placed, error) {
	s, err := stageCopy(ctx, from, filepath.FromSlash(name), to, o, copied)
	if err != nil {
		return Placed{}, err
	}
	if err := ctx.Err(); err != nil {
		return Placed{}, errors.Join(err, s.Discard())
	}
	return s.Commit()
}

// stageCopy does what Duplicate does, but does not move the tree to its place.
func stageCopy(ctx context.Context, from *os.Root, name string, to *os.Root, o ExtractOptions, copied func(int64)) (*Staged, error) {
	info, err := from.Stat(name)
	if err != nil {
		return nil, err
	}
	c := &copier{ctx: ctx, budget: NewBudget(o.Limits), copied: copied, buf: make([]byte, bufferSize)}
	build := func() error { return c.single(from, name) }
	switch {
	case info.IsDir() && o.As != "":
		return nil, fmt.Errorf("%s: a directory now, and no file", o.As)
	case info.IsDir():
		top, err := openRoot(from, name)
		if err != nil {
			return nil, err
		}
		defer top.Close()
		build = func() error { return Walk(top, c.add) }
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "copy", Path: name, Err: ErrNotRegular}
	}
	return stage(to, o, func(b *builder, into string) error {
		c.builder, c.into = b, into
		if into = filepath.Clean(into); into != "." {
			if _, err := b.enter(into); err != nil {
				return err
			}
		}
		return build()
	})
}

// copier is one run of [Duplicate].
type copier struct {
	*builder
	ctx    context.Context
	into   string // the directory into which the tree goes, below the stage
	budget *Budget
	copied func(int64)
	buf    []byte
}

// single copies a tree that is a single file.
func (c *copier) single(root *os.Root, name string) error {
	file, info, err := openSingle(root, name)
	if err != nil {
		return err
	}
	as := cmp.Or(c.options.As, filepath.Base(name))
	f, err := c.describe(filepath.ToSlash(as), file, info)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	return c.file(f, c.buf)
}

// add copies one entry that a walk has found.
func (c *copier) add(e Entry) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	switch kind := e.Info.Mode().Type(); {
	case kind == 0:
		return c.regular(e)
	case e.Info.IsDir() && isStage(e.Dir, e.Base):
		return fs.SkipDir
	case e.Info.IsDir():
		return c.plain(e, func(at string) error { return c.directory(at, e.Info.Mode().Perm()) })
	case kind == fs.ModeSymlink:
		target, err := linkOf(e)
		if target == "" {
			return err
		}
		return c.plain(e, func(at string) error { return c.link(at, target) })
	}
	return c.budget.entry(e.Name, 0)
}

// plain makes an entry that has no content.
func (c *copier) plain(e Entry, create func(at string) error) error {
	if err := c.budget.entry(e.Name, 0); err != nil {
		return err
	}
	at, err := c.placeOf(e.Name)
	if err == nil {
		err = create(at)
	}
	return copying(e.Name, err)
}

// placeOf returns where an entry goes in the stage.
func (c *copier) placeOf(name string) (string, error) {
	local, err := localName(name)
	return filepath.Join(c.into, local), err
}

// copying says what an error is about.
func copying(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, patherr.Cause(err))
}

func (c *copier) regular(e Entry) error {
	file, info, err := openEntry(e)
	if file == nil {
		return err
	}
	f, err := c.describe(e.Name, file, info)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	return c.fileLater(f, c.buf)
}

// describe describes the copy of an open file, which is closed when the copy drops it.
func (c *copier) describe(name string, file *os.File, info fs.FileInfo) (newFile, error) {
	at, err := c.placeOf(name)
	if err != nil {
		return newFile{}, err
	}
	size, parts := info.Size(), extents{{0, info.Size()}}
	if size >= minHole {
		parts = dataOf(file, size)
	}
	if err := c.budget.entry(name, parts.bytes()); err != nil {
		return newFile{}, err
	}
	return newFile{
		path: at, mode: info.Mode().Perm(), modTime: info.ModTime(),
		fill: func(to *os.File, buf []byte) error {
			if size <= int64(len(buf)) {
				return c.small(to, file, buf[:size])
			}
			return c.large(to, file, size, parts)
		},
		drop:   func() { _ = file.Close() }, // it was only read
		failed: func(err error) error { return copying(path.Clean(name), err) },
	}, nil
}

// small copies a file through a buffer of its size.
func (c *copier) small(to, from *os.File, buf []byte) error {
	if err := readPart(from, 0, buf); err != nil {
		return err
	}
	c.copied(int64(len(buf)))
	return writeSmall(to, buf)
}

// copyAtOnce is how much is copied between two looks at the context, in bytes.
const copyAtOnce = 8 << 20

// large copies the parts of a file that hold data.
func (c *copier) large(to, from *os.File, size int64, parts extents) error {
	for _, part := range parts {
		if err := c.part(to, from, part); err != nil {
			return err
		}
	}
	return to.Truncate(size) // there may be a hole at the end, or the file has shrunk
}

func (c *copier) part(to, from *os.File, part extent) error {
	if _, err := from.Seek(part.offset, io.SeekStart); err != nil {
		return err
	}
	if _, err := to.Seek(part.offset, io.SeekStart); err != nil {
		return err
	}
	for left := part.length; left > 0; {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		// Both are plain files, so that the kernel copies.
		n, err := to.ReadFrom(&io.LimitedReader{R: from, N: min(left, copyAtOnce)})
		if err != nil {
			return err
		}
		if n == 0 {
			return nil // it has shrunk
		}
		c.copied(n)
		left -= n
	}
	return nil
}
