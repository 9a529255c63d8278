package pygenttest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/jsonobj"
)

// reasoningItems is the extra field of a message in [Request.Chat] with the
// reasoning items before it.
const reasoningItems = "reasoning_items"

// inputItem is what an item of the input stands for.
type inputItem struct {
	reasoning bool // which is kept as it is
	message   pygent.Message
}

// decodeResponses fills in the fields from those of a request of the Responses API. It
// turns the input into the messages that it stands for. It adds to plain what it decoded
// on the way.
func (r *Request) decodeResponses(known *memos, plain map[string]any) error {
	r.IncludeUsage = true
	request := &pygent.ChatRequest{}
	var instructions string
	var include []string
	err := cmp.Or(r.field("model", &request.Model), r.field("instructions", &instructions),
		r.field("stream", &r.Stream), r.field("include", &include))
	if raw := r.Fields["tools"]; raw != nil {
		tools := known.tools.of(raw, decodeTools)
		plain["tools"], request.Tools = tools.plain, slices.Clone(tools.value)
		err = cmp.Or(err, decodeError(tools.err))
	}
	if err != nil {
		return err
	}
	r.Chat = request
	r.encrypted = slices.Contains(include, "reasoning.encrypted_content")
	if instructions != "" {
		request.Messages = append(request.Messages, chat.SystemMessage(instructions))
	}
	if !jsonobj.BeginsArray(r.Fields["input"]) {
		var text string
		if err := r.field("input", &text); err != nil {
			return err
		}
		request.Messages = append(request.Messages, chat.UserMessage(text))
		return nil
	}
	list, messages, err := inputMessages(known, r.Fields["input"])
	plain["input"], request.Messages = list, append(request.Messages, messages...)
	return decodeError(err)
}

func decodeTools(raw json.RawMessage) (tools []chat.ToolSpec, err error) {
	return tools, json.Unmarshal(raw, &tools)
}

// inputMessages returns the items of the input, and the messages that they stand for. The
// reasoning, the text and the calls of one answer become one message again.
func inputMessages(known *memos, input json.RawMessage) (plain []any, out []pygent.Message, err error) {
	var reasoning []json.RawMessage
	plain = []any{}
	for raw := range jsonobj.Elements(input) {
		d := known.items.of(raw, decodeItem)
		switch {
		case d.err != nil && err == nil:
			err = fmt.Errorf("input[%d]: %w", len(plain), d.err)
		case d.value.reasoning:
			reasoning = append(reasoning, raw)
		default:
			out, reasoning = addMessage(out, copyMessage(d.value.message), reasoning), nil
		}
		plain = append(plain, d.plain)
	}
	return plain, out, err
}

// addMessage appends m, with the reasoning before it, to messages. A call that
// follows its answer's text or another call goes into that message.
func addMessage(messages []pygent.Message, m pygent.Message, reasoning []json.RawMessage) []pygent.Message {
	last := len(messages) - 1
	if len(m.ToolCalls) > 0 && reasoning == nil && last >= 0 && messages[last].Role == chat.RoleAssistant {
		messages[last].ToolCalls = append(messages[last].ToolCalls, m.ToolCalls...)
		return messages
	}
	if reasoning != nil {
		list, _ := json.Marshal(reasoning) // it was decoded, so it encodes
		m.Extra = map[string]json.RawMessage{reasoningItems: list}
	}
	return append(messages, m)
}

// decodeItem returns what a single item stands for.
func decodeItem(raw json.RawMessage) (inputItem, error) {
	var it struct {
		Type      string
		Role      chat.Role
		Content   json.RawMessage
		CallID    string `json:"call_id"`
		Name      string
		Arguments string
		Output    json.RawMessage
	}
	if err := json.Unmarshal(raw, &it); err != nil {
		return inputItem{}, err
	}
	var m pygent.Message
	var err error
	switch it.Type {
	case "reasoning":
		return inputItem{reasoning: true}, nil
	case "function_call":
		m = chat.AssistantMessage("", pygent.ToolCall{ID: it.CallID, Name: it.Name, Arguments: it.Arguments})
	case "function_call_output":
		m = chat.ToolMessage(it.CallID, "")
		err = setContent(&m, it.Output)
	default:
		m.Role = it.Role
		if m.Role == "developer" {
			m.Role = chat.RoleSystem
		}
		err = setContent(&m, it.Content)
	}
	return inputItem{message: m}, err
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
