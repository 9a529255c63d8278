package screen

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/x/pygent/internal/escape"
)

// Visible returns a text that cannot control a terminal. It replaces control
// characters by their Unicode pictures. Those without a picture, characters that
// reorder the text around them, and those that nobody sees, become their code points,
// unless people write them where they stand: see shape. Of a pile of accents some
// stay, and the others are counted. Line ends and tabs stay.
func Visible(s string) string {
	var h shape
	return h.visible(s)
}

// visible is Visible for a text that goes on.
func (h *shape) visible(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 && utf8.ValidString(s) {
		if r, _ := utf8.DecodeLastRuneInString(s); s != "" {
			*h = shape{base: r, prev: r}
		}
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for at := 0; at < len(s); { // a byte that is not UTF-8 becomes U+FFFD
		r, size := utf8.DecodeRuneInString(s[at:])
		at += h.write(&b, r, size, s[at:])
	}
	return b.String()
}

// Exact returns a text in which nothing is hidden from a person who has to judge
// it. Besides what [Visible] replaces, it replaces tabs, spaces other than the
// plain one, characters that have no shape of their own, and bytes that are not
// UTF-8. Line feeds stay, but carriage returns are replaced.
func Exact(s string) string {
	var b strings.Builder
	marks := 0 // how many accents in a row
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		if marks++; !unicode.In(r, unicode.Mn, unicode.Me) {
			marks = 0
		}
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(escape.Byte(s[0]))
		case r == '\n', r == ' ':
			b.WriteRune(r)
		case drives(r), hides(r), marks > mostMarks:
			b.WriteString(picture(r))
		default:
			b.WriteRune(r)
		}
		s = s[size:]
	}
	return b.String()
}

// mostMarks is how many accents Exact leaves on one character. A pile of them
// would cover the lines around it.
const mostMarks = 2

// EscapeJSON returns an equivalent JSON text that cannot control a terminal.
// encoding/json does not escape DEL, the C1 controls and the characters that
// reorder text.
func EscapeJSON(text []byte) []byte {
	s := string(text)
	if strings.IndexFunc(s, drives) < 0 {
		return text
	}
	out := make([]byte, 0, len(s)+16)
	for _, r := range s {
		if drives(r) {
			out = fmt.Appendf(out, `\u%04x`, r) // all of them have four digits
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// drives reports whether a character may make a terminal do anything but show
// it.
func drives(r rune) bool {
	if r < utf8.RuneSelf {
		return (r < ' ' || r == 0x7f) && r != '\n' && r != '\t'
	}
	return unicode.In(r, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

// hides reports whether a reader may overlook a character or take it for another
// one.
func hides(r rune) bool {
	return r == '\t' || r == '\u2800' || unicode.Is(unicode.Zs, r) ||
		unicode.In(r, unicode.Cf, unicode.Co, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) ||
		!unicode.IsGraphic(r)
}

// picture returns what is shown instead of a character.
func picture(r rune) string {
	switch {
	case r < ' ':
		return string(0x2400 + r)
	case r == 0x7f:
		return "\u2421"
	}
	return escape.Rune(r)
}
