package toolschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// keywords is a schema as its author wrote it.
type keywords struct {
	Ref         string            `json:"$ref"`
	Type        types             `json:"type"`
	Description string            `json:"description"`
	Properties  members           `json:"properties"`
	Required    []string          `json:"required"`
	Items       json.RawMessage   `json:"items"`
	PrefixItems []json.RawMessage `json:"prefixItems"`
	Enum        []json.RawMessage `json:"enum"`
	Const       json.RawMessage   `json:"const"`
	AllOf       []json.RawMessage `json:"allOf"`
	AnyOf       []json.RawMessage `json:"anyOf"`
	OneOf       []json.RawMessage `json:"oneOf"`

	// described are the keywords that the portable form does not have. They go
	// into the description.
	described map[string]json.RawMessage
	closed    bool // additionalProperties is false
}

// describedKeywords are the keywords that go into the description.
var describedKeywords = []string{
	"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
	"minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType",
	"minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains", "additionalItems", "unevaluatedItems",
	"minProperties", "maxProperties", "propertyNames", "patternProperties", "additionalProperties", "unevaluatedProperties",
	"dependentRequired", "dependentSchemas", "dependencies",
	"not", "if", "then", "else", "default",
}

// types are the types that a schema allows.
type types []string

// UnmarshalJSON reads a name or a list of names.
func (t *types) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]string)(t))
	}
	*t = types{""}
	return json.Unmarshal(data, &(*t)[0])
}

// parseKeywords reads a schema that is no boolean.
func parseKeywords(raw json.RawMessage) (keywords, error) {
	var k keywords
	if err := json.Unmarshal(raw, &k); err != nil {
		return k, err
	}
	for _, name := range k.Type {
		if name != "null" && !slices.Contains(kindNames, name) {
			return k, fmt.Errorf("unknown type %q; want %s or null", name, strings.Join(kindNames, ", "))
		}
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &all); err != nil {
		return k, err
	}
	k.described = map[string]json.RawMessage{}
	for _, name := range describedKeywords {
		if value, ok := all[name]; ok {
			k.described[name] = value
		}
	}
	if string(k.described["default"]) == "null" {
		delete(k.described, "default") // it only means that the property may be left out
	}
	// That an object has no other properties is the usual case, and need not be
	// described.
	if boolean(k.described["additionalProperties"]) == "false" {
		delete(k.described, "additionalProperties")
		k.closed = k.described["patternProperties"] == nil
	}
	if len(k.Items) > 0 && k.Items[0] == '[' { // a tuple in draft-07
		if err := json.Unmarshal(k.Items, &k.PrefixItems); err != nil {
			return k, err
		}
		k.Items = k.described["additionalItems"]
	}
	return k, nil
}

// boolean returns "true" or "false" for a schema that is a boolean, and "" for
// another one.
func boolean(raw json.RawMessage) string {
	if s := string(bytes.TrimSpace(raw)); s == "true" || s == "false" {
		return s
	}
	return ""
}

// onlyNarrows reports whether a schema, such as an alternative of a union, names
// no type and no shape, and only narrows another one.
func (k keywords) onlyNarrows() bool {
	return len(k.Type)+len(k.Properties)+len(k.Items)+len(k.PrefixItems)+len(k.Enum)+len(k.Const)+len(k.AnyOf)+len(k.OneOf) == 0
}

// open reports whether the schema says that an object may have properties
// besides those that it names.
func (k keywords) open() bool {
	return k.described["additionalProperties"] != nil || k.described["patternProperties"] != nil
}

// and returns the schema of the values that fit both schemas.
func (k keywords) and(other keywords) (keywords, error) {
	merged := k
	merged.described = maps.Clone(k.described)
	merged.closed = k.closed || other.closed
	for name, value := range other.described {
		if old, ok := merged.described[name]; ok && !sameJSON(old, value) {
			return k, fmt.Errorf("two different values of %s", name)
		}
		merged.described[name] = value
	}
	if merged.Description == "" {
		merged.Description = other.Description
	}
	switch {
	case len(merged.Type) == 0:
		merged.Type = other.Type
	case len(other.Type) > 0:
		merged.Type = slices.DeleteFunc(slices.Clone(merged.Type), func(t string) bool { return !slices.Contains(other.Type, t) })
		if len(merged.Type) == 0 {
			return k, fmt.Errorf("no type is both %s and %s", strings.Join(k.Type, " or "), strings.Join(other.Type, " or "))
		}
	}
	merged.Required = slices.Concat(merged.Required, other.Required)
	merged.Properties = slices.Clone(merged.Properties)
	for _, p := range other.Properties {
		if old := merged.Properties.get(p.name); old == nil {
			merged.Properties = append(merged.Properties, p)
		} else if !sameJSON(old, p.value) {
			return k, fmt.Errorf("two different properties %q", p.name)
		}
	}
	return merged, merged.takeOnce(other)
}

// takeOnce takes over the keywords of another schema that only one of the two
// may have.
func (k *keywords) takeOnce(other keywords) error {
	for _, one := range []struct {
		name        string
		mine, other *[]json.RawMessage
	}{
		{"enum", &k.Enum, &other.Enum},
		{"prefixItems", &k.PrefixItems, &other.PrefixItems},
		{"anyOf", &k.AnyOf, &other.AnyOf},
		{"oneOf", &k.OneOf, &other.OneOf},
	} {
		if len(*one.mine) > 0 && len(*one.other) > 0 {
			return fmt.Errorf("%s stands in two schemas that both apply", one.name)
		}
		*one.mine = slices.Concat(*one.mine, *one.other)
	}
	for _, one := range []struct {
		name        string
		mine, other *json.RawMessage
	}{
		{"items", &k.Items, &other.Items},
		{"const", &k.Const, &other.Const},
	} {
		if len(*one.mine) > 0 && len(*one.other) > 0 && !sameJSON(*one.mine, *one.other) {
			return fmt.Errorf("%s stands in two schemas that both apply", one.name)
		}
		if len(*one.mine) == 0 {
			*one.mine = *one.other
		}
	}
	return nil
}

// sameJSON reports whether two values are written alike, apart from white space.
func sameJSON(a, b json.RawMessage) bool {
	return bytes.Equal(compact(a), compact(b))
}

func compact(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}

// namesOf returns the names of an object's properties, each once, in the order
// of their first appearance.
func namesOf(object json.RawMessage) ([]string, error) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	var names []string
	seen := map[string]bool{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		if s, ok := name.(string); ok && !seen[s] {
			names, seen[s] = append(names, s), true
		}
		var skipped json.RawMessage
		if err := dec.Decode(&skipped); err != nil {
			return nil, err
		}
	}
	return names, nil
}
