// Package strict refuses the requests that model providers refuse. It checks the
// body of a request as OpenAI, Gemini, Mistral and Ollama do, and answers with
// their status, code, parameter and message. Each rule is a pure function over
// the decoded body. Its comment names the source: an issue where the refusal was
// reported, as owner/repo#n, or the provider's reference.
//
// Of several mistakes only the first is reported, as most providers do. Fields
// are checked in the order of their names, so that the same request always gets
// the same answer.
package strict

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
)

// Refusal is a provider's answer to a request that it does not accept.
type Refusal struct {
	Status  int
	Code    string
	Type    string
	Param   string
	Message string

	// Body is the whole answer in the provider's own form; nil stands for
	// OpenAI's.
	Body any
}

// Error returns the provider's message.
func (r *Refusal) Error() string { return r.Message }

// Request is the decoded body of a request.
type Request struct {
	fields object
	known  func(field string) bool
}

type object = map[string]any

// Parse decodes a body. known reports which fields the server accepts besides
// those of OpenAI's format; nil means none.
func Parse(body []byte, known func(field string) bool) (Request, *Refusal) {
	var fields object
	if json.Unmarshal(body, &fields) != nil {
		fields = nil
	}
	return Decoded(fields, known)
}

// Decoded is Parse for a body that the caller has decoded; nil for one that is not an
// object. Nothing changes the fields.
func Decoded(fields map[string]any, known func(field string) bool) (Request, *Refusal) {
	r := Request{fields: fields, known: known}
	if known == nil {
		r.known = func(string) bool { return false }
	}
	if fields == nil {
		return r, refuse("", "", "We could not parse the JSON body of your request. The OpenAI API expects a JSON payload, but what was sent was not valid JSON.")
	}
	return r, nil
}

// first returns the refusal of the first check that makes one, or nil.
func first(checks ...func() *Refusal) *Refusal {
	for _, check := range checks {
		if r := check(); r != nil {
			return r
		}
	}
	return nil
}

// refuse returns a refusal in the form of OpenAI's status 400.
func refuse(param, code, format string, args ...any) *Refusal {
	return &Refusal{
		Status: http.StatusBadRequest, Type: "invalid_request_error",
		Param: param, Code: code, Message: fmt.Sprintf(format, args...),
	}
}

// missing returns OpenAI's refusal of a request without a field.
func missing(param string) *Refusal {
	return refuse(param, "missing_required_parameter", "Missing required parameter: '%s'.", param)
}

// wrongType returns OpenAI's refusal of a value of the wrong type.
func wrongType(param, want string, got any) *Refusal {
	return refuse(param, "invalid_type", "Invalid type for '%s': expected %s, but got %s instead.", param, want, typeName(got))
}

// emptyArray returns OpenAI's refusal of a list that must not be empty.
func emptyArray(param string) *Refusal {
	return refuse(param, "empty_array",
		"Invalid '%s': empty array. Expected an array with minimum length 1, but got an empty array instead.", param)
}

// unknown refuses the first of o's fields that is not allowed. at is the prefix
// of their names.
func unknown(at string, o object, allowed ...string) *Refusal {
	for _, name := range sorted(o) {
		if !slices.Contains(allowed, name) {
			return refuse(at+name, "unknown_parameter", "Unknown parameter: '%s%s'.", at, name)
		}
	}
	return nil
}

// typeName returns OpenAI's name for the type of a JSON value.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case float64:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "an array"
	}
	return "an object"
}

// sorted returns the names of o's fields in order.
func sorted(o object) []string { return slices.Sorted(maps.Keys(o)) }

// has reports whether a field is there and not null.
func has(o object, name string) bool { return o[name] != nil }

func text(v any) string {
	s, _ := v.(string)
	return s
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func obj(v any) object {
	o, _ := v.(object)
	return o
}

// without returns o without the fields that known reports.
func (r Request) without(o object) object {
	out := make(object, len(o))
	for name, value := range o {
		if !r.known(name) {
			out[name] = value
		}
	}
	return out
}
