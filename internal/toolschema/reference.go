package toolschema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// follow returns what a reference within the document refers to, and records the
// reference as open.
func (d *deriver) follow(ref string) (json.RawMessage, error) {
	if slices.Contains(d.open[d.here:], ref) {
		return nil, fmt.Errorf("%s refers to itself only", ref)
	}
	within := 0
	for _, open := range d.open {
		if open == ref {
			within++
		}
	}
	if within > d.again {
		return nil, errSame
	}
	target, err := d.target(ref)
	if err == nil {
		d.open = append(slices.Clip(d.open), ref)
	}
	return target, err
}

// target returns what a reference within the document refers to.
func (d *deriver) target(ref string) (json.RawMessage, error) {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok || pointer != "" && pointer[0] != '/' {
		return nil, fmt.Errorf("the reference %q does not begin with #/", ref)
	}
	target, err := lookup(d.document, pointer)
	if err != nil {
		return nil, fmt.Errorf("the reference %q: %w", ref, err)
	}
	return target, nil
}

// sameAgain makes the portable form of a schema inside itself, which no provider
// can be told of at any depth: a string with JSON text.
func (d *deriver) sameAgain(raw json.RawMessage) *node {
	n := &node{Type: "string", text: textOfAny, nullable: true}
	what := "JSON text of a value"
	if k, err := parseKeywords(raw); err == nil {
		if target, err := d.target(k.Ref); err == nil {
			k, err = parseKeywords(target)
			kinds, nullable := k.kinds()
			switch {
			case err != nil || len(kinds) != 1:
			case kinds[0] == "object":
				n.text, n.nullable, what = textOfObject, nullable, "JSON text of an object"
			case kinds[0] == "array":
				n.text, n.nullable, what = textOfArray, nullable, "JSON text of an array"
			}
		}
	}
	n.Description = what + " that fits the same schema as the one that it is in"
	return n
}
