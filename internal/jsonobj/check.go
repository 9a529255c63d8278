package jsonobj

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Errors of [Check].
var (
	ErrInvalid = errors.New("not valid JSON")
	ErrDeep    = errors.New("nested too deeply")
)

// Check reports whether data is one JSON value whose nesting is not deeper than
// depth. It takes what encoding/json takes.
func Check(data []byte, depth int) error { return CheckMembers(data, depth, nil) }

// CheckMembers is Check, and at the same time calls member for each member of the
// object that data may be, in order and as [Members] yields them. They mean nothing
// if there is an error.
func CheckMembers(data []byte, depth int, member func(name []byte, value json.RawMessage)) error {
	if bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("[")) > depth { // or it cannot be
		if err := checkDepth(data, depth); err != nil {
			return err
		}
	}
	i := next(data, 0)
	end, ok := i, false
	if i < len(data) && data[i] == '{' {
		end, ok = validObject(data, i, member)
	} else {
		end, ok = validValue(data, i)
	}
	if !ok || next(data, end) != len(data) {
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

// The valid functions return the end of what begins at i. It is not meaningful if ok
// is false, which says that the JSON is not valid.

func validValue(data []byte, i int) (end int, ok bool) {
	if i >= len(data) {
		return i, false
	}
	switch data[i] {
	case '"':
		return validString(data, i)
	case '{':
		return validObject(data, i, nil)
	case '[':
		return validArray(data, i)
	case 't':
		return validWord(data, i, "true")
	case 'f':
		return validWord(data, i, "false")
	case 'n':
		return validWord(data, i, "null")
	}
	return validNumber(data, i)
}

func validWord(data []byte, i int, word string) (end int, ok bool) {
	end = i + len(word)
	return end, end <= len(data) && string(data[i:end]) == word
}

// validObject calls member, unless it is nil, for each member.
func validObject(data []byte, i int, member func(name []byte, value json.RawMessage)) (end int, ok bool) {
	i = next(data, i+1)
	if i < len(data) && data[i] == '}' {
		return i + 1, true
	}
	for i < len(data) && data[i] == '"' {
		name := i
		if i, ok = validString(data, i); !ok {
			return i, false
		}
		nameEnd := i
		if i = next(data, i); i >= len(data) || data[i] != ':' {
			return i, false
		}
		value := next(data, i+1)
		if i, ok = validValue(data, value); !ok { // recursion ends at the depth
			return i, false
		}
		if member != nil {
			member(nameOf(data[name:nameEnd]), data[value:i:i])
		}
		if i = next(data, i); i >= len(data) || data[i] != ',' {
			return i + 1, i < len(data) && data[i] == '}'
		}
		i = next(data, i+1)
	}
	return i, false
}

func validArray(data []byte, i int) (end int, ok bool) {
	i = next(data, i+1)
	if i < len(data) && data[i] == ']' {
		return i + 1, true
	}
	for {
		if i, ok = validValue(data, i); !ok {
			return i, false
		}
		if i = next(data, i); i >= len(data) || data[i] != ',' {
			return i + 1, i < len(data) && data[i] == ']'
		}
		i = next(data, i+1)
	}
}

func validString(data []byte, i int) (end int, ok bool) {
	for i++; i < len(data); i++ {
		c := data[i]
		if c > '"' && c != '\\' {
			continue
		}
		switch {
		case c == '"':
			return i + 1, true
		case c == '\\':
			if i = escape(data, i+1); i < 0 {
				return 0, false
			}
		case c < ' ':
			return i, false
		}
	}
	return i, false
}

// escape returns the index of the last byte of what follows a backslash, and -1 if
// that is no escape.
func escape(data []byte, i int) (last int) {
	if i >= len(data) {
		return -1
	}
	switch data[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i
	case 'u':
		last = i + 4
		if last >= len(data) || len(bytes.TrimLeft(data[i+1:last+1], "0123456789abcdefABCDEF")) > 0 {
			return -1
		}
		return last
	}
	return -1
}

func validNumber(data []byte, i int) (end int, ok bool) {
	if i < len(data) && data[i] == '-' {
		i++
	}
	switch whole := digits(data, i); {
	case whole == i || data[i] == '0' && whole > i+1: // none, or one too many
		return i, false
	default:
		i = whole
	}
	if i < len(data) && data[i] == '.' {
		fraction := digits(data, i+1)
		if fraction == i+1 {
			return i, false
		}
		i = fraction
	}
	if i < len(data) && (data[i] == 'e' || data[i] == 'E') {
		if i++; i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		exponent := digits(data, i)
		if exponent == i {
			return i, false
		}
		i = exponent
	}
	return i, true
}

// digits returns the index of the first byte from i on that is no digit.
func digits(data []byte, i int) int {
	for i < len(data) && data[i] >= '0' && data[i] <= '9' {
		i++
	}
	return i
}
