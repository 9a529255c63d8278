package filetext

import (
	"encoding/binary"
	"fmt"
	"path"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/numeral"
)

// bom is the byte order mark in UTF-8.
const bom = "\ufeff"

// visible returns data as text in at most most bytes, and how much of data that
// is. Bytes that are no UTF-8, and NUL, are shown in the form <0xNN>; odd is how many.
// If data is not whole, a character at its end may go on.
func visible(data []byte, most int, whole bool) (text string, used, odd int) {
	var b strings.Builder
	b.Grow(min(len(data), most))
	for used < len(data) {
		r, size := utf8.DecodeRune(data[used:])
		switch {
		case r == utf8.RuneError && size == 1 && !whole && !utf8.FullRune(data[used:]):
			return b.String(), used, odd
		case r == utf8.RuneError && size == 1, r == 0:
			shown := escape.Byte(data[used])
			if b.Len()+len(shown) > most {
				return b.String(), used, odd
			}
			b.WriteString(shown)
			odd++
		case b.Len()+size > most:
			return b.String(), used, odd
		default:
			b.Write(data[used : used+size])
		}
		used += size
	}
	return b.String(), used, odd
}

// utf16Of returns the byte order of a file in UTF-16 with a byte order mark, and
// the name of its encoding; nil for another file.
func utf16Of(first []byte) (binary.ByteOrder, string) {
	switch {
	case len(first) < 2:
	case first[0] == 0xFF && first[1] == 0xFE && !(len(first) >= 4 && first[2] == 0 && first[3] == 0): // that is UTF-32
		return binary.LittleEndian, "UTF-16LE"
	case first[0] == 0xFE && first[1] == 0xFF:
		return binary.BigEndian, "UTF-16BE"
	}
	return nil, ""
}

// EncodingNotEdited returns the name of the encoding of a text that is not
// changed as UTF-8, or "".
func EncodingNotEdited(data []byte) string {
	_, name := utf16Of(data)
	return name
}

// fromUTF16 converts a text with a byte order mark.
func fromUTF16(data []byte, order binary.ByteOrder) []byte {
	text := make([]byte, 0, len(data))
	for at := 2; at+1 < len(data); at += 2 {
		r := rune(order.Uint16(data[at:]))
		if utf16.IsSurrogate(r) && at+3 < len(data) {
			if pair := utf16.DecodeRune(r, rune(order.Uint16(data[at+2:]))); pair != utf8.RuneError {
				r, at = pair, at+2
			}
		}
		text = utf8.AppendRune(text, r) // half of a pair becomes U+FFFD
	}
	return text
}

// short returns the name of a file as it is shown.
func short(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || escape.IsControl(r) {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(name, "\uFFFD"))
	if len(name) <= maxName {
		return name
	}
	from := len(name) - maxName
	for !utf8.RuneStart(name[from]) {
		from++
	}
	return "…" + name[from:]
}

// Line shows a line of a text with its number, as Read does, in about most bytes.
func Line(number int, line string, most int) string {
	text, used, _ := visible([]byte(line[:min(len(line), most+utf8.UTFMax)]), most, len(line) <= most)
	if used < len(line) {
		text += fmt.Sprintf(" [… %s more]", numeral.Count(len(line)-used, "byte"))
	}
	return fmt.Sprintf("%d\t%s\n", number, text)
}

// maxRoots is how many ends of a path are looked for.
const maxRoots = 16

// WithoutRoot returns the path that a model may have meant by one outside the
// workspace, as it took something else for the root of the files: the longest end
// of the path that exists, or "". Far below a root, the name of a file alone is
// none, since many files have the same.
func WithoutRoot(name string, exists func(string) bool) string {
	parts := strings.Split(strings.Trim(path.Clean(strings.ReplaceAll(name, `\`, "/")), "/"), "/")
	least := min(len(parts), 2)
	if len(parts) == 2 {
		least = 1
	}
	for range maxRoots {
		if len(parts) < least {
			break
		}
		if p := strings.Join(parts, "/"); p != "" && parts[0] != ".." && exists(p) {
			return p
		}
		parts = parts[1:]
	}
	return ""
}
