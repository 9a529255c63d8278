package pygent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
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
			return r.fail(err)
		}
		r.emit(Event{Type: EventToolDone, Step: r.result.Steps, Call: &call, Output: result})
		if skip == "" && (r.finished(result) || r.result.Status != "") {
			skip = resultEnded
		}
	}
	if err := r.showImages(images); err != nil {
		return r.fail(err)
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
		r.noteRepeat(call, result)
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
	args, err := tool.arguments(call.Arguments)
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

// permit decides whether a call may run. Deny overrides allow, and no answer
// is no.
func (r *run) permit(ctx context.Context, tool Tool, call ToolCall, args json.RawMessage) error {
	o := &r.Agent.opts
	if word := bannedWord(o.banned, call.Name, args); word != "" {
		return fmt.Errorf("denied: the command %q is banned here", word)
	}
	if !tool.NeedsApproval && !o.needsApproval(call.Name) {
		return nil
	}
	if o.approve == nil {
		return errors.New("denied: this tool needs approval, and nobody can give it here")
	}
	decision, err := outlive(ctx, func() (Decision, error) {
		defer r.calling.Enter()()
		return o.approve(ctx, call)
	})
	r.logPanic("approval", err)
	switch {
	case err != nil:
		return fmt.Errorf("denied: the approval could not be asked for: %w", err)
	case !decision.Allow && decision.Reason != "":
		return fmt.Errorf("denied: %s", decision.Reason)
	case !decision.Allow:
		return errors.New("denied by the user")
	}
	return nil
}

// needsApproval reports whether the agent's options want a tool's calls approved.
func (o *options) needsApproval(tool string) bool {
	return slices.Contains(o.approvalFor, tool) || slices.Contains(o.approvalFor, "*") ||
		tool == "bash" && o.confirmBash != nil && *o.confirmBash
}

// bannedWord returns the banned name that occurs as a word in a bash call.
func bannedWord(banned []string, tool string, args json.RawMessage) string {
	if len(banned) == 0 || tool != "bash" {
		return ""
	}
	words := strings.FieldsFunc(commandOf(args), func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("_.-+", c)
	})
	for _, name := range banned {
		if slices.Contains(words, name) {
			return name
		}
	}
	return ""
}

// commandOf returns the command of a bash call's arguments.
func commandOf(args json.RawMessage) string {
	var in bashInput
	if json.Unmarshal(args, &in) != nil {
		return ""
	}
	return in.Cmd
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

// repeats counts how often in a row the same call gave the same result.
type repeats struct {
	call, result string
	count        int
}

// The repetitions at which a model is told, and at which the run ends.
const (
	repeatsTold  = 3
	repeatsStuck = 5
)

// noteRepeat tells a model that goes round in circles, and in the end stops it.
func (r *run) noteRepeat(call ToolCall, result *ToolResult) {
	key := call.Name + "\x00" + call.Arguments
	if r.repeats.call != key || r.repeats.result != result.Content {
		r.repeats = repeats{call: key, result: result.Content, count: 1}
		return
	}
	r.repeats.count++
	if r.repeats.count >= repeatsTold {
		result.Content += fmt.Sprintf("\n[this is the same call with the same result, %d times in a row; try something else]", r.repeats.count)
	}
	if r.repeats.count >= repeatsStuck {
		r.end(StatusStuck, fmt.Sprintf("%s gave the same result %d times in a row", call.Name, r.repeats.count))
	}
}
