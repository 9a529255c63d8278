package pygent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/keyset"
	"github.com/x/pygent/internal/nudge"
)

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
	stopped, other := false, nudge.OtherPart
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
			stopped, other = b.result.Outcome != OutcomeOK, nudge.LaterPart
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
		return notRunResult(OutcomeNotRun, nudge.NotRun(context.Cause(ctx)))
	}
	return nil
}

// limitResult shortens a result to what a model sees, and warns a model that
// repeats itself.
func (r *run) limitResult(ctx context.Context, call *ToolCall, result *ToolResult, polls bool) {
	result.sortFiles()
	result.Content = cut.Middle(result.Content, resultBound(call.Name))
	if !polls && ctx.Err() == nil && result.Outcome != OutcomeNotRun {
		r.noteCycle(call, result)
	}
	r.tellNested(ctx, call, result)
}

// toolInfo describes a call for the events about it. It is nil if nobody gets
// those.
func (r *run) toolInfo(ctx context.Context, call ToolCall) *ToolInfo {
	if !r.agent.isHeard() {
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
	key := keyset.Of(t.Name, t.Description, string(t.Parameters), string(t.Kind), fmt.Sprint(t.ReadOnly))
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
	t.Result, t.Err = a.callTool(ctx, tool, call, json.RawMessage(call.Arguments))
	end()
	if a.log.Enabled(ctx, slog.LevelDebug) {
		a.log.LogAttrs(ctx, slog.LevelDebug, "tool called", slog.String("agent", a.id), slog.Int("step", r.result.Steps),
			slog.String("tool", call.Name), slog.String("id", call.ID), slog.Duration("took", time.Since(began)))
	}
	return t.Result, t.Err
}

// endAgain ends the run if a call had ended it, as its result in the history
// tells. The tool says once more how; that is no call, and has no events.
func (r *run) endAgain(ctx context.Context, call *readCall, given HistoryEntry) {
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
		return notRunResult(OutcomeNotRun, nudge.NotRun(err))
	}
	if _, ours := builtinTools()[call.Name]; !ours && !tool.ends || call.Name == "bash" {
		r.agent.ranCommands.Store(true)
	}
	return nil
}

// performed returns the result of a call whose tool has returned.
func (r *run) performed(ctx *callContext, result *ToolResult, err error) *ToolResult {
	ctx.endProgress()
	if err != nil {
		r.noteBroken(err)
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
	result.Content = nudge.OnALine(result.Content, ctx.notes())
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
		if call.tool.Name == "" || !call.tool.ReadOnly || call.tool.ends || jobs[job] || r.agent.whyAsk(call.tool, call.ToolCall) != "" {
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
		result, err := guard.Outlive(b.ctx, func() (*ToolResult, error) {
			defer r.agent.enter(&r.agent.calling, "the tool "+call.Name)()
			return r.traceTool(b.ctx, b.tool, b.ctx.info.Call)
		})
		b.done <- calledTool{result, err}
	}()
	return b
}
