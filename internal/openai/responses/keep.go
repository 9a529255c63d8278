package responses

import (
	"encoding/json"
)

// Kept is the field of an assistant message for what only this API understands.
// It must not be sent to another API.
const Kept = "openai_response"

// kept is the value of that field.
type kept struct {
	Model string            `json:"model"` // as it was requested
	Items []json.RawMessage `json:"items"` // each a keptItem, or an item as it came
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
	worth bool // whether the items say more than the chat message does
	ids   bool // whether the items may be sent back with their ids
}

// add adds the next item of the answer.
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
			k.ids = false // the id of a later item makes a server look for the reasoning
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

// reasoning returns a reasoning item as it may be sent back: with its encrypted
// content or, if the server sent it readable, with that. Without either it
// returns nil. The server would look for the content in what it has stored, and
// it is told to store nothing.
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
