package toolschema

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// node is a schema in the portable form, with what is needed to read a value
// that a model wrote for it.
type node struct {
	Type        string   `json:"type,omitempty"`
	Description string   `json:"description,omitempty"`
	Enum        []string `json:"enum,omitempty"`
	Properties  members  `json:"properties,omitempty"`
	Required    []string `json:"required,omitempty"`
	Items       *node    `json:"items,omitempty"`
	AnyOf       []*node  `json:"anyOf,omitempty"`

	text     textOf // for a string with JSON text: of which values
	nullable bool   // whether the author's schema accepts null
	closed   bool   // of an object: the author's schema has no other properties
	props    map[string]*node
}

// textOf says which values a string with JSON text may have. It is empty for
// other strings.
type textOf string

const (
	textOfObject textOf = "object"
	textOfArray  textOf = "array"
	textOfAny    textOf = "any"
)

// takes reports whether v is one of these values.
func (t textOf) takes(v any) bool {
	switch v.(type) {
	case map[string]any:
		return t != textOfArray
	case []any:
		return t != textOfObject
	}
	return t == textOfAny
}

// read turns a value that a model wrote for n into one for the author's schema,
// and reports whether they differ. It changes objects and arrays in place. It
// leaves a value that does not fit as it is, since the check will find it.
func (n *node) read(v any) (any, bool) {
	switch v := v.(type) {
	case string:
		return n.readText(v)
	case map[string]any:
		return v, n.readObject(v)
	case []any:
		return v, n.readArray(v)
	case json.Number:
		return n.readNumber(v)
	}
	return v, false
}

// readNumber writes a whole number without a fraction. The number 5.0 fits a
// schema of integers, and Gemini writes integers like that, but encoding/json
// does not decode it into an integer.
func (n *node) readNumber(v json.Number) (any, bool) {
	const exact = 1 << 53 // beyond it a float64 may stand for several integers
	if len(n.branches("integer")) == 0 || !strings.ContainsAny(v.String(), ".eE") {
		return v, false
	}
	f, err := v.Float64()
	if err != nil || f != math.Trunc(f) || math.Abs(f) >= exact {
		return v, false
	}
	return json.Number(strconv.FormatInt(int64(f), 10)), true
}

func (n *node) readText(s string) (any, bool) {
	for _, branch := range n.branches("string") {
		var v any
		if branch.text != "" && decodeAll(s, &v) == nil && branch.text.takes(v) {
			return v, true
		}
	}
	return s, false
}

func (n *node) readObject(v map[string]any) bool {
	branches := n.branches("object")
	at := slices.IndexFunc(branches, func(b *node) bool { return len(branches) == 1 || b.mayBe(v) })
	if at < 0 {
		return false // the check will say what is wrong with it
	}
	n, changed := branches[at], false
	for name, p := range n.props {
		value, given := v[name]
		switch {
		case !given:
		case value == nil && !p.nullable && !slices.Contains(n.Required, name):
			delete(v, name)
			changed = true
		default:
			read, differs := p.read(value)
			v[name], changed = read, changed || differs
		}
	}
	return changed
}

// mayBe reports whether an object has all properties that n requires, none that
// it does not name, and for each enum one of its strings.
func (n *node) mayBe(v map[string]any) bool {
	for name, value := range v {
		p := n.props[name]
		if p == nil {
			return false
		}
		if word, ok := value.(string); ok && len(p.Enum) > 0 && !slices.Contains(p.Enum, word) {
			return false
		}
	}
	return !slices.ContainsFunc(n.Required, func(name string) bool { _, given := v[name]; return !given })
}

func (n *node) readArray(v []any) bool {
	branches := n.branches("array")
	if len(branches) != 1 {
		return false
	}
	changed := false
	for i, item := range v {
		read, differs := branches[0].Items.read(item)
		v[i], changed = read, changed || differs
	}
	return changed
}

// branches returns the schemas of a type that n allows: n itself, or those in its
// anyOf.
func (n *node) branches(kind string) []*node {
	var found []*node
	for _, b := range append([]*node{n}, n.AnyOf...) {
		if b.Type == kind {
			found = append(found, b)
		}
	}
	return found
}

// member is a property of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// members are the properties of a JSON object, in order.
type members []member

// MarshalJSON writes the properties in order.
func (m members) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, p := range m {
		name, err := json.Marshal(p.name)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), ':'), p.value...)
	}
	return append(out, '}'), nil
}

// UnmarshalJSON keeps the order of the properties. Of two with the same name, the
// later one counts.
func (m *members) UnmarshalJSON(data []byte) error {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(data, &values); err != nil {
		return err
	}
	names, err := namesOf(data)
	if err != nil {
		return err
	}
	*m = nil
	for _, name := range names {
		*m = append(*m, member{name, values[name]})
	}
	return nil
}

// get returns the value of a property, or nil if there is none.
func (m members) get(name string) json.RawMessage {
	i := slices.IndexFunc(m, func(p member) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return m[i].value
}
