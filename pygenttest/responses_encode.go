package pygenttest

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
)

// responder writes a response in the format of the Responses API, with the quirks
// that this format can have.
type responder struct {
	head
	encrypted bool // whether reasoning items have their content
}

var _ wire = (*responder)(nil)

// body returns a plain answer.
func (e *responder) body(resp *pygent.ChatResponse) (object, error) {
	return e.finished(resp, e.items(resp)), nil
}

// frames returns the events of a stream: the response begins, each item of its
// output comes in pieces, and the response ends. The events that open and close
// an item are sent together with the piece next to them.
func (e *responder) frames(resp *pygent.ChatResponse) []frame {
	s := &responseStream{responder: e}
	s.add("response.created", object{"response": e.envelope("in_progress")}, frame{})
	s.add("response.in_progress", object{"response": e.envelope("in_progress")}, frame{})
	items := e.items(resp)
	for i, it := range items {
		s.item(i, it)
	}
	if e.has(QuirkNoFinishReason) {
		return s.frames
	}
	whole := e.finished(resp, items)
	s.add("response."+whole["status"].(string), object{"response": whole}, frame{tail: true, waits: true})
	return s.frames
}

// failedBody returns a response whose status reports the error.
func (e *responder) failedBody(f *fault) object { return e.failed(f) }

// failure returns the event of a response that failed or, with a quirk, the event
// "error". By the documentation the fields of that one are at the top, but many
// servers send them in an object of their own.
func (e *responder) failure(f *fault, n int) frame {
	if !e.has(QuirkErrorEvent) && !e.has(QuirkNestedError) {
		data := object{"type": "response.failed", "sequence_number": n, "response": e.failed(f)}
		return frame{name: "response.failed", data: data}
	}
	failure := errorObject(f.event, f)["error"].(object)
	data := object{"type": "error", "sequence_number": n, "error": failure}
	if e.has(QuirkErrorEvent) {
		data = object{"type": "error", "sequence_number": n,
			"code": failure["code"], "message": failure["message"], "param": failure["param"]}
	}
	return frame{name: "error", data: data}
}

// failed returns a response that failed.
func (e *responder) failed(f *fault) object {
	out := e.envelope("failed")
	out["error"] = object{"code": f.event.Code, "message": f.event.Message}
	return out
}

// finished returns the response with its output, complete or cut off.
func (e *responder) finished(resp *pygent.ChatResponse, items []item) object {
	out := e.envelope("completed")
	switch resp.FinishReason {
	case chat.FinishLength:
		out["status"], out["incomplete_details"] = "incomplete", object{"reason": "max_output_tokens"}
	case chat.FinishFilter:
		out["status"], out["incomplete_details"] = "incomplete", object{"reason": "content_filter"}
	}
	output := []object{}
	if !e.has(QuirkNoChoices) {
		for _, it := range items {
			output = append(output, it.whole)
		}
	}
	out["output"] = output
	if e.usage != nil {
		out["usage"] = e.responseUsage(*e.usage)
	}
	return out
}

func (e *responder) envelope(status string) object {
	out := object{
		"id": e.id, "object": "response", "created_at": created, "model": e.model, "status": status,
		"error": nil, "incomplete_details": nil, "instructions": nil, "metadata": object{}, "output": []object{},
		"parallel_tool_calls": true, "temperature": 1, "tool_choice": "auto", "tools": []object{}, "top_p": 1,
		"usage": nil,
	}
	if e.has(QuirkUnknownFields) {
		out["provider"] = "Scripted"
	}
	return out
}

// item is one item of a response's output.
type item struct {
	whole object // as it is in the response
	start object // as it is before anything of it is written
	text  string // what is sent in pieces
}

// items returns the output of a response: its reasoning, its text, its calls.
func (e *responder) items(resp *pygent.ChatResponse) []item {
	m := resp.Message
	var out []item
	var reasoning string
	if raw, ok := m.Extra[reasoningField]; ok && json.Unmarshal(raw, &reasoning) == nil {
		out = append(out, e.reasoning(reasoning))
	}
	if m.Text() != "" || len(m.ToolCalls) == 0 && resp.FinishReason != chat.FinishFilter {
		out = append(out, e.message(m.Text()))
	}
	for i, c := range m.ToolCalls {
		out = append(out, e.call(i, c))
	}
	return out
}

func (e *responder) reasoning(text string) item {
	summary := []object{}
	if text != "" {
		summary = append(summary, object{"type": "summary_text", "text": text})
	}
	whole := object{"id": "rs_" + e.id, "type": "reasoning", "summary": summary}
	if e.encrypted {
		whole["encrypted_content"] = encryptedReasoning("rs_" + e.id)
	}
	return item{whole: whole, start: changed(whole, object{"summary": []object{}}), text: text}
}

func (e *responder) message(text string) item {
	whole := object{"id": "msg_" + e.id, "type": "message", "status": "completed", "role": "assistant",
		"content": []object{{"type": "output_text", "text": text, "annotations": []object{}, "logprobs": []object{}}}}
	return item{whole: whole, start: changed(whole, object{"status": "in_progress", "content": []object{}}), text: text}
}

func (e *responder) call(i int, c pygent.ToolCall) item {
	whole := object{"id": fmt.Sprintf("fc_%s_%d", e.id, i), "type": "function_call", "status": "completed",
		"call_id": c.ID, "name": c.Name, "arguments": c.Arguments}
	return item{whole: whole, start: changed(whole, object{"status": "in_progress", "arguments": ""}), text: c.Arguments}
}

// changed returns a copy of o with the fields of by.
func changed(o, by object) object {
	out := maps.Clone(o)
	maps.Copy(out, by)
	return out
}

func (h *head) responseUsage(u pygent.Usage) object {
	return h.withCost(object{
		"input_tokens":          u.PromptTokens,
		"input_tokens_details":  promptDetails(u),
		"output_tokens":         u.CompletionTokens,
		"output_tokens_details": object{"reasoning_tokens": u.ReasoningTokens},
		"total_tokens":          u.Total(),
	})
}
