// Package cut shortens texts for models, people and logs without cutting a
// character in two. Of what was cut by its bytes already, as the output of
// commands and the parts of files are, it keeps the whole characters.
package cut

import (
	"fmt"
	"unicode/utf8"
)

// Head returns at most n bytes of the start of s.
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

// Tail returns at most n bytes of the end of s.
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

// Middle leaves out the middle of a text that is longer than n bytes, and says
// so in its place: the result is somewhat longer than n.
func Middle(s string, n int) string {
	if len(s) <= n {
		return s
	}
	head, tail := Head(s, n/2), Tail(s, n/2)
	return fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", head, len(s)-len(head)-len(tail), tail)
}

// TrimEnd drops the beginning of a character at the end of p.
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

// TrimStart drops the end of a character at the start of p.
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
