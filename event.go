package pygent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/x/pygent/internal/callback"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/feed"
	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/jsonobj"
)

// Event is something that happened in an agent. Its JSON is what
// `pygent run --json` prints, one object a line.
//
// Only the fields that Type calls for are set. Text and reasoning deltas are
// for display: several may come as one, and the message event that follows holds
// all. Every tool_call is followed by its tool_done. Durations are seconds in
// JSON, with fractions, in fields whose names end in "_seconds".
type Event struct {
	Seq  int64     `json:"seq"` // rises by at least one from event to event of an agent
	Time time.Time `json:"time"`
	Type EventType `json:"type"`
	Task string    `json:"task,omitempty"` // the id of the background task it comes from; empty for the agent itself
	Step int       `json:"step,omitempty"` // the step of the run, from 1

	Text    string        `json:"text,omitempty"`    // a delta, or words for people
	Message *Message      `json:"message,omitempty"` // the complete message
	Call    *ToolCall     `json:"call,omitempty"`    // the tool call
	Output  *ToolResult   `json:"output,omitempty"`  // the tool's result
	Usage   *Usage        `json:"usage,omitempty"`   // tokens of the step, or of the run
	Retry   *RetryInfo    `json:"retry,omitempty"`   // the retry that follows
	Runtime *RuntimeEvent `json:"runtime,omitempty"` // what the runtime tells
	Result  *Result       `json:"result,omitempty"`  // the end of the run

	TaskStatus *TaskStatus `json:"task_status,omitempty"` // the task's new state
}

// EventType is the kind of an [Event].
type EventType string

// The types of events.
const (
	EventStep        EventType = "step"         // a step begins: Step
	EventText        EventType = "text"         // the model writes: Text
	EventReasoning   EventType = "reasoning"    // the model thinks aloud: Text
	EventMessage     EventType = "message"      // the model's message is complete: Message, Usage
	EventToolCall    EventType = "tool_call"    // a tool is about to run: Call
	EventToolDone    EventType = "tool_done"    // a tool has run: Call, Output
	EventToolSkipped EventType = "tool_skipped" // a call is answered without running its tool: Call, Output
	EventRetry       EventType = "retry"        // the model call failed and is repeated; text streamed in this step is withdrawn: Retry
	EventNotice      EventType = "notice"       // worth knowing: Text
	EventWarning     EventType = "warning"      // something is not as asked for: Text
	EventRuntime     EventType = "runtime"      // the runtime tells something: Runtime, Text
	EventRunEnd      EventType = "run_end"      // the run is over: Result
	EventTask        EventType = "task"         // a background task changed its state: Task, TaskStatus, Text
	EventApproval    EventType = "approval"     // a background task asks whether a call may run: Task, Call
)

// RetryInfo describes a model call that is about to be repeated.
type RetryInfo struct {
	Attempt int           `json:"attempt"` // the number of the failed attempt, from 1
	Wait    time.Duration `json:"-"`       // the pause before the next one; wait_seconds in JSON
	Error   string        `json:"error"`   // why the attempt failed
}

// MarshalJSON gives the pause in seconds.
func (r RetryInfo) MarshalJSON() ([]byte, error) {
	type plain RetryInfo
	return json.Marshal(struct {
		plain
		Wait jsonobj.Seconds `json:"wait_seconds"`
	}{plain(r), jsonobj.Seconds(r.Wait)})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (r *RetryInfo) UnmarshalJSON(data []byte) error {
	type plain RetryInfo
	in := struct {
		*plain
		Wait *jsonobj.Seconds `json:"wait_seconds"`
	}{(*plain)(r), (*jsonobj.Seconds)(&r.Wait)}
	return json.Unmarshal(data, &in)
}

// Result is the outcome of a run.
type Result struct {
	Status    Status        `json:"status"`
	Reason    string        `json:"reason,omitempty"`    // the status in words, where there is more to say
	APIError  *APIError     `json:"api_error,omitempty"` // what the model's API answered, when the run failed by it
	Message   Message       `json:"message,omitzero"`    // the last message of the model; zero when it gave none
	Summary   string        `json:"summary,omitempty"`   // what the model said when it stopped or summed up; else its first reply after the last tool call
	Question  *Question     `json:"question,omitempty"`  // what the model asks, when it awaits the user
	Steps     int           `json:"steps"`
	ToolCalls int           `json:"tool_calls"`
	Usage     Usage         `json:"usage"`               // of the agent itself
	TaskUsage Usage         `json:"task_usage,omitzero"` // of tasks it delegated in this run, while it went on
	Elapsed   time.Duration `json:"-"`                   // elapsed_seconds in JSON
}

// MarshalJSON gives the time that the run took in seconds.
func (r Result) MarshalJSON() ([]byte, error) {
	type plain Result
	return json.Marshal(struct {
		plain
		Elapsed jsonobj.Seconds `json:"elapsed_seconds"`
	}{plain(r), jsonobj.Seconds(r.Elapsed)})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (r *Result) UnmarshalJSON(data []byte) error {
	type plain Result
	in := struct {
		*plain
		Elapsed *jsonobj.Seconds `json:"elapsed_seconds"`
	}{(*plain)(r), (*jsonobj.Seconds)(&r.Elapsed)}
	return json.Unmarshal(data, &in)
}

// Question is what a model asks the user with the tool "continue".
type Question struct {
	Prompt  string   `json:"prompt,omitempty"`
	Options []string `json:"options,omitempty"` // answers to choose from; the user may give another
}

// Status says how a run ended.
type Status string

// The ways a run ends.
const (
	StatusStopped      Status = "stopped"        // the model called stop
	StatusAwaitingUser Status = "awaiting_user"  // the model called continue
	StatusReplied      Status = "replied"        // the model replied without calling a tool
	StatusMaxSteps     Status = "max_steps"      // the limit of steps was reached
	StatusMaxToolCalls Status = "max_tool_calls" // the limit of tool calls was reached
	StatusTimeout      Status = "timeout"        // a step or the run took too long
	StatusCancelled    Status = "cancelled"      // the context was cancelled
	StatusBudget       Status = "budget"         // the budget of tokens is spent
	StatusTruncated    Status = "truncated"      // the token limit cut off two answers in a row
	StatusEmpty        Status = "empty"          // the model answered nothing, twice
	StatusStuck        Status = "stuck"          // the same calls gave the same results five times in a row
	StatusContextFull  Status = "context_full"   // the conversation exceeds the model's window
	StatusFailed       Status = "failed"         // the model call failed, or the runtime cannot start
)

// MarshalJSON gives the time that the command took in seconds.
func (r BashResult) MarshalJSON() ([]byte, error) {
	type plain BashResult
	return json.Marshal(struct {
		plain
		Duration jsonobj.Seconds `json:"duration_seconds"`
	}{plain(r), jsonobj.Seconds(r.Duration)})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (r *BashResult) UnmarshalJSON(data []byte) error {
	type plain BashResult
	in := struct {
		*plain
		Duration *jsonobj.Seconds `json:"duration_seconds"`
	}{(*plain)(r), (*jsonobj.Seconds)(&r.Duration)}
	return json.Unmarshal(data, &in)
}

// MarshalJSON gives the time since the job began in seconds.
func (j Job) MarshalJSON() ([]byte, error) {
	type plain Job
	return json.Marshal(struct {
		plain
		Duration jsonobj.Seconds `json:"duration_seconds"`
	}{plain(j), jsonobj.Seconds(j.Duration)})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (j *Job) UnmarshalJSON(data []byte) error {
	type plain Job
	in := struct {
		*plain
		Duration *jsonobj.Seconds `json:"duration_seconds"`
	}{(*plain)(j), (*jsonobj.Seconds)(&j.Duration)}
	return json.Unmarshal(data, &in)
}

// ErrEventsUsed is the error of ranging a second time over what [Agent.Events]
// returned: it stands for one run, which is over.
var ErrEventsUsed = errors.New("the events of this run were ranged over already; call Events for another run")

// Events is [Agent.RunUntilStop] as an iterator over what happens. The run goes
// in step with the loop that ranges over it: it goes on when the loop asks for
// the next event, so that a loop left at a tool_call keeps the tool from running.
// Only deltas are written ahead, and merged. The last event is [EventRunEnd],
// with the result. The error, if any, comes last, with a zero event.
//
// Leaving the loop cancels the run and waits for its end. The body may use the
// agent's runtime, its tasks and its history, but not close the agent. The time
// that it takes counts: a run whose time limit passes meanwhile ends, and the
// loop still gets its events. It can be ranged over once.
func (a *Agent) Events(ctx context.Context, msg string, opts ...RunOption) iter.Seq2[Event, error] {
	var used atomic.Bool
	return func(yield func(Event, error) bool) {
		if used.Swap(true) {
			yield(Event{}, ErrEventsUsed)
			return
		}
		if err := a.follow(ctx, msg, opts, func(e Event) bool { return yield(e, nil) }); err != nil {
			yield(Event{}, err)
		}
	}
}

// follow runs the agent and calls yield with every event until it returns false,
// which cancels the run. It returns the error of a run that was followed to its
// end.
func (a *Agent) follow(ctx context.Context, msg string, opts []RunOption, yield func(Event) bool) error {
	if ctx == nil {
		return errNilContext
	}
	ctx, cancel := context.WithCancel(ctx)
	s := feed.NewStream(mergeDeltas)
	ended := make(chan struct{})
	var err error
	go func() {
		defer close(ended)
		_, err = a.run(ctx, msg, s.Feed(), opts)
	}()
	defer func() {
		cancel()
		s.Leave()
		<-ended
		<-s.Feed().Handled()
	}()
	defer a.calling.Enter(callback.Self())()
	for {
		e, ok := s.Next(ended)
		if !ok {
			return err
		}
		if !yield(e) {
			return nil
		}
	}
}

// isDelta reports whether an event is for display alone: a piece of an answer
// being written, or how far a pull is.
func isDelta(e Event) bool {
	return e.Type == EventText || e.Type == EventReasoning ||
		e.Type == EventRuntime && e.Runtime.Kind == RuntimePull
}

// mergeDeltas joins two pieces of the same text. Of a pull the last word counts.
func mergeDeltas(last, next Event) (Event, bool) {
	if last.Type != next.Type || last.Task != next.Task || last.Step != next.Step {
		return last, false
	}
	if next.Type != EventRuntime {
		next.Text = last.Text + next.Text
	}
	return next, true
}

// handlerFeed returns a feed for an event handler of the caller's, or nil for
// none. A handler that panics ends the run that goes on.
func (a *Agent) handlerFeed(f func(Event)) *feed.Feed[Event] {
	if f == nil {
		return nil
	}
	return feed.New(func(e Event) {
		defer a.enter(&a.handling, "an event handler")()
		guard.Call(func() { f(e) }, a.handlerFailed)
	}, mergeDeltas)
}

// errHandler is the cause with which a run ends whose event handler panicked.
var errHandler = errors.New("the event handler")

// handlerFailed ends the run that goes on because a handler of its events did
// not return.
func (a *Agent) handlerFailed(err error) {
	a.logPanic("event handler", err)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cancel != nil {
		a.cancel(fmt.Errorf("%w: %w", errHandler, err))
	}
}

// listeners are who hears the events of an agent.
type listeners struct {
	always  *feed.Feed[Event]   // of the agent's handler; nil for none
	session *feed.Feed[Event]   // of the interactive session that goes on
	run     []*feed.Feed[Event] // of the run that goes on
}

// listen has feeds hear the events of the run that begins. Nil feeds are left out.
func (a *Agent) listen(feeds ...*feed.Feed[Event]) {
	a.emitMu.Lock()
	defer a.emitMu.Unlock()
	a.listeners.run = nil
	for _, f := range feeds {
		if f != nil {
			a.listeners.run = append(a.listeners.run, f)
		}
	}
}

// emit completes an event and hands it to everybody who listens. It does not
// wait for them: the channels it returns are closed when they have handled it.
func (a *Agent) emit(e Event) []<-chan struct{} {
	a.logEvent(e)
	a.emitMu.Lock()
	defer a.emitMu.Unlock()
	l := &a.listeners
	if l.always == nil && l.session == nil && len(l.run) == 0 {
		return nil
	}
	e.Seq, e.Time = a.seq.Add(1), time.Now()
	var handled []<-chan struct{}
	for _, f := range append(l.run[:len(l.run):len(l.run)], l.always, l.session) {
		switch {
		case f == nil:
		case isDelta(e):
			f.Offer(e)
		default:
			handled = append(handled, f.Put(e))
		}
	}
	if e.Type == EventRunEnd && e.Task == "" {
		l.run = nil // tasks may go on, but the run's listeners have heard its last event
	}
	return handled
}

// eventsHandled waits until the agent's own handler has seen all events so far,
// or ctx ends.
func (a *Agent) eventsHandled(ctx context.Context) {
	if a.listeners.always == nil {
		return
	}
	select {
	case <-a.listeners.always.Handled():
	case <-ctx.Done():
	}
}

// emit tells what happens in the run, and waits until everybody who listens has
// handled it, or the time of the step is over. So the run goes in step with who
// follows it.
func (r *run) emit(e Event) { feed.Await(r.agent.emit(e), r.patience) }

// emitLast tells the end of the run. Who listens is waited for, but no longer
// than [guard.Grace] once the run's time is over.
func (r *run) emitLast(e Event) {
	handled := r.agent.emit(e)
	if feed.Await(handled, r.patience) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), guard.Grace)
	defer cancel()
	feed.Await(handled, ctx.Done())
}

// logStart says with what the agent begins, and what was not as asked for.
func (a *Agent) logStart() {
	for _, warning := range a.opts.warnings {
		a.log.Warn("configuration", "what", warning)
	}
	a.log.Info("agent made", "agent", a.id, "persona", a.persona.Name, "model", modelInLog(a.model, a.modelName),
		"docker", a.runtime.UseDocker(), "messages", a.history.Len())
}

// logEvent logs an event unless the log has it from elsewhere: the loop logs
// its retries, the runtime what it tells, and the agent of a task what the task
// does. What streams in pieces is left out.
func (a *Agent) logEvent(e Event) {
	ctx := context.Background()
	if e.Task != "" && e.Type != EventTask || !a.log.Enabled(ctx, slog.LevelError) {
		return
	}
	level, text, attrs := logEntry(e)
	if text != "" {
		a.log.LogAttrs(ctx, level, text, append(attrs, slog.String("agent", a.id))...)
	}
}

// logEntry is what the log says of an event, which is nothing of some.
func logEntry(e Event) (level slog.Level, text string, attrs []slog.Attr) {
	switch e.Type {
	case EventStep:
		return slog.LevelDebug, "step", []slog.Attr{slog.Int("step", e.Step)}
	case EventMessage:
		return slog.LevelDebug, "answer", []slog.Attr{slog.Int("calls", len(e.Message.ToolCalls)), tokensInLog(e.Usage)}
	case EventToolCall:
		return slog.LevelDebug, "tool call", []slog.Attr{slog.String("tool", e.Call.Name), slog.String("call", cut.Head(describeCall(*e.Call), loggedCall))}
	case EventToolDone:
		return slog.LevelDebug, "tool done", []slog.Attr{slog.String("tool", e.Call.Name), slog.Bool("failed", e.Output.IsError), slog.Int("bytes", len(e.Output.Content))}
	case EventToolSkipped:
		return slog.LevelDebug, "tool call not run", []slog.Attr{slog.String("tool", e.Call.Name), slog.String("why", cut.Head(e.Output.Content, loggedCall))}
	case EventNotice:
		return slog.LevelInfo, e.Text, nil
	case EventWarning:
		return slog.LevelWarn, e.Text, nil
	case EventTask:
		return slog.LevelInfo, e.Text, []slog.Attr{slog.String("task", e.Task)}
	case EventRunEnd:
		return runEndInLog(e.Result)
	}
	return 0, "", nil
}

// loggedCall is how much of a tool call a log shows, in bytes.
const loggedCall = 200

func runEndInLog(r *Result) (slog.Level, string, []slog.Attr) {
	level := slog.LevelInfo
	if r.Status == StatusFailed || r.Status == StatusContextFull {
		level = slog.LevelError
	}
	return level, "run ended", []slog.Attr{
		slog.String("status", string(r.Status)), slog.String("reason", r.Reason), slog.Int("steps", r.Steps),
		slog.Int("calls", r.ToolCalls), tokensInLog(&r.Usage), slog.Duration("elapsed", r.Elapsed),
	}
}

func tokensInLog(u *Usage) slog.Attr {
	if u == nil {
		return slog.Attr{}
	}
	return slog.Int64("tokens", u.Total())
}

// jsonSeconds is the form of durations in JSON.
type jsonSeconds = jsonobj.Seconds
