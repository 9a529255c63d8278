package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/x/pygent/internal/guard"
)

// seenInputs is how many ids of inputs a task remembers.
const seenInputs = 256

var errTaskTimeout = errors.New("the task took too long")

// taskCancelled is the cause with which a cancelled task's context ends.
type taskCancelled struct{ reason string }

// Error says why the task was cancelled.
func (c *taskCancelled) Error() string { return cmp.Or(c.reason, "the task was cancelled") }

// localTask is a task of a [localExecutor]: an agent, and what became of it.
// Between runs the agent is kept, for its files and for further messages.
type localTask struct {
	spec TaskSpec
	log  taskLog

	mu        sync.Mutex // guards what follows
	abandoned bool       // its run did not end, and is not heard any more
	status    TaskStatus
	turn      int                     // counts the runs asked for
	agent     *Agent                  // nil until the first run has made it
	cancel    context.CancelCauseFunc // of the run that goes on or is queued, else nil
	seen      []string                // ids of inputs, oldest first
	decisions map[int64]chan Decision // that calls wait for, by the number of the event that asked
}

func newLocalTask(spec TaskSpec) *localTask {
	return &localTask{spec: spec, status: TaskStatus{
		ID:      spec.ID,
		Parent:  spec.Parent,
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
	status.Seq = t.log.last()
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
	t.log.append(Event{Time: time.Now(), Type: EventTask, Task: t.spec.ID, Text: status.String(), TaskStatus: &status})
}

// begin marks the start of a run, which cancel ends.
func (t *localTask) begin(cancel context.CancelCauseFunc) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn++
	t.cancel = cancel
	t.change(started)
}

// enqueue makes the task wait for a run, which cancel ends. The number it
// returns tells the run from others of the task.
func (t *localTask) enqueue(cancel context.CancelCauseFunc) (turn int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn++
	t.cancel = cancel
	t.change(func(s *TaskStatus) {
		renewed(s)
		s.State = TaskQueued
	})
	return t.turn
}

// dequeue marks the start of a run that waited, and reports false for one that
// was cancelled meanwhile.
func (t *localTask) dequeue(turn int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.turn != turn || t.status.State != TaskQueued {
		return false
	}
	t.change(started)
	return true
}

// started makes a status that of a run that begins.
func started(s *TaskStatus) {
	renewed(s)
	s.State, s.Started = TaskRunning, time.Now()
	s.Runs++
}

// renewed clears what a status says of the run before.
func renewed(s *TaskStatus) {
	s.Reason, s.Timeout, s.Result = "", 0, nil
	s.Started, s.Ended = time.Time{}, time.Time{}
}

// stop cancels the run that goes on or is queued. A question is withdrawn, which
// stop reports.
func (t *localTask) stop(cause error) (asked bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cancel != nil {
		t.cancel(cause)
	}
	asked = t.status.State == TaskAwaitingUser
	if asked || t.status.State == TaskQueued {
		t.cancel = nil
		t.change(func(s *TaskStatus) { s.State, s.Reason, s.Ended = TaskCancelled, cause.Error(), time.Now() })
	}
	return asked
}

// abandon lets go of a run that does not end, and reports whether there is one.
func (t *localTask) abandon() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.abandoned = !t.status.State.AtRest(); t.abandoned {
		t.change(func(s *TaskStatus) {
			s.State, s.Reason, s.Ended = TaskCancelled, "its run "+ErrLeftBehind.Error(), time.Now()
		})
	}
	return t.abandoned
}

// run carries out the task, or a further message to it, and notes the outcome.
// It calls ended before: who learns that the task rests may start another one.
func (t *localTask) run(ctx context.Context, msg string, grant taskGrant, host taskHost, ended func()) {
	ctx, cancel := context.WithTimeoutCause(ctx, grant.timeout, errTaskTimeout)
	defer cancel()
	before := t.snapshot()
	var result *Result
	err := errGoexit
	defer func() {
		grant.tokens.Settle()
		if result == nil || result.Status != StatusAwaitingUser {
			t.park()
		}
		ended()
		t.finish(before, result, func(s *TaskStatus) { t.outcome(s, grant, context.Cause(ctx), err) })
	}()
	result, err = t.work(ctx, msg, grant, host)
}

// refused notes that a run that had waited for room could not begin.
func (t *localTask) refused(err error) {
	t.finish(t.snapshot(), nil, func(s *TaskStatus) { s.State, s.Reason = TaskFailed, err.Error() })
}

// finish notes what became of a run.
func (t *localTask) finish(before TaskStatus, result *Result, outcome func(*TaskStatus)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancel = nil
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
func (t *localTask) work(ctx context.Context, msg string, grant taskGrant, host taskHost) (result *Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, guard.Panicked(p)
			logPanic(host.logger(), "task "+t.spec.ID, err)
		}
	}()
	if ctx.Err() != nil {
		return nil, contextError(ctx)
	}
	agent := t.worker()
	if agent == nil {
		if agent, err = host.openAgent(ctx, t.spec, t.approve); err != nil {
			logPanic(host.logger(), "task "+t.spec.ID, err)
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

// park ends the container of a task that is over, with what still runs there.
// Its files stay, and a further message starts it anew.
func (t *localTask) park() {
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
	t.log.append(e)
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
	request := t.log.append(Event{Time: time.Now(), Type: EventApproval, Task: t.spec.ID, Call: &call})
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

// isNew reports whether the input was not seen yet.
func (t *localTask) isNew(input string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !slices.Contains(t.seen, input)
}

// note remembers an input, so that it is not taken twice.
func (t *localTask) note(input string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.seen) >= seenInputs {
		t.seen = slices.Delete(t.seen, 0, seenInputs/2)
	}
	t.seen = append(t.seen, input)
}

// close ends the agent. Its workspace goes with it. What does not end in time is
// left behind.
func (t *localTask) close() error {
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
