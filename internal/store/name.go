package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// Errors of this package, for use with errors.Is.
var (
	// ErrDamaged is returned for a pack, a log or a blob that is not as it was written.
	ErrDamaged = errors.New("damaged")
	// ErrMissing is returned for a blob or a tree that is not in the store.
	ErrMissing = errors.New("not in the store")
	// ErrInUse is returned when another process, or another part of this one,
	// holds what is needed.
	ErrInUse = errors.New("in use")
	// ErrUnfinished is returned by Apply if an earlier one on the same target was
	// interrupted. [Store.Recover] finishes that.
	ErrUnfinished = errors.New("an earlier change was interrupted")
	// ErrSource is returned for a source that tells what no honest one would.
	ErrSource = errors.New("the listing of the tree is not in order")
)

// ChunkSize is the largest size of a blob, and that of the parts of a file.
const ChunkSize = 1 << 20

// MaxFile is the size of the largest file that is stored: the list of its parts
// is one blob.
const MaxFile = ChunkSize / hashSize * ChunkSize

const hashSize = sha256.Size

// hash names a blob.
type hash [hashSize]byte

// Kinds of blobs. The kind is a part of what is hashed, so that no file of a
// workspace can pass for a node or a list.
const (
	kindData byte = 'd' // a file, or a part of one
	kindList byte = 'l' // the hashes of the parts of a file
	kindNode byte = 'n' // a directory
)

// nameOf returns the name of a blob.
func nameOf(kind byte, raw []byte) (h hash) {
	sum := sha256.New()
	sum.Write([]byte{kind})
	sum.Write(raw)
	sum.Sum(h[:0])
	return h
}

// Tree names the content of a directory. Equal trees have equal names. The zero
// Tree is no directory at all.
type Tree struct{ root hash }

// IsZero reports whether the tree is none.
func (t Tree) IsZero() bool { return t == Tree{} }

// String returns the name in hexadecimal digits, and "" for the zero Tree.
func (t Tree) String() string {
	if t.IsZero() {
		return ""
	}
	return hex.EncodeToString(t.root[:])
}

// MarshalText implements encoding.TextMarshaler.
func (t Tree) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Tree) UnmarshalText(text []byte) error {
	var u Tree
	if len(text) > 0 {
		if n, err := hex.Decode(u.root[:], text[:min(len(text), 2*hashSize)]); err != nil || n != hashSize || len(text) != 2*hashSize {
			return fmt.Errorf("name of a tree: %d characters that are not %d hexadecimal digits", len(text), 2*hashSize)
		}
	}
	*t = u
	return nil
}

// split reads a file of at most MaxFile bytes in parts of ChunkSize, and calls
// add with each. It returns the name of the content, and its size: the name of
// the only part, or that of the list of all. buf has ChunkSize bytes.
func split(r io.Reader, buf []byte, add func(kind byte, raw []byte) (hash, error)) (hash, int64, error) {
	var list bytes.Buffer
	var size int64
	for {
		n, err := io.ReadFull(r, buf)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return hash{}, size, err
		}
		if n > 0 || size == 0 {
			h, err := add(kindData, buf[:n])
			if err != nil {
				return hash{}, size, err
			}
			list.Write(h[:])
			size += int64(n)
		}
		switch {
		case size > MaxFile:
			return hash{}, size, fmt.Errorf("a file of more than %d GiB", int64(MaxFile)>>30)
		case err == nil:
		case list.Len() == hashSize:
			return hash(list.Bytes()), size, nil
		default:
			h, err := add(kindList, list.Bytes())
			return h, size, err
		}
	}
}
