// Package archive packs trees of files into tar archives and unpacks archives
// that nobody vouches for. Both sides work below an os.Root, so that no name
// and no symbolic link leads out of it.
package archive

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Pack writes an archive of the file or directory name below root. A file is
// its one entry, under its base name; a directory's entries are relative to
// it, without one for itself. Symbolic links are packed as links; what is
// neither file, directory nor link is left out, and so is what vanishes
// meanwhile. A file that shrinks meanwhile is filled up with zeros.
func Pack(w io.Writer, root *os.Root, name string) error {
	info, err := root.Lstat(filepath.FromSlash(name))
	if err != nil {
		return err
	}
	p := &packer{root: root, tw: tar.NewWriter(w), buf: make([]byte, 64<<10)}
	if info.IsDir() {
		err = p.walk(name)
	} else {
		err = p.add(name, path.Base(name), info)
	}
	if err != nil {
		return err
	}
	return p.tw.Close()
}

// packer is one run of [Pack].
type packer struct {
	root *os.Root
	tw   *tar.Writer
	buf  []byte
}

func (p *packer) walk(top string) error {
	return fs.WalkDir(p.root.FS(), top, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) && name != top {
				return nil
			}
			return err
		}
		if name == top {
			return nil
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		as := name
		if top != "." {
			as = strings.TrimPrefix(name, top+"/")
		}
		return p.add(name, as, info)
	})
}

// add packs one file under a name.
func (p *packer) add(name, as string, info fs.FileInfo) error {
	local := filepath.FromSlash(name)
	header := &tar.Header{
		Name: as, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(), Format: tar.FormatPAX,
	}
	switch {
	case info.IsDir():
		header.Typeflag, header.Name = tar.TypeDir, as+"/"
		return p.tw.WriteHeader(header)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := p.root.Readlink(local)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		header.Typeflag, header.Linkname = tar.TypeSymlink, filepath.ToSlash(target)
		return p.tw.WriteHeader(header)
	case info.Mode().IsRegular():
		header.Typeflag = tar.TypeReg
		return p.addFile(local, header)
	default:
		return nil
	}
}

func (p *packer) addFile(local string, header *tar.Header) error {
	file, err := p.root.OpenFile(local, os.O_RDONLY|nonblock, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err // Something else has taken its place.
	}
	header.Size = info.Size()
	if err := p.tw.WriteHeader(header); err != nil {
		return fmt.Errorf("%s: %w", header.Name, err)
	}
	n, err := io.CopyBuffer(onlyWriter{p.tw}, io.LimitReader(file, header.Size), p.buf)
	if err == nil && n < header.Size {
		_, err = io.CopyBuffer(onlyWriter{p.tw}, io.LimitReader(zeros{}, header.Size-n), p.buf)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", header.Name, err)
	}
	return nil
}

// onlyWriter hides other methods, so that the buffer given to io.CopyBuffer
// is used.
type onlyWriter struct{ io.Writer }

// onlyReader does the same for a source.
type onlyReader struct{ io.Reader }

// zeros is a reader of zeros without end.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
