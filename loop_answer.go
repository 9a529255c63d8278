package pygent

import (
	"context"
	"fmt"
	"strings"

	"github.com/x/pygent/internal/calltext"
	"github.com/x/pygent/internal/nudge"
	"github.com/x/pygent/internal/openai"
)

// take appends the model's answer, and ends the run if the answer does.
func (r *run) take(ctx context.Context, resp *ChatResponse) error {
	cutBy, thoughts := nudge.CutBy(string(resp.FinishReason)), openai.Thoughts(resp.Message.Extra)
	r.written, r.judge.Demanded, r.judge.Open = calltext.Sign{}, false, nil
	if cutBy == "" {
		r.takeWritten(resp, thoughts)
	}
	if isEmpty(resp.Message) {
		r.tookNothing(cutBy, thoughts)
		return nil
	}
	if cutBy == nudge.ContentFilter {
		r.emit(Event{Type: EventWarning, Step: r.result.Steps, Text: "the provider's content filter withheld the rest of the answer"})
	}
	r.empty = false
	if err := r.tookMessage(resp); err != nil {
		return err
	}
	if cutBy != "" && r.trouble.CutBy != "" {
		r.end(StatusTruncated, "two answers in a row were cut off by "+cutBy+nudge.Remedy(cutBy))
	}
	r.trouble = nudge.Trouble{CutBy: cutBy}
	r.judge.Answered(len(resp.Message.ToolCalls) > 0)
	if len(resp.Message.ToolCalls) > 0 {
		r.replies, r.message = 0, r.agent.history.Len()-1
		return nil
	}
	r.tookReply(ctx, resp)
	return nil
}

// takeMistake takes what the model wrote instead of an answer, which its server refused
// twice: as any text that may have a call, or else to tell the model.
func (r *run) takeMistake(ctx context.Context, m *openai.Mistake) (*ChatResponse, error) {
	resp := &ChatResponse{Message: AssistantMessage(m.Wrote)}
	if r.takeWritten(resp, m.Thought); len(resp.Message.ToolCalls) > 0 {
		return resp, r.take(ctx, resp)
	}
	r.empty, r.written = false, calltext.Sign{}
	r.trouble = nudge.Trouble{Told: nudge.Mistake(m.Why, m.Repeats), Mistakes: r.trouble.Mistakes + 1}
	if m.Wrote == "" {
		return resp, nil
	}
	return resp, r.keep(HistoryEntry{Message: resp.Message}, func() Event { return Event{Type: EventMessage, Message: &resp.Message} })
}

// tookMessage appends an answer that is not empty, and emits its event.
//
// The summary is the first reply after the last tool call; later replies are
// only about being told to continue. A reply that was cut off, or that was judged
// to be no answer, is replaced by the next one. What stands beside a call is none: see
// finished.
func (r *run) tookMessage(resp *ChatResponse) error {
	msg := resp.Message
	return r.keep(HistoryEntry{Message: msg}, func() Event {
		r.result.Message, r.result.told = msg, true
		first := r.replies == 0 || r.trouble.CutBy != ""
		if r.opts.answerEnds {
			first = !r.judge.Stands()
		}
		if text := strings.TrimSpace(msg.Text()); text != "" && first && len(msg.ToolCalls) == 0 {
			r.result.Summary = text
		}
		return Event{Type: EventMessage, Message: &msg, Model: resp.Model, Usage: &resp.Usage, Context: r.contextUse(resp)}
	})
}

// tookNothing handles an empty answer, which is never appended: the first is
// answered by a nudge, the second ends the run.
func (r *run) tookNothing(cutBy, thoughts string) {
	reason := "the model answered nothing, twice"
	r.trouble.Told = ""
	switch {
	case cutBy == "" && thoughts != "":
		reason, r.trouble.Told = "the model gave only reasoning, twice; "+nudge.NeedsReasoning, nudge.OnlyThought(r.writtenIn(thoughts).Tool)
		r.emit(Event{Type: EventNotice, Step: r.result.Steps, Text: "the model gave only reasoning and no answer; " + nudge.NeedsReasoning})
	case cutBy == nudge.TokenLimit:
		reason = "the token limit left no room for an answer, twice" + nudge.Remedy(cutBy)
	case cutBy == nudge.ContentFilter:
		r.end(StatusEmpty, "the provider's content filter withheld the answer")
	}
	if r.empty {
		r.end(StatusEmpty, reason)
	}
	r.empty = true
}

// tookReply handles an answer that calls no tool.
func (r *run) tookReply(ctx context.Context, resp *ChatResponse) {
	r.replies++
	r.written = r.writtenIn(resp.Message.Text())
	if r.written.Tool != "" {
		why := ""
		if r.agent.currentModel().leavesCalls() {
			why = ": " + needsParser
		}
		r.emit(Event{Type: EventNotice, Step: r.result.Steps, Text: fmt.Sprintf("the model printed a tool call as text instead of calling it (%s, in %s)%s", r.written.Tool, r.written.Form, why)})
	}
	switch {
	case r.opts.answerEnds && r.trouble.CutBy == "":
		r.judged(ctx, resp.Message.Text())
	case r.opts.answerEnds: // half of it cannot be judged
	case r.opts.replyEnds && r.trouble.CutBy == "" && !r.onlyWritten() && !r.putsOff():
		r.end(StatusReplied, "")
	case r.replies >= r.opts.maxReplies:
		r.end(StatusReplied, fmt.Sprintf("%d replies in a row without a tool call", r.replies))
	}
}
