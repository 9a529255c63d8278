package pygent

import (
	"context"
	"fmt"

	"github.com/x/pygent/internal/callback"
)

// ask has somebody decide about a call of a task, and meanwhile follows on. The
// question is withdrawn when the task rests.
func (m *TaskManager) ask(r *taskRecord, e Event) {
	ctx, cancel := context.WithCancel(context.WithValue(m.life, taskKey{}, r.id))
	m.mu.Lock()
	r.asking = append(r.asking, cancel)
	m.mu.Unlock()
	m.wg.Go(func() {
		defer cancel()
		// A task that ended in the meantime needs no decision.
		_ = m.exec.send(m.life, r.id, taskInput{
			ID:       fmt.Sprintf("decision-%d", e.Seq),
			Kind:     inputDecision,
			Request:  e.Seq,
			Decision: m.decide(ctx, r, *e.Call),
		})
	})
}

// decide asks about a call of a task. No answer is no.
func (m *TaskManager) decide(ctx context.Context, r *taskRecord, call ToolCall) Decision {
	approve := m.approver(r)
	if approve == nil {
		return Decision{Reason: "this tool needs approval, and nobody can give it for a task"}
	}
	defer r.pauseSteps()()
	m.approving.Lock()
	defer m.approving.Unlock()
	if ctx.Err() != nil {
		return Decision{Reason: "the task ended before its turn to be asked about came"}
	}
	decision, err := outlive(ctx, func() (Decision, error) {
		defer m.callbacks.Enter(callback.Self())()
		return approve(ctx, call)
	})
	if err != nil {
		logPanic(m.log, "approval", err)
		return Decision{Reason: fmt.Sprintf("the approval could not be asked for: %v", err)}
	}
	return decision
}

// pauseSteps stops the time limits of the steps in which agents may wait for the
// task, until the function that it returns is called.
func (r *taskRecord) pauseSteps() (goOn func()) {
	var open []func()
	for ; r != nil && r.agent != nil; r = r.up {
		open = append(open, r.agent.asking.Close())
	}
	return func() {
		for _, f := range open {
			f()
		}
	}
}

// approver returns who decides about the calls of a task: whoever the manager
// was given, else whoever does so for the agent that everything began with.
func (m *TaskManager) approver(r *taskRecord) ApprovalFunc {
	if m.opts.approve != nil {
		return m.opts.approve
	}
	for r.up != nil {
		r = r.up
	}
	if r.agent == nil {
		return nil
	}
	approve, _ := r.agent.approval()
	return approve
}

// taskKey marks the context of an approval with the task's id.
type taskKey struct{}

// taskOf returns the task that an approval is asked for; empty for the agent
// itself.
func taskOf(ctx context.Context) string {
	id, _ := ctx.Value(taskKey{}).(string)
	return id
}
