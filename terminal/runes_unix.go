//go:build !windows

package terminal

import (
	"io"
	"unicode/utf8"
)

// runeReader reads the input of a terminal by whole characters. Of one that comes in
// pieces, as over a slow line, the first piece is kept until the next one is there: the
// reader of keys waits for it only as long as for the rest of a key's sequence, and then
// drops it.
type runeReader struct {
	in   io.Reader
	rest []byte // the first bytes of a character
}

// Read reads what the terminal has sent. It needs room for a whole character.
func (r *runeReader) Read(p []byte) (int, error) {
	n := copy(p, r.rest)
	r.rest = r.rest[:0]
	for {
		more, err := r.in.Read(p[n:])
		n += more
		whole := n
		if err == nil {
			whole -= unfinished(p[:n])
		}
		if whole > 0 || err != nil {
			r.rest = append(r.rest, p[whole:n]...)
			return whole, err
		}
	}
}

// unfinished returns how many bytes at the end of text begin a character that goes on.
func unfinished(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}
