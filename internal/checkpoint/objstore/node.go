package objstore

import (
	"encoding/binary"
	"fmt"
	"io/fs"

	"github.com/x/pygent/internal/tree"
	"github.com/x/pygent/internal/treedir"
)

// child is an entry of a node.
type child struct {
	name string
	Item
}

// The first byte of a blob that is a node: the entries follow, or, if they
// are more than fits into a blob, the hashes of the blobs that have them.
const (
	nodeWhole = 'N'
	nodeParts = 'P'
)

// Limits for nodes and names.
const (
	maxNodeParts = 256
)

// appendChild appends an entry of a node.
func appendChild(b []byte, c child) []byte {
	b = appendString(b, c.name)
	b = append(b, byte(c.Kind))
	switch c.Kind {
	case File:
		b = binary.AppendUvarint(b, uint64(c.Mode.Perm()))
		b = binary.AppendUvarint(b, uint64(c.Size))
		b = binary.AppendVarint(b, c.ModTime)
		b = append(b, c.Content[:]...)
	case Dir:
		b = binary.AppendUvarint(b, uint64(c.Mode.Perm()))
		b = append(b, c.Content[:]...)
	case Link:
		b = appendString(b, c.Target)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// addNode stores a directory. entries begins with nodeWhole.
func addNode(entries []byte, add func(kind byte, raw []byte) (hash, error)) (hash, error) {
	if len(entries) <= ChunkSize {
		return add(kindNode, entries)
	}
	if len(entries) > maxNodeParts*ChunkSize {
		return hash{}, fmt.Errorf("%w: a directory whose names alone need %d MiB", tree.ErrTooLarge, len(entries)>>20)
	}
	parts := []byte{nodeParts}
	for len(entries) > 0 {
		part := entries[:min(len(entries), ChunkSize)]
		entries = entries[len(part):]
		h, err := add(treedir.KindData, part)
		if err != nil {
			return hash{}, err
		}
		parts = append(parts, h[:]...)
	}
	return add(kindNode, parts)
}

// children returns what is in a directory of the store, which the caller holds.
func (s *Store) children(name hash) ([]child, error) {
	raw, err := s.blob(kindNode, name)
	if err != nil {
		return nil, err
	}
	if len(raw) > 0 && raw[0] == nodeParts {
		if raw, err = s.joined(raw[1:]); err != nil {
			return nil, err
		}
	}
	children, err := parseNode(raw)
	if err != nil {
		return nil, fmt.Errorf("directory %x: %w", name[:8], err)
	}
	return children, nil
}

// joined returns the content of blobs whose names are given.
func (s *Store) joined(list []byte) (raw []byte, err error) {
	parts, err := parseList(list)
	if err != nil || len(parts) > maxNodeParts {
		return nil, fmt.Errorf("%w: a directory of %d parts", ErrDamaged, len(parts))
	}
	for _, name := range parts {
		part, err := s.blob(treedir.KindData, name)
		if err != nil {
			return nil, err
		}
		raw = append(raw, part...)
	}
	return raw, nil
}

func parseList(b []byte) ([]hash, error) {
	if len(b)%hashSize != 0 {
		return nil, fmt.Errorf("%w: a list of %d bytes", ErrDamaged, len(b))
	}
	list := make([]hash, len(b)/hashSize)
	for i := range list {
		list[i] = hash(b[i*hashSize:])
	}
	return list, nil
}

// parseNode parses the entries of a directory. It trusts nothing in them.
func parseNode(b []byte) ([]child, error) {
	if len(b) == 0 || b[0] != nodeWhole {
		return nil, fmt.Errorf("%w: it is no list of names", ErrDamaged)
	}
	p := parser{b: b[1:]}
	var children []child
	for len(p.b) > 0 && !p.bad {
		c := p.child()
		if n := len(children); n > 0 && children[n-1].name >= c.name {
			p.bad = true
		}
		children = append(children, c)
	}
	if p.bad {
		return nil, fmt.Errorf("%w: entry %d", ErrDamaged, len(children))
	}
	return children, nil
}

// parser takes values off the front of b. After the first that is not there, or
// is impossible, bad is set.
type parser struct {
	b   []byte
	bad bool
}

func (p *parser) child() child {
	c := child{name: p.string(treedir.MaxName)}
	c.Kind = Kind(p.take(1)[0])
	switch c.Kind {
	case File:
		c.Mode = p.mode()
		c.Size = int64(p.number(MaxFile))
		c.ModTime = p.signed()
		c.Content = hash(p.take(hashSize))
	case Dir:
		c.Mode = p.mode()
		c.Content = hash(p.take(hashSize))
	case Link:
		c.Target = p.string(treedir.MaxTarget)
		p.bad = p.bad || !treedir.ValidTarget(c.Target)
	case LeftOut:
	default:
		p.bad = true
	}
	p.bad = p.bad || !treedir.ValidBase(c.name)
	return c
}

var zeros [hashSize]byte

// take returns the next n bytes, at most hashSize or what is there; if they are
// missing it returns zeros.
func (p *parser) take(n int) []byte {
	if p.bad || n > len(p.b) {
		p.bad = true
		return zeros[:min(n, hashSize)]
	}
	taken := p.b[:n]
	p.b = p.b[n:]
	return taken
}

func (p *parser) number(most uint64) uint64 {
	v, n := binary.Uvarint(p.b)
	if p.bad || n <= 0 || v > most {
		p.bad = true
		return 0
	}
	p.b = p.b[n:]
	return v
}

func (p *parser) signed() int64 {
	v, n := binary.Varint(p.b)
	if p.bad || n <= 0 {
		p.bad = true
		return 0
	}
	p.b = p.b[n:]
	return v
}

func (p *parser) mode() fs.FileMode { return fs.FileMode(p.number(uint64(fs.ModePerm))) }

func (p *parser) string(most uint64) string {
	n := int(p.number(most))
	if p.bad || n > len(p.b) {
		p.bad = true
		return ""
	}
	return string(p.take(n))
}
