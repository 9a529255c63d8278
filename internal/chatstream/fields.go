package chatstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// fields are the unknown fields of an object that arrives in pieces.
type fields map[string]*value

// merge adds the fields of the next piece. Of a whole object they simply
// replace what was there.
func (f fields) merge(piece map[string]json.RawMessage, whole bool) error {
	for name, raw := range piece {
		if !present(raw) {
			continue
		}
		v := f[name]
		if v == nil {
			v = &value{}
			f[name] = v
		}
		switch {
		case whole || identifies(name):
			*v = value{other: raw}
		case raw[0] == '"':
			v.addText(raw)
		case raw[0] == '[':
			if err := v.addItems(raw); err != nil {
				return fmt.Errorf("field %s: %w", name, err)
			}
		default:
			*v = value{other: raw}
		}
	}
	return nil
}

func (f fields) encode() map[string]json.RawMessage {
	if len(f) == 0 {
		return nil
	}
	out := make(map[string]json.RawMessage, len(f))
	for name, v := range f {
		out[name] = v.encode()
	}
	return out
}

// identifies reports whether a string field names something rather than being
// text, so that a server which repeats it means the same again.
func identifies(name string) bool {
	switch name {
	case "id", "type", "name", "format", "status", "index", "role", "object", "model":
		return true
	}
	return false
}

// value is a field's value: joined text, an array, or anything else.
type value struct {
	text  *jsonText
	items []*item
	other json.RawMessage
}

func (v *value) addText(raw json.RawMessage) {
	if v.text == nil {
		*v = value{text: &jsonText{}}
	}
	v.text.add(raw)
}

func (v *value) addItems(raw json.RawMessage) error {
	var elements []json.RawMessage
	if err := json.Unmarshal(raw, &elements); err != nil {
		return err
	}
	if v.items == nil {
		*v = value{items: []*item{}}
	}
	for _, e := range elements {
		next := newItem(e)
		if old := v.find(next); old != nil {
			if err := old.merge(e); err != nil {
				return err
			}
			continue
		}
		if next.index != nil && len(v.items) >= maxItems {
			return ErrTooLarge
		}
		v.items = append(v.items, next)
	}
	return nil
}

func (v *value) find(next *item) *item {
	if next.index == nil {
		return nil
	}
	for _, it := range slices.Backward(v.items) {
		if it.continuedBy(next) {
			return it
		}
	}
	return nil
}

func (v *value) encode() json.RawMessage {
	switch {
	case v.text != nil:
		return v.text.quoted()
	case v.items != nil:
		return encodeItems(v.items)
	}
	return v.other
}

// item is an element of an array. One with an index may come in pieces.
type item struct {
	raw      json.RawMessage // as received, until a second piece comes
	index    *int
	kind, id string
	merged   fields // the pieces together, once there is more than one
}

func newItem(raw json.RawMessage) *item {
	it := &item{raw: raw}
	if raw[0] != '{' {
		return it
	}
	var head struct{ Index, Type, ID json.RawMessage }
	if json.Unmarshal(raw, &head) == nil {
		it.index, it.kind, it.id = intOf(head.Index), stringOf(head.Type), stringOf(head.ID)
	}
	return it
}

// continuedBy reports whether next is another piece of it: the same index,
// and no contradiction in type or id.
func (it *item) continuedBy(next *item) bool {
	agree := func(a, b string) bool { return a == "" || b == "" || a == b }
	return it.index != nil && *it.index == *next.index && agree(it.kind, next.kind) && agree(it.id, next.id)
}

func (it *item) merge(piece json.RawMessage) error {
	pieces := []json.RawMessage{piece}
	if it.merged == nil {
		it.merged = fields{}
		pieces = []json.RawMessage{it.raw, piece}
	}
	for _, p := range pieces {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(p, &m); err != nil {
			return err
		}
		if err := it.merged.merge(m, false); err != nil {
			return err
		}
	}
	return nil
}

func (it *item) encode(w *bytes.Buffer) {
	if it.merged == nil {
		w.Write(it.raw)
		return
	}
	w.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(it.merged)) {
		if i > 0 {
			w.WriteByte(',')
		}
		w.Write(quote(name))
		w.WriteByte(':')
		w.Write(it.merged[name].encode())
	}
	w.WriteByte('}')
}

func encodeItems(items []*item) json.RawMessage {
	var w bytes.Buffer
	w.WriteByte('[')
	for i, it := range items {
		if i > 0 {
			w.WriteByte(',')
		}
		it.encode(&w)
	}
	w.WriteByte(']')
	return w.Bytes()
}
