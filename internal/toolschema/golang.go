package toolschema

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// For derives the schema of the values that encoding/json decodes into a Go
// type. It is [jsonschema.For], except for types that decode themselves, that
// encoding/json treats specially, that contain themselves, or that have a method
// Enum() []T, which returns the values that there are.
func For(t reflect.Type) (json.RawMessage, error) {
	c := customTypes{schemas: map[reflect.Type]*jsonschema.Schema{}, seen: map[reflect.Type]bool{}, within: map[reflect.Type]bool{}}
	if err := c.collect(t); err != nil {
		return nil, err
	}
	schema, err := c.derive(t)
	if err != nil {
		return nil, err
	}
	return json.Marshal(schema)
}

// customTypes collects the schemas of the types within a type that the schema
// library derives none for, or another one.
type customTypes struct {
	schemas   map[reflect.Type]*jsonschema.Schema
	seen      map[reflect.Type]bool
	within    map[reflect.Type]bool // the types that are being collected
	recursive []reflect.Type        // the types that contain themselves
}

// derive derives the schema of t, with a definition of each type that contains
// itself.
func (c *customTypes) derive(t reflect.Type) (*jsonschema.Schema, error) {
	definitions := map[string]*jsonschema.Schema{}
	names := map[reflect.Type]string{}
	for i, r := range c.recursive {
		names[r] = fmt.Sprintf("%s%d", notInName.ReplaceAllString(r.Name(), "_"), i+1)
		c.schemas[r] = &jsonschema.Schema{Types: append([]string{"null"}, typesOfKind(r)...), Ref: "#/$defs/" + names[r]}
	}
	for _, r := range c.recursive {
		schema, err := c.forType(r)
		if err != nil {
			return nil, err
		}
		schema.Type, schema.Types = "", append([]string{"null"}, typesOfKind(r)...)
		definitions[names[r]] = schema
	}
	schema, err := c.forType(t)
	if err != nil {
		return nil, err
	}
	if len(definitions) > 0 {
		schema.Defs = definitions
	}
	return schema, nil
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9_]`)

func typesOfKind(t reflect.Type) []string {
	if t.Kind() == reflect.Slice || t.Kind() == reflect.Array {
		return []string{"array"}
	}
	return []string{"object"}
}

// forType derives the schema of t itself, even if t is one of the types that
// only have a reference elsewhere.
func (c *customTypes) forType(t reflect.Type) (*jsonschema.Schema, error) {
	if slices.Contains(c.recursive, t) {
		t = unnamed(t)
	}
	schema, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: c.schemas})
	if err == nil {
		allowNull(schema)
	}
	return schema, err
}

// unnamed returns a type without a name that JSON is decoded into as into t.
func unnamed(t reflect.Type) reflect.Type {
	switch t.Kind() {
	case reflect.Slice:
		return reflect.SliceOf(t.Elem())
	case reflect.Array:
		return reflect.ArrayOf(t.Len(), t.Elem())
	case reflect.Map:
		return reflect.MapOf(t.Key(), t.Elem())
	}
	var fields []reflect.StructField
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() && !f.Anonymous {
			fields = append(fields, reflect.StructField{Name: f.Name, Type: f.Type, Tag: f.Tag})
		}
	}
	return reflect.StructOf(fields)
}

// allowNull adds null to the values of an enum whose types include it.
func allowNull(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if len(s.Enum) > 0 && slices.Contains(s.Types, "null") {
		s.Enum = append(slices.Clip(s.Enum), nil)
	}
	for _, p := range s.Properties {
		allowNull(p)
	}
	allowNull(s.Items)
	allowNull(s.AdditionalProperties)
}

var (
	jsonDecoder = reflect.TypeFor[json.Unmarshaler]()
	textDecoder = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// known has the schemas of types of the standard library that decode themselves.
var known = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[time.Time]():   {Type: "string", Format: "date-time"},
	reflect.TypeFor[slog.Level]():  {Type: "string"},
	reflect.TypeFor[big.Int]():     {Type: "integer"},
	reflect.TypeFor[big.Rat]():     {Type: "string"},
	reflect.TypeFor[big.Float]():   {Type: "string"},
	reflect.TypeFor[json.Number](): {Type: "number"},
}

// anything returns the schema of a type that accepts every value. It names all
// types, because the schema library would allow only null for a pointer to a
// type without any.
func anything() *jsonschema.Schema {
	return &jsonschema.Schema{Types: []string{"null", "object", "array", "string", "number", "boolean"}}
}

func (c *customTypes) collect(t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if c.within[t] && t.Name() != "" && !slices.Contains(c.recursive, t) {
		c.recursive = append(c.recursive, t)
	}
	if c.seen[t] {
		return nil
	}
	c.seen[t] = true
	schema, err := customSchema(t)
	if schema != nil || err != nil {
		c.schemas[t] = schema
		return err
	}
	c.within[t] = true
	defer delete(c.within, t)
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		return c.collect(t.Elem())
	case reflect.Struct:
		named := map[string]string{}
		for i := range t.NumField() {
			if err := c.field(t.Field(i), named); err != nil {
				return err
			}
		}
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return fmt.Errorf("%s: JSON cannot be decoded into an interface with methods", t)
		}
	}
	return nil
}

// customSchema returns the schema of a type that encoding/json treats specially,
// or nil for others.
func customSchema(t reflect.Type) (*jsonschema.Schema, error) {
	pointer := reflect.PointerTo(t)
	switch {
	case known[t] != nil:
		return known[t].CloneSchemas(), nil
	case isEnum(t):
		return enumSchema(t)
	case pointer.Implements(jsonDecoder) && !hasFields(t):
		return anything(), nil
	case pointer.Implements(textDecoder) && !pointer.Implements(jsonDecoder):
		return &jsonschema.Schema{Type: "string"}, nil
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return &jsonschema.Schema{Types: []string{"null", "string"}, ContentEncoding: "base64"}, nil
	}
	return nil, nil
}

// isEnum reports whether a type has a method Enum() []T for itself.
func isEnum(t reflect.Type) bool {
	m, ok := reflect.PointerTo(t).MethodByName("Enum")
	return ok && m.Type.NumIn() == 1 && m.Type.NumOut() == 1 && m.Type.Out(0) == reflect.SliceOf(t)
}

// enumSchema returns the schema of a type with the method Enum.
func enumSchema(t reflect.Type) (_ *jsonschema.Schema, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the values of %s: panic: %v", t, p)
		}
	}()
	values := reflect.New(t).MethodByName("Enum").Call(nil)[0]
	s := &jsonschema.Schema{}
	for i := range values.Len() {
		encoded, err := json.Marshal(values.Index(i).Interface())
		if err != nil {
			return nil, fmt.Errorf("the values of %s: %w", t, err)
		}
		kind := kindOf(encoded)
		if s.Type != "" && kind != s.Type || kind == "object" || kind == "array" || kind == "null" {
			return nil, fmt.Errorf("the values of %s: want strings, or numbers, or booleans only", t)
		}
		s.Type, s.Enum = kind, append(s.Enum, json.RawMessage(encoded))
	}
	if len(s.Enum) == 0 {
		return nil, fmt.Errorf("the values of %s: Enum returns none", t)
	}
	return s, nil
}

// hasFields reports whether a type is a struct with exported fields. If it
// decodes itself, perhaps to set defaults, it is expected to read those fields.
func hasFields(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && slices.ContainsFunc(reflect.VisibleFields(t), reflect.StructField.IsExported)
}

// field collects from a field's type. It refuses tags that encoding/json follows
// but the derived schema would not, and names that another field of the struct has:
// named has those so far.
func (c *customTypes) field(f reflect.StructField, named map[string]string) error {
	tag := f.Tag.Get("json")
	if tag == "-" || !f.IsExported() && !f.Anonymous {
		return nil
	}
	name, options, _ := strings.Cut(tag, ",")
	switch {
	case f.Anonymous && name != "":
		return fmt.Errorf("field %s: an embedded struct cannot be named by its tag; give the field a name", f.Name)
	case strings.Contains(","+options+",", ",string,"):
		return fmt.Errorf(`field %s: %w`, f.Name, errStringOption)
	case named[name] != "":
		return fmt.Errorf("the fields %s and %s are both named %q, so JSON is decoded into neither", named[name], f.Name, name)
	case name != "":
		named[name] = f.Name
	}
	return c.collect(f.Type)
}

var errStringOption = errors.New(`the option "string" of its tag is not supported; make the field a string`)
