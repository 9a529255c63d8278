package objstore

import (
	"os"
)

// FailWrites makes packs fail after some bytes.
func (s *Store) FailWrites(after int, err error) {
	s.create = func(name string) (packFile, error) {
		f, e := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		return &failing{f, after, err}, e
	}
}

type failing struct {
	packFile
	left int
	err  error
}

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, f.err
	}
	return f.packFile.Write(p)
}

// For the fuzz tests.
var (
	ReadIndex = readIndex
	ByPath    = byPath

	DecompressZstd = decompressZstd
)

// Ignores reports whether the lines of a .gitignore file name something.
func Ignores(lines, name string, dir bool) bool {
	return ignored([]level{{patterns: parseIgnore(lines)}}, name, dir)
}

// PackOf returns a pack with one row, and the right checksum.
func PackOf(blobs, name []byte, stored, raw uint32, kind byte, offset int64) []byte {
	r := row{offset: offset, stored: stored, raw: raw, kind: kind}
	copy(r.name[:], name)
	data := append([]byte(packHead), blobs...)
	return appendIndex(data, []row{r}, int64(len(data)))
}

// NodeAgain parses a node, and returns what is written for it, and its names.
func NodeAgain(data []byte) (again []byte, names []string, err error) {
	children, err := parseNode(data)
	again = []byte{nodeWhole}
	for _, c := range children {
		again = appendChild(again, c)
		names = append(names, c.name)
	}
	return again, names, err
}
