package pygent

import (
	"context"
	"errors"
	"slices"
	"strings"
)

// ErrNothingToResume is returned by [Agent.Resume] for an empty conversation.
var ErrNothingToResume = errors.New("there is no run to resume")

// Resume goes on with a run that was interrupted, by the death of its process
// say, from the history that was kept. It takes the same options as
// [Agent.RunUntilStop], whose result it returns; limits count anew.
//
// Every message of the model is in the history before its tools run, and every
// result before the model is asked again. So what may be missing are results of
// the last message's calls. Those of tools that are declared Idempotent are run
// again, such as delegate_task, which finds its task by the same id. All others
// are answered "interrupted; it may have taken effect", for the model to look.
// A run that had ended already gives its status without asking the model.
func (a *Agent) Resume(ctx context.Context, opts ...RunOption) (*Result, error) {
	if !slices.ContainsFunc(a.history.view(), func(m Message) bool { return m.Role != RoleSystem }) {
		return &Result{Status: StatusFailed, Reason: ErrNothingToResume.Error()}, ErrNothingToResume
	}
	return a.run(ctx, "", nil, append(opts[:len(opts):len(opts)], func(o *runOptions) { o.resume = true }))
}

// exchangeAtEnd finds the last message that calls tools, when only results
// follow it. given has the result of each call, nil for one without.
func exchangeAtEnd(record []Message) (at int, given []*Message, ok bool) {
	results := map[string][]*Message{} // by call, the last first
	for at = len(record) - 1; at >= 0; at-- {
		m := &record[at]
		if m.Role == RoleTool {
			results[m.ToolCallID] = append(results[m.ToolCallID], m)
			continue
		}
		if m.Role != RoleAssistant || len(m.ToolCalls) == 0 {
			return 0, nil, false
		}
		given = make([]*Message, len(m.ToolCalls))
		for i, call := range m.ToolCalls {
			if left := results[call.ID]; len(left) > 0 {
				given[i], results[call.ID] = left[len(left)-1], left[:len(left)-1]
			}
		}
		return at, given, true
	}
	return 0, nil, false
}

// wasRefused reports whether a call of a tool that ends the run did not end it,
// as its result says.
func wasRefused(result *Message) bool {
	text := result.Text()
	return strings.HasPrefix(text, notRun) || strings.HasPrefix(text, notStopped) ||
		strings.HasPrefix(text, "error: ") || text == interruptedResult
}

// resume answers the calls that were left open, and ends the run if it had
// ended.
func (r *run) resume(ctx context.Context) error {
	record := r.history.view()
	at, given, ok := exchangeAtEnd(record)
	if !ok {
		r.resumeReply(record)
		return nil
	}
	msg := record[at]
	r.message = at
	r.result.Message, r.result.Summary = msg, strings.TrimSpace(msg.Text())
	var images []string
	for i, call := range msg.ToolCalls {
		shown, err := r.resumeCall(r.withCall(ctx, i), call, given[i])
		if err != nil {
			return err
		}
		images = append(images, shown...)
	}
	if err := r.showImages(images); err != nil {
		return err
	}
	return r.broken
}

// resumeReply takes up a conversation whose last message is a reply, which may
// have ended the run. A reply that sums up at a limit did not: limits count anew.
func (r *run) resumeReply(record []Message) {
	at := len(record) - 1
	if record[at].Role != RoleAssistant {
		return
	}
	r.result.Message, r.replies = record[at], 1
	summedUp := at > 0 && strings.Contains(record[at-1].Text(), sayEndsHere)
	for at >= 2 && toldToGoOn(record[at-1]) && isReply(record[at-2]) {
		at -= 2
		r.replies++
	}
	r.result.Summary = strings.TrimSpace(record[at].Text())
	if !summedUp && (r.opts.replyEnds || r.replies >= r.opts.maxReplies) {
		r.end(StatusReplied, "")
	}
}

func toldToGoOn(m Message) bool {
	return m.Role == RoleUser && strings.HasPrefix(m.Text(), sayGoOn)
}

func isReply(m Message) bool { return m.Role == RoleAssistant && len(m.ToolCalls) == 0 }

// resumeCall gives a call of the interrupted message its result, when it has
// none: by running it again where that is safe. One that has its result counts
// only when it ended the run. It returns the images of a result that it gave.
func (r *run) resumeCall(ctx context.Context, call ToolCall, given *Message) (images []string, err error) {
	tool, unknown := r.tools.lookup(call.Name)
	again := unknown == nil && tool.Idempotent
	switch {
	case given != nil:
		if again && tool.ends && r.result.Status == "" && !wasRefused(given) {
			result, _ := r.execute(ctx, call)
			r.finished(result)
		}
		return nil, nil
	case r.result.Status != "":
		return nil, r.skip(call, resultEnded, "")
	case !again:
		return nil, r.skip(call, interruptedResult, "")
	}
	result := r.runCall(ctx, call)
	r.finished(result)
	return result.Images, r.answer(EventToolDone, call, result, "")
}
