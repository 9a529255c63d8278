package responses

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/openai/chatstream"
)

// answerItem has the fields of an item of an answer that are read. They share
// the item's memory.
type answerItem struct {
	kind, id, phase, callID json.RawMessage
	name, arguments         json.RawMessage
	summary, content        json.RawMessage
	encrypted               json.RawMessage
}

func readItem(raw json.RawMessage) (*answerItem, error) {
	if !jsonobj.BeginsObject(raw) {
		return nil, fmt.Errorf("%w: the item is no object", chatstream.ErrMalformed)
	}
	it := &answerItem{}
	into := map[string]*json.RawMessage{
		"type": &it.kind, "id": &it.id, "phase": &it.phase, "call_id": &it.callID,
		"name": &it.name, "arguments": &it.arguments, "summary": &it.summary,
		"content": &it.content, "encrypted_content": &it.encrypted,
	}
	for name, value := range jsonobj.Members(raw) {
		if place, ok := into[string(name)]; ok {
			*place = value
		}
	}
	return it, nil
}

// Finish returns the answer. Its errors are those of package chatstream.
func (a *Assembler) Finish() (*chatstream.Answer, error) {
	if a.end == nil {
		return nil, chatstream.ErrUnfinished
	}
	output, err := a.output()
	if err != nil {
		return nil, err
	}
	ans := &chatstream.Answer{ID: a.end.id, Model: a.end.model, Usage: a.end.usage}
	if a.head != nil {
		ans.ID, ans.Model = cmp.Or(ans.ID, a.head.id), cmp.Or(ans.Model, a.head.model)
	}
	ids := a.ids()
	k := keeper{ids: true}
	var texts []string
	for _, raw := range output {
		it, err := readItem(raw)
		if err != nil {
			return nil, err
		}
		if said := it.addTo(ans, ids); said != "" {
			texts = append(texts, said)
		}
		k.add(it, raw)
	}
	ans.Content = strings.Join(texts, betweenTexts)
	ans.FinishReason = a.finishReason(ans)
	ans.Reasons = []string{ans.FinishReason}
	if len(output) == 0 && ans.FinishReason == "stop" {
		return nil, chatstream.ErrNoChoice
	}
	ans.Extra, err = k.extra(a.Model)
	return ans, err
}

// output returns the items of the answer: those that came complete, or else
// those of the final response, or else what the deltas add up to.
func (a *Assembler) output() ([]json.RawMessage, error) {
	var items []json.RawMessage
	complete := true
	if !slices.ContainsFunc(a.items, func(it *item) bool { return it.index < 0 }) {
		slices.SortStableFunc(a.items, func(x, y *item) int { return cmp.Compare(x.index, y.index) })
	}
	for _, it := range a.items {
		complete = complete && it.done != nil
	}
	if len(a.end.output) > 0 && (!complete || len(a.end.output) > len(a.items)) {
		return a.end.output, nil
	}
	for _, it := range a.items {
		raw, err := it.whole()
		if err != nil {
			return nil, err
		}
		items = append(items, raw)
	}
	return items, nil
}

// whole returns the complete item or, if it did not come, what its deltas add up
// to.
func (it *item) whole() (json.RawMessage, error) {
	if it.done != nil {
		return it.done, nil
	}
	fields := map[string]any{}
	for name, raw := range jsonobj.Members(it.began) { // what was announced, if anything
		if len(fields) == maxFields {
			return nil, fmt.Errorf("%w: more than %d fields in an item", chatstream.ErrTooLarge, maxFields)
		}
		fields[string(name)] = raw
	}
	fields["type"] = it.kind
	switch it.kind {
	case typeMessage:
		fields["content"] = []outputText{{Type: "output_text", Text: it.delta.String()}}
	case typeCall:
		fields["arguments"] = it.delta.String()
	}
	return encode(fields)
}

// addTo adds a call to the answer, and returns the text of a message.
func (it *answerItem) addTo(ans *chatstream.Answer, ids func(string) string) string {
	switch text(it.kind) {
	case typeMessage:
		return textOf(it.content)
	case typeCall:
		ans.ToolCalls = append(ans.ToolCalls, chatstream.ToolCall{
			ID:        ids(text(it.callID)),
			Name:      cmp.Or(strings.TrimSpace(text(it.name)), "unknown"),
			Arguments: argumentsOf(it.arguments),
		})
	}
	return ""
}

// argumentsOf returns the arguments of a call as JSON text. Some servers send
// the object itself instead of a string with its text.
func argumentsOf(raw json.RawMessage) string {
	if len(raw) > 0 && raw[0] == '{' {
		return string(raw)
	}
	return text(raw)
}

// messageText returns the text of a complete message item.
func messageText(raw json.RawMessage) string { return textOf(field(raw, "content")) }

// textOf joins the texts and refusals of an output message.
func textOf(content json.RawMessage) string {
	if !jsonobj.BeginsArray(content) {
		return text(content)
	}
	var b strings.Builder
	for part := range jsonobj.Elements(content) {
		b.WriteString(text(field(part, "text")) + text(field(part, "refusal")))
	}
	return b.String()
}

// ids returns a function that returns a call's id, or a new one if the server
// sent none or one that is in use.
func (a *Assembler) ids() func(id string) string {
	used := map[string]bool{}
	return func(id string) string {
		for id == "" || used[id] || a.TakenID != nil && a.TakenID(id) {
			id = chatstream.NewID()
		}
		used[id] = true
		return id
	}
}

// finishReason returns why the answer ended, in the server's words or, where it has none,
// in those of chat completions.
func (a *Assembler) finishReason(ans *chatstream.Answer) string {
	switch reason := a.end.incomplete; {
	case reason != "":
		return reason
	case a.end.status == "incomplete":
		return "length"
	case len(ans.ToolCalls) > 0:
		return "tool_calls"
	}
	return "stop"
}
