package responses

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/x/pygent/internal/chatstream"
)

// answerItem is what is read of an item of an answer.
type answerItem struct {
	Type, ID, Phase  json.RawMessage
	CallID           json.RawMessage `json:"call_id"`
	Name, Arguments  json.RawMessage
	Summary, Content json.RawMessage
	Encrypted        json.RawMessage `json:"encrypted_content"`
}

// Finish returns the answer. The error is one of chatstream's.
func (a *Assembler) Finish() (*chatstream.Answer, error) {
	if a.end == nil {
		return nil, chatstream.ErrUnfinished
	}
	output := a.output()
	if len(output) > maxItems {
		return nil, chatstream.ErrTooLarge
	}
	ans := &chatstream.Answer{ID: text(a.end.ID), Model: text(a.end.Model), Usage: usageOf(a.end.Usage)}
	if a.head != nil {
		ans.ID, ans.Model = cmp.Or(ans.ID, text(a.head.ID)), cmp.Or(ans.Model, text(a.head.Model))
	}
	ids := a.ids()
	k := keeper{ids: true}
	for _, raw := range output {
		var it answerItem
		if err := decode(raw, &it); err != nil {
			return nil, err
		}
		it.addTo(ans, ids)
		k.add(&it, raw)
	}
	ans.FinishReason = a.finishReason(ans)
	if len(output) == 0 && ans.FinishReason == "stop" {
		return nil, chatstream.ErrNoChoice
	}
	var err error
	ans.Extra, err = k.extra(a.Model)
	return ans, err
}

// output returns the items of the answer: those that came complete, else those
// of the final response, else what the deltas made.
func (a *Assembler) output() []json.RawMessage {
	var items []json.RawMessage
	complete := true
	if !slices.ContainsFunc(a.items, func(it *item) bool { return it.index < 0 }) {
		slices.SortStableFunc(a.items, func(x, y *item) int { return cmp.Compare(x.index, y.index) })
	}
	for _, it := range a.items {
		complete = complete && it.done != nil
		items = append(items, it.whole())
	}
	if len(a.end.Output) > 0 && (!complete || len(a.end.Output) > len(items)) {
		return a.end.Output
	}
	return items
}

// whole returns the item complete, or as far as its deltas tell.
func (it *item) whole() json.RawMessage {
	if it.done != nil {
		return it.done
	}
	fields := map[string]json.RawMessage{}
	_ = json.Unmarshal(it.began, &fields) // what was announced, if anything
	set := func(name string, value any) {
		if raw, err := encode(value); err == nil {
			fields[name] = raw
		}
	}
	set("type", it.kind)
	switch it.kind {
	case typeMessage:
		set("content", []outputText{{Type: "output_text", Text: it.delta.String()}})
	case typeCall:
		set("arguments", it.delta.String())
	}
	raw, err := encode(fields)
	if err != nil {
		return json.RawMessage(`{}`)
	}
	return raw
}

// addTo adds what the item says to the answer.
func (it *answerItem) addTo(ans *chatstream.Answer, ids func(string) string) {
	switch text(it.Type) {
	case typeMessage:
		said := textOf(it.Content)
		if said != "" && ans.Content != "" {
			ans.Content += betweenTexts
		}
		ans.Content += said
	case typeCall:
		ans.ToolCalls = append(ans.ToolCalls, chatstream.ToolCall{
			ID:        ids(text(it.CallID)),
			Name:      cmp.Or(strings.TrimSpace(text(it.Name)), "unknown"),
			Arguments: argumentsOf(it.Arguments),
		})
	}
}

// argumentsOf returns the text of a call's arguments. Some servers give the
// object itself where its text is due.
func argumentsOf(raw json.RawMessage) string {
	if len(raw) > 0 && raw[0] == '{' {
		return string(raw)
	}
	return text(raw)
}

// messageText returns the text of a complete message item.
func messageText(raw json.RawMessage) string {
	var it answerItem
	if json.Unmarshal(raw, &it) != nil {
		return ""
	}
	return textOf(it.Content)
}

// textOf joins the texts and refusals of an output message.
func textOf(content json.RawMessage) string {
	var parts []chatPart
	if json.Unmarshal(content, &parts) != nil {
		return text(content)
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text + p.Refusal)
	}
	return b.String()
}

// ids returns a function that gives a call its id, a new one where the
// server gave none or one that was used.
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

// finishReason says why the answer ended, in the words of chat completions.
func (a *Assembler) finishReason(ans *chatstream.Answer) string {
	switch reason := a.end.Incomplete.Reason; {
	case reason == "max_output_tokens":
		return "length"
	case reason != "":
		return reason
	case text(a.end.Status) == "incomplete":
		return "length"
	case len(ans.ToolCalls) > 0:
		return "tool_calls"
	}
	return "stop"
}

func usageOf(raw json.RawMessage) chatstream.Usage {
	var in struct {
		Input   float64 `json:"input_tokens"`
		Output  float64 `json:"output_tokens"`
		OfInput struct {
			Cached float64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
		OfOutput struct {
			Reasoning float64 `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	}
	_ = json.Unmarshal(raw, &in) // fields of a wrong type are left at zero
	return chatstream.Usage{
		Prompt:     count(in.Input),
		Completion: count(in.Output),
		Cached:     count(in.OfInput.Cached),
		Reasoning:  count(in.OfOutput.Reasoning),
	}
}

// count takes a number for a count of tokens where it can be one.
func count(n float64) int64 {
	const implausible = 1e15
	if n >= 1 && n < implausible {
		return int64(n)
	}
	return 0
}
