package pygent

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/eventqueue"
	"github.com/x/pygent/internal/safecall"
)

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
	return r.keep(chat.HistoryEntry{Message: msg, Source: source}, func() Event {
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
