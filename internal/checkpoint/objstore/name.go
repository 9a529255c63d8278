package objstore

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/x/pygent/internal/filelock"
	"github.com/x/pygent/internal/treedir"
)

// Errors of this package, for use with errors.Is.
var (
	// ErrDamaged is returned for a pack, a log or a blob that is not as it was written.
	ErrDamaged = errors.New("damaged")
	// ErrMissing is returned for a blob or a tree that is not in the store.
	ErrMissing = errors.New("not in the store")
	// ErrInUse is returned when another process, or another part of this one,
	// holds what is needed.
	ErrInUse = filelock.ErrHeld
	// ErrUnfinished is returned by Apply if an earlier one on the same target was
	// interrupted. [Store.Recover] finishes that.
	ErrUnfinished = errors.New("an earlier change was interrupted")
	// ErrSource is returned for a source that tells what no honest one would.
	ErrSource = errors.New("the listing of the tree is not in order")
)

// hash names a blob.
type hash = treedir.Hash

const hashSize = treedir.HashSize

// Kinds of blobs besides those of files. The kind is a part of what is hashed, so
// that no file of a workspace can pass for a node.
const kindNode byte = 'n' // a directory

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
