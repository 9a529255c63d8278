package responses

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// MaxTokens is the API's parameter for the limit of tokens of one answer.
const MaxTokens = "max_output_tokens"

// onlyInChat are parameters of chat completions without a counterpart.
var onlyInChat = []string{
	"audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs", "modalities",
	"n", "prediction", "presence_penalty", "seed", "stop", "web_search_options",
}

// notOurs are parameters of the Responses API that conflict with keeping the
// conversation on this side.
var notOurs = []string{"background", "conversation", "input", "previous_response_id", "prompt"}

// Params translates parameters of chat completions into those of the Responses
// API. It passes on names that chat completions do not have. The error names a
// parameter that cannot be sent.
func Params(chat map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	p := maps.Clone(chat)
	if p == nil {
		p = map[string]json.RawMessage{}
	}
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if slices.Contains(onlyInChat, name) {
			return nil, fmt.Errorf("the Responses API has no parameter %s: leave it out, or use a model of chat completions", name)
		}
		if slices.Contains(notOurs, name) {
			return nil, fmt.Errorf("the parameter %s of the Responses API cannot be set: the conversation is kept here", name)
		}
	}
	for _, limit := range []string{"max_completion_tokens", "max_tokens"} {
		rename(p, limit, MaxTokens)
	}
	for _, move := range []struct{ from, object, field string }{
		{"reasoning_effort", "reasoning", "effort"},
		{"verbosity", "text", "verbosity"},
		{"response_format", "text", "format"},
	} {
		if err := nest(p, move.from, move.object, move.field); err != nil {
			return nil, err
		}
	}
	p["tool_choice"] = flatten(p["tool_choice"], "function")
	p["stream_options"] = without(p["stream_options"], "include_usage")
	maps.DeleteFunc(p, func(_ string, raw json.RawMessage) bool { return !present(raw) })
	return p, nil
}

// rename renames a parameter. If the new name is given too, that one wins.
func rename(p map[string]json.RawMessage, from, to string) {
	raw, ok := p[from]
	if !ok {
		return
	}
	delete(p, from)
	if _, given := p[to]; !given {
		p[to] = raw
	}
}

// nest moves a parameter into a field of an object. If the field is given too,
// that one wins.
func nest(p map[string]json.RawMessage, from, object, field string) error {
	raw, ok := p[from]
	delete(p, from)
	if !ok || !present(raw) {
		return nil
	}
	fields := map[string]json.RawMessage{}
	if present(p[object]) {
		if err := json.Unmarshal(p[object], &fields); err != nil {
			return fmt.Errorf("parameter %s: %w", object, err)
		}
	}
	if _, given := fields[field]; !given {
		fields[field] = flatten(raw, "json_schema")
	}
	encoded, err := encode(fields)
	p[object] = encoded
	return err
}

// flatten turns {"type": T, T: {…}} into {"type": T, …}, as the API wants a
// choice of tool and a format of answers. Anything else stays as it is.
func flatten(raw json.RawMessage, kind string) json.RawMessage {
	var outer, inner map[string]json.RawMessage
	if json.Unmarshal(raw, &outer) != nil || text(outer["type"]) != kind || json.Unmarshal(outer[kind], &inner) != nil {
		return raw
	}
	delete(outer, kind)
	for name, value := range inner {
		outer[name] = value
	}
	flat, err := encode(outer)
	if err != nil {
		return raw
	}
	return flat
}

// without removes a field from an object, and returns nil if none is left.
func without(raw json.RawMessage, field string) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return raw
	}
	delete(fields, field)
	if len(fields) == 0 {
		return nil
	}
	rest, err := encode(fields)
	if err != nil {
		return raw
	}
	return rest
}

// Tool is a function in the API's form. Parameters may be empty.
type Tool struct {
	Name, Description string
	Parameters        json.RawMessage
}

// MarshalJSON encodes the tool. It sets strict to false, because the API's
// default is true and refuses ordinary schemas. A tool without arguments gets an
// empty schema, because the API requires parameters.
func (t Tool) MarshalJSON() ([]byte, error) {
	if len(t.Parameters) == 0 {
		t.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return encode(struct {
		Type        string          `json:"type"`
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      bool            `json:"strict"`
	}{"function", t.Name, t.Description, t.Parameters, false})
}
