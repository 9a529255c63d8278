package openai

import (
	"cmp"
	"encoding/json"
	"errors"

	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/openai/chatstream"
	"github.com/x/pygent/internal/openai/thought"
)

// inlineReasoning is the field of an assistant message for thoughts that the model wrote
// into its text, between tags. They go back to that model as they came, before the text,
// since some need them (MiniMax) and the templates of the others leave them out.
const inlineReasoning = "inline_reasoning"

// inline is the value of that field.
type inline struct {
	Model string `json:"model"` // as it was requested
	Text  string `json:"text"`  // with its tags
}

// Thoughts returns the reasoning that an assistant message has in its unknown fields, as
// text; empty for none.
func Thoughts(extra map[string]json.RawMessage) string {
	var in inline
	if json.Unmarshal(extra[inlineReasoning], &in) == nil && in.Text != "" {
		return thought.Inside(in.Text)
	}
	return cmp.Or(jsonobj.Text(extra[reasoningContent]), jsonobj.Text(extra["reasoning"]), jsonobj.Text(extra["reasoning_text"]), jsonobj.Text(extra["thinking"]))
}

// takeThoughts moves the thoughts out of the text of an answer. What people were shown of
// it is taken back, if its beginning turns out to be thoughts only now.
func (c *call) takeThoughts(answer *chatstream.Answer) error {
	if c.inResponses() { // whose items have their own places for both
		return nil
	}
	before, text := thought.Split(answer.Content)
	if c.closing != "" && before == "" {
		before, text = thought.SplitInside(answer.Content, c.closing, answer.FinishReason == string(CutOff))
	}
	wasText := c.closing != "" && before == "" && text != ""
	shown, hidden := c.splitter.End()
	closing := thought.Closing(before)
	switch {
	case c.emit == nil:
	case closing != "" && c.closing == "":
		c.emit(Delta{Withdrawn: true, Reasoning: thought.Inside(before), Text: text,
			Notice: "the beginning of the answer was the model's reasoning, whose opening tag its server leaves out"})
	case wasText:
		c.emit(Delta{Withdrawn: true, Text: text, Notice: "the model answered without reasoning"})
	case shown != "" || hidden != "":
		c.emit(Delta{Text: shown, Reasoning: hidden})
	}
	if before != "" || wasText {
		c.client.noteThoughts(c.name, closing)
	}
	if before == "" {
		return nil
	}
	kept, err := json.Marshal(inline{c.name, before})
	if err != nil {
		return errors.New("the model's reasoning cannot be kept")
	}
	if answer.Extra == nil {
		answer.Extra = map[string]json.RawMessage{}
	}
	answer.Content, answer.Extra[inlineReasoning] = text, kept
	return nil
}

// opensInThoughts returns the tag that closes the thoughts within which the answers of a
// model begin; empty for those of another model.
func (c *Client) opensInThoughts(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.habits[name].closing
}

// noteThoughts remembers whether an answer of a model began within its thoughts.
func (c *Client) noteThoughts(name, closing string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.habits[name]
	known.closing = closing
	c.habits[name] = known
}

// withInline returns the content of a message with the thoughts before it that the named
// model wrote there.
func withInline(m *Message, model string) json.RawMessage {
	var in inline
	for _, f := range m.fields {
		if f.name == inlineReasoning && json.Unmarshal(f.value, &in) == nil && in.Model == model && (len(m.content) == 0 || m.content[0] != '[') {
			if content, err := json.Marshal(in.Text + jsonobj.Text(m.content)); err == nil {
				return content
			}
		}
	}
	return m.content
}
