package pygent

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// params are the optional top-level fields of a request, encoded.
type params map[string]json.RawMessage

// imageLeftOut stands for an image in requests to a model that takes none.
const imageLeftOut = "[image left out: the model does not accept images]"

// reasoningFields are the fields of assistant messages that hold reasoning,
// with OpenAI-compatible servers of all kinds.
var reasoningFields = []string{"reasoning", "reasoning_content", "reasoning_details", "reasoning_text", "thinking", "thinking_blocks"}

// requestBody encodes a request. The messages come last and each is encoded
// once in its life, so that building a request costs a copy of its bytes, and
// that the body of the next step begins with the bytes of this one.
func (m *OpenAIModel) requestBody(req *ChatRequest, name string, a adaptation, stream bool) ([]byte, error) {
	head, err := m.requestHead(req, name, a, stream)
	if err != nil {
		return nil, err
	}
	shape := m.shape(a)
	encoded := make([][]byte, len(req.Messages))
	size := len(head) + len("]}")
	for i, msg := range req.Messages {
		if encoded[i], err = shape.encode(msg); err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		size += len(encoded[i]) + 1
	}
	body := append(make([]byte, 0, size), head...)
	for i, b := range encoded {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, b...)
	}
	return append(body, "]}"...), nil
}

// requestHead encodes everything before the first message.
func (m *OpenAIModel) requestHead(req *ChatRequest, name string, a adaptation, stream bool) ([]byte, error) {
	w := objectWriter{}
	w.field("model", name)
	p := m.sent(a, stream)
	if stream {
		w.field("stream", true)
	}
	for _, param := range slices.Sorted(maps.Keys(p)) {
		if len(req.Tools) == 0 && param == "parallel_tool_calls" {
			continue // OpenAI refuses it without tools
		}
		w.field(param, p[param])
	}
	if len(req.Tools) > 0 {
		w.field("tools", wireTools(req.Tools))
	}
	if w.err != nil {
		return nil, w.err
	}
	w.buf.WriteString(`,"messages":[`)
	return w.buf.Bytes(), nil
}

// sent returns the optional parameters as they go out.
func (m *OpenAIModel) sent(a adaptation, stream bool) params {
	p := maps.Clone(m.params)
	if _, given := p["stream_options"]; stream && !given {
		p["stream_options"] = json.RawMessage(`{"include_usage":true}`)
	}
	if !stream {
		delete(p, "stream_options")
	}
	for from, to := range a.renamed {
		if value, ok := p[from]; ok {
			delete(p, from)
			p[to] = value
		}
	}
	for name := range a.dropped {
		delete(p, name)
	}
	return p
}

type wireTool struct {
	Type     string   `json:"type"`
	Function ToolSpec `json:"function"`
}

func wireTools(specs []ToolSpec) []wireTool {
	tools := make([]wireTool, len(specs))
	for i, s := range specs {
		if len(s.Parameters) == 0 {
			s.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		tools[i] = wireTool{Type: "function", Function: s}
	}
	return tools
}

// messageShape says what is left out of messages.
type messageShape struct {
	without  []string // fields, sorted
	noImages bool
	key      string // tells shapes apart; empty when nothing is left out
}

func (m *OpenAIModel) shape(a adaptation) messageShape {
	without := slices.Collect(maps.Keys(a.stripped))
	if !m.sendReasoning {
		without = append(without, reasoningFields...)
	}
	slices.Sort(without)
	s := messageShape{without: slices.Compact(without), noImages: a.noImages}
	if len(s.without) > 0 || s.noImages {
		s.key = fmt.Sprint(s.noImages, " ", strings.Join(s.without, " "))
	}
	return s
}

// encode returns msg's JSON in this shape.
func (s messageShape) encode(msg Message) ([]byte, error) {
	msg, err := msg.encoded()
	if err != nil || !s.changes(msg) {
		return msg.enc.bytes(), err
	}
	return msg.enc.variant(s.key, func() ([]byte, error) { return s.apply(msg).marshal() })
}

// changes reports whether there is anything in msg to leave out.
func (s messageShape) changes(msg Message) bool {
	if s.key == "" {
		return false
	}
	if s.noImages && msg.HasImages() {
		return true
	}
	return len(msg.Extra) > 0 && slices.ContainsFunc(s.without, func(name string) bool {
		_, ok := msg.Extra[name]
		return ok
	})
}

func (s messageShape) apply(msg Message) Message {
	msg.Extra = maps.Clone(msg.Extra)
	for _, name := range s.without {
		delete(msg.Extra, name)
	}
	if s.noImages && msg.HasImages() {
		msg.Parts = slices.Clone(msg.Parts)
		for i, p := range msg.Parts {
			if p.ImageURL != "" {
				msg.Parts[i] = Part{Text: imageLeftOut}
			}
		}
		if !slices.ContainsFunc(msg.Parts, isForeign) {
			msg.Content, msg.Parts = joinTexts(msg.Parts), nil // for servers that know no parts at all
		}
	}
	return msg
}

// isForeign reports whether p is neither text nor an image.
func isForeign(p Part) bool { return p.raw != nil && p.Text == "" && p.ImageURL == "" }

func joinTexts(parts []Part) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p.Text
	}
	return strings.Join(texts, "\n")
}
