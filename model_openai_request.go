package pygent

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/x/pygent/internal/jsonobj"
)

// params are the optional top-level fields of a request, encoded.
type params map[string]json.RawMessage

// imageLeftOut stands for an image in requests to a model that takes none.
const imageLeftOut = "[image left out: the model does not accept images]"

// onlyWithTools are the parameters that OpenAI refuses in a request without
// tools, such as that for the last words of a run at its limit.
var onlyWithTools = []string{"parallel_tool_calls", "tool_choice"}

// reasoningContent is the field that most servers give reasoning in.
const reasoningContent = "reasoning_content"

// reasoningFields are the fields of assistant messages that hold reasoning,
// with OpenAI-compatible servers of all kinds.
var reasoningFields = []string{"reasoning", reasoningContent, "reasoning_details", "reasoning_text", "thinking", "thinking_blocks"}

// requestBody encodes a request. The messages come last and each is encoded
// once in its life, so that building a request costs a copy of its bytes, and
// that the body of the next step begins with the bytes of this one.
func (m *OpenAIModel) requestBody(req *ChatRequest, name string, a adaptation, stream bool) ([]byte, error) {
	head, err := m.requestHead(req, name, a, stream)
	if err != nil {
		return nil, err
	}
	encoded, err := encodeMessages(req.Messages, m.shape(name, a), a.bridged)
	if err != nil {
		return nil, err
	}
	size := len(head) + len("]}")
	for _, b := range encoded {
		size += len(b) + 1
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

// encodeMessages returns what is sent of the messages, with a bridge before the
// user's words where they follow one of the roles.
func encodeMessages(messages []Message, shape messageShape, bridged map[Role]bool) ([][]byte, error) {
	encoded := make([][]byte, 0, len(messages))
	before := Role("")
	for i, msg := range messages {
		if msg.Role == RoleUser && bridged[before] {
			encoded = append(encoded, shape.bridge())
		}
		b, err := shape.encode(msg)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		if len(b) > 0 { // there may be nothing to send of a message
			encoded = append(encoded, b)
		}
		before = msg.Role
	}
	return encoded, nil
}

// requestHead encodes everything before the first message.
func (m *OpenAIModel) requestHead(req *ChatRequest, name string, a adaptation, stream bool) ([]byte, error) {
	p, err := m.sent(a, stream)
	if err != nil {
		return nil, err
	}
	var w jsonobj.Writer
	w.Field("model", name)
	if stream {
		w.Field("stream", true)
	}
	for _, param := range slices.Sorted(maps.Keys(p)) {
		if len(req.Tools) == 0 && slices.Contains(onlyWithTools, param) {
			continue
		}
		w.Field(param, p[param])
	}
	list := "messages"
	if m.inResponses(a) {
		list = "input"
	}
	if len(req.Tools) > 0 {
		w.Field("tools", m.tools(req.Tools, a))
	}
	return w.UpTo(list)
}

// tools returns the tools in the form of the API.
func (m *OpenAIModel) tools(specs []ToolSpec, a adaptation) any {
	if m.inResponses(a) {
		return responsesTools(specs)
	}
	return wireTools(specs, a.emptySchema)
}

// sent returns the optional parameters as they go out.
func (m *OpenAIModel) sent(a adaptation, stream bool) (params, error) {
	p, err := m.ownParams(a, stream)
	if err != nil {
		return nil, err
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
	return p, nil
}

// ownParams returns the parameters that were set, in the words of the API, and
// those that this package sets itself.
func (m *OpenAIModel) ownParams(a adaptation, stream bool) (params, error) {
	if m.inResponses(a) {
		return m.responsesParams(a)
	}
	p := maps.Clone(m.params)
	if _, given := p["stream_options"]; stream && !given {
		p["stream_options"] = json.RawMessage(`{"include_usage":true}`)
	}
	if a.noEffort {
		p["reasoning_effort"] = json.RawMessage(`"none"`)
	}
	return p, nil
}

type wireTool struct {
	Type     string   `json:"type"`
	Function ToolSpec `json:"function"`
}

// wireTools returns the tools as chat completions take them. One without
// arguments has no parameters, as OpenAI documents it: some servers refuse an
// object without properties. Others refuse that there are none.
func wireTools(specs []ToolSpec, emptySchema bool) []wireTool {
	tools := make([]wireTool, len(specs))
	for i, s := range specs {
		if len(s.Parameters) == 0 && emptySchema {
			s.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		tools[i] = wireTool{Type: "function", Function: s}
	}
	return tools
}
