// Package chatstream puts an answer of a chat completions API together, from
// the chunks of a stream or from one whole body, by the same rules.
//
// Servers disagree about streams more than about anything else, so the rules
// are stated here, and what the chunks leave open is decided in one place:
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
package chatstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Errors of answers that are not one.
var (
	// ErrUnfinished is returned for a stream that ended without a finish reason.
	ErrUnfinished = errors.New("the stream ended without a finish reason")
	// ErrNoChoice is returned when nothing was answered at all.
	ErrNoChoice = errors.New("the answer has no choices")
	// ErrMalformed is wrapped by errors about input that is not a chunk.
	ErrMalformed = errors.New("malformed answer")
	// ErrTooLarge is returned for an answer beyond the limits of this package.
	ErrTooLarge = errors.New("the answer is too large")
)

// Limits of one answer. They are far beyond what models write, and keep a
// server that runs wild from filling the memory.
const (
	maxSize  = 32 << 20 // bytes of all deltas
	maxCalls = 256
	maxItems = 4096 // indexed elements of an array
)

// ServerError is an error object that a server sent in place of a chunk.
type ServerError struct {
	Body json.RawMessage // the object, or what its "error" field held
}

// Error shows the object.
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

// Delta is what a chunk adds for people to read.
type Delta struct {
	Text      string
	Reasoning string
}

// Assembler builds one answer. The zero value is ready. It is not safe for
// concurrent use.
type Assembler struct {
	// TakenID, if set, reports ids that no call of this answer may have,
	// because other messages of the conversation use them.
	TakenID func(id string) bool

	id, model string
	choice    *int // the index of the choice that is read, once one was seen
	content   content
	calls     []*call
	extra     fields
	finish    string
	whole     bool // the last message came in one piece
	usage     Usage
	chunks    int // how many were added
	size      int
}

type chunk struct {
	ID, Model, Object, Type json.RawMessage
	Choices                 []choice
	Usage, Error            json.RawMessage
}

type choice struct {
	Index          json.RawMessage
	Delta, Message json.RawMessage
	FinishReason   json.RawMessage `json:"finish_reason"`
	Usage, Error   json.RawMessage
}

// Add takes one chunk of a stream, or a whole completion, which counts as
// finished. The bytes are not kept. The error is a [*ServerError], or one of
// this package's; the assembler is of no use after one.
func (a *Assembler) Add(data []byte) (Delta, error) {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return Delta{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if present(c.Error) {
		return Delta{}, &ServerError{Body: c.Error}
	}
	if len(c.Choices) == 0 && (stringOf(c.Object) == "error" || stringOf(c.Type) == "error") {
		return Delta{}, &ServerError{Body: bytes.Clone(data)}
	}
	a.chunks++
	if a.id == "" {
		a.id = stringOf(c.ID)
	}
	if a.model == "" {
		a.model = stringOf(c.Model)
	}
	a.usage.update(c.Usage)
	var delta Delta
	for _, ch := range c.Choices {
		d, err := a.addChoice(ch)
		if err != nil {
			return Delta{}, err
		}
		delta.Text += d.Text
		delta.Reasoning += d.Reasoning
	}
	return delta, nil
}

func (a *Assembler) addChoice(ch choice) (Delta, error) {
	index := 0
	if i := intOf(ch.Index); i != nil {
		index = *i
	}
	if a.choice == nil {
		a.choice = &index
	}
	if index != *a.choice {
		return Delta{}, nil
	}
	if present(ch.Error) {
		return Delta{}, &ServerError{Body: ch.Error}
	}
	a.usage.update(ch.Usage)
	if reason := stringOf(ch.FinishReason); reason != "" {
		a.finish = reason
	}
	switch {
	case present(ch.Delta):
		return a.addMessage(ch.Delta)
	case present(ch.Message):
		a.whole = true
		a.content, a.calls, a.extra = content{}, nil, nil
		return a.addMessage(ch.Message)
	}
	return Delta{}, nil
}

func (a *Assembler) addMessage(raw json.RawMessage) (Delta, error) {
	if a.size += len(raw); a.size > maxSize {
		return Delta{}, ErrTooLarge
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return Delta{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	text, err := a.content.add(m["content"])
	if err != nil {
		return Delta{}, err
	}
	if err := a.addCalls(m["tool_calls"]); err != nil {
		return Delta{}, err
	}
	reasoning := stringOf(m["reasoning_content"])
	if reasoning == "" {
		reasoning = stringOf(m["reasoning"])
	}
	if text == "" {
		text = stringOf(m["refusal"])
	}
	delete(m, "role")
	delete(m, "content")
	delete(m, "tool_calls")
	if a.extra == nil {
		a.extra = fields{}
	}
	return Delta{Text: text, Reasoning: reasoning}, a.extra.merge(m, a.whole)
}

// Finished reports whether the answer is complete, apart from what may trail
// it, such as usage.
func (a *Assembler) Finished() bool { return a.choice != nil && (a.finish != "" || a.whole) }

// Finish returns the answer. The error is [ErrNoChoice] or [ErrUnfinished].
func (a *Assembler) Finish() (*Answer, error) {
	if a.choice == nil {
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
		Usage:        a.usage,
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
		ans.Content = stringOf(ans.Extra["refusal"])
	}
	return ans, nil
}
