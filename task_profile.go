package pygent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/x/pygent/internal/callback"
)

// TaskProfile makes the options of the agent that works on a task: its model,
// its tools, its rules. It is where functions and secrets of this process come
// in, because a [TaskSpec] has none. The options are added to those of the
// manager's agents. What the spec itself says wins: persona, model name,
// limits; and so does its runtime, unless the profile gives one by
// [WithRuntime], which the task then owns.
//
// A profile must honour ctx and may be called by many goroutines.
type TaskProfile func(ctx context.Context, spec TaskSpec) ([]Option, error)

// taskProfiles holds what RegisterTaskProfile adds.
var taskProfiles struct {
	sync.RWMutex
	byName map[string]TaskProfile
}

// RegisterTaskProfile names a profile for the tasks of this process, replacing
// one of the same name. A process that carries out tasks of others has to
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

// taskProfile returns the profile of the given name; the empty one adds nothing.
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

// taskPrivate is what a task needs and its spec must not hold.
type taskPrivate struct {
	files    string                                     // the reference to the files to begin with; empty once unpacked
	profiles []TaskProfile                              // of this task alone
	env      []string                                   // of the parent's commands
	fork     func(ctx context.Context) (Runtime, error) // makes a runtime like a custom parent's
}

// TaskRuntimeMaker is implemented by custom runtimes whose agents delegate:
// it makes another runtime of the same kind, with a workspace of its own. The
// task owns it, and cleans it up. It must outlive ctx.
type TaskRuntimeMaker interface {
	NewTaskRuntime(ctx context.Context) (Runtime, error)
}

// taskRuntimeOf tells how to make runtimes of the parent's kind. It reads the
// parent's settings only: the parent may be gone when they are used.
func taskRuntimeOf(parent Runtime) (TaskRuntime, taskPrivate) {
	switch parent := parent.(type) {
	case nil:
		return TaskRuntime{}, taskPrivate{}
	case *workspaceRuntime:
		kind, env := parent.sibling()
		return kind, taskPrivate{env: env}
	case TaskRuntimeMaker:
		return TaskRuntime{Kind: kindCustom}, taskPrivate{fork: parent.NewTaskRuntime}
	}
	return TaskRuntime{Kind: kindCustom}, taskPrivate{}
}

// kindCustom is the kind of a runtime that is not of this package.
const kindCustom = "custom"

var errNoTaskRuntime = errors.New("the parent's runtime cannot make another of its kind: implement TaskRuntimeMaker, or give the profile a runtime")

// taskAgent makes the agent that carries out spec. A profile that panics, or
// ignores its context, is an error.
func (m *TaskManager) taskAgent(ctx context.Context, spec TaskSpec, by *Agent, private taskPrivate, gate ApprovalFunc) (*Agent, error) {
	profile, err := m.profileOptions(ctx, spec, private)
	if err != nil {
		return nil, err
	}
	// The environment may name a history, but not for several agents at once.
	fresh := func(o *options) { o.historyFile = "" }
	o, err := resolveOptions(slices.Concat([]Option{fresh}, m.agentOptions(by), profile, []Option{m.workingOn(spec, gate)}))
	if err == nil {
		err = m.chooseRuntime(ctx, &o, spec, private)
	}
	var agent *Agent
	if err == nil {
		agent, err = newAgent(o)
	}
	if err != nil && o.runtime != nil {
		err = errors.Join(err, o.runtime.Cleanup()) // which is the task's
	}
	return agent, err
}

// chooseRuntime has the agent of a task work in a runtime like the parent's,
// unless its profile gave one.
func (m *TaskManager) chooseRuntime(ctx context.Context, o *options, spec TaskSpec, private taskPrivate) error {
	switch {
	case o.runtime != nil:
		return nil
	case spec.Runtime.Kind == kindCustom:
		rt, err := m.customTaskRuntime(ctx, private)
		WithRuntime(rt)(o)
		return err
	}
	WithRuntimeOptions(spec.Runtime.options(private.env)...)(o)
	return nil
}

// workingOn makes an agent the one that works on a task.
func (m *TaskManager) workingOn(spec TaskSpec, gate ApprovalFunc) Option {
	return func(o *options) {
		o.id, o.task, o.depth, o.manager = spec.ID, spec.ID, spec.Depth, m
		if o.approve == nil {
			o.approve, o.approveAll = gate, o.approveAll || m.opts.approve != nil
		}
		if spec.Persona != (Persona{}) {
			o.persona = &spec.Persona
		}
		if spec.Model != "" {
			o.modelName = spec.Model
		}
	}
}

// customTaskRuntime has a parent's runtime make another of its kind.
func (m *TaskManager) customTaskRuntime(ctx context.Context, private taskPrivate) (Runtime, error) {
	if private.fork == nil {
		return nil, errNoTaskRuntime
	}
	rt, err := outlive(ctx, func() (Runtime, error) {
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
		opts, err := outlive(ctx, func() ([]Option, error) {
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
// those of the agent that delegates, and the manager's.
func (m *TaskManager) agentOptions(by *Agent) []Option {
	if by == nil {
		return m.opts.agent
	}
	return append([]Option{by.inherited()}, m.opts.agent...)
}
