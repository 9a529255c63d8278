package toolschema

import (
	"encoding/json"
	"slices"

	"github.com/x/pygent/internal/jsonobj"
)

// plain are the properties of a schema whose arguments can be checked while they are
// read. Most calls give nothing but strings, numbers and booleans, and the same checks
// by the library take ten times as long.
type plain struct {
	properties map[string]plainProperty
	required   uint64 // a bit for each property
}

type plainProperty struct {
	bit  uint64
	kind string // string, integer, number or boolean; empty for what only the library checks
}

// newPlain returns nil for a schema that says more than the types of its properties
// and which of them are required.
func newPlain(author json.RawMessage) *plain {
	var schema struct {
		Properties map[string]json.RawMessage
		Required   []string
	}
	keywords := []string{"$schema", "type", "title", "description", "properties", "required", "additionalProperties"}
	if !hasOnly(author, keywords) || json.Unmarshal(author, &schema) != nil || len(schema.Properties) > 64 {
		return nil
	}
	p := &plain{properties: map[string]plainProperty{}}
	for name, property := range schema.Properties {
		p.properties[name] = plainProperty{1 << len(p.properties), plainKind(property)}
	}
	for _, name := range schema.Required {
		property, ok := p.properties[name]
		if !ok {
			return nil
		}
		p.required |= property.bit
	}
	return p
}

// hasOnly reports whether an object has no other members than those named, and each
// at most once.
func hasOnly(object json.RawMessage, names []string) bool {
	if !jsonobj.BeginsObject(object) {
		return false
	}
	left := slices.Clone(names)
	for name := range jsonobj.Members(object) {
		i := slices.Index(left, string(name))
		if i < 0 {
			return false
		}
		left = slices.Delete(left, i, i+1)
	}
	return true
}

// plainKind returns the type of values that a property takes without further checks.
func plainKind(property json.RawMessage) string {
	var schema struct{ Type json.RawMessage }
	if !hasOnly(property, []string{"type", "title", "description"}) || json.Unmarshal(property, &schema) != nil {
		return ""
	}
	var kinds []string
	if json.Unmarshal(schema.Type, &kinds) != nil {
		kinds = []string{jsonobj.Text(schema.Type)}
	}
	kinds = slices.DeleteFunc(kinds, func(kind string) bool { return kind == "null" })
	if len(kinds) != 1 || !slices.Contains([]string{"string", "integer", "number", "boolean"}, kinds[0]) {
		return ""
	}
	return kinds[0]
}

// fits reports whether arguments fit the schema, and are read as they are written. If
// it reports false that is not known.
func (p *plain) fits(text []byte) bool {
	const flat = 1 // the arguments themselves
	var given uint64
	ok := jsonobj.BeginsObject(text)
	err := jsonobj.CheckMembers(text, flat, func(name []byte, value json.RawMessage) {
		property := p.properties[string(name)]
		ok = ok && property.bit != 0 && given&property.bit == 0 && isPlainly(property.kind, value)
		given |= property.bit
	})
	return ok && err == nil && given&p.required == p.required
}

// isPlainly reports whether a value is of a type, and would be in whatever way it is
// read: so many digits have a place in every number.
func isPlainly(kind string, value json.RawMessage) bool {
	const mostDigits = 15
	switch kind {
	case "string":
		return value[0] == '"'
	case "boolean":
		return value[0] == 't' || value[0] == 'f'
	case "integer", "number":
		return len(value) <= mostDigits && !slices.ContainsFunc(value, func(c byte) bool {
			return c != '-' && (c < '0' || c > '9') && (c != '.' || kind == "integer")
		})
	}
	return false
}
