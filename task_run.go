package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/x/pygent/internal/eventlog"
)

// maxTaskEvents is how many events of a task are kept.
const maxTaskEvents = 512

var errTaskTimeout = errors.New("the task took too long")

// taskCancelled is the cause with which a cancelled task's context ends.
type taskCancelled struct{ reason string }

// Error says why the task was cancelled.
func (c *taskCancelled) Error() string { return cmp.Or(c.reason, "the task was cancelled") }

// localTask is a task of a [localExecutor]: an agent, and what became of it.
// Between runs the agent is kept, for its files and for further messages.
type localTask struct {
	spec TaskSpec
	host taskHost
	log  *eventlog.Log[Event]

	mu        sync.Mutex // guards what follows
	abandoned bool       // its run did not end, and is not heard any more
	status    TaskStatus
	agent     *Agent                  // nil until the first run has made it
	decisions map[int64]chan Decision // that calls wait for, by the number of the event that asked
}

func newLocalTask(spec TaskSpec, host taskHost) *localTask {
	return &localTask{spec: spec, host: host, log: eventlog.New(maxTaskEvents, numbered, worthOf), status: TaskStatus{
		ID:      spec.ID,
		Parent:  spec.Parent,
		Prompt:  spec.Prompt,
		Persona: spec.Persona,
		Depth:   spec.Depth,
		Created: time.Now(),
	}}
}

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

// worthOf says which events are kept for those who follow a task late: changes
// of its state longest, and deltas only while there is room.
func worthOf(e Event) eventlog.Worth {
	switch e.Type {
	case EventText, EventReasoning:
		return eventlog.Fleeting
	case EventTask:
		return eventlog.Lasting
	}
	return eventlog.Ordinary
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

// change changes the state, and tells so by an event. The caller holds t.mu.
func (t *localTask) change(f func(*TaskStatus)) {
	f(&t.status)
	status := t.status
	status.LastEvent = nil // an event in an event in an event helps nobody
	t.log.Append(Event{Time: time.Now(), Type: EventTask, Task: t.spec.ID, Text: status.String(), TaskStatus: &status})
}

// AtRest implements [crew.Task].
func (t *localTask) AtRest() bool { return t.snapshot().State.AtRest() }

// Grant implements [crew.Task].
func (t *localTask) Grant(first bool) (taskGrant, error) { return t.host.grant(t.spec, first) }

// Begin implements [crew.Task].
func (t *localTask) Begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.change(func(s *TaskStatus) {
		renewed(s)
		s.State, s.Started = TaskRunning, time.Now()
		s.Runs++
	})
}

// Wait implements [crew.Task].
func (t *localTask) Wait() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.change(func(s *TaskStatus) {
		renewed(s)
		s.State = TaskQueued
	})
}

// renewed clears what a status says of the run before.
func renewed(s *TaskStatus) {
	s.Reason, s.Timeout, s.Result = "", 0, nil
	s.Started, s.Ended = time.Time{}, time.Time{}
}

// Stop implements [crew.Task].
func (t *localTask) Stop(cause error) (asked bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	asked = t.status.State == TaskAwaitingUser
	if asked || t.status.State == TaskQueued {
		t.change(func(s *TaskStatus) { s.State, s.Reason, s.Ended = TaskCancelled, cause.Error(), time.Now() })
	}
	return asked
}

// Abandon implements [crew.Task].
func (t *localTask) Abandon() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.abandoned = !t.status.State.AtRest(); t.abandoned {
		t.change(func(s *TaskStatus) {
			s.State, s.Reason, s.Ended = TaskCancelled, "its run "+ErrLeftBehind.Error(), time.Now()
		})
	}
	return t.abandoned
}

// Run implements [crew.Task].
func (t *localTask) Run(ctx context.Context, msg string, grant taskGrant, ended func()) {
	ctx, cancel := context.WithTimeoutCause(ctx, grant.timeout, errTaskTimeout)
	defer cancel()
	before := t.snapshot()
	var result *Result
	err := errGoexit
	defer func() {
		grant.tokens.Settle()
		if result == nil || result.Status != StatusAwaitingUser {
			t.Park()
		}
		ended()
		t.finish(before, result, func(s *TaskStatus) { t.outcome(s, grant, context.Cause(ctx), err) })
	}()
	result, err = t.work(ctx, msg, grant)
}

// Refuse implements [crew.Task].
func (t *localTask) Refuse(err error) {
	t.finish(t.snapshot(), nil, func(s *TaskStatus) { s.State, s.Reason = TaskFailed, err.Error() })
}

// finish notes what became of a run.
func (t *localTask) finish(before TaskStatus, result *Result, outcome func(*TaskStatus)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.abandoned {
		return // Close has said so already
	}
	t.change(func(s *TaskStatus) {
		s.Ended, s.Result = time.Now(), result
		if result != nil {
			s.Steps = before.Steps + result.Steps
			s.ToolCalls = before.ToolCalls + result.ToolCalls
			s.Usage = before.Usage.Add(result.Usage)
		}
		outcome(s)
	})
}

// work makes the agent, if there is none yet, and has it run. A panic is an
// error: it must not take other tasks along.
func (t *localTask) work(ctx context.Context, msg string, grant taskGrant) (result *Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, &panicError{p, debug.Stack()}
			logPanic(t.host.logger(), "task "+t.spec.ID, err)
		}
	}()
	if ctx.Err() != nil {
		return nil, contextError(ctx)
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
	account := func(o *runOptions) { o.account = grant.tokens }
	return agent.RunUntilStop(ctx, msg, append(t.spec.Limits.options(), account, OnEvent(t.record))...)
}

// employ keeps the agent for the task. It reports false when the task was let go
// of while the agent was made.
func (t *localTask) employ(agent *Agent) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.abandoned {
		t.agent = agent
	}
	return !t.abandoned
}

// Park ends the container of a task that is over, with what still runs there.
// Its files stay, and a further message starts it anew.
func (t *localTask) Park() {
	if agent := t.worker(); agent != nil {
		if rt, ok := agent.Runtime().(*workspaceRuntime); ok {
			rt.park()
		}
	}
}

// noWorkspace says why there are no files of the task.
func (t *localTask) noWorkspace() error {
	if s := t.snapshot(); s.State.AtRest() {
		return fmt.Errorf("it has no workspace: it ended before it had one (%s)", s)
	}
	return errors.New("it has no workspace yet")
}

// outcome turns the end of a run into a state.
func (t *localTask) outcome(s *TaskStatus, grant taskGrant, cause, err error) {
	var cancelled *taskCancelled
	result := cmp.Or(s.Result, &Result{})
	switch {
	case result.Status == StatusStopped || result.Status == StatusReplied:
		s.State, s.Reason = TaskFinished, result.Reason
	case result.Status == StatusAwaitingUser:
		s.State = TaskAwaitingUser
	case errors.Is(cause, errTaskTimeout):
		s.State, s.Timeout = TaskTimedOut, grant.timeout
		s.Reason = fmt.Sprintf("the task took longer than %s", s.Timeout)
	case errors.As(cause, &cancelled):
		s.State, s.Reason = TaskCancelled, cancelled.Error()
	case result.Status == StatusTimeout:
		s.State, s.Timeout, s.Reason = TaskTimedOut, t.spec.Limits.StepTimeout, result.Reason
	case err != nil:
		s.State, s.Reason = TaskFailed, err.Error()
	default:
		s.State, s.Reason = TaskFailed, cmp.Or(result.Reason, string(result.Status))
	}
}

// record notes an event of the agent. Those of tasks that the agent delegated
// are in logs of their own.
func (t *localTask) record(e Event) {
	if e.Task != "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.abandoned {
		return
	}
	t.count(e)
	e.Task = t.spec.ID
	t.log.Append(e)
}

// count keeps the status up to date while a run goes on. The caller holds t.mu.
func (t *localTask) count(e Event) {
	s := &t.status
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
	e.Task = t.spec.ID
	s.LastEvent = &e
}

// approve asks those who follow the task, by an event, and waits for the
// decision.
func (t *localTask) approve(ctx context.Context, call ToolCall) (Decision, error) {
	decision := make(chan Decision, 1)
	t.mu.Lock()
	if t.decisions == nil {
		t.decisions = map[int64]chan Decision{}
	}
	// Under the lock, so that no decision can come before it is waited for.
	request := t.log.Append(Event{Time: time.Now(), Type: EventApproval, Task: t.spec.ID, Call: &call})
	t.decisions[request] = decision
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.decisions, request)
	}()
	select {
	case d := <-decision:
		return d, nil
	case <-ctx.Done():
		return Decision{}, contextError(ctx)
	}
}

// decide answers the call that the event with the number request is about.
func (t *localTask) decide(request int64, d Decision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if decision, ok := t.decisions[request]; ok {
		decision <- d
		delete(t.decisions, request)
	}
}

// closeAgent is how long closing an agent, and its runtime, may take. It does not
// come to that where the agent sees to its own time.
const closeAgent = 3 * time.Minute

// Close ends the agent. Its workspace goes with it. What does not end in time is
// left behind.
func (t *localTask) Close() error {
	agent := t.worker()
	if agent == nil {
		return nil
	}
	end := agent.Close
	t.mu.Lock()
	if t.abandoned { // Close would wait for its run
		end = agent.Runtime().Cleanup
	}
	t.mu.Unlock()
	err := within(closeAgent, end)
	if err == ErrLeftBehind {
		return fmt.Errorf("its runtime %w: its Cleanup took longer than %s", err, closeAgent)
	}
	return err
}

// within calls f and returns its error. One that does not return in time is left
// behind, in a goroutine of its own. A panic is an error.
func within(limit time.Duration, f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errGoexit
		defer func() {
			if p := recover(); p != nil {
				err = &panicError{p, debug.Stack()}
			}
			done <- err
		}()
		err = f()
		touch(err)
	}()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		return ErrLeftBehind
	}
}
