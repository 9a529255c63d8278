package objstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/x/pygent/internal/treedir"
)

// The parts of a pack: its head, the blobs one after the other, the index with
// a row for each blob, sorted by name, and the tail, which says where the index
// begins, how many rows it has, and its checksum.
const (
	packHead  = "pygent pack 1\n\x00\x00"
	rowSize   = hashSize + 8 + 4 + 4 + 1
	tailSize  = 8 + 8 + hashSize
	maxStored = ChunkSize // of a blob: what does not shrink is stored as it is
)

// Marks of the kind of a blob that is compressed. No kind has these bits.
const (
	withDeflate byte = 0x10
	withZstd    byte = 0x80 // no longer written
	compressed       = withDeflate | withZstd
)

// row describes a blob of a pack.
type row struct {
	name   hash
	offset int64
	stored uint32 // bytes in the pack
	raw    uint32 // bytes of the blob
	kind   byte   // with a mark, if it is compressed
}

func (r row) append(b []byte) []byte {
	b = append(b, r.name[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(r.offset))
	b = binary.BigEndian.AppendUint32(b, r.stored)
	b = binary.BigEndian.AppendUint32(b, r.raw)
	return append(b, r.kind)
}

func parseRow(b []byte) row {
	return row{
		name:   hash(b),
		offset: int64(binary.BigEndian.Uint64(b[hashSize:])),
		stored: binary.BigEndian.Uint32(b[hashSize+8:]),
		raw:    binary.BigEndian.Uint32(b[hashSize+12:]),
		kind:   b[hashSize+16],
	}
}

// appendIndex appends the index and the tail of a pack whose blobs end at the
// given offset. It sorts the rows.
func appendIndex(b []byte, rows []row, at int64) []byte {
	slices.SortFunc(rows, func(a, b row) int { return bytes.Compare(a.name[:], b.name[:]) })
	start := len(b)
	for _, r := range rows {
		b = r.append(b)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(at))
	b = binary.BigEndian.AppendUint64(b, uint64(len(rows)))
	sum := sha256.Sum256(b[start:])
	return append(b, sum[:]...)
}

// readIndex reads the rows of a pack of the given size. It checks all that is
// said about the blobs but not the blobs, which are checked when they are read.
func readIndex(r io.ReaderAt, size int64) ([]row, error) {
	if size < int64(len(packHead))+tailSize {
		return nil, fmt.Errorf("%w: %d bytes are no pack", ErrDamaged, size)
	}
	head, tail := make([]byte, len(packHead)), make([]byte, tailSize)
	if err := readFull(r, head, 0); err != nil {
		return nil, err
	}
	if string(head) != packHead {
		return nil, fmt.Errorf("%w: it does not begin as a pack", ErrDamaged)
	}
	if err := readFull(r, tail, size-tailSize); err != nil {
		return nil, err
	}
	at, count := binary.BigEndian.Uint64(tail), binary.BigEndian.Uint64(tail[8:])
	if room := uint64(size) - tailSize; at < uint64(len(packHead)) || at > room || count != (room-at)/rowSize || (room-at)%rowSize != 0 {
		return nil, fmt.Errorf("%w: its end tells of an index that it does not have", ErrDamaged)
	}
	index := make([]byte, uint64(size)-at)
	if err := readFull(r, index, int64(at)); err != nil {
		return nil, err
	}
	body := index[:len(index)-hashSize]
	if sha256.Sum256(body) != [hashSize]byte(index[len(body):]) {
		return nil, fmt.Errorf("%w: the checksum of its index is wrong", ErrDamaged)
	}
	return checkRows(body, int64(at), int(count))
}

// checkRows parses the rows of an index, whose checksum is right but whose
// writer may have been wrong.
func checkRows(b []byte, end int64, count int) ([]row, error) {
	rows := make([]row, count)
	for i := range rows {
		r := parseRow(b[i*rowSize:])
		kind := r.kind &^ compressed
		switch {
		case r.offset < int64(len(packHead)) || r.offset > end || int64(r.stored) > end-r.offset:
			return nil, fmt.Errorf("%w: blob %d is not in it", ErrDamaged, i)
		case r.raw > ChunkSize || r.stored > maxStored || r.kind&compressed == 0 && r.raw != r.stored:
			return nil, fmt.Errorf("%w: blob %d has an impossible size", ErrDamaged, i)
		case r.kind&compressed == compressed, kind != treedir.KindData && kind != treedir.KindList && kind != kindNode:
			return nil, fmt.Errorf("%w: blob %d is of an unknown kind", ErrDamaged, i)
		case i > 0 && bytes.Compare(rows[i-1].name[:], r.name[:]) >= 0:
			return nil, fmt.Errorf("%w: its index is not sorted", ErrDamaged)
		}
		rows[i] = r
	}
	return rows, nil
}

func readFull(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == io.EOF {
		return fmt.Errorf("%w: it ends too early", ErrDamaged)
	}
	return err
}
