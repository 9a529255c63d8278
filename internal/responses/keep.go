package responses

import (
	"encoding/json"
)

// Kept is the field of an assistant message that holds what only this API
// understands. No other API must see it.
const Kept = "openai_response"

// kept is the value of that field.
type kept struct {
	Model string            `json:"model"` // as it was asked for
	Items []json.RawMessage `json:"items"` // those that are a keptItem, and others as they came
}

// keptItem stands for an item whose content is in the chat message.
type keptItem struct {
	Type   string `json:"type"`
	ID     string `json:"id,omitempty"`
	Phase  string `json:"phase,omitempty"`
	Length int    `json:"length,omitempty"` // of a message's text, in bytes
}

// keeper collects what to keep of an answer.
type keeper struct {
	items []any
	worth bool // there is more in it than the chat message says
	ids   bool // the items may be called by their ids
}

// add takes the next item of the answer.
func (k *keeper) add(it *answerItem, raw json.RawMessage) {
	switch kind := text(it.kind); kind {
	case typeMessage:
		if said := textOf(it.content); said != "" {
			k.items = append(k.items, keptItem{Type: kind, ID: text(it.id), Phase: text(it.phase), Length: len(said)})
			k.worth = k.worth || present(it.phase)
		}
	case typeCall:
		k.items = append(k.items, keptItem{Type: kind, ID: text(it.id)})
	case typeReasoning:
		item := it.reasoning()
		if item == nil {
			k.ids = false // a server that finds the id of what followed asks for the reasoning
			return
		}
		k.items, k.worth = append(k.items, item), true
	case "":
	default:
		k.items, k.worth = append(k.items, raw), true
	}
}

// extra returns the field to keep, if there is one.
func (k *keeper) extra(model string) (map[string]json.RawMessage, error) {
	if !k.worth {
		return nil, nil
	}
	out := kept{Model: model}
	for _, item := range k.items {
		if known, ok := item.(keptItem); ok && !k.ids {
			known.ID = ""
			item = known
		}
		raw, err := encode(item)
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, raw)
	}
	raw, err := encode(out)
	if err != nil {
		return nil, err
	}
	return map[string]json.RawMessage{Kept: raw}, nil
}

// reasoning returns the item as it may go back: with its encrypted content, or
// where a server gave it open, with that. Without either it is nil: the server
// would look for it among what it has stored, and it stores nothing.
func (it *answerItem) reasoning() map[string]json.RawMessage {
	item := map[string]json.RawMessage{"type": it.kind, "summary": json.RawMessage("[]")}
	if present(it.id) {
		item["id"] = it.id
	}
	if present(it.summary) {
		item["summary"] = it.summary
	}
	switch {
	case !empty(it.encrypted):
		item["encrypted_content"] = it.encrypted
	case !empty(it.content):
		item["content"] = it.content
	default:
		return nil
	}
	return item
}
