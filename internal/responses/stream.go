package responses

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent/internal/chatstream"
)

// Limits of one answer, far beyond what models write.
const (
	maxText  = 32 << 20 // bytes of all deltas
	maxWhole = 32 << 20 // bytes of all items, announced and complete
	maxItems = 1024
)

// Assembler builds one answer from the events of a stream, or from one whole
// response. Its rules:
//
//   - An answer is complete when the response that ends it came; a stream that
//     ends without one is broken.
//   - The content of a complete item counts, not that of its deltas, which are
//     for people, and for servers that send nothing else. Where no deltas came
//     either, that of a part that is complete does.
//   - The items stand in the order of their indexes. Some servers number them
//     all alike, or not at all: one that is complete gives way to no other.
//   - Events of unknown types, and of items without a counterpart in chat, say
//     nothing to people; the items are kept and go back as they came.
//
// The zero value is ready. It is not safe for concurrent use.
type Assembler struct {
	// Model is the name by which the model was asked for.
	Model string
	// TakenID, if set, reports ids that no call of this answer may have.
	TakenID func(id string) bool

	items     []*item
	head, end *response // the first and the last response seen
	texts     int       // message items that began to speak
	reasoning bool      // a piece of reasoning was handed out
	text      int       // bytes of deltas
	whole     int       // bytes of items
}

// item is an output item on its way.
type item struct {
	index int // in the output, -1 where no event said it
	id    string
	kind  string
	began json.RawMessage // as it was announced
	done  json.RawMessage // complete
	delta strings.Builder // the text or the arguments so far
}

type event struct {
	Type     json.RawMessage
	Response json.RawMessage
	Item     json.RawMessage
	Index    json.RawMessage `json:"output_index"`
	ItemID   json.RawMessage `json:"item_id"`
	Delta    json.RawMessage
	Error    json.RawMessage

	Text, Refusal, Arguments json.RawMessage // of a part that is complete
	Object                   json.RawMessage
}

type response struct {
	ID, Model, Status json.RawMessage
	Output            []json.RawMessage
	Usage, Error      json.RawMessage
	Incomplete        struct{ Reason string } `json:"incomplete_details"`
}

// Add takes one event of a stream, or a whole response. The bytes are not kept.
// The error is a [*chatstream.ServerError], or one of that package's; the
// assembler is of no use after one.
func (a *Assembler) Add(data []byte) (chatstream.Delta, error) {
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return chatstream.Delta{}, fmt.Errorf("%w: %w", chatstream.ErrMalformed, err)
	}
	switch kind := text(e.Type); kind {
	case "error":
		if present(e.Error) {
			return chatstream.Delta{}, &chatstream.ServerError{Body: e.Error}
		}
		return chatstream.Delta{}, &chatstream.ServerError{Body: bytes.Clone(data)}
	case "response.completed", "response.incomplete", "response.failed":
		return chatstream.Delta{}, a.finish(e.Response)
	case "response.created", "response.in_progress", "response.queued":
		return chatstream.Delta{}, a.begin(e.Response)
	case "response.output_item.added", "response.output_item.done":
		return a.addItem(&e, kind == "response.output_item.done")
	case "response.output_text.delta", "response.refusal.delta":
		return a.addText(&e)
	case "response.output_text.done", "response.refusal.done":
		if it := a.itemFor(&e, typeMessage); it == nil || it.delta.Len() == 0 {
			return a.speak(it, text(e.Text)+text(e.Refusal))
		}
	case "response.function_call_arguments.delta":
		return chatstream.Delta{}, a.addDelta(a.itemFor(&e, typeCall), text(e.Delta))
	case "response.function_call_arguments.done":
		if it := a.itemFor(&e, typeCall); it == nil || it.delta.Len() == 0 {
			return chatstream.Delta{}, a.addDelta(it, text(e.Arguments))
		}
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		a.reasoning = true
		return chatstream.Delta{Reasoning: text(e.Delta)}, nil
	case "response.reasoning_summary_part.added":
		if a.reasoning {
			return chatstream.Delta{Reasoning: betweenTexts}, nil
		}
	case "":
		return chatstream.Delta{}, a.addWhole(&e, data)
	}
	return chatstream.Delta{}, nil
}

// addWhole takes what is no event: a response in one piece, or an error.
func (a *Assembler) addWhole(e *event, data []byte) error {
	if text(e.Object) == "response" {
		return a.finish(data)
	}
	if present(e.Error) {
		return &chatstream.ServerError{Body: e.Error}
	}
	return fmt.Errorf("%w: neither an event nor a response", chatstream.ErrMalformed)
}

func (a *Assembler) begin(raw json.RawMessage) error {
	if !present(raw) || a.head != nil {
		return nil
	}
	a.head = &response{}
	return decode(raw, a.head)
}

// finish takes the response that ends an answer.
func (a *Assembler) finish(raw json.RawMessage) error {
	var r response
	if err := decode(raw, &r); err != nil {
		return err
	}
	switch status := text(r.Status); {
	case present(r.Error):
		return &chatstream.ServerError{Body: r.Error}
	case status == "failed", status == "cancelled":
		body, err := encode(map[string]string{"message": "the response is " + status})
		if err != nil {
			return err
		}
		return &chatstream.ServerError{Body: body}
	case status == "queued", status == "in_progress":
		return chatstream.ErrUnfinished
	}
	a.end = &r
	return nil
}

func decode(raw json.RawMessage, into any) error {
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%w: %w", chatstream.ErrMalformed, err)
	}
	return nil
}

// itemFor returns the item that an event is about, a new one of the given kind
// if there is none.
func (a *Assembler) itemFor(e *event, kind string) *item {
	id, index := text(e.ItemID), -1
	if json.Unmarshal(e.Index, &index) != nil {
		index = -1
	}
	for _, it := range slices.Backward(a.items) {
		switch {
		case index >= 0 && it.index == index, index < 0 && it.id == id:
			return it
		case index >= 0 && it.index < 0 && id != "" && it.id == id: // which begins to be counted
			it.index = index
			return it
		}
	}
	return a.newItem(index, id, kind)
}

// newItem returns nil when there are too many.
func (a *Assembler) newItem(index int, id, kind string) *item {
	if len(a.items) >= maxItems {
		return nil
	}
	it := &item{index: index, id: id, kind: kind}
	a.items = append(a.items, it)
	return it
}

// addItem takes an item that begins or is complete.
func (a *Assembler) addItem(e *event, done bool) (chatstream.Delta, error) {
	if !present(e.Item) {
		return chatstream.Delta{}, nil
	}
	var head struct{ Type, ID json.RawMessage }
	if err := decode(e.Item, &head); err != nil {
		return chatstream.Delta{}, err
	}
	if !present(e.ItemID) {
		e.ItemID = head.ID
	}
	it := a.itemFor(e, "")
	if it != nil && it.done != nil && (it.id != text(head.ID) || it.id == "") {
		it = a.newItem(it.index, "", "")
	}
	if a.whole += len(e.Item); it == nil || a.whole > maxWhole {
		return chatstream.Delta{}, chatstream.ErrTooLarge
	}
	it.id, it.kind = text(head.ID), text(head.Type)
	if !done {
		it.began = e.Item
		return chatstream.Delta{}, nil
	}
	it.done = e.Item
	if it.kind != typeMessage || it.delta.Len() > 0 {
		return chatstream.Delta{}, nil
	}
	return a.speak(it, messageText(e.Item))
}

// addText takes a piece of a message's text.
func (a *Assembler) addText(e *event) (chatstream.Delta, error) {
	return a.speak(a.itemFor(e, typeMessage), text(e.Delta))
}

// speak adds text to a message and returns it as people read it.
func (a *Assembler) speak(it *item, piece string) (chatstream.Delta, error) {
	first := it != nil && it.delta.Len() == 0
	if err := a.addDelta(it, piece); err != nil || piece == "" {
		return chatstream.Delta{}, err
	}
	if first {
		if a.texts++; a.texts > 1 {
			piece = betweenTexts + piece
		}
	}
	return chatstream.Delta{Text: piece}, nil
}

func (a *Assembler) addDelta(it *item, piece string) error {
	if a.text += len(piece); it == nil || a.text > maxText {
		return chatstream.ErrTooLarge
	}
	it.delta.WriteString(piece)
	return nil
}

// Finished reports whether the answer is complete.
func (a *Assembler) Finished() bool { return a.end != nil }
