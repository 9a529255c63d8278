package responses

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Input turns chat messages into input items.
type Input struct {
	Model     string // as it is requested
	Reasoning bool   // whether to send reasoning back to the model that wrote it
}

// chatMessage has the fields of a chat message that are read.
type chatMessage struct {
	Role       string
	Content    json.RawMessage
	Refusal    json.RawMessage
	ToolCalls  []chatCall      `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
	Kept       json.RawMessage `json:"openai_response"`
}

type chatCall struct {
	ID       string
	Function struct{ Name, Arguments string }
}

type chatPart struct {
	Type     string
	Text     string
	Refusal  string
	ImageURL struct{ URL, Detail string } `json:"image_url"`
	File     struct {
		ID   string `json:"file_id"`
		Name string `json:"filename"`
		Data string `json:"file_data"`
	}
}

// The items and parts of the API's input.
type (
	messageItem struct {
		Type    string `json:"type"`
		ID      string `json:"id,omitempty"`
		Role    string `json:"role"`
		Status  string `json:"status,omitempty"`
		Content any    `json:"content"`
		Phase   string `json:"phase,omitempty"`
	}
	callItem struct {
		Type      string `json:"type"`
		ID        string `json:"id,omitempty"`
		CallID    string `json:"call_id"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	outputItem struct {
		Type   string `json:"type"`
		CallID string `json:"call_id"`
		Output any    `json:"output"`
	}
	outputText struct {
		Type        string   `json:"type"`
		Text        string   `json:"text"`
		Annotations []string `json:"annotations"`
	}
	inputText struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	inputImage struct {
		Type   string `json:"type"`
		URL    string `json:"image_url"`
		Detail string `json:"detail"`
	}
	inputFile struct {
		Type string `json:"type"`
		ID   string `json:"file_id,omitempty"`
		Name string `json:"filename,omitempty"`
		Data string `json:"file_data,omitempty"`
	}
)

// Items returns the items of a message in chat JSON, joined by commas. An
// assistant message without text and calls has none.
func (in Input) Items(message []byte) ([]byte, error) {
	var m chatMessage
	if err := json.Unmarshal(message, &m); err != nil {
		return nil, err
	}
	var items []any
	switch m.Role {
	case "system", "developer", "user":
		content, err := contentOf(m.Content)
		if err != nil {
			return nil, err
		}
		items = []any{messageItem{Type: typeMessage, Role: m.Role, Content: content}}
	case "tool":
		output, err := contentOf(m.Content)
		if err != nil {
			return nil, err
		}
		items = []any{outputItem{Type: typeOutput, CallID: m.ToolCallID, Output: output}}
	case "assistant":
		items = in.answer(&m)
	default:
		return nil, fmt.Errorf("the Responses API knows no role %q", m.Role)
	}
	return join(items)
}

func join(items []any) ([]byte, error) {
	var b bytes.Buffer
	for i, item := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		raw, err := encode(item)
		if err != nil {
			return nil, err
		}
		b.Write(raw)
	}
	return b.Bytes(), nil
}

// PartError is the error for a message with a part that the API does not take.
type PartError struct{ Type string }

func (e *PartError) Error() string {
	return fmt.Sprintf("the Responses API takes no content part of type %q", e.Type)
}

// contentOf returns content as a string, or as parts.
func contentOf(raw json.RawMessage) (any, error) {
	if !present(raw) || raw[0] != '[' {
		return text(raw), nil
	}
	var parts []chatPart
	if err := json.Unmarshal(raw, &parts); err != nil {
		return nil, err
	}
	content := make([]any, 0, len(parts))
	for _, p := range parts {
		switch {
		case p.ImageURL.URL != "":
			detail := p.ImageURL.Detail
			if detail == "" {
				detail = "auto"
			}
			content = append(content, inputImage{"input_image", p.ImageURL.URL, detail})
		case p.Type == "text", p.Type == "":
			content = append(content, inputText{"input_text", p.Text})
		case p.Type == "file":
			content = append(content, inputFile{"input_file", p.File.ID, p.File.Name, p.File.Data})
		default:
			return nil, &PartError{p.Type}
		}
	}
	return content, nil
}

// answer returns the items of an assistant message: those that it came in if
// they may be sent back, or else its text and its calls.
func (in Input) answer(m *chatMessage) []any {
	said := answerText(m)
	if items, ok := in.replay(m, said); ok {
		return items
	}
	var items []any
	if said != "" {
		items = append(items, messageItem{Type: typeMessage, Role: "assistant", Content: said})
	}
	for _, c := range m.ToolCalls {
		items = append(items, newCall("", c))
	}
	return items
}

func newCall(id string, c chatCall) callItem {
	return callItem{Type: typeCall, ID: id, CallID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments}
}

// answerText returns the text of an assistant message. A refusal counts as text.
func answerText(m *chatMessage) string {
	said := text(m.Content)
	var parts []chatPart
	if present(m.Content) && json.Unmarshal(m.Content, &parts) == nil {
		var b strings.Builder
		for _, p := range parts {
			b.WriteString(p.Text + p.Refusal)
		}
		said = b.String()
	}
	if said == "" {
		said = text(m.Refusal)
	}
	return said
}

// replay returns the items that the message came in. It returns false if they
// are another model's, or if the message was changed since.
func (in Input) replay(m *chatMessage, said string) ([]any, bool) {
	var k kept
	if !present(m.Kept) || json.Unmarshal(m.Kept, &k) != nil || k.Model != in.Model {
		return nil, false
	}
	items := make([]any, 0, len(k.Items))
	calls, texts := m.ToolCalls, splitter{rest: said}
	for _, raw := range k.Items {
		var item keptItem
		if json.Unmarshal(raw, &item) != nil {
			return nil, false
		}
		if !in.Reasoning {
			item.ID = "" // the id makes a server look for the reasoning
		}
		switch item.Type {
		case typeMessage:
			items = append(items, replayText(item, texts.next(item.Length)))
		case typeCall:
			if len(calls) == 0 {
				return nil, false
			}
			items = append(items, newCall(item.ID, calls[0]))
			calls = calls[1:]
		default:
			if in.Reasoning {
				items = append(items, raw)
			}
		}
	}
	return items, texts.ended() && len(calls) == 0
}

// splitter splits the text of a chat message into the texts that were joined.
type splitter struct {
	rest   string
	texts  int
	failed bool
}

func (s *splitter) next(length int) string {
	if s.texts++; s.texts > 1 {
		trimmed, ok := strings.CutPrefix(s.rest, betweenTexts)
		s.failed = s.failed || !ok
		s.rest = trimmed
	}
	if length <= 0 || length > len(s.rest) {
		s.failed = true
		return ""
	}
	next := s.rest[:length]
	s.rest = s.rest[length:]
	return next
}

// ended reports whether the given lengths matched the whole text.
func (s *splitter) ended() bool { return !s.failed && s.rest == "" }

func replayText(item keptItem, said string) messageItem {
	if item.ID == "" {
		return messageItem{Type: typeMessage, Role: "assistant", Content: said, Phase: item.Phase}
	}
	return messageItem{
		Type:    typeMessage,
		ID:      item.ID,
		Role:    "assistant",
		Status:  "completed",
		Content: []outputText{{"output_text", said, []string{}}},
		Phase:   item.Phase,
	}
}
