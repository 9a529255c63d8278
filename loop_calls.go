package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/x/pygent/internal/cycle"
)

// Why a call was not run, as its result says.
const (
	notRun        = "not run: "
	resultCutOff  = notRun + "the answer was cut off by the token limit, so this call may be incomplete; write in smaller pieces"
	resultLimit   = notRun + "the limit of tool calls for this run is reached"
	resultLast    = notRun + "the limit of this run is reached"
	resultEnded   = notRun + "an earlier call of the same message ended the run"
	resultSkipped = notRun + "%v"
)

// runCalls runs the tool calls of a message in order. Every call gets exactly
// one result, whatever happens, so that the history stays a legal conversation.
func (r *run) runCalls(ctx context.Context, calls []ToolCall) error {
	var images, failed []string
	for i, call := range calls {
		last := i == len(calls)-1
		if why := r.whyNot(ctx); why != "" {
			if err := r.skip(call, why, r.noteAfter(last)); err != nil {
				return err
			}
			continue
		}
		result := r.checkStop(ctx, r.runCall(r.withCall(ctx, i), call), failed)
		if result.IsError || result.failed {
			failed = append(failed, call.Name)
		}
		images = append(images, result.Images...)
		r.finished(result)
		if err := r.answer(EventToolDone, call, result, r.noteAfter(last)); err != nil {
			return err
		}
	}
	if err := r.showImages(images); err != nil {
		return err
	}
	if r.broken != nil {
		return r.broken
	}
	if ctx.Err() != nil {
		return r.interrupted(ctx)
	}
	return nil
}

// whyNot returns the result of a call that must not run, and nothing for one
// that may. It ends the run at the limit of calls.
func (r *run) whyNot(ctx context.Context) string {
	switch {
	case r.truncated:
		return resultCutOff
	case r.broken != nil:
		return fmt.Sprintf(resultSkipped, r.broken)
	case r.result.Status == StatusMaxToolCalls:
		return resultLimit
	case r.result.Status != "":
		return resultEnded
	case ctx.Err() != nil:
		return fmt.Sprintf(resultSkipped, context.Cause(ctx))
	case r.result.ToolCalls >= r.opts.maxToolCalls:
		r.end(StatusMaxToolCalls, r.toolCallLimit())
		return resultLimit
	}
	return ""
}

// noteAfter is what the model has to hear after the last result of a message.
func (r *run) noteAfter(last bool) string {
	if !last {
		return ""
	}
	return r.limitNote()
}

// skip answers a call that is not run.
func (r *run) skip(call ToolCall, why, note string) error {
	return r.answer(EventToolSkipped, call, &ToolResult{Content: why, IsError: true}, note)
}

// answer appends the result of a call, with a note for the model, and tells it.
func (r *run) answer(typ EventType, call ToolCall, result *ToolResult, note string) error {
	if err := r.record(ToolMessage(call.ID, joinLines(result.Content, note))); err != nil {
		return err
	}
	r.emit(Event{Type: typ, Step: r.result.Steps, Call: &call, Output: result})
	return nil
}

// runCall runs one call that is due. Whoever hears of it can still keep it from
// running, by ending ctx.
func (r *run) runCall(ctx context.Context, call ToolCall) *ToolResult {
	r.result.ToolCalls++
	r.emit(Event{Type: EventToolCall, Step: r.result.Steps, Call: &call})
	if ctx.Err() != nil {
		return &ToolResult{Content: fmt.Sprintf(resultSkipped, context.Cause(ctx)), IsError: true}
	}
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
	if err := r.git.beforeTool(ctx, tool); err != nil {
		return errorResult(err), false
	}
	if _, ours := builtinTools()[call.Name]; !ours || call.Name == "bash" {
		r.ranCommands.Store(true)
	}
	result, err = callForeign(ctx, r, "the tool "+call.Name, func() (*ToolResult, error) { return tool.call(ctx, r.runtime, args) })
	if err != nil {
		r.noteBroken(err)
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

// noteBroken ends the run when a tool failed because nothing can run in the
// runtime. The runtime of a task is another one.
func (r *run) noteBroken(err error) {
	var ofTask *errorOfTask
	if errors.Is(err, ErrRuntimeStart) && !errors.As(err, &ofTask) {
		var tool *ToolError
		if errors.As(err, &tool) {
			err = tool.Err
		}
		r.broken = r.fail(err)
	}
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
	return r.record(msg)
}

// noteCycle tells a model that goes round in circles, and in the end stops it.
func (r *run) noteCycle(call ToolCall, result *ToolResult) {
	last, found := r.cycles.Note(call.Name+"\x00"+call.Arguments, cmp.Or(result.compared, result.Content), result.IsError || result.failed)
	if !found {
		return
	}
	what := fmt.Sprintf("this is the same call with the same result, %d times in a row", last.Times)
	reason := fmt.Sprintf("%s gave the same result %d times in a row", call.Name, last.Times)
	if last.Calls > 1 {
		what = fmt.Sprintf("the last %d calls failed in the same way %d times in a row", last.Calls, last.Times)
		reason = what
	}
	result.Content += fmt.Sprintf("\n[%s; try something else]", what)
	if last.Times >= cycle.Stuck {
		r.end(StatusStuck, reason)
	}
}
