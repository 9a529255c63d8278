package toolschema

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// For derives the schema of the values that encoding/json decodes into a Go
// type. It is [jsonschema.For], except for types that decode themselves or that
// encoding/json treats specially.
func For(t reflect.Type) (json.RawMessage, error) {
	c := customTypes{schemas: map[reflect.Type]*jsonschema.Schema{}, seen: map[reflect.Type]bool{}}
	if err := c.collect(t); err != nil {
		return nil, err
	}
	schema, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: c.schemas})
	if err != nil {
		return nil, err
	}
	return json.Marshal(schema)
}

// customTypes collects the schemas of the types within a type that decode
// themselves.
type customTypes struct {
	schemas map[reflect.Type]*jsonschema.Schema
	seen    map[reflect.Type]bool
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
	if c.seen[t] {
		return nil
	}
	c.seen[t] = true
	if schema := customSchema(t); schema != nil {
		c.schemas[t] = schema
		return nil
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Map:
		return c.collect(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if err := c.field(t.Field(i)); err != nil {
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
func customSchema(t reflect.Type) *jsonschema.Schema {
	pointer := reflect.PointerTo(t)
	switch {
	case known[t] != nil:
		return known[t].CloneSchemas()
	case pointer.Implements(jsonDecoder) && !hasFields(t):
		return anything()
	case pointer.Implements(textDecoder) && !pointer.Implements(jsonDecoder):
		return &jsonschema.Schema{Type: "string"}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return &jsonschema.Schema{Types: []string{"null", "string"}, ContentEncoding: "base64"}
	}
	return nil
}

// hasFields reports whether a type is a struct with exported fields. If it
// decodes itself, perhaps to set defaults, it is expected to read those fields.
func hasFields(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && slices.ContainsFunc(reflect.VisibleFields(t), reflect.StructField.IsExported)
}

// field collects from a field's type. It refuses tags that encoding/json follows
// but the derived schema would not.
func (c *customTypes) field(f reflect.StructField) error {
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
	}
	return c.collect(f.Type)
}

var errStringOption = errors.New(`the option "string" of its tag is not supported; make the field a string`)
