// Package sniff tells by the beginning of data what it is.
package sniff

import "strings"

// Kind is what data is that is no text, or none that can be used as it is.
type Kind struct {
	Name string // such as "a PNG image"; empty if it is not known
	Look string // how a model can look into a file of this kind
}

// magic is how data of some kind begins.
type magic struct {
	at     int
	begins string
	Kind
}

const (
	asImage   = "look at it with read_image"
	asArchive = "list it with tar -tf in bash"
	asZip     = "list it with unzip -l, or python3 -m zipfile -l, in bash"
	asProgram = "look at it with file, strings or readelf in bash"
)

// Bytes says how a model can look into a file of no known kind.
const Bytes = "look at it with file, strings or od -c in bash"

// magics are the kinds that are known. What comes first counts.
var magics = []magic{
	{0, "\x7fELF", Kind{"an ELF program or library", asProgram}},
	{0, "MZ", Kind{"a Windows program or library", Bytes}},
	{0, "\xcf\xfa\xed\xfe", Kind{"a Mach-O program or library", Bytes}},
	{0, "\xce\xfa\xed\xfe", Kind{"a Mach-O program or library", Bytes}},
	{0, "\xca\xfe\xba\xbe", Kind{"a Java class or a Mach-O program", Bytes}},
	{0, "\x00asm", Kind{"a WebAssembly module", Bytes}},
	{0, "!<arch>\n", Kind{"an archive of object files, or a Debian package", "list it with ar t in bash"}},
	{0, "\x89PNG\r\n\x1a\n", Kind{"a PNG image", asImage}},
	{0, "\xff\xd8\xff", Kind{"a JPEG image", asImage}},
	{0, "GIF87a", Kind{"a GIF image", asImage}},
	{0, "GIF89a", Kind{"a GIF image", asImage}},
	{8, "WEBP", Kind{"a WebP image", asImage}},
	{0, "BM", Kind{"a BMP image", "convert it to PNG for read_image"}},
	{0, "II*\x00", Kind{"a TIFF image", "convert it to PNG for read_image"}},
	{0, "MM\x00*", Kind{"a TIFF image", "convert it to PNG for read_image"}},
	{0, "\x00\x00\x01\x00", Kind{"an icon", "convert it to PNG for read_image"}},
	{0, "%PDF-", Kind{"a PDF document", "get its text with pdftotext, or a Python library, in bash"}},
	{0, "PK\x03\x04", Kind{"a zip archive, or a document in one (docx, xlsx, jar, …)", asZip}},
	{0, "PK\x05\x06", Kind{"an empty zip archive", asZip}},
	{0, "\x1f\x8b", Kind{"gzip data", "read it with gzip -dc (or tar -tzf) in bash"}},
	{0, "BZh", Kind{"bzip2 data", "read it with bzip2 -dc in bash"}},
	{0, "\xfd7zXZ\x00", Kind{"xz data", "read it with xz -dc in bash"}},
	{0, "\x28\xb5\x2f\xfd", Kind{"zstd data", "read it with zstd -dc in bash"}},
	{0, "7z\xbc\xaf\x27\x1c", Kind{"a 7z archive", "list it with 7z l in bash"}},
	{0, "Rar!\x1a\x07", Kind{"a RAR archive", "list it with unrar l in bash"}},
	{257, "ustar", Kind{"a tar archive", asArchive}},
	{0, "SQLite format 3\x00", Kind{"an SQLite database", "look into it with sqlite3, or Python's sqlite3, in bash"}},
	{0, "PAR1", Kind{"a Parquet file", "read it with Python in bash"}},
	{0, "\x89HDF\r\n\x1a\n", Kind{"an HDF5 file", "read it with Python in bash"}},
	{0, "\x93NUMPY", Kind{"a NumPy array", "read it with Python in bash"}},
	{0, "PACK", Kind{"a git pack", "look into it with git in bash"}},
	{0, "DIRC", Kind{"a git index", "look into it with git in bash"}},
	{0, "OggS", Kind{"Ogg audio or video", Bytes}},
	{0, "ID3", Kind{"MP3 audio", Bytes}},
	{0, "fLaC", Kind{"FLAC audio", Bytes}},
	{8, "WAVE", Kind{"WAV audio", Bytes}},
	{4, "ftyp", Kind{"MP4 or similar video, audio or image", Bytes}},
	{0, "\x1aE\xdf\xa3", Kind{"Matroska or WebM video", Bytes}},
	{0, "wOFF", Kind{"a font", Bytes}},
	{0, "wOF2", Kind{"a font", Bytes}},
	{0, "OTTO", Kind{"a font", Bytes}},
	{0, "\x00\x01\x00\x00\x00", Kind{"a font", Bytes}},
	{0, "\xff\xfe\x00\x00", Kind{"text in UTF-32LE", "convert it with iconv in bash"}},
	{0, "\x00\x00\xfe\xff", Kind{"text in UTF-32BE", "convert it with iconv in bash"}},
	{0, "\xff\xfe", Kind{"text in UTF-16LE", "convert it with iconv in bash"}},
	{0, "\xfe\xff", Kind{"text in UTF-16BE", "convert it with iconv in bash"}},
}

// Of returns what data is by its beginning. Some kinds begin as a text could, so
// it is to be asked only about data that does not look like text.
func Of(data string) Kind {
	for _, m := range magics {
		if len(data) > m.at && strings.HasPrefix(data[m.at:], m.begins) {
			return m.Kind
		}
	}
	return Kind{}
}
