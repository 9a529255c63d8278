package workspace

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// copyChunk is how much of a file is copied between two looks at the context.
const copyChunk = 1 << 20

// copyTo copies the file or directory src of one root to dest in another. A
// file goes under the given base name into dest where that is a directory, or
// must become one because intoDir says so.
func copyTo(ctx context.Context, to *os.Root, dest string, intoDir bool, from *os.Root, src, base string) error {
	info, err := from.Stat(src)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		if at, err := to.Stat(dest); intoDir || err == nil && at.IsDir() {
			dest = path.Join(dest, base)
		}
	}
	if dir := path.Dir(dest); dir != "." {
		if err := to.MkdirAll(dir, 0o777); err != nil {
			return err
		}
	}
	c := copier{ctx: ctx, to: to, from: from}
	if !info.IsDir() {
		return c.file(dest, src)
	}
	// The destination must exist before the walk, which leaves it out when it
	// lies inside the source: copying a directory into itself would not end.
	if err := to.MkdirAll(dest, info.Mode().Perm()|0o700); err != nil {
		return err
	}
	if c.skip, err = to.Stat(dest); err != nil {
		return err
	}
	if os.SameFile(c.skip, info) {
		return errors.New("the source and the destination are the same directory")
	}
	return c.dir(dest, src, info)
}

// copier copies between two roots. Permission bits are kept (setuid and its
// like are not), and so are symbolic links, as links and wherever they lead.
// Other kinds of files are an error.
type copier struct {
	ctx      context.Context
	to, from *os.Root
	skip     fs.FileInfo // the directory being written, when it lies in the source
}

// dir merges the directory src into dest, which may exist.
func (c *copier) dir(dest, src string, info fs.FileInfo) error {
	mode := info.Mode().Perm()
	// Until it is filled, the copy of a read-only directory is writable.
	if err := c.to.Mkdir(dest, mode|0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := c.from.Open(src)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(256)
		for _, entry := range entries {
			if err := c.entry(path.Join(dest, entry.Name()), path.Join(src, entry.Name())); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return c.to.Chmod(dest, mode)
		}
		if err != nil {
			return err
		}
	}
}

func (c *copier) entry(dest, src string) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	info, err := c.from.Lstat(src)
	if err != nil {
		return err
	}
	switch {
	case info.IsDir() && c.skip != nil && os.SameFile(info, c.skip):
		return nil
	case info.IsDir():
		return c.dir(dest, src, info)
	case info.Mode()&fs.ModeSymlink != 0:
		return c.link(dest, src)
	case info.Mode().IsRegular():
		return c.file(dest, src)
	default:
		return fmt.Errorf("%s: neither a file, a directory nor a link", path.Base(src))
	}
}

// file copies a regular file beside its destination and moves it there, so
// that a link found at the destination is replaced and never written through.
func (c *copier) file(dest, src string) error {
	in, err := c.from.OpenFile(src, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errNotRegular
	}
	return ReplaceFile(c.to, dest, 0o600, func(out *os.File) error {
		if err := c.content(out, in); err != nil {
			return err
		}
		return out.Chmod(info.Mode().Perm())
	})
}

// ReplaceFile puts a file in place of dest when fill has completed it, and
// leaves dest as it is when that fails. The file begins with the mode perm,
// less the umask.
func ReplaceFile(root *os.Root, dest string, perm fs.FileMode, fill func(*os.File) error) error {
	temp := path.Join(path.Dir(dest), ".pygent-"+rand.Text())
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if err = errors.Join(fill(f), f.Close()); err == nil {
		err = root.Rename(temp, dest)
	}
	if err != nil {
		root.Remove(temp)
	}
	return err
}

func (c *copier) content(out, in *os.File) error {
	for {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		_, err := io.CopyN(out, in, copyChunk)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *copier) link(dest, src string) error {
	target, err := c.from.Readlink(src)
	if err != nil {
		return err
	}
	if err := c.to.Remove(dest); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return c.to.Symlink(target, dest)
}
