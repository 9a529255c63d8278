package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/x/pygent/internal/guard"
)

// runCalls runs the tool calls of a message in order. Every call gets exactly
// one result, whatever happens, so that the history stays a legal conversation.
func (r *run) runCalls(ctx context.Context, calls []ToolCall) error {
	var images []string
	skip := ""
	if r.truncated {
		skip = resultCutOff
	}
	for i, call := range calls {
		if skip == "" && ctx.Err() != nil {
			skip = fmt.Sprintf(resultSkipped, context.Cause(ctx))
		}
		if skip == "" && r.result.ToolCalls >= r.opts.maxToolCalls {
			r.end(StatusMaxToolCalls, fmt.Sprintf("the limit of %d tool calls is reached", r.opts.maxToolCalls))
			skip = resultLimit
		}
		result := &ToolResult{Content: skip, IsError: true}
		if skip == "" {
			result = r.runCall(r.withCall(ctx, i), call)
		}
		images = append(images, result.Images...)
		if err := r.history.Append(ToolMessage(call.ID, result.Content)); err != nil {
			return r.fail(fmt.Errorf("append to the history: %w", err))
		}
		r.emit(Event{Type: EventToolDone, Step: r.result.Steps, Call: &call, Output: result})
		if skip == "" && (r.finished(result) || r.result.Status != "") {
			skip = resultEnded
		}
	}
	if err := r.showImages(images); err != nil {
		return r.fail(fmt.Errorf("append to the history: %w", err))
	}
	if ctx.Err() != nil {
		return r.interrupted(ctx)
	}
	return nil
}

// runCall runs one call that is due.
func (r *run) runCall(ctx context.Context, call ToolCall) *ToolResult {
	r.result.ToolCalls++
	r.emit(Event{Type: EventToolCall, Step: r.result.Steps, Call: &call})
	result, polls := r.execute(ctx, call)
	result.Content = bound(result.Content, max(maxToolResult, resultBound(call.Name)))
	if !polls && ctx.Err() == nil {
		r.noteCycle(call, result)
	}
	return result
}

// resultBound is how many bytes of a tool's result a model sees, where it is
// more than of other tools.
func resultBound(tool string) int {
	switch tool {
	case "bash":
		return maxToolResult + 2*shownCommand // the output is bounded by the runtime; the frame around it comes on top
	case "download_file":
		return maxFileResult + shownCommand
	}
	return 0
}

// execute looks the tool up, checks that it may run, and runs it.
func (r *run) execute(ctx context.Context, call ToolCall) (result *ToolResult, polls bool) {
	tool, err := r.tools.lookup(call.Name)
	if err != nil {
		return errorResult(err), false
	}
	args, err := tool.schema.Arguments(call.Arguments)
	if err != nil {
		return errorResult(err), false
	}
	if err := r.permit(ctx, tool, call, args); err != nil {
		return errorResult(err), false
	}
	result, err = outlive(ctx, func() (*ToolResult, error) {
		defer r.calling.Enter()()
		return tool.call(ctx, r.runtime, args)
	})
	if err != nil {
		var te *ToolError
		if errors.As(err, &te) && te.Stack != nil {
			r.log.Error("tool panicked", "tool", call.Name, "error", te.Err, "stack", string(te.Stack))
		}
		result = errorResult(err)
	}
	if ctx.Err() != nil && result.IsError {
		result.Content += "\n[the run was interrupted; the call may have taken effect]"
	}
	return result, tool.polls
}

// finished ends the run when a result says so.
func (r *run) finished(result *ToolResult) bool {
	switch result.End {
	case "":
		return false
	case StatusAwaitingUser:
		r.result.Question = result.Question
	case StatusStopped:
		if result.Summary != "" {
			r.result.Summary = result.Summary
		}
	}
	r.end(result.End, "")
	return true
}

// showImages appends the images of the results just given: in OpenAI's format
// tool messages carry text only.
func (r *run) showImages(urls []string) error {
	if len(urls) == 0 {
		return nil
	}
	msg := Message{Role: RoleUser, Parts: []Part{{Text: "The images that the tools gave:"}}}
	for _, url := range urls {
		msg.Parts = append(msg.Parts, Part{ImageURL: url})
	}
	return r.history.Append(msg)
}

// noteCycle tells a model that goes round in circles, and in the end stops it.
func (r *run) noteCycle(call ToolCall, result *ToolResult) {
	cycle, found := r.cycles.Note(call.Name+"\x00"+call.Arguments, cmp.Or(result.compared, result.Content), result.IsError || result.failed)
	if !found {
		return
	}
	what := fmt.Sprintf("this is the same call with the same result, %d times in a row", cycle.Times)
	reason := fmt.Sprintf("%s gave the same result %d times in a row", call.Name, cycle.Times)
	if cycle.Calls > 1 {
		what = fmt.Sprintf("the last %d calls failed in the same way %d times in a row", cycle.Calls, cycle.Times)
		reason = what
	}
	result.Content += fmt.Sprintf("\n[%s; try something else]", what)
	if cycle.Times >= guard.Stuck {
		r.end(StatusStuck, reason)
	}
}
