package filetext

import (
	"fmt"
	"path"
	"strings"
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
