package pygent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/eventqueue"
	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/progress"
	"github.com/x/pygent/internal/safecall"
)

// Event is something that happened in an agent. Its JSON is what
// `pygent run --json` prints, one object a line.
//
// An event has only the fields of its type. Text and reasoning deltas are for
// display: several may be merged, and the message event that follows has the whole
// text. A call that stands for several calls, such as a patch of several files, has
// the events of each of them; the last one has its ID. Every tool_call is followed by
// its tool_done. Between them come approval, decision and tool_start if they apply, and
// any number of progress and output events, which are for display only. Calls of
// read-only tools may overlap: Call tells them apart, and they end in the order in which
// they started. In JSON, durations are seconds with fractions, in fields whose names end
// in "_seconds".
type Event struct {
	Seq   int64     `json:"seq"`             // The number of the event. It rises by at least one with each event of an agent.
	Time  time.Time `json:"time"`            // When the event was emitted.
	Type  EventType `json:"type"`            // What happened.
	Task  string    `json:"task,omitempty"`  // The ID of the background task that the event comes from; empty for the agent itself.
	Input int64     `json:"input,omitempty"` // In events of a task: the number of the last message that the task received, as [TaskManager.Send] returned it.
	Step  int       `json:"step,omitempty"`  // The step of the run, from 1.

	Text    string      `json:"text,omitempty"`    // A piece of an answer, a text for people, or what the user or the agent said.
	Source  chat.Source `json:"source,omitempty"`  // Who said it.
	Message *Message    `json:"message,omitempty"` // The complete message.
	Call    *ToolCall   `json:"call,omitempty"`    // The tool call. From decision on, it has the arguments that the tool receives; in tool_done, those that the model wrote.
	Tool    *ToolInfo   `json:"tool,omitempty"`    // A description of the tool and of the call, for people.
	Output  *ToolResult `json:"output,omitempty"`  // The result of the tool.
	Usage   *Usage      `json:"usage,omitempty"`   // The tokens of the step or the run, and their cost.
	Retry   *RetryInfo  `json:"retry,omitempty"`   // The retry that follows.

	Approval *ApprovalRequest `json:"approval,omitempty"` // The question about a call.
	Decision *Decision        `json:"decision,omitempty"` // The answer to that question.
	Question *Question        `json:"question,omitempty"` // The question of a tool.
	Answer   *Answer          `json:"answer,omitempty"`   // The answer to that question.
	Progress *ProgressInfo    `json:"progress,omitempty"` // The progress of a call.
	Chunk    *OutputChunk     `json:"chunk,omitempty"`    // A piece of the output of a command.

	Runtime *RuntimeEvent `json:"runtime,omitempty"` // What the runtime reports.
	Result  *Result       `json:"result,omitempty"`  // The result of the run.
	Model   string        `json:"model,omitempty"`   // The model that is called, or the one that answered; empty if it has no name.
	Attempt int           `json:"attempt,omitempty"` // The number of the attempt to call the model, from 1.

	ID      string `json:"id,omitempty"`      // The ID of a message that Say queued.
	Unheard []Said `json:"unheard,omitempty"` // The messages that Say queued and the model has not received.

	CallDelta *chat.CallDelta `json:"call_delta,omitempty"` // How much of the call the model has written.

	Settings *Settings `json:"settings,omitempty"` // The settings that apply now.

	Jobs []Job `json:"jobs,omitempty"` // The background commands.

	Context    ContextUse       `json:"context,omitzero"`     // How much of the model's context window is used.
	Compaction *chat.Compaction `json:"compaction,omitempty"` // How the conversation was compacted.

	// Messages is the number of messages in the history, in events that add one. The
	// system message does not count: it is added after the first message of the user,
	// and before it in the list.
	Messages int `json:"messages,omitempty"`

	Restored   *Restored   `json:"restored,omitempty"`    // What was restored.
	TaskStatus *TaskStatus `json:"task_status,omitempty"` // The new state of the task.
}

// EventType is the kind of an [Event].
type EventType string

// The types of events.
const (
	EventUser        EventType = "user"         // The conversation received a message in the role of the user. Fields: Text, Source, Messages; Message if it is more than text; ID if Say queued it.
	EventUnheard     EventType = "unheard"      // The messages that Say queued and the model has not received have changed. Fields: Unheard, empty for none.
	EventSettings    EventType = "settings"     // A setting of the agent has changed. Fields: Settings.
	EventStep        EventType = "step"         // A step starts. Fields: Step.
	EventModelStart  EventType = "model_start"  // A call of the model is about to start. Fields: Model, Attempt, Messages.
	EventText        EventType = "text"         // The model writes a piece of its answer. Fields: Text.
	EventReasoning   EventType = "reasoning"    // The model writes a piece of its reasoning. Fields: Text.
	EventCallDelta   EventType = "call_delta"   // The model writes a tool call. Emitted at most ten times a second for a call. Fields: CallDelta.
	EventMessage     EventType = "message"      // The message of the model is complete. Fields: Message, Model, Usage, Context, Messages.
	EventToolCall    EventType = "tool_call"    // The model calls a tool. Fields: Call, Tool.
	EventApproval    EventType = "approval"     // Somebody is asked to approve a call. Fields: Call, Approval.
	EventDecision    EventType = "decision"     // A call that needs approval was approved or denied, by the user, by a rule, or because nobody can answer. Fields: Call, Decision.
	EventQuestion    EventType = "question"     // A tool asks the user, or the model that delegated the task. Fields: Call, Question.
	EventAnswer      EventType = "answer"       // The question was answered, or nobody answered it. Fields: Call, Answer.
	EventToolStart   EventType = "tool_start"   // A tool starts to run, after the approval. Fields: Call.
	EventProgress    EventType = "progress"     // A tool reports its progress with [Progress]. Fields: Call without its arguments, Progress.
	EventOutput      EventType = "output"       // A command prints output. Emitted at most ten times a second; some output may be left out. Fields: Call without its arguments, Chunk.
	EventJobs        EventType = "jobs"         // A background command has started or ended. It follows the call whose result reports that; with a runtime of this package, it comes within about a second during a run. Fields: Jobs, with those that run and the last ones that ended, empty for none.
	EventToolDone    EventType = "tool_done"    // A call has its result. Fields: Call, Output, Messages.
	EventToolSkipped EventType = "tool_skipped" // A call has its result, but its tool did not run. Fields: Call, Tool, Output, Messages.
	EventRetry       EventType = "retry"        // A call of the model failed and is repeated. Text that was streamed in this step is withdrawn. Fields: Retry.
	EventNotice      EventType = "notice"       // Something is worth knowing. Fields: Text.
	EventWarning     EventType = "warning"      // Something differs from what was requested. Fields: Text.
	EventRuntime     EventType = "runtime"      // The runtime reports something. Fields: Runtime, Text.
	EventCompacting  EventType = "compacting"   // The model is summarising the conversation, which takes a while.
	EventKeeping     EventType = "keeping"      // A run or a restore has waited more than a second for a checkpoint. Emitted at most ten times a second while the progress changes, for display only, and perhaps after run_end. Fields: Text, Progress in files and directories.
	EventCompacted   EventType = "compacted"    // The conversation was compacted for the model. Fields: Compaction, Context.
	EventRestored    EventType = "restored"     // The conversation and the files were restored from a checkpoint. Fields: Restored, Text, Context, Messages.
	EventRunEnd      EventType = "run_end"      // The run has ended. Fields: Result.
	EventTask        EventType = "task"         // The state of a background task has changed. Fields: Task, TaskStatus, Text.
)

// MarshalJSON encodes the event. At the end of a run it leaves out of the result
// what the run's last message event said: the message, and the summary if that
// is the message's text.
func (e Event) MarshalJSON() ([]byte, error) {
	type plain Event
	if e.Type == EventRunEnd && e.Result != nil && e.Result.told {
		r := *e.Result
		if r.SummaryIsText() {
			r.Summary = ""
		}
		r.Message = Message{}
		e.Result = &r
	}
	return json.Marshal(plain(e))
}

// RetryInfo describes a model call that is about to be repeated.
type RetryInfo struct {
	Attempt int           `json:"attempt"`                  // the number of the failed attempt, from 1; 0 when the model itself began anew, as [chat.Delta.Withdrawn] says
	Wait    time.Duration `json:"-" seconds:"wait_seconds"` // the pause before the next one
	// Left is how long an overload is still waited out, 0 for no limit.
	// Tries is how many attempts follow at most, 0 where time alone ends them. If it is set,
	// it is what ends them: see [RetryPolicy].
	Left  time.Duration `json:"-" seconds:"left_seconds,omitempty"`
	Tries int           `json:"tries_left,omitempty"`
	Error string        `json:"error"` // why the attempt failed, or why the model began anew
}

// MarshalJSON encodes the pause in seconds.
func (r RetryInfo) MarshalJSON() ([]byte, error) {
	type plain RetryInfo
	return jsonobj.MarshalSeconds(plain(r))
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (r *RetryInfo) UnmarshalJSON(data []byte) error {
	type plain RetryInfo
	return jsonobj.UnmarshalSeconds(data, (*plain)(r))
}

// ErrEventsUsed is the error of ranging a second time over an iterator of
// [Agent.Events], which stands for a single run.
var ErrEventsUsed = errors.New("the events of this run were ranged over already; call Events for another run")

// Events is [Agent.RunUntilStop] as an iterator over the run's events. The run
// advances only when the loop over it asks for the next event, so leaving the
// loop at a tool_call keeps the tool from running. Only deltas are produced
// ahead, and merged. The last event is [EventRunEnd], with the result. An error
// comes after it, with a zero event.
//
// Leaving the loop cancels the run and waits for its end. The body may use the
// agent's runtime, its tasks and its history, but not close the agent. The time
// that the body takes counts: a run whose time limit passes meanwhile ends, and
// the loop still gets its events. An iterator can be used once.
func (a *Agent) Events(ctx context.Context, msg string, opts ...RunOption) iter.Seq2[Event, error] {
	var used atomic.Bool
	return func(yield func(Event, error) bool) {
		if used.Swap(true) {
			yield(Event{}, ErrEventsUsed)
			return
		}
		if ctx == nil {
			yield(Event{}, errNilContext)
			return
		}
		self := safecall.Current()
		err := eventqueue.Drive(ctx, mergeDeltas, func(ctx context.Context, follower *eventqueue.Feed[Event]) error {
			_, err := a.run(ctx, msg, follower, opts)
			return err
		}, func(e Event) bool {
			defer a.calling.Enter(self)()
			return yield(e, nil)
		})
		if err != nil {
			yield(Event{}, err)
		}
	}
}

// isDelta reports whether an event is only for display: a piece of an answer or
// of a command's output, the progress of a call or a pull, or how
// far a call is that the model writes.
func isDelta(e *Event) bool {
	return e.Type == EventText || e.Type == EventReasoning || e.Type == EventCallDelta || e.Type == EventProgress || e.Type == EventOutput || e.Type == EventSaving || e.Type == EventKeeping ||
		e.Type == EventRuntime && e.Runtime.Kind == RuntimePull && e.Runtime.Total > 0
}

// mergeDeltas joins two pieces of the same text. Of progress it keeps the last
// event.
func mergeDeltas(last, next Event) (Event, bool) {
	if last.Type != next.Type || last.Task != next.Task || last.Step != next.Step || last.callID() != next.callID() {
		return last, false
	}
	if next.Type == EventCallDelta && next.CallDelta.Index != last.CallDelta.Index {
		return last, false
	}
	switch next.Type {
	case EventText, EventReasoning:
		next.Text = last.Text + next.Text
	case EventOutput:
		chunk := last.Chunk.then(*next.Chunk)
		next.Chunk = &chunk
	}
	return next, true
}

// callID is the id of the event's call; empty for none.
func (e Event) callID() string {
	if e.Call == nil {
		return ""
	}
	return e.Call.ID
}

// maxChunk is the size of a piece of output, in bytes.
const maxChunk = 4 << 10

// then joins a piece of output with the next one. It leaves out the first one if
// both are too much.
func (c OutputChunk) then(next OutputChunk) OutputChunk {
	if next.Skipped > 0 || len(c.Text)+len(next.Text) > maxChunk {
		next.Skipped += c.Skipped + int64(len(c.Text))
		return next
	}
	c.Text += next.Text
	return c
}

// ProgressInfo is how far a call is.
type ProgressInfo struct {
	Text    string `json:"text,omitempty"`    // what is being done, for people; at most 1 KiB, and cut there
	Current int64  `json:"current,omitempty"` // how much is done, in a unit of the tool's own
	Total   int64  `json:"total,omitempty"`   // how much there is to do; 0 if that is not known
}

// Bounds of the events of [Progress].
const (
	progressEvery = 100 * time.Millisecond
	maxProgress   = 1 << 10 // bytes of text
)

// Progress tells how far the tool call is to which ctx belongs, by an
// [EventProgress]. A tool may call it as often as it likes, from any goroutine:
// at most ten events a second come of it, and the last one comes before the
// call's result. Outside of a tool call of an agent, and after the call, it does
// nothing.
func Progress(ctx context.Context, p ProgressInfo) {
	c := toolCallOf(ctx)
	if c == nil || !c.agent.events.isHeard() {
		return
	}
	to := c.progress.Load()
	if to == nil {
		to = progress.NewThrottle(progressEvery, c.emitProgress)
		if !c.progress.CompareAndSwap(nil, to) {
			to = c.progress.Load()
		}
	}
	p.Text = cut.Head(strings.ToValidUTF8(p.Text, "\uFFFD"), maxProgress)
	to.Put(p)
}

func (c *callContext) emitProgress(p ProgressInfo) {
	c.agent.emit(Event{Type: EventProgress, Step: c.info.Step, Call: c.shortCall(), Progress: &p})
}

// progressOver ignores the progress of a call that is over.
var progressOver = progress.Ended[ProgressInfo]()

// endProgress tells the last progress of a call that is over, also of its
// approval.
func (c *callContext) endProgress() {
	if c.asked != nil {
		c.asked.endProgress()
	}
	if to := c.progress.Swap(progressOver); to != nil {
		to.End()
	}
}

// shortCall is the call without its arguments, which may be long.
func (c *callContext) shortCall() *ToolCall {
	return &ToolCall{ID: c.info.Call.ID, Name: c.info.Call.Name}
}

// withLiveOutput adds an option by which the listeners of an agent are told what
// the command of a call prints.
func withLiveOutput(ctx context.Context, opts ...BashOption) []BashOption {
	c := toolCallOf(ctx)
	if c == nil || !c.agent.events.isHeard() {
		return opts
	}
	return append(opts, BashOutput(func(chunk OutputChunk) {
		c.agent.emit(Event{Type: EventOutput, Step: c.info.Step, Call: c.shortCall(), Chunk: &chunk})
	}))
}

// logEvent logs an event unless it is logged elsewhere: the loop logs its
// retries, the runtime its own events, and the agent of a task what the task
// does. Deltas are not logged.
func (h *eventHub) logEvent(e *Event) {
	ctx := context.Background()
	if e.Task != "" && e.Type != EventTask || !h.calls.log.Enabled(ctx, slog.LevelError) {
		return
	}
	level, text, attrs := logEntry(e)
	if text != "" {
		h.calls.log.LogAttrs(ctx, level, text, append(attrs, slog.String("agent", h.agent))...)
	}
}

// logEntry returns what the log says about an event; the text is empty for
// events that are not logged.
func logEntry(e *Event) (level slog.Level, text string, attrs []slog.Attr) {
	switch e.Type {
	case EventStep:
		return slog.LevelDebug, "step", []slog.Attr{slog.Int("step", e.Step)}
	case EventMessage:
		return slog.LevelDebug, "answer", []slog.Attr{slog.Int("calls", len(e.Message.ToolCalls)), tokensInLog(e.Usage)}
	case EventToolCall:
		return slog.LevelDebug, "tool call", []slog.Attr{slog.String("tool", e.Call.Name), slog.String("call", cut.Head(summaryOf(*e), loggedCall))}
	case EventDecision:
		return slog.LevelDebug, "decision", []slog.Attr{slog.String("tool", e.Call.Name), slog.Bool("allowed", e.Decision.Allow), slog.String("by", e.Decision.By)}
	case EventToolDone:
		return slog.LevelDebug, "tool done", []slog.Attr{slog.String("tool", e.Call.Name), slog.String("outcome", string(e.Output.Outcome)), slog.Int("bytes", len(e.Output.Content))}
	case EventToolSkipped:
		return slog.LevelDebug, "tool call not run", []slog.Attr{slog.String("tool", e.Call.Name), slog.String("why", cut.Head(e.Output.Content, loggedCall))}
	case EventJobs:
		return slog.LevelDebug, "jobs", []slog.Attr{slog.Int("running", len(runningJobs(e.Jobs)))}
	case EventCompacted:
		return slog.LevelInfo, e.Compaction.String(), nil
	case EventNotice, EventRestored:
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

// eventHub numbers the events of an agent, keeps its [State] by them, and hands them to
// whoever listens.
type eventHub struct {
	agent     string // the agent's id, for the log
	calls     *callbacks
	interrupt func(cause error)       // the run that goes on, if any
	always    *eventqueue.Feed[Event] // of the agent's own handler; nil for none
	replay    *eventqueue.Replay[Event]

	mu      sync.Mutex // guards the fields below, and keeps the numbers rising in every feed
	seq     int64
	state   State                     // what events tell of it
	faces   []*eventqueue.Feed[Event] // of those that follow the agent
	run     []*eventqueue.Feed[Event] // of the run that goes on
	ctx     context.Context           // of that run; nil for none
	release []func()                  // lets go of the feeds that the run holds
}

// open makes the hub ready. It is called once, before the first event.
func (h *eventHub) open(handler func(Event)) {
	h.replay = eventqueue.NewReplay(keptBefore, keptBytesBefore, mergeDeltas, sizeOf)
	h.state.Since = time.Now()
	h.always = h.handlerFeed(handler)
}

// listen adds feeds for the events of the run that begins. Nil feeds are left
// out.
func (h *eventHub) listen(ctx context.Context, feeds ...*eventqueue.Feed[Event]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.run, h.ctx = nil, ctx
	for _, f := range feeds {
		if f != nil {
			h.run = append(h.run, f)
			h.release = append(h.release, f.Hold())
		}
	}
	if h.always != nil {
		h.release = append(h.release, h.always.Hold())
	}
}

// endListening removes the feeds of the run.
func (h *eventHub) endListening() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, release := range h.release {
		release()
	}
	h.run, h.ctx, h.release = nil, nil, nil
}

// follow calls f with each event until end is called; see [FaceSession.Follow].
func (h *eventHub) follow(f func(Event)) (before *RuntimeEvent, end func()) {
	events := h.handlerFeed(f)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faces = append(slices.Clip(h.faces), events)
	return h.state.Runtime, func() {
		h.mu.Lock()
		h.faces = slices.DeleteFunc(slices.Clone(h.faces), func(f *eventqueue.Feed[Event]) bool { return f == events })
		h.mu.Unlock()
		<-events.Handled()
	}
}

// handlerFeed returns a feed for an event handler that the caller gave, or nil
// for none. A handler that panics ends the current run.
func (h *eventHub) handlerFeed(f func(Event)) *eventqueue.Feed[Event] {
	if f == nil {
		return nil
	}
	var self safecall.Goroutine // of the feed's goroutine, which alone uses it
	events := eventqueue.New(func(e Event) {
		defer h.calls.enterAs(&h.calls.handling, self, "an event handler")()
		safecall.Call(func() { f(e) }, func(err error) {
			h.calls.logPanic("event handler", err)
			h.interrupt(fmt.Errorf("%w: %w", errHandler, err))
		})
	}, mergeDeltas)
	events.Begin(func() { self = safecall.Current() })
	return events
}

// errHandler is the cause of the end of a run whose event handler panicked.
var errHandler = errors.New("the event handler")

// emit is the agent's eventHub.emit.
func (a *Agent) emit(e Event) []<-chan struct{} { return a.events.emit(e) }

// emit completes an event and hands it to every listener without waiting. Each
// channel it returns is closed when a listener has handled the event.
func (h *eventHub) emit(e Event) []<-chan struct{} {
	h.logEvent(&e)
	h.mu.Lock()
	defer h.mu.Unlock()
	if bridge.Reassigned(h.ctx) != nil {
		return nil
	}
	h.seq++
	e.Seq, e.Time = h.seq, time.Now()
	if e.Call != nil {
		call := *e.Call // events are kept, and with them must not be the call's context, which leads to all of its run
		e.Call = &call
	}
	h.state.update(&e)
	delta := isDelta(&e)
	if delta {
		h.replay.Offer(e.Seq, e)
	} else {
		h.replay.Put(e.Seq, e)
	}
	if h.always == nil && len(h.faces)+len(h.run) == 0 {
		return nil
	}
	var handled []<-chan struct{}
	for _, f := range append(slices.Concat(h.run, h.faces), h.always) {
		switch {
		case f == nil:
		case delta:
			f.Offer(e)
		default:
			handled = append(handled, f.Put(e))
		}
	}
	if e.Type == EventRunEnd && e.Task == "" {
		h.run = nil // tasks may go on, but the run's listeners have heard its last event
	}
	return handled
}

// setJobs is for jobs of which nobody has to be told by an event.
func (h *eventHub) setJobs(jobs []Job) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state.Jobs, h.state.JobsAt = slices.Clone(jobs), time.Now()
}

// isHeard reports whether anybody gets the events.
func (h *eventHub) isHeard() bool {
	if h.replay.Wanted() {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.always != nil || len(h.faces)+len(h.run) > 0 || h.calls.log.Enabled(context.Background(), slog.LevelDebug)
}

// awaitHandled waits until the agent's own handler has seen all events so far,
// or ctx ends.
func (h *eventHub) awaitHandled(ctx context.Context) {
	if h.always == nil {
		return
	}
	select {
	case <-h.always.Handled():
	case <-ctx.Done():
	}
}

// startupNotices are what New has told of, for the sessions that begin later.
type startupNotices struct {
	events *eventHub
	texts  []string
}

// add emits a notice while the agent is made, and keeps it.
func (n *startupNotices) add(text string) {
	n.texts = append(n.texts, text)
	n.events.emit(Event{Type: EventNotice, Text: text})
}

// ErrEventsGone is the error of [Agent.Subscribe] when events that were asked
// for are no longer kept.
var ErrEventsGone = eventqueue.ErrGone

// How many events an agent keeps for subscribers, and how many bytes of them.
// The events share what they hold with the history. As long as nobody has
// subscribed, few are kept: enough for a program that subscribes to a new agent.
const (
	keptBefore, keptBytesBefore = 64, 64 << 10
	keptEvents, keptBytes       = 1000, 1 << 20
)

// Subscribe returns an iterator over the agent's events with numbers above
// after: first those that are kept, then all that come, in runs and between
// them, until ctx ends or the agent is closed. Neither is an error. With 0 it
// begins with the agent's first event, and with [State.Seq] after that state.
//
// An agent keeps its last events, up to 1,000 and 1 MiB from the first Subscribe
// on, and the last 64 before. When some that are asked for are gone, the
// iterator yields [ErrEventsGone] and stops; then read the history and the
// state, and subscribe from there. Deltas are for those who listen when they
// come: they are not kept, and a message holds all of their text.
//
// The events of the agent's tasks, and of theirs, come too, with [Event.Task] set.
//
// The agent never waits for a subscriber, who may therefore do anything in the
// loop, also close the agent. A slow one first loses deltas, and gets
// ErrEventsGone when it is too far behind. There may be many at once.
func (a *Agent) Subscribe(ctx context.Context, after int64) iter.Seq2[Event, error] {
	if ctx == nil {
		return func(yield func(Event, error) bool) { yield(Event{}, errNilContext) }
	}
	a.events.replay.Grow(keptEvents, keptBytes)
	return a.events.replay.Follow(ctx, after)
}

// Activity is what an agent does at a time.
type Activity string

// What an agent does.
const (
	ActivityIdle     Activity = "idle"     // no run goes on, and no [Agent.Compact]
	ActivityModel    Activity = "model"    // the model is asked, or is about to be
	ActivityTool     Activity = "tool"     // a tool runs
	ActivityApproval Activity = "approval" // somebody is asked whether a call may run
)

// State is what an agent does at a moment.
type State struct {
	Activity Activity  `json:"activity"`
	Since    time.Time `json:"since"`             // when the activity began
	Step     int       `json:"step,omitempty"`    // of the run that goes on
	Call     *ToolCall `json:"call,omitempty"`    // the call that runs or is asked about
	Seq      int64     `json:"seq"`               // the number of the last event before
	Messages int       `json:"messages"`          // as in events: the length of the history without the system message
	Unheard  []Said    `json:"unheard,omitempty"` // what was said and is not heard yet, in order
	Settings Settings  `json:"settings"`

	// Jobs are the commands in the background as the runtime told of them at JobsAt. It
	// is asked by [Agent.Jobs], and during a run with listeners after calls and, in a
	// runtime of this package, each second while one runs; nobody asks between runs. One
	// that ran at JobsAt may have ended since. A zero JobsAt means that nobody has asked.
	Jobs   []Job     `json:"jobs,omitempty"`
	JobsAt time.Time `json:"jobs_at,omitzero"`

	Context ContextUse `json:"context,omitzero"` // after the last answer or compaction

	// Runtime is what the runtime reported last, such as how far a pull is that began
	// before anybody listened; nil for nothing.
	Runtime *RuntimeEvent `json:"runtime,omitempty"`
}

// State returns what the agent does now. It does not wait for anything, so that it
// does not ask the runtime: see [State.Jobs].
//
// A face that comes later calls State first, then reads the history, shows both,
// and subscribes from [State.Seq]. Messages that were added meanwhile are in the
// history already, and come again as events: [Event.Messages] tells.
func (a *Agent) State() State {
	s := a.events.current(a.history.MessageCount)
	// Both are read after the number, so that no event is missed: one that comes
	// meanwhile is told again to those who subscribe from there.
	s.Unheard, s.Settings = a.unheard.list(), a.settings.current()
	return s
}

// current returns the state as far as events tell of it. messages counts those of the
// history.
func (h *eventHub) current(messages func() int) State {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.state
	s.Seq, s.Messages = h.seq, messages()
	s.Jobs = slices.Clone(s.Jobs)
	s.Activity = cmp.Or(s.Activity, ActivityIdle)
	return s
}

// update follows the agent's activity by its events.
func (s *State) update(e *Event) {
	step := e.Step
	var now Activity
	var call *ToolCall
	switch {
	case e.Task != "":
		return
	case e.Type == EventJobs:
		s.Jobs, s.JobsAt = e.Jobs, e.Time
		return
	case e.Type == EventRuntime:
		s.Runtime = e.Runtime
		return
	case e.Type == EventMessage, e.Type == EventCompacted, e.Type == EventRestored:
		s.Context = e.Context
		return
	case e.Type == EventRunEnd:
		now, step = ActivityIdle, 0
	case e.Type == EventToolCall || e.Type == EventDecision || e.Type == EventToolStart:
		now, call = ActivityTool, e.Call
	case e.Type == EventApproval:
		now, call = ActivityApproval, e.Call
	case e.Type == EventUser || e.Type == EventStep || e.Type == EventModelStart || e.Type == EventCompacting || e.Type == EventToolDone || e.Type == EventToolSkipped:
		now = ActivityModel
	default:
		return
	}
	if now != s.Activity || call != s.Call {
		s.Since = e.Time
	}
	s.Activity, s.Call, s.Step = now, call, step
}

// setIdle is for the end of what is no run, and so has no event for it.
func (h *eventHub) setIdle() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state.Activity != ActivityIdle {
		h.state.Activity, h.state.Since = ActivityIdle, time.Now()
	}
}

// sizeOf estimates the bytes that an event holds.
func sizeOf(e Event) int {
	n := 256 + len(e.Text)
	if e.Message != nil {
		n += sizeOfMessage(*e.Message)
	}
	if e.Call != nil {
		n += len(e.Call.Arguments)
	}
	if e.Tool != nil {
		n += sizeOfTool(*e.Tool)
	}
	if e.Output != nil {
		n += sizeOfResult(e.Output)
	}
	if e.Approval != nil {
		n += sizeOfApproval(*e.Approval)
	}
	if e.Decision != nil {
		n += len(e.Decision.Reason) + len(e.Decision.Arguments)
	}
	if e.Question != nil {
		n += sizeOfQuestion(*e.Question)
	}
	if e.Answer != nil {
		n += len(e.Answer.Text) + len(e.Answer.Values)
	}
	if e.Progress != nil {
		n += len(e.Progress.Text)
	}
	if e.Compaction != nil {
		n += len(e.Compaction.Summary)
	}
	if e.Chunk != nil {
		n += len(e.Chunk.Text)
	}
	if e.Result != nil {
		n += sizeOfEnd(*e.Result)
	}
	if e.TaskStatus != nil {
		n += sizeOfTask(*e.TaskStatus)
	}
	if e.Restored != nil {
		n += sizeOfRestored(*e.Restored)
	}
	for _, j := range e.Jobs {
		n += len(j.Command)
	}
	for _, s := range e.Unheard {
		n += sizeOfMessage(s.Message)
	}
	if e.Settings != nil {
		n += 32 * (len(e.Settings.Tools) + len(e.Settings.Disabled) + len(e.Settings.Unoffered))
	}
	return n
}

func sizeOfTool(t ToolInfo) int { return len(t.Description) + len(t.Summary) }

func sizeOfApproval(r ApprovalRequest) int {
	return len(r.Call.Arguments) + sizeOfTool(r.Tool) + sizeOfChanges(r.Changes)
}

func sizeOfQuestion(q Question) int {
	n := len(q.Prompt) + len(q.Schema)
	for _, o := range q.Options {
		n += len(o)
	}
	return n
}

func sizeOfEnd(r Result) int {
	n := len(r.Reason) + len(r.Summary) + len(r.NoCommand) + sizeOfMessage(r.Message)
	if r.APIError != nil {
		n += len(r.APIError.Message)
	}
	if r.Question != nil {
		n += sizeOfQuestion(*r.Question)
	}
	return n
}

func sizeOfTask(s TaskStatus) int {
	n := len(s.Prompt) + len(s.Reason) + len(s.Persona.Description)
	for _, p := range s.Approvals {
		n += sizeOfApproval(p.Request)
	}
	if s.Asked != nil {
		n += len(s.Asked.Request.From.Call.Arguments) + sizeOfQuestion(s.Asked.Request.Question)
	}
	if s.Result != nil {
		n += sizeOfEnd(*s.Result)
	}
	if s.Left != nil {
		n += len(s.Left.Call) + len(s.Left.Outcome)
		for _, f := range s.Left.Files {
			n += 64 + len(f.Path)
		}
	}
	if s.LastEvent != nil {
		n += sizeOf(*s.LastEvent)
	}
	return n
}

func sizeOfResult(r *ToolResult) int {
	n := len(r.Content) + len(r.Display) + len(r.Value) + len(r.Summary) + sizeOfChanges(r.Changes)
	if r.Question != nil {
		n += sizeOfQuestion(*r.Question)
	}
	n += sizeOfMessage(Message{Parts: r.Files})
	for _, url := range r.Images {
		n += len(url)
	}
	if r.Bash != nil {
		n += len(r.Bash.Command) + len(r.Bash.Output) + len(r.Bash.Job)
	}
	return n
}

func sizeOfChanges(changes []FileChange) (n int) {
	for _, c := range changes {
		n += len(c.Before) + len(c.After)
	}
	return n
}

func sizeOfRestored(r Restored) int {
	n := sizeOfChanges(r.Changed) + len(r.NoFiles)
	if r.Message != nil {
		n += sizeOfMessage(*r.Message)
	}
	for _, name := range slices.Concat(r.Unsure, r.Repositories) {
		n += len(name)
	}
	for _, k := range r.Kept {
		n += len(k.Path) + len(k.Why) + len(k.Aside)
	}
	for _, c := range []Checkpoint{r.To, r.From} {
		n += len(c.Message) + len(c.Commit)
		for _, l := range c.LeftOut {
			n += len(l)
		}
	}
	return n
}

func sizeOfMessage(m Message) int {
	n := len(m.Content)
	for _, p := range m.Parts {
		n += len(p.Text) + len(p.ImageURL) + len(p.FileName) + len(p.FileURL) + len(p.AudioURL)
	}
	for _, c := range m.ToolCalls {
		n += len(c.Arguments)
	}
	for _, v := range m.Extra {
		n += len(v)
	}
	return n
}

// hear appends a message in the user's role, and emits its event.
func (r *run) hear(msg Message, source chat.Source) error { return r.hearSaid(msg, source, "") }

// hearSaid is hear for a message that Say may have queued under an id.
func (r *run) hearSaid(msg Message, source chat.Source, id string) error {
	if source == chat.SourceUser {
		r.judgeHears(msg)
	}
	return r.appendEntry(chat.HistoryEntry{Message: msg, Source: source}, func() Event {
		e := Event{Type: EventUser, Text: msg.Text(), Source: source, ID: id}
		if source == chat.SourceUser && len(msg.Parts) > 0 {
			e.Message = &msg
		}
		return e
	})
}

// emit reports an event of the run and waits until every listener has handled
// it, or the time of the step is over. This keeps the run in step with its
// followers.
func (r *run) emit(e Event) { eventqueue.Await(r.agent.emit(e), r.patience) }

// emitLast reports the end of the run. It waits for the listeners, but not
// longer than [safecall.Grace] once the run's time is over.
func (r *run) emitLast(e Event) {
	handled := r.agent.emit(e)
	if eventqueue.Await(handled, r.patience) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), safecall.Grace)
	defer cancel()
	eventqueue.Await(handled, ctx.Done())
}
