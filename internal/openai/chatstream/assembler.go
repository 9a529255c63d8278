// Package chatstream assembles an answer of a chat completions API, from the
// chunks of a stream or from one whole body, by the same rules.
//
// Streams are where servers differ most. So the rules are stated here, and
// whatever the chunks leave open is decided in one place:
//
//   - Text is kept whatever the chunk's id. It is joined before it is decoded,
//     so that a character split between chunks comes out whole.
//   - A stream is complete when each of its choices gave a finish reason, which
//     outlives chunks that follow it. One beside each piece of text ends nothing, until
//     it comes alone, or [DONE] or the usage does. Without any it is complete if [DONE] comes
//     after the usage, and no call is left open. [DONE] alone proves nothing, since
//     a proxy that lost its upstream sends it too; see [Assembler.TrustDone].
//   - Usage counts are running totals: the last one that is not zero holds.
//   - Which call a fragment belongs to is told by its index and id; see
//     [Assembler.callFor] for the servers that leave them out or repeat them.
//   - Fields this package does not know are kept: strings are joined, arrays
//     appended, their elements with the same "index" merged, of anything else
//     the last holds. A field sent once is kept byte for byte.
//   - Choices are pieces of one answer (Copilot has its text in one and its calls
//     in another), unless several were asked for; then only the first counts.
//   - The server is not trusted. A chunk is walked and not decoded, and what is
//     kept of it is paid for out of one budget; see [budget].
package chatstream

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent/internal/jsonobj"
)

// Errors of incomplete or invalid answers.
var (
	// ErrUnfinished is returned for a stream that ended without a finish reason.
	ErrUnfinished = errors.New("the stream ended without a finish reason")
	// ErrUnproven is an [ErrUnfinished] of a stream that is complete for all that it
	// says, but ended with nothing but [DONE].
	ErrUnproven = fmt.Errorf("%w, but with [DONE]", ErrUnfinished)
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
	Reasons      []string // of all its choices, in the server's words
	Unread       int      // choices beside the first that were left out, since several were asked for
	Halves       int      // choices that were left out, since they had not ended when the stream broke off beside a whole one
	Unnamed      bool     // the server gave no finish reason, so FinishReason says what the answer has
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
	Arguments string // the pieces of arguments in it, as JSON
}

// Assembler builds one answer. The zero value is ready. It is not safe for
// concurrent use.
type Assembler struct {
	// TakenID, if set, reports ids that no call of this answer may have,
	// because other messages of the conversation use them.
	TakenID func(id string) bool

	// Alternatives says that several choices were asked for, of which the first counts.
	Alternatives bool
	// TrustDone accepts an answer that ended with nothing but [DONE], of a server that
	// is known to give no finish reasons.
	TrustDone bool

	id, model string
	parts     []*part // the choices, in the order in which they began
	unread    map[int]bool
	usage     Usage
	closing   bool // the last thing that came is the usage
	done      bool // [DONE] has come
	chunks    int  // how many were added
	budget    budget

	// Memory for the fields of a message, and of a call in it, which no chunk needs for
	// itself alone.
	ofMessage, ofCall []member
}

// part is a choice.
type part struct {
	index   int
	content content
	calls   []*call
	extra   fields
	finish  string
	beside  bool // the last reason came beside text
	hollow  bool // so did the one before, or nothing did: the server gives one with each piece, which ends nothing
	whole   bool // the last message came in one piece
	legacy  bool // its call came as function_call
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
	if jsonobj.BeginsObject(raw) || !present(bytes.TrimSpace(raw)) {
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
	for name, raw := range jsonobj.Members(data) {
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
		a.id = headOf(jsonobj.Text(c.id))
	}
	if a.model == "" {
		a.model = headOf(jsonobj.Text(c.model))
	}
	before := a.Progress()
	a.usage.update(c.usage)
	delta, choices, err := a.addChoices(c.choices)
	if err == nil && choices == 0 && !a.Finished() && c.saysError(data) {
		err = NewServerError(data)
	}
	a.closing = (a.closing || present(c.usage) && a.usage.Completion > 0) && a.Progress() == before
	return delta, err
}

// Done records that the stream ended as streams should, with [DONE].
func (a *Assembler) Done() { a.done = true }

// headOf cuts a name to the length that names may have.
func headOf(name string) string {
	return strings.ToValidUTF8(name[:min(len(name), maxName)], "")
}

// addChoices also returns the number of choices.
func (a *Assembler) addChoices(choices json.RawMessage) (Delta, int, error) {
	var delta Delta
	n := 0
	for raw := range jsonobj.Elements(choices) {
		if n++; n > maxChoices {
			return Delta{}, n, tooMany("choices", maxChoices)
		}
		ch, err := readChoice(raw)
		if err != nil {
			return Delta{}, n, err
		}
		d, err := a.addChoice(ch, n-1)
		if err != nil {
			return Delta{}, n, err
		}
		delta.Text += d.Text
		delta.Reasoning += d.Reasoning
		delta.Arguments += d.Arguments
		if d.Call != (CallDelta{}) {
			delta.Call = d.Call
		}
	}
	return delta, n, nil
}

// addChoice adds a choice, or a piece of one, which is at a place in the list of its
// chunk.
func (a *Assembler) addChoice(ch choice, at int) (Delta, error) {
	p, err := a.partFor(ch, at)
	if p == nil || err != nil {
		return Delta{}, err
	}
	if present(ch.err) {
		return Delta{}, NewServerError(ch.err)
	}
	a.usage.update(ch.usage)
	reason := headOf(jsonobj.Text(ch.finish))
	if reason == "null" { // as some write a missing one
		reason = ""
	}
	p.finish = cmp.Or(reason, p.finish)
	switch {
	case present(ch.delta):
		d, err := a.addMessage(p, ch.delta)
		if reason != "" {
			first := a.chunks == 1 && p.isEmpty() && hasRole(ch.delta) // which only begins the message
			beside := d.Text != "" || d.Reasoning != "" || first
			p.beside, p.hollow = beside, beside && (p.hollow || p.beside || first)
		}
		return d, err
	case present(ch.message):
		p.whole = true
		p.content, p.calls, p.extra = content{}, nil, nil
		return a.addMessage(p, ch.message)
	}
	return Delta{}, nil
}

func hasRole(delta json.RawMessage) bool {
	for name := range jsonobj.Members(delta) {
		if string(name) == "role" {
			return true
		}
	}
	return false
}

// partFor returns the choice that ch is, or a piece of; nil for one that does not count.
// Copilot gives its choices no index, and a whole one is never continued.
func (a *Assembler) partFor(ch choice, at int) (*part, error) {
	index := at
	if told := indexOf(ch.index); told.told {
		index = told.at
	}
	whole := present(ch.message) && at > 0
	for _, p := range a.parts {
		if p.index == index && !(whole && p.whole) {
			return p, nil
		}
	}
	if a.Alternatives && len(a.parts) > 0 {
		if len(a.unread) < maxChoices {
			if a.unread == nil {
				a.unread = map[int]bool{}
			}
			a.unread[index] = true
		}
		return nil, nil
	}
	if len(a.parts) == maxChoices {
		return nil, tooMany("choices", maxChoices)
	}
	p := &part{index: index}
	a.parts = append(a.parts, p)
	return p, a.budget.spend(costOfItem)
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
	for name, raw := range jsonobj.Members(object) {
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
	call                 json.RawMessage // function_call, as it was before there were several
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
	for name, value := range jsonobj.Members(raw) {
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
		case "function_call":
			m.call = value
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

// betweenTexts separates the texts of several choices.
const betweenTexts = "\n\n"

func (a *Assembler) addMessage(p *part, raw json.RawMessage) (Delta, error) {
	if err := a.budget.spendOn(raw); err != nil {
		return Delta{}, err
	}
	m, err := readMessage(raw, a.ofMessage)
	if err != nil {
		return Delta{}, err
	}
	a.ofMessage = m.extra
	begins := p.content.isEmpty()
	text, err := p.content.add(m.content, &a.budget)
	if err != nil {
		return Delta{}, err
	}
	call, arguments, err := a.addCalls(p, p.callsOf(m))
	if err != nil {
		return Delta{}, err
	}
	reasoning := jsonobj.Text(m.reasoning)
	if reasoning == "" {
		reasoning = jsonobj.Text(m.otherwise)
	}
	if text == "" {
		text = jsonobj.Text(m.refusal)
	}
	if begins && text != "" && slices.ContainsFunc(a.parts, func(other *part) bool { return other != p && !other.content.isEmpty() }) {
		text = betweenTexts + text
	}
	return Delta{Text: text, Reasoning: reasoning, Call: call, Arguments: arguments}, p.extra.merge(m.extra, p.whole, &a.budget)
}

// callsOf returns the calls of a message. Some gateways send a call as function_call, and
// others do so beside tool_calls, where it says nothing new.
func (p *part) callsOf(m message) json.RawMessage {
	switch {
	case present(m.calls) && string(m.calls) != "[]":
		if p.legacy {
			p.calls, p.legacy = nil, false
		}
	case jsonobj.BeginsObject(m.call) && (len(p.calls) == 0 || p.legacy):
		p.legacy = true
		return slices.Concat([]byte(`{"index":0,"function":`), m.call, []byte("}"))
	}
	return m.calls
}

// Progress counts the bytes of content, reasoning and arguments so far. It
// grows with each piece of data, but not with empty chunks.
func (a *Assembler) Progress() int {
	if a.Finished() {
		return a.budget.progress + 1
	}
	return a.budget.progress
}

// hasEnded reports whether a choice has its finish reason.
func (p *part) hasEnded() bool { return p.whole || p.finish != "" && !p.hollow }

// Finished reports whether the answer is complete. Only extras such as usage
// may still follow, or another choice.
func (a *Assembler) Finished() bool {
	for _, p := range a.parts {
		if !p.hasEnded() {
			return false
		}
	}
	return len(a.parts) > 0
}

// OwesCalls reports whether the answer says that it calls tools, and no call has come: it
// may be in another choice, which a server may write in one piece at its end.
func (a *Assembler) OwesCalls() bool {
	says := func(p *part) bool { return p.finish == "tool_calls" || p.finish == "function_call" }
	return slices.ContainsFunc(a.parts, says) && !slices.ContainsFunc(a.parts, func(p *part) bool { return len(p.calls) > 0 })
}

// endsWell returns no error for a stream that lacks a finish reason and ended as a
// complete one does.
func (a *Assembler) endsWell() error {
	named := slices.ContainsFunc(a.parts, func(p *part) bool { return p.finish != "" && (!p.hollow || a.done || a.closing) })
	said := a.budget.progress > 0
	for _, p := range a.parts {
		if p.hasEnded() {
			continue
		}
		for _, c := range p.calls {
			said = said || c.name != ""
			if !c.so.scan.done && (len(c.args.body) > 0 || !a.closing) {
				return ErrUnfinished
			}
		}
	}
	switch {
	case named:
		return nil
	case !a.done || !said:
		return ErrUnfinished
	case !a.closing && !a.TrustDone:
		return ErrUnproven
	}
	return nil
}

// Used returns what the answer has taken, as far as the server has said so.
func (a *Assembler) Used() Usage { return a.usage.settled() }

// ended returns the choices that the answer consists of, and how many others had not ended
// when the stream broke off. A call whose arguments are closed is whole.
func (a *Assembler) ended() (parts []*part, halves int) {
	if a.Finished() || a.done || a.closing {
		return a.parts, 0
	}
	for _, p := range a.parts {
		if p.hasEnded() || len(p.calls) > 0 {
			parts = append(parts, p)
		} else if !p.isEmpty() {
			halves++
		}
	}
	return parts, halves
}

func (p *part) isEmpty() bool { return p.content.isEmpty() && len(p.calls) == 0 }

// Finish returns the answer. The error is [ErrNoChoice], [ErrUnfinished] or
// [ErrUnproven].
func (a *Assembler) Finish() (*Answer, error) {
	if len(a.parts) == 0 {
		return nil, ErrNoChoice
	}
	ans := &Answer{ID: a.id, Model: a.model, Usage: a.Used(), Unread: len(a.unread)}
	if !a.Finished() {
		if err := a.endsWell(); err != nil {
			return nil, err
		}
		ans.Unnamed = true
	}
	parts, halves := a.ended()
	if halves > 0 && !slices.ContainsFunc(parts, func(p *part) bool { return !p.isEmpty() }) {
		return nil, ErrUnfinished
	}
	ans.Halves = halves
	for _, p := range parts {
		if p.finish != "" {
			ans.Reasons, ans.Unnamed = append(ans.Reasons, p.finish), false
		}
	}
	if len(ans.Reasons) > 0 {
		ans.FinishReason = ans.Reasons[0]
	}
	whole := joined(parts)
	ans.Extra = whole.extra.encode()
	ans.Content, ans.Parts = whole.content.finish()
	ans.ToolCalls = a.finishCalls(whole.calls)
	if ans.FinishReason == "" {
		ans.FinishReason = "stop"
		if len(ans.ToolCalls) > 0 {
			ans.FinishReason = "tool_calls"
		}
	}
	if ans.Content == "" && len(ans.Parts) == 0 && len(ans.ToolCalls) == 0 {
		ans.Content = jsonobj.Text(ans.Extra["refusal"])
	}
	return ans, nil
}

// joined returns choices as one: their texts one after the other, all their calls,
// and of each other field the first. What is there twice counts once.
func joined(parts []*part) *part {
	whole := parts[0]
	for _, p := range parts[1:] {
		whole.content.join(&p.content)
		for _, c := range p.calls {
			if !slices.ContainsFunc(whole.calls, c.equals) {
				whole.calls = append(whole.calls, c)
			}
		}
		for name, value := range p.extra {
			if whole.extra == nil {
				whole.extra = fields{}
			}
			if _, ok := whole.extra[name]; !ok {
				whole.extra[name] = value
			}
		}
	}
	return whole
}
