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
	"errors"
	"fmt"
	"iter"
	"unicode/utf8"
)

// Errors of [Check].
var (
	ErrInvalid = errors.New("not valid JSON")
	ErrDeep    = errors.New("nested too deeply")
)

// Check reports whether data is one JSON value whose nesting is not deeper than
// depth.
func Check(data []byte, depth int) error {
	if bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("[")) > depth { // or it cannot be
		if err := checkDepth(data, depth); err != nil {
			return err
		}
	}
	if !json.Valid(data) {
		return ErrInvalid
	}
	return nil
}

func checkDepth(data []byte, depth int) error {
	level := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i = skipString(data, i) - 1
		case '{', '[':
			if level++; level > depth {
				return fmt.Errorf("%w: more than %d levels", ErrDeep, depth)
			}
		case '}', ']':
			level--
		}
	}
	return nil
}

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
	if len(quoted) > 1 && bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return string(quoted[1 : len(quoted)-1])
	}
	var name string
	if json.Unmarshal(quoted, &name) != nil {
		return string(quoted)
	}
	return name
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
