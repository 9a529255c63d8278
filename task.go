package pygent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent/internal/crew"
	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/notices"
)

// Errors of tasks, to be tested with errors.Is.
var (
	// ErrUnknownTask is returned for an id that no task has.
	ErrUnknownTask = crew.ErrUnknown
	// ErrTaskExists is returned when the id is that of a task that another request started.
	ErrTaskExists = errors.New("another task has this id")
	// ErrTooManyTasks is returned when as many tasks run as may run at once.
	ErrTooManyTasks = crew.ErrNoRoom
	// ErrTaskDepth is returned when an agent that works on a task tries to
	// delegate and may not.
	ErrTaskDepth = errors.New("an agent that works on a task may not delegate here")
	// ErrNotAsked is returned for a decision about a call, or an answer to one, that
	// does not wait for it: it never did, or somebody was faster, or the question was
	// withdrawn.
	ErrNotAsked = errors.New("the call does not wait for a decision or an answer")
	// ErrTaskBusy is returned when as many messages wait for a task as may.
	ErrTaskBusy = crew.ErrMailFull
	// ErrTaskRunning is returned for an operation that requires a task at rest.
	ErrTaskRunning = crew.ErrRunning
	// ErrTaskManagerClosed is returned by a manager after Close.
	ErrTaskManagerClosed = crew.ErrClosed
)

// TaskState is where a task is in its life.
type TaskState string

// The states of a task. In the first two the task is at work; in all others it
// is at rest, until a message starts it again.
const (
	TaskQueued       TaskState = "queued"        // waits for room
	TaskRunning      TaskState = "running"       // its agent works
	TaskAwaitingUser TaskState = "awaiting_user" // its agent asked a question
	TaskFinished     TaskState = "finished"      // its agent said it is done
	TaskTimedOut     TaskState = "timed_out"     // a step, or the whole task, took too long
	TaskCancelled    TaskState = "cancelled"     // by Cancel, Close, or the end of its parent
	TaskFailed       TaskState = "failed"        // an error, or a limit other than time
)

// AtRest reports whether the task's state changes only from outside, as by a
// message.
func (s TaskState) AtRest() bool { return s != TaskQueued && s != TaskRunning }

// TaskStatus is the status of a task at one moment. It is a value: later
// changes of the task do not affect it.
type TaskStatus struct {
	ID      string    `json:"id"`
	Parent  string    `json:"parent,omitempty"` // the id of the agent that delegated it
	Root    string    `json:"root,omitempty"`   // the id of the agent at the top, whose task or task's task it is
	Call    string    `json:"call,omitempty"`   // the id of the tool call of the parent that delegated it
	State   TaskState `json:"state"`
	Reason  string    `json:"reason,omitempty"` // the state in words, if there is more to say
	Prompt  string    `json:"prompt"`
	Persona Persona   `json:"persona,omitzero"`
	Depth   int       `json:"depth"` // 1 for a task of an agent that does not work on a task itself

	Created time.Time `json:"created"`
	Started time.Time `json:"started,omitzero"` // of the last run
	Ended   time.Time `json:"ended,omitzero"`   // of the last run; zero while it goes on

	Input     int64         `json:"input,omitempty"`   // the number of the message that the task took up last: see Send; 0 for its prompt
	Waiting   int           `json:"waiting,omitempty"` // how many messages wait until it rests
	Runs      int           `json:"runs"`              // how often it was started, by messages too
	Steps     int           `json:"steps"`
	ToolCalls int           `json:"tool_calls"`
	Usage     Usage         `json:"usage"`
	Timeout   time.Duration `json:"-"`                // the limit that was reached, when timed out; timeout_seconds in JSON
	Result    *Result       `json:"result,omitempty"` // of the last run; nil when it has none
	Left      *TaskLeft     `json:"left,omitempty"`   // the files that the task changed, and what the last run left that did not finish; nil for neither
	LastEvent *Event        `json:"last_event,omitempty"`
	Seq       int64         `json:"seq"` // the number of the task's last event

	Approvals []PendingApproval `json:"approvals,omitempty"` // the calls that wait for a decision, the oldest first
	Asked     *PendingQuestion  `json:"asked,omitempty"`     // the question of a tool that waits for an answer; nil for none

	err error // of the run that failed
}

// String is the state in words, in one line: "running", "finished", "timeout
// after 30s", "error: no such model".
func (s TaskStatus) String() string {
	switch s.State {
	case TaskTimedOut:
		return "timeout after " + s.Timeout.String()
	case TaskFailed:
		line, _, _ := strings.Cut(notices.Lines(s.Reason), "\n")
		return "error: " + line
	case TaskAwaitingUser:
		return "awaiting user"
	}
	return string(s.State)
}

// Question is what the task's agent asks at its end, or nil: [TaskManager.Send]
// answers it. What a tool asks meanwhile is in Asked.
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

// TaskFilter chooses some of a manager's tasks. Fields that are set apply
// together; the zero value chooses all tasks.
type TaskFilter struct {
	Parent string      `json:"parent,omitempty"` // those that the agent or task with this id delegated
	Root   string      `json:"root,omitempty"`   // those below the agent with this id, at any depth
	States []TaskState `json:"states,omitempty"` // those in one of these states
	After  string      `json:"after,omitempty"`  // those younger than the task with this id, such as the last of the page before
	Limit  int         `json:"limit,omitempty"`  // at most so many; 0 means all
}

// choose applies the filter to tasks that are in the order of their age.
func (f TaskFilter) choose(all []TaskStatus) ([]TaskStatus, error) {
	if f.Limit < 0 {
		return nil, fmt.Errorf("the limit %d is negative", f.Limit)
	}
	if f.After != "" {
		at := slices.IndexFunc(all, func(s TaskStatus) bool { return s.ID == f.After })
		if at < 0 {
			return nil, taskError(f.After, ErrUnknownTask)
		}
		all = all[at+1:]
	}
	all = slices.DeleteFunc(all, func(s TaskStatus) bool {
		return f.Parent != "" && s.Parent != f.Parent || f.Root != "" && s.Root != f.Root ||
			len(f.States) > 0 && !slices.Contains(f.States, s.State)
	})
	if f.Limit > 0 && len(all) > f.Limit {
		all = all[:f.Limit]
	}
	return all, nil
}

// CollectedFile tells what [TaskManager.CollectFile] copied.
type CollectedFile struct {
	Path  string `json:"path"`  // where the copy is in the runtime that got it
	Files int    `json:"files"` // how many files and symbolic links were written
	// Replaced is how many files and symbolic links were there before and are not
	// any more, even if their content is the same. It is -1 for a runtime of the
	// caller's own, which does not tell.
	Replaced int       `json:"replaced"`
	Bytes    int64     `json:"bytes"`          // how much data was copied, without the holes of sparse files
	AsOf     time.Time `json:"as_of"`          // whose state the copy shows; later changes are not in it
	Live     bool      `json:"live,omitempty"` // the task was at work, so the files may have changed meanwhile
}

// errTaskTimeout is the cause of the end of a task's context at its time limit.
var errTaskTimeout = errors.New("the task took too long")

// taskCancelled is the cause of the end of a cancelled task's context.
type taskCancelled struct{ reason string }

// Error says why the task was cancelled.
func (c *taskCancelled) Error() string { return cmp.Or(c.reason, "the task was cancelled") }

// end derives the state from the end of a run: from its result, its limits, the
// cause of its context's end, and its error.
func (s *TaskStatus) end(limits Limits, cause, err error) {
	var cancelled *taskCancelled
	result := cmp.Or(s.Result, &Result{})
	switch {
	case result.Status == StatusStopped || result.Status == StatusReplied:
		s.State, s.Reason = TaskFinished, result.Reason
	case result.Status == StatusAwaitingUser:
		s.State = TaskAwaitingUser
	case errors.Is(cause, errTaskTimeout):
		s.State, s.Timeout = TaskTimedOut, limits.MaxTime
		s.Reason = fmt.Sprintf("the task took longer than %s", s.Timeout)
	case errors.As(cause, &cancelled):
		s.State, s.Reason = TaskCancelled, cancelled.Error()
	case result.Status == StatusTimeout:
		s.State, s.Timeout, s.Reason = TaskTimedOut, limits.StepTimeout, result.Reason
	case err != nil:
		s.fail(err)
	default:
		s.State, s.Reason = TaskFailed, cmp.Or(result.Reason, string(result.Status))
	}
}

// apply updates the status with the next event of the task. A status is what the
// task's events say, apart from the messages that wait.
func (s *TaskStatus) apply(e Event) {
	s.Seq = e.Seq
	switch e.Type {
	case EventTask:
		last := s.LastEvent
		*s = *e.TaskStatus
		s.LastEvent = last
		return
	case EventText, EventReasoning, EventCallDelta, EventProgress, EventOutput, EventKeeping:
		return
	case EventStep:
		s.Steps++
	case EventToolCall:
		s.ToolCalls++
	case EventMessage:
		if e.Usage != nil {
			s.Usage = s.Usage.Add(*e.Usage)
		}
	case EventApproval:
		s.withdraw(e.Call.ID)
		if e.Approval.AsksManager {
			s.Approvals = append(s.Approvals, PendingApproval{Request: *e.Approval, Seq: e.Seq, Since: e.Time})
		}
	case EventDecision, EventToolDone:
		s.withdraw(e.Call.ID)
	case EventQuestion:
		from := CallInfo{Agent: s.ID, Task: s.ID, Step: e.Step, Call: *e.Call}
		s.Asked = &PendingQuestion{Request: AskRequest{Question: *e.Question, From: from}, Seq: e.Seq, Since: e.Time}
	case EventAnswer:
		s.Asked = nil
	}
	s.LastEvent = &e
}

// cancel sets the state of a cancelled task.
func (s *TaskStatus) cancel(reason string) {
	s.State, s.Reason, s.Ended = TaskCancelled, reason, time.Now()
}

// fail sets the state of a task that an error ended.
func (s *TaskStatus) fail(err error) { s.State, s.Reason, s.err = TaskFailed, err.Error(), err }

// renew begins a further run: it clears what belongs to the one before.
func (s *TaskStatus) renew(state TaskState) {
	s.State, s.Reason, s.Timeout, s.Result, s.Left, s.err = state, "", 0, nil, nil, nil
	s.Started, s.Ended = time.Time{}, time.Time{}
}

// MarshalJSON encodes the timeout in seconds.
func (s TaskStatus) MarshalJSON() ([]byte, error) {
	type plain TaskStatus
	return json.Marshal(struct {
		plain
		Timeout jsonobj.Seconds `json:"timeout_seconds,omitempty"`
	}{plain(s), jsonobj.Seconds(s.Timeout)})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (s *TaskStatus) UnmarshalJSON(data []byte) error {
	type plain TaskStatus
	in := struct {
		*plain
		Timeout *jsonobj.Seconds `json:"timeout_seconds"`
	}{(*plain)(s), (*jsonobj.Seconds)(&s.Timeout)}
	return json.Unmarshal(data, &in)
}

// TaskOption adjusts one task.
type TaskOption func(*taskOptions)

type taskOptions struct {
	taskRequest
	id      string
	private []TaskProfile // for this task only
	call    *callContext  // the tool call by which an agent delegates the task; nil for none
	err     error         // of an invalid option
}

// taskRequest is the part of a request for a task that can be compared. It
// leaves out functions, models given as values, and the parent's runtime.
type taskRequest struct {
	parent  string // the id of the agent that delegates
	prompt  string
	parts   []Part
	files   []string
	persona *Persona
	name    string // of a persona
	model   string
	profile string
	limits  Limits
	depth   int // how deep the task and those below it may delegate; 0 is the default
	queue   bool
}

// WithTaskID sets the task's id, 1 to 64 letters, digits, dots, dashes or
// underscores. Starting a task again by the same request has no effect; a
// different request with its id is refused with [ErrTaskExists]. Requests are
// the same if parent agent, prompt and options are; functions and models given
// as values cannot be compared and are ignored. Default: a new id; the
// delegation tools derive it from the call.
func WithTaskID(id string) TaskOption { return func(o *taskOptions) { o.id = id } }

// WithTaskCall makes an agent the one that delegates the task: the agent whose
// tool call has the context ctx. The agent is told when the task ends, the
// tokens and the time of its run bound the task, and its own depth counts. The
// delegation tools use this option. A context that does not belong to a tool
// call is an error.
func WithTaskCall(ctx context.Context) TaskOption {
	return func(o *taskOptions) {
		if o.call = toolCallOf(ctx); o.call == nil {
			o.err = errors.New("option WithTaskCall: the context is not that of a tool call")
		}
	}
}

// WithTaskFiles copies files and directories of the parent's workspace into the
// task's, where they have the same paths.
func WithTaskFiles(paths ...string) TaskOption {
	return func(o *taskOptions) { o.files = append(o.files, paths...) }
}

// WithTaskPersona sets who works on the task.
func WithTaskPersona(p Persona) TaskOption { return func(o *taskOptions) { o.persona = &p } }

// WithTaskPersonaName chooses one of the manager's personas. An unknown name is
// an error that lists them.
func WithTaskPersonaName(name string) TaskOption { return func(o *taskOptions) { o.name = name } }

// WithTaskModelName names the model for the task, as the provider calls it.
func WithTaskModelName(name string) TaskOption { return func(o *taskOptions) { o.model = name } }

// WithTaskModel sets the model for the task. Nil leaves it the one that it has without
// this option.
func WithTaskModel(m Model) TaskOption {
	if m == nil {
		return nil
	}
	return WithTaskProfile(func(context.Context, TaskSpec) ([]Option, error) {
		return []Option{WithModel(m)}, nil
	})
}

// WithTaskProfile adds a profile for this task only, after the one it names.
// Functions cannot leave this process: a task that is to be carried out
// elsewhere needs a profile with a name.
func WithTaskProfile(p TaskProfile) TaskOption {
	return func(o *taskOptions) {
		if p != nil {
			o.private = append(o.private, p)
		}
	}
}

// WithTaskLimits bounds the task. Zero fields have the manager's values.
func WithTaskLimits(l Limits) TaskOption {
	return func(o *taskOptions) { o.limits = l.or(o.limits) }
}

// WithTaskProfileName chooses a profile that [RegisterTaskProfile] added.
func WithTaskProfileName(name string) TaskOption {
	return func(o *taskOptions) { o.profile = name }
}

// WithTaskQueue has the task wait if the maximum number of tasks is running.
// Without it that is an error.
func WithTaskQueue() TaskOption { return func(o *taskOptions) { o.queue = true } }

// WithTaskDepth is [MaxTaskDepth] for this task and those below it: it says how
// deep agents delegate, counted from the agent at the top. A task of a task
// cannot go deeper than its parent may. Default: as its parent, else
// MaxTaskDepth.
func WithTaskDepth(n int) TaskOption { return func(o *taskOptions) { o.depth = n } }

// TaskError is an error of a task: why it ended other than as it should, from
// [TaskStatus.Err], or why a method of its manager could not do something for
// it. Find it with errors.As.
type TaskError struct {
	ID    string    // the task's id
	State TaskState // how the task ended; empty for the error of a method
	Err   error     // the cause
}

// Error names the task and the cause.
func (e *TaskError) Error() string {
	switch e.State {
	case "":
		return fmt.Sprintf("task %s: %v", e.ID, e.Err)
	case TaskCancelled:
		return fmt.Sprintf("task %s was cancelled: %v", e.ID, e.Err)
	}
	return fmt.Sprintf("task %s %s: %v", e.ID, strings.ReplaceAll(string(e.State), "_", " "), e.Err)
}

// Unwrap returns the cause.
func (e *TaskError) Unwrap() error { return e.Err }

// taskError names the task in an error of a method.
func taskError(id string, err error) error {
	if err == nil {
		return nil
	}
	return &TaskError{ID: id, Err: err}
}

// taskEnd is the cause of a task's end, with the task's own words for it.
type taskEnd struct {
	reason string
	cause  error
}

// Error is the reason.
func (e *taskEnd) Error() string { return e.reason }

// Unwrap returns the cause.
func (e *taskEnd) Unwrap() error { return e.cause }

// Err is the error with which the task ended, a [*TaskError], or nil if the
// task is at work, asks, or is finished. A cancelled task's error matches
// [context.Canceled], and one that timed out [context.DeadlineExceeded]. A
// failed one has the error of its run; of a status that was read from JSON,
// only its text and its [*APIError] are left.
func (s TaskStatus) Err() error {
	cause := s.err
	switch s.State {
	case TaskCancelled:
		cause = context.Canceled
	case TaskTimedOut:
		cause = context.DeadlineExceeded
	case TaskFailed:
		if cause == nil && s.Result != nil && s.Result.APIError != nil {
			cause = s.Result.APIError
		}
	default:
		return nil
	}
	return &TaskError{ID: s.ID, State: s.State, Err: &taskEnd{reason: cmp.Or(s.Reason, "no reason is known"), cause: cause}}
}
