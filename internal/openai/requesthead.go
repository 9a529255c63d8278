package openai

import (
	"bytes"
	"maps"
	"slices"

	"github.com/x/pygent/internal/jsonobj"
)

// requestHead is the beginning of a request's body, everything before the first
// message. The client keeps the last one, since that of the next step is mostly the
// same.
type requestHead struct {
	name       string
	tools      []Tool
	adaptation adaptation
	stream     bool
	json       []byte
}

// requestHead returns the beginning of a request's body. Nobody may change it.
func (c *Client) requestHead(req *Request, name string, a adaptation, stream bool) ([]byte, error) {
	if last := c.head.Load(); last != nil && last.fits(req, name, a, stream) {
		return last.json, nil
	}
	head, err := c.encodeHead(req, name, a, stream)
	if err != nil {
		return nil, err
	}
	tools := slices.Clone(req.Tools)
	for i := range tools {
		tools[i].Parameters = bytes.Clone(tools[i].Parameters) // the caller may change its own
	}
	c.head.Store(&requestHead{name: name, tools: tools, adaptation: a, stream: stream, json: head})
	return head, nil
}

// fits reports whether a request begins in this way.
func (h *requestHead) fits(req *Request, name string, a adaptation, stream bool) bool {
	return h.name == name && h.stream == stream && h.adaptation.sameHead(a) &&
		slices.EqualFunc(h.tools, req.Tools, func(x, y Tool) bool {
			return x.Name == y.Name && x.Description == y.Description && bytes.Equal(x.Parameters, y.Parameters)
		})
}

// sameHead reports whether requests begin alike with both adaptations.
func (a adaptation) sameHead(b adaptation) bool {
	return maps.Equal(a.dropped, b.dropped) && maps.Equal(a.renamed, b.renamed) && a.emptySchema == b.emptySchema &&
		a.responses == b.responses && a.noResponses == b.noResponses && a.noEffort == b.noEffort && a.noReasoning == b.noReasoning && a.mustCall == b.mustCall
}

// encodeHead encodes everything before the first message.
func (c *Client) encodeHead(req *Request, name string, a adaptation, stream bool) ([]byte, error) {
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
