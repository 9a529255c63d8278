package strict

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// toolless matches models that have no tools in Ollama (louisho5/picobot#6,
// ollama/ollama#11131).
var toolless = regexp.MustCompile(`^(gemma3|deepseek-r1:14b|phi3|llava)\b`)

// OllamaResponses checks a request of the Responses API as Ollama does.
func OllamaResponses(r Request) *Refusal { return first(r.ollamaTools, r.ollamaModel) }

// Ollama checks a request for a chat completion as Ollama's code does
// (openai/openai.go and api/types.go of v0.17). Ollama ignores fields that it
// does not know.
func Ollama(r Request) *Refusal {
	return first(
		r.ollamaTools,
		func() *Refusal {
			if len(list(r.fields["messages"])) == 0 {
				return ollama("[] is too short - 'messages'")
			}
			return nil
		},
		r.ollamaMessages,
		r.ollamaModel,
	)
}

// ollamaModel checks whether the model can call tools.
func (r Request) ollamaModel() *Refusal {
	model := text(r.fields["model"])
	if !has(r.fields, "tools") || !toolless.MatchString(model) {
		return nil
	}
	found := ollama("registry.ollama.ai/library/%s does not support tools", model)
	found.Type = "api_error" // Ollama finds this only after it has translated the request
	return found
}

// ollama returns a refusal in the form of Ollama's status 400.
func ollama(format string, args ...any) *Refusal {
	return refuse("", "", format, args...)
}

// ollamaTools refuses tools that do not decode into Ollama's own types.
func (r Request) ollamaTools() *Refusal {
	for _, raw := range list(r.fields["tools"]) {
		function := obj(raw) // the Responses API has no object "function" around it
		if nested, ok := function["function"].(object); ok {
			function = nested
		}
		parameters := obj(function["parameters"])
		if t, isList := parameters["type"].([]any); isList {
			return ollama("json: cannot unmarshal %s into Go struct field ToolFunctionParameters.tools.function.parameters.type of type string", jsonKind(t))
		}
		if found := ollamaProperties(parameters); found != nil {
			return found
		}
	}
	return nil
}

// ollamaProperties refuses booleans as schemas of properties, at any depth that
// Ollama reads.
func ollamaProperties(s object) *Refusal {
	properties := obj(s["properties"])
	for _, name := range sorted(properties) {
		property, ok := properties[name].(object)
		if !ok {
			return ollama("json: cannot unmarshal %s into Go value of type api.ToolProperty", jsonKind(properties[name]))
		}
		if found := ollamaProperties(property); found != nil {
			return found
		}
		for _, sub := range list(property["anyOf"]) {
			if _, ok := sub.(object); !ok {
				return ollama("json: cannot unmarshal %s into Go struct field ToolProperty.anyOf of type api.ToolProperty", jsonKind(sub))
			}
		}
	}
	return nil
}

// jsonKind returns the name of encoding/json for the type of a value.
func jsonKind(v any) string {
	switch v.(type) {
	case bool:
		return "bool"
	case float64:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

func (r Request) ollamaMessages() *Refusal {
	for _, raw := range list(r.fields["messages"]) {
		m := obj(raw)
		if found := ollamaContent(m); found != nil {
			return found
		}
		for _, call := range list(m["tool_calls"]) {
			var arguments object
			if json.Unmarshal([]byte(text(obj(obj(call)["function"])["arguments"])), &arguments) != nil {
				return ollama("invalid tool call arguments")
			}
		}
	}
	return nil
}

func ollamaContent(m object) *Refusal {
	switch content := m["content"].(type) {
	case string:
		return nil
	case []any:
		for _, raw := range content {
			if found := ollamaPart(obj(raw)); found != nil {
				return found
			}
		}
		return nil
	default:
		if m["tool_calls"] == nil {
			return ollama("invalid message content type: %T", content)
		}
		return nil
	}
}

func ollamaPart(part object) *Refusal {
	switch part["type"] {
	case "text":
		return nil
	case "image_url":
		url := text(obj(part["image_url"])["url"])
		if strings.HasPrefix(url, "http") {
			return ollama("image URLs are not currently supported, please use base64 encoded data instead")
		}
		media, data, ok := strings.Cut(url, ";base64,")
		known := slices.Contains([]string{"data:image/jpeg", "data:image/jpg", "data:image/png", "data:image/webp"}, media)
		if _, err := base64.StdEncoding.DecodeString(data); !ok || !known || err != nil {
			return ollama("invalid image input")
		}
		return nil
	}
	return ollama("invalid message format")
}
