// Package toolschema converts the JSON Schema of a tool's arguments into a form
// that every provider accepts, and reads the arguments that models write for it.
//
// The portable form has these keywords and no others:
//
//   - type, one of object, array, string, integer, number and boolean;
//   - description;
//   - properties and required, for an object, which has at least one property
//     (the names match [A-Za-z0-9_.-]{1,64});
//   - items, for every array;
//   - enum, for a string, of strings that are not empty;
//   - anyOf, below the root, as the only keyword of its schema.
//
// References are inlined. Bounds, formats, defaults and the like go into the
// description. This form has no object with arbitrary names and no value of any
// type. For those the model is asked for a string with JSON text, which is parsed
// before the arguments are checked. The value itself is accepted as well.
//
// Arguments are checked against the schema as its author wrote it, so what the
// portable form leaves out is checked too. A schema that contains itself is
// inlined once more; where it comes again, the model is asked for JSON text. A
// schema that has no portable form is an error.
package toolschema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/x/pygent/internal/jsonobj"
)

// versions are the drafts of JSON Schema that arguments can be checked against.
var versions = []string{"", "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"}

// Schema is the schema of a tool's arguments.
type Schema struct {
	author   json.RawMessage
	resolved *jsonschema.Resolved // nil if arguments are not checked
	wire     json.RawMessage
	root     *node  // nil for a tool without arguments
	shown    *node  // what a model is told of root, where that is less
	plain    *plain // nil for a schema that is not
}

// Parse reads the schema that a tool's author wrote. Its type must be object.
func Parse(author json.RawMessage) (*Schema, error) { return parse(author, true) }

// ParseUnchecked is Parse for a tool that checks its arguments itself. They are
// read, but not checked.
func ParseUnchecked(author json.RawMessage) (*Schema, error) { return parse(author, false) }

// parse refuses a schema that is too large before it costs time, since a
// server may have sent it.
func parse(author json.RawMessage, check bool) (*Schema, error) {
	if len(author) > maxSchema {
		return nil, fmt.Errorf("parameters: the schema has more than %d KiB", maxSchema>>10)
	}
	author = bytes.ToValidUTF8(author, []byte("\ufffd"))
	if trimmed := bytes.TrimSpace(author); len(trimmed) > 0 && trimmed[0] != '{' {
		return nil, errors.New("parameters are not a JSON Schema: want what encodes to a JSON object, such as a map or a json.RawMessage, not a string or a list")
	}
	var resolved *jsonschema.Resolved
	if check {
		var err error
		if resolved, err = resolve(author); err != nil {
			return nil, err
		}
	}
	root, err := derive(author)
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	s := &Schema{author: author, resolved: resolved, root: root}
	if root != nil {
		if s.wire, err = json.Marshal(root); err != nil {
			return nil, fmt.Errorf("parameters: %w", err)
		}
		s.plain = newPlain(author)
	}
	return s, nil
}

// resolve prepares a schema for checks.
func resolve(author json.RawMessage) (*jsonschema.Resolved, error) {
	var schema jsonschema.Schema
	if err := json.Unmarshal(author, &schema); err != nil {
		return nil, fmt.Errorf("parameters are not a JSON Schema: %w", err)
	}
	if !slices.Contains(versions, schema.Schema) {
		return nil, fmt.Errorf("parameters: $schema %q is not known here; use draft-07 or draft 2020-12", schema.Schema)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	return resolved, nil
}

// Wire returns the portable form, empty for a tool without arguments.
func (s *Schema) Wire() json.RawMessage { return s.wire }

// Arguments checks the arguments that a model wrote, and returns them as an
// object that fits the author's schema. It leaves out an optional property that
// is null, parses JSON text where the model was asked for it, and of two
// properties with one name keeps the last, so that all readers of the arguments
// see the same. The error is for the model: it says what is wrong and what is
// expected.
func (s *Schema) Arguments(text string) (json.RawMessage, error) {
	if s.plain != nil {
		if args := []byte(text); s.plain.fits(args) {
			return args, nil
		}
	}
	if strings.TrimSpace(text) == "" {
		text = "{}"
	}
	if jsonobj.Values([]byte(text)) > maxValues {
		return nil, fmt.Errorf("the arguments have more than %d values; expected %s", maxValues, s.expected())
	}
	var given map[string]any
	switch err := decodeAll(text, &given); {
	case errors.Is(err, errTrailing):
		return nil, fmt.Errorf("the arguments have text after the JSON object; expected %s", s.expected())
	case err != nil:
		return nil, fmt.Errorf("the arguments are not a JSON object (%w); expected %s", err, s.expected())
	case given == nil:
		given, text = map[string]any{}, "{}"
	}
	text, err := s.readAs(given, text)
	if err != nil {
		return nil, err
	}
	if s.resolved == nil {
		return json.RawMessage(text), nil
	}
	// The checker takes numbers only as float64. The arguments that are returned
	// keep all their digits.
	var checked map[string]any
	if err := json.Unmarshal([]byte(text), &checked); err != nil {
		return nil, fmt.Errorf("the arguments are not a JSON object (%w); expected %s", err, s.expected())
	}
	if err := s.resolved.Validate(checked); err != nil {
		// The checker prints null as Go's reflect package does.
		reason := strings.ReplaceAll(err.Error(), "<invalid reflect.Value>", "null")
		return nil, &misfit{head(reason), s.expected()}
	}
	return json.RawMessage(text), nil
}

// readAs returns the text of the arguments after reading. That is the model's
// own text, unless reading changed a value or the text has a name twice, which
// parsers read differently.
func (s *Schema) readAs(given map[string]any, text string) (string, error) {
	var read any = given
	changed := false
	if s.root != nil {
		read, changed = s.root.read(given)
	}
	encoded, err := jsonobj.Encode(read)
	if err != nil {
		return "", err
	}
	if changed || jsonobj.Values(encoded) != jsonobj.Values([]byte(text)) {
		return string(encoded), nil
	}
	return text, nil
}

const (
	// maxValues is how many values arguments may consist of, names included. The
	// checks of a value cost far more than its bytes.
	maxValues = 50_000
	// maxReason is the longest reason that an error gives, in bytes. The checker
	// lists everything that is wrong.
	maxReason = 2 << 10
)

// head returns a reason, or the beginning of one that is too long.
func head(reason string) string {
	if len(reason) <= maxReason {
		return reason
	}
	return strings.ToValidUTF8(reason[:maxReason], "") + " …"
}

// maxExpected is the longest schema that an error repeats, in bytes.
const maxExpected = 4 << 10

// expected returns the schema for an error to the model. It leaves out a long
// one, which the model has anyway.
func (s *Schema) expected() string {
	if len(s.author) > maxExpected {
		return "what the tool's schema says"
	}
	return string(s.author)
}

// errTrailing is the error for a text that goes on after its JSON value.
var errTrailing = errors.New("text after the JSON value")

// decodeAll decodes a text that is one JSON value, and keeps the digits of its
// numbers.
func decodeAll(text string, into any) error {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errTrailing
	}
	return nil
}
