package jsonobj

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Readable returns valid JSON that every reader accepts. It replaces bytes that are not
// UTF-8, which none does, and escapes of one half of a surrogate pair, which many do not.
// It may change encoded.
func Readable(encoded []byte) []byte {
	if !utf8.Valid(encoded) {
		encoded = bytes.ToValidUTF8(encoded, []byte("\ufffd"))
	}
	if bytes.Contains(encoded, []byte(`\ud`)) || bytes.Contains(encoded, []byte(`\uD`)) {
		replaceHalves(encoded)
	}
	return encoded
}

// escapeLength is the length of an escape such as \ud83d.
const escapeLength = len(`\uffff`)

// replaceHalves replaces each escape of one half of a surrogate pair.
func replaceHalves(encoded []byte) {
	for i := 0; i < len(encoded); {
		next := bytes.IndexByte(encoded[i:], '\\')
		if next < 0 {
			return
		}
		i += next
		unit, ok := escapedUnit(encoded[i:])
		if !ok {
			i += len(`\n`)
			continue
		}
		if utf16.IsSurrogate(unit) {
			second, _ := escapedUnit(encoded[i+escapeLength:])
			if utf16.DecodeRune(unit, second) != utf8.RuneError {
				i += escapeLength
			} else {
				copy(encoded[i:], `\ufffd`)
			}
		}
		i += escapeLength
	}
}

// escapedUnit returns the code unit of the escape with which encoded begins. ok is false
// for any other beginning.
func escapedUnit(encoded []byte) (unit rune, ok bool) {
	if len(encoded) < escapeLength || encoded[0] != '\\' || encoded[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(encoded[2:escapeLength]), 16, 16)
	return rune(n), err == nil
}

// Sorted returns an object with its names in one order at every depth, and without blanks.
// It is "null" for what is no object.
func Sorted(object string) string {
	var fields map[string]any
	decoder := json.NewDecoder(strings.NewReader(object))
	decoder.UseNumber() // large numbers differ, too
	_ = decoder.Decode(&fields)
	sorted, _ := json.Marshal(fields)
	return string(sorted)
}
