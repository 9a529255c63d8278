// Package edit changes a text in the way that models ask for: old text to be
// replaced, and new text to put in its place.
package edit

import (
	"errors"
	"fmt"
	"strings"
)

// ReplaceOnce replaces the only occurrence of old in text. It returns the new
// text, and the number of the line, from 1, on which old began. It is an error
// if old occurs never or more than once. old must not be empty.
//
// Models write LF. If text has CRLF line ends and old does not occur as given,
// ReplaceOnce looks for old with CRLF. It gives new the line ends of its
// surroundings, unless old was given with CRLF and occurs: then the model minds
// line ends, and new is used as it is.
func ReplaceOnce(text, old, new string) (edited string, line int, err error) {
	verbatim := strings.Contains(old, "\r\n")
	if !strings.Contains(text, old) && strings.Contains(text, "\r\n") {
		old, verbatim = toCRLF(old), false
	}
	at, last := strings.Index(text, old), strings.LastIndex(text, old)
	switch {
	case at < 0:
		return "", 0, errors.New("old_text does not occur in the file; read the file and copy the text exactly")
	case at != last: // overlapping occurrences count as two
		return "", 0, fmt.Errorf("old_text occurs more than once, on line %d and on line %d; add lines around it to make it unique", lineAt(text, at), lineAt(text, last))
	}
	if !verbatim && endsInCRLF(text, at) {
		if text[at] == '\n' { // the CR before it belongs to the line end
			at, old = at-1, "\r"+old
		}
		new = toCRLF(new)
	}
	return text[:at] + new + text[at+len(old):], lineAt(text, at), nil
}

// lineAt returns the number, from 1, of the line that contains byte at.
func lineAt(text string, at int) int { return 1 + strings.Count(text[:at], "\n") }

// endsInCRLF reports whether the line that contains byte at ends in CRLF. For a
// last line without an end, it looks at the line before.
func endsInCRLF(text string, at int) bool {
	end := strings.IndexByte(text[at:], '\n')
	if end < 0 {
		end = strings.LastIndexByte(text[:at], '\n')
	} else {
		end += at
	}
	return end > 0 && text[end-1] == '\r'
}

func toCRLF(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}
