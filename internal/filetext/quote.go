package filetext

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/sniff"
)

// Quote returns a text between fences that are longer than any in it.
func Quote(name, text string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` {
		name = quoted
	}
	longest, run := 2, 0
	for i := range len(text) {
		if text[i] != '`' {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", longest+1)
	return fmt.Sprintf("The file %s:\n%s\n%s\n%s", name, fence, strings.TrimSuffix(text, "\n"), fence)
}

// Instructions returns what a model is told of a file with instructions, of
// which data is the beginning, and what is odd about it. A project controls the
// file: what no reader of it sees, the model does not get either.
func Instructions(data []byte, size int64) (text, odd string) {
	whole := string(data)
	if size > int64(len(data)) {
		whole = dropPart(whole)
	}
	if at := strings.IndexByte(whole, 0); at >= 0 {
		return "", "it is " + cmp.Or(sniff.Of(whole).Name, "binary data")
	}
	text = escape.Readable(whole)
	switch {
	case !utf8.ValidString(whole):
		odd = "some of it is not UTF-8"
	case text != strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(whole, "\ufeff")):
		odd = "it has characters that nobody sees"
	}
	if text = strings.TrimSpace(text); text != "" && size > int64(len(data)) {
		text += fmt.Sprintf("\n[cut: the first %d of %d bytes]", len(data), size)
	}
	return text, odd
}

// dropPart removes the last character of s if a cut has left only a part of it.
func dropPart(s string) string {
	for i := 1; i < utf8.UTFMax && i <= len(s); i++ {
		if tail := s[len(s)-i:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRuneInString(tail) {
				return s[:len(s)-i]
			}
			break
		}
	}
	return s
}
