package treedir

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// Kind is what is at a name of a tree.
type Kind byte

// The kinds.
const (
	None    Kind = 0 // nothing
	File    Kind = 'f'
	Dir     Kind = 'd'
	Link    Kind = 'l' // a symbolic link
	LeftOut Kind = 'x' // something of which nothing is known
)

// Item is what a tree says about a name. The zero Item is nothing.
type Item struct {
	Kind    Kind
	Mode    fs.FileMode // the permissions, for files and directories
	Size    int64       // of a file
	ModTime int64       // of a file, in nanoseconds since 1970
	Target  string      // of a link
	Content Hash        // of a file or, in a store, a directory
}

// Same reports whether two items are equal but for their times, and for what is
// in them if they are directories.
func (i Item) Same(other Item) bool {
	i.ModTime, other.ModTime = 0, 0
	if i.Kind == Dir && other.Kind == Dir {
		i.Content, other.Content = Hash{}, Hash{}
	}
	return i == other
}

// Change is a difference between two trees.
type Change struct {
	Name     string // slash-separated, from the top of the tree; perhaps not UTF-8
	Old, New Item   // one of them may be nothing
}

// ChunkSize is the largest size of a blob, and that of the parts of a file.
const ChunkSize = 1 << 20

// MaxFile is the size of the largest file that has a name: the list of its parts
// is one blob.
const MaxFile = ChunkSize / HashSize * ChunkSize

// HashSize is the size of a Hash in bytes.
const HashSize = sha256.Size

// Hash names a blob.
type Hash [HashSize]byte

// Kinds of blobs. The kind is a part of what is hashed, so that no file of a
// workspace can pass for a list of parts.
const (
	KindData byte = 'd' // a file, or a part of one
	KindList byte = 'l' // the hashes of the parts of a file
)

// NameOf returns the name of a blob.
func NameOf(kind byte, raw []byte) (h Hash) {
	sum := sha256.New()
	sum.Write([]byte{kind})
	sum.Write(raw)
	sum.Sum(h[:0])
	return h
}

// Split reads a file of at most MaxFile bytes in parts of ChunkSize, and calls
// add with each. It returns the name of the content, and its size: the name of
// the only part, or that of the list of all. buf has ChunkSize bytes.
func Split(r io.Reader, buf []byte, add func(kind byte, raw []byte) (Hash, error)) (Hash, int64, error) {
	var list bytes.Buffer
	var size int64
	for {
		n, err := io.ReadFull(r, buf)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return Hash{}, size, err
		}
		if n > 0 || size == 0 {
			h, err := add(KindData, buf[:n])
			if err != nil {
				return Hash{}, size, err
			}
			list.Write(h[:])
			size += int64(n)
		}
		switch {
		case size > MaxFile:
			return Hash{}, size, fmt.Errorf("a file of more than %d GiB", int64(MaxFile)>>30)
		case err == nil:
		case list.Len() == HashSize:
			return Hash(list.Bytes()), size, nil
		default:
			h, err := add(KindList, list.Bytes())
			return h, size, err
		}
	}
}

// Limits for names.
const (
	MaxName   = 4096     // bytes of a name in a directory
	MaxTarget = 16 << 10 // bytes of the target of a link
)

// ValidBase reports whether something in a directory can have a name. It need
// not be valid UTF-8.
func ValidBase(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= MaxName && !strings.ContainsAny(name, "/\x00")
}

// ValidTarget reports whether a symbolic link can lead to a name.
func ValidTarget(target string) bool {
	return target != "" && len(target) <= MaxTarget && !strings.ContainsRune(target, 0)
}

// DirOf returns the directory of a name, "" for the top.
func DirOf(name string) string { return name[:max(0, strings.LastIndexByte(name, '/'))] }
