package toolschema

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/jsonobj"
)

// Bounds of the errors for models.
const (
	maxProblems = 8    // that an error lists
	shownValue  = 40   // bytes of a wrong value
	shownName   = 64   // bytes of an unknown name
	maxShape    = 1000 // bytes of the shape of the arguments
)

// misfit is the error of the checker for arguments that do not fit.
type misfit struct {
	reason   string
	expected string
}

// Error implements error.
func (m *misfit) Error() string {
	return fmt.Sprintf("the arguments do not fit (%s); expected %s", m.reason, m.expected)
}

// unfit returns the error for arguments that cannot be read: what is wrong, and
// what is expected.
func (s *Schema) unfit(problem string) error {
	return errors.New(problem + "; expected " + s.shape())
}

// shape returns the arguments in a short notation.
func (s *Schema) shape() string {
	root := cmp.Or(s.shown, s.root)
	if root == nil {
		return "{}"
	}
	var b strings.Builder
	root.shapeTo(&b, 0)
	if b.Len() > maxShape {
		return cut.Head(b.String(), maxShape) + " …"
	}
	return b.String()
}

// shapeTo writes what a value has to be, as in {cmd: string, timeout?: number}.
func (n *node) shapeTo(b *strings.Builder, depth int) {
	switch {
	case b.Len() > maxShape || depth > maxDepth:
		b.WriteString("…")
	case len(n.AnyOf) > 0:
		for i, branch := range n.AnyOf {
			if i > 0 {
				b.WriteString(" | ")
			}
			branch.shapeTo(b, depth+1)
		}
	case n.Type == "object":
		b.WriteByte('{')
		for i, p := range n.Properties {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(p.name)
			if !slices.Contains(n.Required, p.name) {
				b.WriteByte('?')
			}
			b.WriteString(": ")
			n.props[p.name].shapeTo(b, depth+1)
		}
		b.WriteByte('}')
	case n.Type == "array":
		b.WriteByte('[')
		n.Items.shapeTo(b, depth+1)
		b.WriteByte(']')
	case len(n.Enum) > 0:
		b.WriteString(oneOf(n.Enum))
	case n.text != "":
		b.WriteString("JSON text")
	default:
		b.WriteString(n.Type)
	}
}

func oneOf(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = fmt.Sprintf("%q", word)
	}
	return strings.Join(quoted, " | ")
}

// problems lists what is wrong with an object: names and types. It is empty if
// only the checker knows.
func (s *Schema) problems(given map[string]any) []string {
	if s.root == nil {
		return nil
	}
	var p problems
	p.inObject(s.root, given, "")
	if more := len(p) - maxProblems; more > 0 {
		return append(p[:maxProblems:maxProblems], fmt.Sprintf("and %d more", more))
	}
	return p
}

// problems are what is wrong with a value.
type problems []string

func (p *problems) add(format string, args ...any) {
	*p = append(*p, fmt.Sprintf(format, args...))
}

func (p *problems) inObject(n *node, given map[string]any, path string) {
	var missing, unknown []string
	for _, name := range n.Required {
		if _, ok := given[name]; !ok {
			missing = append(missing, path+name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if n.closed && n.props[name] == nil {
			unknown = append(unknown, path+cut.Head(strings.ToValidUTF8(name, "\uFFFD"), shownName))
		}
	}
	unknown = shortened(unknown)
	switch {
	case len(missing) > 0 && len(unknown) > 0:
		p.add("%s; you gave %s", areMissing(missing), strings.Join(unknown, ", "))
	case len(missing) > 0:
		p.add("%s", areMissing(missing))
	case len(unknown) == 1:
		p.add("there is no parameter %s", unknown[0])
	case len(unknown) > 1:
		p.add("there are no parameters %s", strings.Join(unknown, ", "))
	}
	for _, property := range n.Properties {
		if v, ok := given[property.name]; ok {
			p.inValue(n.props[property.name], v, path+property.name)
		}
	}
}

// shortened is a list of names of which an error shows only the first.
func shortened(names []string) []string {
	if more := len(names) - maxProblems; more > 0 {
		return append(names[:maxProblems:maxProblems], fmt.Sprintf("and %d more", more))
	}
	return names
}

func areMissing(names []string) string {
	if len(names) == 1 {
		return names[0] + " is missing"
	}
	return strings.Join(shortened(names), ", ") + " are missing"
}

func (p *problems) inValue(n *node, v any, path string) {
	switch v := v.(type) {
	case map[string]any:
		if b := n.only("object"); b != nil {
			p.inObject(b, v, path+".")
			return
		}
	case []any:
		if b := n.only("array"); b != nil {
			for i, item := range v {
				if len(*p) > maxProblems {
					return
				}
				p.inValue(b.Items, item, fmt.Sprintf("%s[%d]", path, i))
			}
			return
		}
	case nil:
		if n.nullable {
			return
		}
	case string:
		if len(n.Enum) > 0 && n.kinds()["string"] && !slices.Contains(n.Enum, v) {
			p.add("%s: expected %s, given %s", path, oneOf(shortened(n.Enum)), shown(v))
			return
		}
	}
	if n.text != "" && (n.text == textOfAny || n.text.takes(v)) || n.text == "" && n.takes(v) {
		return
	}
	var b strings.Builder
	n.shapeTo(&b, 0)
	p.add("%s: expected %s, given %s", path, cut.Head(b.String(), 4*shownValue), shown(v))
}

// shown returns a value with its type, shortened.
func shown(v any) string {
	if s, ok := v.(string); ok {
		v = cut.Head(s, shownValue)
	}
	text, err := jsonobj.Encode(v)
	if err != nil {
		return "a value that is no JSON"
	}
	kind := kindOf(json.RawMessage(text))
	if kind == "null" {
		return kind
	}
	return kind + " " + cut.Head(string(text), 2*shownValue)
}
