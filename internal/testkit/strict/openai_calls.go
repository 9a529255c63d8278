package strict

import (
	"fmt"
	"slices"
	"strings"
)

// toolCalls checks the calls of a message. An empty list is refused
// (chatboxai/chatbox#2079), as are ids of more than 40 characters
// (microsoft/autogen#6377). Arguments need not be JSON, since models make
// mistakes there.
func (r Request) toolCalls(at string, m object) *Refusal {
	if !has(m, "tool_calls") {
		return nil
	}
	calls, ok := m["tool_calls"].([]any)
	if !ok {
		return wrongType(at+".tool_calls", "an array of objects", m["tool_calls"])
	}
	if len(calls) == 0 {
		return emptyArray(at + ".tool_calls")
	}
	for j, c := range calls {
		if found := r.toolCall(fmt.Sprintf("%s.tool_calls[%d]", at, j), obj(c)); found != nil {
			return found
		}
	}
	return nil
}

func (r Request) toolCall(at string, c object) *Refusal {
	function := obj(c["function"])
	_, isText := function["arguments"].(string)
	switch {
	case text(c["id"]) == "":
		return missing(at + ".id")
	case len(text(c["id"])) > maxCallID:
		return tooLong(at+".id", maxCallID, len(text(c["id"])))
	case text(c["type"]) == "":
		return missing(at + ".type")
	case function == nil:
		return missing(at + ".function")
	case !has(function, "arguments"):
		return missing(at + ".function.arguments")
	case !isText:
		return wrongType(at+".function.arguments", "a string", function["arguments"])
	}
	return first(
		func() *Refusal { return unknown(at+".", r.without(c), "id", "type", "function", "custom") },
		func() *Refusal { return unknown(at+".function.", function, "name", "arguments") },
		func() *Refusal { return functionName(at+".function.name", text(function["name"])) },
	)
}

// order checks that every call has a result right after its message, and that
// every result has a call (sdcb/chats#132).
func (r Request) order() *Refusal {
	var open []string
	var found *Refusal
	messages := list(r.fields["messages"])
	for i, raw := range messages {
		m := obj(raw)
		switch {
		case m["role"] == "tool":
			open, found = answer(i, m, open)
		case len(open) > 0:
			found = unanswered(i, open)
		default:
			open, found = calledIn(i, m)
		}
		if found != nil {
			return found
		}
	}
	if len(open) > 0 {
		return unanswered(len(messages), open)
	}
	return nil
}

// answer removes the call that message i answers from the open ones.
func answer(i int, m object, open []string) ([]string, *Refusal) {
	if !has(m, "tool_call_id") {
		return nil, missing(fmt.Sprintf("messages[%d].tool_call_id", i))
	}
	at := slices.Index(open, text(m["tool_call_id"]))
	if at < 0 {
		return nil, refuse(fmt.Sprintf("messages.[%d].role", i), "",
			"Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.")
	}
	return slices.Delete(open, at, at+1), nil
}

// calledIn returns the ids of the calls in message i.
func calledIn(i int, m object) ([]string, *Refusal) {
	var ids []string
	for _, c := range list(m["tool_calls"]) {
		id := text(obj(c)["id"])
		if slices.Contains(ids, id) {
			return nil, refuse(fmt.Sprintf("messages[%d].tool_calls", i), "invalid_value", "Duplicate value for 'tool_call_id' of '%s' in messages[%d].", id, i)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func unanswered(i int, ids []string) *Refusal {
	return refuse(fmt.Sprintf("messages.[%d].role", i), "",
		"An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "+
			"The following tool_call_ids did not have response messages: %s", strings.Join(ids, ", "))
}
