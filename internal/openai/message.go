package openai

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync/atomic"

	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/openai/responses"
)

// The roles of messages that matter here.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
	roleTool      = "tool"
)

// Message is a message of a conversation in the format of chat completions,
// with what is needed to send it in other forms. It is made only once for each
// message, since every call sends all messages. It is safe for concurrent use.
type Message struct {
	json    []byte
	role    string
	callID  string // the call that a tool message answers
	content json.RawMessage
	media   media
	fields  []field // those that chat completions do not know, such as reasoning_content
	calls   []toolCall
	bare    bool // no server wants it otherwise: see isBare

	// other is the form in which it was last sent, if that differs from encoded.
	other atomic.Pointer[variant]
}

// field is a field of an object, a part of the JSON that it was read from.
type field struct {
	name  string
	value json.RawMessage
}

// toolCall is a call of an assistant message.
type toolCall struct {
	id       string
	function json.RawMessage
	fields   []field // the others
}

type variant struct {
	key  string
	json []byte
}

// NewMessage returns the message whose valid JSON is encoded. It keeps the
// bytes.
func NewMessage(encoded []byte) *Message {
	m := &Message{json: encoded}
	for name, value := range jsonobj.Members(encoded) {
		switch string(name) {
		case "role":
			m.role = jsonobj.Text(value)
		case "tool_call_id":
			m.callID = jsonobj.Text(value)
		case "content":
			m.content = value
		case "name":
		case "tool_calls":
			for call := range jsonobj.Elements(value) {
				m.calls = append(m.calls, readCall(call))
			}
		default:
			m.fields = append(m.fields, field{string(name), value})
		}
	}
	for part := range jsonobj.Elements(m.content) {
		m.media |= mediaOf(part)
	}
	m.bare = m.isBare()
	return m
}

func readCall(raw json.RawMessage) (c toolCall) {
	for name, value := range jsonobj.Members(raw) {
		switch string(name) {
		case "id":
			c.id = jsonobj.Text(value)
		case "type":
		case "function":
			c.function = value
		default:
			c.fields = append(c.fields, field{string(name), value})
		}
	}
	return c
}

// variant returns the form of the message for key. It calls encode unless that
// form is the last one made.
func (m *Message) variant(key string, encode func() ([]byte, error)) ([]byte, error) {
	if v := m.other.Load(); v != nil && v.key == key {
		return v.json, nil
	}
	b, err := encode()
	if err != nil {
		return nil, err
	}
	m.other.Store(&variant{key: key, json: b})
	return b, nil
}

// isBare reports whether the message can be sent as it is kept, unless a server
// needs another form: it has nothing that only the Responses API understands,
// no unknown field without a value, and no refusal instead of text.
func (m *Message) isBare() bool {
	if has(m.fields, responses.Kept) || has(m.fields, inlineReasoning) || slices.ContainsFunc(m.fields, field.isEmpty) || m.refusalAlone() != nil {
		return false
	}
	return !slices.ContainsFunc(m.calls, func(c toolCall) bool { return slices.ContainsFunc(c.fields, field.isEmpty) })
}

// refusalAlone returns the refusal of a message that has no other content. It
// is sent as text, since some servers refuse an answer without any.
func (m *Message) refusalAlone() json.RawMessage {
	if m.role != roleAssistant || len(m.calls) > 0 || string(m.content) != `""` {
		return nil
	}
	for _, f := range m.fields {
		if f.name == "refusal" && f.value[0] == '"' && string(f.value) != `""` {
			return f.value
		}
	}
	return nil
}

// isEmpty reports whether a field has no value. Servers write such fields for
// everything they know, and refuse them when they come back. Empty reasoning is
// a value: Moonshot and DeepSeek refuse calls without the field.
func (f field) isEmpty() bool { return isEmptyField(f.name, f.value) }

func isEmptyField(name string, raw json.RawMessage) bool {
	switch raw = bytes.TrimSpace(raw); string(raw) {
	case "", "null", "[]", "{}":
		return true
	case `""`:
		return !slices.Contains(reasoningFields, name)
	}
	return false
}

func has(fields []field, name string) bool {
	return slices.ContainsFunc(fields, func(f field) bool { return f.name == name })
}

// memberOf returns a member of an object, and nil if there is none.
func memberOf(object json.RawMessage, name string) (found json.RawMessage) {
	for n, value := range jsonobj.Members(object) {
		if string(n) == name {
			found = value
		}
	}
	return found
}

// imageOf returns the URL of the image that a part of a message is.
func imageOf(part json.RawMessage) string {
	return jsonobj.Text(memberOf(memberOf(part, "image_url"), "url"))
}
