package pygent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/boundset"
	"github.com/x/pygent/internal/callsummary"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/looptext"
	"github.com/x/pygent/internal/mediabudget"
	"github.com/x/pygent/internal/openai/thought"
	"github.com/x/pygent/internal/progress"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/toolcall"
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

	progress atomic.Pointer[progress.Throttle[ProgressInfo]] // nil until the tool tells of some
	asked    *callContext                                    // of the same call with the arguments before the change, if changed
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
	read := r.readAll(calls)
	for i := 0; i < len(read); {
		if why := r.whyNot(ctx); why != "" {
			if err := r.skip(ctx, &read[i].ToolCall, notRunResult(OutcomeNotRun, why), r.promptAfter(i == len(read)-1)); err != nil {
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

func (so *answers) recordFailed(call *ToolCall, result *ToolResult) {
	exit := -1
	if result.Bash != nil {
		exit = result.Bash.ExitCode
	}
	so.failed = append(so.failed, call.Name)
	if what := callsummary.Failure(call.Name, call.Arguments, exit); what != "" {
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
		so.recordFailed(call, result)
	}
	if read.err == nil && !read.tool.ends && didSomething(result) && !toolcall.IsNote(call.Name) {
		if r.judge.Ran(result.Outcome != OutcomeOK && !foundNothing(result)); !r.judge.Keeps(r.result.Summary) {
			r.result.Summary = ""
		}
	}
	chooseMedia(result, so.media)
	so.media = append(so.media, result.media()...)
	r.finished(result)
	r.agent.changed.add(result.Changes...)
	r.agent.keeper.WorksAway(ctx)
	err := r.answer(Event{Type: EventToolDone, Call: call}, result, r.promptAfter(last))
	if err == nil && mayChangeJobs(call.Name) {
		r.emitJobs(ctx)
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
		return looptext.NotRun(r.broken)
	case r.result.Status == StatusMaxToolCalls:
		return looptext.CallLimit
	case r.result.Status != "":
		return looptext.Ended
	case ctx.Err() != nil:
		return looptext.NotRun(context.Cause(ctx))
	case r.result.ToolCalls >= r.opts.MaxToolCalls:
		r.end(StatusMaxToolCalls, reached(r.opts.MaxToolCalls, "tool call")+" (MaxToolCalls)")
		return looptext.CallLimit
	}
	return ""
}

// promptAfter returns what the model has to be told after the last result of a
// message.
func (r *run) promptAfter(last bool) string {
	switch {
	case !last:
		return ""
	case r.result.Status != "":
		return r.limitNote()
	}
	return strings.TrimPrefix(looptext.OnALine(r.agent.news(r.ctx), r.limitNote()), "\n")
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
	entry := chat.HistoryEntry{Message: chat.ToolMessage(e.Call.ID, looptext.OnALine(result.Content, note)), Outcome: result.Outcome, Bash: result.Bash}
	if r.joint.Left > 0 {
		summary, _ := callsummary.Of(e.Call.Name, e.Call.Arguments)
		text, outcome, whole := r.joint.Add(summary, entry.Message.Text(), string(entry.Outcome), maxToolResult)
		if !whole {
			e.Step = r.result.Steps
			r.emit(e)
			return nil
		}
		entry = chat.HistoryEntry{Message: chat.ToolMessage(e.Call.ID, text), Outcome: Outcome(outcome)}
	}
	return r.appendEntry(entry, func() Event { return e })
}

// endIfBroken ends the run when a tool failed because nothing can run in the
// runtime any more, or two commands in a row could not begin. It ignores such errors of
// a task, which has a runtime of its own.
func (r *run) endIfBroken(err error) {
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
		return notRunResult(OutcomeFailed, looptext.NotBegun)
	}
	if result.End != StatusStopped || r.judge.Refused || ctx.Err() != nil {
		return result
	}
	var open []string
	if len(so.failed) > 0 {
		open = append(open, looptext.Failed(so.failed))
	}
	open = append(open, r.openTasks(ctx)...)
	open = append(open, r.openJobs(ctx)...)
	if r.opts.answerEnds && r.judge.Owes() && cmp.Or(r.saidAtStop(result), r.result.Summary) == "" {
		open = append(open, looptext.NoAnswer)
	}
	if len(open) == 0 {
		return result
	}
	r.judge.Refused = true
	return notRunResult(OutcomeFailed, looptext.NotStopped(open)+looptext.WhatFailed(so.what))
}

// openTasks names the delegated tasks that are still at work, or ask something.
func (r *run) openTasks(ctx context.Context) []string {
	tasks, err := r.agent.tasks.open(ctx, r.agent.id)
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
	all, err := r.agent.jobs.list(ctx)
	if err != nil {
		r.agent.log.Warn("background jobs are not known", "error", err)
	}
	var open []string
	for _, job := range runningJobs(all) {
		open = append(open, fmt.Sprintf("job %s runs: %s", job.ID, cut.Head(job.Command, 80)))
	}
	return open
}

// stopCycle warns a model that repeats itself, or whose calls all fail, and stops the
// run if it continues so.
func (r *run) stopCycle(call *ToolCall, result *ToolResult) {
	failed := result.Outcome != OutcomeOK
	last, found := r.cycles.Note(call.Name+"\x00"+call.Arguments, cmp.Or(result.compared, result.Content), failed)
	failures, stuck := 0, false
	if !foundNothing(result) {
		failures, stuck = r.cycles.Failed(failed, r.result.Steps)
	}
	var note, reason string
	switch {
	case found && last.Calls > 1 && !r.cycles.AllFailed(last.Calls):
		note, reason = looptext.InTurn(last.Calls, last.Times)
	case found:
		note, reason = looptext.Repeated(call.Name, last.Calls, last.Times)
	case failures > 0:
		note, reason = looptext.InARow(failures)
	default:
		return
	}
	result.Content = looptext.OnALine(result.Content, note)
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
		if r.acceptValue(ctx, call) {
			if err := r.skip(ctx, &call, &ToolResult{Content: "the answer is taken", Outcome: OutcomeOK}, ""); err != nil {
				return err
			}
			continue
		}
		if summary := stopSummary(call); summary != "" {
			r.result.Summary = summary
		}
		if err := r.skip(ctx, &call, notRunResult(OutcomeNotRun, looptext.LastCall), ""); err != nil {
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

// runNext runs the first of the calls that are left, with those that run beside it or together
// with it, and returns their results, in order.
func (r *run) runNext(ctx context.Context, calls []readCall) []*ToolResult {
	if n := calls[0].together; n > 1 {
		return r.runAll(ctx, calls[:n])
	}
	if n := r.readTogether(calls); n > 1 {
		return r.runTogether(ctx, calls[:n])
	}
	return []*ToolResult{r.runCall(ctx, &calls[0])}
}

// runAll runs calls that are done together or not at all: none of them before all are
// permitted, and none after one that failed.
func (r *run) runAll(ctx context.Context, calls []readCall) []*ToolResult {
	defer r.agent.serving.Store(nil)
	begun := make([]begunCall, len(calls))
	stopped, other := false, looptext.OtherPart
	for i := range calls {
		begun[i] = r.admit(ctx, &calls[i])
		stopped = stopped || begun[i].result != nil
	}
	results := make([]*ToolResult, len(calls))
	for i, b := range begun {
		switch {
		case b.result == nil && stopped:
			b.ctx.endProgress()
			b.result = notRunResult(OutcomeNotRun, other)
		case b.result == nil:
			r.agent.serving.Store(b.ctx)
			b.result = r.perform(b.ctx, b.tool)
			stopped, other = b.result.Outcome != OutcomeOK, looptext.LaterPart
		}
		r.limitResult(ctx, b.call, b.result, b.tool.polls)
		results[i] = b.result
	}
	return results
}

// runCall runs one call. A listener that gets an event before the tool starts can still
// prevent the call by ending ctx.
func (r *run) runCall(ctx context.Context, call *readCall) *ToolResult {
	r.locate(ctx, call)
	if prevented := r.announce(ctx, &call.ToolCall); prevented != nil {
		return prevented
	}
	result, polls := r.execute(ctx, call)
	r.limitResult(ctx, &call.ToolCall, result, polls)
	return result
}

// announce counts a call and emits its event. It returns the result of a call
// that a listener prevented.
func (r *run) announce(ctx context.Context, call *ToolCall) *ToolResult {
	r.result.ToolCalls++
	r.emit(Event{Type: EventToolCall, Step: r.result.Steps, Call: call, Tool: r.toolInfo(ctx, *call)})
	if ctx.Err() != nil {
		return notRunResult(OutcomeNotRun, looptext.NotRun(context.Cause(ctx)))
	}
	return nil
}

// limitResult shortens a result to what a model sees, and warns a model that
// repeats itself.
func (r *run) limitResult(ctx context.Context, call *ToolCall, result *ToolResult, polls bool) {
	result.sortFiles()
	result.Content = cut.Middle(result.Content, resultBound(call.Name))
	if !polls && ctx.Err() == nil && result.Outcome != OutcomeNotRun {
		r.stopCycle(call, result)
	}
	r.afterCall(ctx, *call, result)
}

// toolInfo describes a call for the events about it. It is nil if nobody gets
// those.
func (r *run) toolInfo(ctx context.Context, call ToolCall) *ToolInfo {
	if !r.agent.events.isHeard() {
		return nil
	}
	tool, _ := r.lookup(call.Name)
	return r.describeCall(ctx, tool, call)
}

// describeCall describes a call of a tool. The zero tool stands for one that is
// not known.
func (r *run) describeCall(ctx context.Context, tool Tool, call ToolCall) *ToolInfo {
	var said CallDescription
	if tool.Describe != nil && ctx.Err() == nil {
		if args, err := tool.schema.Arguments(call.Arguments); err == nil {
			said, err = callForeign(ctx, r, "the description of "+call.Name, func() (CallDescription, error) { return tool.Describe(args), nil })
			r.agent.logPanic("description of "+call.Name, err)
		}
	}
	return tool.info(call, said)
}

// identity distinguishes tools of the same name that say different things of
// themselves.
func (t Tool) identity() string {
	key := boundset.Of(t.Name, t.Description, string(t.Parameters), string(t.Kind), fmt.Sprint(t.ReadOnly))
	return string(key[:])
}

// isBuiltin reports whether a tool is a built-in one that nobody has changed,
// as it can work in a runtime.
func (t Tool) isBuiltin() bool { return slices.Contains(t.identities, t.identity()) }

// resultBound returns how many bytes of a tool's result a model sees.
func resultBound(tool string) int {
	if tool == "bash" {
		return maxToolResult + 2*shownCommand // the runtime bounds the output; the lines around it come on top
	}
	return maxToolResult
}

// execute checks that a call may run, and runs it.
func (r *run) execute(ctx context.Context, call *readCall) (result *ToolResult, polls bool) {
	tool, c, refused := r.prepare(ctx, call)
	if refused != nil {
		return refused, false
	}
	defer r.agent.serving.Store(nil)
	r.agent.serving.Store(c)
	asked := c
	c, refused = r.permit(c, tool)
	if refused != nil {
		asked.endProgress()
		return refused, false
	}
	r.agent.serving.Store(c)
	return r.perform(c, tool), tool.polls
}

// prepare makes the context of a call. What is approved is exactly what will run:
// the arguments as they were read, however the model wrote them. A call is read
// again if the tools have changed since.
func (r *run) prepare(ctx context.Context, call *readCall) (_ Tool, _ *callContext, refused *ToolResult) {
	now := *call
	if now.version != r.agent.tools.currentVersion() {
		now = r.read(call.ToolCall)
		if r.locate(ctx, &now); now.set != nil {
			now.err = errors.New("the tools have changed meanwhile; call it again")
		}
	}
	if now.err != nil {
		return now.tool, nil, errorResult(now.err)
	}
	return now.tool, r.withCall(ctx, now.ToolCall, call.index), nil
}

// shownArguments is how much of changed arguments a result repeats, in bytes.
const shownArguments = 4 << 10

// perform runs a tool for a call that was permitted.
func (r *run) perform(ctx *callContext, tool Tool) *ToolResult {
	if refused := r.start(ctx, tool); refused != nil {
		return refused
	}
	if tool.ReadOnly || tool.ends {
		result, err := r.callTool(ctx, tool)
		return r.performed(ctx, result, err)
	}
	if r.turn != nil {
		r.turn.Before(ctx)
	}
	result, err := r.callTool(ctx, tool)
	var changed []string
	if result != nil && tool.isBuiltin() {
		for _, c := range result.Changes {
			changed = append(changed, c.Path)
		}
	}
	if r.turn != nil {
		r.turn.After(ctx, tool.isBuiltin() && mayChangeJobs(tool.Name), changed)
	}
	return r.performed(ctx, result, err)
}

func (r *run) callTool(ctx *callContext, tool Tool) (*ToolResult, error) {
	call := ctx.info.Call
	return callForeign(ctx, r, "the tool "+call.Name, func() (*ToolResult, error) {
		return r.traceTool(ctx, tool, call)
	})
}

// traceTool calls a tool for those who trace calls, and logs the call.
func (r *run) traceTool(ctx context.Context, tool Tool, call ToolCall) (*ToolResult, error) {
	a, began := r.agent, time.Now()
	t := &ToolTrace{Persona: a.Persona().Name, Call: call, Description: tool.Description}
	ctx, end := trace(ctx, a.extensions, func(l *Lifecycle) traceFunc[ToolTrace] { return l.TraceTool }, t)
	t.Result, t.Err = a.callTool(ctx, a.runtime, tool, call, json.RawMessage(call.Arguments))
	end()
	if a.log.Enabled(ctx, slog.LevelDebug) {
		a.log.LogAttrs(ctx, slog.LevelDebug, "tool called", slog.String("agent", a.id), slog.Int("step", r.result.Steps),
			slog.String("tool", call.Name), slog.String("id", call.ID), slog.Duration("took", time.Since(began)))
	}
	return t.Result, t.Err
}

// endAgain ends the run if a call had ended it, as its result in the history
// tells. The tool says once more how; that is no call, and has no events.
func (r *run) endAgain(ctx context.Context, call *readCall, given chat.HistoryEntry) {
	tool, c, refused := r.prepare(ctx, call)
	if refused != nil || !tool.ends || !tool.Idempotent || r.result.Status != "" || wasRefused(given) {
		return
	}
	if result, err := r.callTool(c, tool); err == nil {
		r.finished(result)
	}
}

// start announces that a tool begins to run.
func (r *run) start(ctx *callContext, tool Tool) (refused *ToolResult) {
	call := &ctx.info.Call
	r.emit(Event{Type: EventToolStart, Step: r.result.Steps, Call: call})
	if err := r.agent.git.Before(ctx, !tool.ReadOnly); err != nil {
		return notRunResult(OutcomeNotRun, looptext.NotRun(err))
	}
	if _, ours := builtinTools()[call.Name]; !ours && !tool.ends || call.Name == "bash" {
		r.agent.jobs.ranCommands.Store(true)
	}
	return nil
}

// performed returns the result of a call whose tool has returned.
func (r *run) performed(ctx *callContext, result *ToolResult, err error) *ToolResult {
	ctx.endProgress()
	if err != nil {
		r.endIfBroken(err)
		var te *ToolError
		if errors.As(err, &te) && te.Stack != nil {
			r.agent.log.Error("tool panicked", "tool", ctx.info.Call.Name, "error", te.Err, "stack", string(te.Stack))
		}
		result = errorResult(err)
	} else if b := result.Bash; ctx.info.Call.Name == "bash" && (b == nil || b.ExitCode != -1 || b.Output != "") {
		r.starts.Began() // of what never answered, nobody knows
	}
	r.checkJSON(ctx.info.Call.Name, result)
	if ctx.Err() != nil && result.IsError {
		result.Outcome = OutcomeInterrupted
		result.Content += "\n[the run was interrupted; the call may have taken effect]"
	}
	result.Content = looptext.OnALine(result.Content, ctx.additions())
	return result
}

// maxValue is how many bytes of a result's value go into events.
const maxValue = 1 << 20

// checkJSON drops what would keep the events about a result from having a JSON
// form, or would make them too large.
func (r *run) checkJSON(tool string, result *ToolResult) {
	result.ValueOmitted = len(result.Value) > maxValue
	if result.ValueOmitted {
		r.agent.log.Warn("the value of a result is too large for events", "tool", tool, "bytes", len(result.Value))
		result.Value = nil
	}
	if len(result.Value) > 0 && !json.Valid(result.Value) {
		r.agent.log.Warn("the value of a result is no JSON", "tool", tool)
		result.Value = nil
	}
	if q := result.Question; q != nil && len(q.Schema) > 0 && !json.Valid(q.Schema) {
		r.agent.log.Warn("the schema of a question is no JSON", "tool", tool)
		result.Question = &Question{Prompt: q.Prompt, Options: q.Options}
	}
}

// maxTogether is how many calls run at the same time.
const maxTogether = 8

// begunCall is a call that runs beside others.
type begunCall struct {
	call   *ToolCall
	ctx    *callContext
	tool   Tool
	result *ToolResult // of a call that did not begin
	done   chan calledTool
}

// calledTool is what a tool returned.
type calledTool struct {
	result *ToolResult
	err    error
}

// readTogether returns how many of the calls, from the first one on, can run at
// the same time: those of tools that only read, and that need no approval. Reads of
// one job come after each other, since each shows what is new.
func (r *run) readTogether(calls []readCall) int {
	if len(calls) < 2 {
		return len(calls)
	}
	jobs := map[string]bool{}
	for n, call := range calls[:min(len(calls), maxTogether)] {
		job, reads := jobIn(call)
		if call.tool.Name == "" || !call.tool.ReadOnly || call.tool.ends || jobs[job] || r.agent.deciders.whyAsk(r.agent.runtime, call.tool, call.ToolCall) != "" {
			return max(n, 1)
		}
		jobs[job] = reads
	}
	return min(len(calls), maxTogether)
}

// runTogether runs calls at the same time. It returns the results in the order
// of the calls; those of the last calls are missing if the run ended meanwhile.
// Only the goroutine of the run emits their events: each call is announced when
// it begins.
func (r *run) runTogether(ctx context.Context, calls []readCall) []*ToolResult {
	defer r.agent.serving.Store(nil)
	var begun []begunCall
	for i := range calls {
		if i > 0 && r.whyNot(ctx) != "" {
			break
		}
		begun = append(begun, r.beginCall(ctx, &calls[i]))
	}
	results := make([]*ToolResult, len(begun))
	for i, b := range begun {
		results[i] = b.result
		if b.result == nil {
			r.agent.serving.Store(b.ctx)
			o := <-b.done
			results[i] = r.performed(b.ctx, o.result, o.err)
		}
		r.limitResult(ctx, b.call, results[i], b.tool.polls)
	}
	return results
}

// admit does what comes before a call runs. It has a result if the call must not run.
func (r *run) admit(ctx context.Context, call *readCall) begunCall {
	r.locate(ctx, call)
	b := begunCall{call: &call.ToolCall}
	if b.result = r.announce(ctx, b.call); b.result != nil {
		return b
	}
	if b.tool, b.ctx, b.result = r.prepare(ctx, call); b.result == nil {
		asked := b.ctx
		if b.ctx, b.result = r.permit(b.ctx, b.tool); b.result != nil {
			asked.endProgress()
		}
	}
	return b
}

// beginCall begins one of several calls.
func (r *run) beginCall(ctx context.Context, call *readCall) begunCall {
	b := r.admit(ctx, call)
	if b.result != nil {
		return b
	}
	r.agent.serving.CompareAndSwap(nil, b.ctx)
	if b.result = r.start(b.ctx, b.tool); b.result != nil {
		return b
	}
	b.done = make(chan calledTool, 1)
	go func() {
		result, err := safecall.Outlive(b.ctx, func() (*ToolResult, error) {
			defer r.agent.enter(&r.agent.calling, "the tool "+call.Name)()
			return r.traceTool(b.ctx, b.tool, b.ctx.info.Call)
		})
		b.done <- calledTool{result, err}
	}()
	return b
}

// media returns the images, files and recordings of a result.
func (r *ToolResult) media() []Part {
	parts := make([]Part, 0, len(r.Images)+len(r.Files))
	for _, url := range r.Images {
		parts = append(parts, Part{ImageURL: url})
	}
	return append(parts, r.Files...)
}

// maxFileName is how much of the name of a tool's file is kept, in bytes.
const maxFileName = 255

// sortFiles puts what is no file into the fields that it belongs in.
func (r *ToolResult) sortFiles() {
	var files []Part
	for _, p := range r.Files {
		switch {
		case p.ImageURL != "":
			r.Images = append(slices.Clip(r.Images), p.ImageURL)
		case p.MediaURL() != "":
			p.FileName = cut.Head(p.FileName, maxFileName)
			files = append(files, p)
		default:
			r.Content = looptext.OnALine(r.Content, p.Text)
		}
	}
	r.Files = files
}

// chooseMedia leaves out of a result the images and files for which a message
// with those in shown has no room, and tells the model so.
func chooseMedia(result *ToolResult, shown []Part) {
	if len(result.Images) == 0 && len(result.Files) == 0 {
		return
	}
	room := mediabudget.MaxBytes
	for _, p := range shown {
		room -= len(p.MediaURL())
	}
	var note string
	result.Images, note = mediabudget.Choose(result.Images, room)
	result.Content = looptext.OnALine(result.Content, note)
	for _, url := range result.Images {
		room -= len(url)
	}
	urls := make([]string, len(result.Files))
	for i, p := range result.Files {
		urls[i] = p.MediaURL()
	}
	kept, note := mediabudget.ChooseFiles(urls, room)
	files := make([]Part, len(kept))
	for i, at := range kept {
		files[i] = result.Files[at]
	}
	result.Files, result.Content = files, looptext.OnALine(result.Content, note)
}

// showMedia appends the images and files of the results just given as a message
// of the user, because tool messages carry only text in OpenAI's format.
func (r *run) showMedia(media []Part) error {
	if len(media) == 0 {
		return nil
	}
	m := Message{Role: chat.RoleUser, Parts: media}
	m.Parts = append([]Part{{Text: mediabudget.OfResults(m.HasFiles())}}, media...)
	return r.hear(m, chat.SourceImages)
}
