package openai

import (
	"context"
	"encoding/json"
	"errors"
)

// Bounds of the names of models that a server lists.
const (
	maxModels    = 10_000
	maxModelName = 256 // bytes
)

// errNoList says that a server has no list of models, or none that can be read.
var errNoList = errors.New("the server does not list them")

// Models asks the server for the names of its models.
func (c *Client) Models(ctx context.Context) ([]string, error) {
	var list struct{ Data, Models []json.RawMessage }
	body := c.get(ctx, "models")
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if json.Unmarshal(body, &list) != nil {
		return nil, errNoList
	}
	all := list.Data
	if len(all) == 0 { // Ollama's own
		all = list.Models
	}
	var names []string
	for _, raw := range all {
		var m struct{ ID, Name, Model string }
		if json.Unmarshal(raw, &m) != nil {
			continue
		}
		for _, name := range []string{m.ID, m.Model, m.Name} {
			if name != "" && len(name) <= maxModelName && len(names) < maxModels {
				names = append(names, name)
				break
			}
		}
	}
	if len(names) == 0 {
		return nil, errNoList
	}
	return names, nil
}
