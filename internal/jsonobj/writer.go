package jsonobj

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
)

// Writer builds an object whose fields keep the order of the calls. Names of
// fields are written as they are, so they must not need escapes. Every step of
// an agent encodes messages, so strings of ASCII are written without reflection. The
// zero Writer is ready to use.
type Writer struct {
	buf bytes.Buffer
	err error
}

// Text writes a field that is a string.
func (w *Writer) Text(name, value string) {
	w.name(name)
	w.quote(value)
}

// OptionalText is Text for a field that is left out when it is empty.
func (w *Writer) OptionalText(name, value string) {
	if value != "" {
		w.Text(name, value)
	}
}

// Raw writes a field whose value is JSON already.
func (w *Writer) Raw(name string, value []byte) {
	w.name(name)
	w.buf.Write(value)
}

// Field writes a field as package encoding/json encodes it.
func (w *Writer) Field(name string, value any) {
	w.name(name)
	w.value(value)
}

// Begin begins a field that is an object or an array, depending on the opening
// bracket. [Writer.End] ends it.
func (w *Writer) Begin(name string, bracket byte) {
	w.name(name)
	w.buf.WriteByte(bracket)
}

// Element begins an object inside the open array.
func (w *Writer) Element() {
	if b := w.buf.Bytes(); b[len(b)-1] != '[' {
		w.buf.WriteByte(',')
	}
	w.buf.WriteByte('{')
}

// End ends the open object or array with its closing bracket.
func (w *Writer) End(bracket byte) { w.buf.WriteByte(bracket) }

// Rest writes what [Reader.Rest] returned, sorted, so that equal objects give
// equal bytes.
func (w *Writer) Rest(fields map[string]json.RawMessage) {
	if len(fields) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		w.buf.WriteByte(',')
		w.value(name)
		w.buf.WriteByte(':')
		w.value(fields[name])
	}
}

// Done returns the object.
func (w *Writer) Done() ([]byte, error) {
	if w.err != nil {
		return nil, w.err
	}
	w.buf.WriteByte('}')
	return w.buf.Bytes(), nil
}

// UpTo returns the beginning of the object, up to and including the opening
// bracket of an array, for a caller that writes the elements and the end
// itself.
func (w *Writer) UpTo(array string) ([]byte, error) {
	w.Begin(array, '[')
	return w.buf.Bytes(), w.err
}

func (w *Writer) name(name string) {
	switch b := w.buf.Bytes(); {
	case len(b) == 0:
		w.buf.WriteByte('{')
	case b[len(b)-1] != '{':
		w.buf.WriteByte(',')
	}
	w.buf.WriteByte('"')
	w.buf.WriteString(name)
	w.buf.WriteString(`":`)
}

// Grow makes room for a number of bytes, so that the object need not be copied while it
// grows.
func (w *Writer) Grow(bytes int) { w.buf.Grow(bytes) }

// quote writes a string as encoding/json does.
func (w *Writer) quote(s string) {
	start := w.buf.Len()
	w.buf.WriteByte('"')
	plain := 0 // where what needs no escape began
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c < 0x80 && c != '"' && c != '\\' {
			continue
		}
		escape := escapes[c]
		if escape == "" {
			w.buf.Truncate(start)
			w.value(s)
			return
		}
		w.buf.WriteString(s[plain:i])
		w.buf.WriteString(escape)
		plain = i + 1
	}
	w.buf.WriteString(s[plain:])
	w.buf.WriteByte('"')
}

// escapes are those that texts have. encoding/json writes what has others.
var escapes = [256]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

func (w *Writer) value(value any) {
	enc := json.NewEncoder(&w.buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		w.err = cmp.Or(w.err, err)
		return
	}
	w.buf.Truncate(w.buf.Len() - 1) // the encoder's newline
}

// Encode returns a value as compact JSON, with <, > and & as they are.
func Encode(value any) (json.RawMessage, error) {
	var w Writer
	w.value(value)
	return w.buf.Bytes(), w.err
}
