package pygent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"slices"
	"sync"

	"github.com/x/pygent/internal/callback"
	"github.com/x/pygent/internal/crew"
	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/ledger"
	"github.com/x/pygent/internal/rota"
	"github.com/x/pygent/internal/treestore"
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
	tasks ledger.Ledger[*taskLinks]
	files treestore.Store
	shut  func() error // closes once; later calls return the first result

	life      context.Context // ends after everything else, and ends the followers
	end       context.CancelFunc
	wg        sync.WaitGroup
	allowed   sessionRules   // of tasks that no agent delegates
	callbacks callback.Guard // knows which goroutines run the manager's event handler, approvals and profiles
	approving guard.Baton
	emitting  sync.Mutex

	mu    sync.Mutex
	turns rota.Rota // of the personas
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
	m := &TaskManager{opts: o, log: o.logger(), approving: guard.NewBaton()}
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
	if err := cmp.Or(o.err, checkLimit("option WithTaskDepth", o.depth), alive(ctx)); err != nil {
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
			r.Value.agent.tools.noteStarted()
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
func (m *TaskManager) collect(ctx context.Context, rt Runtime, id, path, dest string, left *treestore.LeftOut) (c CollectedFile, err error) {
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
	if !crew.WaitAtMost(closeHandlers, &m.wg) {
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
	if err := cmp.Or(checkLimit("MaxTasks", o.maxTasks), checkLimit("MaxTaskDepth", o.depth)); err != nil {
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
