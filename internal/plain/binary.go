package plain

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/sniff"
)

// Bounds of what counts as binary data.
const (
	// minBinary is the shortest data, in bytes, that is not shown. What is shorter
	// is as short when it is escaped.
	minBinary = 64
	// binaryShare is the part of data, in percent, that must not be text.
	binaryShare = 10
	// zeroShare is the same for NUL bytes, which also separate names in lists.
	zeroShare = 30
)

// findBinary divides an output into the lines before its binary data, the data,
// and the lines after. Without binary data the whole is before.
func findBinary(s string) (before, binary, after string) {
	begin, end := -1, 0
	for at := 0; at < len(s); {
		next := at + strings.IndexByte(s[at:], '\n') + 1
		if next == at {
			next = len(s)
		}
		if isBinary(s[at:next]) {
			if begin < 0 {
				begin = at
			}
			end = next
		}
		at = next
	}
	if begin < 0 {
		return s, "", ""
	}
	binary = s[begin:end]
	if sniff.Of(binary).Name == "" && (len(binary) < minBinary || !isBinary(binary)) {
		return s, "", ""
	}
	return s[:begin], binary, s[end:]
}

// isBinary reports whether too much of a piece is no text.
func isBinary(s string) bool {
	zeros, bad := 0, 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == 0:
			zeros++
		case r == utf8.RuneError && size == 1, r < ' ' && !strings.ContainsRune("\a\b\t\n\v\f\r\x1b", r):
			bad++
		}
		i += size
	}
	return bad*100 > binaryShare*len(s) || zeros*100 > zeroShare*len(s)
}

func describeBinary(data string) string {
	looks := ""
	if kind := sniff.Of(data).Name; kind != "" {
		looks = ", looks like " + kind
	}
	return fmt.Sprintf("[binary output, %s bytes%s]", numeral.Grouped(len(data)), looks)
}
