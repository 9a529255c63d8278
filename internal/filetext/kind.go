package filetext

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// kind is what a file is that has no text.
type kind struct {
	words string // "" for text
	look  string // how to look into it
}

// magic is how a file of some kind begins.
type magic struct {
	at     int
	begins string
	kind
}

const (
	asImage   = "look at it with read_image"
	asArchive = "list it with tar -tf in bash"
	asZip     = "list it with unzip -l, or python3 -m zipfile -l, in bash"
	asProgram = "look at it with file, strings or readelf in bash"
	asBytes   = "look at it with file, strings or od -c in bash"
)

// magics are the kinds that are known. What comes first counts.
var magics = []magic{
	{0, "\x7fELF", kind{"an ELF program or library", asProgram}},
	{0, "MZ", kind{"a Windows program or library", asBytes}},
	{0, "\xcf\xfa\xed\xfe", kind{"a Mach-O program or library", asBytes}},
	{0, "\xce\xfa\xed\xfe", kind{"a Mach-O program or library", asBytes}},
	{0, "\xca\xfe\xba\xbe", kind{"a Java class or a Mach-O program", asBytes}},
	{0, "\x00asm", kind{"a WebAssembly module", asBytes}},
	{0, "!<arch>\n", kind{"an archive of object files, or a Debian package", "list it with ar t in bash"}},
	{0, "\x89PNG\r\n\x1a\n", kind{"a PNG image", asImage}},
	{0, "\xff\xd8\xff", kind{"a JPEG image", asImage}},
	{0, "GIF87a", kind{"a GIF image", asImage}},
	{0, "GIF89a", kind{"a GIF image", asImage}},
	{8, "WEBP", kind{"a WebP image", asImage}},
	{0, "BM", kind{"a BMP image", "convert it to PNG for read_image"}},
	{0, "II*\x00", kind{"a TIFF image", "convert it to PNG for read_image"}},
	{0, "MM\x00*", kind{"a TIFF image", "convert it to PNG for read_image"}},
	{0, "\x00\x00\x01\x00", kind{"an icon", "convert it to PNG for read_image"}},
	{0, "%PDF-", kind{"a PDF document", "get its text with pdftotext, or a Python library, in bash"}},
	{0, "PK\x03\x04", kind{"a zip archive, or a document in one (docx, xlsx, jar, …)", asZip}},
	{0, "PK\x05\x06", kind{"an empty zip archive", asZip}},
	{0, "\x1f\x8b", kind{"compressed with gzip", "read it with gzip -dc (or tar -tzf) in bash"}},
	{0, "BZh", kind{"compressed with bzip2", "read it with bzip2 -dc in bash"}},
	{0, "\xfd7zXZ\x00", kind{"compressed with xz", "read it with xz -dc in bash"}},
	{0, "\x28\xb5\x2f\xfd", kind{"compressed with zstd", "read it with zstd -dc in bash"}},
	{0, "7z\xbc\xaf\x27\x1c", kind{"a 7z archive", "list it with 7z l in bash"}},
	{0, "Rar!\x1a\x07", kind{"a RAR archive", "list it with unrar l in bash"}},
	{257, "ustar", kind{"a tar archive", asArchive}},
	{0, "SQLite format 3\x00", kind{"an SQLite database", "look into it with sqlite3, or Python's sqlite3, in bash"}},
	{0, "PAR1", kind{"a Parquet file", "read it with Python in bash"}},
	{0, "\x89HDF\r\n\x1a\n", kind{"an HDF5 file", "read it with Python in bash"}},
	{0, "\x93NUMPY", kind{"a NumPy array", "read it with Python in bash"}},
	{0, "PACK", kind{"a git pack", "look into it with git in bash"}},
	{0, "DIRC", kind{"a git index", "look into it with git in bash"}},
	{0, "OggS", kind{"Ogg audio or video", asBytes}},
	{0, "ID3", kind{"MP3 audio", asBytes}},
	{0, "fLaC", kind{"FLAC audio", asBytes}},
	{8, "WAVE", kind{"WAV audio", asBytes}},
	{4, "ftyp", kind{"MP4 or similar video, audio or image", asBytes}},
	{0, "\x1aE\xdf\xa3", kind{"Matroska or WebM video", asBytes}},
	{0, "wOFF", kind{"a font", asBytes}},
	{0, "wOF2", kind{"a font", asBytes}},
	{0, "OTTO", kind{"a font", asBytes}},
	{0, "\x00\x01\x00\x00\x00", kind{"a font", asBytes}},
	{0, "\xff\xfe\x00\x00", kind{"text in UTF-32LE", "convert it with iconv in bash"}},
	{0, "\x00\x00\xfe\xff", kind{"text in UTF-32BE", "convert it with iconv in bash"}},
}

// sniffed is how much of a file tells whether it is text.
const sniffed = 8 << 10

// kindOf tells by the beginning of a file what it is, if it is no text.
func kindOf(first []byte) kind {
	first = first[:min(len(first), sniffed)]
	if isText(first) && !bytes.HasPrefix(first, []byte("%PDF-")) {
		return kind{}
	}
	for _, m := range magics {
		if len(first) >= m.at && bytes.HasPrefix(first[m.at:], []byte(m.begins)) {
			return m.kind
		}
	}
	if isZeros(first) {
		return kind{"nothing but NUL bytes at its beginning", asBytes}
	}
	return kind{"not text", asBytes}
}

// isText reports whether the beginning of a file can be shown as text: it has no
// NUL, and few bytes that are no UTF-8 or control characters.
func isText(first []byte) bool {
	if bytes.IndexByte(first, 0) >= 0 {
		return false
	}
	odd := 0
	for at := 0; at < len(first); {
		r, size := utf8.DecodeRune(first[at:])
		if r == utf8.RuneError && size == 1 && utf8.FullRune(first[at:]) || r < ' ' && !strings.ContainsRune("\t\n\v\f\r\b\x1b", r) {
			odd++
		}
		at += size
	}
	return odd*10 <= len(first)*3
}

func isZeros(data []byte) bool { return len(bytes.Trim(data, "\x00")) == 0 }

// IsText reports whether a file can be shown as text, by its beginning.
func IsText(data []byte) bool { return isText(data[:min(len(data), sniffed)]) }

// refuse is the error for a file that is not shown.
func (k kind) refuse(name string, size int64) error {
	return fmt.Errorf("%s is no text file: it is %s (%s); %s", name, k.words, Count(size, "byte"), k.look)
}
