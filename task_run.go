package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/x/pygent/internal/crew"
	"github.com/x/pygent/internal/eventlog"
	"github.com/x/pygent/internal/guard"
)

// taskHost is what an executor in this process needs from the manager.
type taskHost interface {
	// openAgent makes the agent of a task, with the files that it begins with.
	openAgent(ctx context.Context, spec TaskSpec, gate ApprovalFunc) (*Agent, error)
	// grant sets aside what a run of the task may spend; first tells whether it
	// is the task's first run. It does not call back.
	grant(spec TaskSpec, first bool) (taskGrant, error)
	// logger logs what is not for models and people, such as the stacks of
	// panics.
	logger() *slog.Logger
}

// localExecutor carries out tasks in this process, one goroutine each.
type localExecutor struct {
	crew *crew.Crew[*localTask, taskGrant, taskMessage]
	host taskHost
}

// newLocalExecutor returns an executor that runs at most max tasks at once,
// with agents made by host.
func newLocalExecutor(max int, host taskHost) *localExecutor {
	return &localExecutor{crew: crew.New[*localTask](max), host: host}
}

func (x *localExecutor) start(ctx context.Context, spec TaskSpec, queue bool) error {
	if err := cmp.Or(spec.check(), alive(ctx)); err != nil {
		return err
	}
	return sayLimit(x.crew.Start(outsideCalls(ctx), spec.ID, newLocalTask(spec, x.host), queue, spec.message(), func(t *localTask) error {
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
			yield(Event{}, guard.ContextError(ctx))
		}
	}
}

func (x *localExecutor) send(ctx context.Context, id string, in taskInput) (number int64, err error) {
	if err := alive(ctx); err != nil {
		return 0, err
	}
	switch in.Kind {
	case inputMessage:
		number, err = x.crew.Message(outsideCalls(ctx), id, in.ID, taskMessage{in.Text, in.Parts})
		return number, sayLimit(err)
	case inputDecision:
		return 0, x.crew.Tell(id, in.ID, func(t *localTask) error {
			return t.decide(in.Request, in.Call, in.Decision)
		})
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
	after := t.snapshot()
	return asOf, !before.State.AtRest() || !after.State.AtRest() || before.Runs != after.Runs, err
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
		return fmt.Errorf("its runtime is still being removed: %w", guard.ContextError(ctx))
	}
}

func (x *localExecutor) close() error {
	left, err := x.crew.Close(&taskCancelled{reason: ErrTaskManagerClosed.Error()}, taskError)
	for _, id := range left.Runs {
		err = errors.Join(err, taskError(id, fmt.Errorf("its run %w", ErrLeftBehind)))
	}
	if left.Removals {
		err = errors.Join(err, fmt.Errorf("the removal of a task %w", ErrLeftBehind))
	}
	return err
}

// localTask is a task of a [localExecutor], with its agent and status. Between
// runs the agent is kept, for its files and for further messages.
type localTask struct {
	spec TaskSpec
	host taskHost
	log  *eventlog.Log[Event]

	mu        sync.Mutex // guards what follows
	abandoned bool       // its run did not end, and is ignored from now on
	status    TaskStatus
	agent     *Agent                   // nil until the first run has made it
	answers   map[string]chan Decision // for calls that wait for a decision, by their ids
}

func newLocalTask(spec TaskSpec, host taskHost) *localTask {
	return &localTask{spec: spec, host: host, log: eventlog.New(taskEvents), status: TaskStatus{
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
	t.log.Append(Event{Time: time.Now(), Type: EventTask, Task: t.spec.ID, Input: status.Input, Text: status.String(), TaskStatus: &status})
}

// AtRest implements [crew.Task].
func (t *localTask) AtRest() bool { return t.snapshot().State.AtRest() }

// Grant implements [crew.Task].
func (t *localTask) Grant(first bool) (taskGrant, error) { return t.host.grant(t.spec, first) }

// Begin implements [crew.Task].
func (t *localTask) Begin(message int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.change(func(s *TaskStatus) {
		s.renew(TaskRunning)
		s.Input = message
		s.Started = time.Now()
		s.Runs++
	})
}

// Waiting implements [crew.Task].
func (t *localTask) Waiting(messages int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status.Waiting = messages
}

// Wait implements [crew.Task].
func (t *localTask) Wait() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.change(func(s *TaskStatus) { s.renew(TaskQueued) })
}

// Stop implements [crew.Task].
func (t *localTask) Stop(cause error) (asked bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	asked = t.status.State == TaskAwaitingUser
	if asked || t.status.State == TaskQueued {
		t.change(func(s *TaskStatus) { s.cancel(cause.Error()) })
	}
	return asked
}

// Abandon implements [crew.Task].
func (t *localTask) Abandon() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.abandoned = !t.status.State.AtRest(); t.abandoned {
		t.change(func(s *TaskStatus) { s.cancel("its run " + ErrLeftBehind.Error()) })
	}
	return t.abandoned
}

// Run implements [crew.Task].
func (t *localTask) Run(ctx context.Context, msg taskMessage, grant taskGrant, ended func(finish func(more bool))) {
	ctx, cancel := context.WithTimeoutCause(ctx, grant.timeout, errTaskTimeout)
	defer cancel()
	before := t.snapshot()
	guard.Do(func() (*Result, error) { return t.work(ctx, msg, grant) }, func(result *Result, err error) {
		if p, ok := err.(*guard.PanicError); ok { // a panic of the agent's own code is wrapped, and already logged
			logPanic(t.host.logger(), "task "+t.spec.ID, p)
		}
		grant.tokens.Settle()
		if result == nil || result.Status != StatusAwaitingUser {
			t.Park()
		}
		limits := t.spec.Limits
		limits.MaxTime = grant.timeout
		cause := context.Cause(ctx)
		ended(func(more bool) {
			t.finish(before, result, more, func(s *TaskStatus) { s.end(limits, cause, err) })
		})
	})
}

// Refuse implements [crew.Task].
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
	after.Ended, after.Result, after.Approvals = time.Now(), result, nil
	if result != nil {
		after.Steps = before.Steps + result.Steps
		after.ToolCalls = before.ToolCalls + result.ToolCalls
		after.Usage = before.Usage.Add(result.Usage)
	}
	outcome(&after)
	if more && after.State != TaskCancelled {
		after.State, after.Reason = t.status.State, "" // it does not rest: the next run begins at once, and says so
		t.status = after
		return
	}
	t.change(func(s *TaskStatus) { *s = after })
}

// work makes the agent, if there is none yet, and runs it.
func (t *localTask) work(ctx context.Context, msg taskMessage, grant taskGrant) (_ *Result, err error) {
	if ctx.Err() != nil {
		return nil, guard.ContextError(ctx)
	}
	agent := t.worker()
	if agent == nil {
		if agent, err = t.host.openAgent(ctx, t.spec, t.approve); err != nil {
			logPanic(t.host.logger(), "task "+t.spec.ID, err)
			return nil, err
		}
		if !t.employ(agent) {
			return nil, agent.Close()
		}
	}
	return runTask(ctx, t.spec, agent, taskTurn{message: msg, tokens: grant.tokens, record: t.record})
}

// employ keeps the agent for the task. It returns false if the task was
// abandoned while the agent was made.
func (t *localTask) employ(agent *Agent) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.abandoned {
		t.agent = agent
	}
	return !t.abandoned
}

// Park stops the container of a task at rest, with everything that runs in it.
// The files stay, and a further message starts the container again.
func (t *localTask) Park() {
	if agent := t.worker(); agent != nil {
		if rt, ok := RuntimeAs[*workspaceRuntime](agent.Runtime()); ok && !agent.opts.lent {
			if err := agent.closeSources(); err != nil { // their servers end with the container; the next run opens them again
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
	t.noteRequest(e)
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
		end = agent.cleanup
	}
	t.mu.Unlock()
	err := guard.Within(closeAgent, end)
	if err == ErrLeftBehind {
		return fmt.Errorf("its runtime %w: its Cleanup took longer than %s", err, closeAgent)
	}
	return err
}
