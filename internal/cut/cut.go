// Package cut shortens texts for models, people and logs without splitting a
// character. It also trims the split characters at the ends of data that was
// cut by bytes, such as parts of files and of the output of commands.
package cut

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Head returns at most n bytes from the start of s.
func Head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	end := n
	for end > 0 && end > n-utf8.UTFMax+1 && !utf8.RuneStart(s[end]) {
		end--
	}
	if !utf8.RuneStart(s[end]) {
		end = n // not UTF-8: there is no character to keep whole
	}
	return s[:end]
}

// Line returns the beginning of a text in one line, with single blanks between its
// words, so that no part of it can pass for another line.
func Line(s string, n int) string {
	var b strings.Builder
	for word := range strings.FieldsSeq(s) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		if b.WriteString(word); b.Len() > n {
			break
		}
	}
	return Head(b.String(), n)
}

// Tail returns at most n bytes from the end of s.
func Tail(s string, n int) string {
	if len(s) <= n {
		return s
	}
	begin := len(s) - n
	at := begin
	for at < len(s) && at < begin+utf8.UTFMax-1 && !utf8.RuneStart(s[at]) {
		at++
	}
	if at < len(s) && !utf8.RuneStart(s[at]) {
		at = begin // not UTF-8: there is no character to keep whole
	}
	return s[at:]
}

// LastLines returns at most n lines from the end of a text.
func LastLines(text string, n int) string {
	text = strings.TrimSuffix(text, "\n")
	at := len(text)
	for ; n > 0 && at >= 0; n-- {
		at = strings.LastIndexByte(text[:at], '\n')
	}
	return text[at+1:]
}

// Middle replaces the middle of a text that is longer than n bytes by a note of
// how much was left out. With the note, the result is somewhat longer than n.
func Middle(s string, n int) string {
	if len(s) <= n {
		return s
	}
	head, tail := Head(s, n/2), Tail(s, n/2)
	return fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", head, len(s)-len(head)-len(tail), tail)
}

// TrimEnd removes an incomplete character from the end of p.
func TrimEnd(p []byte) []byte {
	for i := len(p) - 1; i >= 0 && i >= len(p)-utf8.UTFMax; i-- {
		if utf8.RuneStart(p[i]) {
			if !utf8.FullRune(p[i:]) {
				return p[:i]
			}
			break
		}
	}
	return p
}

// TrimStart removes the rest of a split character from the start of p.
func TrimStart(p []byte) []byte {
	for i := 0; i < len(p) && i < utf8.UTFMax-1; i++ {
		if utf8.RuneStart(p[i]) {
			return p[i:]
		}
	}
	if len(p) < utf8.UTFMax {
		return nil
	}
	return p
}
