package pygent

import (
	"context"
	"errors"
	"slices"
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
// follow it. open tells by index which of its calls have none.
func exchangeAtEnd(record []Message) (at int, open []bool, ok bool) {
	answered := map[string]int{}
	for at = len(record) - 1; at >= 0; at-- {
		m := record[at]
		if m.Role == RoleTool {
			answered[m.ToolCallID]++
			continue
		}
		if m.Role != RoleAssistant || len(m.ToolCalls) == 0 {
			return 0, nil, false
		}
		open = make([]bool, len(m.ToolCalls))
		for i, call := range m.ToolCalls {
			open[i] = answered[call.ID] == 0
			answered[call.ID]--
		}
		return at, open, true
	}
	return 0, nil, false
}

// resume answers the calls that were left open, and ends the run if it had
// ended.
func (r *run) resume(ctx context.Context) error {
	record := r.history.view()
	at, open, ok := exchangeAtEnd(record)
	if !ok {
		if last := record[len(record)-1]; last.Role == RoleAssistant {
			r.replies = 1
		}
		return nil
	}
	msg := record[at]
	r.message = at
	r.result.Message, r.result.Summary = msg, msg.Text()
	ended := false
	for i, call := range msg.ToolCalls {
		result := r.resumeCall(r.withCall(ctx, i), call, open[i], ended)
		if open[i] {
			if err := r.history.Append(ToolMessage(call.ID, result.Content)); err != nil {
				return r.fail(err)
			}
			r.emit(Event{Type: EventToolDone, Call: &call, Output: result})
		}
		ended = ended || r.finished(result)
	}
	return nil
}

// resumeCall gives the result of a call of the interrupted message: of one that
// is open by running it again where that is safe, of one that has its result
// only whether it ended the run.
func (r *run) resumeCall(ctx context.Context, call ToolCall, open, ended bool) *ToolResult {
	tool, err := r.tools.lookup(call.Name)
	again := err == nil && tool.Idempotent && (open || tool.ends)
	switch {
	case ended:
		return &ToolResult{Content: resultEnded, IsError: true}
	case !again:
		return &ToolResult{Content: interruptedResult, IsError: true}
	case open:
		return r.runCall(ctx, call)
	}
	result, _ := r.execute(ctx, call)
	return result
}
