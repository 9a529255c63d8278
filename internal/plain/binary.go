package plain

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of what counts as binary data.
const (
	// minBinary is the shortest data, in bytes, that is not shown. What is shorter
	// is as short when it is escaped.
	minBinary = 64
	// binaryShare is the part of data, in percent, that must not be text.
	binaryShare = 10
	// zeroShare is the same for NUL bytes, which also separate names in lists.
	zeroShare = 30
)

// findBinary divides an output into the lines before its binary data, the data,
// and the lines after. Without binary data the whole is before.
func findBinary(s string) (before, binary, after string) {
	begin, end := -1, 0
	for at := 0; at < len(s); {
		next := at + strings.IndexByte(s[at:], '\n') + 1
		if next == at {
			next = len(s)
		}
		if isBinary(s[at:next]) {
			if begin < 0 {
				begin = at
			}
			end = next
		}
		at = next
	}
	if begin < 0 {
		return s, "", ""
	}
	binary = s[begin:end]
	if kindOf(binary) == "" && (len(binary) < minBinary || !isBinary(binary)) {
		return s, "", ""
	}
	return s[:begin], binary, s[end:]
}

// isBinary reports whether too much of a piece is no text.
func isBinary(s string) bool {
	zeros, bad := 0, 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == 0:
			zeros++
		case r == utf8.RuneError && size == 1, r < ' ' && !strings.ContainsRune("\a\b\t\n\v\f\r\x1b", r):
			bad++
		}
		i += size
	}
	return bad*100 > binaryShare*len(s) || zeros*100 > zeroShare*len(s)
}

// kinds are the beginnings by which kinds of data are known.
var kinds = []struct{ magic, name string }{
	{"\x1f\x8b", "gzip"},
	{"\x89PNG\r\n", "a PNG image"},
	{"\xff\xd8\xff", "a JPEG image"},
	{"GIF8", "a GIF image"},
	{"\x7fELF", "an ELF program"},
	{"PK\x03\x04", "zip"},
	{"%PDF-", "PDF"},
	{"\xfd7zXZ\x00", "xz"},
	{"BZh", "bzip2"},
	{"\x28\xb5\x2f\xfd", "zstd"},
	{"7z\xbc\xaf\x27\x1c", "7-Zip"},
	{"SQLite format 3\x00", "an SQLite database"},
	{"\x00asm", "WebAssembly"},
	{"\xcf\xfa\xed\xfe", "a Mach-O program"},
	{"MZ", "a Windows program"},
	{"\xff\xfe", "UTF-16 text"},
	{"\xfe\xff", "UTF-16 text"},
}

// kindOf returns what data looks like by its beginning, or "".
func kindOf(data string) string {
	for _, k := range kinds {
		if strings.HasPrefix(data, k.magic) {
			return k.name
		}
	}
	return ""
}

func describeBinary(data string) string {
	looks := ""
	if kind := kindOf(data); kind != "" {
		looks = ", looks like " + kind
	}
	return fmt.Sprintf("[binary output, %s bytes%s]", Grouped(int64(len(data))), looks)
}

// Grouped formats a number with commas between thousands.
func Grouped(n int64) string {
	digits := fmt.Sprint(n)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}
