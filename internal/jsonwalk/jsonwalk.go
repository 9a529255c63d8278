// Package jsonwalk reads JSON without building values from it. It returns
// members and elements as slices of the input, one at a time. So a reader of
// hostile input needs memory only for what it keeps: a megabyte of "{},{},"
// would be a hundred megabytes as a slice of structs.
//
// Call [Check] first. The other functions assume that the input is valid JSON.
package jsonwalk

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

// IsObject reports whether raw is an object.
func IsObject(raw []byte) bool { return first(raw) == '{' }

// IsArray reports whether raw is an array.
func IsArray(raw []byte) bool { return first(raw) == '[' }

func first(raw []byte) byte {
	if raw = bytes.TrimLeft(raw, space); len(raw) > 0 {
		return raw[0]
	}
	return 0
}

const space = " \t\r\n"

// Members yields the members of an object in order, and nothing for any other
// value. A value has no white space around it.
func Members(object []byte) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		if !IsObject(object) {
			return
		}
		i := next(object, bytes.IndexByte(object, '{')+1)
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
		if !IsArray(array) {
			return
		}
		i := next(array, bytes.IndexByte(array, '[')+1)
		for i < len(array) && array[i] != ']' {
			end := skipValue(array, i)
			if end == i || !yield(array[i:end:end]) {
				return
			}
			i = next(array, next(array, end)+1) // past the comma
		}
	}
}

// nameOf decodes the name of a member.
func nameOf(quoted []byte) string {
	if len(quoted) < 2 || bytes.IndexByte(quoted, '\\') >= 0 || !utf8.Valid(quoted) {
		return decoded(quoted)
	}
	name := quoted[1 : len(quoted)-1]
	if usual, ok := usualNames[string(name)]; ok {
		return usual
	}
	return string(name)
}

// decoded decodes a name in any form.
func decoded(quoted []byte) string {
	var name string
	if json.Unmarshal(quoted, &name) != nil {
		return string(quoted)
	}
	return name
}

// usualNames are the members that each chunk of an answer has, so that their names
// are not made anew for every one.
var usualNames = func() map[string]string {
	names := map[string]string{}
	for _, name := range []string{
		"arguments", "choices", "content", "created", "delta", "finish_reason", "function", "id", "index", "logprobs",
		"message", "model", "name", "native_finish_reason", "obfuscation", "object", "provider", "reasoning", "reasoning_content",
		"refusal", "role", "service_tier", "system_fingerprint", "text", "tool_call_id", "tool_calls", "type", "usage",
		// those of the Responses API
		"content_index", "item", "item_id", "output_index", "response", "sequence_number", "summary_index",
	} {
		names[name] = name
	}
	return names
}()

// Text returns the string that raw holds, and "" if it holds none.
func Text(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
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
