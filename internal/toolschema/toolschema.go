// Package toolschema brings the JSON Schema of a tool's arguments into a form
// that every provider accepts, and reads what models answer to it.
//
// The portable form has these keywords and no others:
//
//   - type, one of object, array, string, integer, number and boolean;
//   - description;
//   - properties and required, with an object, which has at least one property
//     (the names match [A-Za-z0-9_.-]{1,64});
//   - items, with an array, always;
//   - enum, with a string, of strings that are not empty;
//   - anyOf, below the root, as the only keyword of its schema.
//
// References are inlined. Bounds, formats, defaults and the like are told in
// the description. An object of any names and a value of any type cannot be
// said in this form: the model is asked for JSON text, in a string, which is
// parsed before the arguments are checked. The value itself is taken as well.
//
// Arguments are checked against the schema as its author wrote it, so nothing
// that the portable form leaves out goes unchecked. What cannot be brought into
// it, such as a schema that contains itself, is an error.
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

	"github.com/x/pygent/internal/jsonwalk"
)

// versions are the drafts of JSON Schema that arguments can be checked against.
var versions = []string{"", "http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"}

// Schema is the schema of a tool's arguments.
type Schema struct {
	author   json.RawMessage
	resolved *jsonschema.Resolved
	wire     json.RawMessage
	root     *node // nil for a tool without arguments
}

// Parse reads the schema that a tool's author wrote. It is of type object.
func Parse(author json.RawMessage) (*Schema, error) {
	author = bytes.ToValidUTF8(author, []byte("\ufffd"))
	if trimmed := bytes.TrimSpace(author); len(trimmed) > 0 && trimmed[0] != '{' {
		return nil, errors.New("parameters are not a JSON Schema: want what encodes to a JSON object, such as a map or a json.RawMessage, not a string or a list")
	}
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
	root, err := derive(author)
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	s := &Schema{author: author, resolved: resolved, root: root}
	if root != nil {
		if s.wire, err = json.Marshal(root); err != nil {
			return nil, fmt.Errorf("parameters: %w", err)
		}
	}
	return s, nil
}

// Wire returns the portable form, empty for a tool without arguments.
func (s *Schema) Wire() json.RawMessage { return s.wire }

// Arguments checks the arguments that a model wrote, and returns them as an
// object that fits the author's schema: an optional property that is null is
// left out, JSON text is parsed where the model was asked for it, and of two
// properties with one name the last one counts, so that whoever reads the
// arguments reads the same. The error is for the model: it says what is wrong and
// what is expected.
func (s *Schema) Arguments(text string) (json.RawMessage, error) {
	if strings.TrimSpace(text) == "" {
		text = "{}"
	}
	if jsonwalk.Values([]byte(text)) > maxValues {
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
	// The checker knows numbers as float64 only; the arguments keep their digits.
	var checked map[string]any
	if err := json.Unmarshal([]byte(text), &checked); err != nil {
		return nil, fmt.Errorf("the arguments are not a JSON object (%w); expected %s", err, s.expected())
	}
	if err := s.resolved.Validate(checked); err != nil {
		// The checker prints a null in Go's words.
		reason := strings.ReplaceAll(err.Error(), "<invalid reflect.Value>", "null")
		return nil, fmt.Errorf("the arguments do not fit (%s); expected %s", head(reason), s.expected())
	}
	return json.RawMessage(text), nil
}

// readAs is the text of arguments as they are read: the model's own, unless that
// could be read in another way.
func (s *Schema) readAs(given map[string]any, text string) (string, error) {
	var read any = given
	changed := false
	if s.root != nil {
		read, changed = s.root.read(given)
	}
	encoded, err := encode(read)
	if err != nil {
		return "", err
	}
	if changed || jsonwalk.Values(encoded) != jsonwalk.Values([]byte(text)) {
		return string(encoded), nil
	}
	return text, nil
}

const (
	// maxValues bounds the values that arguments are made of, names included: the
	// checks cost far more for each than its bytes.
	maxValues = 50_000
	// maxReason is the longest reason that an error gives, in bytes. The checker
	// names all that is not as it should be.
	maxReason = 2 << 10
)

// head is the beginning of a reason that is too long.
func head(reason string) string {
	if len(reason) <= maxReason {
		return reason
	}
	return strings.ToValidUTF8(reason[:maxReason], "") + " …"
}

// maxExpected is the longest schema that an error repeats, in bytes.
const maxExpected = 4 << 10

// expected is the schema as an error tells it to the model, which has it anyway.
func (s *Schema) expected() string {
	if len(s.author) > maxExpected {
		return "what the tool's schema says"
	}
	return string(s.author)
}

// errTrailing is the error of a text that goes on after its JSON value.
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

// encode writes a value as compact JSON, with <, > and & as they are.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
