package filetext

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/sniff"
)

// sniffed is how much of a file tells whether it is text.
const sniffed = 8 << 10

// kindOf tells by the beginning of a file what it is, if it is no text; the name
// of a text's kind is empty.
func kindOf(first []byte) sniff.Kind {
	first = first[:min(len(first), sniffed)]
	if isText(first) && !bytes.HasPrefix(first, []byte("%PDF-")) {
		return sniff.Kind{}
	}
	if kind := sniff.Of(string(first)); kind.Name != "" {
		return kind
	}
	if isZeros(first) {
		return sniff.Kind{Name: "nothing but NUL bytes at its beginning", Look: sniff.Bytes}
	}
	return sniff.Kind{Name: "binary data", Look: sniff.Bytes}
}

// isText reports whether the beginning of a file can be shown as text: it has no
// NUL, and few bytes that are no UTF-8 or control characters.
func isText(first []byte) bool {
	if bytes.IndexByte(first, 0) >= 0 {
		return false
	}
	odd := 0
	for at := 0; at < len(first); {
		r, size := utf8.DecodeRune(first[at:])
		if r == utf8.RuneError && size == 1 && utf8.FullRune(first[at:]) || r < ' ' && !strings.ContainsRune("\t\n\v\f\r\b\x1b", r) {
			odd++
		}
		at += size
	}
	return odd*10 <= len(first)*3
}

func isZeros(data []byte) bool { return len(bytes.Trim(data, "\x00")) == 0 }

// IsText reports whether a file can be shown as text, by its beginning.
func IsText(data []byte) bool { return isText(data[:min(len(data), sniffed)]) }

// refuse is the error for a file that is not shown.
func refuse(k sniff.Kind, name string, size int64) error {
	return fmt.Errorf("%s is no text file: it is %s (%s); %s", name, k.Name, numeral.Count(size, "byte"), k.Look)
}
