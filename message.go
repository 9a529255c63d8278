package pygent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"unicode/utf8"

	"github.com/x/pygent/internal/openai"
)

// Role tells who wrote a message.
type Role string

// The roles of OpenAI's chat format.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one message of a conversation. Its JSON is that of OpenAI's chat
// completions API (https://platform.openai.com/docs/api-reference/chat), and
// fields that this package does not know survive a round trip unchanged.
//
// Messages are passed by value, and their slices and maps are shared by the
// copies. A history takes and hands out messages that share nothing with its
// own; those that an agent hands to a model or to a handler are to be read only.
type Message struct {
	Role       Role
	Content    string     // the text; ignored when Parts is not empty
	Parts      []Part     // text and images
	ToolCalls  []ToolCall // the tools an assistant message calls
	ToolCallID string     // the call that a tool message answers
	Name       string     // who speaks, where several do

	// Extra holds the fields this package does not know, such as
	// "reasoning_content", each as it was received.
	Extra map[string]json.RawMessage

	enc *encodedMessage
}

// Part is a piece of a message's content.
type Part struct {
	Text     string // of a text part
	ImageURL string // of an image part: an https or data URL

	// The part as it was received, and what it said then: a part that was
	// changed since is written anew.
	raw             json.RawMessage
	rawText, rawURL string
}

// ToolCall is a model's request to run a tool.
type ToolCall struct {
	ID        string
	Name      string
	Arguments string // JSON text, as the model wrote it: it may be invalid

	// Extra holds the fields this package does not know, each as received.
	Extra map[string]json.RawMessage
}

// SystemMessage returns a system message.
func SystemMessage(text string) Message { return Message{Role: RoleSystem, Content: text} }

// UserMessage returns a message of the user.
func UserMessage(text string) Message { return Message{Role: RoleUser, Content: text} }

// AssistantMessage returns a message of the model, with the tools it calls.
func AssistantMessage(text string, calls ...ToolCall) Message {
	return Message{Role: RoleAssistant, Content: text, ToolCalls: calls}
}

// ToolMessage returns the result of the tool call with the given id.
func ToolMessage(callID, result string) Message {
	return Message{Role: RoleTool, ToolCallID: callID, Content: result}
}

// Text returns the message's text, that of its parts joined.
func (m Message) Text() string {
	if len(m.Parts) == 0 {
		return m.Content
	}
	var b bytes.Buffer
	for _, p := range m.Parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// HasImages reports whether a part of the message is an image.
func (m Message) HasImages() bool {
	return slices.ContainsFunc(m.Parts, func(p Part) bool { return p.ImageURL != "" })
}

// clone returns a copy that shares no slice and no map with m.
func (m Message) clone() Message {
	m.Parts = slices.Clone(m.Parts)
	m.Extra = cloneFields(m.Extra)
	if len(m.ToolCalls) > 0 {
		m.ToolCalls = slices.Clone(m.ToolCalls)
		for i := range m.ToolCalls {
			m.ToolCalls[i].Extra = cloneFields(m.ToolCalls[i].Extra)
		}
	}
	return m
}

func cloneMessages(msgs []Message) []Message {
	msgs = slices.Clone(msgs)
	for i := range msgs {
		msgs[i] = msgs[i].clone()
	}
	return msgs
}

func cloneFields(fields map[string]json.RawMessage) map[string]json.RawMessage {
	if fields == nil {
		return nil
	}
	clone := make(map[string]json.RawMessage, len(fields))
	for name, raw := range fields {
		clone[name] = bytes.Clone(raw)
	}
	return clone
}

// encodedMessage is a message's JSON together with the message it was made
// from, so that a changed copy is noticed and encoded anew.
type encodedMessage struct {
	src  Message
	json []byte
	sent atomic.Pointer[openai.Message] // what servers with OpenAI's APIs get, once it was sent
}

// forOpenAI returns the message as it is sent to servers with OpenAI's APIs.
func (e *encodedMessage) forOpenAI() *openai.Message {
	if m := e.sent.Load(); m != nil {
		return m
	}
	e.sent.CompareAndSwap(nil, openai.NewMessage(e.json))
	return e.sent.Load()
}

// encoded returns m with its JSON kept, for messages that are sent many times.
func (m Message) encoded() (Message, error) {
	if m.enc != nil && m.enc.src.same(m) {
		return m, nil
	}
	m.enc = nil
	b, err := m.marshal()
	if err != nil {
		return m, err
	}
	m.enc = &encodedMessage{src: m, json: b}
	return m, nil
}

// same reports whether n encodes to the same JSON as m. It is cheap for a copy
// of m: equal strings that share their bytes compare in constant time.
func (m Message) same(n Message) bool {
	return m.Role == n.Role && m.Content == n.Content &&
		m.ToolCallID == n.ToolCallID && m.Name == n.Name &&
		slices.EqualFunc(m.Parts, n.Parts, func(a, b Part) bool {
			return a.Text == b.Text && a.ImageURL == b.ImageURL && sameBytes(a.raw, b.raw)
		}) &&
		slices.EqualFunc(m.ToolCalls, n.ToolCalls, func(a, b ToolCall) bool {
			return a.ID == b.ID && a.Name == b.Name && a.Arguments == b.Arguments && maps.EqualFunc(a.Extra, b.Extra, sameBytes)
		}) &&
		maps.EqualFunc(m.Extra, n.Extra, sameBytes)
}

func sameBytes(a, b json.RawMessage) bool { return bytes.Equal(a, b) }

// MarshalJSON encodes the message in OpenAI's chat format. Equal messages give
// equal bytes.
func (m Message) MarshalJSON() ([]byte, error) {
	m, err := m.encoded()
	if err != nil {
		return nil, err
	}
	return bytes.Clone(m.enc.json), nil
}

// marshal encodes m. What servers sent may hold bytes that are no UTF-8, and no
// reader takes those.
func (m Message) marshal() ([]byte, error) {
	b, err := m.object()
	if err == nil && !utf8.Valid(b) {
		b = bytes.ToValidUTF8(b, []byte("\ufffd"))
	}
	return b, err
}

func (m Message) object() ([]byte, error) {
	w := objectWriter{}
	w.text("role", string(m.Role))
	switch {
	case len(m.Parts) > 0:
		w.field("content", m.Parts)
	case m.Content == "" && len(m.ToolCalls) > 0:
		w.raw("content", []byte("null"))
	default:
		w.text("content", m.Content)
	}
	if m.Name != "" {
		w.text("name", m.Name)
	}
	if len(m.ToolCalls) > 0 {
		w.calls(m.ToolCalls)
	}
	if m.ToolCallID != "" {
		w.text("tool_call_id", m.ToolCallID)
	}
	w.extra(m.Extra)
	return w.done()
}

// UnmarshalJSON decodes a message of OpenAI's chat format. Arguments given as
// an object instead of a string are accepted.
func (m *Message) UnmarshalJSON(data []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return fmt.Errorf("message: %w", err)
	}
	*m = Message{}
	r := objectReader{fields: fields}
	r.field("role", &m.Role)
	r.field("name", &m.Name)
	r.field("tool_call_id", &m.ToolCallID)
	r.field("tool_calls", &m.ToolCalls)
	if content := r.take("content"); len(content) > 0 {
		if content[0] == '[' {
			r.decode("content", content, &m.Parts)
		} else {
			r.decode("content", content, &m.Content)
		}
	}
	m.Extra = r.rest()
	if r.err != nil {
		return fmt.Errorf("message: %w", r.err)
	}
	if m.Role == "" {
		return fmt.Errorf("message: no role")
	}
	return nil
}

// MarshalJSON encodes the part in OpenAI's chat format.
func (p Part) MarshalJSON() ([]byte, error) {
	if p.raw != nil && p.Text == p.rawText && p.ImageURL == p.rawURL {
		return bytes.Clone(p.raw), nil
	}
	w := objectWriter{}
	if p.ImageURL != "" {
		w.text("type", "image_url")
		w.field("image_url", map[string]string{"url": p.ImageURL})
	} else {
		w.text("type", "text")
		w.text("text", p.Text)
	}
	return w.done()
}

// UnmarshalJSON decodes a part, keeping one of an unknown type as it is.
func (p *Part) UnmarshalJSON(data []byte) error {
	var in struct {
		Text     string
		ImageURL struct{ URL string } `json:"image_url"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("content part: %w", err)
	}
	*p = Part{Text: in.Text, ImageURL: in.ImageURL.URL, raw: bytes.Clone(data)}
	p.rawText, p.rawURL = p.Text, p.ImageURL
	return nil
}

// isOther reports whether the part is neither text nor an image, but something
// that this package does not know.
func (p Part) isOther() bool {
	var in struct{ Type string }
	return p.raw != nil && p.ImageURL == "" && json.Unmarshal(p.raw, &in) == nil && in.Type != "text"
}

// MarshalJSON encodes the call in OpenAI's chat format.
func (c ToolCall) MarshalJSON() ([]byte, error) {
	w := objectWriter{}
	w.call(c)
	return w.done()
}

// UnmarshalJSON decodes a call of OpenAI's chat format.
func (c *ToolCall) UnmarshalJSON(data []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return fmt.Errorf("tool call: %w", err)
	}
	var function struct {
		Name      string
		Arguments json.RawMessage
	}
	*c = ToolCall{}
	r := objectReader{fields: fields}
	r.take("type")
	r.field("id", &c.ID)
	r.field("function", &function)
	c.Extra = r.rest()
	if r.err != nil {
		return fmt.Errorf("tool call: %w", r.err)
	}
	c.Name = function.Name
	args := function.Arguments
	if len(args) > 0 && args[0] == '"' {
		return json.Unmarshal(args, &c.Arguments)
	}
	if !bytes.Equal(args, []byte("null")) {
		c.Arguments = string(args)
	}
	return nil
}

// objectWriter builds a JSON object whose fields keep the order of the calls.
// Every step of every agent encodes messages, so what is common is written
// without reflection.
type objectWriter struct {
	buf bytes.Buffer
	err error
}

// name begins a field. The name is one of ours and needs no escapes.
func (w *objectWriter) name(name string) {
	switch b := w.buf.Bytes(); {
	case len(b) == 0:
		w.buf.WriteByte('{')
	case b[len(b)-1] != '{':
		w.buf.WriteByte(',')
	}
	w.buf.WriteByte('"')
	w.buf.WriteString(name)
	w.buf.WriteString(`":`)
}

// raw writes a field that is JSON already.
func (w *objectWriter) raw(name string, value []byte) {
	w.name(name)
	w.buf.Write(value)
}

// text writes a field that is a string.
func (w *objectWriter) text(name, value string) {
	w.name(name)
	w.quote(value)
}

func (w *objectWriter) quote(s string) {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x80 || c == '"' || c == '\\' {
			w.value(s)
			return
		}
	}
	w.buf.WriteByte('"')
	w.buf.WriteString(s)
	w.buf.WriteByte('"')
}

func (w *objectWriter) field(name string, value any) {
	w.name(name)
	w.value(value)
}

func (w *objectWriter) value(value any) {
	enc := json.NewEncoder(&w.buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		w.err = cmp.Or(w.err, err)
		return
	}
	w.buf.Truncate(w.buf.Len() - 1) // the encoder's newline
}

func (w *objectWriter) calls(calls []ToolCall) {
	w.name("tool_calls")
	w.buf.WriteByte('[')
	for i, c := range calls {
		if i > 0 {
			w.buf.WriteByte(',')
		}
		w.call(c)
		w.buf.WriteByte('}')
	}
	w.buf.WriteByte(']')
}

// call writes a tool call but for the brace that closes it.
func (w *objectWriter) call(c ToolCall) {
	w.buf.WriteByte('{')
	w.text("id", c.ID)
	w.text("type", "function")
	w.name("function")
	w.buf.WriteByte('{')
	w.text("name", c.Name)
	w.text("arguments", c.Arguments)
	w.buf.WriteByte('}')
	w.extra(c.Extra)
}

// extra writes unknown fields, sorted so that equal objects give equal bytes.
func (w *objectWriter) extra(fields map[string]json.RawMessage) {
	if len(fields) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		w.buf.WriteByte(',')
		w.value(name)
		w.buf.WriteByte(':')
		w.value(fields[name])
	}
}

func (w *objectWriter) done() ([]byte, error) {
	if w.err != nil {
		return nil, w.err
	}
	w.buf.WriteByte('}')
	return w.buf.Bytes(), nil
}

// objectReader takes known fields out of a JSON object. Null counts as absent.
type objectReader struct {
	fields map[string]json.RawMessage
	err    error
}

func (r *objectReader) take(name string) json.RawMessage {
	raw := r.fields[name]
	delete(r.fields, name)
	if bytes.Equal(raw, []byte("null")) {
		return nil
	}
	return raw
}

func (r *objectReader) field(name string, into any) {
	if raw := r.take(name); raw != nil {
		r.decode(name, raw, into)
	}
}

func (r *objectReader) decode(name string, raw json.RawMessage, into any) {
	if err := json.Unmarshal(raw, into); err != nil && r.err == nil {
		r.err = fmt.Errorf("%s: %w", name, err)
	}
}

func (r *objectReader) rest() map[string]json.RawMessage {
	if len(r.fields) == 0 {
		return nil
	}
	return r.fields
}
