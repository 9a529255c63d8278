package pygent

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/x/pygent/internal/responses"
)

// messageShape is the form in which messages are sent.
type messageShape struct {
	without  []string // fields, sorted
	noImages bool
	shortIDs bool
	thoughts bool             // calls go with reasoning, if only an empty one
	items    *responses.Input // for the Responses API
	key      string           // tells shapes apart; empty for that of chat completions, with everything
}

func (m *OpenAIModel) shape(name string, a adaptation) messageShape {
	without := slices.Collect(maps.Keys(a.stripped))
	if !m.sendReasoning {
		without = append(without, reasoningFields...)
	}
	slices.Sort(without)
	s := messageShape{without: slices.Compact(without), noImages: a.noImages, shortIDs: a.shortIDs, thoughts: a.thoughts}
	if m.inResponses(a) {
		s.items = &responses.Input{Model: name, Reasoning: m.sendReasoning && !a.noReasoning}
	}
	if len(s.without) > 0 || s.noImages || s.shortIDs || s.thoughts {
		s.key = fmt.Sprint(s.noImages, s.shortIDs, s.thoughts, s.without)
	}
	if s.items != nil {
		s.key += fmt.Sprintf("%+v", *s.items)
	}
	return s
}

// encode returns what is sent of msg in this shape.
func (s messageShape) encode(msg Message) ([]byte, error) {
	msg, err := msg.encoded()
	if err != nil || !s.changes(msg) {
		return msg.enc.bytes(), err
	}
	return msg.enc.variant(s.key, func() ([]byte, error) {
		b, err := s.apply(msg).marshal()
		if err != nil || s.items == nil {
			return b, err
		}
		return s.items.Items(b)
	})
}

// changes reports whether msg is sent otherwise than it is kept.
func (s messageShape) changes(msg Message) bool {
	if !msg.enc.bare || s.items != nil {
		return true
	}
	if s.key == "" {
		return false
	}
	if s.noImages && msg.HasImages() || s.shortIDs && msg.ToolCallID != "" || (s.shortIDs || s.thoughts) && len(msg.ToolCalls) > 0 {
		return true
	}
	if s.leavesOut(msg.Extra) {
		return true
	}
	return slices.ContainsFunc(msg.ToolCalls, func(c ToolCall) bool { return s.leavesOut(c.Extra) })
}

func (s messageShape) leavesOut(fields map[string]json.RawMessage) bool {
	return len(fields) > 0 && slices.ContainsFunc(s.without, func(name string) bool {
		_, ok := fields[name]
		return ok
	})
}

func (s messageShape) apply(msg Message) Message {
	if refusal := refusalAlone(msg); refusal != "" {
		msg.Content = refusal
	}
	msg.Extra = s.fields(msg.Extra)
	if s.items == nil {
		delete(msg.Extra, responses.Kept)
	}
	if _, ok := msg.Extra[reasoningContent]; !ok && s.thoughts && len(msg.ToolCalls) > 0 {
		msg.Extra[reasoningContent] = json.RawMessage(`""`)
	}
	if len(msg.ToolCalls) > 0 {
		msg.ToolCalls = slices.Clone(msg.ToolCalls)
		for i, c := range msg.ToolCalls {
			msg.ToolCalls[i].Extra = s.fields(c.Extra)
			msg.ToolCalls[i].ID = s.id(c.ID)
		}
	}
	msg.ToolCallID = s.id(msg.ToolCallID)
	if s.noImages && msg.HasImages() {
		msg = withoutImages(msg)
	}
	return msg
}

// fields returns the unknown fields of an object that are sent, in a new map.
func (s messageShape) fields(fields map[string]json.RawMessage) map[string]json.RawMessage {
	sent := make(map[string]json.RawMessage, len(fields))
	maps.Copy(sent, fields)
	for _, name := range s.without {
		delete(sent, name)
	}
	dropEmpty(sent)
	return sent
}

// id returns the id of a call as it is sent: the same for the same id, so that
// calls and results still meet.
func (s messageShape) id(id string) string {
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

// bridge is what stands between a result and the user's next words where a
// server refuses them to follow each other.
func (s messageShape) bridge() []byte {
	const message = `{"role":"assistant","content":"I see."}`
	if s.items == nil {
		return []byte(message)
	}
	items, _ := s.items.Items([]byte(message)) // it is well formed
	return items
}

// withoutImages puts words in the place of images.
func withoutImages(msg Message) Message {
	msg.Parts = slices.Clone(msg.Parts)
	for i, p := range msg.Parts {
		if p.ImageURL != "" {
			msg.Parts[i] = Part{Text: imageLeftOut}
		}
	}
	if !slices.ContainsFunc(msg.Parts, isForeign) {
		msg.Content, msg.Parts = joinTexts(msg.Parts), nil // for servers that know no parts at all
	}
	return msg
}

// isForeign reports whether p is neither text nor an image.
func isForeign(p Part) bool { return p.raw != nil && p.Text == "" && p.ImageURL == "" }

func joinTexts(parts []Part) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p.Text
	}
	return strings.Join(texts, "\n")
}

// refusalAlone returns the refusal of a message that says nothing else. It is
// sent as text, since some servers take no answer without any.
func refusalAlone(m Message) string {
	var refusal string
	if m.Role != RoleAssistant || m.Content != "" || len(m.Parts) > 0 || len(m.ToolCalls) > 0 ||
		json.Unmarshal(m.Extra["refusal"], &refusal) != nil {
		return ""
	}
	return refusal
}

// isBare reports whether m is sent as it is kept where no server wants it
// otherwise: there is nothing in it that only the Responses API understands, no
// unknown field without a value, and no refusal in the place of text.
func isBare(m Message) bool {
	if _, ok := m.Extra[responses.Kept]; ok || hasEmpty(m.Extra) || refusalAlone(m) != "" {
		return false
	}
	return !slices.ContainsFunc(m.ToolCalls, func(c ToolCall) bool { return hasEmpty(c.Extra) })
}

func hasEmpty(fields map[string]json.RawMessage) bool {
	for name, raw := range fields {
		if isEmptyField(name, raw) {
			return true
		}
	}
	return false
}

// dropEmpty takes fields without a value out of an object. Servers write them
// for all that they know, and refuse them when they come back.
func dropEmpty(fields map[string]json.RawMessage) { maps.DeleteFunc(fields, isEmptyField) }

// isEmptyField reports whether a field says nothing. Empty reasoning says that
// there was none: Moonshot and DeepSeek refuse calls without the field.
func isEmptyField(name string, raw json.RawMessage) bool {
	switch raw = bytes.TrimSpace(raw); string(raw) {
	case "", "null", "[]", "{}":
		return true
	case `""`:
		return !slices.Contains(reasoningFields, name)
	}
	return false
}
