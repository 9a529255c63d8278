package jsonobj

import (
	"bytes"
	"encoding/json"
	"iter"
	"unicode/utf8"
)

// Values counts the values inside a value, including the names of members.
func Values(raw []byte) int {
	n := 1
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i = skipString(raw, i) - 1
		case ',', ':', '{', '[':
			n++
		}
	}
	return n
}

// BeginsObject reports whether raw is an object.
func BeginsObject(raw []byte) bool { return first(raw) == '{' }

// BeginsArray reports whether raw is an array.
func BeginsArray(raw []byte) bool { return first(raw) == '[' }

func first(raw []byte) byte {
	if i := next(raw, 0); i < len(raw) {
		return raw[i]
	}
	return 0
}

// Members yields the members of an object in order, and nothing for any other
// value. A name may share the memory of the object. A value has no white space
// around it.
func Members(object []byte) iter.Seq2[[]byte, json.RawMessage] {
	return func(yield func([]byte, json.RawMessage) bool) {
		if !BeginsObject(object) {
			return
		}
		i := next(object, next(object, 0)+1)
		for i < len(object) && object[i] == '"' {
			end := skipString(object, i)
			name := object[i:end]
			i = next(object, next(object, end)+1) // past the colon
			end = skipValue(object, i)
			if end <= i || !yield(nameOf(name), object[i:end:end]) {
				return
			}
			i = next(object, next(object, end)+1) // past the comma
		}
	}
}

// Elements yields the elements of an array in order, and nothing for any other
// value. An element has no white space around it.
func Elements(array []byte) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		if !BeginsArray(array) {
			return
		}
		i := next(array, next(array, 0)+1)
		for i < len(array) && array[i] != ']' {
			end := skipValue(array, i)
			if end == i || !yield(array[i:end:end]) {
				return
			}
			i = next(array, next(array, end)+1) // past the comma
		}
	}
}

// nameOf decodes the name of a member, and leaves it as it is if it is not valid.
func nameOf(quoted []byte) []byte {
	if name, ok := decoded(quoted); ok {
		return name
	}
	return quoted
}

// decoded returns what a string stands for, in its own memory if nothing is escaped.
func decoded(quoted []byte) (text []byte, ok bool) {
	if len(quoted) < 2 {
		return nil, false
	}
	inside := quoted[1 : len(quoted)-1 : len(quoted)-1]
	if isPlain(inside) || bytes.IndexByte(inside, '\\') < 0 && utf8.Valid(inside) {
		return inside, true
	}
	if text, ok := unescaped(inside); ok {
		return text, true
	}
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return nil, false
	}
	return []byte(s), true
}

// letters has what the escapes of one letter stand for.
var letters = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unescaped returns what the inside of a string stands for, in memory of its own. ok is
// false if it has bytes that are not UTF-8, or escapes other than those of one letter.
func unescaped(inside []byte) (text []byte, ok bool) {
	if !utf8.Valid(inside) {
		return nil, false
	}
	text = make([]byte, 0, len(inside))
	for {
		i := bytes.IndexByte(inside, '\\')
		if i < 0 {
			return append(text, inside...), true
		}
		if i+1 == len(inside) || letters[inside[i+1]] == 0 {
			return nil, false
		}
		text = append(append(text, inside[:i]...), letters[inside[i+1]])
		inside = inside[i+2:]
	}
}

// isPlain reports whether the inside of a short string is the text that it stands for.
// Of a long one it reports false.
func isPlain(inside []byte) bool {
	const short = 32
	if len(inside) > short {
		return false
	}
	for _, c := range inside {
		if c == '\\' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Text returns the string that raw holds, and "" if it holds none.
func Text(raw []byte) string { return string(Inside(raw)) }

// Inside returns the text of the string that raw holds, and nothing if it holds none.
// It may share raw's memory.
func Inside(raw []byte) []byte {
	if len(raw) == 0 || raw[0] != '"' {
		return nil
	}
	text, _ := decoded(raw)
	return text
}

// Int returns the integer that raw holds, and false if it holds none.
func Int(raw []byte) (int, bool) {
	const safe = 9 // digits, which an int always has
	if n := len(raw); n == 0 || n > safe || digits(raw, 0) < n {
		var i *int // nil for null
		err := json.Unmarshal(raw, &i)
		if err != nil || i == nil {
			return 0, false
		}
		return *i, true
	}
	i := 0
	for _, digit := range raw {
		i = 10*i + int(digit-'0')
	}
	return i, true
}

// next returns the index of the first byte from i on that is not white space.
func next(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\r' || data[i] == '\t') {
		i++
	}
	return i
}

// skipValue returns the end of the value that begins at i.
func skipValue(data []byte, i int) int {
	if i < len(data) && data[i] == '"' {
		return skipString(data, i)
	}
	level := 0
	for ; i < len(data); i++ {
		switch data[i] {
		case '"':
			i = skipString(data, i) - 1
		case '{', '[':
			level++
		case '}', ']':
			if level--; level < 0 {
				return i
			}
			if level == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\r', '\n':
			if level == 0 {
				return i
			}
		}
	}
	return i
}

// skipString returns the end of the string that begins at i.
func skipString(data []byte, i int) int {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}
