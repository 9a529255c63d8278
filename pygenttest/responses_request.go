package pygenttest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent"
)

// reasoningItems is the extra field of a message in [Request.Chat] with the
// reasoning items before it.
const reasoningItems = "reasoning_items"

// responsesBody has the fields of a request of the Responses API that a script
// may need.
type responsesBody struct {
	Model        string
	Instructions string
	Input        json.RawMessage
	Tools        []pygent.ToolSpec
	Stream       bool
	Include      []string
}

// inputItem is an item of the input, of any type.
type inputItem struct {
	Type      string
	Role      pygent.Role
	Content   json.RawMessage
	CallID    string `json:"call_id"`
	Name      string
	Arguments string
	Output    json.RawMessage
}

// decodeResponses fills in the fields from the body of a request of the
// Responses API. It turns the input into the messages that it stands for.
func (r *Request) decodeResponses() error {
	var in responsesBody
	if err := json.Unmarshal(r.Body, &in); err != nil {
		return fmt.Errorf("decode the request: %w", err)
	}
	r.Stream, r.IncludeUsage = in.Stream, true
	r.encrypted = slices.Contains(in.Include, "reasoning.encrypted_content")
	r.Chat = &pygent.ChatRequest{Model: in.Model, Tools: in.Tools}
	if in.Instructions != "" {
		r.Chat.Messages = append(r.Chat.Messages, pygent.SystemMessage(in.Instructions))
	}
	var text string
	if json.Unmarshal(in.Input, &text) == nil {
		r.Chat.Messages = append(r.Chat.Messages, pygent.UserMessage(text))
		return nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(in.Input, &items); err != nil {
		return fmt.Errorf("decode the request: input: %w", err)
	}
	messages, err := inputMessages(items)
	r.Chat.Messages = append(r.Chat.Messages, messages...)
	return err
}

// inputMessages returns the messages that items stand for. The reasoning, the
// text and the calls of one answer become one message again.
func inputMessages(items []json.RawMessage) ([]pygent.Message, error) {
	var out []pygent.Message
	var reasoning []json.RawMessage
	for i, raw := range items {
		var it inputItem
		if err := json.Unmarshal(raw, &it); err != nil {
			return nil, fmt.Errorf("decode the request: input[%d]: %w", i, err)
		}
		if it.Type == "reasoning" {
			reasoning = append(reasoning, raw)
			continue
		}
		m, err := it.message()
		if err != nil {
			return nil, fmt.Errorf("decode the request: input[%d]: %w", i, err)
		}
		out = addMessage(out, m, reasoning)
		reasoning = nil
	}
	return out, nil
}

// addMessage appends m, with the reasoning before it, to messages. A call that
// follows its answer's text or another call goes into that message.
func addMessage(messages []pygent.Message, m pygent.Message, reasoning []json.RawMessage) []pygent.Message {
	last := len(messages) - 1
	if len(m.ToolCalls) > 0 && reasoning == nil && last >= 0 && messages[last].Role == pygent.RoleAssistant {
		messages[last].ToolCalls = append(messages[last].ToolCalls, m.ToolCalls...)
		return messages
	}
	if reasoning != nil {
		list, _ := json.Marshal(reasoning) // it was decoded, so it encodes
		m.Extra = map[string]json.RawMessage{reasoningItems: list}
	}
	return append(messages, m)
}

// message returns the message that a single item stands for.
func (it inputItem) message() (pygent.Message, error) {
	switch it.Type {
	case "function_call":
		call := pygent.ToolCall{ID: it.CallID, Name: it.Name, Arguments: it.Arguments}
		return pygent.AssistantMessage("", call), nil
	case "function_call_output":
		m := pygent.ToolMessage(it.CallID, "")
		err := setContent(&m, it.Output)
		return m, err
	default:
		m := pygent.Message{Role: it.Role}
		if m.Role == "developer" {
			m.Role = pygent.RoleSystem
		}
		err := setContent(&m, it.Content)
		return m, err
	}
}

// setContent sets a message's content from a string or a list of parts.
func setContent(m *pygent.Message, content json.RawMessage) error {
	if json.Unmarshal(content, &m.Content) == nil {
		return nil
	}
	var parts []struct {
		Text     string
		ImageURL string `json:"image_url"`
	}
	if err := json.Unmarshal(content, &parts); err != nil {
		return err
	}
	var text strings.Builder
	for _, p := range parts {
		m.Parts = append(m.Parts, pygent.Part{Text: p.Text, ImageURL: p.ImageURL})
		text.WriteString(p.Text)
	}
	if !m.HasImages() {
		m.Parts, m.Content = nil, text.String()
	}
	return nil
}
