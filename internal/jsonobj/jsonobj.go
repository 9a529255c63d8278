// Package jsonobj writes and reads JSON objects field by field. It keeps fields
// that the reader does not know exactly as they were received. The messages of
// a conversation are read and written with it.
//
// Members, elements and what else is in the input can be read without building values from
// it, one at a time and as slices of the input. So a reader of hostile input needs memory
// only for what it keeps: a megabyte of "{},{}," would be a hundred megabytes as a slice of
// structs. Call [Check] first: [Members], [Elements] and the like assume valid JSON.
// The package gjson, which openai-go links, is no replacement: its check of a text has no
// bound of the depth, so that 30 MB of "[" end the process by a stack overflow, and it copies
// what it reads and allocates for each value. That of encoding/json takes four times as long
// for a chunk of a stream.
//
// [Repair] and [RepairObject] read JSON that a model wrote almost right, as the arguments of a
// tool call: with raw line breaks in strings, a code fence around it, a brace too many, a comma
// at the end, Python's quotes and constants. They repair only what can be read in one way, and
// complete nothing. The libraries for this purpose (jsonrepair, json_repair and their ports to
// Go) close a string where the text ends. An answer that was cut off becomes a call then that
// writes half a file. Here such a text is an error, and so are quotes within a string that are
// not escaped, values without quotes, and two objects of which either could be meant.
//
// All functions take time in proportion to the text.
package jsonobj

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// Reader extracts known fields from an object. Null counts as absent.
type Reader struct {
	fields map[string]json.RawMessage
	err    error
}

// Read returns a reader of the object in data, with which it shares memory. It reads
// what encoding/json reads, several times as fast.
func Read(data []byte) (*Reader, error) {
	fields, err := Fields(data)
	if err != nil {
		return nil, err
	}
	return &Reader{fields: fields}, nil
}

// Fields returns the fields of the object in data, with which they share memory. They are
// nil for null.
func Fields(data []byte) (map[string]json.RawMessage, error) {
	fields := make(map[string]json.RawMessage)
	err := CheckMembers(data, maxDepth, func(name []byte, value json.RawMessage) { fields[string(name)] = value })
	if err == nil && BeginsObject(data) {
		return fields, nil
	}
	fields = nil
	err = json.Unmarshal(data, &fields) // which says what is wrong, but takes several times as long
	return fields, err
}

// maxDepth is how deep encoding/json reads.
const maxDepth = 10_000

// Take removes a field and returns it; nil if it is absent.
func (r *Reader) Take(name string) json.RawMessage {
	raw := r.fields[name]
	delete(r.fields, name)
	if bytes.Equal(raw, []byte("null")) {
		return nil
	}
	return raw
}

// Field removes a field and decodes it, unless it is absent.
func (r *Reader) Field(name string, into any) {
	if raw := r.Take(name); raw != nil {
		r.Decode(name, raw, into)
	}
}

// Decode decodes a field that Take returned.
func (r *Reader) Decode(name string, raw json.RawMessage, into any) {
	if text, ok := into.(*string); ok && bytes.HasPrefix(raw, []byte(`"`)) {
		*text = Text(raw)
		return
	}
	if err := json.Unmarshal(raw, into); err != nil && r.err == nil {
		r.err = fmt.Errorf("%s: %w", name, err)
	}
}

// Rest returns a copy of the fields that remain, or nil if there are none.
func (r *Reader) Rest() map[string]json.RawMessage {
	if len(r.fields) == 0 {
		return nil
	}
	return Clone(r.fields)
}

// Err returns the first error of decoding a field.
func (r *Reader) Err() error { return r.err }

// IsNull reports whether a field is null or absent.
func IsNull(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}

// IsObject reports whether text is a JSON object.
func IsObject(text string) bool {
	return strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") && json.Valid([]byte(text))
}

// WithoutNulls returns the fields that are not null. If there is no null, it
// returns the map itself.
func WithoutNulls(fields map[string]json.RawMessage) map[string]json.RawMessage {
	for _, raw := range fields {
		if IsNull(raw) {
			fields = maps.Clone(fields)
			maps.DeleteFunc(fields, func(_ string, raw json.RawMessage) bool { return IsNull(raw) })
			break
		}
	}
	return fields
}

// Clone returns a copy of fields that shares nothing with them.
func Clone(fields map[string]json.RawMessage) map[string]json.RawMessage {
	if fields == nil {
		return nil
	}
	clone := make(map[string]json.RawMessage, len(fields))
	for name, raw := range fields {
		clone[name] = bytes.Clone(raw)
	}
	return clone
}

// Equal reports whether two objects have the same fields, byte by byte. Most have none,
// which it tells at once.
func Equal(a, b map[string]json.RawMessage) bool {
	return len(a) == 0 && len(b) == 0 || maps.EqualFunc(a, b, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
}
