package pygent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
)

// lazyTasks is an agent's own task manager, made when it is first needed.
type lazyTasks struct {
	opts  taskManagerOptions
	given bool // the manager is the caller's

	mu      sync.Mutex // guards manager
	manager *TaskManager
}

// prepareTasks checks the options of the manager, which may never be made.
func (a *Agent) prepareTasks() error {
	if a.opts.manager != nil {
		a.tasks.manager, a.tasks.given = a.opts.manager, true
		return nil
	}
	o, err := newTaskManagerOptions(a.opts.tasks)
	if err != nil {
		return err
	}
	run, err := newRunOptions(a.opts.run, nil)
	if err != nil {
		return err
	}
	o.owner = a
	o.limits = o.limits.or(TaskLimits{
		MaxSteps:     run.maxSteps,
		MaxToolCalls: run.maxToolCalls,
		StepTimeout:  run.stepTimeout,
	})
	a.tasks.opts = o
	return nil
}

// Tasks returns the manager of the tasks that the agent delegates: the one that
// [WithTaskManager] gave, or the agent's own. Tasks started there have the
// agent as their parent. Close ends the agent's own.
func (a *Agent) Tasks() *TaskManager {
	t := &a.tasks
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.manager == nil {
		t.manager = newTaskManager(t.opts)
	}
	return t.manager
}

// closeTasks closes the agent's own manager. One that is asked for later is
// closed. No lock is held meanwhile: handlers of the last events may ask for it.
func (a *Agent) closeTasks() error {
	if a.tasks.given {
		return nil
	}
	return a.Tasks().Close()
}

// openTasks returns the tasks that the agent delegated and that are at work
// still, the oldest first.
func (a *Agent) openTasks(ctx context.Context) ([]TaskStatus, error) {
	m := a.tasks.made()
	if m == nil {
		return nil, nil
	}
	all, err := tasksOf(ctx, m, a, "")
	return slices.DeleteFunc(all, func(s TaskStatus) bool { return s.State.AtRest() }), err
}

// made returns the manager, or nil when there was no need of one yet.
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
	return shortHash(path), nil
}

// shortHash returns an id that depends on text alone.
func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:5])
}

// inherited is what an agent that works for a has of it: its model, its tools
// and its rules, but another conversation, another runtime and its own limits.
func (a *Agent) inherited() Option {
	return func(o *options) {
		a.mu.Lock()
		*o = a.opts
		a.mu.Unlock()
		o.configured, o.given = true, nil
		o.model, o.persona, o.registry = a.model, &a.persona, a.tools
		o.tools, o.disabled = nil, nil // they are in the registry
		o.inheritedFor = o.approvalFor
		o.history, o.historyFile = nil, ""
		o.runtime, o.runtimeOpts = nil, nil
		o.run, o.onEvent, o.in, o.out = nil, nil, nil, nil
		o.approve, o.tasks = nil, nil // its manager sees to both
		o.approveHosts = nil          // nobody is asked about the hosts of tasks
	}
}

// setApproval changes who decides about calls, and whether bash needs it, from
// the next call on.
func (a *Agent) setApproval(f ApprovalFunc, confirmBash *bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.opts.approve, a.opts.confirmBash = f, confirmBash
}

// approval returns what setApproval sets.
func (a *Agent) approval() (f ApprovalFunc, confirmBash *bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.opts.approve, a.opts.confirmBash
}

// emitTask passes on an event of a task that the agent delegated, or one of its
// tasks. It waits for the agent's own handler alone: who follows a run may be
// waiting for the task.
func (a *Agent) emitTask(ctx context.Context, e Event) {
	a.mu.Lock()
	closed := a.closed
	a.mu.Unlock()
	if !closed || !a.tasks.given {
		a.emit(e)
		a.eventsHandled(ctx)
	}
}

// callInfo is what a tool can learn of the call that it serves.
type callInfo struct {
	agent   *Agent
	tasks   func() *TaskManager // the agent's; a function, because most calls need none
	budget  *taskBudget
	message int // the index in the history of the message that calls
	index   int // of the call in the message
}

type callKey struct{}

// withCall marks a context as that of one call of the message at work.
func (r *run) withCall(ctx context.Context, index int) context.Context {
	return context.WithValue(ctx, callKey{}, &callInfo{
		agent:   r.agent,
		tasks:   r.agent.Tasks,
		budget:  r.budget,
		message: r.message,
		index:   index,
	})
}

// callOf returns the tool call that ctx belongs to, or nil.
func callOf(ctx context.Context) *callInfo {
	call, _ := ctx.Value(callKey{}).(*callInfo)
	return call
}

// taskID derives the id of the task that the call delegates: a run that is
// resumed derives the same again. Only messages of the model count, because
// what the user is told between them is a matter of timing.
func (c *callInfo) taskID() string {
	nth := 0
	for _, m := range c.agent.history.view()[:c.message] {
		if m.Role == RoleAssistant {
			nth++
		}
	}
	return shortHash(fmt.Sprintf("%s/%d/%d", c.agent.id, nth, c.index))
}
