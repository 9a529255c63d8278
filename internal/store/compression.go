package store

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/golang/snappy"
)

// decompress returns the size bytes that were compressed as the mark says.
func decompress(mark byte, b []byte, size int) ([]byte, error) {
	if mark == withZstd {
		return decompressZstd(b, size)
	}
	n, err := snappy.DecodedLen(b)
	if err == nil && n != size {
		err = fmt.Errorf("it has %d", n)
	}
	if err != nil {
		return nil, err
	}
	return snappy.Decode(make([]byte, size), b)
}

// decompressZstd reads blobs that earlier versions have written. The decoder of the
// standard library is only for sections of programs, so the bytes become one.
func decompressZstd(b []byte, size int) ([]byte, error) {
	program, err := elf.NewFile(bytes.NewReader(sectionOf(b, size)))
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(program.Sections[zstdSection].Open(), int64(size)+1))
	if err == nil && len(raw) != size {
		err = fmt.Errorf("it has %d or more", len(raw))
	}
	return raw, err
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
