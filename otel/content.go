package otel

import (
	"encoding/json"
	"strings"
)

// maxBlob is the longest base64 text of an image or a file that is written.
const maxBlob = 64 << 10

// The conventions' form of messages
// (https://github.com/open-telemetry/semantic-conventions-genai/blob/main/docs/gen-ai/gen-ai-output-messages.json).
type (
	message struct {
		Role   string `json:"role"`
		Parts  []any  `json:"parts"`
		Name   string `json:"name,omitempty"`
		Finish string `json:"finish_reason,omitempty"`
	}
	textPart struct {
		Type    string `json:"type"` // "text" or "reasoning"
		Content string `json:"content"`
	}
	callPart struct {
		Type      string `json:"type"`
		ID        string `json:"id,omitempty"`
		Name      string `json:"name"`
		Arguments any    `json:"arguments"`
	}
	resultPart struct {
		Type     string `json:"type"`
		ID       string `json:"id,omitempty"`
		Response any    `json:"response"`
	}
	blobPart struct {
		Type     string `json:"type"`
		Modality string `json:"modality"`
		MIME     string `json:"mime_type,omitempty"`
		Content  string `json:"content"`
	}
	uriPart struct {
		Type     string `json:"type"`
		Modality string `json:"modality"`
		URI      string `json:"uri"`
	}
)

// chatMessage is a message as the chat completions have it.
type chatMessage struct {
	Role      string
	Name      string
	Content   json.RawMessage
	Reasoning json.RawMessage `json:"reasoning_content"`
	CallID    string          `json:"tool_call_id"`
	Calls     []struct {
		ID       string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

type chatPart struct {
	Type  string
	Text  string
	Image struct{ URL string } `json:"image_url"`
	File  struct {
		Data string `json:"file_data"`
	}
	Audio struct{ Data, Format string } `json:"input_audio"`
}

// inputs returns the messages of a request in the conventions' form, from JSON in
// the form of chat completions.
func inputs(messages ...[]byte) string { return encodeMessages(messages, "") }

// output returns an answer in the conventions' form.
func output(answer []byte, finish string) string {
	switch finish {
	case "":
		finish = "stop"
	case "tool_calls":
		finish = "tool_call"
	}
	return encodeMessages([][]byte{answer}, finish)
}

func encodeMessages(messages [][]byte, finish string) string {
	converted := make([]message, 0, len(messages))
	for _, raw := range messages {
		var m chatMessage
		if json.Unmarshal(raw, &m) == nil {
			converted = append(converted, message{m.Role, m.parts(), m.Name, finish})
		}
	}
	data, err := json.Marshal(converted)
	if err != nil {
		return ""
	}
	return string(data)
}

func (m *chatMessage) parts() []any {
	parts := []any{}
	if m.Role == "tool" {
		var text string
		if json.Unmarshal(m.Content, &text) == nil {
			return append(parts, resultPart{"tool_call_response", m.CallID, text})
		}
		return append(parts, resultPart{"tool_call_response", m.CallID, m.Content})
	}
	var reasoning string
	if json.Unmarshal(m.Reasoning, &reasoning) == nil && reasoning != "" {
		parts = append(parts, textPart{"reasoning", reasoning})
	}
	var text string
	var several []chatPart
	if json.Unmarshal(m.Content, &text) == nil {
		if text != "" {
			parts = append(parts, textPart{"text", text})
		}
	} else if json.Unmarshal(m.Content, &several) == nil {
		for _, p := range several {
			parts = append(parts, p.part())
		}
	}
	for _, c := range m.Calls {
		parts = append(parts, callPart{"tool_call", c.ID, c.Function.Name, argumentsOf(c.Function.Arguments)})
	}
	return parts
}

// argumentsOf returns arguments as what they are, and as text if they are no
// JSON.
func argumentsOf(text string) any {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}

func (p *chatPart) part() any {
	switch {
	case p.Image.URL != "":
		return media("image", p.Image.URL)
	case p.File.Data != "":
		return media("document", p.File.Data)
	case p.Audio.Data != "":
		return blob("audio", "audio/"+p.Audio.Format, p.Audio.Data)
	}
	return textPart{"text", p.Text}
}

func media(modality, url string) any {
	rest, isData := strings.CutPrefix(url, "data:")
	if !isData {
		return uriPart{"uri", modality, url}
	}
	head, data, _ := strings.Cut(rest, ",")
	kind, _, _ := strings.Cut(head, ";")
	return blob(modality, kind, data)
}

// blob leaves out content that is too long for a span.
func blob(modality, kind, data string) blobPart {
	if len(data) > maxBlob {
		data = ""
	}
	return blobPart{"blob", modality, kind, data}
}
