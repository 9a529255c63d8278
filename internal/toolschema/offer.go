package toolschema

import (
	"encoding/json"
	"fmt"
	"slices"
)

// Offered returns the schema as it is shown to a model that may give a property,
// a string, only some values. Without values the property, which must be
// optional, is left out. What is accepted stays the same, so that the tool itself
// can say what is wrong with another value.
func (s *Schema) Offered(property string, values []string) (*Schema, error) {
	var root, properties members
	if err := json.Unmarshal(s.author, &root); err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	if err := json.Unmarshal(root.get("properties"), &properties); err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	properties, err := properties.narrowed(property, values)
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(properties)
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	author, err := json.Marshal(root.with("properties", encoded))
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	shown, err := ParseUnchecked(author)
	if err != nil {
		return nil, err
	}
	offered := *s
	offered.author, offered.wire, offered.shown = shown.author, shown.wire, shown.root
	return &offered, nil
}

// narrowed returns the properties with one that has only the given values, or
// without it if there are none.
func (m members) narrowed(property string, values []string) (members, error) {
	if len(values) == 0 {
		return slices.DeleteFunc(slices.Clone(m), func(p member) bool { return p.name == property }), nil
	}
	var of members
	if err := json.Unmarshal(m.get(property), &of); err != nil {
		return nil, at(property, err)
	}
	list, err := json.Marshal(values)
	if err != nil {
		return nil, at(property, err)
	}
	if list, err = json.Marshal(of.with("enum", list)); err != nil {
		return nil, at(property, err)
	}
	return m.with(property, list), nil
}

// with returns the members with a value for a name, in its place if it is there
// already.
func (m members) with(name string, value json.RawMessage) members {
	m = slices.Clone(m)
	if i := slices.IndexFunc(m, func(p member) bool { return p.name == name }); i >= 0 {
		m[i].value = value
		return m
	}
	return append(m, member{name, value})
}
