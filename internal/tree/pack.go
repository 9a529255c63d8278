package tree

import (
	"archive/tar"
	"bufio"
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
	out := bufio.NewWriterSize(w, bufferSize)
	p := &packer{w: w, out: out, tw: tar.NewWriter(out), budget: NewBudget(o.Limits)}
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
	if err := p.tw.Close(); err != nil {
		return err
	}
	return out.Flush()
}

// packer is one run of [Pack].
type packer struct {
	w      io.Writer
	out    *bufio.Writer // to w; headers are written in small pieces
	tw     *tar.Writer   // to out
	budget *Budget
	buf    []byte // for small files
	large  []byte // for others
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
	file, info, err := openSingle(root, name)
	if err != nil {
		return err
	}
	defer file.Close()
	return p.content(file, headerOf(cmp.Or(as, path.Base(filepath.ToSlash(name))), info, tar.TypeReg))
}

// openSingle opens a tree that is a single file.
func openSingle(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	file, err := root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", name, ErrNotRegular) // something else has just taken its place
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
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
		target, err := linkOf(e)
		if target == "" {
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

// linkOf returns where a link leads. That is nothing if the link has disappeared, or
// something else has taken its place.
func linkOf(e Entry) (string, error) {
	target, err := e.Dir.Readlink(e.Base)
	if err == nil {
		return target, nil
	}
	if now, failed := e.Dir.Lstat(e.Base); failed != nil || now.Mode()&fs.ModeSymlink == 0 {
		return "", nil
	}
	return "", err
}

func (p *packer) file(e Entry) error {
	file, info, err := openEntry(e)
	if file == nil {
		return err
	}
	defer file.Close()
	return p.content(file, headerOf(e.Name, info, tar.TypeReg))
}

// openEntry opens an entry that is a regular file. It returns nil if the file has
// disappeared, or something else has taken its place.
func openEntry(e Entry) (*os.File, fs.FileInfo, error) {
	file, err := openRegular(e)
	if file == nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || !os.SameFile(info, e.Info) && behindLink(e) {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

// openRegular opens an entry that was a file. It returns nil if something else is in its
// place. Where a file is there again after an attempt has met something else, it tries
// again.
func openRegular(e Entry) (file *os.File, err error) {
	const attempts = 20
	for range attempts {
		if file, err = e.Dir.OpenFile(e.Base, os.O_RDONLY|nonblock, 0); err == nil {
			return file, nil
		}
		if behindLink(e) {
			return nil, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", e.Name, err)
}

// behindLink reports whether an entry that was a file no longer is one.
func behindLink(e Entry) bool {
	now, err := e.Dir.Lstat(e.Base)
	return err != nil || !now.Mode().IsRegular()
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
	send := p.whole
	if h.Size > maxSmall {
		send = p.apart
	}
	if err := send(file, h, parts); err != nil {
		return fmt.Errorf("%s: %w", h.Name, err)
	}
	return nil
}

// whole packs a small file.
func (p *packer) whole(file *os.File, h *tar.Header, parts extents) error {
	if err := p.tw.WriteHeader(h); err != nil {
		return err
	}
	if p.buf == nil {
		p.buf = make([]byte, maxSmall)
	}
	for _, part := range parts {
		content := p.buf[:part.length]
		if err := readPart(file, part.offset, content); err != nil {
			return err
		}
		if _, err := p.tw.Write(content); err != nil {
			return err
		}
	}
	return nil
}

// readPart reads a part of a file that is as long as buf. If the file has shrunk, the
// rest are zeros.
func readPart(file *os.File, offset int64, buf []byte) error {
	n, err := io.ReadFull(io.NewSectionReader(file, offset, int64(len(buf))), buf)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	clear(buf[n:])
	return nil
}

// apart packs a large file. What goes through a tar.Writer is copied once more. So the
// content goes past it, between two entries of the writer: in an archive, an entry is a
// header, the content, and zeros up to the next full block.
func (p *packer) apart(file *os.File, h *tar.Header, parts extents) error {
	const block = 512
	err := p.tw.Flush()
	if err == nil {
		err = tar.NewWriter(p.out).WriteHeader(h)
	}
	if err == nil {
		err = p.out.Flush()
	}
	for _, part := range parts {
		if err == nil {
			err = p.part(file, part)
		}
	}
	if err == nil {
		_, err = p.out.Write(make([]byte, (block-h.Size%block)%block))
	}
	return err
}

// part copies a part of a file, in large pieces.
func (p *packer) part(file *os.File, part extent) error {
	n, err := p.copyFrom(io.NewSectionReader(file, part.offset, part.length))
	if err == nil && n < part.length {
		_, err = p.copyFrom(io.LimitReader(zeros{}, part.length-n)) // the file has shrunk
	}
	return err
}

func (p *packer) copyFrom(r io.Reader) (int64, error) {
	if into, ok := p.w.(io.ReaderFrom); ok {
		return into.ReadFrom(onlyReader{r})
	}
	if p.large == nil {
		p.large = make([]byte, 256<<10)
	}
	return io.CopyBuffer(onlyWriter{p.w}, onlyReader{r}, p.large)
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
