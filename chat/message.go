package chat

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/mediabudget"
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
// Messages are passed by value, and the copies share their slices and maps. A
// history takes and returns copies that share nothing with its own messages. A
// model or a handler must not modify the messages that an agent gives it.
type Message struct {
	Role       Role
	Content    string     // the text; ignored when Parts is not empty
	Parts      []Part     // text, images and files
	ToolCalls  []ToolCall // the tools an assistant message calls
	ToolCallID string     // the call that a tool message answers
	Name       string     // who speaks, where several do

	// Extra holds the fields this package does not know, such as
	// "reasoning_content", each as it was received.
	Extra map[string]json.RawMessage

	enc *encodedMessage
}

// Part is a piece of a message's content: a text, an image, a file or a
// recording. [Attach] and [FilePart] make parts of files.
type Part struct {
	Text     string // of a text part
	ImageURL string // of an image part: an https or data URL
	FileName string // of a file part: its name, such as "report.pdf"
	FileURL  string // of a file part: a data URL
	AudioURL string // of a recording: a data URL of type audio/wav or audio/mpeg

	// The part as it was received, and what its fields were then: a part that
	// was changed since is encoded anew.
	raw  json.RawMessage
	read partFields
}

// partFields are the fields of a part, for comparing them.
type partFields struct{ text, imageURL, fileName, fileURL, audioURL string }

func (p *Part) fields() partFields {
	return partFields{p.Text, p.ImageURL, p.FileName, p.FileURL, p.AudioURL}
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

// UserMessage returns a message of the user: a text, which may be empty, and the
// parts that go with it.
func UserMessage(text string, parts ...Part) Message {
	if len(parts) == 0 {
		return Message{Role: RoleUser, Content: text}
	}
	if text != "" {
		parts = slices.Insert(slices.Clone(parts), 0, Part{Text: text})
	}
	return Message{Role: RoleUser, Parts: parts}
}

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

// HasFiles reports whether a part of the message is a PDF file or a recording.
func (m Message) HasFiles() bool {
	return slices.ContainsFunc(m.Parts, func(p Part) bool { return p.ImageURL == "" && p.MediaURL() != "" })
}

// Clone returns a copy that shares no slice and no map with m.
func (m Message) Clone() Message {
	m.Parts = slices.Clone(m.Parts)
	m.Extra = jsonobj.Clone(m.Extra)
	if len(m.ToolCalls) > 0 {
		m.ToolCalls = slices.Clone(m.ToolCalls)
		for i := range m.ToolCalls {
			m.ToolCalls[i].Extra = jsonobj.Clone(m.ToolCalls[i].Extra)
		}
	}
	return m
}

func cloneMessages(msgs []Message) []Message {
	msgs = slices.Clone(msgs)
	for i := range msgs {
		msgs[i] = msgs[i].Clone()
	}
	return msgs
}

// encodedMessage is a message's JSON together with the message it was made
// from, so that a changed copy is noticed and encoded anew.
type encodedMessage struct {
	src     Message
	size    int                            // of the JSON
	json    atomic.Pointer[[]byte]         // nil after release
	sent    atomic.Pointer[openai.Message] // the message as servers with OpenAI's APIs get it; set when it is first sent
	evicted *evicted                       // set for what is left of a message in memory; then there is no src
}

// text returns the JSON.
func (e *encodedMessage) text() []byte {
	if b := e.json.Load(); b != nil {
		return *b
	}
	b, _ := e.src.marshal() // it had JSON before
	return b
}

// release drops the JSON of a message that is not sent any more. It is made anew
// when somebody wants it.
func (e *encodedMessage) release() {
	if e != nil {
		e.json.Store(nil)
		e.sent.Store(nil)
	}
}

// forOpenAI returns the message as it is sent to servers with OpenAI's APIs.
func (e *encodedMessage) forOpenAI() *openai.Message {
	if m := e.sent.Load(); m != nil {
		return m
	}
	m := openai.NewMessage(e.text())
	if e.sent.CompareAndSwap(nil, m) {
		return m
	}
	return cmp.Or(e.sent.Load(), m)
}

// encoded returns m with its JSON attached, for messages that are sent many
// times.
func (m Message) encoded() (Message, error) {
	if m.isEncoded() {
		return m, nil
	}
	m.enc = nil
	b, err := m.marshal()
	if err != nil {
		return m, err
	}
	m.enc = &encodedMessage{src: m, size: len(b)}
	m.enc.json.Store(&b)
	return m, nil
}

// isEncoded reports whether m has its JSON.
func (m *Message) isEncoded() bool { return m.enc != nil && m.enc.src.same(m) }

// same reports whether n encodes to the same JSON as m. It is cheap for a copy
// of m: strings that share their bytes compare in constant time, and slices that share
// their elements need no look at them. Each request asks this of all messages.
func (m *Message) same(n *Message) bool {
	return m.Role == n.Role && m.Content == n.Content &&
		m.ToolCallID == n.ToolCallID && m.Name == n.Name &&
		sameElements(m.Parts, n.Parts, func(a, b *Part) bool {
			return a.fields() == b.fields() && bytes.Equal(a.raw, b.raw)
		}) &&
		sameElements(m.ToolCalls, n.ToolCalls, func(a, b *ToolCall) bool {
			return a.ID == b.ID && a.Name == b.Name && a.Arguments == b.Arguments && jsonobj.Equal(a.Extra, b.Extra)
		}) &&
		jsonobj.Equal(m.Extra, n.Extra)
}

// sameElements is [slices.EqualFunc] without copies of the elements.
func sameElements[T any](a, b []T, same func(a, b *T) bool) bool {
	if len(a) != len(b) {
		return false
	}
	if len(a) == 0 || &a[0] == &b[0] {
		return true
	}
	for i := range a {
		if !same(&a[i], &b[i]) {
			return false
		}
	}
	return true
}

// MarshalJSON encodes the message in OpenAI's chat format. Equal messages give
// equal bytes.
func (m Message) MarshalJSON() ([]byte, error) {
	m, err := m.encoded()
	if err != nil {
		return nil, err
	}
	return bytes.Clone(m.enc.text()), nil
}

// marshal encodes m. What servers have sent may be no text that readers accept.
func (m Message) marshal() ([]byte, error) {
	b, err := m.object()
	if err != nil {
		return nil, err
	}
	return jsonobj.Readable(b), nil
}

// hasRaw reports whether a part of the message is JSON that it was given. All else has
// JSON.
func (m *Message) hasRaw() bool {
	return len(m.Parts) > 0 || len(m.Extra) > 0 ||
		slices.ContainsFunc(m.ToolCalls, func(c ToolCall) bool { return len(c.Extra) > 0 })
}

// sizeGuess is about the size of the message's JSON, which is kept: so it is not much
// more than that.
func (m *Message) sizeGuess() int {
	const own, ofCall = 64, 96 // bytes of names and what is around them
	size := own + len(m.ToolCallID) + len(m.Content) + len(m.Content)/16
	for i := range m.ToolCalls {
		call := &m.ToolCalls[i]
		size += ofCall + len(call.Name) + len(call.Arguments) + len(call.Arguments)/16
	}
	return size
}

func (m Message) object() ([]byte, error) {
	var w jsonobj.Writer
	w.Grow(m.sizeGuess())
	w.Text("role", string(m.Role))
	switch {
	case len(m.Parts) > 0:
		w.Field("content", m.Parts)
	case m.Content == "" && len(m.ToolCalls) > 0:
		w.Raw("content", []byte("null"))
	default:
		w.Text("content", m.Content)
	}
	w.OptionalText("name", m.Name)
	if len(m.ToolCalls) > 0 {
		w.Begin("tool_calls", '[')
		for i := range m.ToolCalls {
			w.Element()
			m.ToolCalls[i].write(&w)
			w.End('}')
		}
		w.End(']')
	}
	w.OptionalText("tool_call_id", m.ToolCallID)
	w.Rest(m.Extra)
	return w.Done()
}

// UnmarshalJSON decodes a message of OpenAI's chat format. Arguments given as
// an object instead of a string are accepted.
func (m *Message) UnmarshalJSON(data []byte) error {
	r, err := jsonobj.Read(data)
	if err != nil {
		return fmt.Errorf("message: %w", err)
	}
	*m = Message{}
	r.Field("role", (*string)(&m.Role))
	r.Field("name", &m.Name)
	r.Field("tool_call_id", &m.ToolCallID)
	r.Field("tool_calls", &m.ToolCalls)
	if content := r.Take("content"); len(content) > 0 {
		if content[0] == '[' {
			r.Decode("content", content, &m.Parts)
		} else {
			r.Decode("content", content, &m.Content)
		}
	}
	m.Extra = r.Rest()
	if err := r.Err(); err != nil {
		return fmt.Errorf("message: %w", err)
	}
	if m.Role == "" {
		return fmt.Errorf("message: no role")
	}
	return nil
}

// MarshalJSON encodes the part in OpenAI's chat format.
func (p Part) MarshalJSON() ([]byte, error) {
	if p.raw != nil && p.fields() == p.read {
		return bytes.Clone(p.raw), nil
	}
	var w jsonobj.Writer
	switch {
	case p.ImageURL != "":
		w.Text("type", "image_url")
		w.Field("image_url", map[string]string{"url": p.ImageURL})
	case p.FileURL != "":
		w.Text("type", "file")
		w.Field("file", map[string]string{"filename": p.FileName, "file_data": p.FileURL})
	case p.AudioURL != "":
		format, data := mediabudget.ChatAudio(p.AudioURL)
		w.Text("type", "input_audio")
		w.Field("input_audio", map[string]string{"data": data, "format": format})
	default:
		w.Text("type", "text")
		w.Text("text", p.Text)
	}
	return w.Done()
}

// UnmarshalJSON decodes a part, keeping one of an unknown type as it is.
func (p *Part) UnmarshalJSON(data []byte) error {
	var in struct {
		Text     string
		ImageURL struct{ URL string } `json:"image_url"`
		File     struct {
			Name string `json:"filename"`
			Data string `json:"file_data"`
		}
		Audio json.RawMessage `json:"input_audio"` // of any form; only ours is understood
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("content part: %w", err)
	}
	*p = Part{Text: in.Text, ImageURL: in.ImageURL.URL, FileName: in.File.Name, FileURL: in.File.Data, raw: bytes.Clone(data)}
	var audio struct{ Data, Format string }
	if in.Audio != nil && json.Unmarshal(in.Audio, &audio) == nil && audio.Data != "" {
		p.AudioURL = mediabudget.AudioURL(audio.Format, audio.Data)
	}
	p.read = p.fields()
	return nil
}

// isOther reports whether the part is neither text nor an image, but a file, a
// recording or something that this package does not know.
func (p Part) isOther() bool {
	if p.FileURL != "" || p.AudioURL != "" {
		return true
	}
	var in struct{ Type string }
	return p.raw != nil && p.ImageURL == "" && json.Unmarshal(p.raw, &in) == nil && in.Type != "text"
}

// MarshalJSON encodes the call in OpenAI's chat format.
func (c ToolCall) MarshalJSON() ([]byte, error) {
	var w jsonobj.Writer
	c.write(&w)
	return w.Done()
}

// write writes the fields of the call.
func (c *ToolCall) write(w *jsonobj.Writer) {
	w.Text("id", c.ID)
	w.Text("type", "function")
	w.Begin("function", '{')
	w.Text("name", c.Name)
	w.Text("arguments", c.Arguments)
	w.End('}')
	w.Rest(c.Extra)
}

// UnmarshalJSON decodes a call of OpenAI's chat format.
func (c *ToolCall) UnmarshalJSON(data []byte) error {
	r, err := jsonobj.Read(data)
	if err != nil {
		return fmt.Errorf("tool call: %w", err)
	}
	var function struct {
		Name      string
		Arguments json.RawMessage
	}
	*c = ToolCall{}
	r.Take("type")
	r.Field("id", &c.ID)
	r.Field("function", &function)
	c.Extra = r.Rest()
	if err := r.Err(); err != nil {
		return fmt.Errorf("tool call: %w", err)
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

// sizeInJSON is the size of a message that has its JSON.
func sizeInJSON(m Message) int {
	if m.enc == nil {
		return 0
	}
	return m.enc.size
}

// IsEmpty reports whether a message that is not a result has neither text
// nor image nor call. The model's reasoning alone cannot be sent back, so it
// counts as nothing; a refusal counts.
func (m Message) IsEmpty() bool {
	if strings.TrimSpace(m.Text()) != "" || m.HasImages() {
		return false
	}
	if m.Role != RoleAssistant {
		return !slices.ContainsFunc(m.Parts, Part.isOther)
	}
	return len(m.ToolCalls) == 0 &&
		jsonobj.IsNull(m.Extra["refusal"]) && jsonobj.IsNull(m.Extra["audio"]) && jsonobj.IsNull(m.Extra["function_call"])
}
