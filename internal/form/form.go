// Package form reads the forms by which a question asks for values, and what is
// answered to them. A form is a flat JSON Schema: an object whose properties are
// strings, numbers, integers or booleans. People fill it in field by field, models
// as one JSON object. A form may come from a stranger: all that is shown of it is
// bounded, and no part of it can pass for another line.
package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/toolschema"
)

// Form is the schema of a question.
type Form struct {
	Fields   map[string]Field
	Required []string // names of fields
	schema   *toolschema.Schema
}

// Parse reads a schema. No schema is no form, nil.
func Parse(schema json.RawMessage) (*Form, error) {
	if len(schema) == 0 {
		return nil, nil
	}
	parsed, err := toolschema.Parse(schema)
	if err != nil {
		return nil, err
	}
	var in struct {
		Properties map[string]Field
		Required   []string
	}
	d := json.NewDecoder(bytes.NewReader(schema))
	d.UseNumber() // large integers stay what they are
	if err := d.Decode(&in); err != nil {
		return nil, fmt.Errorf("the schema of the form: %w", err)
	}
	for name, field := range in.Properties {
		if !slices.Contains([]string{"string", "number", "integer", "boolean"}, field.Type) {
			return nil, fmt.Errorf("the field %s of the form: want a string, a number, an integer or a boolean", short(name))
		}
	}
	return &Form{in.Properties, in.Required, parsed}, nil
}

// errSecret is the error for values that do not fit and must not be repeated.
var errSecret = errors.New("the answer cannot be used: it does not fit the form")

// Check returns values that fit the form, as an object. The error does not repeat
// what is secret.
func (f *Form) Check(values json.RawMessage, secret bool) (json.RawMessage, error) {
	checked, err := f.schema.Arguments(string(values))
	return checked, f.unfit(err, secret)
}

func (f *Form) unfit(err error, secret bool) error {
	switch {
	case err == nil:
		return nil
	case secret || len(f.Secrets()) > 0:
		return errSecret
	}
	return fmt.Errorf("the answer cannot be used: %w", err)
}

// Read reads what somebody wrote as the answer: a JSON object of the fields, also
// one that is almost right, or for a form of one field its value alone. Of values
// to choose from it takes titles too. The error says what is wrong and what is
// expected, unless that is secret.
func (f *Form) Read(text string, secret bool) (json.RawMessage, error) {
	values, err := f.schema.Read(text, nil)
	if err == nil {
		return values, nil
	}
	if given, ok := f.given(text); ok {
		if encoded, failed := json.Marshal(given); failed == nil {
			if values, failed = f.schema.Arguments(string(encoded)); failed == nil {
				return values, nil
			}
		}
	}
	return nil, f.unfit(err, secret)
}

// given returns the values of a text with those for titles in their place.
func (f *Form) given(text string) (map[string]any, bool) {
	given := map[string]any{}
	if names := f.Names(); len(names) == 1 && !strings.HasPrefix(strings.TrimSpace(text), "{") {
		value, ok := f.Fields[names[0]].Read(strings.TrimSpace(text))
		given[names[0]] = value
		return given, ok
	}
	object, unclosed, err := jsonobj.RepairObject(text)
	if err != nil || unclosed {
		return nil, false
	}
	d := json.NewDecoder(strings.NewReader(object))
	d.UseNumber()
	if d.Decode(&given) != nil {
		return nil, false
	}
	for name, value := range given {
		field := f.Fields[name]
		if title, ok := value.(string); ok && len(field.choices()) > 0 {
			if value, ok := field.Read(title); ok {
				given[name] = value
			}
		}
	}
	return given, true
}

// Asked is a field that a person is asked for.
type Asked struct {
	Field  Field
	Prompt string
	First  bool // it is the first field of the form
	Again  bool // what was typed for it before does not fit
}

// Fill asks a person for the fields, one by one. ask returns what is typed, or false
// if the person declines. Nothing typed leaves a field out, or declines where there
// has to be one. Without an error, no values are a form that was declined.
func (f *Form) Fill(ask func(Asked) (text string, ok bool, err error)) (json.RawMessage, error) {
	values := map[string]any{}
	for i, name := range f.Names() {
		required := f.Requires(name)
		asked := Asked{Field: f.Fields[name], First: i == 0}
		asked.Prompt = asked.Field.Prompt(name, required)
		for {
			text, ok, err := ask(asked)
			if err != nil || !ok || text == "" && required {
				return nil, err
			}
			if text == "" {
				break
			}
			if value, fits := asked.Field.Read(text); fits {
				values[name] = value
				break
			}
			asked.Again = true
		}
	}
	return json.Marshal(values)
}

// Secrets returns the names of the fields that are secret.
func (f *Form) Secrets() []string {
	return slices.DeleteFunc(slices.Collect(maps.Keys(f.Fields)), func(name string) bool { return !f.Fields[name].Secret() })
}

// WithoutSecrets returns values that fit the form without those that are secret.
func (f *Form) WithoutSecrets(values json.RawMessage) json.RawMessage {
	var open map[string]json.RawMessage
	_ = json.Unmarshal(values, &open) // they fit the form
	for _, name := range f.Secrets() {
		delete(open, name)
	}
	told, _ := json.Marshal(open)
	return told
}

// Names returns the names of the fields, those first that have to be filled in.
func (f *Form) Names() []string {
	names := slices.Sorted(maps.Keys(f.Fields))
	slices.SortStableFunc(names, func(a, b string) int {
		return strings.Compare(strconv.FormatBool(!f.Requires(a)), strconv.FormatBool(!f.Requires(b)))
	})
	return names
}

// Requires reports whether a field has to be filled in.
func (f *Form) Requires(name string) bool { return slices.Contains(f.Required, name) }

// Bounds of what a model is told of a form, in bytes.
const (
	maxLine  = 400
	maxLines = 4 << 10
)

// Lines describes the fields to a model, a line each.
func (f *Form) Lines() []string {
	names := f.Names()
	var lines []string
	size := 0
	for i, name := range names {
		line := f.Fields[name].line(name, f.Requires(name))
		if size += len(line); size > maxLines {
			return append(lines, "and "+numeral.Count(len(names)-i, "more field"))
		}
		lines = append(lines, line)
	}
	return lines
}
