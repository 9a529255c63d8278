package pygent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent/internal/crew"
	"github.com/x/pygent/internal/jsonobj"
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
	State   TaskState `json:"state"`
	Reason  string    `json:"reason,omitempty"` // the state in words, if there is more to say
	Prompt  string    `json:"prompt"`
	Persona Persona   `json:"persona,omitzero"`
	Depth   int       `json:"depth"` // 1 for a task of an agent that does not work on a task itself

	Created time.Time `json:"created"`
	Started time.Time `json:"started,omitzero"` // of the last run
	Ended   time.Time `json:"ended,omitzero"`   // of the last run; zero while it goes on

	Runs      int           `json:"runs"` // how often it was started, by messages too
	Steps     int           `json:"steps"`
	ToolCalls int           `json:"tool_calls"`
	Usage     Usage         `json:"usage"`
	Timeout   time.Duration `json:"-"`                // the limit that was reached, when timed out; timeout_seconds in JSON
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
		s.State, s.Reason = TaskFailed, err.Error()
	default:
		s.State, s.Reason = TaskFailed, cmp.Or(result.Reason, string(result.Status))
	}
}

// count updates the status with an event of the current run.
func (s *TaskStatus) count(e Event) {
	switch e.Type {
	case EventText, EventReasoning:
		return
	case EventStep:
		s.Steps++
	case EventToolCall:
		s.ToolCalls++
	case EventMessage:
		if e.Usage != nil {
			s.Usage = s.Usage.Add(*e.Usage)
		}
	}
	s.LastEvent = &e
}

// cancel sets the state of a cancelled task.
func (s *TaskStatus) cancel(reason string) {
	s.State, s.Reason, s.Ended = TaskCancelled, reason, time.Now()
}

// renew begins a further run: it clears what belongs to the one before.
func (s *TaskStatus) renew(state TaskState) {
	s.State, s.Reason, s.Timeout, s.Result = state, "", 0, nil
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

// taskSpecVersion is the version of the JSON of a [TaskSpec]. A reader refuses
// versions it does not know.
const taskSpecVersion = 1

// Limits of a task that sets none.
const (
	// DefaultTaskStepTimeout is how long a step of a task may take.
	DefaultTaskStepTimeout = 5 * time.Minute
	// DefaultTaskMaxTime is how long a task may take, its start included.
	DefaultTaskMaxTime = 20 * time.Minute
	// DefaultMaxTasks is how many tasks of a manager run at once.
	DefaultMaxTasks = 3
	// DefaultTaskDepth is how deep agents delegate: those that work on tasks do
	// not.
	DefaultTaskDepth = 1
)

// TaskSpec describes a task so that it can be carried out elsewhere: it is a
// small JSON value without functions and secrets. What only this process has,
// such as a Model, reaches the task through its profile.
type TaskSpec struct {
	Version int         `json:"version"`
	ID      string      `json:"id"`
	Parent  string      `json:"parent,omitempty"`  // the id of the agent that delegates
	Profile string      `json:"profile,omitempty"` // see [RegisterTaskProfile]; empty means the manager's own
	Prompt  string      `json:"prompt"`
	Persona Persona     `json:"persona,omitzero"` // zero means the profile's
	Model   string      `json:"model,omitempty"`  // a model's name; empty means the profile's
	Depth   int         `json:"depth"`            // of the task's agent, at least 1
	Files   string      `json:"files,omitempty"`  // "sha256:…" of the tar with the files to begin with
	Runtime TaskRuntime `json:"runtime,omitzero"`
	Limits  Limits      `json:"limits"`
	Queue   bool        `json:"queue,omitempty"` // wait when there is no room, instead of failing
}

// TaskRuntime says in what kind of runtime a task is carried out.
type TaskRuntime struct {
	// Kind is "docker", "local", "custom" for a runtime that only the parent
	// can make, or empty for the profile's.
	Kind string `json:"kind,omitempty"`
	// Container says how to make the container, as the parent's was made, or
	// that there is none.
	Container ContainerConfig `json:"container,omitzero"`
	// Local says what commands may reach if there is no container.
	Local LocalConfig `json:"local,omitzero"`
	// MaxCopyBytes is the limit of that name; 0 is the default.
	MaxCopyBytes int64 `json:"max_copy_bytes,omitempty"`
}

// options returns the options of a runtime for a task. The environment and the
// task's profile affect them only if there is no parent; the workspace is the
// task's own in any case.
func (t TaskRuntime) options(env []string) []RuntimeOption {
	hasParent := t.Kind != ""
	opts := slices.Concat(t.Container.options(), t.Local.options(), given(nil, t.MaxCopyBytes, MaxCopyBytes), []RuntimeOption{WithEnv(env...)})
	if hasParent {
		opts = append(opts, runtimeEnvironmentIncluded{})
	}
	return append(opts, runtimeOption{"", func(o *runtimeOptions) {
		o.workspace, o.initialFiles, o.publishPorts = "", nil, nil
		o.keepLeftovers = o.keepLeftovers || hasParent // the parent has removed leftovers, or must not
	}})
}

// taskID is the form of an id, which becomes part of names and messages.
var taskID = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$`)

// check refuses a spec that no executor could carry out.
func (s TaskSpec) check() error {
	switch {
	case s.Version != taskSpecVersion:
		return fmt.Errorf("task spec: version %d is not known here, only %d", s.Version, taskSpecVersion)
	case !taskID.MatchString(s.ID):
		return fmt.Errorf("task spec: id %q: want 1 to 64 letters, digits, dots, dashes or underscores", s.ID)
	case s.Prompt == "":
		return errors.New("task spec: the prompt is empty")
	case s.Depth < 1:
		return fmt.Errorf("task spec: depth %d is below 1", s.Depth)
	}
	if err := s.Limits.check(); err != nil {
		return fmt.Errorf("task spec: %w", err)
	}
	return nil
}

// UnmarshalJSON decodes a spec and refuses versions that this package does not
// know, because it could not carry them out faithfully.
func (s *TaskSpec) UnmarshalJSON(data []byte) error {
	type plain TaskSpec // has no methods, and so no recursion
	var p plain
	if err := json.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("task spec: %w", err)
	}
	if err := TaskSpec(p).check(); err != nil {
		return err
	}
	*s = TaskSpec(p)
	return nil
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
	files   []string
	persona *Persona
	name    string // of a persona
	model   string
	profile string
	limits  Limits
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

// WithTaskModel sets the model for the task.
func WithTaskModel(m Model) TaskOption {
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

// SendOption adjusts a message to a task.
type SendOption func(*taskInput)

// WithMessageID names a message. Sending a second one of the same name to the
// task has no effect, so a failed Send can be repeated safely.
func WithMessageID(id string) SendOption { return func(in *taskInput) { in.ID = "message-" + id } }

// taskError names the task in an error.
func taskError(id string, err error) error {
	if err == nil {
		return nil
	}
	return &errorOfTask{id: id, err: err}
}

// errorOfTask is an error inside a task or its runtime, as opposed to one of
// the caller, whose own runtime may work.
type errorOfTask struct {
	id  string
	err error
}

// Error names the task.
func (e *errorOfTask) Error() string { return fmt.Sprintf("task %s: %v", e.id, e.err) }

// Unwrap returns the cause.
func (e *errorOfTask) Unwrap() error { return e.err }
