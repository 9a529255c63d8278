package pygent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/cycle"
	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/nudge"
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
		return nudge.CutOff
	case r.broken != nil:
		return nudge.NotRun(r.broken)
	case r.result.Status == StatusMaxToolCalls:
		return nudge.CallLimit
	case r.result.Status != "":
		return nudge.Ended
	case ctx.Err() != nil:
		return nudge.NotRun(context.Cause(ctx))
	case r.result.ToolCalls >= r.opts.MaxToolCalls:
		r.end(StatusMaxToolCalls, r.toolCallLimit())
		return nudge.CallLimit
	}
	return ""
}

// noteAfter returns what the model has to be told after the last result of a
// message.
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

// answer appends the result of a call, with a note for the model, and emits its
// event.
func (r *run) answer(typ EventType, call ToolCall, result *ToolResult, note string) error {
	if err := r.record(ToolMessage(call.ID, nudge.OnALine(result.Content, note))); err != nil {
		return err
	}
	r.emit(Event{Type: typ, Step: r.result.Steps, Call: &call, Output: result, Messages: r.agent.history.spoken()})
	return nil
}

// runCall runs one call. A listener that gets the event before it can still
// prevent the call by ending ctx.
func (r *run) runCall(ctx context.Context, call ToolCall) *ToolResult {
	r.result.ToolCalls++
	r.emit(Event{Type: EventToolCall, Step: r.result.Steps, Call: &call, Tool: r.toolInfo(ctx, call)})
	if ctx.Err() != nil {
		return &ToolResult{Content: nudge.NotRun(context.Cause(ctx)), IsError: true}
	}
	result, polls := r.execute(ctx, call)
	result.Content = cut.Middle(result.Content, max(maxToolResult, resultBound(call.Name)))
	if !polls && ctx.Err() == nil {
		r.noteCycle(call, result)
	}
	return result
}

// toolInfo describes a call for the events about it. It is nil if nobody gets
// those.
func (r *run) toolInfo(ctx context.Context, call ToolCall) *ToolInfo {
	if !r.agent.isHeard() {
		return nil
	}
	var said CallDescription
	tool, err := r.agent.tools.lookup(call.Name, r.agent.runtime)
	if err == nil && tool.Describe != nil {
		if args, err := tool.schema.Arguments(call.Arguments); err == nil {
			said, err = callForeign(ctx, r, "the description of "+call.Name, func() (CallDescription, error) { return tool.Describe(args), nil })
			r.agent.logPanic("description of "+call.Name, err)
		}
	}
	return tool.info(call, said)
}

// resultBound returns how many bytes of a tool's result a model sees. Some
// tools have a larger bound than the others.
func resultBound(tool string) int {
	switch tool {
	case "bash":
		return maxToolResult + 2*shownCommand // the runtime bounds the output; the lines around it come on top
	case "download_file":
		return maxFileResult + shownCommand
	}
	return 0
}

// execute looks the tool up, checks that it may run, and runs it.
func (r *run) execute(ctx context.Context, call ToolCall) (result *ToolResult, polls bool) {
	tool, err := r.agent.tools.lookup(call.Name, r.agent.runtime)
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
	if err := r.agent.git.Before(ctx, !tool.ReadOnly); err != nil {
		return errorResult(err), false
	}
	if _, ours := builtinTools()[call.Name]; !ours || call.Name == "bash" {
		r.agent.ranCommands.Store(true)
	}
	result, err = callForeign(ctx, r, "the tool "+call.Name, func() (*ToolResult, error) { return r.agent.callTool(ctx, tool, call, args) })
	if err != nil {
		r.noteBroken(err)
		var te *ToolError
		if errors.As(err, &te) && te.Stack != nil {
			r.agent.log.Error("tool panicked", "tool", call.Name, "error", te.Err, "stack", string(te.Stack))
		}
		result = errorResult(err)
	}
	if ctx.Err() != nil && result.IsError {
		result.Content += "\n[the run was interrupted; the call may have taken effect]"
	}
	return result, tool.polls
}

// noteBroken ends the run when a tool failed because nothing can run in the
// runtime any more. It ignores such errors of a task, which has a runtime of
// its own.
func (r *run) noteBroken(err error) {
	var ofTask *TaskError
	if errors.Is(err, ErrRuntimeStart) && !errors.As(err, &ofTask) {
		var tool *ToolError
		if errors.As(err, &tool) {
			err = tool.Err
		}
		r.broken = r.fail(err)
	}
}

// finished ends the run when a tool's result asks for it.
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

// showImages appends the images of the results just given as a message of the
// user, because tool messages carry only text in OpenAI's format.
func (r *run) showImages(urls []string) error {
	if len(urls) == 0 {
		return nil
	}
	msg := Message{Role: RoleUser, Parts: []Part{{Text: "The images that the tools gave:"}}}
	for _, url := range urls {
		msg.Parts = append(msg.Parts, Part{ImageURL: url})
	}
	return r.hear(msg, SourceImages)
}

// openWithin bounds how long a run looks for tasks and jobs at work before it
// stops.
const openWithin = 3 * time.Second

// checkStop refuses a stop when a call of the same answer failed, or when tasks
// or jobs are still at work, since the model may not know. It does so once in a
// run.
func (r *run) checkStop(ctx context.Context, result *ToolResult, failed []string) *ToolResult {
	if result.End != StatusStopped || r.stopRefused || ctx.Err() != nil {
		return result
	}
	var open []string
	if len(failed) > 0 {
		open = append(open, nudge.Failed(failed))
	}
	open = append(open, r.openTasks(ctx)...)
	open = append(open, r.openJobs(ctx)...)
	if len(open) == 0 {
		return result
	}
	r.stopRefused = true
	return &ToolResult{Content: nudge.NotStopped(open), IsError: true}
}

// openTasks names the delegated tasks that are still at work.
func (r *run) openTasks(ctx context.Context) []string {
	tasks, err := r.agent.openTasks(ctx)
	if err != nil {
		r.agent.log.Warn("open tasks are not known", "error", err)
	}
	var open []string
	for _, t := range tasks {
		open = append(open, fmt.Sprintf("task %s is %s", t.ID, t.State))
	}
	return open
}

// openJobs names the background jobs that run. It does not ask a runtime in
// which no command ran, because asking could start it.
func (r *run) openJobs(ctx context.Context) []string {
	jobs, ok := RuntimeAs[JobRunner](r.agent.runtime)
	if !ok || !r.agent.ranCommands.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	all, err := guard.Outlive(ctx, func() ([]Job, error) { return jobs.Jobs(ctx) })
	if err != nil {
		r.agent.log.Warn("background jobs are not known", "error", err)
	}
	var open []string
	for _, job := range all {
		if job.Running {
			open = append(open, fmt.Sprintf("job %s runs: %s", job.ID, cut.Head(job.Command, 80)))
		}
	}
	return open
}

// noteCycle warns a model that repeats itself, and stops the run if it
// continues to.
func (r *run) noteCycle(call ToolCall, result *ToolResult) {
	last, found := r.cycles.Note(call.Name+"\x00"+call.Arguments, cmp.Or(result.compared, result.Content), result.IsError || result.failed)
	if !found {
		return
	}
	note, reason := nudge.Repeated(call.Name, last.Calls, last.Times)
	result.Content = nudge.OnALine(result.Content, note)
	if last.Times >= cycle.Stuck {
		r.end(StatusStuck, reason)
	}
}

// refuseCalls answers the calls of an answer that should only have summed up.
// If the model gave its summary by calling stop, it is taken nevertheless.
func (r *run) refuseCalls(calls []ToolCall) error {
	for _, call := range calls {
		if summary := stopSummary(call); summary != "" {
			r.result.Summary = summary
		}
		if err := r.skip(call, nudge.LastCall, ""); err != nil {
			return err
		}
	}
	return nil
}

// stopSummary returns the summary of a call of stop; for other calls it is
// empty.
func stopSummary(call ToolCall) string {
	var in stopInput
	if call.Name != "stop" || json.Unmarshal([]byte(call.Arguments), &in) != nil {
		return ""
	}
	return strings.TrimSpace(in.Summary)
}

// permit decides whether a call may run. Deny overrides allow, and without an
// answer the call is denied.
func (r *run) permit(ctx context.Context, tool Tool, call ToolCall, args json.RawMessage) error {
	o := &r.agent.opts
	if call.Name == "bash" {
		if err := r.agent.banned.Check(commandOf(args)); err != nil {
			return fmt.Errorf("denied: %w", err)
		}
	}
	call.Arguments = string(args) // approve exactly what will run, however the model wrote it
	approve, confirmBash := r.agent.approval()
	steers := r.agent.changesGit(call)
	if !steers && !o.needsApproval(tool, confirmBash) && !r.agent.writesUnconfined(call, confirmBash) {
		return nil
	}
	switch {
	case approve == nil && steers:
		return errors.New("denied: git on the user's machine obeys what is below .git, so writing there needs approval, and nobody can give it here")
	case approve == nil:
		return errors.New("denied: this tool needs approval, and nobody can give it here")
	}
	decision, err := r.askFor(ctx, approve, call)
	r.agent.logPanic("approval", err)
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

// askFor has somebody decide about a call. The time limit of the step pauses
// meanwhile.
func (r *run) askFor(ctx context.Context, approve ApprovalFunc, call ToolCall) (Decision, error) {
	defer r.agent.asking.Close()()
	return callForeign(ctx, r, "the approval", func() (Decision, error) { return approve(ctx, call) })
}

// needsApproval reports whether calls of a tool need approval. A rule that
// names the tool, or one for bash, overrides the general rule.
func (o *options) needsApproval(tool Tool, confirmBash *bool) bool {
	switch {
	case tool.NeedsApproval, slices.Contains(o.approvalFor, tool.Name), slices.Contains(o.approvalFor, "*"):
		return true
	case tool.Name == "bash" && confirmBash != nil:
		return *confirmBash
	}
	return o.approveAll && len(o.approvalFor) == 0 && !tool.ReadOnly
}

// writesUnconfined reports whether a call writes a file of this machine while
// commands need approval. Such a write could do the same harm as a command.
func (a *Agent) writesUnconfined(call ToolCall, confirmBash *bool) bool {
	_, writes := changeIn(call)
	return writes && confirmBash != nil && *confirmBash && !a.UseDocker()
}

// changesGit reports whether a call writes a file that steers git on this
// machine.
func (a *Agent) changesGit(call ToolCall) bool {
	change, writes := changeIn(call)
	return writes && !a.UseDocker() && a.steersGit(change.path)
}

// ownApprovalFor returns the names given to this agent itself. Names that it
// inherited are not checked: the parent may have removed such a tool since.
func (o *options) ownApprovalFor() []string {
	return slices.DeleteFunc(slices.Clone(o.approvalFor), func(name string) bool {
		return name == "*" || slices.Contains(o.inheritedFor, name)
	})
}

// commandOf returns the command of a bash call's arguments.
func commandOf(args json.RawMessage) string {
	var in bashInput
	if json.Unmarshal(args, &in) != nil {
		return ""
	}
	return in.Cmd
}

// withHostApproval has the agent's session decide about hosts, unless the
// runtime's own options name somebody. The time limit of the step pauses
// meanwhile.
func (a *Agent) withHostApproval() RuntimeOption {
	return runtimeOption{"withHostApproval", func(o *runtimeOptions) {
		given := o.askHosts
		o.canAskHosts = func() bool { return given != nil || a.hostApproval() != nil }
		o.askHosts = func(ctx context.Context, r HostRequest) (HostDecision, error) {
			ask := given
			if ask == nil {
				ask = a.hostApproval()
			}
			if ask == nil {
				return HostDecision{}, errors.New("the session is over")
			}
			defer a.asking.Close()()
			defer a.enter(&a.calling, "the approval of hosts")()
			return ask(ctx, r)
		}
		a.asksHosts = o.canAskHosts
	}}
}

// setHostApproval changes who decides about hosts, unless the runtime's options
// name somebody.
func (a *Agent) setHostApproval(f HostApprovalFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.opts.approveHosts = f
	a.system.stale.Store(true) // the system message says whether the user is asked
}

// hostApproval returns what setHostApproval set.
func (a *Agent) hostApproval() HostApprovalFunc {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.opts.approveHosts
}
