package objstore

import (
	"bytes"
	"compress/flate"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// deflaters are used again, since each has tables of half a megabyte.
var deflaters = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.BestSpeed)
	if err != nil {
		panic(err) // the level is right
	}
	return w
}}

// compress appends the compressed bytes to dst. It stops where they would be no fewer
// than raw, and reports false.
func compress(dst, raw []byte) (small []byte, ok bool) {
	w := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(w)
	out := bounded{b: dst, most: len(dst) + len(raw) - 1}
	w.Reset(&out)
	_, err := w.Write(raw)
	if err == nil {
		err = w.Close()
	}
	return out.b, err == nil
}

// bounded appends what is written, up to a number of bytes.
type bounded struct {
	b    []byte
	most int
}

func (w *bounded) Write(p []byte) (int, error) {
	if len(w.b)+len(p) > w.most {
		return 0, io.ErrShortWrite
	}
	w.b = append(w.b, p...)
	return len(p), nil
}

// inflaters are used again, as [deflaters].
var inflaters = sync.Pool{New: func() any { return flate.NewReader(nil) }}

// decompress returns the size bytes that were compressed as the mark says.
func decompress(mark byte, b []byte, size int) ([]byte, error) {
	if mark == withZstd {
		return decompressZstd(b, size)
	}
	r := inflaters.Get().(io.Reader)
	defer inflaters.Put(r)
	if err := r.(flate.Resetter).Reset(bytes.NewReader(b), nil); err != nil {
		return nil, err
	}
	return readExactly(r, size)
}

// readExactly reads all of r, which must be size bytes.
func readExactly(r io.Reader, size int) ([]byte, error) {
	raw := make([]byte, size)
	n, err := io.ReadFull(r, raw)
	if err != nil && n < size {
		return nil, fmt.Errorf("it has %d: %w", n, err)
	}
	if more, err := r.Read(make([]byte, 1)); more > 0 || err != io.EOF {
		return nil, fmt.Errorf("it has %d or more", size+1)
	}
	return raw, nil
}

// decompressZstd reads blobs that earlier versions have written. The decoder of the
// standard library is only for sections of programs, so the bytes become one.
func decompressZstd(b []byte, size int) ([]byte, error) {
	program, err := elf.NewFile(bytes.NewReader(sectionOf(b, size)))
	if err != nil {
		return nil, err
	}
	return readExactly(program.Sections[zstdSection].Open(), size)
}

// zstdSection is the number of the section with the bytes. The first is always empty,
// and the last has the names.
const zstdSection = 1

// sectionOf returns a program that is nothing but a section with compressed bytes.
func sectionOf(b []byte, size int) []byte {
	const headSize, rowSize, chunkHeadSize = 64, 64, 24
	var sections [3]elf.Section64
	head := elf.Header64{
		Ident:   [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Version: uint32(elf.EV_CURRENT), Ehsize: headSize,
		Shoff: headSize, Shentsize: rowSize, Shnum: uint16(len(sections)), Shstrndx: uint16(len(sections) - 1),
	}
	at := uint64(headSize + rowSize*len(sections))
	length := uint64(chunkHeadSize + len(b))
	sections[zstdSection] = elf.Section64{Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_COMPRESSED), Off: at, Size: length}
	sections[len(sections)-1] = elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: at + length, Size: 1}
	chunk := elf.Chdr64{Type: uint32(elf.COMPRESS_ZSTD), Size: uint64(size)}

	var program bytes.Buffer
	program.Grow(int(at+length) + 1)
	for _, part := range []any{head, sections, chunk, b, byte(0)} {
		binary.Write(&program, binary.LittleEndian, part) // into memory, which does not fail
	}
	return program.Bytes()
}
