package pygent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/x/pygent/internal/crew"
	"github.com/x/pygent/internal/eventlog"
	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/inventory"
)

// localTask is a task of a [localExecutor], with its agent and status. Between
// runs the agent is kept, for its files and for further messages.
type localTask struct {
	spec  TaskSpec
	host  taskHost
	log   *eventlog.Log[Event]
	inbox func() (early []taskMessage, last int64) // takes the messages that the run hears on its way

	mu        sync.Mutex // guards what follows
	abandoned bool       // its run did not end, and is ignored from now on
	status    TaskStatus
	agent     *Agent                   // nil until the first run has made it
	answers   map[string]chan Decision // for calls that wait for a decision, by their ids
	began     inventory.Inventory      // what the workspace held before the first run
	sent      chan Answer              // gets the answer that is sent to the question of a tool; nil where none is asked
	did       lastCall                 // of the run that goes on
	changed   *TaskLeft                // by the last run that finished and called tools
	taken     bool                     // some of its files were collected since the last run
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
	text := status.String()
	if names := status.Left.told().Named(); names != "" {
		text += "; changed " + names
	}
	t.log.Append(Event{Time: time.Now(), Type: EventTask, Task: t.spec.ID, Input: status.Input, Text: text, TaskStatus: &status})
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
		t.did = lastCall{}
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
		return nil, guard.ContextError(ctx)
	}
	agent := t.worker()
	if agent == nil {
		if agent, err = t.host.openAgent(ctx, t.spec, taskGate{approve: t.approve, ask: t.ask}); err != nil {
			logPanic(t.host.logger(), "task "+t.spec.ID, err)
			return nil, err
		}
		began := takeInventory(agent.Runtime(), lookWithin)
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

// noteQuestion makes room for the answer to the question of an event, or notes that
// none is wanted any more. The caller holds t.mu.
func (t *localTask) noteQuestion(e Event) {
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
func (t *localTask) employ(agent *Agent, began inventory.Inventory) bool {
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
	t.did.note(e)
	t.noteRequest(e)
	t.noteQuestion(e)
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

// Early implements [crew.Message].
func (m taskMessage) Early() bool { return m.early }

// Size is about how many bytes the message has.
func (m taskMessage) Size() int { return sizeOfMessage(UserMessage(m.text, m.parts...)) }

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
	case m.Size() > crew.MaxMailBytes:
		return fmt.Errorf("the message has %d bytes, more than %d", m.Size(), crew.MaxMailBytes)
	}
	_, err := encodeForHistory(UserMessage(m.text, m.parts...))
	return err
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
