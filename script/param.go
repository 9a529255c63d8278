package script

import (
	"errors"
	"fmt"
	"slices"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

// param is what a script says of a parameter of a tool, in the place of its default:
//
//	def f(ctx, n = param.int("how many", min = 1)):
type param struct {
	schema   map[string]any
	fallback starlark.Value // nil for a parameter that must be given
	types    int            // in it, and itself: one that is there twice counts twice
	frozen   bool
}

// maxTypes bounds how many types a parameter is made of.
const maxTypes = 1000

// add counts the types of one that is a part of p.
func (p *param) add(part *param) error {
	if p.types += part.types; p.types > maxTypes {
		return fmt.Errorf("a parameter of more than %d types", maxTypes)
	}
	return nil
}

// String implements [starlark.Value].
func (p *param) String() string { return fmt.Sprintf("param.%v", p.schema["type"]) }

// Type implements [starlark.Value].
func (p *param) Type() string { return "param" }

// Freeze implements [starlark.Value].
func (p *param) Freeze() {
	if p.fallback != nil && !p.frozen {
		p.frozen = true
		p.fallback.Freeze()
	}
}

// Truth implements [starlark.Value].
func (p *param) Truth() starlark.Bool { return starlark.True }

// Hash implements [starlark.Value].
func (p *param) Hash() (uint32, error) { return 0, errors.New("unhashable: param") }

// paramModule has a function for each type of parameter.
var paramModule = &starlarkstruct.Module{Name: "param", Members: starlark.StringDict{
	"string": paramOf("string", "string", stringParam),
	"int":    paramOf("int", "integer", numberParam),
	"float":  paramOf("float", "number", numberParam),
	"bool":   paramOf("bool", "boolean", nil),
	"list":   paramOf("list", "array", listParam),
	"object": paramOf("object", "object", objectParam),
}}

// paramOf makes the function for a type. more reads what only that type has.
func paramOf(name, jsonType string, more func(*param) []any) *starlark.Builtin {
	name = "param." + name
	return starlark.NewBuiltin(name, func(_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		p := &param{schema: map[string]any{"type": jsonType}, types: 1}
		var description string
		fields := []any{"description?", &description, "default?", &p.fallback}
		if more != nil && jsonType == "object" { // whose fields say more than a description
			fields = append(more(p), fields...)
		} else if more != nil {
			fields = append(fields, more(p)...)
		}
		if len(args) > 1 {
			return nil, fmt.Errorf("%s: only the first argument has no name", name)
		}
		if err := starlark.UnpackArgs(name, args, kwargs, fields...); err != nil {
			return nil, err
		}
		if description != "" {
			p.schema["description"] = description
		}
		return p, nil
	})
}

// field sets a field of the schema to what the script gives.
type field struct {
	schema map[string]any
	name   string
}

// Unpack implements [starlark.Unpacker].
func (f field) Unpack(v starlark.Value) error {
	value, err := toGo(v)
	if err == nil && value != nil {
		f.schema[f.name] = value
	}
	return err
}

func stringParam(p *param) []any {
	return []any{"choices?", choices{field{p.schema, "enum"}}, "min_length?", field{p.schema, "minLength"}, "max_length?", field{p.schema, "maxLength"}, "pattern?", field{p.schema, "pattern"}}
}

func numberParam(p *param) []any {
	return []any{"min?", field{p.schema, "minimum"}, "max?", field{p.schema, "maximum"}, "choices?", choices{field{p.schema, "enum"}}}
}

// choices are the values that a parameter may have.
type choices struct{ field }

// Unpack implements [starlark.Unpacker].
func (c choices) Unpack(v starlark.Value) error {
	if n := starlark.Len(v); n == 0 {
		return errors.New("want at least one value")
	}
	if _, isString := v.(starlark.String); isString {
		return errors.New("want a list of values")
	}
	return c.field.Unpack(v)
}

func listParam(p *param) []any {
	p.schema["items"] = map[string]any{"type": "string"}
	return []any{"of?", nested{p}, "min_items?", field{p.schema, "minItems"}, "max_items?", field{p.schema, "maxItems"}}
}

// nested is the type of a list's items.
type nested struct{ list *param }

// Unpack implements [starlark.Unpacker].
func (n nested) Unpack(v starlark.Value) error {
	of, ok := v.(*param)
	if !ok {
		return fmt.Errorf("want a type such as param.int(), got %s", v.Type())
	}
	n.list.schema["items"] = of.schema
	return n.list.add(of)
}

func objectParam(p *param) []any { return []any{"fields", objectFields{p}} }

// objectFields are the fields of an object.
type objectFields struct{ object *param }

// Unpack implements [starlark.Unpacker].
func (o objectFields) Unpack(v starlark.Value) error {
	dict, ok := v.(*starlark.Dict)
	if !ok {
		return fmt.Errorf("want a dict of types, got %s", v.Type())
	}
	properties, required := map[string]any{}, []string{}
	for _, item := range dict.Items() {
		name, ok := starlark.AsString(item[0])
		of, isParam := item[1].(*param)
		if !ok || !isParam {
			return fmt.Errorf("want a dict of names and types such as {\"n\": param.int()}, got %s: %s", item[0], item[1].Type())
		}
		if err := o.object.add(of); err != nil {
			return err
		}
		properties[name] = of.schema
		if of.fallback == nil {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	schema := o.object.schema
	schema["properties"], schema["required"], schema["additionalProperties"] = properties, required, false
	return nil
}

// paramFrom is the type that the default of a parameter has; v is nil if there is
// none.
func paramFrom(v starlark.Value) (*param, error) {
	of := func(jsonType string) (*param, error) {
		return &param{schema: map[string]any{"type": jsonType}, fallback: v}, nil
	}
	switch v := v.(type) {
	case *param:
		return v, nil
	case nil, starlark.String, starlark.NoneType:
		return of("string")
	case starlark.Bool:
		return of("boolean")
	case starlark.Int:
		return of("integer")
	case starlark.Float:
		return of("number")
	case *starlark.List, starlark.Tuple:
		p, err := of("array")
		p.schema["items"] = map[string]any{"type": "string"}
		return p, err
	}
	return nil, fmt.Errorf("a default of the type %s says no type of a parameter: use one of param.string, param.int, param.float, param.bool, param.list and param.object", v.Type())
}
