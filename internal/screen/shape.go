package screen

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// shape follows a text character by character, because what one without a place of
// its own does depends on what it stands behind. The zero shape is the beginning of a
// text.
//
// Such characters stay where people write them: accents, the joiners of emoji and of
// scripts that need them, the selector of a variant, the tags of a flag. Elsewhere
// they hide something, as a text that only a model reads, or cover the lines around
// them, and become visible.
type shape struct {
	base   rune // the last character with a place of its own; 0 for none
	prev   rune // the last character
	marks  int  // how many accents base has
	joined int  // how many emoji are joined in base
}

// Bounds of what stays at one character.
const (
	shownMarks  = 8 // accents: scripts of Asia have up to seven
	shownJoined = 9 // emoji in one
	flagTags    = 7 // tags behind a black flag, with the one that ends them
)

// The characters that shape treats by themselves.
const (
	zeroWidthSpace = '\u200b'
	nonJoiner      = '\u200c'
	joiner         = '\u200d'
	emojiVariant   = '\ufe0f'
	blackFlag      = '\U0001f3f4'
	firstTag       = '\U000e0020'
	endTag         = '\U000e007f'
)

// joining are the scripts in which joiners decide how letters look, spaced those
// without spaces, in which a space of no width parts the words.
var (
	joining = []*unicode.RangeTable{
		unicode.Arabic, unicode.Syriac, unicode.Mongolian, unicode.Nko, unicode.Mandaic, unicode.Adlam,
		unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya, unicode.Tamil,
		unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Sinhala, unicode.Khmer, unicode.Myanmar,
	}
	spaced = []*unicode.RangeTable{unicode.Khmer, unicode.Thai, unicode.Lao, unicode.Myanmar, unicode.Tibetan}
)

// write adds the beginning of a text, whose first character is given, too, as it is to
// be shown, and returns how long that beginning is.
func (h *shape) write(b *strings.Builder, r rune, size int, rest string) int {
	switch {
	case drives(r):
		h.show(b, picture(r))
	case isMark(r) && h.marks < shownMarks:
		h.marks++
		h.prev = r
		b.WriteRune(r)
	case isMark(r):
		n, size := countMarks(rest)
		h.show(b, fmt.Sprintf("<+%d>", n))
		return size
	case r >= firstTag && r <= endTag && h.base == blackFlag && h.prev == blackFlag && flagOf(rest) > 0:
		n := flagOf(rest)
		h.prev = endTag
		b.WriteString(rest[:n])
		return n
	case h.fits(r, rest[size:]):
		h.prev = r
		b.WriteRune(r)
	case ignorable(r):
		h.show(b, picture(r))
	default:
		if h.prev != joiner || !isEmoji(r) {
			h.joined = 0
		}
		h.base, h.prev, h.marks = r, r, 0
		b.WriteRune(r)
	}
	return size
}

// show adds visible characters.
func (h *shape) show(b *strings.Builder, text string) {
	r, _ := utf8.DecodeLastRuneInString(text)
	*h = shape{base: r, prev: r}
	b.WriteString(text)
}

// fits reports whether a character without a place of its own stands where people
// write it.
func (h *shape) fits(r rune, next string) bool {
	switch {
	case r == zeroWidthSpace:
		return h.prev != r && unicode.In(h.base, spaced...)
	case (r == joiner || r == nonJoiner) && unicode.In(h.base, joining...):
		return h.prev != joiner && h.prev != nonJoiner
	case r == joiner && isEmoji(h.base) && (h.prev == h.base || h.prev == emojiVariant) && h.joined < shownJoined:
		h.joined++
		follows, _ := utf8.DecodeRuneInString(next)
		return isEmoji(follows)
	case unicode.Is(unicode.Variation_Selector, r):
		return h.prev == h.base && unicode.IsGraphic(h.base) && !unicode.IsSpace(h.base) && (r <= emojiVariant || unicode.Is(unicode.Han, h.base))
	}
	return false
}

// isMark reports whether a character is drawn onto the one before it.
func isMark(r rune) bool { return unicode.Is(unicode.M, r) && !ignorable(r) }

// isEmoji reports whether a character may be part of a joined emoji.
func isEmoji(r rune) bool {
	return unicode.Is(unicode.So, r) && r != utf8.RuneError || r >= '\U0001f3fb' && r <= '\U0001f3ff' || r >= '\u2190' && r <= '\u21ff'
}

// countMarks returns how many accents a text begins with, and their length.
func countMarks(text string) (n, size int) {
	for size < len(text) {
		r, width := utf8.DecodeRuneInString(text[size:])
		if !isMark(r) {
			break
		}
		n, size = n+1, size+width
	}
	return n, size
}

// flagOf returns the length of the tags that a text begins with, if they name a flag.
func flagOf(text string) (size int) {
	for n := 1; n <= flagTags; n++ {
		r, width := utf8.DecodeRuneInString(text[size:])
		if size += width; r == endTag && n > 1 {
			return size
		}
		if r < firstTag || r >= endTag {
			break
		}
	}
	return 0
}

// ignorable reports whether a terminal shows nothing for a character: it only says how
// others look, or nothing at all.
func ignorable(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) &&
		!unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// plain reports whether a character is shown as it is, wherever it stands.
func plain(r rune) bool {
	const firstMark, softHyphen = '\u0300', '\u00ad'
	if r < firstMark {
		return !drives(r) && r != softHyphen
	}
	return !drives(r) && !unicode.Is(unicode.M, r) && !ignorable(r)
}

// unfinished returns how many bytes at the end of a text are characters of which the
// next one decides whether they stay.
func unfinished(text []byte) (size int) {
	if r, n := utf8.DecodeLastRune(text); r == joiner {
		return n
	}
	for range flagTags - 1 {
		r, n := utf8.DecodeLastRune(text[:len(text)-size])
		if r < firstTag || r >= endTag {
			return size
		}
		size += n
	}
	return 0
}
