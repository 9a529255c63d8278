// Package plain makes plain text, for a model, of what a command printed for a
// terminal. It differs from package screen, which shows a person that somebody
// tries to control their terminal: here what a terminal would not show in the end
// is left out, since each byte costs the model's attention. Whatever else is no
// text becomes visible text, so that outputs that differ do not look the same.
package plain

import (
	"strings"
	"unicode/utf8"

	"github.com/x/pygent/internal/escape"
)

// Clean returns the text that a command's output leaves behind. Of progress that
// carriage returns overwrote, that is the last state; other carriage returns are line
// ends. Escape sequences are gone, and so are the characters before backspaces. Other
// control characters, and each byte that is not UTF-8, become escapes such as <0x07>,
// and binary data becomes a line that says how much it was. The time that Clean takes
// grows linearly with the output, and the result is at most six times as long.
func Clean(output string) string {
	if isPlain(output) {
		return output
	}
	before, binary, after := findBinary(output)
	c := cleaner{}
	c.out.Grow(len(before) + len(after))
	c.text(before)
	if binary != "" {
		c.endLine()
		c.out.WriteString(describeBinary(binary))
		c.out.WriteByte('\n')
		c.text(after)
	}
	return c.finish()
}

// isPlain reports whether there is nothing to clean.
func isPlain(s string) bool {
	for i := 0; i < len(s); {
		if b := s[i]; b < utf8.RuneSelf {
			if b < ' ' && b != '\n' && b != '\t' || b == 0x7f {
				return false
			}
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 || escape.IsControl(r) {
			return false
		}
		i += size
	}
	return true
}

// cleaner cleans text line by line. Between two carriage returns is a state of
// the line.
type cleaner struct {
	out   strings.Builder
	line  []byte // the current state
	drawn bool   // escape sequences of it move the cursor, or erase
	state string // the last one before it that was not blank
	gone  bool   // something erases that
	over  bool   // there were states before the current one
}

func (c *cleaner) text(s string) {
	for i := 0; i < len(s); {
		switch b := s[i]; {
		case b == '\n':
			c.endLine()
			c.out.WriteByte('\n')
			i++
		case b == '\r':
			c.endState()
			i++
		case b == '\b':
			c.back()
			i++
		case b == 0x1b, b == 0xc2 && strings.HasPrefix(s[i:], "\u009b"):
			n := escapeLength(s[i:])
			if n == 0 {
				n = 1
				c.line = append(c.line, escape.Byte(b)...)
			}
			sequence := s[i : i+n]
			c.drawn = c.drawn || draws(sequence)
			if sequence == "\x1b[G" || sequence == "\x1b[1G" { // the first column
				c.endState()
			}
			i += n
		default:
			i += c.character(s[i:])
		}
	}
}

// character adds the first character of s to the line.
func (c *cleaner) character(s string) (size int) {
	r, size := utf8.DecodeRuneInString(s)
	switch {
	case r == utf8.RuneError && size == 1:
		c.line = append(c.line, escape.Byte(s[0])...)
	case escape.IsControl(r):
		c.line = append(c.line, escape.Rune(r)...)
	default:
		c.line = append(c.line, s[:size]...)
	}
	return size
}

// back removes the last character of the line.
func (c *cleaner) back() {
	_, size := utf8.DecodeLastRune(c.line)
	c.line = c.line[:len(c.line)-size]
}

// endState takes what stands in the line when the cursor returns to its
// beginning.
func (c *cleaner) endState() {
	switch {
	case !blank(c.line):
		c.take()
	case len(c.line) > 0:
		c.gone = true
	}
	c.gone = c.gone || c.drawn
	c.line, c.drawn, c.over = c.line[:0], false, true
}

// take makes the current state the last one. The one before becomes a line of its
// own unless it was overwritten.
func (c *cleaner) take() {
	state := string(c.line)
	if c.state != "" && !c.gone && !c.drawn && !replaces(c.state, state) {
		c.out.WriteString(strings.TrimRight(c.state, " \t"))
		c.out.WriteByte('\n')
	}
	c.state, c.gone = state, false
}

// endLine writes the last state of the line.
func (c *cleaner) endLine() {
	if !c.over {
		c.out.Write(c.line)
	} else {
		if !blank(c.line) {
			c.take()
		}
		c.out.WriteString(strings.TrimRight(c.state, " \t"))
	}
	c.line, c.drawn, c.state, c.gone, c.over = c.line[:0], false, "", false, false
}

func (c *cleaner) finish() string {
	c.endLine()
	return c.out.String()
}

func blank(line []byte) bool {
	for _, b := range line {
		if b != ' ' && b != '\t' {
			return false
		}
	}
	return true
}

// maxEscape is the longest escape sequence, in bytes. What goes on for longer is
// none.
const maxEscape = 4 << 10

// escapeLength returns the length of the escape sequence with which s begins, and
// 0 if it is none. A sequence ends before a line end or the next escape at the
// latest, so no byte is looked at more often than twice.
func escapeLength(s string) int {
	i := 1
	kind := byte('[')
	if s[0] == 0x1b {
		if len(s) == 1 {
			return 0
		}
		kind = s[1]
	}
	i++ // both introducers have two bytes
	switch {
	case kind == '[':
		return controlLength(s, i)
	case strings.IndexByte("]PX^_", kind) >= 0:
		return stringLength(s, i)
	case kind >= ' ' && kind <= '/': // such as the choice of a character set
		for i < len(s) && i < maxEscape && s[i] >= ' ' && s[i] <= '/' {
			i++
		}
		if i < len(s) && s[i] >= '0' && s[i] <= '~' {
			return i + 1
		}
		return 0
	case kind >= '0' && kind <= '~':
		return i
	}
	return 0
}

// controlLength returns the length of a sequence of parameters and a final byte.
func controlLength(s string, i int) int {
	for i < len(s) && i < maxEscape && s[i] >= ' ' && s[i] <= '?' {
		i++
	}
	if i < len(s) && s[i] >= '@' && s[i] <= '~' {
		return i + 1
	}
	return 0
}

// stringLength returns the length of a sequence that holds a text, such as a
// window's title. It ends with a bell, or with an escape and a backslash.
func stringLength(s string, i int) int {
	for ; i < len(s) && i < maxEscape; i++ {
		switch s[i] {
		case '\a':
			return i + 1
		case 0x1b:
			if strings.HasPrefix(s[i:], "\x1b\\") {
				return i + 2
			}
			return 0
		case '\n', '\r':
			return 0
		}
	}
	return 0
}

// Open returns how many bytes at the end of a piece of output may be the
// beginning of an escape sequence or of a character that goes on in the next
// piece. It is at most 256.
func Open(piece string) int {
	const most = 256
	for n := 1; n < utf8.UTFMax && n <= len(piece); n++ {
		if last := piece[len(piece)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRuneInString(last) {
				return n
			}
			break
		}
	}
	end := piece[max(0, len(piece)-most):]
	at := strings.LastIndexByte(end, 0x1b)
	if at < 0 || strings.ContainsAny(end[at:], "\n\r") || escapeLength(end[at:]) > 0 {
		return 0
	}
	if at > 0 && end[at:] == "\x1b" && strings.LastIndexByte(end[:at], 0x1b) >= 0 {
		if before := strings.LastIndexByte(end[:at], 0x1b); escapeLength(end[before:]) == 0 && !strings.ContainsAny(end[before:at], "\n\r") {
			return len(end) - before // the escape may be the first half of a string's end
		}
	}
	return len(end) - at
}
