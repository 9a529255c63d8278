package toolschema

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// errTextOrString is the error for a union of a string with a value that the
// portable form has as JSON text. To a provider both would be strings, but one
// is to be parsed and the other not.
var errTextOrString = errors.New("a string and a free-form object or array cannot be alternatives: providers take the latter as text only, and the two could not be told apart")

// union makes the portable form of anyOf or oneOf.
func (d *deriver) union(k keywords, raw json.RawMessage, path string, depth int) (*node, error) {
	if len(k.AnyOf) > 0 && len(k.OneOf) > 0 {
		return nil, at(path, errors.New("anyOf and oneOf stand beside each other"))
	}
	name, alternatives := "anyOf", k.AnyOf
	if len(k.OneOf) > 0 {
		name, alternatives = "oneOf", k.OneOf
	}
	base := k
	base.AnyOf, base.OneOf = nil, nil
	if !base.onlyNarrows() {
		narrow, err := d.onlyNarrow(alternatives, path)
		if err != nil {
			return nil, err
		}
		if narrow {
			if err := base.addDescribed(name, alternatives); err != nil {
				return nil, at(path, err)
			}
			return d.shape(base, raw, path, depth)
		}
	}
	return d.anyOf(base, alternatives, path, depth)
}

// anyOf makes the portable form of alternatives. base has the keywords beside
// the union, which apply to each of them.
func (d *deriver) anyOf(base keywords, alternatives []json.RawMessage, path string, depth int) (*node, error) {
	description := base.Description
	base.Description = ""
	var branches []*node
	nullable := false
	for _, alternative := range alternatives {
		b, err := d.alternative(base, alternative, path, depth)
		switch {
		case errors.Is(err, errNothing):
			nullable = true
		case err != nil:
			return nil, err
		default:
			nullable = nullable || b.nullable
			branches = append(branches, b)
		}
	}
	n, err := join(branches)
	if err != nil {
		return nil, at(path, err)
	}
	n.prepend(description)
	n.nullable = n.nullable || nullable
	return n, nil
}

// alternative makes the portable form of one alternative of a union. base has
// the keywords beside the union.
func (d *deriver) alternative(base keywords, raw json.RawMessage, path string, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, at(path, errors.New("the alternatives are nested too deeply"))
	}
	defer d.enter()()
	k, err := d.merged(raw, path)
	if errors.Is(err, errSame) {
		return d.sameAgain(raw), nil
	}
	if err != nil {
		return nil, err
	}
	if k, err = k.and(base); err != nil {
		return nil, at(path, err)
	}
	if !base.onlyNarrows() {
		raw = nil // it lacks the keywords of base
	}
	return d.shape(k, raw, path, depth+1)
}

// choice makes the portable form of a schema that allows several types.
func (d *deriver) choice(k keywords, kinds []string, raw json.RawMessage, path string, depth int) (*node, error) {
	one := k
	one.Description = ""
	var branches []*node
	for _, kind := range kinds {
		one.described = k.describedOf(kind)
		b, err := d.ofType(one, kind, raw, path, depth)
		if errors.Is(err, errNothing) {
			continue
		}
		if err != nil {
			return nil, err
		}
		branches = append(branches, b)
	}
	n, err := join(branches)
	if err != nil {
		return nil, at(path, err)
	}
	n.prepend(k.Description)
	return n, nil
}

// join joins alternatives into one node.
func join(branches []*node) (*node, error) {
	var flat []*node
	for _, b := range branches {
		if len(b.AnyOf) > 0 {
			flat = append(flat, b.AnyOf...)
		} else {
			flat = append(flat, b)
		}
	}
	for _, b := range flat {
		if b.text == textOfAny {
			return b, nil
		}
	}
	flat, err := joinStrings(flat)
	if err != nil {
		return nil, err
	}
	flat = unique(flat)
	switch len(flat) {
	case 0:
		return nil, errNothing
	case 1:
		return flat[0], nil
	}
	return &node{AnyOf: flat}, nil
}

// joinStrings joins alternatives that are strings and that a value could not
// distinguish: all enums without a description into one, and all JSON texts.
func joinStrings(branches []*node) ([]*node, error) {
	var joined []*node
	var text, enum *node
	plain := false
	for _, b := range branches {
		switch {
		case b.text != "" && text == nil:
			text = b
			joined = append(joined, b)
		case b.text != "":
			text.Description += "; or " + b.Description
			text.text = textOfAny
		case b.Type == "string" && len(b.Enum) > 0 && enum != nil && b.Description == "" && enum.Description == "":
			enum.Enum = append(enum.Enum, slices.DeleteFunc(slices.Clone(b.Enum), func(s string) bool { return slices.Contains(enum.Enum, s) })...)
		default:
			if b.Type == "string" && len(b.Enum) > 0 {
				enum = b
			}
			plain = plain || b.Type == "string"
			joined = append(joined, b)
		}
	}
	if text != nil && plain {
		return nil, errTextOrString
	}
	return joined, nil
}

// unique drops alternatives that are equal to an earlier one.
func unique(branches []*node) []*node {
	var seen []string
	return slices.DeleteFunc(branches, func(n *node) bool {
		text, err := json.Marshal(n)
		if err == nil && slices.Contains(seen, string(text)) {
			return true
		}
		seen = append(seen, string(text))
		return false
	})
}

// prepend puts the author's description of a union before the descriptions of
// its alternatives, since anyOf can have no description beside it.
func (n *node) prepend(description string) {
	if description == "" {
		return
	}
	for _, b := range append([]*node{n}, n.AnyOf...) {
		if b.Type != "" {
			b.Description = strings.TrimSuffix(description+"; "+b.Description, "; ")
		}
	}
}
