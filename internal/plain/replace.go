package plain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// replaces reports whether a state of a line is drawn over the one before, as that
// of a progress bar is, so that the one before is not worth showing. Otherwise a
// carriage return between them ends a line, as in files of old Macs: then nothing of
// them may be lost. In doubt it is no progress.
func replaces(before, state string) bool {
	switch {
	case draws(before) || draws(state):
		return true
	case isShare(before) && isShare(state), isRate(before) && isRate(state):
		return true
	}
	a, b := strings.TrimRight(before, " \t"), strings.TrimRight(state, " \t")
	switch {
	case len(b) < len(state) && len(state) >= len(a): // blanks hide the rest
		return true
	case len(a) >= leastGrown && strings.HasPrefix(b, a):
		return true
	case isShare(a) && commonPrefix(a, b) >= len(a)/2:
		return true
	case len(a) == len(b) && hasClock(a) && hasClock(b):
		return true
	}
	shape := shapeOf(a)
	return shape == shapeOf(b) && (shape == "" && !hasDigit(a+b) || hasLetter(shape) && !strings.ContainsAny(shape, ",;\t"))
}

// leastGrown is how long a state is, in bytes, that goes on in the next one.
const leastGrown = 3

// draws reports whether a state has escape sequences that move the cursor, or erase
// what is there.
func draws(state string) bool {
	for at := strings.IndexByte(state, 0x1b); at >= 0; {
		n := escapeLength(state[at:min(len(state), at+maxEscape)])
		if n > 2 && state[at+1] == '[' && isDrawing(state[at+n-1]) {
			return true
		}
		next := strings.IndexByte(state[at+1:], 0x1b)
		if next < 0 {
			return false
		}
		at += 1 + next
	}
	return false
}

// isDrawing reports whether an escape sequence with a final byte does more than to
// choose colours.
func isDrawing(final byte) bool { return final >= 'A' && final <= 'K' }

// isShare reports whether a state says how many percent are done.
func isShare(state string) bool {
	at := strings.IndexByte(state, '%')
	before := strings.TrimRight(state[:max(at, 0)], " ")
	return before != "" && isDigit(before[len(before)-1])
}

// isRate reports whether a state says how much is done in a second.
func isRate(state string) bool {
	at := strings.Index(state, "/s")
	return at > 0 && hasDigit(state[:at])
}

// hasClock reports whether a state has a time such as 0:12 or --:--.
func hasClock(state string) bool {
	for i := 1; i+1 < len(state); i++ {
		if state[i] == ':' && isClock(state[i-1]) && isClock(state[i+1]) {
			return true
		}
	}
	return false
}

func isClock(b byte) bool { return isDigit(b) || b == '-' }

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

func hasDigit(s string) bool { return strings.ContainsAny(s, "0123456789") }

func hasLetter(s string) bool { return strings.ContainsFunc(s, unicode.IsLetter) }

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// shapeOf returns a state without its numbers, blanks, bars and spinners.
func shapeOf(state string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < utf8.RuneSelf && strings.ContainsRune(" 0123456789.=#>-|/\\*", r),
			r >= 0x2500 && r <= 0x28ff: // lines, blocks and dots
			return -1
		}
		return r
	}, state)
}
