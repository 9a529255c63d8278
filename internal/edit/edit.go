// Package edit changes a text as a model asks for it: by the text that is there
// and the text to put in its place.
package edit

import (
	"errors"
	"fmt"
	"strings"
)

// ReplaceOnce replaces the only occurrence of old, which is not empty, in text,
// and returns the number of the line, from 1, that it began at. Models write LF: in a
// text with CRLF line ends, an old text that does not occur as it is gets
// those, and a new text gets the line ends of its place. An old text with CRLF
// shows a model that knows what it does; its new text is taken as it is.
func ReplaceOnce(text, old, new string) (edited string, line int, err error) {
	verbatim := strings.Contains(old, "\r\n")
	if !strings.Contains(text, old) && strings.Contains(text, "\r\n") {
		old, verbatim = toCRLF(old), false
	}
	at, last := strings.Index(text, old), strings.LastIndex(text, old)
	switch {
	case at < 0:
		return "", 0, errors.New("old_text does not occur in the file; read the file and copy the text exactly")
	case at != last: // occurrences that overlap are two as well
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

// lineAt returns the number of the line, from 1, that the byte at is in.
func lineAt(text string, at int) int { return 1 + strings.Count(text[:at], "\n") }

// endsInCRLF reports whether the line that the byte at is in ends in CRLF; of
// a last line without an end, whether the line before it does.
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
