package openai

import (
	"encoding/json"
	"maps"
)

// params are the optional top-level fields of a request, encoded.
type params map[string]json.RawMessage

// onlyWithTools are the parameters that OpenAI refuses in a request without
// tools, such as that for the last words of a run at its limit.
var onlyWithTools = []string{"parallel_tool_calls", toolChoice}

// toolChoice is the parameter by which an answer has to be a call.
const toolChoice = "tool_choice"

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
	if a.mustCall {
		p[toolChoice] = json.RawMessage(`"required"`)
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
