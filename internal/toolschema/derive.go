package toolschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Bounds of a schema. Inlining references could make a small one very large.
const (
	maxNodes  = 2000
	maxDepth  = 32
	maxSchema = 1 << 20 // bytes of JSON
)

// jsonTypes are the types of JSON except null, which the portable form does not
// have.
var jsonTypes = []string{"object", "array", "string", "number", "boolean"}

// kindNames are the names that a schema has for them.
var kindNames = []string{"object", "array", "string", "number", "integer", "boolean"}

// propertyName matches the property names that the strictest provider accepts.
var propertyName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// errNothing is the error for a schema that nothing fits, or only null. A
// property with such a schema is left out.
var errNothing = errors.New("nothing but null can fit this schema")

// errSame is the error for a schema inside itself that is not inlined again.
var errSame = errors.New("the same schema again")

// errTooMany is the error for a schema with too many parts.
var errTooMany = fmt.Errorf("the schema has more than %d parts with its references inlined", maxNodes)

// deriver makes the portable form of one document.
type deriver struct {
	document json.RawMessage
	again    int      // how many times a schema is inlined inside itself
	open     []string // the references that are being inlined
	here     int      // how many of them were open when the present schema began
	nodes    int
}

// enter begins another schema. leave ends it, with the references that it
// opened.
func (d *deriver) enter() (leave func()) {
	open, here := d.open, d.here
	d.here = len(open)
	return func() { d.open, d.here = open, here }
}

// derive returns the portable form of a schema of type object, or nil if it has
// no properties.
func derive(author json.RawMessage) (*node, error) {
	n, err := (&deriver{document: author, again: 1}).derive(author)
	if errors.Is(err, errTooMany) {
		n, err = (&deriver{document: author}).derive(author)
	}
	return n, err
}

func (d *deriver) derive(author json.RawMessage) (*node, error) {
	k, err := d.flatten(author, "")
	if err != nil {
		return nil, err
	}
	if len(k.AnyOf)+len(k.OneOf) > 0 {
		if k, err = d.onlyNarrowed(k); err != nil {
			return nil, err
		}
	}
	switch {
	case !slices.Equal(k.Type, types{"object"}):
		return nil, errors.New("must be a schema of type object")
	case len(k.Enum)+len(k.Const) > 0:
		return nil, errors.New("enum and const cannot stand at the root")
	case len(k.Properties)+len(k.Required) == 0 && k.open():
		return nil, errors.New("an object of any names cannot stand at the root; make it a property of one")
	}
	n, err := d.object(k, "", 0)
	if err != nil || len(n.Properties) == 0 {
		return nil, err
	}
	n.describe(k)
	return n, nil
}

// onlyNarrowed moves a union at the root into the description. That is an error
// unless its alternatives only narrow the root's own schema.
func (d *deriver) onlyNarrowed(k keywords) (keywords, error) {
	for _, union := range []struct {
		name         string
		alternatives *[]json.RawMessage
	}{{"anyOf", &k.AnyOf}, {"oneOf", &k.OneOf}} {
		narrow, err := d.onlyNarrow(*union.alternatives, "")
		if err != nil {
			return k, err
		}
		if !narrow {
			return k, fmt.Errorf("%s cannot stand at the root; put the alternatives into a property", union.name)
		}
		if err := k.addDescribed(union.name, *union.alternatives); err != nil {
			return k, err
		}
		*union.alternatives = nil
	}
	return k, nil
}

// onlyNarrow reports whether none of the alternatives names a type or a shape.
func (d *deriver) onlyNarrow(alternatives []json.RawMessage, path string) (bool, error) {
	for _, alternative := range alternatives {
		k, err := d.flatten(alternative, path)
		if errors.Is(err, errSame) {
			return false, nil
		}
		if err != nil && !errors.Is(err, errNothing) {
			return false, err
		}
		if err == nil && !k.onlyNarrows() {
			return false, nil
		}
	}
	return true, nil
}

// at adds the path in the schema to an error.
func at(path string, err error) error {
	if path == "" {
		path = "the root"
	}
	return fmt.Errorf("%s: %w", path, err)
}

// flatten reads a schema with its references and its allOf resolved. It restores
// d.open.
func (d *deriver) flatten(raw json.RawMessage, path string) (keywords, error) {
	defer d.enter()()
	return d.merged(raw, path)
}

// merged is flatten, but leaves the references that it followed in d.open.
func (d *deriver) merged(raw json.RawMessage, path string) (keywords, error) {
	if d.nodes++; d.nodes > maxNodes {
		return keywords{}, at(path, errTooMany)
	}
	switch boolean(raw) {
	case "true":
		return keywords{}, nil
	case "false":
		return keywords{}, at(path, errNothing)
	}
	k, err := parseKeywords(raw)
	if err != nil {
		return k, at(path, err)
	}
	parts := k.AllOf
	k.AllOf = nil
	if k.Ref != "" {
		target, err := d.follow(k.Ref)
		if err != nil {
			return k, at(path, err)
		}
		parts = append([]json.RawMessage{target}, parts...)
	}
	for _, part := range parts {
		p, err := d.merged(part, path)
		if err != nil {
			return k, err
		}
		if k, err = k.and(p); err != nil {
			return k, at(path, err)
		}
	}
	return k, nil
}

// build makes the portable form of a schema below the root.
func (d *deriver) build(raw json.RawMessage, path string, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, at(path, fmt.Errorf("nested deeper than %d", maxDepth))
	}
	defer d.enter()()
	k, err := d.merged(raw, path)
	if errors.Is(err, errSame) {
		return d.sameAgain(raw), nil
	}
	if err != nil {
		return nil, err
	}
	return d.shape(k, raw, path, depth)
}

// shape makes the portable form of the keywords k of the schema raw.
func (d *deriver) shape(k keywords, raw json.RawMessage, path string, depth int) (*node, error) {
	if len(k.AnyOf)+len(k.OneOf) > 0 {
		return d.union(k, raw, path, depth)
	}
	kinds, nullable := k.kinds()
	var n *node
	var err error
	switch {
	case len(kinds) == 0:
		err = at(path, errNothing)
	case slices.Equal(kinds, jsonTypes):
		return d.freeForm(k, textOfAny, path, nil)
	case len(kinds) > 1:
		n, err = d.choice(k, kinds, raw, path, depth)
		nullable = nullable || n != nil && n.nullable
	default:
		n, err = d.ofType(k, kinds[0], raw, path, depth)
	}
	if err != nil {
		return nil, err
	}
	n.nullable = nullable
	return n, nil
}

func (d *deriver) ofType(k keywords, kind string, raw json.RawMessage, path string, depth int) (*node, error) {
	var n *node
	var err error
	switch kind {
	case "object":
		if len(k.Properties) == 0 && len(k.Required) == 0 {
			return d.freeForm(k, textOfObject, path, raw)
		}
		if n, err = d.object(k, path, depth); err == nil && len(n.Properties) == 0 {
			return d.freeForm(k, textOfObject, path, raw)
		}
	case "array":
		n, err = d.array(k, raw, path, depth)
	default:
		n, err = scalar(&k, kind, path)
	}
	if err != nil {
		return nil, err
	}
	if n.text == "" {
		n.describe(k)
	}
	return n, nil
}

func (d *deriver) object(k keywords, path string, depth int) (*node, error) {
	n := &node{Type: "object", props: map[string]*node{}, closed: k.closed}
	for _, name := range k.Required {
		if k.Properties.get(name) == nil {
			if len(k.Properties) > 0 && k.closed {
				return nil, at(path, fmt.Errorf("%q is required, but is none of the properties", name))
			}
			k.Properties = append(slices.Clip(k.Properties), member{name, json.RawMessage("true")})
		}
	}
	for _, p := range k.Properties {
		where := strings.TrimPrefix(path+"."+p.name, ".")
		if !propertyName.MatchString(p.name) {
			return nil, at(where, errors.New("the name of a property has 1 to 64 letters, digits, dots, _ or -"))
		}
		required := slices.Contains(k.Required, p.name)
		child, err := d.build(p.value, where, depth+1)
		if errors.Is(err, errNothing) && !required {
			continue
		}
		if err != nil {
			return nil, err
		}
		if required && child.nullable && child.text == "" && child.Type != "array" {
			child.describeNullable()
		}
		encoded, err := json.Marshal(child)
		if err != nil {
			return nil, at(where, err)
		}
		n.Properties = append(n.Properties, member{p.name, encoded})
		n.props[p.name] = child
		if required {
			n.Required = append(n.Required, p.name)
		}
	}
	return n, nil
}

func (d *deriver) array(k keywords, raw json.RawMessage, path string, depth int) (*node, error) {
	items := k.Items
	if len(k.PrefixItems) > 0 {
		for _, item := range k.PrefixItems[1:] {
			if !sameJSON(item, k.PrefixItems[0]) {
				return d.freeForm(k, textOfArray, path, raw)
			}
		}
		items = k.PrefixItems[0]
	}
	if len(items) == 0 {
		items = json.RawMessage("true")
	}
	child, err := d.build(items, path+"[]", depth+1)
	if err != nil {
		return nil, err
	}
	return &node{Type: "array", Items: child}, nil
}

// scalar makes the portable form of a string, a number or a boolean. Every
// provider accepts an enum of strings only, so other values go into the
// description.
func scalar(k *keywords, kind, path string) (*node, error) {
	values := k.values()
	var fit []json.RawMessage
	var words []string
	for _, value := range values {
		is := kindOf(value)
		if is != kind && !(is == "integer" && kind == "number") || slices.ContainsFunc(fit, func(other json.RawMessage) bool { return sameJSON(value, other) }) {
			continue
		}
		fit = append(fit, value)
		var word string
		if is == "string" && json.Unmarshal(value, &word) == nil && word != "" {
			words = append(words, word)
		}
	}
	n := &node{Type: kind}
	switch {
	case len(values) > 0 && len(fit) == 0:
		return nil, at(path, errNothing)
	case len(words) == len(fit):
		n.Enum = words
	default:
		if err := k.addDescribed("one of", fit); err != nil {
			return nil, at(path, err)
		}
	}
	return n, nil
}

// values returns the values that enum or const allow, or nil if they allow all.
func (k keywords) values() []json.RawMessage {
	if len(k.Const) > 0 {
		return []json.RawMessage{k.Const}
	}
	return k.Enum
}

// kinds returns the types except null that a schema allows, in a fixed order,
// and whether null fits. A schema that names no type allows those that its other
// keywords imply, or else all.
func (k keywords) kinds() (kinds []string, nullable bool) {
	named := k.Type
	if len(named) == 0 {
		if named = k.implied(); len(named) == 0 {
			return jsonTypes, true
		}
	}
	for _, kind := range kindNames {
		if slices.Contains(named, kind) && !(kind == "integer" && slices.Contains(named, "number")) {
			kinds = append(kinds, kind)
		}
	}
	return kinds, slices.Contains(named, "null")
}

// implied returns the types that the keywords of a schema without a type imply,
// or nil.
func (k keywords) implied() []string {
	var kinds []string
	for _, value := range k.values() {
		kinds = append(kinds, kindOf(value))
	}
	switch {
	case len(kinds) > 0:
		return kinds
	case len(k.Properties)+len(k.Required) > 0 || k.open():
		return []string{"object", "null"}
	case len(k.Items)+len(k.PrefixItems) > 0:
		return []string{"array", "null"}
	case k.described["pattern"] != nil || k.described["format"] != nil || k.described["minLength"] != nil || k.described["maxLength"] != nil:
		return []string{"string", "null"}
	case k.described["minimum"] != nil || k.described["maximum"] != nil || k.described["exclusiveMinimum"] != nil || k.described["exclusiveMaximum"] != nil || k.described["multipleOf"] != nil:
		return []string{"number", "null"}
	}
	return nil
}

// kindOf returns the JSON type of a value.
func kindOf(value json.RawMessage) string {
	var v any
	if decodeAll(string(value), &v) != nil {
		return ""
	}
	switch v := v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return "number"
		}
		return "integer"
	}
	return "null"
}
