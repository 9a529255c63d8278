package tree

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"
)

// PackOptions are the options of [Pack].
type PackOptions struct {
	Limits Limits
	As     string // the name of a file in the archive; default is its base name
}

// Pack writes an archive of the file or directory name below root. If name is a
// symbolic link, it is followed, but not out of root; links below it are packed
// as links. Pack leaves out everything that is not a file, directory or link.
// It also leaves out what disappears in the meantime, and the temporary
// directories of [Extract], so that a directory can be copied into itself. A
// file that shrinks in the meantime is padded with zeros.
func Pack(w io.Writer, root *os.Root, name string, o PackOptions) error {
	name = filepath.FromSlash(name)
	info, err := root.Stat(name)
	if err != nil {
		return err
	}
	p := &packer{tw: tar.NewWriter(w), budget: NewBudget(o.Limits), buf: make([]byte, 64<<10)}
	switch {
	case info.IsDir():
		err = p.directory(root, name)
	case info.Mode().IsRegular():
		err = p.single(root, name, o.As)
	default:
		err = fmt.Errorf("%s: %w", name, ErrNotRegular)
	}
	if err != nil {
		return err
	}
	return p.tw.Close()
}

// packer is one run of [Pack].
type packer struct {
	tw     *tar.Writer
	budget *Budget
	buf    []byte
}

func (p *packer) directory(root *os.Root, name string) error {
	top, err := openRoot(root, name)
	if err != nil {
		return err
	}
	defer top.Close()
	info, err := top.Stat(".")
	if err != nil {
		return err
	}
	if err := p.tw.WriteHeader(headerOf(".", info, tar.TypeDir)); err != nil {
		return err
	}
	return Walk(top, p.add)
}

// single packs a tree that is a single file.
func (p *packer) single(root *os.Root, name, as string) error {
	file, err := root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", name, ErrNotRegular) // something else has just taken its place
	}
	if err != nil {
		return err
	}
	return p.content(file, headerOf(cmp.Or(as, path.Base(filepath.ToSlash(name))), info, tar.TypeReg))
}

// add packs one entry that a walk has found.
func (p *packer) add(e Entry) error {
	if e.Info.IsDir() && isStage(e.Dir, e.Base) {
		return fs.SkipDir
	}
	if !e.Info.Mode().IsRegular() {
		if err := p.budget.entry(e.Name, 0); err != nil {
			return err
		}
	}
	switch {
	case e.Info.IsDir():
		return p.tw.WriteHeader(headerOf(e.Name, e.Info, tar.TypeDir))
	case e.Info.Mode()&fs.ModeSymlink != 0:
		target, err := e.Dir.Readlink(e.Base)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		h := headerOf(e.Name, e.Info, tar.TypeSymlink)
		h.Linkname = filepath.ToSlash(target)
		return p.tw.WriteHeader(h)
	case e.Info.Mode().IsRegular():
		return p.file(e)
	default:
		return nil
	}
}

func (p *packer) file(e Entry) error {
	file, err := e.Dir.OpenFile(e.Base, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return unlessReplaced(e, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || !os.SameFile(info, e.Info) && behindLink(e) {
		return err // something else has taken its place
	}
	return p.content(file, headerOf(e.Name, info, tar.TypeReg))
}

// behindLink reports whether an entry that was a file no longer is one.
func behindLink(e Entry) bool {
	now, err := e.Dir.Lstat(e.Base)
	return err != nil || !now.Mode().IsRegular()
}

// unlessReplaced ignores an error about a file that has disappeared, or in
// whose place something else is now.
func unlessReplaced(e Entry, err error) error {
	if behindLink(e) {
		return nil
	}
	return fmt.Errorf("%s: %w", e.Name, err)
}

// content packs the content of an open file. Only the parts that hold data are
// written.
func (p *packer) content(file *os.File, h *tar.Header) error {
	parts := dataOf(file, h.Size)
	bytes := parts.bytes()
	if err := p.budget.entry(h.Name, bytes); err != nil {
		return err
	}
	parts.describe(h)
	if err := p.tw.WriteHeader(h); err != nil {
		return fmt.Errorf("%s: %w", h.Name, err)
	}
	for _, part := range parts {
		if err := p.part(file, part); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	return nil
}

func (p *packer) part(file *os.File, part extent) error {
	n, err := io.CopyBuffer(onlyWriter{p.tw}, onlyReader{io.NewSectionReader(file, part.offset, part.length)}, p.buf)
	if err == nil && n < part.length {
		_, err = io.CopyBuffer(onlyWriter{p.tw}, io.LimitReader(zeros{}, part.length-n), p.buf)
	}
	return err
}

// headerOf describes a file for an archive. It has a modification time only for
// files: that of a directory changes while the directory is filled.
func headerOf(name string, info fs.FileInfo, kind byte) *tar.Header {
	h := &tar.Header{Typeflag: kind, Name: name, Mode: int64(info.Mode().Perm()), Format: tar.FormatPAX, ModTime: time.Unix(0, 0)}
	switch kind {
	case tar.TypeDir:
		h.Name += "/"
	case tar.TypeReg:
		h.Size, h.ModTime = info.Size(), info.ModTime()
	}
	return h
}

// onlyWriter hides other methods such as ReadFrom, so that io.CopyBuffer uses
// the given buffer.
type onlyWriter struct{ io.Writer }

// onlyReader does the same for a source.
type onlyReader struct{ io.Reader }

// zeros is an endless reader of zeros.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
