package chatstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/x/pygent/internal/jsonobj"
)

// fields are the unknown fields of an object that arrives in pieces. The zero value
// has none.
type fields map[string]*value

// merge adds the fields of the next piece. The fields of a whole object replace
// those there.
func (f *fields) merge(piece []member, whole bool, b *budget) error {
	for _, m := range piece {
		if !present(m.raw) {
			continue
		}
		v := (*f)[string(m.name)]
		if v == nil {
			if len(*f) == maxFields {
				return errTooManyFields
			}
			if err := b.spend(costOfField + len(m.name)); err != nil {
				return err
			}
			if *f == nil {
				*f = fields{}
			}
			v = &value{}
			(*f)[string(m.name)] = v
		}
		if err := v.merge(m, whole, b); err != nil {
			return fmt.Errorf("field %.100s: %w", m.name, err)
		}
	}
	return nil
}

func (v *value) merge(m member, whole bool, b *budget) error {
	switch {
	case whole || identifies(m.name):
		*v = value{other: bytes.Clone(m.raw)}
	case m.raw[0] == '"':
		b.progress += len(m.raw) - len(`""`)
		v.addText(m.raw)
	case m.raw[0] == '[':
		return v.addItems(m.raw, b)
	default:
		*v = value{other: bytes.Clone(m.raw)}
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

// identifies reports whether a string field names something, as opposed to
// text. If a server repeats such a field, it means the same value and not a
// continuation.
func identifies(name []byte) bool {
	switch string(name) {
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

func (v *value) addItems(raw json.RawMessage, b *budget) error {
	if v.items == nil {
		*v = value{items: []*item{}}
	}
	for e := range jsonobj.Elements(raw) {
		b.progress += len(e)
		next := newItem(e)
		if old := v.find(next); old != nil {
			if err := old.merge(e, b); err != nil {
				return err
			}
			continue
		}
		if err := b.spend(costOfItem); err != nil {
			return err
		}
		next.raw = bytes.Clone(e)
		v.items = append(v.items, next)
	}
	return nil
}

// find returns the element that next continues. It looks back only a limited
// way, so that a server cannot have every element compared with all others.
func (v *value) find(next *item) *item {
	if !next.index.told {
		return nil
	}
	for _, it := range slices.Backward(v.items[max(0, len(v.items)-maxItems):]) {
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
	index    index
	kind, id string
	merged   fields // the pieces together, once there is more than one
}

func newItem(raw json.RawMessage) *item {
	it := &item{raw: raw}
	for name, value := range jsonobj.Members(raw) {
		switch string(name) {
		case "index":
			it.index = indexOf(value)
		case "type":
			it.kind = jsonobj.Text(value)
		case "id":
			it.id = jsonobj.Text(value)
		}
	}
	return it
}

// continuedBy reports whether next is another piece of it: it has the same
// index, and its type and id do not differ.
func (it *item) continuedBy(next *item) bool {
	agree := func(a, b string) bool { return a == "" || b == "" || a == b }
	return it.index.told && it.index == next.index && agree(it.kind, next.kind) && agree(it.id, next.id)
}

func (it *item) merge(piece json.RawMessage, b *budget) error {
	pieces := []json.RawMessage{piece}
	if it.raw != nil {
		pieces = []json.RawMessage{it.raw, piece}
		it.raw = nil
	}
	for _, p := range pieces {
		m, err := members(p, "element")
		if err != nil {
			return err
		}
		if err := it.merged.merge(m, false, b); err != nil {
			return err
		}
	}
	return nil
}

func (it *item) encode(w *bytes.Buffer) {
	if it.raw != nil {
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
