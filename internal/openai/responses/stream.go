package responses

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/openai/chatstream"
)

// Limits of one answer, far beyond what models write.
const (
	maxText   = 16 << 20 // bytes of all deltas, and of all reasoning
	maxWhole  = 16 << 20 // bytes of all items, both when they begin and when they are complete
	maxItems  = 1024
	maxValues = 100_000 // of all items
	maxFields = 256     // of one item
)

// Assembler builds one answer from the events of a stream, or from one whole
// response. Its rules:
//
//   - An answer is complete when the response that ends it has come. A stream
//     that ends without one is broken.
//   - The content of a complete item counts. Its deltas are for people, and
//     count only if the server sends nothing else. If it sends no deltas either,
//     the text of a complete part counts.
//   - The items are in the order of their indexes. Some servers give all the
//     same index, or none, so a complete item is never replaced by another one.
//   - The server is not trusted, so everything that is kept is bounded.
//   - Events of unknown types, and of items without a counterpart in chat, are
//     not shown to people. The items are kept and sent back as they came.
//
// The zero value is ready. It is not safe for concurrent use.
type Assembler struct {
	// Model is the name by which the model was requested.
	Model string
	// TakenID, if set, reports ids that no call of this answer may have.
	TakenID func(id string) bool

	items     []*item
	head, end *response // the first and the last response seen
	texts     int       // message items that have text
	reasoning bool      // whether a piece of reasoning was returned
	text      int       // bytes of deltas
	whole     int       // bytes of items
	values    int       // JSON values in items
	thought   int       // bytes of reasoning
	worked    int       // bytes of deltas of unknown types
}

// item is an output item that is being received.
type item struct {
	index int // in the output, or -1 if no event told it
	id    string
	kind  string
	began json.RawMessage // as it was when it began
	done  json.RawMessage // complete
	delta strings.Builder // the text or the arguments so far
	so    chatstream.CallProgress
}

// event has the fields of an event that are read. They share the memory of its
// data.
type event struct {
	kind, object    json.RawMessage
	response, item  json.RawMessage
	index, itemID   json.RawMessage
	delta, err      json.RawMessage
	text, arguments json.RawMessage // of a complete part
	refusal         json.RawMessage
}

func readEvent(data []byte) (e event, err error) {
	if err := chatstream.Check(data); err != nil {
		return e, err
	}
	if !jsonobj.BeginsObject(data) {
		return e, fmt.Errorf("%w: the event is no object", chatstream.ErrMalformed)
	}
	for name, raw := range jsonobj.Members(data) {
		if place := e.place(name); place != nil {
			*place = raw
		}
	}
	return e, nil
}

// place is where a member is put; nil for one that is not read.
func (e *event) place(name []byte) *json.RawMessage {
	switch string(name) {
	case "type":
		return &e.kind
	case "object":
		return &e.object
	case "response":
		return &e.response
	case "item":
		return &e.item
	case "output_index":
		return &e.index
	case "item_id":
		return &e.itemID
	case "delta":
		return &e.delta
	case "error":
		return &e.err
	case "text":
		return &e.text
	case "arguments":
		return &e.arguments
	case "refusal":
		return &e.refusal
	}
	return nil
}

// response is what is kept of a response.
type response struct {
	id, model, status string
	incomplete        string // why it is, or empty
	output            []json.RawMessage
	usage             chatstream.Usage
	err               json.RawMessage // shares the memory of the response's data
}

func readResponse(data json.RawMessage) (*response, error) {
	if !jsonobj.BeginsObject(data) {
		return nil, fmt.Errorf("%w: the response is no object", chatstream.ErrMalformed)
	}
	r := &response{}
	for name, raw := range jsonobj.Members(data) {
		switch string(name) {
		case "id":
			r.id = text(raw)
		case "model":
			r.model = text(raw)
		case "status":
			r.status = text(raw)
		case "incomplete_details":
			r.incomplete = text(field(raw, "reason"))
		case "usage":
			r.usage = chatstream.UsageIn(raw)
		case "error":
			r.err = raw
		case "output":
			items, err := elements(raw)
			if err != nil {
				return nil, err
			}
			r.output = items
		}
	}
	return r, nil
}

// elements returns copies of the items in a list.
func elements(list json.RawMessage) ([]json.RawMessage, error) {
	if len(list) > maxWhole || jsonobj.Values(list) > maxValues {
		return nil, errTooLargeItems
	}
	var items []json.RawMessage
	for raw := range jsonobj.Elements(list) {
		if len(items) == maxItems {
			return nil, errTooManyItems
		}
		items = append(items, bytes.Clone(raw))
	}
	return items, nil
}

var (
	errTooManyItems  = fmt.Errorf("%w: more than %d items", chatstream.ErrTooLarge, maxItems)
	errTooLargeItems = fmt.Errorf("%w: its items have more than %d MiB or %d values", chatstream.ErrTooLarge, maxWhole>>20, maxValues)
)

// field returns a field of an object, and nil if there is none.
func field(object json.RawMessage, name string) (found json.RawMessage) {
	for n, raw := range jsonobj.Members(object) {
		if string(n) == name {
			found = raw
		}
	}
	return found
}

// Add adds one event of a stream, or a whole response. It does not keep data.
// The error is a [*chatstream.ServerError] or another one of that package. The
// assembler must not be used after an error.
func (a *Assembler) Add(data []byte) (chatstream.Delta, error) {
	e, err := readEvent(data)
	if err != nil {
		return chatstream.Delta{}, err
	}
	switch kind := text(e.kind); kind {
	case "error":
		if present(e.err) {
			return chatstream.Delta{}, chatstream.NewServerError(e.err)
		}
		return chatstream.Delta{}, chatstream.NewServerError(data)
	case "response.completed", "response.incomplete", "response.failed":
		return chatstream.Delta{}, a.finish(e.response)
	case "response.created", "response.in_progress", "response.queued":
		return chatstream.Delta{}, a.begin(e.response)
	case "response.output_item.added", "response.output_item.done":
		return a.addItem(&e, kind == "response.output_item.done")
	case "":
		return chatstream.Delta{}, a.addWhole(&e, data)
	default:
		return a.addPiece(kind, &e)
	}
}

// addPiece adds a piece of an item.
func (a *Assembler) addPiece(kind string, e *event) (chatstream.Delta, error) {
	switch kind {
	case "response.output_text.delta", "response.refusal.delta":
		return a.addText(e)
	case "response.output_text.done", "response.refusal.done":
		if it := a.itemFor(e, typeMessage); it == nil || it.delta.Len() == 0 {
			return a.speak(it, text(e.text)+text(e.refusal))
		}
	case "response.function_call_arguments.delta":
		return a.addArguments(a.itemFor(e, typeCall), text(e.delta))
	case "response.function_call_arguments.done":
		if it := a.itemFor(e, typeCall); it == nil || it.delta.Len() == 0 {
			return a.addArguments(it, text(e.arguments))
		}
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		a.reasoning = true
		piece := text(e.delta)
		a.thought += len(piece)
		return chatstream.Delta{Reasoning: piece}, bounded(a.thought)
	case "response.reasoning_summary_part.added":
		if a.reasoning {
			return chatstream.Delta{Reasoning: betweenTexts}, nil
		}
	default: // a tool runs at the server: there is nothing to keep
		a.worked += len(text(e.delta))
	}
	return chatstream.Delta{}, nil
}

// addWhole adds data that is not an event: a response in one piece, or an error.
func (a *Assembler) addWhole(e *event, data []byte) error {
	if text(e.object) == "response" {
		return a.finish(data)
	}
	if present(e.err) {
		return chatstream.NewServerError(e.err)
	}
	return fmt.Errorf("%w: neither an event nor a response", chatstream.ErrMalformed)
}

func (a *Assembler) begin(raw json.RawMessage) (err error) {
	if !present(raw) || a.head != nil {
		return nil
	}
	if a.head, err = readResponse(raw); err == nil {
		a.head = &response{id: a.head.id, model: a.head.model} // nothing else is of use
	}
	return err
}

// finish adds the response that ends an answer.
func (a *Assembler) finish(raw json.RawMessage) error {
	r, err := readResponse(raw)
	switch {
	case err != nil:
		return err
	case present(r.err):
		return chatstream.NewServerError(r.err)
	case r.status == "failed", r.status == "cancelled":
		body, err := encode(map[string]string{"message": "the response is " + r.status})
		if err != nil {
			return err
		}
		return chatstream.NewServerError(body)
	case r.status == "queued", r.status == "in_progress":
		return chatstream.ErrUnfinished
	}
	a.end = r
	return nil
}

// itemFor returns the item that an event is about. If there is none, it adds one
// of the given kind.
func (a *Assembler) itemFor(e *event, kind string) *item {
	id, index := text(e.itemID), -1
	if json.Unmarshal(e.index, &index) != nil {
		index = -1
	}
	for _, it := range slices.Backward(a.items) {
		switch {
		case index >= 0 && it.index == index, index < 0 && it.id == id:
			return it
		case index >= 0 && it.index < 0 && id != "" && it.id == id: // only now its index is known
			it.index = index
			return it
		}
	}
	return a.newItem(index, id, kind)
}

// newItem adds an item, or returns nil if there are too many.
func (a *Assembler) newItem(index int, id, kind string) *item {
	if len(a.items) >= maxItems {
		return nil
	}
	it := &item{index: index, id: id, kind: kind}
	a.items = append(a.items, it)
	return it
}

// addItem adds an item that begins or is complete.
func (a *Assembler) addItem(e *event, done bool) (chatstream.Delta, error) {
	if !present(e.item) {
		return chatstream.Delta{}, nil
	}
	if !jsonobj.BeginsObject(e.item) {
		return chatstream.Delta{}, fmt.Errorf("%w: the item is no object", chatstream.ErrMalformed)
	}
	id, kind := field(e.item, "id"), text(field(e.item, "type"))
	if !present(e.itemID) {
		e.itemID = id
	}
	it := a.itemFor(e, "")
	if it != nil && it.done != nil && (it.id != text(id) || it.id == "") {
		it = a.newItem(it.index, "", "")
	}
	if it == nil {
		return chatstream.Delta{}, errTooManyItems
	}
	if err := a.payFor(e.item); err != nil {
		return chatstream.Delta{}, err
	}
	it.id, it.kind = text(id), kind
	raw := bytes.Clone(e.item)
	if !done {
		it.began = raw
		return chatstream.Delta{}, nil
	}
	it.done = raw
	if it.kind != typeMessage || it.delta.Len() > 0 {
		return chatstream.Delta{}, nil
	}
	return a.speak(it, messageText(raw))
}

// payFor counts an item that is kept, and returns an error if there are too many
// bytes or values.
func (a *Assembler) payFor(item json.RawMessage) error {
	a.whole += len(item)
	a.values += jsonobj.Values(item)
	if a.whole > maxWhole || a.values > maxValues {
		return errTooLargeItems
	}
	return nil
}

// addText adds a piece of a message's text.
func (a *Assembler) addText(e *event) (chatstream.Delta, error) {
	return a.speak(a.itemFor(e, typeMessage), text(e.delta))
}

// speak adds text to a message and returns it as a delta for people.
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
	if it == nil {
		return errTooManyItems
	}
	a.text += len(piece)
	it.delta.WriteString(piece)
	return bounded(a.text)
}

// addArguments adds a piece of a call's arguments.
func (a *Assembler) addArguments(it *item, piece string) (d chatstream.Delta, err error) {
	if err := a.addDelta(it, piece); err != nil {
		return d, err
	}
	index := 0
	for _, other := range a.items {
		if other == it {
			break
		}
		if other.kind == typeCall {
			index++
		}
	}
	d.Arguments = piece
	it.so.Add(piece)
	d.Call = it.so.Delta(index, text(field(it.began, "call_id")), text(field(it.began, "name")))
	return d, nil
}

// bounded returns an error if a text of this length is too long.
func bounded(length int) error {
	if length > maxText {
		return fmt.Errorf("%w: more than %d MiB", chatstream.ErrTooLarge, maxText>>20)
	}
	return nil
}

// Done is nothing here: a response says itself that it is over.
func (*Assembler) Done() {}

// Finished reports whether the answer is complete.
func (a *Assembler) Finished() bool { return a.end != nil }

// Used returns what the answer has taken, which the server says at its end.
func (a *Assembler) Used() (u chatstream.Usage) {
	if a.end != nil {
		u = a.end.usage
	}
	return u
}

// OwesCalls reports false: calls come before the end.
func (a *Assembler) OwesCalls() bool { return false }

// Progress returns the number of bytes of content, reasoning and items so far.
// It grows with each piece of data, but not with events that carry none.
func (a *Assembler) Progress() int {
	n := a.text + a.whole + a.thought + a.worked
	if a.Finished() {
		n++
	}
	return n
}
