// Package responses translates between the chat format, in which conversations
// are kept, and OpenAI's Responses API. It does no I/O: it turns messages into
// input items, parameters into parameters, and the events of an answer into a
// [chatstream.Answer].
//
// The two formats differ in what an answer is. In chat it is one message; here
// it is a list of items: reasoning, pieces of text, calls. The field [Kept] of
// the chat message keeps what the rest of it cannot express: the reasoning, in
// the encrypted form that only the server reads, and the ids and order of the
// items. A model that gets its reasoning back continues its thoughts. The
// reasoning is sent back only to the model that wrote it, and only if nobody has
// changed the message, since a server checks that reasoning and what followed it
// belong together.
package responses

import (
	"bytes"
	"encoding/json"

	"github.com/x/pygent/internal/jsonobj"
)

// The types of items that have a counterpart in chat messages.
const (
	typeMessage   = "message"
	typeCall      = "function_call"
	typeOutput    = "function_call_output"
	typeReasoning = "reasoning"
)

// betweenTexts separates the texts of an answer's messages in the chat message.
const betweenTexts = "\n\n"

// encode returns v's JSON, without escapes that only HTML needs.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// text returns the string that raw holds, and "" if it holds none.
func text(raw json.RawMessage) string { return jsonobj.Text(raw) }

// present reports whether raw is a value other than null.
func present(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && string(raw) != "null"
}

// empty reports whether raw is absent, null, or an empty list, object or string.
func empty(raw json.RawMessage) bool {
	switch raw = bytes.TrimSpace(raw); string(raw) {
	case "", "null", "[]", "{}", `""`:
		return true
	}
	return false
}
