package pygenttest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent"
)

// reasoningItems is the extra field of a message of [Request.Chat] that holds
// the reasoning items before it.
const reasoningItems = "reasoning_items"

// responsesBody is what a script may want to know of a request of the
// Responses API.
type responsesBody struct {
	Model        string
	Instructions string
	Input        json.RawMessage
	Tools        []pygent.ToolSpec
	Stream       bool
	Include      []string
}

// inputItem is an item of the input, of whatever type.
type inputItem struct {
	Type      string
	Role      pygent.Role
	Content   json.RawMessage
	CallID    string `json:"call_id"`
	Name      string
	Arguments string
	Output    json.RawMessage
}

// decodeResponses fills in what the body of a request of the Responses API
// says, its input as the messages that it stands for.
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
		if last := len(out) - 1; it.Type == "function_call" && reasoning == nil && last >= 0 && out[last].Role == pygent.RoleAssistant {
			out[last].ToolCalls = append(out[last].ToolCalls, m.ToolCalls...)
			continue
		}
		if reasoning != nil {
			b, err := json.Marshal(reasoning)
			if err != nil {
				return nil, err
			}
			m.Extra = map[string]json.RawMessage{reasoningItems: b}
			reasoning = nil
		}
		out = append(out, m)
	}
	return out, nil
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
