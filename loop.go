package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// What the loop says to a model, besides the results of tools.
const (
	sayGoOn      = "Go on. Call stop when the work is done, or continue to ask the user."
	sayEmpty     = "Your last answer was empty. Call a tool, or say what you need."
	sayTruncated = "Your last answer was cut off by the token limit. Go on in smaller pieces."

	resultCutOff  = "not run: the answer was cut off by the token limit, so this call may be incomplete; write in smaller pieces"
	resultLimit   = "not run: the limit of tool calls for this run is reached"
	resultEnded   = "not run: an earlier call of the same message ended the run"
	resultSkipped = "not run: %v"
)

// graceForDeaf is how long a tool or model that ignores the end of its context
// is waited for before the run goes on without it.
const graceForDeaf = 5 * time.Second

// run is one run of an agent's loop. It belongs to one goroutine.
type run struct {
	*Agent
	opts    runOptions
	result  *Result
	started time.Time
	repeats repeats
	budget  *taskBudget // shared with the tasks that the run delegates
	message int         // the index in the history of the message whose calls run

	replies   int  // replies in a row without a tool call
	truncated bool // the last answer was cut off
	empty     bool // the last answer was empty
}

func newRun(a *Agent, o runOptions) *run {
	spends := newTaskBudget(o)
	o.maxTokens = spends.Limit()
	return &run{Agent: a, opts: o, result: &Result{}, started: time.Now(), budget: spends}
}

// do makes steps until one of them ends the run.
func (r *run) do(ctx context.Context, msg string) (*Result, error) {
	if r.opts.maxTime > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.opts.maxTime, errMaxTime)
		defer cancel()
	}
	r.budget.deadline, _ = ctx.Deadline()
	err := r.steps(ctx, msg)
	r.tellRepairs()
	r.result.TaskUsage = r.budget.Below()
	r.budget.over.Store(true)
	r.result.Elapsed = time.Since(r.started)
	r.emit(Event{Type: EventRunEnd, Step: r.result.Steps, Usage: &r.result.Usage, Result: r.result})
	return r.result, err
}

func (r *run) steps(ctx context.Context, msg string) error {
	r.tellRepairs()
	if !r.opts.resume {
		if err := r.history.answerOpenCalls(); err != nil {
			return r.fail(err)
		}
	}
	if msg != "" {
		if err := r.history.Append(UserMessage(msg)); err != nil {
			return r.fail(err)
		}
	}
	if r.opts.resume {
		if err := r.resume(ctx); err != nil {
			return err
		}
	}
	for r.result.Status == "" {
		switch {
		case ctx.Err() != nil:
			return r.interrupted(ctx)
		case r.result.Steps >= r.opts.maxSteps:
			r.end(StatusMaxSteps, fmt.Sprintf("the limit of %d steps is reached", r.opts.maxSteps))
		case r.opts.maxTokens > 0 && r.spent() >= r.opts.maxTokens:
			r.end(StatusBudget, r.budget.spentInWords())
		default:
			if err := r.step(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// spent is how many tokens the run and its tasks have used, and those set aside
// for tasks at work.
func (r *run) spent() int64 { return r.budget.Limit() - r.budget.Left() }

// end notes how the run ended; the first word counts.
func (r *run) end(s Status, reason string) {
	if r.result.Status == "" {
		r.result.Status, r.result.Reason = s, reason
	}
}

// fail ends the run with an error.
func (r *run) fail(err error) error {
	r.end(StatusFailed, err.Error())
	return err
}

// interrupted ends the run because ctx, or the context of its step, ended. A
// time limit of the run itself is a status; anything else is an error too.
func (r *run) interrupted(ctx context.Context) error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errStepTimeout):
		r.end(StatusTimeout, fmt.Sprintf("the step took longer than %s", r.opts.stepTimeout))
		return nil
	case errors.Is(cause, errMaxTime):
		r.end(StatusTimeout, fmt.Sprintf("the run took longer than %s", r.opts.maxTime))
		return nil
	case errors.Is(cause, context.DeadlineExceeded):
		r.end(StatusTimeout, "the caller's deadline passed")
	default:
		r.end(StatusCancelled, cause.Error())
	}
	return cause
}

// step asks the model once and runs the tools it calls.
func (r *run) step(ctx context.Context) error {
	if r.opts.stepTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.opts.stepTimeout, errStepTimeout)
		defer cancel()
	}
	if err := r.nudge(); err != nil {
		return r.fail(err)
	}
	r.result.Steps++
	r.emit(Event{Type: EventStep, Step: r.result.Steps})
	r.tellRepairs()
	if err := r.refreshSystem(ctx); err != nil {
		if ctx.Err() != nil {
			return r.interrupted(ctx)
		}
		return r.fail(err)
	}
	resp, err := r.ask(ctx)
	if err != nil {
		return r.modelFailed(ctx, err)
	}
	r.result.Usage = r.result.Usage.Add(resp.Usage)
	r.budget.Spend(r.result.Usage)
	return r.take(ctx, resp)
}

// nudge appends what the model has to hear before it is asked again: that tasks
// ended, and what to do after an answer that called no tool.
func (r *run) nudge() error {
	say := ""
	switch {
	case r.empty:
		say = sayEmpty
	case r.truncated && r.replies > 0:
		say = sayTruncated
	case r.replies > 0:
		say = sayGoOn
	}
	for _, text := range []string{r.notices.take(), say} {
		if text == "" {
			continue
		}
		if err := r.history.Append(UserMessage(text)); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) modelFailed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return r.interrupted(ctx)
	}
	var api *APIError
	if errors.As(err, &api) && api.ContextTooLarge {
		r.end(StatusContextFull, err.Error())
	}
	return r.fail(fmt.Errorf("ask the model: %w", err))
}

// take appends the model's answer and acts on it.
func (r *run) take(ctx context.Context, resp *ChatResponse) error {
	msg := resp.Message
	cutOff := resp.FinishReason == FinishLength
	if len(msg.ToolCalls) == 0 && strings.TrimSpace(msg.Text()) == "" {
		return r.tookNothing(resp, cutOff)
	}
	r.empty = false
	if err := r.history.Append(msg); err != nil {
		return r.fail(err)
	}
	r.result.Message = msg
	r.result.Summary = cmp.Or(strings.TrimSpace(msg.Text()), r.result.Summary)
	r.emit(Event{Type: EventMessage, Step: r.result.Steps, Message: &msg, Usage: &resp.Usage})
	if cutOff && r.truncated {
		r.end(StatusTruncated, "two answers in a row were cut off by the token limit")
	}
	r.truncated = cutOff
	if len(msg.ToolCalls) > 0 {
		r.replies, r.message = 0, r.history.Len()-1
		return r.runCalls(ctx, msg.ToolCalls)
	}
	r.tookReply(resp)
	return nil
}

// tookNothing handles an empty answer, which is never appended: one nudge,
// then the run ends.
func (r *run) tookNothing(resp *ChatResponse, cutOff bool) error {
	reason := "the model answered nothing, twice"
	if cutOff {
		reason = "the token limit left no room for an answer, twice"
	}
	if resp.FinishReason == FinishFilter {
		r.end(StatusEmpty, "the provider's content filter withheld the answer")
	}
	if r.empty {
		r.end(StatusEmpty, reason)
	}
	r.empty = true
	return nil
}

// tookReply handles an answer that calls no tool.
func (r *run) tookReply(resp *ChatResponse) {
	r.replies++
	if looksLikeToolCallText(resp.Message.Text(), r.system.specs) {
		r.emit(Event{Type: EventNotice, Step: r.result.Steps,
			Text: "the model printed a tool call as text instead of calling it: its server may need a chat template or parser for tool calls (vLLM: --enable-auto-tool-choice; llama.cpp: --jinja)"})
	}
	switch {
	case r.opts.replyEnds && !r.truncated:
		r.end(StatusReplied, "")
	case r.replies >= r.opts.maxReplies:
		r.end(StatusReplied, fmt.Sprintf("%d replies in a row without a tool call", r.replies))
	}
}

// ask calls the model, and repeats the call as the retry policy says.
func (r *run) ask(ctx context.Context) (*ChatResponse, error) {
	req := &ChatRequest{Model: r.modelName, Messages: r.history.conversation(), Tools: r.system.specs}
	policy := r.Agent.opts.retry.withDefaults()
	for attempt := 1; ; attempt++ {
		resp, err := r.askOnce(ctx, req)
		if err == nil {
			return resp, nil
		}
		wait, final := policy.next(ctx, attempt, err)
		if final != nil {
			return nil, final
		}
		r.log.Warn("model call failed; retrying", "attempt", attempt, "wait", wait, "error", err)
		r.emit(Event{Type: EventRetry, Step: r.result.Steps, Retry: &RetryInfo{Attempt: attempt, Wait: wait, Error: err.Error()}})
		if err := sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// askOnce makes one model call. A panic of the model is an error, and a model
// that ignores the end of its context is left behind.
func (r *run) askOnce(ctx context.Context, req *ChatRequest) (*ChatResponse, error) {
	deltas := gate[Delta]{next: r.delta}
	resp, err := outlive(ctx, func() (*ChatResponse, error) {
		if s, ok := r.model.(StreamingModel); ok {
			return s.ChatStream(ctx, req, deltas.pass)
		}
		return r.model.Chat(ctx, req)
	})
	deltas.shut()
	r.logPanic("model", err)
	switch {
	case err != nil:
		return nil, err
	case resp == nil:
		return nil, errors.New("the model returned neither a response nor an error")
	}
	resp.Message.Role = RoleAssistant
	resp.Message.ToolCalls = uniqueCalls(resp.Message.ToolCalls, r.result.Steps)
	return resp, nil
}

// logPanic keeps the stack of a panic of what, if err is one.
func (a *Agent) logPanic(what string, err error) { logPanic(a.log, what, err) }

func logPanic(log *slog.Logger, what string, err error) {
	var p *panicError
	if errors.As(err, &p) {
		log.Error(what+" panicked", "error", err, "stack", string(p.stack))
	}
}

// delta turns a piece of an answer into events.
func (r *run) delta(d Delta) {
	for _, e := range []Event{
		{Type: EventReasoning, Text: d.Reasoning},
		{Type: EventText, Text: d.Text},
		{Type: EventNotice, Text: d.Notice},
	} {
		if e.Text != "" {
			e.Step = r.result.Steps
			r.emit(e)
		}
	}
}

// uniqueCalls gives calls without an id, or with the id of another call of the
// same message, one of their own, so that every call can have its result.
func uniqueCalls(calls []ToolCall, step int) []ToolCall {
	seen := map[string]bool{}
	var fixed []ToolCall
	for i, c := range calls {
		if c.ID != "" && !seen[c.ID] {
			seen[c.ID] = true
			continue
		}
		if fixed == nil {
			fixed = append(fixed, calls...)
		}
		id := fmt.Sprintf("call_%d_%d", step, i)
		for seen[id] {
			id += "x"
		}
		fixed[i].ID, seen[id] = id, true
	}
	if fixed == nil {
		return calls
	}
	return fixed
}

// panicError is the panic of a function that is not ours. Its words leave out
// the stack, which is for logs: they are shown to models and people.
type panicError struct {
	value any
	stack []byte
}

// Error shows the value; the stack is for the log alone.
func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// errGoexit is the error of a function that ended its goroutine, as the
// FailNow of a test does, instead of returning.
var errGoexit = errors.New("it ended its goroutine instead of returning")

// outlive calls f in a goroutine of its own and returns what it returns. When
// ctx ends, f has a grace to notice; past it, f is left to end by itself. A
// panic of f is a [*panicError].
func outlive[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		o := outcome{err: errGoexit}
		defer func() {
			if p := recover(); p != nil {
				o.err = &panicError{p, debug.Stack()}
			}
			done <- o
		}()
		o.value, o.err = f()
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
	}
	grace := time.NewTimer(graceForDeaf)
	defer grace.Stop()
	select {
	case o := <-done:
		return o.value, o.err
	case <-grace.C:
		var none T
		return none, fmt.Errorf("%w; it did not react within %s and was left behind", context.Cause(ctx), graceForDeaf)
	}
}

// gate passes values on until it is shut.
type gate[T any] struct {
	mu     sync.Mutex
	closed bool
	next   func(T)
}

func (g *gate[T]) pass(v T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.next(v)
	}
}

func (g *gate[T]) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}
