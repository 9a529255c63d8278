package tree

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"time"
)

// Reader reads the archive of a tree from a source that is not trusted. Every
// entry that it returns has a proper name below the top, is a file, a directory
// or a symbolic link, and is within the limits.
type Reader struct {
	r      io.Reader // what tr reads, through a buffer
	tr     *tar.Reader
	budget *Budget
	first  *tar.Header // nil once next has returned it
	dir    bool
}

// NewReader starts to read an archive. The entries are taken off budget.
func NewReader(r io.Reader, budget *Budget) (*Reader, error) {
	// Package tar reads headers alone, which are small.
	buffered := bufio.NewReaderSize(r, 64<<10)
	t := &Reader{r: buffered, tr: tar.NewReader(buffered), budget: budget}
	h, err := t.tr.Next()
	if err != nil {
		return nil, brokenArchive(err)
	}
	if t.dir = isTop(h); !t.dir {
		if err := t.check(h); err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg {
			return nil, fmt.Errorf("%w: it begins with neither its directory nor a file", ErrHostile)
		}
	}
	t.first = h
	return t, nil
}

// IsDir reports whether the tree is a directory.
func (t *Reader) IsDir() bool { return t.dir }

// Name returns the base name of a tree that is a file.
func (t *Reader) Name() string {
	if t.dir || t.first == nil {
		return ""
	}
	return path.Base(path.Clean(t.first.Name))
}

// next returns the next entry. If the tree is a directory, its first entry is
// ".", the directory itself. At the end, next returns io.EOF.
func (t *Reader) next() (*tar.Header, error) {
	if h := t.first; h != nil {
		t.first = nil
		return h, nil
	}
	h, err := t.tr.Next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, err
	case err != nil:
		return nil, brokenArchive(err)
	case !t.dir:
		return nil, fmt.Errorf("%w: more than one file", ErrHostile)
	case isTop(h):
		return nil, fmt.Errorf("%w: two beginnings", ErrHostile)
	}
	return h, t.check(h)
}

// check checks one entry and takes it off the budget.
func (t *Reader) check(h *tar.Header) error {
	if _, err := localName(h.Name); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg:
		if path.Clean(h.Name) == "." {
			return fmt.Errorf("%w: the top as a file", ErrHostile)
		}
		if _, _, err := extentsOf(h); err != nil {
			return err
		}
		return t.budget.entry(h.Name, h.Size)
	case tar.TypeSymlink:
		if err := linkTarget(h); err != nil {
			return err
		}
	case tar.TypeDir:
	default:
		return fmt.Errorf("%w: %q is a special file or a hard link", ErrHostile, h.Name)
	}
	return t.budget.entry(h.Name, 0)
}

// brokenArchive describes why an archive cannot be read any further: it is
// truncated, or its packer has reported an error.
func brokenArchive(err error) error {
	if errors.Is(err, ErrTooLarge) {
		return err
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read archive: %w", err)
}

// Writer combines trees into the archive of one directory. It leaves out times,
// so that equal trees give identical bytes.
type Writer struct{ tw *tar.Writer }

// NewWriter starts an archive.
func NewWriter(w io.Writer) (*Writer, error) {
	t := &Writer{tw: tar.NewWriter(w)}
	return t, t.tw.WriteHeader(plainHeader(&tar.Header{Typeflag: tar.TypeDir, Mode: 0o755}, "./"))
}

// Add copies a tree to the given name in the archive, "." for the top. Where
// the names are the same, the tree replaces what was added before.
func (w *Writer) Add(name string, from *Reader) error {
	for {
		h, err := from.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		as := name
		if from.dir {
			as = path.Join(name, h.Name)
		}
		if as == "." {
			continue
		}
		if err := copyEntry(w.tw, from, h, as); err != nil {
			return err
		}
	}
}

// Close ends the archive.
func (w *Writer) Close() error { return w.tw.Close() }

// Copy writes the archive that is being read to w. If it is a file, it gets the
// name as.
func Copy(w io.Writer, from *Reader, as string) error {
	out, err := &Writer{tw: tar.NewWriter(w)}, error(nil)
	if from.dir {
		as = "."
		out, err = NewWriter(w)
	}
	if err == nil {
		err = out.Add(as, from)
	}
	if err != nil {
		return err
	}
	return out.Close()
}

func copyEntry(tw *tar.Writer, from *Reader, h *tar.Header, as string) error {
	if _, err := localName(as); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeDir {
		as += "/"
	}
	if err := tw.WriteHeader(plainHeader(h, as)); err != nil {
		return fmt.Errorf("%s: %w", as, err)
	}
	if _, err := io.Copy(tw, from.tr); err != nil {
		return fmt.Errorf("%s: %w", as, err)
	}
	return nil
}

// plainHeader returns a copy of a header with only the fields that this package
// knows.
func plainHeader(h *tar.Header, name string) *tar.Header {
	plain := &tar.Header{
		Typeflag: h.Typeflag, Name: name, Linkname: h.Linkname, Size: h.Size,
		Mode: int64(permissions(h)), ModTime: time.Unix(0, 0), Format: tar.FormatPAX,
	}
	for _, record := range []string{recordSize, recordData} {
		if v, ok := h.PAXRecords[record]; ok && h.Typeflag == tar.TypeReg {
			if plain.PAXRecords == nil {
				plain.PAXRecords = make(map[string]string)
			}
			plain.PAXRecords[record] = v
		}
	}
	return plain
}
