package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
)

// TaskManagerOption configures a [TaskManager].
type TaskManagerOption func(*taskManagerOptions)

type taskManagerOptions struct {
	maxTasks int
	depth    int
	personas []Persona
	limits   TaskLimits
	agent    []Option
	approve  ApprovalFunc
	onEvent  func(Event)
	owner    *Agent // whose tasks these are, when the agent made the manager itself
}

// newTaskManagerOptions applies opts to the defaults and checks the outcome.
func newTaskManagerOptions(opts []TaskManagerOption) (taskManagerOptions, error) {
	o := taskManagerOptions{maxTasks: DefaultMaxTasks, depth: DefaultTaskDepth}
	apply(&o, opts)
	switch {
	case o.maxTasks < 1:
		return o, fmt.Errorf("option MaxTasks: must be at least 1, not %d", o.maxTasks)
	case o.depth < 0:
		return o, fmt.Errorf("option TaskDepth: must not be negative, like %d", o.depth)
	}
	if err := o.limits.check(); err != nil {
		return o, fmt.Errorf("option TaskDefaults: %w", err)
	}
	return o, nil
}

// logger returns where a manager logs: as the agents do that work on its tasks.
func (o *taskManagerOptions) logger() *slog.Logger {
	if o.owner != nil {
		return o.owner.log
	}
	return cmp.Or(applyOptions(o.agent).logger, slog.New(slog.DiscardHandler))
}

// MaxTasks sets how many tasks run at once. Default: [DefaultMaxTasks]; for an
// agent's own manager PYGENT_MAX_TASKS.
func MaxTasks(n int) TaskManagerOption { return func(o *taskManagerOptions) { o.maxTasks = n } }

// TaskDepth sets how deep agents delegate: 0 is not at all, 1 forbids it to
// agents that work on a task themselves. Default: [DefaultTaskDepth].
func TaskDepth(n int) TaskManagerOption { return func(o *taskManagerOptions) { o.depth = n } }

// TaskPersonas sets who works on tasks: one after the other, unless a task
// names one. Default: none, which leaves it to the profile; for an agent's own
// manager the task personas of the configuration.
func TaskPersonas(personas ...Persona) TaskManagerOption {
	return func(o *taskManagerOptions) { o.personas = slices.Clone(personas) }
}

// TaskDefaults sets the limits of tasks that say nothing of their own.
func TaskDefaults(l TaskLimits) TaskManagerOption {
	return func(o *taskManagerOptions) { o.limits = l.or(o.limits) }
}

// TaskAgents sets the options of the agents that work on tasks of no other
// profile. A runtime given by [WithRuntime] would be shared by all of them: use
// [WithTaskProfile] for runtimes of your own. Default: for an agent's own
// manager the agent's model, tools and rules, else those of [New].
func TaskAgents(opts ...Option) TaskManagerOption {
	return func(o *taskManagerOptions) { o.agent = append(o.agent, opts...) }
}

// TaskApproval sets who decides about calls of tasks, as [WithApproval] does for
// an agent, unless their agents have an [ApprovalFunc] of their own. Default:
// for an agent's own manager the agent's [ApprovalFunc] with its rules, else
// nobody, which denies what needs approval. Calls of several tasks are asked
// for one at a time.
func TaskApproval(f ApprovalFunc) TaskManagerOption {
	return func(o *taskManagerOptions) { o.approve = f }
}

// OnTaskEvent sets a function that sees the events of all tasks, each with the
// task's id. It is called by one goroutine at a time and should return soon.
func OnTaskEvent(f func(Event)) TaskManagerOption {
	return func(o *taskManagerOptions) { o.onEvent = f }
}

// TaskOption adjusts one task.
type TaskOption func(*taskOptions)

type taskOptions struct {
	taskRequest
	id      string
	private []TaskProfile // of this task alone
	call    *callInfo     // by which an agent delegates the task; nil for none
	err     error         // of an option that cannot be followed
}

// taskRequest is what a task was asked for, but for what cannot be compared:
// functions, models given as values, and the parent's runtime.
type taskRequest struct {
	parent  string // the id of the agent that delegates
	prompt  string
	files   []string
	persona *Persona
	name    string // of a persona
	model   string
	profile string
	limits  TaskLimits
	queue   bool
}

// WithTaskID sets the task's id, 1 to 64 letters, digits, dots, dashes or
// underscores. Starting a task a second time by the same request changes
// nothing; another request with its id is refused with [ErrTaskExists].
// Requests are the same when parent agent, prompt and options are; functions
// and models given as values, which cannot be compared, do not count. Default:
// a new id; the delegation tools derive it from the call.
func WithTaskID(id string) TaskOption { return func(o *taskOptions) { o.id = id } }

// WithTaskCall has an agent delegate the task: the one whose tool call ctx is
// the context of. It is told of the end, the tokens and the time of its run bound
// the task, and its own depth counts. The delegation tools do so themselves. A
// context that is not that of a tool call is an error.
func WithTaskCall(ctx context.Context) TaskOption {
	return func(o *taskOptions) {
		if o.call = callOf(ctx); o.call == nil {
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

// WithTaskProfile adds a profile for this task alone, after the one it is named.
// Functions do not leave this process: a task that has to be carried out
// elsewhere needs a profile with a name.
func WithTaskProfile(p TaskProfile) TaskOption {
	return func(o *taskOptions) {
		if p != nil {
			o.private = append(o.private, p)
		}
	}
}

// WithTaskLimits bounds the task; fields that are zero keep the manager's.
func WithTaskLimits(l TaskLimits) TaskOption {
	return func(o *taskOptions) { o.limits = l.or(o.limits) }
}

// WithTaskProfileName chooses a profile of [RegisterTaskProfile].
func WithTaskProfileName(name string) TaskOption {
	return func(o *taskOptions) { o.profile = name }
}

// WithTaskQueue has the task wait its turn when as many run as may. Without it
// that is an error.
func WithTaskQueue() TaskOption { return func(o *taskOptions) { o.queue = true } }
