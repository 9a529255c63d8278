package pygent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/x/pygent/internal/budget"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/taskpool"
)

// taskRecord is what a manager knows about a task besides its status. It exists
// only in this process.
type taskRecord = taskpool.Record[*taskLinks]

// taskLinks connects a task with whoever delegated it and with the agent that
// works on it.
type taskLinks struct {
	request taskRequest
	agent   *Agent       // the agent that delegated it; nil for none
	by      *callContext // the tool call by which it did; nil for none
	depth   int          // of the task's own agent
	budget  *taskBudget  // of the run that delegated it; nil outside of a run

	// Guarded by the manager's mu.
	private taskPrivate
	worker  *Agent                        // the agent that works on it; nil until it is made
	asking  map[string]context.CancelFunc // end the questions about its calls, by the calls' ids
}

// newRecord returns the record of a task. Its parent is the agent of the
// delegating tool call, or else the agent that owns the manager.
func (m *TaskManager) newRecord(prompt string, o taskOptions) *taskRecord {
	links := &taskLinks{request: o.taskRequest, agent: m.opts.owner, depth: 1}
	links.request.prompt = prompt
	if o.call != nil {
		links.agent, links.budget, links.by = o.call.agent, o.call.budget, o.call
	}
	if links.agent == nil {
		return taskpool.NewRecord(o.id, nil, links)
	}
	links.depth = links.agent.opts.depth + 1
	links.request.parent = links.agent.id
	return taskpool.NewRecord(o.id, m.tasks.Record(links.agent.opts.task), links)
}

// claim reserves the id of a task for r. It reports known if the same request
// has already started the task. If another start of the task is in progress,
// claim waits for it.
func (m *TaskManager) claim(ctx context.Context, r *taskRecord) (known bool, err error) {
	for {
		other := m.tasks.Claim(r)
		if other == nil {
			return false, nil
		}
		if what := other.Value.request.differs(r.Value.request); what != "" {
			return false, taskError(r.ID, fmt.Errorf("%w, and %s", ErrTaskExists, what))
		}
		select {
		case <-other.Started():
		case <-ctx.Done():
			return false, safecall.ContextError(ctx)
		}
		if other.StartError() == nil {
			return true, nil
		}
	}
}

// differs names the part in which two requests differ; it is empty if they are
// the same.
func (q taskRequest) differs(other taskRequest) string {
	sameParts := taskMessage{parts: q.parts}.same(taskMessage{parts: other.parts})
	q.parts, other.parts = nil, nil
	switch {
	case q.parent != other.parent:
		return "another agent delegated it"
	case q.prompt != other.prompt:
		return "another prompt"
	case !sameParts || !reflect.DeepEqual(q, other):
		return "other parts, files, limits, depth, persona, model, profile or queue"
	}
	return ""
}

// releaseFiles notes that a task no longer needs the files it begins with.
func (m *TaskManager) releaseFiles(r *taskRecord) {
	m.mu.Lock()
	ref := r.Value.private.files
	r.Value.private.files = ""
	m.mu.Unlock()
	m.files.Release(ref)
}

// taskEvents says how the events of a task are kept.
var taskEvents = taskpool.Kind[Event]{Most: 512, MostBytes: 4 << 20, Number: numbered, Worth: worthOf, Size: sizeOf}

// numbered returns an event of a task with its number.
func numbered(e Event, seq int64) Event {
	e.Seq = seq
	if e.TaskStatus != nil {
		status := *e.TaskStatus
		status.Seq = seq
		e.TaskStatus = &status
	}
	return e
}

// worthOf says how long an event is kept for late followers of a task: changes
// of its state longest, and deltas only while there is room.
func worthOf(e Event) taskpool.Worth {
	switch {
	case isDelta(&e):
		return taskpool.Fleeting
	case e.Type == EventTask:
		return taskpool.Lasting
	}
	return taskpool.Ordinary
}

// closeHandlers is how long Close waits for event handlers and approvals once
// all tasks are over.
const closeHandlers = 30 * time.Second

// follow starts handling the task's events.
func (m *TaskManager) follow(id string) { m.tasks.Follow(id, m.wg.Go, m.handleEvents) }

// handleEvents handles the events of a task until it is removed.
func (m *TaskManager) handleEvents(r *taskRecord) {
	for e, err := range m.exec.events(m.life, r.ID, 0) {
		if err != nil {
			return // the manager is closed
		}
		m.handle(r, e)
		if e.TaskStatus != nil && e.TaskStatus.State.AtRest() {
			m.tasks.Handled(r, e.Seq)
		}
	}
}

// waitHandled waits until the events of a task at rest have been handled.
func (m *TaskManager) waitHandled(ctx context.Context, status TaskStatus) error {
	for {
		more := m.tasks.Unhandled(status.ID, status.Seq)
		if more == nil {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return safecall.ContextError(ctx)
		}
	}
}

// awaitRest waits until a task rests after the event of the given number, or is
// removed.
func (m *TaskManager) awaitRest(ctx context.Context, id string, after int64) error {
	for e, err := range m.exec.events(ctx, id, after) {
		if err != nil || e.TaskStatus != nil && e.TaskStatus.State.AtRest() {
			return err
		}
	}
	return nil
}

// firstAtRest returns the id of the task that has rested longest, or "" if all
// are at work. It refuses tasks for which the caller cannot wait.
func (m *TaskManager) firstAtRest(ctx context.Context, ids []string) (first string, err error) {
	var since time.Time
	for _, id := range ids {
		s, failed := m.exec.status(ctx, id)
		switch {
		case failed != nil:
			return "", taskError(id, failed)
		case s.State.AtRest() && (first == "" || s.Ended.Before(since)):
			first, since, err = id, s.Ended, nil
		case first == "" && m.waitsForItself(ctx, id):
			err = taskError(id, ErrInCallback) // unless another one rests
		}
	}
	return first, err
}

// handle acts on an event of a task and passes it to the manager's handler and
// to the agents above the task, once each.
func (m *TaskManager) handle(r *taskRecord, e Event) {
	switch e.Type {
	case EventApproval:
		if e.Approval != nil && e.Approval.AsksManager {
			m.ask(r, e)
		}
	case EventDecision:
		m.decided(r, e.Call.ID)
	case EventQuestion, EventAnswer:
		if r.Value.agent != nil {
			r.Value.agent.notices.recordQuestion(r.ID, e)
		}
	case EventTask:
		m.changed(r, *e.TaskStatus)
	}
	m.emit(e)
	for up := r; up != nil; up = up.Up {
		if up.Value.agent != nil {
			m.emitTo(up.Value.agent, e)
		}
	}
}

// emitTo passes on an event of a task to an agent above it. It waits only for the agent's
// own handler, because followers of a run may be waiting for the task.
func (m *TaskManager) emitTo(a *Agent, e Event) {
	if !a.isClosed() || !a.tasks.given {
		a.emit(e)
		a.events.awaitHandled(m.life)
	}
}

// changed acts on a new state of a task.
func (m *TaskManager) changed(r *taskRecord, status TaskStatus) {
	if !status.State.AtRest() {
		return
	}
	m.mu.Lock()
	asking := r.Value.asking
	r.Value.asking = nil
	m.mu.Unlock()
	for _, cancel := range asking {
		cancel() // the answer is no longer needed
	}
	if r.Value.agent != nil {
		r.Value.agent.notices.add(status)
	}
	if status.State == TaskAwaitingUser {
		return
	}
	for _, child := range m.tasks.Children(r) {
		_ = m.cancel(m.life, child, "the task that delegated it is over") // fails if the child has already ended
	}
}

// decided ends the question about a call, which somebody may have answered
// otherwise.
func (m *TaskManager) decided(r *taskRecord, call string) {
	m.mu.Lock()
	cancel := r.Value.asking[call]
	delete(r.Value.asking, call)
	m.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// emit calls the manager's event handler. A panic of the handler must not end
// the process.
func (m *TaskManager) emit(e Event) {
	if m.opts.onEvent == nil {
		return
	}
	m.emitting.Lock()
	defer m.emitting.Unlock()
	defer m.callbacks.Enter(safecall.Current())()
	safecall.Call(func() { m.opts.onEvent(e) }, func(err error) { logPanic(m.log, "handler of the tasks' events", err) })
}

// ask starts asking for a decision about a call of a task, without waiting for
// it. The question is withdrawn when the task rests.
func (m *TaskManager) ask(r *taskRecord, e Event) {
	request := *e.Approval
	ctx, cancel := context.WithCancel(&callContext{
		Context: safecall.WithValues(m.life, m.worker(r).callGoingOn()),
		info:    CallInfo{Agent: request.Agent, Task: request.Task, Step: request.Step, Call: request.Call},
	})
	m.mu.Lock()
	if r.Value.asking == nil {
		r.Value.asking = map[string]context.CancelFunc{}
	}
	r.Value.asking[request.Call.ID] = cancel
	m.mu.Unlock()
	m.wg.Go(func() {
		defer cancel()
		// This fails if the task has ended, or somebody else was faster.
		_, _ = m.exec.send(m.life, r.ID, taskInput{
			ID:       fmt.Sprintf("decision-%d", e.Seq),
			Kind:     inputDecision,
			Request:  e.Seq,
			Decision: m.decide(ctx, r, request),
		})
	})
}

// decide asks about a call of a task. Without an answer the call is denied.
func (m *TaskManager) decide(ctx context.Context, r *taskRecord, request ApprovalRequest) Decision {
	approve := m.approver(r)
	if approve == nil {
		return Decision{By: byNobody, Reason: "this tool needs approval, and nobody can approve calls of a task"}
	}
	defer pauseSteps(r)()
	if m.approving.LockContext(ctx) != nil {
		return Decision{Reason: "the task ended before its turn to be asked about came"}
	}
	defer m.approving.Unlock()
	if ctx.Err() != nil {
		return Decision{Reason: "the task ended before its turn to be asked about came"}
	}
	if m.covers(r, request.Call) {
		return Decision{Allow: true, By: byRule} // decided while this question waited for its turn
	}
	decision, err := safecall.Outlive(ctx, func() (Decision, error) {
		defer m.callbacks.Enter(safecall.Current())()
		return approve(ctx, request)
	})
	if err == nil && len(decision.Arguments) > 0 && !json.Valid(decision.Arguments) {
		err = errors.New("the arguments that it gave are not JSON")
	}
	if err != nil {
		logPanic(m.log, "approval", err)
		return Decision{Reason: fmt.Sprintf("asking for approval failed: %v", err)}
	}
	return decision
}

// covers reports whether a decision for the session covers a call that a task makes, of
// the tool that has its name now.
func (m *TaskManager) covers(r *taskRecord, call ToolCall) bool {
	worker := m.worker(r)
	if worker == nil {
		return false
	}
	tool, err := worker.tools.lookup(call.Name, worker.runtime)
	return err == nil && worker.deciders.allowed.Has(scopeOf(worker.runtime, tool, call).key)
}

// pauseSteps pauses the time limits of the steps in which agents may be waiting
// for the task, until the returned function is called.
func pauseSteps(r *taskRecord) (goOn func()) {
	var open []func()
	for ; r != nil && r.Value.agent != nil; r = r.Up {
		open = append(open, r.Value.agent.deciders.approvalGate.Close())
	}
	return func() {
		for _, f := range open {
			f()
		}
	}
}

// approver returns who decides about the calls of a task: the manager's own
// function, or else that of the agent at the root of the delegation.
func (m *TaskManager) approver(r *taskRecord) ApprovalFunc {
	if m.opts.approve != nil {
		return m.opts.approve
	}
	for r.Up != nil {
		r = r.Up
	}
	if r.Value.agent == nil {
		return nil
	}
	return r.Value.agent.deciders.approver.User().Approve
}

// taskBudget is the budget of a run together with the tasks it delegates.
type taskBudget = budget.Run[spending]

// newTaskBudget returns the budget of a run.
func newTaskBudget(o runOptions) *taskBudget { return budget.NewRun(o.account, o.Limits.spending()) }

// taskGrant is what one run of a task may spend.
type taskGrant struct {
	tokens  *budget.Account[spending] // to be settled
	timeout time.Duration
}

// grant sets aside what a run of a task may spend. The first run of a task
// always spends from the run that delegated it. A further one, started by a
// message, does so only while that run goes on.
func (m *TaskManager) grant(spec TaskSpec, first bool) (g taskGrant, err error) {
	g.timeout = cmp.Or(spec.Limits.MaxTime, DefaultTaskMaxTime)
	if g.timeout == NoLimit {
		g.timeout = math.MaxInt64
	}
	if end := spec.Rules.Deadline; first && !end.IsZero() {
		g.timeout = max(1, min(g.timeout, time.Until(end)))
	}
	r := m.tasks.Record(spec.ID)
	if r == nil || r.Value.budget == nil || !first && r.Value.budget.Over() {
		g.tokens = budget.New[spending](spec.Limits.spending())
		return g, nil
	}
	g.tokens, g.timeout, err = r.Value.budget.OpenWithin(spec.Limits.asking(), g.timeout)
	return g, err
}

// closesItself reports whether Close is called by code that it would wait for.
func (m *TaskManager) closesItself() bool {
	if m.callbacks.Inside() {
		return true
	}
	return callbacksOf(m.opts.owner).inHandler() || slices.ContainsFunc(m.tasks.Records(), func(r *taskRecord) bool {
		return callbacksOf(r.Value.agent).inHandler() || callbacksOf(m.worker(r)).inCallback()
	})
}

// waitsForItself reports whether Wait for a task is called by code that it
// would wait for: a handler of its events, or a tool of the task itself or of
// one that it delegated.
func (m *TaskManager) waitsForItself(ctx context.Context, id string) bool {
	if m.callbacks.Inside() {
		return true
	}
	r := m.tasks.Record(id)
	if r == nil {
		return false
	}
	if callbacksOf(m.worker(r)).inCallback() {
		return true
	}
	for up := r; up != nil; up = up.Up {
		if callbacksOf(up.Value.agent).inHandler() {
			return true
		}
	}
	call := toolCallOf(ctx)
	if call == nil {
		return false
	}
	for caller := m.tasks.Record(call.agent.opts.task); caller != nil; caller = caller.Up {
		if caller == r {
			return true
		}
	}
	return false
}

// worker returns the agent that works on a task; nil until it is made.
func (m *TaskManager) worker(r *taskRecord) *Agent {
	m.mu.Lock()
	defer m.mu.Unlock()
	return r.Value.worker
}
