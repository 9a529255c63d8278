package pygent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/internal/budget"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/settings"
	"github.com/x/pygent/internal/stash"
	"github.com/x/pygent/internal/taskpool"
)

// TaskManager has agents work on tasks in the background, each in a runtime and
// a workspace of its own. Every [Agent] has one for its delegation tools,
// [Agent.Tasks]. [NewTaskManager] makes one for a program, or for several
// agents to share.
//
// A task is carried out until its agent stops, asks, or reaches a limit. Then
// it rests: its conversation and its files are kept until Remove or Close.
// Files can be collected, and a further message continues the task. The
// manager's methods are safe for concurrent use. Close it when done.
//
// A task that an agent delegates in a run, by its tools or [WithTaskCall],
// spends the tokens and the money of that run. When it begins, its share is set
// aside: [Limits].MaxTokens and MaxCost if the task or [TaskDefaults] set them,
// else a quarter of the run's limit, but at most half of what is left. When it
// ends, what it did not spend returns to the run. So a run and all its tasks, and
// their tasks, together spend no more than the run's [MaxTokens] and [MaxCost],
// except for the last model call of each, which may cross its limit.
//
// Close and Wait return [ErrInCallback] at once where they would wait for their
// own caller: in a handler of the events that they wait for, and Close also in
// a tool, an approval or a profile of one of the tasks.
type TaskManager struct {
	// Goroutines: each run of a task has one, and so does each removal; these
	// belong to the executor. Each task has a follower, which handles its
	// events, and one goroutine for each decision that it waits for; these are
	// in wg. Close waits for the executor first, because the followers end with
	// the tasks.
	//
	// Locks: mu guards the turns and the last fields of every taskLinks.
	// approving is held while somebody is asked, and emitting while the event
	// handler runs. The executor, the records and the files have locks of their
	// own. While mu or one of those is held, no other lock is taken and no code
	// of the caller is called. The exception is the executor's crew, which calls
	// its tasks under its own lock, and through them grant.
	opts  taskManagerOptions
	log   *slog.Logger
	exec  taskExecutor
	tasks taskpool.Ledger[*taskLinks]
	files stash.Store
	shut  func() error // closes once; later calls return the first result

	life      context.Context // ends after everything else, and ends the followers
	end       context.CancelFunc
	wg        sync.WaitGroup
	allowed   sessionRules     // of tasks that no agent delegates
	callbacks safecall.Reentry // knows which goroutines run the manager's event handler, approvals and profiles
	approving safecall.Baton
	emitting  sync.Mutex

	mu    sync.Mutex
	turns taskpool.Rota // of the personas
}

// NewTaskManager makes a manager that carries out tasks in this process.
func NewTaskManager(opts ...TaskManagerOption) (*TaskManager, error) {
	o, err := newTaskManagerOptions(opts)
	if err != nil {
		return nil, err
	}
	return newTaskManager(o), nil
}

func newTaskManager(o taskManagerOptions) *TaskManager {
	m := &TaskManager{opts: o, log: o.logger(), approving: safecall.NewBaton()}
	m.life, m.end = context.WithCancel(context.Background())
	m.exec = newLocalExecutor(o.maxTasks, m)
	m.shut = sync.OnceValue(m.close)
	return m
}

// StartTask has an agent work on prompt in the background and returns the
// task's id. The agent gets a runtime of the same kind as parent, with the same
// limits and a temporary workspace. With a nil parent it gets one from the
// options of the manager's agents.
//
// ctx bounds only the start. Its values, such as a trace, reach the task's model,
// tools and approvals; a run that [TaskManager.Send] starts has the values given
// there. The task belongs to the agent whose own manager this is; with
// [WithTaskCall] any agent can delegate it. Errors match [ErrTooManyTasks],
// [ErrTaskDepth] or [ErrTaskExists].
func (m *TaskManager) StartTask(ctx context.Context, prompt string, parent Runtime, opts ...TaskOption) (string, error) {
	var o taskOptions
	apply(&o, opts)
	if o.id == "" {
		o.id = newID()
	}
	if err := m.startTask(ctx, prompt, parent, o); err != nil {
		return "", fmt.Errorf("start task: %w", err)
	}
	return o.id, nil
}

func (m *TaskManager) startTask(ctx context.Context, prompt string, parent Runtime, o taskOptions) error {
	if err := cmp.Or(o.err, settings.CheckLimit("option WithTaskDepth", o.depth), alive(ctx)); err != nil {
		return err
	}
	r := m.newRecord(prompt, o)
	if most := m.deepest(r); r.Value.depth > most {
		return fmt.Errorf("%w (depth %d, and the deepest is %d)", ErrTaskDepth, r.Value.depth, most)
	}
	spec := m.spec(r)
	if err := spec.check(); err != nil {
		return err
	}
	if known, err := m.claim(ctx, r); known || err != nil {
		return err
	}
	err := m.launch(ctx, r, spec, parent, o)
	if err != nil {
		m.releaseFiles(r)
	}
	m.tasks.EndStart(r, err)
	if err == nil {
		m.follow(r.ID)
		if r.Value.agent != nil {
			r.Value.agent.tools.markStarted()
		}
	}
	return err
}

// Personas returns the personas that can work on tasks.
func (m *TaskManager) Personas() []Persona { return slices.Clone(m.opts.personas) }

// Status returns the status of a task. The error matches [ErrUnknownTask] if no
// task has the id.
func (m *TaskManager) Status(ctx context.Context, id string) (TaskStatus, error) {
	status, err := m.exec.status(ctx, id)
	return status, taskError(id, err)
}

// Tasks returns the status of the tasks that filter chooses, the oldest first.
func (m *TaskManager) Tasks(ctx context.Context, filter TaskFilter) ([]TaskStatus, error) {
	all, err := m.exec.list(ctx, filter)
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	return all, nil
}

// Wait returns the status of a task once it rests and its events have been
// handled. If ctx ends before, it returns the current status and an error. In
// an event handler it returns the status of a task at rest; it refuses to wait
// for another one with [ErrInCallback].
func (m *TaskManager) Wait(ctx context.Context, id string) (TaskStatus, error) {
	status, err := m.exec.status(ctx, id)
	if err == nil && m.waitsForItself(ctx, id) {
		if !status.State.AtRest() {
			err = ErrInCallback
		}
		return status, taskError(id, err)
	}
	for err == nil && !status.State.AtRest() {
		if err = m.awaitRest(ctx, id, status.Seq); err == nil {
			status, err = m.exec.status(ctx, id)
		}
	}
	if err == nil {
		err = m.waitHandled(ctx, status)
	}
	return status, taskError(id, err)
}

// WaitAny waits until one of the tasks rests, and returns its status as Wait
// does. If several rest already, it is the one that has rested longest. To
// handle tasks as they end, leave out those that were returned before.
func (m *TaskManager) WaitAny(ctx context.Context, ids ...string) (TaskStatus, error) {
	if len(ids) == 0 {
		return TaskStatus{}, errors.New("wait for a task: none is named")
	}
	rested, err := m.firstAtRest(ctx, ids)
	switch {
	case err != nil:
		return TaskStatus{}, err
	case rested != "":
		return m.Wait(ctx, rested)
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	type outcome struct {
		status TaskStatus
		err    error
	}
	first := make(chan outcome, len(ids))
	for _, id := range ids {
		wg.Go(func() {
			status, err := m.Wait(ctx, id)
			first <- outcome{status, err}
		})
	}
	got := <-first
	return got.status, got.err
}

// Cancel asks a task to end; Wait tells when it has. The tasks that it
// delegated are asked as well. A task at rest keeps its state, unless it waits
// for the user, which it then no longer does.
func (m *TaskManager) Cancel(ctx context.Context, id string) error {
	return m.cancel(ctx, id, "")
}

func (m *TaskManager) cancel(ctx context.Context, id, reason string) error {
	_, err := m.exec.send(ctx, id, taskInput{ID: newID(), Kind: inputCancel, Text: reason})
	return taskError(id, err)
}

// Send has a task continue with a message, such as the answer to its question.
// A task at rest does so at once; like a new task, it needs room. A task at work
// keeps the message until it would rest, and then goes on instead; with
// [WithNextStep] its model hears it before. Cancel drops the messages that wait. If
// the delegating run has nothing left to spend, the task fails, and they wait for
// the next message.
//
// Send returns the message's number, counted from 1 for each task. It is the
// Input of the events and of the status from when the task takes the message up.
func (m *TaskManager) Send(ctx context.Context, id, message string, opts ...SendOption) (int64, error) {
	in := taskInput{ID: newID(), Kind: inputMessage, Text: message}
	apply(&in, opts)
	if err := (taskMessage{text: in.Text, parts: in.Parts}).check(); err != nil {
		return 0, taskError(id, err)
	}
	number, err := m.exec.send(ctx, id, in)
	return number, taskError(id, err)
}

// Events returns the events of a task whose numbers are above after, as they
// come; 0 is from the beginning. It goes on while the task rests, and ends when
// the task is removed or the manager closed; if ctx ends, the last value is an
// error. Only the last few hundred events are kept, up to 4 MiB, changes of the
// state longest and pieces of text shortest, so that numbers may be missing.
func (m *TaskManager) Events(ctx context.Context, id string, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for e, err := range m.exec.events(ctx, id, after) {
			if !yield(e, taskError(id, err)) {
				return
			}
		}
	}
}

// Decide answers a call of a task that waits for a decision: one of the
// Approvals of its [TaskStatus]. The first answer counts: it ends the context of
// an [ApprovalFunc] that is still asked, and the error of a later one matches
// [ErrNotAsked]. To have all decisions made here, give [TaskApproval] a function
// that waits until its context ends.
func (m *TaskManager) Decide(ctx context.Context, id, call string, d Decision) error {
	if len(d.Arguments) > 0 && !json.Valid(d.Arguments) {
		return taskError(id, errors.New("decide about a call: the arguments are not JSON"))
	}
	_, err := m.exec.send(ctx, id, taskInput{ID: newID(), Kind: inputDecision, Call: call, Decision: d})
	return taskError(id, err)
}

// CollectFile copies a file or directory of a task's workspace into rt, to dest
// or, if dest is empty, to the same path. The task may be at work. If the task
// is removed meanwhile, the error matches [ErrUnknownTask]. A directory is copied whole;
// the tool collect_file leaves out .git and caches such as node_modules.
func (m *TaskManager) CollectFile(ctx context.Context, rt Runtime, id, path, dest string) (CollectedFile, error) {
	return m.collect(ctx, rt, id, path, dest, nil)
}

// collect is CollectFile, without what left leaves out; nil for nothing.
func (m *TaskManager) collect(ctx context.Context, rt Runtime, id, path, dest string, left *stash.LeftOut) (c CollectedFile, err error) {
	defer func() { err = taskError(id, err) }()
	err = alive(ctx)
	switch {
	case err != nil:
	case rt == nil:
		err = errors.New("there is no runtime to copy files to")
	case dest == "":
		dest, err = filesOf(rt).SamePath(ctx, path)
	}
	if err != nil {
		return c, err
	}
	copied, err := filesOf(rt).Receive(ctx, func(w io.Writer) error {
		return left.Filter(ctx, path, w, func(w io.Writer) (err error) {
			c.AsOf, c.Live, err = m.exec.export(ctx, id, path, w)
			return err
		})
	}, dest)
	if err != nil {
		return CollectedFile{}, err
	}
	c.Path, c.Files, c.Replaced, c.Bytes = copied.At, copied.Files, copied.Replaced, copied.Bytes
	return c, nil
}

// TaskHistory returns the conversation of a task's agent, at work or at rest, until
// Remove; also after Close. It is empty before the agent was made. Do not modify it.
func (m *TaskManager) TaskHistory(ctx context.Context, id string) ([]Message, error) {
	messages, err := m.exec.history(ctx, id)
	return messages, taskError(id, err)
}

// Remove forgets a task at rest, and removes its runtime with all its files. If
// ctx ends before, the task is forgotten and its runtime is still being
// removed; Close waits for that.
func (m *TaskManager) Remove(ctx context.Context, id string) error {
	r := m.tasks.Record(id)
	err := m.exec.remove(ctx, id)
	if _, gone := m.exec.status(m.life, id); r != nil && errors.Is(gone, ErrUnknownTask) {
		m.releaseFiles(r)
		m.tasks.Forget(r)
	}
	return taskError(id, err)
}

// Close cancels all tasks, waits for them, and removes their runtimes. It may
// be called more than once. Code that ignores its context, and a runtime whose
// Cleanup does not return, get about a minute and are then left behind. The
// error then matches [ErrLeftBehind] and names the tasks.
func (m *TaskManager) Close() error {
	if m.closesItself() {
		return fmt.Errorf("close the task manager: %w", ErrInCallback)
	}
	return m.shut()
}

func (m *TaskManager) close() error {
	m.tasks.Close()
	err := m.exec.close()
	// The followers end after the last events of their tasks.
	if !taskpool.WaitAtMost(closeHandlers, &m.wg) {
		err = errors.Join(err, fmt.Errorf("the handler of the tasks' events, or an approval, %w", ErrLeftBehind))
	}
	m.end()
	return errors.Join(err, m.files.Close())
}

// TaskManagerOption configures a [TaskManager], or the one of an agent by [New].
type TaskManagerOption interface {
	Option
	setTaskManager(*taskManagerOptions)
}

type taskManagerOption struct {
	name string
	set  func(*taskManagerOptions)
}

func (opt taskManagerOption) setAgent(o *options) {
	o.give(partTasks, opt.name, true)
	o.tasks = append(o.tasks, opt)
}

func (opt taskManagerOption) setTaskManager(o *taskManagerOptions) { opt.set(o) }

type taskManagerOptions struct {
	maxTasks int
	depth    int
	personas []Persona
	limits   Limits
	agent    []Option
	runtime  bool // is among them
	approve  ApprovalFunc
	onEvent  func(Event)
	log      *slog.Logger // of the agents; not used if there is an owner
	owner    *Agent       // the agent that made the manager itself, and owns the tasks
}

// newTaskManagerOptions applies opts to the defaults and checks the outcome.
func newTaskManagerOptions(opts []TaskManagerOption) (taskManagerOptions, error) {
	var o taskManagerOptions
	setAll(&o, opts, TaskManagerOption.setTaskManager)
	if err := cmp.Or(settings.CheckLimit("MaxTasks", o.maxTasks), settings.CheckLimit("MaxTaskDepth", o.depth)); err != nil {
		return o, fmt.Errorf("option %w", err)
	}
	if err := o.limits.check(); err != nil {
		return o, fmt.Errorf("option TaskDefaults: %w", err)
	}
	agents := applyOptions(o.agent)
	if err := agents.check(); err != nil {
		return o, fmt.Errorf("option TaskAgents: %w", err)
	}
	o.log, o.runtime = cmp.Or(agents.logger, slog.New(slog.DiscardHandler)), agents.runtime != nil
	o.maxTasks, o.depth = limitOr(o.maxTasks, DefaultMaxTasks), limitOr(o.depth, DefaultTaskDepth)
	return o, nil
}

// MaxTasks sets how many tasks run at once. Default: [DefaultMaxTasks]; for an
// agent's own manager PYGENT_MAX_TASKS.
func MaxTasks(n int) TaskManagerOption {
	return taskManagerOption{"MaxTasks", func(o *taskManagerOptions) { o.maxTasks = n }}
}

// MaxTaskDepth sets how deep agents delegate. With 1, the default, agents that
// work on a task cannot delegate. To keep an agent from delegating at all,
// disable its tools for it: see [WithDisabledTools].
func MaxTaskDepth(n int) TaskManagerOption {
	return taskManagerOption{"MaxTaskDepth", func(o *taskManagerOptions) { o.depth = n }}
}

// TaskPersonas sets the personas that work on tasks, in turn unless a task
// names one. Default: none, so that the profile decides; for an agent's own
// manager the task personas of the configuration.
func TaskPersonas(personas ...Persona) TaskManagerOption {
	return taskManagerOption{"TaskPersonas", func(o *taskManagerOptions) { o.personas = slices.Clone(personas) }}
}

// TaskDefaults sets the limits of tasks that set none themselves. Default: for an
// agent's own manager the steps, tool calls and step timeout of the agent's runs,
// else [DefaultTaskStepTimeout]; [DefaultTaskMaxTime] for all.
func TaskDefaults(l Limits) TaskManagerOption {
	return taskManagerOption{"TaskDefaults", func(o *taskManagerOptions) { o.limits = l.or(o.limits) }}
}

// TaskAgents sets the options of the agents that work on tasks without another
// profile. A runtime given by [WithRuntime] would be shared by all of them: use
// [WithTaskProfile] for runtimes of your own. Default: for an agent's own
// manager the agent's model, tools and rules, else those of [New].
func TaskAgents(opts ...Option) TaskManagerOption {
	return taskManagerOption{"TaskAgents", func(o *taskManagerOptions) { o.agent = append(o.agent, opts...) }}
}

// TaskApproval sets who decides about calls of tasks, as [WithApproval] does for
// an agent, unless their agents have an [ApprovalFunc] of their own. It is asked
// about one call at a time. Default: for an agent's own manager the agent's, with
// its rules, else nobody, so that calls that need approval are denied.
func TaskApproval(f ApprovalFunc) TaskManagerOption {
	return taskManagerOption{"TaskApproval", func(o *taskManagerOptions) { o.approve = f }}
}

// OnTaskEvent sets a function that gets the events of all tasks, each with the
// task's id. It is called by one goroutine at a time and should return soon.
func OnTaskEvent(f func(Event)) TaskManagerOption {
	return taskManagerOption{"OnTaskEvent", func(o *taskManagerOptions) { o.onEvent = f }}
}

// taskSpecVersion is the version of the JSON of a [TaskSpec]. A reader refuses
// versions it does not know. A field that restricts the task raises it, so that
// nobody carries a task out without what it does not understand. One that adds to
// the task need not: readers refuse fields that they do not know.
const taskSpecVersion = 2

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
	From    string      `json:"from,omitempty"`    // the name of its persona
	Profile string      `json:"profile,omitempty"` // see [RegisterTaskProfile]; empty means the manager's own
	Prompt  string      `json:"prompt"`
	Parts   []Part      `json:"parts,omitempty"`  // what goes with the prompt, see [WithTaskParts]
	Persona Persona     `json:"persona,omitzero"` // zero means the profile's
	Model   string      `json:"model,omitempty"`  // a model's name; empty means the profile's
	Call    string      `json:"call,omitempty"`   // the id of the tool call of the parent that delegates it
	Depth   int         `json:"depth"`            // of the task's agent, at least 1
	Files   string      `json:"files,omitempty"`  // "sha256:…" of the tar with the files to begin with
	Copied  []string    `json:"copied,omitempty"` // the paths of those files, as they were asked for, the first thousand
	Runtime TaskRuntime `json:"runtime,omitzero"`
	Rules   TaskRules   `json:"rules,omitzero"`
	Limits  Limits      `json:"limits"`
}

// TaskRules are what a task's agent has to keep to because of the agent that
// delegated it, as it was then. They bind the task and those below it. The
// options of the manager and of a profile can only add to the bans and to the
// disabled tools.
type TaskRules struct {
	Root     string    `json:"root,omitempty"`      // the id of the agent at the top, whose task or task's task it is
	MaxDepth int       `json:"max_depth,omitempty"` // how deep agents delegate; no task below this one has a greater depth
	Deadline time.Time `json:"deadline,omitzero"`   // when the first run ends, as the run that delegated it does; zero for none

	BannedCommands []string `json:"banned_commands,omitempty"` // as [WithBannedCommands] takes them
	BannedApps     []string `json:"banned_apps,omitempty"`     // as [WithBannedApps] takes them
	DisabledTools  []string `json:"disabled_tools,omitempty"`  // also where other tools have these names
	ApprovalFor    []string `json:"approval_for,omitempty"`    // as [WithApprovalFor] takes them
	ApproveAll     bool     `json:"approve_all,omitempty"`     // calls of tools that are not ReadOnly need approval
	ConfirmBash    *bool    `json:"confirm_bash,omitempty"`    // as [WithConfirmBash] takes it; nil for not set

	// Env names the variables of the parent's commands. Their values are not in
	// the spec, because they may be secrets.
	Env []string `json:"env,omitempty"`
}

// option returns the option that has an agent keep to the rules.
func (r TaskRules) option() Option {
	return option(func(o *options) {
		o.banned = append(o.banned, r.BannedCommands...)
		o.bannedApps = append(o.bannedApps, r.BannedApps...)
		o.forbidden = append(o.forbidden, r.DisabledTools...)
		o.approvalFor = append(o.approvalFor, r.ApprovalFor...)
		o.inheritedFor = r.ApprovalFor
		o.approveAll = o.approveAll || r.ApproveAll
		if r.ConfirmBash != nil {
			o.confirmBash = r.ConfirmBash
		}
	})
}

// rulesBelow returns the rules for the tasks that an agent delegates which has these
// options, tools that are disabled, and the setting whether commands are confirmed.
func (from *options) rulesBelow(id string, disabled []string, confirm *bool) TaskRules {
	return TaskRules{
		Root:           cmp.Or(from.rules.Root, id),
		BannedCommands: slices.Clone(from.banned),
		BannedApps:     slices.Clone(from.bannedApps),
		DisabledTools:  disabled,
		ApprovalFor:    slices.Clone(from.approvalFor),
		ApproveAll:     from.approveAll,
		ConfirmBash:    confirm,
	}
}

// TaskRuntime says in what kind of runtime a task is carried out. It leaves out
// what is true of one machine only: the engine's address, mounts, and whether
// the engine shares files.
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
func (t TaskRuntime) options(private taskPrivate) []RuntimeOption {
	hasParent := t.Kind != ""
	opts := slices.Concat(t.Container.options(), private.machine.options(), t.Local.options(),
		settings.IfGiven(nil, t.MaxCopyBytes, MaxCopyBytes), []RuntimeOption{WithEnv(private.env...)})
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
	if err := cmp.Or(s.message().check(), s.Limits.check()); err != nil {
		return fmt.Errorf("task spec: %w", err)
	}
	return nil
}

// UnmarshalJSON decodes a spec. It refuses versions and fields that this package
// does not know, because it could not carry them out faithfully.
func (s *TaskSpec) UnmarshalJSON(data []byte) error {
	type plain TaskSpec // has no methods, and so no recursion
	var p plain
	in := struct {
		*plain
		Limits limitsJSON `json:"limits"`
	}{&p, p.Limits.decoding()}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return fmt.Errorf("task spec: %w", err)
	}
	if err := TaskSpec(p).check(); err != nil {
		return err
	}
	*s = TaskSpec(p)
	return nil
}

// taskPrivate is what a task needs but its spec must not hold.
type taskPrivate struct {
	files    string                                     // the reference to the task's first files; empty once they are unpacked
	profiles []TaskProfile                              // for this task only
	env      []string                                   // of the parent's commands
	machine  ContainerConfig                            // what is true of this machine only, of a runtime like the parent's
	fork     func(ctx context.Context) (Runtime, error) // makes a runtime like a custom parent's
}

// TaskRuntimeMaker is implemented by custom runtimes whose agents delegate:
// it makes another runtime of the same kind, with a workspace of its own. The
// task owns it, and cleans it up. It must outlive ctx.
type TaskRuntimeMaker interface {
	NewTaskRuntime(ctx context.Context) (Runtime, error)
}

// taskRuntimeOf describes how to make runtimes of the parent's kind. It reads
// only the parent's settings, because the parent may be gone when they are
// used.
func taskRuntimeOf(parent Runtime) (TaskRuntime, taskPrivate) {
	if parent == nil {
		return TaskRuntime{}, taskPrivate{}
	}
	if maker, ok := RuntimeAs[TaskRuntimeMaker](parent); ok {
		return TaskRuntime{Kind: kindCustom}, taskPrivate{fork: maker.NewTaskRuntime}
	}
	if ours, ok := RuntimeAs[*workspaceRuntime](parent); ok {
		return ours.sibling()
	}
	return TaskRuntime{Kind: kindCustom}, taskPrivate{}
}

// kindCustom is the kind of a runtime that is not of this package.
const kindCustom = "custom"

var errNoTaskRuntime = errors.New("the parent's runtime cannot make another of its kind: implement TaskRuntimeMaker, or give the profile a runtime")

// launch completes the spec of a task and hands it to the executor.
func (m *TaskManager) launch(ctx context.Context, r *taskRecord, spec TaskSpec, parent Runtime, o taskOptions) (err error) {
	if _, err := taskProfile(spec.Profile); err != nil {
		return err
	}
	if err := r.Value.budget.Check(); err != nil {
		return err
	}
	var turn int
	if spec.Persona, turn, err = m.persona(r.Value.request); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			m.giveBack(turn)
		}
	}()
	kind, private := taskRuntimeOf(parent)
	spec.Runtime = kind
	if spec.Files, err = m.copyFiles(ctx, parent, o.files); err != nil {
		return fmt.Errorf("copy files: %w", err)
	}
	for _, v := range private.env {
		name, _, _ := strings.Cut(v, "=")
		spec.Rules.Env = append(spec.Rules.Env, name)
	}
	private.files, private.profiles = spec.Files, o.private
	m.mu.Lock()
	r.Value.private = private
	m.mu.Unlock()
	return m.exec.start(ctx, spec, r.Value.request.queue)
}

// spec returns the JSON form of a task, without persona, runtime and files.
func (m *TaskManager) spec(r *taskRecord) TaskSpec {
	copied := slices.Clone(r.Value.request.files[:min(len(r.Value.request.files), 1000)])
	for i, name := range copied {
		copied[i] = cut.Head(name, maxCopiedName)
	}
	return TaskSpec{
		Version: taskSpecVersion,
		ID:      r.ID,
		Parent:  r.Value.request.parent,
		From:    r.Value.from(),
		Copied:  copied,
		Profile: r.Value.request.profile,
		Prompt:  r.Value.request.prompt,
		Parts:   r.Value.request.parts,
		Model:   r.Value.request.model,
		Call:    r.Value.by.id(),
		Depth:   r.Value.depth,
		Rules:   m.rules(r),
		Limits: r.Value.request.limits.or(m.opts.limits).or(Limits{
			StepTimeout: DefaultTaskStepTimeout,
			MaxTime:     DefaultTaskMaxTime,
		}),
	}
}

// rules returns what binds a task and those below it.
func (m *TaskManager) rules(r *taskRecord) TaskRules {
	rules := TaskRules{Root: r.ID}
	if by := r.Value.agent; by != nil {
		_, disabled := by.tools.names()
		rules = by.opts.rulesBelow(by.id, disabled, by.deciders.approver.Confirm())
	}
	if rules.MaxDepth = m.deepest(r); rules.MaxDepth == math.MaxInt {
		rules.MaxDepth = NoLimit
	}
	if run := r.Value.budget; run != nil {
		rules.Deadline = run.Deadline
	}
	return rules
}

// deepest is the greatest depth that the task of r and those below it may have:
// what its request asks for, but no more than its parent may.
func (m *TaskManager) deepest(r *taskRecord) int {
	most, bound := m.opts.depth, math.MaxInt
	if by := r.Value.agent; by != nil && by.opts.rules.MaxDepth != 0 {
		most = limitOr(by.opts.rules.MaxDepth, most)
		bound = most
	}
	return min(limitOr(r.Value.request.depth, most), bound)
}

// taskExecutor carries out tasks. It separates the [TaskManager], which knows
// parents, personas and budgets, from the place where agents run: this process
// for now, perhaps a durable workflow engine or another machine later. So
// everything that crosses this interface is data. Methods are safe for
// concurrent use, and their contexts bound the call, never a task.
type taskExecutor interface {
	// start runs a task. Without room it queues the task, if that is allowed. It
	// has no effect on a task whose id, prompt and parts are known.
	start(ctx context.Context, spec TaskSpec, queue bool) error
	// status and list return the status of one task, and of all that are chosen.
	status(ctx context.Context, id string) (TaskStatus, error)
	list(ctx context.Context, filter TaskFilter) ([]TaskStatus, error)
	// events returns the task's events with numbers above after, as they come,
	// until the task is removed. Old events may be missing, text deltas first;
	// gaps in the numbers show that.
	events(ctx context.Context, id string, after int64) iter.Seq2[Event, error]
	// send hands an input to a task. An input whose id was seen has no effect. A
	// message to a task at work is kept until it rests. send returns the number
	// of a message, which the events after it carry.
	send(ctx context.Context, id string, in taskInput) (number int64, err error)
	// history is the conversation of the task's agent.
	history(ctx context.Context, id string) ([]Message, error)
	// export writes a file or directory of the task's workspace as an archive of
	// package tree. It says as of when, and whether the task was at work then.
	export(ctx context.Context, id, path string, w io.Writer) (asOf time.Time, live bool, err error)
	// remove forgets a task at rest and removes its workspace.
	remove(ctx context.Context, id string) error
	// close cancels all tasks, waits for them, and cleans up after them. The
	// wait is bounded: its error names what it left behind.
	close() error
}

// An executor ends the context of a run in one of three ways: with a
// [taskCancelled] or errTaskTimeout as the cause, which are outcomes, or with
// bridge.ErrReassigned. To have a run go on elsewhere in good order, it closes the
// channel yield of its turn instead.
var (
	// errYielded is the error of a run that stopped before a step, to go on elsewhere.
	errYielded = errors.New("the run stopped to go on elsewhere")
)

// taskTurn is one run of a task, or what is left of one that another executor
// began: then the agent has the history that the other one left.
type taskTurn struct {
	message taskMessage               // not used if before is set
	before  *Result                   // what the run did elsewhere: steps, calls, tokens and time; nil if it begins here
	tokens  *budget.Account[spending] // what it may spend, what it did included
	yield   <-chan struct{}           // closed when it is to stop at its next step; nil for never
	record  func(Event)               // gets the events
	inbox   func() []taskMessage      // returns the messages that are to be heard before the next step; nil for none
}

// runTask has an agent carry out a turn. It keeps all limits of spec but those of
// tokens and money, which are in the account, and of time, which ctx has, because a task's
// time includes more than its agent's runs. If the turn is taken away or yields,
// the error is bridge.ErrReassigned or errYielded, and the turn has no outcome.
func runTask(ctx context.Context, spec TaskSpec, agent *Agent, turn taskTurn) (*Result, error) {
	limits := spec.Limits
	limits.MaxTokens, limits.MaxCost, limits.MaxTime = 0, 0, 0
	opts := []RunOption{limits.option(), WithEndOnAnswer(), OnEvent(func(e Event) {
		if bridge.Reassigned(ctx) == nil {
			turn.record(e)
		}
	}), runOption(func(o *runOptions) {
		o.account, o.before, o.yield, o.inbox = turn.tokens, turn.before, turn.yield, turn.inbox
	})}
	var result *Result
	var err error
	if turn.before != nil {
		result, err = agent.Resume(ctx, opts...)
	} else {
		result, err = agent.RunUntilStop(ctx, turn.message.text, append(opts, WithParts(turn.message.parts...))...)
	}
	return result, cmp.Or(bridge.Reassigned(ctx), err)
}
