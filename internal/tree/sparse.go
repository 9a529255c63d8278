package tree

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// An archive holds only the data of a sparse file. Two records of the entry
// describe the file: its size, and where the data belongs.
const (
	recordSize = "PYGENT.size"
	recordData = "PYGENT.data" // "offset+length,offset+length"
)

const (
	// maxExtents is the largest number of parts of a file that are recorded. If
	// a file has more, the rest of it is copied as it is, with its zeros.
	maxExtents = 4096
	// minHole is how many bytes of holes a file must have to be packed as a
	// sparse file.
	minHole = 64 << 10
)

// extent is a part of a file that holds data.
type extent struct{ offset, length int64 }

// extents are the parts of a file with data, in order. A file without holes is
// one extent.
type extents []extent

// bytes returns the total size of the data.
func (x extents) bytes() int64 {
	var sum int64
	for _, e := range x {
		sum += e.length
	}
	return sum
}

// describe turns the header of a whole file into that of a sparse file with
// these extents.
func (x extents) describe(h *tar.Header) {
	data := x.bytes()
	if h.Size == data {
		return
	}
	parts := make([]string, len(x))
	for i, e := range x {
		parts[i] = strconv.FormatInt(e.offset, 10) + "+" + strconv.FormatInt(e.length, 10)
	}
	h.PAXRecords = map[string]string{recordSize: strconv.FormatInt(h.Size, 10)}
	if len(parts) > 0 {
		h.PAXRecords[recordData] = strings.Join(parts, ",")
	}
	h.Size = data
}

// extentsOf returns the size of the file that a header describes, and where its
// data belongs.
func extentsOf(h *tar.Header) (int64, extents, error) {
	if h.Size < 0 || foreignSparse(h) {
		return 0, nil, fmt.Errorf("%w: the size of %q is not what it says", ErrHostile, h.Name)
	}
	whole, ok := h.PAXRecords[recordSize]
	if !ok {
		return h.Size, extents{{0, h.Size}}, nil
	}
	size, err := number(whole)
	if err != nil {
		return 0, nil, err
	}
	var x extents
	var end int64
	for part := range strings.SplitSeq(h.PAXRecords[recordData], ",") {
		if part == "" {
			continue
		}
		e, err := parseExtent(part)
		if err != nil {
			return 0, nil, err
		}
		if e.offset < end || e.length > size-e.offset || len(x) > maxExtents {
			return 0, nil, fmt.Errorf("%w: the data of %q is not in it", ErrHostile, h.Name)
		}
		end = e.offset + e.length
		x = append(x, e)
	}
	if x.bytes() != h.Size {
		return 0, nil, fmt.Errorf("%w: the data of %q is incomplete", ErrHostile, h.Name)
	}
	return size, x, nil
}

func parseExtent(s string) (extent, error) {
	offset, length, ok := strings.Cut(s, "+")
	if !ok {
		return extent{}, fmt.Errorf("%w: a part of a file at %q", ErrHostile, s)
	}
	from, err := number(offset)
	if err != nil {
		return extent{}, err
	}
	n, err := number(length)
	return extent{from, n}, err
}

// number parses a number that is not negative.
func number(s string) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%w: %q as a number", ErrHostile, s)
	}
	return int64(n), nil
}

// foreignSparse reports whether an entry is a sparse file in the format of
// another packer. The size of such an entry does not tell how much space the
// file needs.
func foreignSparse(h *tar.Header) bool {
	if h.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for name := range h.PAXRecords {
		if strings.HasPrefix(name, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// fill writes a file of the given size. It puts the data of r where it belongs
// and leaves holes elsewhere, and also where the data is all zeros.
func fill(file *os.File, r io.Reader, size int64, x extents, buf []byte) error {
	var end int64
	for _, e := range x {
		w := &sparseWriter{file: file, at: e.offset, end: end}
		n, err := io.CopyBuffer(w, onlyReader{io.LimitReader(r, e.length)}, buf)
		if err != nil {
			return err
		}
		if n < e.length {
			return io.ErrUnexpectedEOF
		}
		end = w.end
	}
	if end == size {
		return nil
	}
	return file.Truncate(size)
}

// WriteSparse writes size bytes from r to a new file. Where they are all zeros
// it leaves holes.
func WriteSparse(file *os.File, r io.Reader, size int64) error {
	return fill(file, r, size, extents{{0, size}}, make([]byte, max(1, min(size, 64<<10))))
}

// writeSmall writes the whole content of a new file. If it is all zeros, it leaves a
// hole.
func writeSmall(file *os.File, content []byte) error {
	if allZero(content) {
		if len(content) == 0 {
			return nil
		}
		return file.Truncate(int64(len(content)))
	}
	_, err := file.Write(content)
	return err
}

// sparseWriter writes to a new file, and leaves holes for pieces that are all
// zeros.
type sparseWriter struct {
	file *os.File
	at   int64 // where the next piece belongs
	end  int64 // the end of the data written so far
}

// pieceSize is the size of the pieces that are looked at, in bytes.
const pieceSize = 64 << 10

// Write implements io.Writer. It writes pieces that follow each other in one go.
func (w *sparseWriter) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n := 0 // bytes of pieces that are not all zeros
		for done+n < len(p) && !allZero(pieceOf(p[done+n:])) {
			n += len(pieceOf(p[done+n:]))
		}
		if n > 0 {
			if n, err := w.file.WriteAt(p[done:done+n], w.at); err != nil {
				return done + n, err
			}
			w.end = w.at + int64(n)
		} else {
			n = len(pieceOf(p[done:]))
		}
		w.at += int64(n)
		done += n
	}
	return len(p), nil
}

// pieceOf returns the first piece.
func pieceOf(p []byte) []byte { return p[:min(len(p), pieceSize)] }

// allZero reports whether p has only zeros. That is so if the first byte is
// zero and every other byte equals the one before it.
func allZero(p []byte) bool { return len(p) == 0 || p[0] == 0 && bytes.Equal(p[1:], p[:len(p)-1]) }
