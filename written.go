package pygent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent/internal/calltext"
)

// needsParser says what to do about a server that leaves calls in the text.
const needsParser = "its server may need a chat template or parser for tool calls (vLLM: --enable-auto-tool-choice; llama.cpp: --jinja)"

// takeWritten makes a call of one that the model wrote as text, if the answer
// can be nothing else: it ends with one complete call, of a tool that it fits, and
// which the model has not read anywhere. The message then has the call, as if the
// server had parsed it, and the text before it. Approvals and all else are those
// of any call.
func (r *run) takeWritten(resp *ChatResponse) {
	msg := &resp.Message
	if len(msg.ToolCalls)+len(msg.Parts) > 0 || msg.Content == "" || resp.FinishReason == FinishFilter {
		return
	}
	written, ok := calltext.Parse(msg.Content)
	if !ok || written.Bare && !r.offers(written.Name) {
		return
	}
	call := ToolCall{Name: written.Name, Arguments: written.Arguments}
	read := r.read(call)
	if read.err != nil || r.wasRead(written) {
		return
	}
	msg.Content = strings.TrimSpace(written.Before)
	msg.ToolCalls = uniqueCalls([]ToolCall{call}, r.agent.history.Len())
	if !r.toldWritten {
		r.toldWritten = true
		r.emit(Event{Type: EventNotice, Step: r.result.Steps, Text: fmt.Sprintf("the model printed a call of %s as text, which is taken as a call: %s", read.Name, needsParser)})
	}
}

// offers reports whether the model was given a tool of that very name.
func (r *run) offers(name string) bool {
	return slices.ContainsFunc(r.specs, func(s ToolSpec) bool { return s.Name == name })
}

// wasRead reports whether the model has read a call in a result or in what the
// user said, so that its answer may only repeat it.
func (r *run) wasRead(written calltext.Call) bool {
	all, err := r.agent.history.whole()
	return err != nil || slices.ContainsFunc(all, func(e HistoryEntry) bool {
		return e.Message.Role != RoleAssistant && written.Quoted(e.Message.Text())
	})
}

// writtenTool returns the tool that a text calls without calling it, or "". In
// JSON without a template, which may be an answer, a tool has its own name only.
func (r *run) writtenTool(text string) string {
	templated := calltext.Templated(text)
	written := calltext.In(text, func(name string) bool {
		return r.offers(name) || templated && r.agent.tools.nameFor(ToolCall{Name: name}) != ""
	})
	if written == "" {
		return ""
	}
	return r.read(ToolCall{Name: written}).Name
}

// onlyWritten reports whether an answer is nothing but a call as text. It does not
// end a run the first time: the model is told how to call.
func (r *run) onlyWritten(text string) bool {
	return r.written != "" && r.replies == 1 && r.opts.maxReplies > 1 && calltext.Begins(text)
}
