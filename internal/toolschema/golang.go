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
// type. It is [jsonschema.For] but for the types that encoding/json treats in a
// way of its own.
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

// known are the types of the standard library with a decoder whose form is
// known.
var known = map[reflect.Type]*jsonschema.Schema{
	reflect.TypeFor[time.Time]():   {Type: "string", Format: "date-time"},
	reflect.TypeFor[slog.Level]():  {Type: "string"},
	reflect.TypeFor[big.Int]():     {Type: "integer"},
	reflect.TypeFor[big.Rat]():     {Type: "string"},
	reflect.TypeFor[big.Float]():   {Type: "string"},
	reflect.TypeFor[json.Number](): {Type: "number"},
}

// anything is the schema of a type that takes every value. It names the types
// because the schema library would let a pointer to it be null only.
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

// customSchema returns the schema of a type that decodes itself, else nil.
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

// hasFields reports whether a type shows a struct's fields. Its decoder, which
// sets defaults say, is expected to take them.
func hasFields(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && slices.ContainsFunc(reflect.VisibleFields(t), reflect.StructField.IsExported)
}

// field refuses the tags that encoding/json follows and the schema would not.
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
