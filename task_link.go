package pygent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// taskLink ties a task to the agent that delegated it: for the events, for the
// word that it ended, and for the budget. It exists in this process only.
type taskLink struct {
	agent  *Agent      // nil for a task of no agent
	depth  int         // of the task
	budget *taskBudget // of the run that delegated; nil outside of a run

	after int64 // the last event handled; the follower's own

	// Guarded by the manager's mu.
	handled  int64                // the last event of a task that came to rest
	rested   chan struct{}        // closed when handled or followed change; nil while nobody waits
	followed bool                 // a follower is at work
	again    bool                 // and has to look once more
	asking   []context.CancelFunc // of decisions about its calls
}

// linkOf returns the link of a task that is started with ctx: to the agent
// whose tool call it is, else to the one that owns the manager.
func (m *TaskManager) linkOf(ctx context.Context) *taskLink {
	if call := callOf(ctx); call != nil {
		return &taskLink{agent: call.agent, depth: call.agent.opts.depth + 1, budget: call.budget}
	}
	if owner := m.opts.owner; owner != nil {
		return &taskLink{agent: owner, depth: owner.opts.depth + 1}
	}
	return &taskLink{depth: 1}
}

func (l *taskLink) parentID() string {
	if l.agent == nil {
		return ""
	}
	return l.agent.id
}

// register notes a task before it is started. It reports false for one that is
// noted already.
func (m *TaskManager) register(spec TaskSpec, link *taskLink, private *taskPrivate) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.links[spec.ID]; ok {
		return false
	}
	m.links[spec.ID] = link
	m.private[spec.ID] = private
	m.children[spec.Parent] = append(m.children[spec.Parent], spec.ID)
	return true
}

// unregister drops what is known of a task that was not started, or removed.
func (m *TaskManager) unregister(spec TaskSpec) {
	m.releaseFiles(spec.ID)
	m.mu.Lock()
	defer m.mu.Unlock()
	if link := m.links[spec.ID]; link != nil {
		link.wake()
	}
	delete(m.links, spec.ID)
	delete(m.private, spec.ID)
	delete(m.children, spec.ID)
	// Usually the newest, so found at once.
	siblings := m.children[spec.Parent]
	for i := len(siblings) - 1; i >= 0; i-- {
		if siblings[i] == spec.ID {
			m.children[spec.Parent] = append(siblings[:i:i], siblings[i+1:]...)
			break
		}
	}
}

// releaseFiles says that a task needs the files it begins with no longer.
func (m *TaskManager) releaseFiles(id string) {
	m.mu.Lock()
	private := m.private[id]
	ref := ""
	if private != nil {
		ref, private.files = private.files, ""
	}
	m.mu.Unlock()
	m.files.release(ref)
}

// forget drops what is known of a removed task.
func (m *TaskManager) forget(id string) {
	m.mu.Lock()
	link := m.links[id]
	m.mu.Unlock()
	if link != nil {
		m.unregister(TaskSpec{ID: id, Parent: link.parentID()})
	}
}

// follow sees to it that the task's events are handled until it rests.
func (m *TaskManager) follow(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	link := m.links[id]
	switch {
	case link == nil || m.closed: // at Close all that has to be followed is
	case link.followed:
		link.again = true
	default:
		link.followed = true
		m.wg.Go(func() { m.followUntilRest(id, link) })
	}
}

func (m *TaskManager) followUntilRest(id string, link *taskLink) {
	for {
		for e, err := range m.exec.events(m.life, id, link.after) {
			if err != nil {
				break // the task was removed, or the manager is closed
			}
			link.after = e.Seq
			m.handle(id, link, e)
			if e.Task == id && e.TaskStatus != nil && e.TaskStatus.State.AtRest() {
				m.noteRest(link, e.Seq)
			}
		}
		m.mu.Lock()
		if !link.again {
			link.followed = false
			link.wake()
			m.mu.Unlock()
			return
		}
		link.again = false
		m.mu.Unlock()
	}
}

// noteRest tells those who wait that all was handled until a task came to rest.
func (m *TaskManager) noteRest(link *taskLink, seq int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	link.handled = seq
	link.wake()
}

// wake has those who wait look again. The caller holds the manager's mu.
func (l *taskLink) wake() {
	if l.rested != nil {
		close(l.rested)
		l.rested = nil
	}
}

// waitHandled waits until the events of a task that rests were handled.
func (m *TaskManager) waitHandled(ctx context.Context, status TaskStatus) {
	for ctx.Err() == nil {
		m.mu.Lock()
		link := m.links[status.ID]
		if link == nil || link.handled >= status.Seq || m.closed && !link.followed {
			m.mu.Unlock()
			return
		}
		if link.rested == nil {
			link.rested = make(chan struct{})
		}
		rested := link.rested
		m.mu.Unlock()
		select {
		case <-rested:
		case <-ctx.Done():
		}
	}
}

// handle does what an event asks for, and passes it on.
func (m *TaskManager) handle(id string, link *taskLink, e Event) {
	switch {
	case e.Type == EventMessage && e.Usage != nil:
		if link.budget.spend(*e.Usage) {
			_ = m.cancel(m.life, id, "the budget of tokens of the run that delegated it is spent") // unless it ended already
		}
	case e.Task != id:
	case e.Type == EventApproval:
		m.ask(id, link, e)
	case e.Type == EventTask:
		m.changed(id, link, *e.TaskStatus)
	}
	m.emit(e)
	if link.agent != nil {
		link.agent.emitTask(e)
	}
}

// changed does what a new state of a task asks for.
func (m *TaskManager) changed(id string, link *taskLink, status TaskStatus) {
	if !status.State.AtRest() {
		return
	}
	m.mu.Lock()
	children, asking := m.children[id], link.asking
	link.asking = nil
	m.mu.Unlock()
	for _, cancel := range asking {
		cancel() // nobody waits for the answer any more
	}
	if link.agent != nil {
		link.agent.notices.add(status)
	}
	if status.State == TaskAwaitingUser {
		return
	}
	for _, child := range children {
		_ = m.cancel(m.life, child, "the task that delegated it is over") // unless it ended already
	}
}

// emit calls the manager's event handler.
func (m *TaskManager) emit(e Event) {
	if m.opts.onEvent == nil {
		return
	}
	m.emitting.Lock()
	defer m.emitting.Unlock()
	m.opts.onEvent(e)
}

// ask has somebody decide about a call of a task, and meanwhile follows on. The
// question is withdrawn when the task rests.
func (m *TaskManager) ask(id string, link *taskLink, e Event) {
	ctx, cancel := context.WithCancel(context.WithValue(m.life, taskKey{}, id))
	m.mu.Lock()
	link.asking = append(link.asking, cancel)
	m.mu.Unlock()
	m.wg.Go(func() {
		defer cancel()
		// A task that ended in the meantime needs no decision.
		_ = m.exec.send(m.life, id, taskInput{
			ID:       fmt.Sprintf("decision-%d", e.Seq),
			Kind:     inputDecision,
			Request:  e.Seq,
			Decision: m.decide(ctx, link, *e.Call),
		})
	})
}

// decide asks about a call of a task. No answer is no.
func (m *TaskManager) decide(ctx context.Context, link *taskLink, call ToolCall) Decision {
	approve := m.approver(link)
	if approve == nil {
		return Decision{Reason: "this tool needs approval, and nobody can give it for a task"}
	}
	defer m.pauseSteps(link)()
	m.approving.Lock()
	defer m.approving.Unlock()
	decision, err := outlive(ctx, func() (Decision, error) { return approve(ctx, call) })
	if err != nil {
		return Decision{Reason: fmt.Sprintf("the approval could not be asked for: %v", err)}
	}
	return decision
}

// approver returns who decides about the calls of a task: whoever the manager
// was given, else whoever does so for the agent that everything began with.
func (m *TaskManager) approver(link *taskLink) ApprovalFunc {
	if m.opts.approve != nil {
		return m.opts.approve
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for link != nil && link.agent != nil && link.agent.opts.task != "" {
		link = m.links[link.agent.opts.task]
	}
	if link == nil || link.agent == nil {
		return nil
	}
	return link.agent.approver()
}

// pauseSteps stops the time limits of the steps in which agents may wait for a
// task, until the function that it returns is called.
func (m *TaskManager) pauseSteps(link *taskLink) (goOn func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var open []func()
	for link != nil && link.agent != nil {
		open = append(open, link.agent.asking.Close())
		link = m.links[link.agent.opts.task]
	}
	return func() {
		for _, f := range open {
			f()
		}
	}
}

// taskKey marks the context of an approval with the task's id.
type taskKey struct{}

// taskOf returns the task that an approval is asked for; empty for the agent
// itself.
func taskOf(ctx context.Context) string {
	id, _ := ctx.Value(taskKey{}).(string)
	return id
}

// errBudgetSpent refuses a task that could not make a step.
var errBudgetSpent = errors.New("the budget of the run is spent")

// taskBudget is what a run lets its tasks spend. What they spent counts for
// the run as well. A nil budget bounds nothing.
type taskBudget struct {
	deadline time.Time // of the run; zero when it has none

	mu    sync.Mutex
	limit int64 // of tokens, run and tasks together; 0 is no limit
	own   int64 // tokens of the run itself
	tasks Usage
}

// bound fits the limits of a task into what is left.
func (b *taskBudget) bound(l *TaskLimits) error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if left := timeLeft(b.deadline); left < 0 {
		return errBudgetSpent
	} else if left > 0 {
		l.Timeout = min(l.Timeout, left)
	}
	if b.limit == 0 {
		return nil
	}
	left := b.limit - b.own - b.tasks.Total()
	if left <= 0 {
		return errBudgetSpent
	}
	if l.MaxTokens == 0 || l.MaxTokens > left {
		l.MaxTokens = left
	}
	return nil
}

// spend notes what a task has used, and reports whether nothing is left.
func (b *taskBudget) spend(u Usage) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tasks = b.tasks.Add(u)
	return b.limit > 0 && b.own+b.tasks.Total() >= b.limit
}

// spendOwn notes what the run itself has used so far, and returns what its
// tasks have.
func (b *taskBudget) spendOwn(total int64) Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.own = total
	return b.tasks
}
