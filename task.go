package pygent

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/x/pygent/internal/crew"
)

// Errors of tasks, to be tested with errors.Is.
var (
	// ErrUnknownTask is returned for an id that no task has.
	ErrUnknownTask = crew.ErrUnknown
	// ErrTaskExists is returned when a task with the same id and another prompt exists.
	ErrTaskExists = errors.New("another task has this id")
	// ErrTooManyTasks is returned when as many tasks run as may run at once.
	ErrTooManyTasks = crew.ErrNoRoom
	// ErrTaskDepth is returned when an agent may not delegate because it works on
	// a task itself.
	ErrTaskDepth = errors.New("an agent that works on a task may not delegate here")
	// ErrTaskRunning is returned for what can only be done to a task at rest.
	ErrTaskRunning = crew.ErrRunning
	// ErrTaskManagerClosed is returned by a manager after Close.
	ErrTaskManagerClosed = crew.ErrClosed
)

// TaskState is where a task is in its life.
type TaskState string

// The states of a task. The first two are those of a task at work; in all
// others it rests, and a message sets it going again.
const (
	TaskQueued       TaskState = "queued"        // waits for room
	TaskRunning      TaskState = "running"       // its agent works
	TaskAwaitingUser TaskState = "awaiting_user" // its agent asked a question
	TaskFinished     TaskState = "finished"      // its agent said it is done
	TaskTimedOut     TaskState = "timed_out"     // a step, or the whole, took too long
	TaskCancelled    TaskState = "cancelled"     // by Cancel, Close, or the end of its parent
	TaskFailed       TaskState = "failed"        // an error, or a limit other than time
)

// AtRest reports whether nothing happens to the task by itself any more.
func (s TaskState) AtRest() bool { return s != TaskQueued && s != TaskRunning }

// TaskStatus is what is known of a task at one moment. It is a value: later
// changes of the task do not show in it.
type TaskStatus struct {
	ID      string    `json:"id"`
	Parent  string    `json:"parent,omitempty"` // the id of the agent that delegated it
	State   TaskState `json:"state"`
	Reason  string    `json:"reason,omitempty"` // the state in words, where there is more to say
	Prompt  string    `json:"prompt"`
	Persona Persona   `json:"persona,omitzero"`
	Depth   int       `json:"depth"` // 1 for a task of an agent that is no task itself

	Created time.Time `json:"created"`
	Started time.Time `json:"started,omitzero"` // of the last run
	Ended   time.Time `json:"ended,omitzero"`   // of the last run; zero while it goes on

	Runs      int           `json:"runs"` // how often it was set going; messages do so again
	Steps     int           `json:"steps"`
	ToolCalls int           `json:"tool_calls"`
	Usage     Usage         `json:"usage"`
	Timeout   time.Duration `json:"-"`                // the limit that was reached, when timed out; in JSON timeout_seconds
	Result    *Result       `json:"result,omitempty"` // of the last run; nil when it has none
	LastEvent *Event        `json:"last_event,omitempty"`
	Seq       int64         `json:"seq"` // the number of the task's last event
}

// String is the state in words, in one line: "running", "finished", "timeout
// after 30s", "error: no such model".
func (s TaskStatus) String() string {
	switch s.State {
	case TaskTimedOut:
		return "timeout after " + s.Timeout.String()
	case TaskFailed:
		line, _, _ := strings.Cut(s.Reason, "\n")
		return "error: " + line
	case TaskAwaitingUser:
		return "awaiting user"
	}
	return string(s.State)
}

// Question is what the task's agent asks, or nil.
func (s TaskStatus) Question() *Question {
	if s.State != TaskAwaitingUser || s.Result == nil {
		return nil
	}
	return s.Result.Question
}

// Summary is what the task's agent said last, or empty.
func (s TaskStatus) Summary() string {
	if s.Result == nil {
		return ""
	}
	return s.Result.Summary
}

// Elapsed is how long the last run took, or takes until now.
func (s TaskStatus) Elapsed(now time.Time) time.Duration {
	switch {
	case s.Started.IsZero():
		return 0
	case s.Ended.IsZero():
		return now.Sub(s.Started)
	}
	return s.Ended.Sub(s.Started)
}

// taskError names the task in an error.
func taskError(id string, err error) error {
	if err == nil {
		return nil
	}
	return &errorOfTask{id: id, err: err}
}

// errorOfTask is an error that a task had, or that its runtime had: whoever asks
// about the task may be fine.
type errorOfTask struct {
	id  string
	err error
}

// Error names the task.
func (e *errorOfTask) Error() string { return fmt.Sprintf("task %s: %v", e.id, e.err) }

// Unwrap returns the cause.
func (e *errorOfTask) Unwrap() error { return e.err }
