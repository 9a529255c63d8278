package pygenttest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
)

// object is a JSON object. Its encoding is sorted by name.
type object = map[string]any

// head has what both formats say about a response.
type head struct {
	id     string
	model  string
	quirks []Quirk       // how the reply is wrong
	usage  *pygent.Usage // nil if there is nothing to report
	cost   *float64      // reported with the usage; nil for not
}

func (h *head) has(q Quirk) bool { return slices.Contains(h.quirks, q) }

// encoder writes a response in the format of chat completions.
type encoder struct {
	head
	withUsage bool // whether a stream reports the usage too
}

var _ wire = (*encoder)(nil)

// body returns a plain answer.
func (e *encoder) body(resp *pygent.ChatResponse) (object, error) {
	b, err := json.Marshal(resp.Message)
	if err != nil {
		return nil, err
	}
	var message object
	if err := json.Unmarshal(b, &message); err != nil {
		return nil, err
	}
	if len(resp.Message.ToolCalls) > 0 {
		calls := make([]object, len(resp.Message.ToolCalls))
		for i, c := range resp.Message.ToolCalls {
			calls[i] = e.call(c)
		}
		message["tool_calls"] = calls
	}
	out := e.envelope("chat.completion")
	choice := object{"index": 0, "message": message, "logprobs": nil, "finish_reason": resp.FinishReason}
	if e.endsUnnamed() {
		delete(choice, "finish_reason")
	}
	out["choices"] = []object{choice}
	if calls, ok := message["tool_calls"]; ok && e.has(QuirkTwoChoices) {
		delete(message, "tool_calls")
		delete(choice, "index")
		out["choices"] = []object{choice, {"message": object{"role": "assistant", "content": nil, "tool_calls": calls}, "finish_reason": resp.FinishReason}}
	}
	if e.has(QuirkNoChoices) {
		out["choices"] = []object{}
	}
	if e.usage != nil {
		out["usage"] = e.usageObject(*e.usage)
	}
	return out, nil
}

// frames returns the events of a stream: the role, the pieces of the message,
// the finish reason and, if the client asked for it, the usage.
func (e *encoder) frames(resp *pygent.ChatResponse) []frame {
	chunks, pieces := e.chunks(resp)
	out := make([]frame, 0, len(chunks)+1)
	for i, c := range chunks {
		out = append(out, frame{data: c, piece: i > 0 && i <= pieces, tail: i > pieces})
	}
	if !e.has(QuirkNoDone) && !e.has(QuirkNoFinishReason) && !e.has(QuirkStaysOpen) {
		done := "[DONE]"
		if e.has(QuirkOddDone) {
			done = "[done]"
		}
		out = append(out, frame{data: done, tail: true})
	}
	for i := range out {
		out[i].waits = i > 1
	}
	return out
}

func (e *encoder) failedBody(f *fault) object {
	switch {
	case e.has(QuirkBareError):
		return object{"code": f.event.Code, "msg": f.event.Message, "success": false}
	case e.has(QuirkBaseResp):
		return object{"id": "", "choices": nil, "base_resp": object{"status_code": json.RawMessage(f.event.Code), "status_msg": f.event.Message}}
	}
	return errorObject(f.event, f)
}

func (e *encoder) failure(f *fault, _ int) frame {
	failed := frame{data: e.failedBody(f)}
	switch {
	case e.has(QuirkErrorEvent):
		failed.name, failed.data = "error", errorObject(f.event, f)["error"]
	case e.has(QuirkNestedError):
		failed.name = "error"
	case e.has(QuirkErrorLine):
		failed.field = "error"
	}
	return failed
}

// chunks returns the objects of a stream, and how many of them are pieces of the
// message, between the role and the finish reason.
func (e *encoder) chunks(resp *pygent.ChatResponse) (events []object, pieces int) {
	ds := append([]object{{"role": "assistant", "content": ""}}, e.deltas(resp.Message)...)
	if e.has(QuirkOneChunk) {
		ds = []object{e.wholeDelta(resp.Message)}
	}
	for _, d := range ds {
		events = append(events, e.chunk(d))
	}
	pieces = len(ds) - 1
	switch {
	case e.endsUnnamed():
	case e.has(QuirkOneChunk):
		setFinish(events[0], resp.FinishReason)
	default:
		last := e.chunk(object{})
		setFinish(last, resp.FinishReason)
		events = append(events, last)
	}
	if e.has(QuirkRepeatedReason) {
		for _, event := range events {
			setFinish(event, resp.FinishReason)
		}
	}
	if e.has(QuirkTwoChoices) {
		secondChoice(events, resp.FinishReason)
	}
	if e.has(QuirkTrailingChunk) {
		events = append(events, e.chunk(object{"content": ""}))
	}
	if e.has(QuirkNoChoices) {
		for _, event := range events {
			event["choices"] = []object{}
		}
	}
	events = e.addUsage(events)
	if e.has(QuirkChangingID) {
		for i, event := range events {
			event["id"] = fmt.Sprintf("%s-%d", e.id, i)
		}
	}
	return events, pieces
}

// addUsage adds the usage at the end or, with that quirk, the usage so far to
// each event.
func (e *encoder) addUsage(events []object) []object {
	if e.usage == nil || !e.withUsage && !e.has(QuirkCumulativeUsage) {
		return events
	}
	for i, event := range events {
		if !e.has(QuirkCumulativeUsage) {
			event["usage"] = nil
			continue
		}
		soFar := *e.usage
		soFar.CompletionTokens = soFar.CompletionTokens * int64(i+1) / int64(len(events))
		event["usage"] = e.usageObject(soFar)
	}
	if e.withUsage && !e.has(QuirkNoFinishReason) && !e.has(QuirkDoneAlone) && !e.has(QuirkStaysOpen) {
		last := e.envelope("chat.completion.chunk")
		last["choices"] = []object{}
		last["usage"] = e.usageObject(*e.usage)
		events = append(events, last)
	}
	return events
}

func (e *encoder) envelope(kind string) object {
	out := object{"id": e.id, "object": kind, "created": created, "model": e.model}
	if e.has(QuirkUnknownFields) {
		out["provider"] = "Scripted"
		out["system_fingerprint"] = "fp_scripted"
		out["x_groq"] = object{"id": "req_scripted"}
	}
	return out
}

func (e *encoder) chunk(delta object) object {
	if e.has(QuirkNullFields) {
		for _, name := range []string{"role", "content", "refusal", "function_call", "tool_calls"} {
			if _, ok := delta[name]; !ok {
				delta[name] = nil
			}
		}
	}
	choice := object{"index": 0, "delta": delta, "finish_reason": nil}
	if e.has(QuirkUnknownFields) {
		choice["native_finish_reason"] = nil
	}
	out := e.envelope("chat.completion.chunk")
	out["choices"] = []object{choice}
	return out
}

// endsUnnamed reports whether there is no finish reason.
func (h *head) endsUnnamed() bool {
	return h.has(QuirkNoFinishReason) || h.has(QuirkUnnamedEnd) || h.has(QuirkDoneAlone)
}

// secondChoice moves the calls of a stream into a choice of their own, which ends with
// the first.
func secondChoice(events []object, reason chat.FinishReason) {
	for _, event := range events {
		for _, choice := range event["choices"].([]object) {
			if calls, ok := choice["delta"].(object)["tool_calls"]; ok && calls != nil {
				choice["index"] = 1
			}
		}
	}
	end := object{"index": 1, "delta": object{}, "finish_reason": reason}
	last := events[len(events)-1]
	last["choices"] = append(last["choices"].([]object), end)
}

func setFinish(chunk object, reason chat.FinishReason) {
	chunk["choices"].([]object)[0]["finish_reason"] = reason
}

// deltas returns the pieces of a message.
func (e *encoder) deltas(m pygent.Message) []object {
	var out []object
	for _, name := range slices.Sorted(maps.Keys(m.Extra)) {
		var text string
		if json.Unmarshal(m.Extra[name], &text) != nil {
			out = append(out, object{name: m.Extra[name]})
			continue
		}
		for _, s := range pieces(text) {
			out = append(out, object{name: s})
		}
	}
	for _, s := range pieces(m.Text()) {
		out = append(out, object{"content": s})
	}
	for i, c := range m.ToolCalls {
		for _, d := range e.callDeltas(i, c) {
			out = append(out, object{"tool_calls": []object{d}})
		}
	}
	return out
}

// wholeDelta returns a message in one piece.
func (e *encoder) wholeDelta(m pygent.Message) object {
	out := object{"role": "assistant", "content": m.Text()}
	for name, value := range m.Extra {
		out[name] = value
	}
	calls := make([]object, len(m.ToolCalls))
	for i, c := range m.ToolCalls {
		calls[i] = e.call(c)
		calls[i]["index"] = i
	}
	if len(calls) > 0 {
		out["tool_calls"] = calls
	}
	return out
}

// callDeltas returns the pieces of tool call i.
func (e *encoder) callDeltas(i int, c pygent.ToolCall) []object {
	whole := e.call(c)
	switch {
	case e.has(QuirkNoIndex):
		return []object{whole}
	case e.has(QuirkSameIndex):
		whole["index"] = 0
		return []object{whole}
	case e.has(QuirkObjectArguments):
		whole["index"] = i
		return []object{whole}
	}
	head := e.call(c)
	head["index"] = i
	head["function"] = object{"name": c.Name, "arguments": ""}
	out := []object{head}
	sent := pieces(c.Arguments)
	if e.has(QuirkCumulativeArguments) {
		for i := 1; i < len(sent); i++ {
			sent[i] = sent[i-1] + sent[i]
		}
	}
	for _, s := range sent {
		d := object{"index": i, "function": object{"arguments": s}}
		if e.has(QuirkRepeatedName) {
			d = e.call(c)
			d["index"] = i
			d["function"] = object{"name": c.Name, "arguments": s}
		}
		out = append(out, d)
	}
	if e.has(QuirkRepeatedArguments) {
		whole["index"], whole["function"] = i, object{"name": c.Name, "arguments": strconv.Quote(c.Arguments)}
		out = append(out, whole)
	}
	return out
}

// call returns a whole tool call.
func (e *encoder) call(c pygent.ToolCall) object {
	function := object{"name": c.Name, "arguments": c.Arguments}
	if e.has(QuirkObjectArguments) && json.Valid([]byte(c.Arguments)) {
		function["arguments"] = json.RawMessage(c.Arguments)
	}
	out := object{"type": "function", "function": function}
	if c.ID != "" {
		out["id"] = c.ID
	}
	for name, value := range c.Extra {
		out[name] = value
	}
	return out
}

func (h *head) usageObject(u pygent.Usage) object {
	return h.withCost(object{
		"prompt_tokens":             u.PromptTokens,
		"completion_tokens":         u.CompletionTokens,
		"total_tokens":              u.Total(),
		"prompt_tokens_details":     promptDetails(u),
		"completion_tokens_details": object{"reasoning_tokens": u.ReasoningTokens},
	})
}

func promptDetails(u pygent.Usage) object {
	details := object{"cached_tokens": u.CachedTokens}
	if u.CacheWriteTokens > 0 {
		details["cache_write_tokens"] = u.CacheWriteTokens
	}
	return details
}

// withCost adds the cost to a usage, as OpenRouter reports it.
func (h *head) withCost(usage object) object {
	if h.cost != nil {
		usage["cost"] = *h.cost
	}
	return usage
}

// created is the time of every answer, so that the same request gets the same
// bytes.
const created = 1_700_000_000
