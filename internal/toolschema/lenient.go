package toolschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/x/pygent/internal/jsonobj"
)

// Dialect puts arguments that are written for another tool, or in other words,
// into those of a schema. It changes given, the arguments, in place, and never
// replaces a property that the schema has. has reports whether the schema has a
// property. An error is for the model.
type Dialect func(given map[string]any, has func(name string) bool) error

// Read is Arguments for what models write. Arguments that fit are taken as
// Arguments takes them. Those that do not are repaired where they can only be
// meant in one way:
//
//   - JSON that is almost right, as [jsonobj.Repair] says, and JSON inside JSON text or
//     inside an object such as {"arguments": …};
//   - a single value that is called "input" or the like, of a tool that needs one;
//   - names of properties that differ from the schema's only in case, hyphens and
//     underscores, and those that other knows, which may be nil;
//   - numbers and booleans in strings, numbers where a string is wanted, a single
//     value where a list is, lists and objects in JSON text, and empty strings
//     for optional properties that are no strings.
//
// A value that fits its own schema stays as it is. The error lists everything
// that is wrong, and then the shape of the arguments.
func (s *Schema) Read(text string, other Dialect) (json.RawMessage, error) {
	if args, err := s.Arguments(text); err == nil {
		return args, nil
	}
	return s.ReadAs(text, other)
}

// ReadAs is Read for arguments that were written for another tool: other gets
// them even if they fit.
func (s *Schema) ReadAs(text string, other Dialect) (json.RawMessage, error) {
	if jsonobj.Values([]byte(text)) > maxValues {
		return nil, s.unfit(fmt.Sprintf("the arguments have more than %d values", maxValues))
	}
	object, unclosed, err := jsonobj.RepairObject(text)
	if err != nil {
		return nil, s.unfit("the arguments are not a JSON object: " + err.Error())
	}
	given, err := s.unwrapped(object)
	if err != nil {
		return nil, err
	}
	if other != nil {
		if err := other(given, s.has); err != nil {
			return nil, err
		}
	}
	s.nameOnly(given)
	if s.root == nil {
		maps.DeleteFunc(given, func(_ string, v any) bool { return v == nil || v == "" })
	} else {
		s.root.fixObject(given, 0)
		s.root.readObject(given)
	}
	if unclosed && (!s.hasAll(given) || endsInText(text)) {
		return nil, s.unfit("the arguments are not a JSON object: the last } is missing, so they may be cut off; write them again, in smaller pieces if they are long")
	}
	encoded, err := jsonobj.Encode(given)
	if err != nil {
		return nil, err
	}
	args, err := s.Arguments(string(encoded))
	if err == nil {
		return args, nil
	}
	var wrong *misfit
	if problems := s.problems(given); len(problems) > 0 {
		return nil, s.unfit(strings.Join(problems, "; "))
	} else if errors.As(err, &wrong) {
		return nil, s.unfit(wrong.reason)
	}
	return nil, err
}

// wrappers are the names under which models put all arguments into one.
var wrappers = []string{"arguments", "args", "input", "parameters", "params", "kwargs", "tool_input", "properties"}

// carriers are names under which some servers pass the arguments on. They are also those of
// what many tools take, so the object must have a property of this one.
var carriers = []string{"data", "text"}

// nameless are names for the argument of a tool that takes one.
var nameless = []string{"input", "__arg1", "arg", "argument"}

// nameOnly gives the only argument, under a name that says nothing, that of the only
// property that is required, or that there is.
func (s *Schema) nameOnly(given map[string]any) {
	if s.root == nil || len(given) != 1 {
		return
	}
	names := s.root.Required
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(s.root.props))
	}
	for _, name := range nameless {
		v, ok := given[name]
		switch v.(type) {
		case string, json.Number, bool:
		default:
			continue
		}
		if ok && len(names) == 1 && !s.has(name) && s.has(names[0]) {
			delete(given, name)
			given[names[0]] = v
		}
	}
}

// unwrapped decodes arguments, and takes them out of an object around them, such
// as {"arguments": {…}} or {"name": "bash", "arguments": {…}}.
func (s *Schema) unwrapped(object string) (map[string]any, error) {
	var given map[string]any
	if err := decodeAll(object, &given); err != nil {
		return nil, s.unfit("the arguments are not a JSON object: " + err.Error())
	}
	for _, name := range slices.Concat(wrappers, carriers) {
		inner, ok := given[name]
		if !ok || s.has(name) {
			continue
		}
		for other, value := range given {
			_, word := value.(string)
			if other != name && !(word && !s.has(other) && slices.Contains([]string{"name", "type", "id", "tool", "tool_name", "function"}, other)) {
				return given, nil
			}
		}
		if text, ok := inner.(string); ok {
			object, unclosed, err := jsonobj.RepairObject(text)
			if err != nil || unclosed || decodeAll(object, &inner) != nil {
				return given, nil
			}
		}
		if inner, ok := inner.(map[string]any); ok && (!slices.Contains(carriers, name) || s.hasSome(inner)) {
			return inner, nil
		}
		return given, nil
	}
	return given, nil
}

func (s *Schema) hasSome(given map[string]any) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(given)), s.has)
}

// has reports whether the schema has a property.
func (s *Schema) has(name string) bool { return s.root != nil && s.root.props[name] != nil }

// endsInText reports whether the last value of an object without its last brace is
// a string. Its end may be a quote within it that is not escaped.
func endsInText(text string) bool {
	return strings.HasSuffix(strings.TrimRight(text, " \t\r\n`"), `"`) || strings.HasSuffix(strings.TrimRight(text, " \t\r\n`"), "'")
}

// hasAll reports whether all properties of a schema that has no others are given,
// so that nothing can be missing after them.
func (s *Schema) hasAll(given map[string]any) bool {
	if s.root == nil || !s.root.closed {
		return false
	}
	for name := range s.root.props {
		if _, ok := given[name]; !ok {
			return false
		}
	}
	return true
}

// fix returns a value as the schema wants it, if there is only one way to read
// it so. Other values are returned as they are.
func (n *node) fix(v any, depth int) any {
	if depth > maxDepth {
		return v
	}
	kinds := n.kinds()
	switch v := v.(type) {
	case map[string]any:
		if b := n.only("object"); b != nil {
			b.fixObject(v, depth)
			return v
		}
	case []any:
		if b := n.only("array"); b != nil {
			for i := range v {
				v[i] = b.Items.fix(v[i], depth+1)
			}
			return v
		}
	case string:
		if !kinds["string"] || n.text != "" {
			return n.fixText(v, depth)
		}
		return n.word(v)
	case json.Number, bool:
		if len(kinds) == 1 && kinds["string"] && n.text == "" && len(n.Enum) == 0 {
			return fmt.Sprint(v)
		}
	}
	if b := n.only("array"); b != nil && v != nil && len(kinds) == 1 && b.Items.takes(v) {
		return []any{b.Items.fix(v, depth+1)}
	}
	return v
}

// word returns the word of an enum that differs from s only in case.
func (n *node) word(s string) any {
	if len(n.Enum) == 0 || slices.Contains(n.Enum, s) {
		return s
	}
	found := ""
	for _, word := range n.Enum {
		if strings.EqualFold(word, strings.TrimSpace(s)) {
			if found != "" {
				return s
			}
			found = word
		}
	}
	if found == "" {
		return s
	}
	return found
}

// fixText reads a string where the schema wants another type, or JSON text.
func (n *node) fixText(s string, depth int) any {
	trimmed := strings.TrimSpace(s)
	if fixed, unclosed, err := jsonobj.Repair(trimmed); err == nil && !unclosed {
		var v any
		if decodeAll(fixed, &v) == nil && n.reads(v) {
			return n.fix(v, depth+1)
		}
	}
	if n.text != "" {
		return s
	}
	if b := n.only("array"); b != nil && len(n.kinds()) == 1 && trimmed != "" && b.Items.takes(s) {
		return []any{s}
	}
	return s
}

// reads reports whether the value of a JSON text is one that n wants.
func (n *node) reads(v any) bool {
	if n.text != "" {
		return n.text.takes(v)
	}
	if _, text := v.(string); text {
		return false
	}
	return n.takes(v)
}

// takes reports whether a value is of a type that n allows.
func (n *node) takes(v any) bool {
	kinds := n.kinds()
	switch v := v.(type) {
	case map[string]any:
		return kinds["object"]
	case []any:
		return kinds["array"]
	case string:
		return kinds["string"]
	case bool:
		return kinds["boolean"]
	case json.Number:
		if kinds["number"] {
			return true
		}
		_, whole := n.readNumber(v)
		return kinds["integer"] && (whole || !strings.ContainsAny(v.String(), ".eE"))
	}
	return false
}

// kinds returns the types that n allows.
func (n *node) kinds() map[string]bool {
	kinds := map[string]bool{}
	for _, b := range append([]*node{n}, n.AnyOf...) {
		if b.Type != "" {
			kinds[b.Type] = true
		}
	}
	return kinds
}

// only returns the one schema of a type that n allows, or nil.
func (n *node) only(kind string) *node {
	if found := n.branches(kind); len(found) == 1 {
		return found[0]
	}
	return nil
}

// fixObject repairs the names and the values of an object.
func (n *node) fixObject(given map[string]any, depth int) {
	n.fixNames(given)
	if n.closed {
		maps.DeleteFunc(given, func(name string, v any) bool { return v == nil && n.props[name] == nil })
	}
	for name, p := range n.props {
		v, ok := given[name]
		if !ok {
			continue
		}
		if n.meansNothing(name, p, v) {
			delete(given, name)
			continue
		}
		given[name] = p.fix(v, depth)
	}
}

// meansNothing reports whether a value for an optional property that is no string
// stands for none.
func (n *node) meansNothing(name string, p *node, v any) bool {
	s, ok := v.(string)
	if !ok || p.kinds()["string"] || slices.Contains(n.Required, name) {
		return false
	}
	return slices.Contains([]string{"", "null", "none", "None", "undefined"}, strings.TrimSpace(s))
}

// fixNames gives properties that the schema does not have the names of those that
// it has and that are missing, where they are spelled alike. An object that may
// have any names gets only those that it must have.
func (n *node) fixNames(given map[string]any) {
	like := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if n.props[name] == nil {
			like[fold(name)] = append(like[fold(name)], name)
		}
	}
	if len(like) == 0 {
		return
	}
	folded := map[string]int{}
	for name := range n.props {
		folded[fold(name)]++
	}
	for name := range n.props {
		names := like[fold(name)]
		_, ok := given[name]
		if ok || len(names) != 1 || folded[fold(name)] != 1 || !n.closed && !slices.Contains(n.Required, name) {
			continue
		}
		given[name] = given[names[0]]
		delete(given, names[0])
	}
}

// fold returns a name without what models spell differently.
func fold(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(name))
}
