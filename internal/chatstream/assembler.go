// Package chatstream assembles an answer of a chat completions API, from the
// chunks of a stream or from one whole body, by the same rules.
//
// Streams are where servers differ most. So the rules are stated here, and
// whatever the chunks leave open is decided in one place:
//
//   - Text is kept whatever the chunk's id. It is joined before it is decoded,
//     so that a character split between chunks comes out whole.
//   - A stream is complete when it gave a finish reason, and broken otherwise,
//     also after [DONE]: a proxy that lost its upstream sends that too. The
//     reason outlives chunks that follow it.
//   - Usage counts are running totals: the last one that is not zero holds.
//   - Which call a fragment belongs to is told by its index and id; see
//     [Assembler.callFor] for the servers that leave them out or repeat them.
//   - Fields this package does not know are kept: strings are joined, arrays
//     appended, their elements with the same "index" merged, of anything else
//     the last holds. A field sent once is kept byte for byte.
//   - Only the first choice counts.
//   - The server is not trusted. A chunk is walked and not decoded, and what is
//     kept of it is paid for out of one budget; see [budget].
package chatstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/x/pygent/internal/jsonwalk"
)

// Errors of incomplete or invalid answers.
var (
	// ErrUnfinished is returned for a stream that ended without a finish reason.
	ErrUnfinished = errors.New("the stream ended without a finish reason")
	// ErrNoChoice is returned for an answer without any choice.
	ErrNoChoice = errors.New("the answer has no choices")
	// ErrMalformed is wrapped by errors about input that is not a chunk.
	ErrMalformed = errors.New("malformed answer")
	// ErrTooLarge is returned for an answer beyond the limits of this package.
	ErrTooLarge = errors.New("the answer is too large")
)

// ServerError is an error object that a server sent instead of a chunk.
type ServerError struct {
	Body json.RawMessage // the object, or what its "error" field held; cut off where it is large
}

// Error returns the object's text.
func (e *ServerError) Error() string { return "error event: " + string(e.Body) }

// Answer is a complete answer.
type Answer struct {
	ID           string // the server's id of the answer
	Model        string // the model that answered, in the server's words
	Content      string
	Parts        []json.RawMessage // the content, when it is more than text
	ToolCalls    []ToolCall
	Extra        map[string]json.RawMessage // unknown fields of the message
	FinishReason string
	Usage        Usage
}

// ToolCall is a call of an answer. It always has a name and an id, and the id
// is unique within the answer.
type ToolCall struct {
	ID        string
	Name      string
	Arguments string
	Extra     map[string]json.RawMessage
}

// Delta is what a chunk adds, for people: text, and how far the last call is of
// which it has a piece.
type Delta struct {
	Text      string
	Reasoning string
	Call      CallDelta
}

// Assembler builds one answer. The zero value is ready. It is not safe for
// concurrent use.
type Assembler struct {
	// TakenID, if set, reports ids that no call of this answer may have,
	// because other messages of the conversation use them.
	TakenID func(id string) bool

	id, model string
	chosen    bool // a choice was seen
	choice    int  // the index of the first, which alone is read
	content   content
	calls     []*call
	extra     fields
	finish    string
	whole     bool // the last message came in one piece
	usage     Usage
	chunks    int // how many were added
	budget    budget

	// Memory for the fields of a message, and of a call in it, which no chunk needs for
	// itself alone.
	ofMessage, ofCall []member
}

// chunk holds slices of the data that it was read from.
type chunk struct {
	id, model, object, kind json.RawMessage
	choices, usage, err     json.RawMessage
}

func readChunk(data []byte) (c chunk, err error) {
	if err := check(data, c.set); err != nil {
		return c, err
	}
	if err := mustBeObject(data, "chunk"); err != nil {
		return c, err
	}
	if present(c.choices) && c.choices[0] != '[' {
		return c, fmt.Errorf("%w: the choices are no list", ErrMalformed)
	}
	return c, nil
}

// set sets a field of the chunk.
func (c *chunk) set(name []byte, raw json.RawMessage) {
	switch string(name) {
	case "id":
		c.id = raw
	case "model":
		c.model = raw
	case "object":
		c.object = raw
	case "type":
		c.kind = raw
	case "choices":
		c.choices = raw
	case "usage":
		c.usage = raw
	case "error":
		c.err = raw
	}
}

// mustBeObject returns an error for a value that is neither an object nor null.
func mustBeObject(raw []byte, what string) error {
	if jsonwalk.IsObject(raw) || !present(bytes.TrimSpace(raw)) {
		return nil
	}
	return fmt.Errorf("%w: the %s is no object", ErrMalformed, what)
}

// choice holds slices of the data that it was read from.
type choice struct {
	index, delta, message, finish, usage, err json.RawMessage
}

func readChoice(data json.RawMessage) (ch choice, err error) {
	if err := mustBeObject(data, "choice"); err != nil {
		return ch, err
	}
	for name, raw := range jsonwalk.Members(data) {
		switch string(name) {
		case "index":
			ch.index = raw
		case "delta":
			ch.delta = raw
		case "message":
			ch.message = raw
		case "finish_reason":
			ch.finish = raw
		case "usage":
			ch.usage = raw
		case "error":
			ch.err = raw
		}
	}
	return ch, nil
}

// Add processes one chunk of a stream, or a whole completion, which counts as
// finished. It does not keep data. The error is a [*ServerError], or one of
// this package's. After an error the assembler cannot be used any more.
func (a *Assembler) Add(data []byte) (Delta, error) {
	c, err := readChunk(data)
	if err != nil {
		return Delta{}, err
	}
	if present(c.err) {
		return Delta{}, NewServerError(c.err)
	}
	if a.chunks++; a.id == "" {
		a.id = headOf(jsonwalk.Text(c.id))
	}
	if a.model == "" {
		a.model = headOf(jsonwalk.Text(c.model))
	}
	a.usage.update(c.usage)
	delta, choices, err := a.addChoices(c.choices)
	if err == nil && choices == 0 && (jsonwalk.Text(c.object) == "error" || jsonwalk.Text(c.kind) == "error") {
		err = NewServerError(data)
	}
	return delta, err
}

// headOf cuts a name to the length that names may have.
func headOf(name string) string {
	return strings.ToValidUTF8(name[:min(len(name), maxName)], "")
}

// addChoices also returns the number of choices.
func (a *Assembler) addChoices(choices json.RawMessage) (Delta, int, error) {
	var delta Delta
	n := 0
	for raw := range jsonwalk.Elements(choices) {
		if n++; n > maxChoices {
			return Delta{}, n, tooMany("choices", maxChoices)
		}
		ch, err := readChoice(raw)
		if err != nil {
			return Delta{}, n, err
		}
		d, err := a.addChoice(ch)
		if err != nil {
			return Delta{}, n, err
		}
		delta.Text += d.Text
		delta.Reasoning += d.Reasoning
		delta.Call = d.Call
	}
	return delta, n, nil
}

func (a *Assembler) addChoice(ch choice) (Delta, error) {
	index, _ := jsonwalk.Int(ch.index)
	if !a.chosen {
		a.chosen, a.choice = true, index
	}
	if index != a.choice {
		return Delta{}, nil
	}
	if present(ch.err) {
		return Delta{}, NewServerError(ch.err)
	}
	a.usage.update(ch.usage)
	if reason := headOf(jsonwalk.Text(ch.finish)); reason != "" {
		a.finish = reason
	}
	switch {
	case present(ch.delta):
		return a.addMessage(ch.delta)
	case present(ch.message):
		a.whole = true
		a.content, a.calls, a.extra = content{}, nil, nil
		return a.addMessage(ch.message)
	}
	return Delta{}, nil
}

// member is a field of an object; both parts are slices of the data it was read
// from.
type member struct {
	name []byte
	raw  json.RawMessage
}

// members returns the fields of an object; nil if there is none.
func members(object json.RawMessage, what string) (list []member, err error) {
	if err := mustBeObject(object, what); err != nil {
		return nil, err
	}
	for name, raw := range jsonwalk.Members(object) {
		if len(list) == maxFields {
			return nil, errTooManyFields
		}
		list = append(list, member{name, raw})
	}
	return list, nil
}

var errTooManyFields = tooMany("fields in one object", maxFields)

// message is a message or a piece of one. It holds slices of the data that it was
// read from.
type message struct {
	content, calls       json.RawMessage
	reasoning, otherwise json.RawMessage // the reasoning in the fields that servers have for it
	refusal              json.RawMessage
	extra                []member // the fields that are kept as they are, those of reasoning and refusal among them
}

// readMessage reads a message. Its list of fields takes the memory of one that is
// not used any more.
func readMessage(raw json.RawMessage, list []member) (m message, err error) {
	m.extra = list[:0]
	if err := mustBeObject(raw, "message"); err != nil {
		return m, err
	}
	n := 0
	for name, value := range jsonwalk.Members(raw) {
		if n++; n > maxFields {
			return m, errTooManyFields
		}
		switch string(name) {
		case "content":
			m.content = value
			continue
		case "tool_calls":
			m.calls = value
			continue
		case "role":
			continue
		case "reasoning_content":
			m.reasoning = value
		case "reasoning":
			m.otherwise = value
		case "refusal":
			m.refusal = value
		}
		m.extra = append(m.extra, member{name, value})
	}
	return m, nil
}

func (a *Assembler) addMessage(raw json.RawMessage) (Delta, error) {
	if err := a.budget.spendOn(raw); err != nil {
		return Delta{}, err
	}
	m, err := readMessage(raw, a.ofMessage)
	if err != nil {
		return Delta{}, err
	}
	a.ofMessage = m.extra
	text, err := a.content.add(m.content, &a.budget)
	if err != nil {
		return Delta{}, err
	}
	call, err := a.addCalls(m.calls)
	if err != nil {
		return Delta{}, err
	}
	reasoning := jsonwalk.Text(m.reasoning)
	if reasoning == "" {
		reasoning = jsonwalk.Text(m.otherwise)
	}
	if text == "" {
		text = jsonwalk.Text(m.refusal)
	}
	return Delta{Text: text, Reasoning: reasoning, Call: call}, a.extra.merge(m.extra, a.whole, &a.budget)
}

// Progress counts the bytes of content, reasoning and arguments so far. It
// grows with each piece of data, but not with empty chunks.
func (a *Assembler) Progress() int {
	if a.Finished() {
		return a.budget.progress + 1
	}
	return a.budget.progress
}

// Finished reports whether the answer is complete. Only extras such as usage
// may still follow.
func (a *Assembler) Finished() bool { return a.chosen && (a.finish != "" || a.whole) }

// Finish returns the answer. The error is [ErrNoChoice] or [ErrUnfinished].
func (a *Assembler) Finish() (*Answer, error) {
	if !a.chosen {
		return nil, ErrNoChoice
	}
	if !a.Finished() {
		return nil, ErrUnfinished
	}
	ans := &Answer{
		ID:           a.id,
		Model:        a.model,
		Extra:        a.extra.encode(),
		FinishReason: a.finish,
		Usage:        a.usage.settled(),
	}
	ans.Content, ans.Parts = a.content.finish()
	ans.ToolCalls = a.finishCalls()
	if ans.FinishReason == "" {
		ans.FinishReason = "stop"
		if len(ans.ToolCalls) > 0 {
			ans.FinishReason = "tool_calls"
		}
	}
	if ans.Content == "" && len(ans.Parts) == 0 && len(ans.ToolCalls) == 0 {
		ans.Content = jsonwalk.Text(ans.Extra["refusal"])
	}
	return ans, nil
}
