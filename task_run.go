package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"
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

// stop cancels the run that goes on or is queued. A question is withdrawn.
func (t *localTask) stop(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cancel != nil {
		t.cancel(cause)
	}
	if s := t.status.State; s == TaskQueued || s == TaskAwaitingUser {
		t.cancel = nil
		t.change(func(s *TaskStatus) { s.State, s.Reason, s.Ended = TaskCancelled, cause.Error(), time.Now() })
	}
}

// run carries out the task, or a further message to it, and notes the outcome.
func (t *localTask) run(ctx context.Context, msg string, open func(context.Context, TaskSpec, ApprovalFunc) (*Agent, error)) {
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(t.spec.Limits.Timeout, DefaultTaskTimeout), errTaskTimeout)
	defer cancel()
	before := t.snapshot()
	result, err := t.work(ctx, msg, open)
	if result == nil || result.Status != StatusAwaitingUser {
		t.park()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancel = nil
	t.change(func(s *TaskStatus) {
		s.Ended, s.Result = time.Now(), result
		if result != nil {
			s.Steps = before.Steps + result.Steps
			s.ToolCalls = before.ToolCalls + result.ToolCalls
			s.Usage = before.Usage.Add(result.Usage)
		}
		t.outcome(s, context.Cause(ctx), err)
	})
}

// work makes the agent, if there is none yet, and has it run. A panic is an
// error: it must not take other tasks along.
func (t *localTask) work(ctx context.Context, msg string, open func(context.Context, TaskSpec, ApprovalFunc) (*Agent, error)) (result *Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	agent := t.worker()
	if agent == nil {
		if agent, err = open(ctx, t.spec, t.approve); err != nil {
			return nil, err
		}
		t.mu.Lock()
		t.agent = agent
		t.mu.Unlock()
	}
	return agent.RunUntilStop(ctx, msg, append(t.spec.Limits.options(), OnEvent(t.record))...)
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

// outcome turns the end of a run into a state.
func (t *localTask) outcome(s *TaskStatus, cause, err error) {
	var cancelled *taskCancelled
	result := cmp.Or(s.Result, &Result{})
	switch {
	case result.Status == StatusStopped || result.Status == StatusReplied:
		s.State, s.Reason = TaskFinished, result.Reason
	case result.Status == StatusAwaitingUser:
		s.State = TaskAwaitingUser
	case errors.Is(cause, errTaskTimeout):
		s.State, s.Timeout = TaskTimedOut, t.spec.Limits.Timeout
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

// record notes an event of the agent, or of one that the agent delegated to.
func (t *localTask) record(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.Task == "" {
		t.count(e)
		e.Task = t.spec.ID
	}
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
		s.Usage = s.Usage.Add(*e.Usage)
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
		return Decision{}, context.Cause(ctx)
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

// close ends the agent. Its workspace goes with it.
func (t *localTask) close() error {
	if agent := t.worker(); agent != nil {
		return agent.Close()
	}
	return nil
}
