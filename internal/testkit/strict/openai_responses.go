package strict

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// responsesFields are the parameters of a response in OpenAI's reference.
var responsesFields = []string{
	"background", "context_management", "conversation", "include", "input", "instructions", "max_output_tokens",
	"max_tool_calls", "metadata", "model", "moderation", "parallel_tool_calls", "previous_response_id", "prompt",
	"prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning", "safety_identifier",
	"service_tier", "store", "stream", "stream_options", "temperature", "text", "tool_choice", "tools",
	"top_logprobs", "top_p", "truncation", "user",
}

// itemFields has the fields for each type of item.
var itemFields = map[string][]string{
	"message":              {"id", "type", "role", "content", "status", "phase"},
	"function_call":        {"id", "type", "call_id", "name", "arguments", "status"},
	"function_call_output": {"id", "type", "call_id", "output", "status"},
	"reasoning":            {"id", "type", "summary", "content", "encrypted_content", "status"},
}

// itemIDs has the prefix of ids for each type of item (Wei-Shaw/sub2api#3981).
var itemIDs = map[string]string{"message": "msg", "function_call": "fc", "function_call_output": "fc", "reasoning": "rs"}

const maxItemCallID = 64 // AnswerDotAI/fastllm#45

// Issued is what a server knows about the items that it sent.
type Issued struct {
	// Verified reports whether an encrypted content is the server's own.
	Verified func(content string) bool
	// Reasoning returns the id of the reasoning item before the item with the
	// given id, or "" if there was none.
	Reasoning func(id string) string
}

// OpenAIResponses checks a request of the Responses API as OpenAI does.
func OpenAIResponses(r Request, issued Issued) *Refusal {
	return first(
		func() *Refusal { return unknown("", r.without(r.fields), responsesFields...) },
		func() *Refusal {
			if text(r.fields["model"]) == "" {
				return missing("model")
			}
			return nil
		},
		r.responsesModel,
		r.responsesParameters,
		func() *Refusal { return r.toolList(responsesTool) },
		func() *Refusal { return r.input(issued.Verified) },
		r.answered,
		r.followed,
		func() *Refusal { return r.reasoned(issued.Reasoning) },
	)
}

func (r Request) responsesParameters() *Refusal {
	if id := text(r.fields["previous_response_id"]); id != "" {
		return refuse("previous_response_id", "previous_response_not_found", "Previous response with id '%s' not found.", id)
	}
	for i, value := range list(r.fields["include"]) {
		if value != "reasoning.encrypted_content" {
			return refuse(fmt.Sprintf("include[%d]", i), "invalid_value", "Invalid value: '%v'.", value)
		}
	}
	limit, given := r.fields["max_output_tokens"].(float64)
	if given && limit < 16 { // UKGovernmentBEIS/inspect_evals#694
		return refuse("max_output_tokens", "integer_below_min_value",
			"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got %v instead.", limit)
	}
	return nil
}

// input checks each item by itself.
func (r Request) input(verified func(string) bool) *Refusal {
	if _, ok := r.fields["input"].(string); ok {
		return nil
	}
	items, ok := r.fields["input"].([]any)
	switch {
	case !has(r.fields, "input"):
		return missing("input")
	case !ok:
		return wrongType("input", "one of a string or array of input items", r.fields["input"])
	}
	for i, raw := range items {
		if found := r.item(fmt.Sprintf("input[%d]", i), obj(raw), verified); found != nil {
			return found
		}
	}
	return nil
}

func (r Request) item(at string, it object, verified func(string) bool) *Refusal {
	kind := itemType(it)
	fields, ok := itemFields[kind]
	if !ok {
		return refuse(at, "invalid_value", "Invalid value: '%s'. Supported values are: 'message', 'function_call', 'function_call_output', 'reasoning', and others.", kind)
	}
	if id := text(it["id"]); id != "" && !strings.HasPrefix(id, itemIDs[kind]) {
		return refuse(at+".id", "invalid_value", "Invalid '%s.id': '%s'. Expected an ID that begins with '%s'.", at, id, itemIDs[kind])
	}
	if found := unknown(at+".", it, fields...); found != nil {
		return found
	}
	switch kind {
	case "message":
		return messageItem(at, it)
	case "reasoning":
		return r.reasoningItem(at, it, verified)
	case "function_call":
		return callItem(at, it)
	}
	return first(
		func() *Refusal { return callID(at, it) },
		func() *Refusal {
			return itemContent(at+".output", it["output"], "input_text", "input_image", "input_file")
		},
	)
}

// itemType returns the type of an item. A message may leave it out.
func itemType(it object) string {
	if it["type"] == nil && has(it, "role") {
		return "message"
	}
	return text(it["type"])
}

func messageItem(at string, it object) *Refusal {
	role := text(it["role"])
	allowed := []string{"input_text", "input_image", "input_file"}
	switch {
	case role == "assistant":
		allowed = []string{"output_text", "refusal"}
	case !slices.Contains([]string{"user", "system", "developer"}, role):
		return refuse(at+".role", "invalid_value", "Invalid value: '%s'. Supported values are: 'assistant', 'system', 'developer', and 'user'.", role)
	}
	return itemContent(at+".content", it["content"], allowed...)
}

// itemContent checks a string or a list of parts. The model's parts have other
// types than the user's (jeremychone/rust-genai#119).
func itemContent(at string, content any, allowed ...string) *Refusal {
	switch content := content.(type) {
	case nil:
		return missing(at)
	case string:
		return nil
	case []any:
		for i, part := range content {
			if found := itemPart(fmt.Sprintf("%s[%d]", at, i), obj(part), allowed); found != nil {
				return found
			}
		}
		return nil
	}
	return wrongType(at, "one of an array of objects or string", content)
}

func itemPart(at string, part object, allowed []string) *Refusal {
	kind := text(part["type"])
	if !slices.Contains(allowed, kind) {
		return refuse(at, "invalid_value", "Invalid value: '%s'. Supported values are: '%s'.", kind, strings.Join(allowed, "', '"))
	}
	if kind == "input_file" {
		return itemFile(at, part)
	}
	if kind != "input_image" {
		return nil
	}
	url, ok := part["image_url"].(string)
	if !ok {
		return wrongType(at+".image_url", "an image URL", part["image_url"])
	}
	if imageURL(at, url) != nil { // openai/codex#4946
		return refuse("input", "invalid_value",
			"The image data you provided does not represent a valid image. Please check your input and try again with one of the supported image formats: ['image/jpeg', 'image/png', 'image/gif', 'image/webp'].")
	}
	return nil
}

// itemFile checks a file (openai/openai-node#1560).
func itemFile(at string, part object) *Refusal {
	if !has(part, "file_data") {
		if has(part, "file_id") || has(part, "file_url") {
			return nil
		}
		return missing(at + ".file_id")
	}
	if _, isPDF := fileURL(text(part["file_data"])); !isPDF {
		return refuse(at, "invalid_value", "The file type you uploaded is not supported. Please try again with a pdf")
	}
	return nil
}

// reasoningItem checks a reasoning item. It needs its encrypted content, because
// a server that stores nothing cannot find it (can1357/oh-my-pi#41), and the
// content must be the server's own (openai/codex#8119). It needs a summary, even
// an empty one (newo-ether/Agora#141). Readable reasoning is only for servers
// that know the type reasoning_text (musistudio/claude-code-router#1783).
func (r Request) reasoningItem(at string, it object, verified func(string) bool) *Refusal {
	content, id := text(it["encrypted_content"]), text(it["id"])
	open := len(list(it["content"]))
	switch {
	case !has(it, "summary"):
		return missing(at + ".summary")
	case open > 0 && !r.known("reasoning_text"):
		return refuse(at+".content", "array_above_max_length",
			"Invalid '%s.content': array too long. Expected an array with maximum length 0, but got an array with length %d instead.", at, open)
	case content == "" && r.fields["store"] == false:
		found := refuse("input", "",
			"Item with id '%s' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.", id)
		found.Status = http.StatusNotFound
		return found
	case content != "" && !verified(content):
		return refuse("", "invalid_encrypted_content",
			"The encrypted content %.4s...%s could not be verified. Reason: Encrypted content could not be decrypted or parsed.", content, content[max(0, len(content)-4):])
	}
	return nil
}

func callItem(at string, it object) *Refusal {
	if found := callID(at, it); found != nil {
		return found
	}
	if _, ok := it["arguments"].(string); !ok {
		if !has(it, "arguments") {
			return missing(at + ".arguments")
		}
		return wrongType(at+".arguments", "a string", it["arguments"])
	}
	return functionName(at+".name", text(it["name"]))
}

func callID(at string, it object) *Refusal {
	id := text(it["call_id"])
	switch {
	case !has(it, "call_id"):
		return missing(at + ".call_id")
	case id == "":
		return refuse(at+".call_id", "empty_string",
			"Invalid '%s.call_id': empty string. Expected a string with minimum length 1, but got an empty string instead.", at)
	case len(id) > maxItemCallID:
		return tooLong(at+".call_id", maxItemCallID, len(id))
	}
	return nil
}

// answered checks that every call has an output and every output a call
// (symgraph/GhidrAssist#78, microsoft/vscode#320060).
func (r Request) answered() *Refusal {
	called, answered := map[string]bool{}, map[string]bool{}
	for _, raw := range list(r.fields["input"]) {
		it := obj(raw)
		id := text(it["call_id"])
		switch itemType(it) {
		case "function_call":
			called[id] = true
		case "function_call_output":
			if !called[id] {
				return refuse("input", "", "No tool call found for function call output with call_id %s.", id)
			}
			answered[id] = true
		}
	}
	for _, raw := range list(r.fields["input"]) {
		if id := text(obj(raw)["call_id"]); id != "" && !answered[id] {
			return refuse("input", "", "No tool output found for function call %s.", id)
		}
	}
	return nil
}

// followed checks that an item of the model follows each reasoning item
// (continuedev/continue#8933).
func (r Request) followed() *Refusal {
	items := list(r.fields["input"])
	for i, raw := range items {
		if itemType(obj(raw)) != "reasoning" {
			continue
		}
		if i+1 < len(items) && isModels(obj(items[i+1])) {
			continue
		}
		return refuse("input", "", "Item '%s' of type 'reasoning' was provided without its required following item.", text(obj(raw)["id"]))
	}
	return nil
}

// reasoned checks that items are sent back with the reasoning that led to them
// (continuedev/continue#11994).
func (r Request) reasoned(reasoning func(id string) string) *Refusal {
	given := map[string]bool{"": true}
	for _, raw := range list(r.fields["input"]) {
		it := obj(raw)
		id := text(it["id"])
		given[id] = true
		if need := reasoning(id); !given[need] {
			return refuse("input", "", "Item '%s' of type '%s' was provided without its required 'reasoning' item: '%s'.", id, itemType(it), need)
		}
	}
	return nil
}

// isModels reports whether the model wrote the item.
func isModels(it object) bool {
	switch itemType(it) {
	case "function_call", "reasoning":
		return true
	case "message":
		return it["role"] == "assistant"
	}
	return false
}
