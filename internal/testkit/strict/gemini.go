package strict

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
)

// geminiFields are the parameters in the reference of Gemini's compatible
// endpoint. It refuses others (MinLL/SkyrimNet-GamePlugin#77).
var geminiFields = []string{
	"extra_body", "max_completion_tokens", "max_tokens", "messages", "modalities", "model", "n", "parallel_tool_calls",
	"prediction", "reasoning_effort", "response_format", "service_tier", "stop", "stream", "stream_options",
	"temperature", "tool_choice", "tools", "top_p", "user", "web_search_options",
}

// geminiSchema are the fields of a schema. Others were refused in
// datastax/astra-assistants-api#73, zed-industries/zed#44875 and
// openswarm-ai/openswarm#24, though newer versions accept some of them.
var geminiSchema = []string{
	"anyOf", "default", "description", "enum", "example", "format", "items",
	"maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum",
	"nullable", "pattern", "properties", "propertyOrdering", "required", "title", "type",
}

var geminiName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.-]{0,63}$`)

// Gemini checks a request as Gemini's OpenAI-compatible endpoint does.
func Gemini(r Request) *Refusal {
	return first(
		r.geminiParameters,
		r.geminiTools,
		r.geminiTurns,
		r.geminiSignatures,
	)
}

// gemini returns a refusal in the form of Gemini's status 400, which is a list
// of one object (Alishahryar1/free-claude-code#542).
func gemini(field, message string) *Refusal {
	failure := object{"code": http.StatusBadRequest, "message": message, "status": "INVALID_ARGUMENT"}
	if field != "" {
		violation := object{"field": field, "description": message}
		failure["details"] = []object{{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": []object{violation}}}
	}
	return &Refusal{
		Status: http.StatusBadRequest, Code: "INVALID_ARGUMENT", Param: field, Message: message,
		Body: []object{{"error": failure}},
	}
}

func (r Request) geminiParameters() *Refusal {
	for _, name := range sorted(r.fields) {
		if !slices.Contains(geminiFields, name) {
			return gemini("", fmt.Sprintf("Invalid JSON payload received. Unknown name %q: Cannot find field.", name))
		}
	}
	return nil
}

func (r Request) geminiTools() *Refusal {
	seen := map[string]bool{}
	for i, raw := range list(r.fields["tools"]) {
		function := obj(obj(raw)["function"])
		name := text(function["name"])
		at := fmt.Sprintf("tools[0].function_declarations[%d]", i)
		switch {
		case !geminiName.MatchString(name):
			return gemini(at+".name", fmt.Sprintf("* GenerateContentRequest.%s.name: Invalid function name. Must start with a letter or an underscore. "+
				"Must be alphameric (a-z, A-Z, 0-9), underscores (_), dots (.) or dashes (-), with a maximum length of 64.", at))
		case seen[name]:
			return gemini("", "Duplicate function declaration found: "+name)
		}
		seen[name] = true
		if !has(function, "parameters") {
			continue
		}
		if found := geminiParameter(at+".parameters", function["parameters"]); found != nil {
			return found
		}
	}
	return nil
}

// geminiParameter checks a schema as its conversion into Gemini's own form does,
// and then the schemas in it.
func geminiParameter(at string, schema any) *Refusal {
	s, ok := schema.(object)
	if !ok {
		return gemini(at, fmt.Sprintf("Invalid value at '%s' (type.googleapis.com/google.ai.generativelanguage.v1beta.Schema), %v", at, schema))
	}
	for _, name := range sorted(s) {
		if !slices.Contains(geminiSchema, name) {
			return gemini(at, fmt.Sprintf("Invalid JSON payload received. Unknown name %q at '%s': Cannot find field.", name, at))
		}
	}
	if _, isList := s["type"].([]any); isList { // google/generative-ai-docs#444
		return gemini(at, fmt.Sprintf(`Invalid JSON payload received. Unknown name "type" at '%s': Proto field is not repeating, cannot start list.`, at))
	}
	return first(
		func() *Refusal { return geminiObject(at, s) },
		func() *Refusal { return geminiArray(at, s) },
		func() *Refusal { return geminiEnum(at, s) },
		func() *Refusal { return geminiBranches(at, s) },
	)
}

// geminiEnum checks that the values of an enum are strings that are not empty
// (directus/directus#27100, anomalyco/opencode#46676).
func geminiEnum(at string, s object) *Refusal {
	for i, value := range list(s["enum"]) {
		switch {
		case s["type"] != "string":
			return gemini(at, fmt.Sprintf("* GenerateContentRequest.%s.enum: only allowed for STRING type\n", at))
		case text(value) == "":
			return gemini(at, fmt.Sprintf("* GenerateContentRequest.%s.enum[%d]: cannot be empty\n", at, i))
		}
	}
	return nil
}

// geminiBranches checks anyOf, beside which no other field may be.
func geminiBranches(at string, s object) *Refusal {
	branches := list(s["anyOf"])
	if len(branches) > 0 && len(s) > 1 {
		return gemini(at, fmt.Sprintf("Unable to submit request because `%s` schema specified other fields alongside any_of. When using any_of, it must be the only field set.", at))
	}
	for i, sub := range branches {
		if found := geminiParameter(fmt.Sprintf("%s.any_of[%d]", at, i), sub); found != nil {
			return found
		}
	}
	return nil
}

// geminiObject checks the properties of an object. There must be some
// (containers/kubernetes-mcp-server#340).
func geminiObject(at string, s object) *Refusal {
	properties := obj(s["properties"])
	if s["type"] == "object" && len(properties) == 0 {
		return gemini(at+".properties", fmt.Sprintf("* GenerateContentRequest.%s.properties: should be non-empty for OBJECT type\n", at))
	}
	for i, name := range sorted(properties) {
		if found := geminiParameter(fmt.Sprintf("%s.properties[%d].value", at, i), properties[name]); found != nil {
			return found
		}
	}
	for i, name := range list(s["required"]) {
		if _, ok := properties[text(name)]; !ok {
			return gemini(at, fmt.Sprintf("* GenerateContentRequest.%s.required[%d]: property is not defined\n", at, i))
		}
	}
	return nil
}

// geminiArray checks the items of an array (AnswerDotAI/toolslm#68).
func geminiArray(at string, s object) *Refusal {
	items, given := s["items"]
	switch {
	case given:
		return geminiParameter(at+".items", items)
	case s["type"] == "array":
		return gemini(at+".items", fmt.Sprintf("* GenerateContentRequest.%s.items: missing field.\n", at))
	}
	return nil
}

// geminiTurns checks that there is a message besides the system's, and that
// calls follow a message of the user or of a tool
// (google-gemini/gemini-cli#11814).
func (r Request) geminiTurns() *Refusal {
	var turns []string
	for _, raw := range list(r.fields["messages"]) {
		m := obj(raw)
		role := text(m["role"])
		if role == "system" || role == "developer" {
			continue
		}
		after := len(turns) > 0 && turns[len(turns)-1] != "assistant"
		if len(list(m["tool_calls"])) > 0 && !after {
			return gemini("", "Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
		}
		turns = append(turns, role)
	}
	if len(turns) == 0 {
		return gemini("contents", "* GenerateContentRequest.contents: contents is not specified\n")
	}
	return nil
}

// geminiSignatures checks that the calls since the user's last message have the
// signature that Gemini 3 gave them (openai/openai-python#2758).
func (r Request) geminiSignatures() *Refusal {
	messages := list(r.fields["messages"])
	for i, raw := range slices.Backward(messages) {
		m := obj(raw)
		if m["role"] == "user" {
			return nil
		}
		calls := list(m["tool_calls"])
		if len(calls) == 0 {
			continue
		}
		call := obj(calls[0])
		google := obj(obj(call["extra_content"])["google"])
		if text(google["thought_signature"]) == "" {
			return gemini("", fmt.Sprintf("Function call is missing a thought_signature in functionCall parts. "+
				"This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. "+
				"Additional data, function call `default_api:%s` , position %d. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details.", text(obj(call["function"])["name"]), i+1))
		}
	}
	return nil
}
