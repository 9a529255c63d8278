// Package cut makes whole characters of a piece of a text that was cut by its
// bytes. The output of commands and the parts of files that a model reads are
// such pieces.
package cut

import "unicode/utf8"

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
