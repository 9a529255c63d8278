package pygent

import "time"

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
