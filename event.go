package pygent

import (
	"sync"
	"time"
)

// Event is something that happened in an agent. Its JSON is what
// `pygent run --json` prints, one object a line.
//
// Only the fields that Type calls for are set. Text and reasoning deltas are
// lossy: they are for display, and the message event that follows holds all.
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
	EventStep      EventType = "step"      // a step begins: Step
	EventText      EventType = "text"      // the model writes: Text
	EventReasoning EventType = "reasoning" // the model thinks aloud: Text
	EventMessage   EventType = "message"   // the model's message is complete: Message, Usage
	EventToolCall  EventType = "tool_call" // a tool is about to run: Call
	EventToolDone  EventType = "tool_done" // a call has its result: Call, Output
	EventRetry     EventType = "retry"     // the model call failed and is repeated; text streamed in this step is withdrawn: Retry
	EventNotice    EventType = "notice"    // worth knowing: Text
	EventWarning   EventType = "warning"   // something is not as asked for: Text
	EventRuntime   EventType = "runtime"   // the runtime tells something: Runtime, Text
	EventRunEnd    EventType = "run_end"   // the run is over: Result
	EventTask      EventType = "task"      // a background task changed its state: Task, TaskStatus, Text
	EventApproval  EventType = "approval"  // a background task asks whether a call may run: Task, Call
)

// RetryInfo describes a model call that is about to be repeated.
type RetryInfo struct {
	Attempt int           `json:"attempt"` // the number of the failed attempt, from 1
	Wait    time.Duration `json:"wait"`    // the pause before the next one
	Error   string        `json:"error"`   // why the attempt failed
}

// bothHandlers joins two event handlers, either of which may be nil.
func bothHandlers(f, g func(Event)) func(Event) {
	switch {
	case f == nil:
		return g
	case g == nil:
		return f
	}
	return func(e Event) { f(e); g(e) }
}

// maxQueuedDeltas is how many events may wait in a queue before deltas, which
// are lossy, are dropped.
const maxQueuedDeltas = 4096

// eventQueue hands events from a run to a consumer. put never blocks, so that
// a consumer may use the agent's runtime while it handles an event.
type eventQueue struct {
	mu     sync.Mutex
	ready  sync.Cond
	events []Event
	closed bool
}

func newEventQueue() *eventQueue {
	q := &eventQueue{}
	q.ready.L = &q.mu
	return q
}

func (q *eventQueue) put(e Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.events) >= maxQueuedDeltas && (e.Type == EventText || e.Type == EventReasoning) {
		return
	}
	q.events = append(q.events, e)
	q.ready.Signal()
}

// take waits for the next event; ok is false when the queue is closed and empty.
func (q *eventQueue) take() (e Event, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.events) == 0 && !q.closed {
		q.ready.Wait()
	}
	if len(q.events) == 0 {
		return Event{}, false
	}
	e, q.events = q.events[0], q.events[1:]
	return e, true
}

func (q *eventQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.ready.Broadcast()
}

// drain waits until the queue is closed, throwing away what comes.
func (q *eventQueue) drain() {
	for {
		if _, ok := q.take(); !ok {
			return
		}
	}
}
