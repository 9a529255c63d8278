package toolschema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/x/pygent/internal/jsonobj"
)

// maxDescribed is the longest value of a keyword that a description repeats, in
// bytes. For a longer one it has only the keyword's name.
const maxDescribed = 200

// describe sets the description: the author's own, and the keywords that the
// portable form does not have.
func (n *node) describe(k keywords) {
	n.Description = k.words()
}

// describeNullable adds to the description that the value may be null. Otherwise
// a model that has to give a value would make one up. A list does not need it,
// since it can be empty.
func (n *node) describeNullable() {
	for _, b := range append([]*node{n}, n.AnyOf...) {
		if b.Type != "" {
			b.Description = strings.TrimPrefix(b.Description+"; may be null", "; ")
		}
	}
}

// words returns the description of a schema, with its keywords that go into it.
func (k keywords) words() string {
	var words []string
	for _, name := range append([]string{"one of", "anyOf", "oneOf"}, describedKeywords...) {
		if value, ok := k.described[name]; ok {
			words = append(words, describeOne(name, compact(value)))
		}
	}
	switch {
	case len(words) == 0:
		return k.Description
	case k.Description == "":
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s (%s)", k.Description, strings.Join(words, ", "))
}

func describeOne(name string, value json.RawMessage) string {
	var word string
	switch {
	case len(value) > maxDescribed || strings.Contains(string(value), `"$ref"`):
		return name + " …"
	case json.Unmarshal(value, &word) == nil && word != "":
		return name + " " + word
	}
	return name + " " + string(value)
}

// addDescribed adds a keyword that the portable form does not have, with its
// values, to those for the description.
func (k *keywords) addDescribed(name string, values []json.RawMessage) error {
	if len(values) == 0 {
		return nil
	}
	encoded, err := jsonobj.Encode(values)
	if err != nil {
		return err
	}
	k.described = maps.Clone(k.described)
	if k.described == nil {
		k.described = map[string]json.RawMessage{}
	}
	k.described[name] = encoded
	return nil
}

// about has the type that a keyword applies to. Those that are missing here
// apply to all types.
var about = map[string]string{
	"minimum": "number", "maximum": "number", "exclusiveMinimum": "number", "exclusiveMaximum": "number", "multipleOf": "number",
	"minLength": "string", "maxLength": "string", "pattern": "string", "format": "string", "contentEncoding": "string", "contentMediaType": "string",
	"minItems": "array", "maxItems": "array", "uniqueItems": "array", "contains": "array", "minContains": "array", "maxContains": "array", "additionalItems": "array", "unevaluatedItems": "array",
	"minProperties": "object", "maxProperties": "object", "propertyNames": "object", "patternProperties": "object", "additionalProperties": "object", "unevaluatedProperties": "object",
	"dependentRequired": "object", "dependentSchemas": "object", "dependencies": "object",
}

// describedOf returns the keywords for the description that apply to a type.
func (k keywords) describedOf(kind string) map[string]json.RawMessage {
	if kind == "integer" {
		kind = "number"
	}
	described := maps.Clone(k.described)
	maps.DeleteFunc(described, func(name string, _ json.RawMessage) bool { return about[name] != "" && about[name] != kind })
	return described
}

// freeForm makes the portable form of values whose shape it cannot express: a
// string with their JSON text. raw is their schema, or nil if the keywords say
// it all.
func (d *deriver) freeForm(k keywords, of textOf, path string, raw json.RawMessage) (*node, error) {
	n := &node{Type: "string", text: of, nullable: of == textOfAny}
	said := k
	said.described = map[string]json.RawMessage{}
	if value, ok := k.described["default"]; ok {
		said.described["default"] = value
	}
	what := "JSON text of an " + string(of)
	if of == textOfAny {
		what = "JSON text of any value"
		maps.Copy(said.described, k.described)
	} else if raw != nil {
		fits, err := d.inlined(raw)
		if err != nil {
			return nil, at(path, err)
		}
		if fits != "" {
			what += " that fits " + fits
		}
	}
	n.Description = strings.TrimPrefix(said.words()+": "+what, ": ")
	return n, nil
}

// inlined returns an author's schema for a description, with its references
// inlined and without what the description has already. It is empty for a schema
// that has only a type.
func (d *deriver) inlined(raw json.RawMessage) (string, error) {
	defer d.enter()()
	d.open, d.here = nil, 0 // the references of raw itself have to be followed again
	v, err := d.inline(raw, 0)
	if err != nil {
		return "", err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return "", nil
	}
	for _, name := range []string{"description", "title", "default", "examples", "$defs", "definitions", "$schema"} {
		delete(object, name)
	}
	if len(object) == 0 || len(object) == 1 && object["type"] != nil {
		return "", nil
	}
	text, err := jsonobj.Encode(object)
	return string(text), err
}

func (d *deriver) inline(raw json.RawMessage, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	if d.nodes++; d.nodes > maxNodes {
		return nil, errTooMany
	}
	var object map[string]json.RawMessage
	var list []json.RawMessage
	switch {
	case len(raw) > 0 && raw[0] == '{' && json.Unmarshal(raw, &object) == nil:
		return d.inlineObject(object, depth)
	case len(raw) > 0 && raw[0] == '[' && json.Unmarshal(raw, &list) == nil:
		values := make([]any, len(list))
		for i, item := range list {
			var err error
			if values[i], err = d.inline(item, depth+1); err != nil {
				return nil, err
			}
		}
		return values, nil
	}
	return raw, nil
}

func (d *deriver) inlineObject(object map[string]json.RawMessage, depth int) (any, error) {
	open := d.open
	defer func() { d.open = open }()
	var ref string
	values := map[string]any{}
	if json.Unmarshal(object["$ref"], &ref) == nil && ref != "" {
		if slices.Contains(d.open, ref) {
			return map[string]any{"description": "another of the same"}, nil
		}
		target, err := d.follow(ref)
		if err != nil {
			return nil, err
		}
		v, err := d.inline(target, depth+1)
		if err != nil {
			return nil, err
		}
		if inner, ok := v.(map[string]any); ok {
			values = inner
		}
		delete(object, "$ref")
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		v, err := d.inline(object[name], depth+1)
		if err != nil {
			return nil, err
		}
		values[name] = v
	}
	return values, nil
}
