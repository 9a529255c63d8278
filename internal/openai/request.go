package openai

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/x/pygent/internal/jsonobj"
)

// params are the optional top-level fields of a request, encoded.
type params map[string]json.RawMessage

// onlyWithTools are the parameters that OpenAI refuses in a request without
// tools, such as that for the last words of a run at its limit.
var onlyWithTools = []string{"parallel_tool_calls", "tool_choice"}

// requestBody encodes a request. The messages come last, and each is encoded
// only once. So building a request costs one copy of its bytes, and the body of
// the next step begins with the bytes of this one.
func (c *Client) requestBody(req *Request, name string, a adaptation, stream bool) ([]byte, error) {
	head, err := c.requestHead(req, name, a, stream)
	if err != nil {
		return nil, err
	}
	encoded, err := encodeMessages(req.Messages, c.shape(name, a), a.bridged)
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

// encodeMessages returns the messages as they are sent. It inserts a bridge
// before a user message that follows one of the given roles.
func encodeMessages(messages []*Message, s shape, bridged map[string]bool) ([][]byte, error) {
	encoded := make([][]byte, 0, len(messages))
	before := ""
	for i, msg := range messages {
		if msg.role == roleUser && bridged[before] {
			encoded = append(encoded, s.bridge())
		}
		b, err := s.encode(msg)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		if len(b) > 0 { // there may be nothing to send of a message
			encoded = append(encoded, b)
		}
		before = msg.role
	}
	return encoded, nil
}

// requestHead encodes everything before the first message.
func (c *Client) requestHead(req *Request, name string, a adaptation, stream bool) ([]byte, error) {
	p, err := c.sent(a, stream)
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
	if c.inResponses(a) {
		list = "input"
	}
	if len(req.Tools) > 0 {
		w.Field("tools", c.tools(req.Tools, a))
	}
	return w.UpTo(list)
}

// tools returns the tools in the form of the API.
func (c *Client) tools(specs []Tool, a adaptation) any {
	if c.inResponses(a) {
		return responsesTools(specs)
	}
	return wireTools(specs, a.emptySchema)
}

// sent returns the optional parameters as they go out.
func (c *Client) sent(a adaptation, stream bool) (params, error) {
	p, err := c.ownParams(a, stream)
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

// ownParams returns the parameters that were set, under the names of the API,
// and those that this package sets itself.
func (c *Client) ownParams(a adaptation, stream bool) (params, error) {
	if c.inResponses(a) {
		return c.responsesParams(a)
	}
	p := maps.Clone(c.params)
	if _, given := p["stream_options"]; stream && !given {
		p["stream_options"] = json.RawMessage(`{"include_usage":true}`)
	}
	if a.noEffort {
		p["reasoning_effort"] = json.RawMessage(`"none"`)
	}
	return p, nil
}

type wireTool struct {
	Type     string `json:"type"`
	Function Tool   `json:"function"`
}

// wireTools returns the tools for chat completions. A tool without arguments
// has no parameters, as OpenAI documents, since some servers refuse an object
// without properties. Others refuse missing parameters; for those an adaptation
// adds them.
func wireTools(specs []Tool, emptySchema bool) []wireTool {
	tools := make([]wireTool, len(specs))
	for i, s := range specs {
		if len(s.Parameters) == 0 && emptySchema {
			s.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		tools[i] = wireTool{Type: "function", Function: s}
	}
	return tools
}
