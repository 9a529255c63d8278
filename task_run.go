package pygent

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/filediff"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/spelling"
	"github.com/x/pygent/internal/stash"
	"github.com/x/pygent/internal/taskpool"
)

// taskHost is what an executor in this process needs from the manager.
type taskHost interface {
	// openAgent makes the agent of a task, with the files that it begins with.
	openAgent(ctx context.Context, spec TaskSpec, gate taskGate) (*Agent, error)
	// grant sets aside what a run of the task may spend; first tells whether it
	// is the task's first run. It does not call back.
	grant(spec TaskSpec, first bool) (taskGrant, error)
	// logger logs what is not for models and people, such as the stacks of
	// panics.
	logger() *slog.Logger
}

// taskGate is how the agent of a task waits for what is sent to the task: a decision
// about a call, or an answer.
type taskGate struct {
	approve ApprovalFunc
	// ask calls asked, which asks whoever is there, and returns its answer or one that
	// is sent before.
	ask func(ctx context.Context, r AskRequest, asked AskFunc) (Answer, error)
}

// localExecutor carries out tasks in this process, one goroutine each.
type localExecutor struct {
	crew *taskpool.Crew[*localTask, taskGrant, taskMessage]
	host taskHost
}

// newLocalExecutor returns an executor that runs at most max tasks at once,
// with agents made by host.
func newLocalExecutor(max int, host taskHost) *localExecutor {
	return &localExecutor{crew: taskpool.New[*localTask](max), host: host}
}

func (x *localExecutor) start(ctx context.Context, spec TaskSpec, queue bool) error {
	if err := cmp.Or(spec.check(), alive(ctx)); err != nil {
		return err
	}
	task := newLocalTask(spec, x.host)
	task.inbox = func() ([]taskMessage, int64) { return x.crew.Hear(spec.ID) }
	return sayLimit(x.crew.Start(outsideCalls(ctx), spec.ID, task, queue, spec.message(), func(t *localTask) error {
		if !t.spec.message().same(spec.message()) {
			return ErrTaskExists
		}
		return nil
	}))
}

// outsideCalls returns a context with the values of ctx that belongs to no call.
func outsideCalls(ctx context.Context) context.Context {
	return context.WithValue(ctx, callKey{}, (*callContext)(nil))
}

// sayLimit adds the option to change to the error of a task for which there is
// no room.
func sayLimit(err error) error {
	if errors.Is(err, ErrTooManyTasks) {
		return fmt.Errorf("%w (PYGENT_MAX_TASKS)", err)
	}
	return err
}

// task returns a task by its id.
func (x *localExecutor) task(ctx context.Context, id string) (*localTask, error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	return x.crew.Task(id)
}

func (x *localExecutor) status(ctx context.Context, id string) (TaskStatus, error) {
	t, err := x.task(ctx, id)
	if err != nil {
		return TaskStatus{}, err
	}
	return t.snapshot(), nil
}

func (x *localExecutor) list(ctx context.Context, filter TaskFilter) ([]TaskStatus, error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	tasks := x.crew.Tasks()
	all := make([]TaskStatus, len(tasks))
	for i, t := range tasks {
		all[i] = t.snapshot()
	}
	slices.SortFunc(all, func(a, b TaskStatus) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return filter.choose(all)
}

func (x *localExecutor) events(ctx context.Context, id string, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		t, err := x.task(ctx, id)
		if err != nil {
			yield(Event{}, err)
			return
		}
		for e := range t.log.Follow(ctx, after) {
			if !yield(e, nil) {
				return
			}
		}
		if ctx.Err() != nil {
			yield(Event{}, safecall.ContextError(ctx))
		}
	}
}

func (x *localExecutor) send(ctx context.Context, id string, in taskInput) (number int64, err error) {
	if err := alive(ctx); err != nil {
		return 0, err
	}
	switch in.Kind {
	case inputMessage:
		number, err = x.crew.Message(outsideCalls(ctx), id, in.ID, taskMessage{in.Text, in.Parts, in.Early})
		return number, sayLimit(err)
	case inputDecision:
		return 0, x.crew.Tell(id, in.ID, func(t *localTask) error {
			return t.decide(in.Request, in.Call, in.Decision)
		})
	case inputAnswer:
		return 0, x.crew.Tell(id, in.ID, func(t *localTask) error { return t.answer(in.Request, in.Answer) })
	case inputCancel:
		parked, err := x.crew.Cancel(id, in.ID, &taskCancelled{reason: in.Text})
		select {
		case <-parked:
		case <-ctx.Done(): // the task has its input, and stopping the container continues by itself
		}
		return 0, err
	}
	return 0, fmt.Errorf("input of the unknown kind %q", in.Kind)
}

func (x *localExecutor) history(ctx context.Context, id string) ([]Message, error) {
	t, err := x.task(ctx, id)
	if err != nil {
		return nil, err
	}
	if agent := t.worker(); agent != nil {
		return agent.History().Messages(), nil
	}
	return nil, nil
}

func (x *localExecutor) export(ctx context.Context, id, path string, w io.Writer) (asOf time.Time, live bool, err error) {
	t, err := x.task(ctx, id)
	if err != nil {
		return asOf, false, err
	}
	agent := t.worker()
	if agent == nil {
		return asOf, false, t.noWorkspace()
	}
	before := t.snapshot()
	asOf = time.Now()
	err = filesOf(agent.Runtime()).CopyTo(ctx, w, path)
	if errors.Is(err, ErrRuntimeClosed) {
		if _, gone := x.task(ctx, id); gone != nil {
			return asOf, false, fmt.Errorf("%w any more: it was removed meanwhile", gone)
		}
		return asOf, false, ErrTaskManagerClosed
	}
	if err == nil {
		t.collected()
	}
	after := t.snapshot()
	return asOf, !before.State.AtRest() || !after.State.AtRest() || before.Runs != after.Runs, err
}

// uncollected tells which files of tasks at rest nobody has collected, in a line for each
// task, the oldest first.
func (x *localExecutor) uncollected() (told []string) {
	tasks := x.crew.Tasks()
	slices.SortStableFunc(tasks, func(a, b *localTask) int { return a.snapshot().Created.Compare(b.snapshot().Created) })
	for _, t := range tasks {
		if text := t.uncollected(); text != "" {
			told = append(told, text)
		}
	}
	return told
}

func (x *localExecutor) remove(ctx context.Context, id string) error {
	if err := alive(ctx); err != nil {
		return err
	}
	closed, err := x.crew.Remove(ctx, id, func(err error) error { return taskError(id, err) })
	if err != nil {
		return err
	}
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
		return fmt.Errorf("its runtime is still being removed: %w", safecall.ContextError(ctx))
	}
}

// errManagerClosing cancels the tasks of a manager that is closed.
var errManagerClosing error = &taskCancelled{reason: ErrTaskManagerClosed.Error()}

func (x *localExecutor) close() error {
	left, err := x.crew.Close(errManagerClosing, taskError)
	for _, id := range left.Runs {
		err = errors.Join(err, taskError(id, fmt.Errorf("its run %w", ErrLeftBehind)))
	}
	if left.Removals {
		err = errors.Join(err, fmt.Errorf("the removal of a task %w", ErrLeftBehind))
	}
	return err
}

// TaskProfile makes the options of the agent that works on a task: its model,
// its tools, its rules. It provides functions and secrets of this process,
// which a [TaskSpec] cannot hold. The options are added to those of the
// manager's agents. The spec's own persona, model name and limits override
// them. So does its runtime, unless the profile gives one by [WithRuntime],
// which the task then owns, or [LendRuntime].
//
// A profile must honour ctx and may be called by many goroutines.
type TaskProfile func(ctx context.Context, spec TaskSpec) ([]Option, error)

// taskProfiles holds what RegisterTaskProfile adds.
var taskProfiles struct {
	sync.RWMutex
	byName map[string]TaskProfile
}

// RegisterTaskProfile names a profile for the tasks of this process, replacing
// one of the same name. A process that carries out tasks for others must
// register the profiles that they name.
func RegisterTaskProfile(name string, p TaskProfile) error {
	if !taskID.MatchString(name) {
		return fmt.Errorf("task profile %q: want a name of 1 to 64 letters, digits, dots, dashes or underscores", name)
	}
	if p == nil {
		return fmt.Errorf("task profile %s: the function is nil", name)
	}
	taskProfiles.Lock()
	defer taskProfiles.Unlock()
	if taskProfiles.byName == nil {
		taskProfiles.byName = map[string]TaskProfile{}
	}
	taskProfiles.byName[name] = p
	return nil
}

// taskProfile returns the profile with the given name. The empty name is a
// profile that adds nothing.
func taskProfile(name string) (TaskProfile, error) {
	if name == "" {
		return func(context.Context, TaskSpec) ([]Option, error) { return nil, nil }, nil
	}
	taskProfiles.RLock()
	defer taskProfiles.RUnlock()
	if p, ok := taskProfiles.byName[name]; ok {
		return p, nil
	}
	names := slices.Sorted(maps.Keys(taskProfiles.byName))
	if len(names) == 0 {
		return nil, fmt.Errorf("no task profile %q: none is registered", name)
	}
	return nil, fmt.Errorf("no task profile %q; the profiles are: %s", name, strings.Join(names, ", "))
}

// copyFiles copies files of the parent's workspace into the store.
func (m *TaskManager) copyFiles(ctx context.Context, parent Runtime, paths []string) (ref string, err error) {
	switch {
	case len(paths) == 0:
		return "", nil
	case parent == nil:
		return "", errors.New("files need a parent runtime to copy them from")
	}
	ref, err = safecall.Outlive(ctx, func() (string, error) { return m.files.Collect(ctx, filesOf(parent), paths) })
	logPanic(m.log, "runtime of the task's parent", err)
	if errors.Is(err, stash.ErrClosed) {
		err = ErrTaskManagerClosed
	}
	return ref, err
}

// filesOf returns a runtime as a place to copy files from and to.
func filesOf(rt Runtime) stash.Place {
	if t, ok := RuntimeAs[treeRuntime](rt); ok {
		// Describe would wait for the shell of a container that is not up yet.
		path := func(context.Context) string { return t.workspacePath() }
		return stash.Place{Workspace: path, Pack: t.PackTree, Unpack: t.UnpackTree}
	}
	return stash.ByPath(rt, func(ctx context.Context) string {
		if d, ok := RuntimeAs[Describer](rt); ok {
			return d.Describe(ctx).Workspace
		}
		return ""
	})
}

// openAgent makes the agent of a task and copies in the task's first files. The
// executor calls it when there is room.
func (m *TaskManager) openAgent(ctx context.Context, spec TaskSpec, gate taskGate) (*Agent, error) {
	r := m.tasks.Record(spec.ID)
	if r == nil {
		return nil, ErrUnknownTask
	}
	m.mu.Lock()
	private := r.Value.private
	m.mu.Unlock()
	agent, err := m.taskAgent(ctx, spec, r.Value.agent, private, gate)
	if err != nil {
		return nil, fmt.Errorf("make its agent: %w", err)
	}
	if err := m.files.Unpack(ctx, filesOf(agent.Runtime()), spec.Files); err != nil {
		return nil, errors.Join(fmt.Errorf("copy files: %w", err), agent.Close())
	}
	m.releaseFiles(r)
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Value.worker = agent
	return agent, nil
}

// taskAgent makes the agent that carries out spec. A profile that panics, or
// ignores its context, causes an error.
func (m *TaskManager) taskAgent(ctx context.Context, spec TaskSpec, by *Agent, private taskPrivate, gate taskGate) (*Agent, error) {
	profile, err := m.profileOptions(ctx, spec, private)
	if err != nil {
		return nil, err
	}
	// Several agents cannot share the history that the environment may name.
	fresh := option(func(o *options) { o.historyFile = "" })
	o, err := resolveOptions(slices.Concat([]Option{fresh}, m.agentOptions(by, spec.Rules), profile, []Option{m.workingOn(spec, gate)}))
	if err == nil {
		err = m.chooseRuntime(ctx, &o, spec, private)
	}
	var agent *Agent
	if err == nil {
		agent, err = newAgent(ctx, o)
	}
	if err != nil && o.runtime != nil && !o.lent {
		err = errors.Join(err, o.runtime.Cleanup()) // the runtime belongs to the task
	}
	return agent, err
}

// chooseRuntime has the agent of a task work in a runtime like the parent's,
// unless its profile gave one.
func (m *TaskManager) chooseRuntime(ctx context.Context, o *options, spec TaskSpec, private taskPrivate) error {
	if o.runtime != nil {
		return nil
	}
	o.taskInfo.OwnWorkspace = true
	if spec.Runtime.Kind == kindCustom {
		// Set like this, it overrides options of other runtimes, as the settings of
		// a parent of this package do, and contradicts none.
		var err error
		o.runtime, err = m.customTaskRuntime(ctx, private)
		return err
	}
	setAll(o, addAll(nil, spec.Runtime.options(private)), Option.setAgent)
	return nil
}

// workingOn returns the option that makes an agent work on a task.
func (m *TaskManager) workingOn(spec TaskSpec, gate taskGate) Option {
	return option(func(o *options) {
		o.id, o.task, o.depth, o.rules, o.manager = spec.ID, spec.ID, spec.Depth, spec.Rules, m
		o.taskInfo = spec.info()
		o.gate, o.parentListens = gate, func() (<-chan struct{}, bool) { return m.parentListens(spec.ID) }
		if o.approve == nil {
			o.approve, o.approveAll, o.asksManager = gate.approve, o.approveAll || m.opts.approve != nil, true
		}
		if o.allowed == nil {
			o.allowed = &m.allowed
		}
		if spec.Persona != (Persona{}) {
			o.persona = &spec.Persona
		}
		if spec.Model != "" {
			if spec.Model != o.modelName {
				o.window = 0 // that of another model
			}
			o.modelName = spec.Model
		}
		if spec.Limits.MaxSteps != 0 {
			o.run = append(o.run, MaxSteps(spec.Limits.MaxSteps)) // so that its system message says the number
		}
	})
}

// customTaskRuntime has a parent's custom runtime make another of its kind.
func (m *TaskManager) customTaskRuntime(ctx context.Context, private taskPrivate) (Runtime, error) {
	if private.fork == nil {
		return nil, errNoTaskRuntime
	}
	rt, err := safecall.Outlive(ctx, func() (Runtime, error) {
		defer m.callbacks.Enter(safecall.Current())()
		return private.fork(ctx)
	})
	if err == nil && rt == nil {
		err = errors.New("it made none")
	}
	if err != nil {
		return nil, fmt.Errorf("make a runtime like the parent's: %w", err)
	}
	return rt, nil
}

// profileOptions asks the profiles of a task in turn.
func (m *TaskManager) profileOptions(ctx context.Context, spec TaskSpec, private taskPrivate) ([]Option, error) {
	named, err := taskProfile(spec.Profile)
	if err != nil {
		return nil, err
	}
	var all []Option
	for _, profile := range append([]TaskProfile{named}, private.profiles...) {
		opts, err := safecall.Outlive(ctx, func() ([]Option, error) {
			defer m.callbacks.Enter(safecall.Current())()
			return profile(ctx, spec)
		})
		if err != nil {
			return nil, fmt.Errorf("profile %s: %w", spec.Profile, err)
		}
		all = append(all, opts...)
	}
	return all, nil
}

// agentOptions are the options that an agent starts from before its profile:
// those of the agent that delegates, with its rules, and the manager's.
func (m *TaskManager) agentOptions(by *Agent, rules TaskRules) []Option {
	if by == nil {
		return append([]Option{rules.option()}, m.opts.agent...)
	}
	return slices.Concat([]Option{by.inherited(), rules.option(), environmentIncluded{}}, m.opts.agent)
}

// inherited returns the option by which another agent shares a's model and
// tools; [TaskRules] has the rules. Everything else, such as conversation,
// runtime, handlers and limits, is its own.
func (a *Agent) inherited() Option {
	from, model, persona := a.opts, a.model.current(), a.Persona()
	return option(func(o *options) {
		o.model, o.modelName, o.openai = model.given, model.name, slices.Clip(from.openai)
		o.wrapping, o.prices, o.spends = from.wrapping, from.prices, &a.meter
		o.extensions = a.extensions.inherited()
		o.retry, o.window, o.parentsWindow, o.compaction = from.retry, from.window, true, from.compaction
		o.persona, o.prompt, o.project = &persona, from.prompt, from.project
		o.registry = a.tools // includes added tools; lacks disabled ones, and those of sources
		o.sources = slices.Clip(from.sources)
		o.askAbove = a
		o.allowed = a.deciders.allowed
		o.logger = from.logger
	})
}

// persona chooses who works on a task: the persona it names, or the next in
// turn. turn is 0 if none was taken.
func (m *TaskManager) persona(q taskRequest) (p Persona, turn int, err error) {
	switch {
	case q.persona != nil:
		return q.persona.orDefault(), 0, nil
	case q.name != "":
		p, err = personaNamed(m.opts.personas, q.name)
		return p, 0, err
	case len(m.opts.personas) == 0:
		return Persona{}, 0, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	turn = m.turns.Take()
	return m.opts.personas[(turn-1)%len(m.opts.personas)], turn, nil
}

// giveBack returns the turn of a task that did not start.
func (m *TaskManager) giveBack(turn int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if turn > 0 {
		m.turns.GiveBack(turn)
	}
}

// personaNamed finds a persona by its name, ignoring case.
func personaNamed(personas []Persona, name string) (Persona, error) {
	names := make([]string, len(personas))
	for i, p := range personas {
		if strings.EqualFold(p.Name, name) {
			return p, nil
		}
		names[i] = p.Name
	}
	name = cut.Head(name, shownPrompt)
	if len(names) == 0 {
		return Persona{}, fmt.Errorf("no persona %q: no task personas are configured", name)
	}
	if like := spelling.Nearest(name, names); like != "" {
		return Persona{}, fmt.Errorf("no persona %q, did you mean %s?", name, like)
	}
	return Persona{}, fmt.Errorf("no persona %q; the personas are: %s", name, cut.Head(strings.Join(names, ", "), maxPersonaNames))
}

// lazyTasks is an agent's own task manager, which is made when it is first
// needed.
type lazyTasks struct {
	opts  taskManagerOptions
	given bool // the manager belongs to the caller

	mu      sync.Mutex // guards manager
	manager *TaskManager
}

// prepare checks the options of the manager even if it is never made.
func (t *lazyTasks) prepare(from *options, owner *Agent) error {
	if from.manager != nil {
		t.manager, t.given = from.manager, true
		return nil
	}
	o, err := newTaskManagerOptions(from.tasks)
	if err != nil {
		return err
	}
	var run runOptions
	setAll(&run, from.run, RunOption.setRun)
	o.owner = owner
	o.limits = o.limits.or(Limits{
		MaxSteps:     run.MaxSteps,
		MaxToolCalls: run.MaxToolCalls,
		StepTimeout:  run.StepTimeout,
	})
	t.opts = o
	return nil
}

// Tasks returns the manager of the tasks that the agent delegates: the one of
// [WithTaskManager], or the agent's own, which Close closes. Tasks started
// there have the agent as their parent.
func (a *Agent) Tasks() *TaskManager { return a.tasks.make() }

func (t *lazyTasks) make() *TaskManager {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.manager == nil {
		t.manager = newTaskManager(t.opts)
	}
	return t.manager
}

// close closes the agent's own manager. If that is made later, it is
// closed from the start. No lock is held meanwhile, because handlers of the
// last events may ask for the manager.
func (t *lazyTasks) close() error {
	if t.given {
		return nil
	}
	t.emitUncollected()
	return t.make().Close()
}

// mostUncollected is for how many tasks it is told which of their files go.
const mostUncollected = 5

// emitUncollected emits which files go with the agent's tasks. Those of the tasks of a
// task are nobody's but that task's.
func (t *lazyTasks) emitUncollected() {
	m := t.made()
	if m == nil || m.opts.owner.opts.depth > 0 {
		return
	}
	local, ok := m.exec.(interface{ uncollected() []string })
	if !ok {
		return
	}
	all := local.uncollected()
	for _, text := range all[:min(len(all), mostUncollected)] {
		m.opts.owner.emit(Event{Type: EventNotice, Text: text})
	}
	if more := len(all) - mostUncollected; more > 0 {
		m.opts.owner.emit(Event{Type: EventNotice, Text: "and so did " + numeral.Count(more, "other task")})
	}
}

// open returns the tasks that an agent delegated and that are still at work, or ask
// something, the oldest first.
func (t *lazyTasks) open(ctx context.Context, parent string) ([]TaskStatus, error) {
	m := t.made()
	if m == nil {
		return nil, nil
	}
	return m.Tasks(ctx, TaskFilter{Parent: parent, States: []TaskState{TaskQueued, TaskRunning, TaskAwaitingUser}})
}

// inCallback reports whether the caller is code that closing the agent's own tasks would
// wait for.
func (t *lazyTasks) inCallback() bool {
	m := t.made()
	return m != nil && !t.given && m.closesItself()
}

// mayBegin reports whether an agent of a depth can have tasks: it is not as deep as agents
// may be already, and its runtime can make another of its kind, or the manager's options
// give one. Otherwise the delegation tools are of no use.
func (t *lazyTasks) mayBegin(rules TaskRules, depth int, rt Runtime) bool {
	if rules.MaxDepth != 0 && depth >= limitOr(rules.MaxDepth, 0) {
		return false
	}
	_, ours := RuntimeAs[*workspaceRuntime](rt)
	_, makes := RuntimeAs[TaskRuntimeMaker](rt)
	return t.options().runtime || ours || makes
}

// options are those of the manager, which need not be made for it.
func (t *lazyTasks) options() taskManagerOptions {
	if t.given {
		return t.manager.opts
	}
	return t.opts
}

// made returns the manager, or nil if it was not needed yet.
func (t *lazyTasks) made() *TaskManager {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.manager
}

// ID returns the agent's id: what [WithID] set, or the id of the task it works
// on.
func (a *Agent) ID() string { return a.id }

// agentID chooses the id of an agent.
func (o *options) agentID() (string, error) {
	switch {
	case o.id != "" && !taskID.MatchString(o.id):
		return "", fmt.Errorf("option WithID: %q: want 1 to 64 letters, digits, dots, dashes or underscores", o.id)
	case o.id != "":
		return o.id, nil
	case o.historyFile == "":
		return newID(), nil
	}
	path, err := filepath.Abs(o.historyFile)
	if err != nil {
		return "", fmt.Errorf("history file: %w", err)
	}
	return owner.IDOf(path), nil
}

// newID returns a new id, short enough for a model to repeat it.
func newID() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// logger returns the manager's logger, which is that of the agents that work on
// its tasks.
func (o *taskManagerOptions) logger() *slog.Logger {
	if o.owner != nil {
		return o.owner.log
	}
	return o.log
}

// localTask is a task of a [localExecutor], with its agent and status. Between
// runs the agent is kept, for its files and for further messages.
type localTask struct {
	spec  TaskSpec
	host  taskHost
	log   *taskpool.Log[Event]
	inbox func() (early []taskMessage, last int64) // takes the messages that the run hears on its way

	mu        sync.Mutex // guards what follows
	abandoned bool       // its run did not end, and is ignored from now on
	status    TaskStatus
	agent     *Agent                   // nil until the first run has made it
	answers   map[string]chan Decision // for calls that wait for a decision, by their ids
	began     filediff.Inventory       // what the workspace held before the first run
	sent      chan Answer              // gets the answer that is sent to the question of a tool; nil where none is asked
	did       lastCall                 // of the run that goes on
	changed   *TaskLeft                // by the last run that finished and called tools
	taken     bool                     // some of its files were collected since the last run
}

func newLocalTask(spec TaskSpec, host taskHost) *localTask {
	return &localTask{spec: spec, host: host, log: taskpool.NewLog(taskEvents), status: TaskStatus{
		ID:      spec.ID,
		Parent:  spec.Parent,
		Root:    spec.Rules.Root,
		Call:    spec.Call,
		Prompt:  spec.Prompt,
		Persona: spec.Persona,
		Depth:   spec.Depth,
		Created: time.Now(),
	}}
}

// snapshot returns the status as it is now.
func (t *localTask) snapshot() TaskStatus {
	t.mu.Lock()
	defer t.mu.Unlock()
	status := t.status
	status.Seq = t.log.Last()
	return status
}

func (t *localTask) worker() *Agent {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.agent
}

// change changes the status and emits an event. The caller holds t.mu.
func (t *localTask) change(f func(*TaskStatus)) {
	f(&t.status)
	status := t.status
	status.LastEvent = nil // avoids nesting events in events
	text := status.String()
	if names := status.Left.filesLeft().Named(); names != "" {
		text += "; changed " + names
	}
	t.log.Append(Event{Time: time.Now(), Type: EventTask, Task: t.spec.ID, Input: status.Input, Text: text, TaskStatus: &status})
}

// AtRest implements [taskpool.Task].
func (t *localTask) AtRest() bool { return t.snapshot().State.AtRest() }

// Grant implements [taskpool.Task].
func (t *localTask) Grant(first bool) (taskGrant, error) { return t.host.grant(t.spec, first) }

// Begin implements [taskpool.Task].
func (t *localTask) Begin(message int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.change(func(s *TaskStatus) {
		s.renew(TaskRunning)
		t.did = lastCall{}
		s.Input = message
		s.Started = time.Now()
		s.Runs++
	})
}

// Waiting implements [taskpool.Task].
func (t *localTask) Waiting(messages int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status.Waiting = messages
}

// Wait implements [taskpool.Task].
func (t *localTask) Wait() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.change(func(s *TaskStatus) { s.renew(TaskQueued) })
}

// Stop implements [taskpool.Task].
func (t *localTask) Stop(cause error) (asked bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	asked = t.status.State == TaskAwaitingUser
	if asked || t.status.State == TaskQueued {
		t.change(func(s *TaskStatus) { s.cancel(cause.Error()) })
	}
	return asked
}

// Abandon implements [taskpool.Task].
func (t *localTask) Abandon() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.abandoned = !t.status.State.AtRest(); t.abandoned {
		t.change(func(s *TaskStatus) { s.cancel("its run " + ErrLeftBehind.Error()) })
	}
	return t.abandoned
}

// Run implements [taskpool.Task].
func (t *localTask) Run(ctx context.Context, msg taskMessage, grant taskGrant, ended func(finish func(more bool))) {
	ctx, cancel := context.WithTimeoutCause(ctx, grant.timeout, errTaskTimeout)
	defer cancel()
	before := t.snapshot()
	safecall.Do(func() (*Result, error) { return t.work(ctx, msg, grant) }, func(result *Result, err error) {
		if p, ok := err.(*safecall.PanicError); ok { // a panic of the agent's own code is wrapped, and already logged
			logPanic(t.host.logger(), "task "+t.spec.ID, p)
		}
		grant.tokens.Settle()
		limits := t.spec.Limits
		limits.MaxTime = grant.timeout
		cause := context.Cause(ctx)
		outcome := func(s *TaskStatus) { s.end(limits, cause, err) }
		left := t.left(result, cause, outcome) // a container must run to tell
		if result == nil || result.Status != StatusAwaitingUser {
			t.Park()
		}
		ended(func(more bool) {
			t.finish(before, result, more, func(s *TaskStatus) { s.Left = left; outcome(s) })
		})
	})
}

// Refuse implements [taskpool.Task].
func (t *localTask) Refuse(err error) {
	t.finish(t.snapshot(), nil, false, func(s *TaskStatus) { s.fail(err) })
}

// finish records the outcome of a run. If the task has more to do, it does not
// rest, unless it was cancelled.
func (t *localTask) finish(before TaskStatus, result *Result, more bool, outcome func(*TaskStatus)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.abandoned {
		return // Close has reported it already
	}
	after := t.status
	after.Ended, after.Result, after.Approvals, after.Asked = time.Now(), result, nil, nil
	t.sent, t.taken = nil, t.taken && t.did.title == ""
	if result != nil {
		after.Steps = before.Steps + result.Steps
		after.ToolCalls = before.ToolCalls + result.ToolCalls
		after.Usage = before.Usage.Add(result.Usage)
	}
	outcome(&after)
	if more && after.State != TaskCancelled {
		after.State, after.Reason, after.Left = t.status.State, "", nil // it does not rest: the next run begins at once, and says so
		t.status = after
		return
	}
	t.change(func(s *TaskStatus) { *s = after })
}

// work makes the agent, if there is none yet, and runs it.
func (t *localTask) work(ctx context.Context, msg taskMessage, grant taskGrant) (_ *Result, err error) {
	if ctx.Err() != nil {
		return nil, safecall.ContextError(ctx)
	}
	agent := t.worker()
	if agent == nil {
		if agent, err = t.host.openAgent(ctx, t.spec, taskGate{approve: t.approve, ask: t.ask}); err != nil {
			logPanic(t.host.logger(), "task "+t.spec.ID, err)
			return nil, err
		}
		began := listInventory(agent.Runtime(), lookWithin)
		if !t.employ(agent, began) {
			return nil, agent.Close()
		}
	}
	return runTask(ctx, t.spec, agent, taskTurn{message: msg, tokens: grant.tokens, record: t.record, inbox: t.hear})
}

// hear takes the messages that the run hears before its next step.
func (t *localTask) hear() []taskMessage {
	early, last := t.inbox()
	if len(early) > 0 {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.status.Input = last
	}
	return early
}

// ask has somebody answer a question of which an event has told the task's
// followers. An answer that is sent to the task before counts instead.
func (t *localTask) ask(ctx context.Context, r AskRequest, asked AskFunc) (Answer, error) {
	t.mu.Lock()
	sent := t.sent
	t.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	var answer Answer
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		answer, err = asked(ctx, r)
	}()
	select {
	case answer := <-sent:
		cancel()
		<-done
		return answer, nil
	case <-done:
		cancel()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sent == sent {
		t.status.Asked = nil // nobody can send one from now on
	}
	select {
	case answer := <-sent:
		return answer, nil // whoever sent it was told that it counts
	default:
		return answer, err
	}
}

// recordQuestion makes room for the answer to the question of an event, or notes that
// none is wanted any more. The caller holds t.mu.
func (t *localTask) recordQuestion(e Event) {
	switch e.Type {
	case EventQuestion:
		t.sent = make(chan Answer, 1)
	case EventAnswer:
		t.sent = nil
	}
}

// answer answers the question of the event with the number request.
func (t *localTask) answer(request int64, a Answer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q := t.status.Asked; q == nil || t.sent == nil || q.Seq != request {
		return ErrNotAsked
	}
	t.sent <- a // has room, since nobody answered before
	t.status.Asked = nil
	return nil
}

// employ keeps the agent for the task, and what is in its workspace as it begins. It
// returns false if the task was abandoned while the agent was made.
func (t *localTask) employ(agent *Agent, began filediff.Inventory) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.abandoned {
		t.agent, t.began = agent, began
	}
	return !t.abandoned
}

// Park stops the container of a task at rest, with everything that runs in it, or the
// process under which commands ran on this machine, unless background jobs still do.
// The files stay, and the command of a further message starts it again.
func (t *localTask) Park() {
	if agent := t.worker(); agent != nil {
		if rt, ok := RuntimeAs[*workspaceRuntime](agent.Runtime()); ok && !agent.opts.lent {
			if err := agent.sources.close(); err != nil { // their servers end with the container; the next run opens them again
				t.host.logger().Warn("the tools of a task at rest", "task", t.spec.ID, "error", err)
			}
			rt.Park()
		}
	}
}

// noWorkspace returns an error that says why the task has no files.
func (t *localTask) noWorkspace() error {
	if s := t.snapshot(); s.State.AtRest() {
		return fmt.Errorf("it has no workspace: it ended before it had one (%s)", s)
	}
	return errors.New("it has no workspace yet")
}

// record records an event of the agent. It leaves out events of tasks that the
// agent delegated, which have logs of their own.
func (t *localTask) record(e Event) {
	if e.Task != "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.abandoned {
		return
	}
	e.Task, e.Input = t.spec.ID, t.status.Input
	e.Seq = t.log.Append(e)
	t.status.apply(e)
	t.did.update(e)
	t.recordRequest(e)
	t.recordQuestion(e)
}

// closeAgent is how long closing an agent and its runtime may take. An agent
// that keeps to its own limits needs less.
const closeAgent = 3 * time.Minute

// Close closes the agent, which removes its workspace. What does not end in
// time is left behind.
func (t *localTask) Close() error {
	t.log.End()
	agent := t.worker()
	if agent == nil {
		return nil
	}
	end := agent.Close
	t.mu.Lock()
	if t.abandoned { // Close would wait for its run
		end = func() error { return agent.cleanUp(agent.runtime, agent.opts.lent) }
	}
	t.mu.Unlock()
	err := safecall.Within(closeAgent, end)
	if err == ErrLeftBehind {
		return fmt.Errorf("its runtime %w: its Cleanup took longer than %s", err, closeAgent)
	}
	return err
}

// logger implements [taskHost].
func (m *TaskManager) logger() *slog.Logger { return m.log }

// SendOption adjusts a message to a task.
type SendOption func(*taskInput)

// WithMessageID names a message. Sending a second one of the same name to the
// task has no effect but to return the number of the first, so a failed Send can be repeated safely.
func WithMessageID(id string) SendOption { return func(in *taskInput) { in.ID = "message-" + id } }

// WithNextStep has a task at work hear the message before its model is asked the
// next time, as [Agent.Say] has an agent. It is an error if the task was cancelled and
// has not ended yet.
func WithNextStep() SendOption { return func(in *taskInput) { in.Early = true } }

// message is the message that a task begins with.
func (s TaskSpec) message() taskMessage { return taskMessage{text: s.Prompt, parts: s.Parts} }

// taskMessage is what a run of a task begins with, or hears on its way.
type taskMessage struct {
	text  string
	parts []Part
	early bool // a run that goes on may hear it
}

// Early implements [taskpool.Message].
func (m taskMessage) Early() bool { return m.early }

// Size is about how many bytes the message has.
func (m taskMessage) Size() int { return sizeOfMessage(chat.UserMessage(m.text, m.parts...)) }

// same reports whether both messages say the same.
func (m taskMessage) same(other taskMessage) bool {
	return m.text == other.text && slices.EqualFunc(m.parts, other.parts, func(a, b Part) bool {
		one, err := a.MarshalJSON()
		two, failed := b.MarshalJSON()
		return cmp.Or(err, failed) == nil && bytes.Equal(one, two)
	})
}

// check refuses a message that no agent could take up.
func (m taskMessage) check() error {
	switch {
	case m.text == "" && len(m.parts) == 0:
		return errors.New("the message is empty")
	case m.Size() > taskpool.MaxMailBytes:
		return fmt.Errorf("the message has %d bytes, more than %d", m.Size(), taskpool.MaxMailBytes)
	}
	return chat.UserMessage(m.text, m.parts...).Check()
}

// taskInput is what is sent to a task.
type taskInput struct {
	ID    string        `json:"id"` // sending an input with the same id twice has no effect
	Kind  taskInputKind `json:"kind"`
	Text  string        `json:"text,omitempty"`  // the message, or why the task is cancelled
	Parts []Part        `json:"parts,omitempty"` // of the message
	Early bool          `json:"early,omitempty"` // a run that goes on may take the message up

	Request  int64    `json:"request,omitempty"` // number of the event that asked for the decision; 0 if Call names the call
	Call     string   `json:"call,omitempty"`    // id of the call that is decided about
	Decision Decision `json:"decision,omitzero"`
	Answer   Answer   `json:"answer,omitzero"` // to the question of the event with the number Request
}

type taskInputKind string

const (
	inputMessage  taskInputKind = "message"  // of the user; a task at work takes it up when it rests, or before its next step
	inputDecision taskInputKind = "decision" // about a call that needs approval
	inputAnswer   taskInputKind = "answer"   // to the question of a tool
	inputCancel   taskInputKind = "cancel"   // a request to end; the status tells when that is done
)
