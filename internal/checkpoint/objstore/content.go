package objstore

import (
	"fmt"
	"io"
	"slices"

	"github.com/x/pygent/internal/treedir"
)

// content is a file of the store. Whoever reads it holds the store.
type content struct {
	get   func(kind byte, name hash) ([]byte, error)
	size  int64
	parts []hash
	at    int // the part that is in part; -1 for none
	part  []byte
}

// content returns the content of a file.
func (s *Store) content(f Item) (*content, error) {
	c := &content{get: s.blob, size: f.Size, parts: []hash{f.Content}, at: -1}
	if f.Size <= ChunkSize {
		return c, nil
	}
	list, err := s.blob(treedir.KindList, f.Content)
	if err == nil {
		c.parts, err = parseList(list)
	}
	if err == nil && int64(len(c.parts)) != (f.Size+ChunkSize-1)/ChunkSize {
		err = fmt.Errorf("%w: %d parts of a file of %d bytes", ErrDamaged, len(c.parts), f.Size)
	}
	return c, err
}

// hasAll reports whether all of a file is stored. Of one that no tree has, some parts may
// have been collected, and the list of them not: it may be in another pack.
func (s *Store) hasAll(f Item) bool {
	if f.Size <= ChunkSize {
		return s.has(f.Content)
	}
	c, err := s.content(f)
	return err == nil && !slices.ContainsFunc(c.parts, func(part hash) bool { return !s.has(part) })
}

// ReadAt implements io.ReaderAt. It is not safe for concurrent use.
func (c *content) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) {
		at := off + int64(n)
		if at >= c.size {
			return n, io.EOF
		}
		if err := c.load(int(at / ChunkSize)); err != nil {
			return n, err
		}
		n += copy(p[n:], c.part[at%ChunkSize:])
	}
	return n, nil
}

// load reads a part, whose size must be what that of the file says.
func (c *content) load(at int) error {
	if at == c.at {
		return nil
	}
	part, err := c.get(treedir.KindData, c.parts[at])
	if err != nil {
		return err
	}
	if int64(len(part)) != min(ChunkSize, c.size-int64(at)*ChunkSize) {
		return fmt.Errorf("%w: part %d of a file has %d bytes", ErrDamaged, at, len(part))
	}
	c.at, c.part = at, part
	return nil
}

// reader reads the whole content.
func (c *content) reader() io.Reader { return io.NewSectionReader(c, 0, c.size) }
