package pygent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/x/pygent/internal/callwords"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/dialect"
	"github.com/x/pygent/internal/nudge"
	"github.com/x/pygent/internal/pace"
	"github.com/x/pygent/internal/thought"
	"github.com/x/pygent/internal/verdict"
)

// CallInfo says whom a tool, a model or an approval serves.
type CallInfo struct {
	Agent string   `json:"agent"`          // id of the agent
	Task  string   `json:"task,omitempty"` // id of the task that the agent works on; empty for none
	Step  int      `json:"step"`           // the step of the run, from 1
	Call  ToolCall `json:"call"`           // with the arguments as the tool gets them; zero for a call of the model
}

// CallFrom returns what the context of a tool, a model or an [ApprovalFunc]
// belongs to. ok is false for any other context. A [HostApprovalFunc] is told of
// the tool call that goes on while it is asked, if there is one; of several calls
// that go on at the same time, of the first in their message.
//
// An agent that a tool runs with its own context is a caller of its own: its
// model and tools get its calls, not those of the tool.
func CallFrom(ctx context.Context) (info CallInfo, ok bool) {
	if c := callContextOf(ctx); c != nil {
		return c.info, true
	}
	return CallInfo{}, false
}

// callContext is the context of a call of a tool or of a model.
type callContext struct {
	context.Context
	info CallInfo

	// The rest is set by the run that makes the call. It is missing where an
	// approval is asked for elsewhere.
	agent   *Agent
	budget  *taskBudget
	message int    // the index in the history of the message with the call
	index   int    // of the call in the message
	changed bool   // somebody changed the arguments
	byHook  bool   // a hook was the last to change them
	note    string // of hooks, for the model

	progress atomic.Pointer[pace.Pace[ProgressInfo]] // nil until the tool tells of some
	asked    *callContext                            // of the same call with the arguments before the change, if changed
}

type callKey struct{}

// Value implements [context.Context].
func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// withCall makes the context of one call of the current message, or of a model
// call, which has no name.
func (r *run) withCall(ctx context.Context, call ToolCall, index int) *callContext {
	return &callContext{
		Context: ctx,
		info:    CallInfo{Agent: r.agent.id, Task: r.agent.opts.task, Step: r.result.Steps, Call: call},
		agent:   r.agent,
		budget:  r.budget,
		message: r.message,
		index:   index,
	}
}

// with returns the context of the same call with other arguments.
func (c *callContext) with(arguments string) *callContext {
	changed := &callContext{Context: c.Context, info: c.info, agent: c.agent, budget: c.budget, message: c.message, index: c.index, changed: true, note: c.note, asked: c}
	changed.info.Call.Arguments = arguments
	return changed
}

// callContextOf returns the context of the call that ctx belongs to, or nil.
func callContextOf(ctx context.Context) *callContext {
	if ctx == nil {
		return nil
	}
	c, _ := ctx.Value(callKey{}).(*callContext)
	return c
}

// callGoingOn returns the context of the tool call that goes on, or nil. A nil
// agent has none.
func (a *Agent) callGoingOn() context.Context {
	if a == nil {
		return nil
	}
	if c := a.serving.Load(); c != nil {
		return c
	}
	return nil
}

// toolCallOf returns the context of the tool call of a run that ctx belongs to,
// or nil.
func toolCallOf(ctx context.Context) *callContext {
	if c := callContextOf(ctx); c != nil && c.agent != nil && c.info.Call.Name != "" {
		return c
	}
	return nil
}

// runCalls runs the tool calls of a message in order. Every call gets exactly
// one result, whatever happens, so that the history stays a legal conversation.
//
// Adjacent calls of tools that only read run at the same time. A call that stands for
// several has one result in the history and, for people, the events of each of them: the last
// one has its id.
func (r *run) runCalls(ctx context.Context, calls []ToolCall) error {
	var so answers
	r.agent.findings.changes()
	read := r.readAll(calls)
	for i := 0; i < len(read); {
		if why := r.whyNot(ctx); why != "" {
			if err := r.skip(ctx, &read[i].ToolCall, notRunResult(OutcomeNotRun, why), r.noteAfter(i == len(read)-1)); err != nil {
				return err
			}
			i++
			continue
		}
		for read[i].set != nil && read[i].err == nil { // the first part may stand for several, too
			read = r.unfold(ctx, read, i)
		}
		for _, result := range r.runNext(ctx, read[i:]) {
			if err := r.give(ctx, &read[i], result, i == len(read)-1, &so); err != nil {
				return err
			}
			i++
		}
	}
	if err := r.showMedia(so.media); err != nil {
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

// answers is what the calls of a message have given so far.
type answers struct {
	media  []Part
	failed []string // the tools of calls that failed
	what   []string // what those were for
}

func (so *answers) noteFailed(call *ToolCall, result *ToolResult) {
	exit := -1
	if result.Bash != nil {
		exit = result.Bash.ExitCode
	}
	so.failed = append(so.failed, call.Name)
	if what := callwords.Failure(call.Name, call.Arguments, exit); what != "" {
		so.what = append(so.what, what)
	}
}

// foundNothing reports whether a command ended as grep does that finds nothing: with exit
// code 1, and without a word. That is an answer and no failure.
func foundNothing(r *ToolResult) bool {
	b := r.Bash
	return r.Outcome != OutcomeOK && b != nil && b.ExitCode == 1 && !b.TimedOut && strings.TrimSpace(b.Output) == ""
}

// didSomething reports whether a call was a step of the work: a command that ran was, also
// if it failed, and another tool that only returned an error was not.
func didSomething(r *ToolResult) bool {
	return r.Outcome != OutcomeNotRun && r.Outcome != OutcomeDenied && (r.Outcome != OutcomeFailed || r.Bash != nil)
}

// give answers a call with its result, unless that is a stop that is refused.
func (r *run) give(ctx context.Context, read *readCall, result *ToolResult, last bool, so *answers) error {
	call := &read.ToolCall
	result = r.checkStop(ctx, r.checkValue(*call, result), so)
	if result.Outcome != OutcomeOK && !foundNothing(result) {
		so.noteFailed(call, result)
	}
	if read.err == nil && !read.tool.ends && didSomething(result) && !dialect.IsNote(call.Name) {
		if r.judge.Ran(result.Outcome != OutcomeOK && !foundNothing(result)); !r.judge.Keeps(r.result.Summary) {
			r.result.Summary = ""
		}
	}
	chooseMedia(result, so.media)
	so.media = append(so.media, result.media()...)
	r.finished(result)
	r.agent.changed.note(result.Changes...)
	if r.agent.keeper != nil {
		r.agent.keeper.WorksAway(ctx)
	}
	err := r.answer(Event{Type: EventToolDone, Call: call}, result, r.noteAfter(last))
	if err == nil && mayChangeJobs(call.Name) {
		r.noteJobs(ctx)
	}
	return err
}

// whyNot returns the result of a call that must not run, and nothing for one
// that may. It ends the run at the limit of calls.
func (r *run) whyNot(ctx context.Context) string {
	switch {
	case r.trouble.CutBy != "":
		return r.trouble.CutCall()
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
	switch {
	case !last:
		return ""
	case r.result.Status != "":
		return r.limitNote()
	}
	return strings.TrimPrefix(nudge.OnALine(r.agent.surveyNews(), r.limitNote()), "\n")
}

// skip answers a call that is not run.
func (r *run) skip(ctx context.Context, call *ToolCall, result *ToolResult, note string) error {
	return r.answer(Event{Type: EventToolSkipped, Call: call, Tool: r.toolInfo(ctx, *call)}, result, note)
}

// notRunResult is the result of a call that was not run.
func notRunResult(outcome Outcome, why string) *ToolResult {
	return &ToolResult{Content: why, IsError: true, Outcome: outcome}
}

// answer appends the result of a call, with a note for the model, and emits its
// event.
func (r *run) answer(e Event, result *ToolResult, note string) error {
	e.Output = result
	entry := HistoryEntry{Message: ToolMessage(e.Call.ID, nudge.OnALine(result.Content, note)), Outcome: result.Outcome, Bash: result.Bash.ended()}
	if r.joint.Left > 0 {
		summary, _ := callwords.Of(e.Call.Name, e.Call.Arguments)
		text, outcome, whole := r.joint.Add(summary, entry.Message.Text(), string(entry.Outcome), maxToolResult)
		if !whole {
			e.Step = r.result.Steps
			r.emit(e)
			return nil
		}
		entry = HistoryEntry{Message: ToolMessage(e.Call.ID, text), Outcome: Outcome(outcome)}
	}
	return r.keep(entry, func() Event { return e })
}

// noteBroken ends the run when a tool failed because nothing can run in the
// runtime any more, or two commands in a row could not begin. It ignores such errors of
// a task, which has a runtime of its own.
func (r *run) noteBroken(err error) {
	var tool *ToolError
	if errors.As(err, &tool) {
		err = tool.Err
	}
	if errors.As(err, new(*TaskError)) {
		return
	}
	if err := r.starts.Failed(err); err != nil {
		r.broken = r.fail(err)
	}
}

// finished ends the run when a tool's result asks for it. Of several that ran at
// the same time the first in the message counts.
func (r *run) finished(result *ToolResult) {
	if result.End == "" || r.result.Status != "" {
		return
	}
	switch result.End {
	case StatusAwaitingUser:
		r.result.Question = result.Question
		r.result.Summary = cmp.Or(strings.TrimSpace(r.result.Message.Text()), r.result.Summary)
	case StatusStopped:
		if said := r.saidAtStop(result); said != "" && !(r.opts.answerEnds && r.judge.Answers()) {
			r.result.Summary = said
		}
		if r.opts.final != nil {
			r.opts.final.taken = result.take
		}
	}
	r.end(result.End, "")
}

// saidAtStop is what the model says as it stops: its summary, or else what stands beside
// the call and is not about a step.
func (r *run) saidAtStop(result *ToolResult) string {
	beside := strings.TrimSpace(r.result.Message.Text())
	if verdict.Announces(beside) {
		beside = ""
	}
	return cmp.Or(result.Summary, beside)
}

// openWithin bounds how long it is looked for tasks and jobs at work, before a run stops
// and where somebody asks.
const openWithin = 3 * time.Second

// checkStop refuses a stop when a call of the same answer failed, or when tasks
// or jobs are still at work, since the model may not know. It does so once in a
// run. Where a run is to end with an answer, it also refuses a stop in place of the work.
func (r *run) checkStop(ctx context.Context, result *ToolResult, so *answers) *ToolResult {
	if result.End == StatusStopped && r.opts.answerEnds && r.judge.Unbegun() {
		return notRunResult(OutcomeFailed, nudge.NotBegun)
	}
	if result.End != StatusStopped || r.judge.Refused || ctx.Err() != nil {
		return result
	}
	var open []string
	if len(so.failed) > 0 {
		open = append(open, nudge.Failed(so.failed))
	}
	open = append(open, r.openTasks(ctx)...)
	open = append(open, r.openJobs(ctx)...)
	if r.opts.answerEnds && r.judge.Owes() && cmp.Or(r.saidAtStop(result), r.result.Summary) == "" {
		open = append(open, nudge.NoAnswer)
	}
	if len(open) == 0 {
		return result
	}
	r.judge.Refused = true
	return notRunResult(OutcomeFailed, nudge.NotStopped(open)+nudge.WhatFailed(so.what))
}

// openTasks names the delegated tasks that are still at work, or ask something.
func (r *run) openTasks(ctx context.Context) []string {
	tasks, err := r.agent.openTasks(ctx)
	if err != nil {
		r.agent.log.Warn("open tasks are not known", "error", err)
	}
	var open []string
	for _, t := range tasks {
		open = append(open, openTask(t))
	}
	return open
}

// openJobs names the background jobs that run.
func (r *run) openJobs(ctx context.Context) []string {
	all, err := r.agent.listJobs(ctx)
	if err != nil {
		r.agent.log.Warn("background jobs are not known", "error", err)
	}
	var open []string
	for _, job := range runningJobs(all) {
		open = append(open, fmt.Sprintf("job %s runs: %s", job.ID, cut.Head(job.Command, 80)))
	}
	return open
}

// noteCycle warns a model that repeats itself, or whose calls all fail, and stops the
// run if it continues so.
func (r *run) noteCycle(call *ToolCall, result *ToolResult) {
	failed := result.Outcome != OutcomeOK
	last, found := r.cycles.Note(call.Name+"\x00"+call.Arguments, cmp.Or(result.compared, result.Content), failed)
	failures, stuck := 0, false
	if !foundNothing(result) {
		failures, stuck = r.cycles.Failed(failed, r.result.Steps)
	}
	var note, reason string
	switch {
	case found && last.Calls > 1 && !r.cycles.AllFailed(last.Calls):
		note, reason = nudge.InTurn(last.Calls, last.Times)
	case found:
		note, reason = nudge.Repeated(call.Name, last.Calls, last.Times)
	case failures > 0:
		note, reason = nudge.InARow(failures)
	default:
		return
	}
	result.Content = nudge.OnALine(result.Content, note)
	if r.cycles.Stuck() || stuck {
		r.end(StatusStuck, reason)
	}
}

// refuseCalls answers the calls of an answer that should only have summed up.
// If the model gave its summary by calling stop, it is taken nevertheless, or what it says
// beside its calls.
func (r *run) refuseCalls(ctx context.Context, calls []ToolCall) error {
	r.result.Summary = cmp.Or(r.saidAtStop(&ToolResult{}), r.result.Summary)
	for _, read := range r.readAll(calls) {
		call := read.ToolCall
		if r.takeLast(ctx, call) {
			if err := r.skip(ctx, &call, &ToolResult{Content: "the answer is taken", Outcome: OutcomeOK}, ""); err != nil {
				return err
			}
			continue
		}
		if summary := stopSummary(call); summary != "" {
			r.result.Summary = summary
		}
		if err := r.skip(ctx, &call, notRunResult(OutcomeNotRun, nudge.LastCall), ""); err != nil {
			return err
		}
	}
	return nil
}

// stopSummary returns the summary of a call of stop; for other calls it is
// empty.
func stopSummary(call ToolCall) string {
	var in stopInput
	if call.Name != "stop" || json.Unmarshal([]byte(call.Arguments), &in) != nil || thought.IsNothing(in.Summary) {
		return ""
	}
	return strings.TrimSpace(in.Summary)
}
