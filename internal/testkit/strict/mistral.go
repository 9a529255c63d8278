package strict

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
)

// mistralFields are the parameters of a chat completion in Mistral's reference,
// and stream_options, which its hosts accept too.
var mistralFields = []string{
	"frequency_penalty", "guardrails", "max_tokens", "messages", "metadata", "model", "n", "parallel_tool_calls",
	"prediction", "presence_penalty", "prompt_cache_key", "prompt_mode", "random_seed", "reasoning_effort",
	"response_format", "safe_prompt", "stop", "stream", "stream_options", "temperature", "tool_choice", "tools", "top_p",
}

// mistralMessage has the fields of a message for each role.
var mistralMessage = map[string][]string{
	"system":    {"role", "content"},
	"user":      {"role", "content"},
	"assistant": {"role", "content", "tool_calls", "prefix"},
	"tool":      {"role", "content", "name", "tool_call_id"},
}

// mistralAfter has the roles that may follow each role.
var mistralAfter = map[string][]string{
	"system":    {"system", "user", "assistant"},
	"user":      {"system", "user", "assistant"},
	"assistant": {"user", "assistant", "tool"},
	"tool":      {"assistant", "tool"},
}

var mistralCallID = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

// Mistral checks a request as Mistral's own hosts do.
func Mistral(r Request) *Refusal {
	return first(
		func() *Refusal { return extra(r.fields, mistralFields, "body") },
		r.mistralMessages,
		r.mistralOrder,
	)
}

// mistral returns a refusal in the form of Mistral's status 400
// (nearai/ironclaw#1241).
func mistral(kind, code, format string, args ...any) *Refusal {
	message := fmt.Sprintf(format, args...)
	return &Refusal{
		Status: http.StatusBadRequest, Code: code, Type: kind, Message: message,
		Body: object{"object": "error", "message": message, "type": kind, "param": nil, "code": code, "raw_status_code": http.StatusBadRequest},
	}
}

// extra refuses the first field that is not allowed, with status 422
// (charmbracelet/crush#1590, editor-code-assistant/eca#231).
func extra(o object, allowed []string, location ...any) *Refusal {
	for _, name := range sorted(o) {
		if slices.Contains(allowed, name) {
			continue
		}
		detail := object{"type": "extra_forbidden", "loc": append(location, name), "msg": "Extra inputs are not permitted", "input": o[name]}
		return &Refusal{
			Status: http.StatusUnprocessableEntity, Type: "invalid_request_error", Param: name, Message: "Extra inputs are not permitted",
			Body: object{"object": "error", "message": object{"detail": []object{detail}}, "type": "invalid_request_error", "param": nil, "code": nil},
		}
	}
	return nil
}

// mistralMessages checks each message by itself.
func (r Request) mistralMessages() *Refusal {
	for i, raw := range list(r.fields["messages"]) {
		m := obj(raw)
		role := text(m["role"])
		allowed, ok := mistralMessage[role]
		if !ok {
			continue // the rules of OpenAI refuse it
		}
		if found := extra(m, allowed, "body", "messages", i, role); found != nil {
			return found
		}
		calls := list(m["tool_calls"])
		if role == "assistant" && len(calls) == 0 && isEmpty(m["content"]) { // OpenHands/OpenHands#8685
			return mistral("invalid_request_assistant_message", "3240", "Assistant message must have either content or tool_calls, but not none.")
		}
		for _, call := range calls {
			if found := mistralID(text(obj(call)["id"])); found != nil {
				return found
			}
		}
		if role == "tool" {
			if found := mistralID(text(m["tool_call_id"])); found != nil {
				return found
			}
		}
	}
	return nil
}

func isEmpty(content any) bool {
	return text(content) == "" && len(list(content)) == 0
}

func mistralID(id string) *Refusal {
	if mistralCallID.MatchString(id) {
		return nil
	}
	return mistral("invalid_function_call", "3280", "Tool call id was %s but must be a-z, A-Z, 0-9, with a length of 9.", id)
}

// mistralOrder checks the order of roles (avante-corp/avante.nvim#2695) and the
// role of the last message (0xPlaygrounds/rig#1130).
func (r Request) mistralOrder() *Refusal {
	const kind, code = "invalid_request_message_order", "3230"
	messages := list(r.fields["messages"])
	before := ""
	open := 0
	for _, raw := range messages {
		m := obj(raw)
		role := text(m["role"])
		if before != "" && !slices.Contains(mistralAfter[before], role) {
			return mistral(kind, code, "Unexpected role '%s' after role '%s'", role, before)
		}
		if role == "tool" {
			open--
		} else if open != 0 {
			return mistral(kind, code, "Not the same number of function calls and responses")
		}
		open += len(list(m["tool_calls"]))
		before = role
	}
	switch {
	case open != 0:
		return mistral(kind, code, "Not the same number of function calls and responses")
	case before == "assistant" && obj(messages[len(messages)-1])["prefix"] != true, before == "system":
		return mistral(kind, code, "Expected last role User or Tool (or Assistant with prefix True) for serving but got %s", before)
	}
	return nil
}
