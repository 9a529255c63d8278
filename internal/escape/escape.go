// Package escape writes what is no text in a form that a model can see, and that
// nobody takes for the text of a program: a bell in an output is <0x07>, and not
// \x07, which may stand there as well.
package escape

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Byte writes a byte that is no text: <0xFF>.
func Byte(b byte) string { return fmt.Sprintf("<0x%02X>", b) }

// Rune writes a character: <0x07>, or <U+202E> if it is not in ASCII.
func Rune(r rune) string {
	if r < utf8.RuneSelf {
		return Byte(byte(r))
	}
	return fmt.Sprintf("<U+%04X>", r)
}

// IsControl reports whether a character controls how text is shown. Besides the
// control characters, of which line feed and tab are text, these are the ones that
// reorder the text around them, and separators that only some programs take for
// line ends.
func IsControl(r rune) bool {
	if r < utf8.RuneSelf {
		return (r < ' ' || r == 0x7f) && r != '\n' && r != '\t'
	}
	return unicode.In(r, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

// Valid returns a text with each byte that is not UTF-8 as Byte writes it.
func Valid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			b.WriteString(Byte(s[i]))
		} else {
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

// Readable returns a text without what a reader of it does not see, but a model may
// obey: characters that control how text is shown, and the tags and selectors at the
// end of Unicode, which can spell whole sentences. A byte that is not UTF-8 is left
// out too. Every line end is a line feed.
func Readable(s string) string {
	s = strings.ReplaceAll(strings.TrimPrefix(s, "\ufeff"), "\r\n", "\n")
	s = strings.ReplaceAll(s, "\r", "\n")
	return strings.Map(func(r rune) rune {
		if IsControl(r) || r >= 0xe0000 && r <= 0xe0fff {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
}

// Name writes the name of a file in one line. One that has anything in it that a
// reader cannot see, or takes for something else, is written as a Go string, so
// that it can be typed: controls, characters without a shape, blanks other than
// the usual one, also at the ends, and quotes at the beginning.
func Name(name string) string {
	odd := func(r rune) bool { return !strconv.IsPrint(r) }
	if utf8.ValidString(name) && strings.IndexFunc(name, odd) < 0 && strings.TrimSpace(name) == name && !strings.HasPrefix(name, `"`) {
		return name
	}
	return strconv.Quote(name)
}

// Seen returns a text as a reader sees it: without what has no shape, and with the
// usual blank for any. Two names that look alike are the same then.
func Seen(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !strconv.IsPrint(r):
			return -1
		}
		return r
	}, text)
}

// Tag returns a text that does not close the tag that quotes it, such as </skill>.
func Tag(text, tag string) string {
	return strings.ReplaceAll(text, "</"+tag, "<\u200b/"+tag)
}
