package pygent

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/x/pygent/internal/callback"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/spelling"
	"github.com/x/pygent/internal/treestore"
)

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
	ref, err = guard.Outlive(ctx, func() (string, error) { return m.files.Collect(ctx, filesOf(parent), paths) })
	logPanic(m.log, "runtime of the task's parent", err)
	if errors.Is(err, treestore.ErrClosed) {
		err = ErrTaskManagerClosed
	}
	return ref, err
}

// filesOf returns a runtime as a place to copy files from and to.
func filesOf(rt Runtime) treestore.Place {
	if t, ok := RuntimeAs[treeRuntime](rt); ok {
		// Describe would wait for the shell of a container that is not up yet.
		path := func(context.Context) string { return t.workspacePath() }
		return treestore.Place{Workspace: path, Pack: t.PackTree, Unpack: t.UnpackTree}
	}
	return treestore.ByPath(rt, func(ctx context.Context) string {
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
	rt, err := guard.Outlive(ctx, func() (Runtime, error) {
		defer m.callbacks.Enter(callback.Self())()
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
		opts, err := guard.Outlive(ctx, func() ([]Option, error) {
			defer m.callbacks.Enter(callback.Self())()
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
	a.mu.Lock()
	from, model, persona := a.opts, a.model, a.persona
	a.mu.Unlock()
	return option(func(o *options) {
		o.model, o.modelName, o.openai = model.given, model.name, slices.Clip(from.openai)
		o.wrapping, o.prices, o.spends = from.wrapping, from.prices, &a.meter
		o.extensions = a.extensions.inherited()
		o.retry, o.window, o.parentsWindow, o.compaction = from.retry, from.window, true, from.compaction
		o.persona, o.prompt, o.instructions, o.survey, o.skills = &persona, from.prompt, from.instructions, from.survey, from.skills.clipped()
		o.registry = a.tools // includes added tools; lacks disabled ones, and those of sources
		o.sources = slices.Clip(from.sources)
		o.askAbove = a
		o.allowed = a.allowed
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

// prepareTasks checks the options of the manager even if it is never made.
func (a *Agent) prepareTasks() error {
	if a.opts.manager != nil {
		a.tasks.manager, a.tasks.given = a.opts.manager, true
		return nil
	}
	o, err := newTaskManagerOptions(a.opts.tasks)
	if err != nil {
		return err
	}
	var run runOptions
	setAll(&run, a.opts.run, RunOption.setRun)
	o.owner = a
	o.limits = o.limits.or(Limits{
		MaxSteps:     run.MaxSteps,
		MaxToolCalls: run.MaxToolCalls,
		StepTimeout:  run.StepTimeout,
	})
	a.tasks.opts = o
	return nil
}

// Tasks returns the manager of the tasks that the agent delegates: the one of
// [WithTaskManager], or the agent's own, which Close closes. Tasks started
// there have the agent as their parent.
func (a *Agent) Tasks() *TaskManager {
	t := &a.tasks
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.manager == nil {
		t.manager = newTaskManager(t.opts)
	}
	return t.manager
}

// closeTasks closes the agent's own manager. If that is made later, it is
// closed from the start. No lock is held meanwhile, because handlers of the
// last events may ask for the manager.
func (a *Agent) closeTasks() error {
	if a.tasks.given {
		return nil
	}
	a.tellUncollected()
	return a.Tasks().Close()
}

// mostUncollected is for how many tasks it is told which of their files go.
const mostUncollected = 5

// tellUncollected tells which files go with the agent's tasks. Those of the tasks of a
// task are nobody's but that task's.
func (a *Agent) tellUncollected() {
	m := a.tasks.made()
	if m == nil || a.opts.depth > 0 {
		return
	}
	local, ok := m.exec.(interface{ uncollected() []string })
	if !ok {
		return
	}
	all := local.uncollected()
	for _, text := range all[:min(len(all), mostUncollected)] {
		a.emit(Event{Type: EventNotice, Text: text})
	}
	if more := len(all) - mostUncollected; more > 0 {
		a.emit(Event{Type: EventNotice, Text: "and so did " + numeral.Count(more, "other task")})
	}
}

// openTasks returns the tasks that the agent delegated and that are still at
// work, or ask something, the oldest first.
func (a *Agent) openTasks(ctx context.Context) ([]TaskStatus, error) {
	m := a.tasks.made()
	if m == nil {
		return nil, nil
	}
	return m.Tasks(ctx, TaskFilter{Parent: a.id, States: []TaskState{TaskQueued, TaskRunning, TaskAwaitingUser}})
}

// bringsRuntime reports whether tasks get a runtime from the manager's options.
func (t *lazyTasks) bringsRuntime() bool { return t.options().runtime }

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

// emitTask passes on an event of a task that the agent delegated, or of a task
// of that one. It waits only for the agent's own handler, because followers of
// a run may be waiting for the task.
func (a *Agent) emitTask(ctx context.Context, e Event) {
	a.mu.Lock()
	closed := a.closed
	a.mu.Unlock()
	if !closed || !a.tasks.given {
		a.emit(e)
		a.eventsHandled(ctx)
	}
}

// logger returns the manager's logger, which is that of the agents that work on
// its tasks.
func (o *taskManagerOptions) logger() *slog.Logger {
	if o.owner != nil {
		return o.owner.log
	}
	return o.log
}
