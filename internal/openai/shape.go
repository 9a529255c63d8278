package openai

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/openai/responses"
)

// standInSignature is the signature that Google documents for calls that Gemini
// did not make.
const standInSignature = `{"google":{"thought_signature":"skip_thought_signature_validator"}}`

// reasoningContent is the field in which most servers return reasoning.
const reasoningContent = "reasoning_content"

// reasoningFields are the fields of assistant messages in which
// OpenAI-compatible servers return reasoning.
var reasoningFields = []string{"reasoning", reasoningContent, "reasoning_details", "reasoning_text", "thinking", "thinking_blocks"}

// shape is the form in which messages are sent.
type shape struct {
	without  []string // fields, sorted
	left     media    // content that is left out
	shortIDs bool
	thoughts bool             // calls go with reasoning, if only an empty one
	signed   bool             // calls go with Gemini's signature, if only a stand-in
	inline   string           // the model whose thoughts go back within its text; empty for none
	items    *responses.Input // for the Responses API
	key      string           // tells shapes apart; empty for that of chat completions, with everything
}

func (c *Client) shape(name string, a adaptation) shape {
	without := slices.Collect(maps.Keys(a.stripped))
	if !c.sendReasoning {
		without = append(without, reasoningFields...)
	}
	slices.Sort(without)
	s := shape{
		without:  slices.Compact(without),
		left:     a.left,
		shortIDs: a.shortIDs,
		thoughts: a.thoughts,
		signed:   a.signed,
	}
	if c.sendReasoning {
		s.inline = name
	}
	if c.inResponses(a) {
		s.items = &responses.Input{Model: name, Reasoning: c.sendReasoning && !a.noReasoning}
	}
	if len(s.without) > 0 || s.left != 0 || s.changesCalls() {
		s.key = fmt.Sprint(uint8(s.left), s.shortIDs, s.thoughts, s.signed, s.without)
	}
	if s.items != nil {
		s.key += fmt.Sprintf("%+v", *s.items)
	}
	return s
}

// encode returns what is sent of a message in this shape. It is asked twice for each
// message of a request, which is why it does not copy the shape.
func (s *shape) encode(m *Message) ([]byte, error) {
	if !s.changes(m) {
		return m.json, nil
	}
	key := s.key
	if has(m.fields, inlineReasoning) {
		key += " " + s.inline
	}
	return m.variant(key, func() ([]byte, error) {
		b, err := s.apply(m)
		if err != nil || s.items == nil {
			return b, err
		}
		return s.items.Items(b)
	})
}

// changes reports whether a message is sent in another form than it is kept.
func (s *shape) changes(m *Message) bool {
	switch {
	case !m.bare || s.items != nil:
		return true
	case s.key == "":
		return false
	case s.left&m.media != 0, s.changesCalls() && (m.callID != "" || len(m.calls) > 0), s.leavesOut(m.fields):
		return true
	}
	return slices.ContainsFunc(m.calls, func(c toolCall) bool { return s.leavesOut(c.fields) })
}

func (s *shape) changesCalls() bool { return s.shortIDs || s.thoughts || s.signed }

func (s *shape) leavesOut(fields []field) bool {
	return slices.ContainsFunc(fields, func(f field) bool { return slices.Contains(s.without, f.name) })
}

// apply writes a message in this shape, its fields in the order they have.
func (s shape) apply(m *Message) ([]byte, error) {
	var w jsonobj.Writer
	for name, value := range jsonobj.Members(m.json) {
		switch string(name) {
		case "role", "name":
			w.Raw(string(name), value)
		case "content":
			s.writeContent(&w, m)
		case "tool_calls":
			w.Begin("tool_calls", '[')
			for _, c := range m.calls {
				s.writeCall(&w, c)
			}
			w.End(']')
		case "tool_call_id":
			w.Text("tool_call_id", s.id(m.callID))
		}
	}
	fields := s.fields(m.fields)
	delete(fields, inlineReasoning)
	if s.items == nil {
		delete(fields, responses.Kept)
	}
	if _, ok := fields[reasoningContent]; !ok && s.thoughts && len(m.calls) > 0 {
		fields[reasoningContent] = json.RawMessage(`""`)
	}
	w.Rest(fields)
	return w.Done()
}

func (s shape) writeContent(w *jsonobj.Writer, m *Message) {
	refusal := m.refusalAlone()
	switch {
	case refusal != nil:
		w.Raw("content", refusal)
	case s.left&m.media != 0:
		w.Field("content", withoutMedia(m.content, s.left))
	case s.inline != "" && s.items == nil && has(m.fields, inlineReasoning):
		w.Raw("content", withInline(m, s.inline))
	default:
		w.Raw("content", m.content)
	}
}

func (s shape) writeCall(w *jsonobj.Writer, c toolCall) {
	w.Element()
	w.Text("id", s.id(c.id))
	w.Text("type", "function")
	w.Raw("function", c.function)
	fields := s.fields(c.fields)
	if s.signed && !has(c.fields, "extra_content") {
		fields["extra_content"] = json.RawMessage(standInSignature)
	}
	w.Rest(fields)
	w.End('}')
}

// fields returns the unknown fields of an object that are sent.
func (s shape) fields(fields []field) map[string]json.RawMessage {
	sent := make(map[string]json.RawMessage, len(fields))
	for _, f := range fields {
		if !f.isEmpty() && !slices.Contains(s.without, f.name) {
			sent[f.name] = f.value
		}
	}
	return sent
}

// id returns the id of a call as it is sent. Equal ids stay equal, so that
// calls and results still match.
func (s shape) id(id string) string {
	const length, alphabet = 9, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	legal := len(id) == length && strings.Trim(id, alphabet) == ""
	if !s.shortIDs || id == "" || legal {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	short := make([]byte, length)
	for i := range short {
		short[i] = alphabet[int(sum[i])%len(alphabet)]
	}
	return string(short)
}

// bridge is the message between a result and the next user message, for servers
// that do not accept one right after the other.
func (s shape) bridge() []byte {
	const message = `{"role":"assistant","content":"I see."}`
	if s.items == nil {
		return []byte(message)
	}
	items, _ := s.items.Items([]byte(message)) // it is well formed
	return items
}
