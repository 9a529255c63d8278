package pygent

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/x/pygent/internal/callback"
	"github.com/x/pygent/internal/guard"
)

// closeHandlers is how long Close waits for event handlers and approvals once
// all tasks are over.
const closeHandlers = 30 * time.Second

// follow sees to it that the task's events are handled until it rests.
func (m *TaskManager) follow(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.tasks[id]
	switch {
	case r == nil || m.closed: // at Close all that has to be followed is
	case r.followed:
		r.again = true
	default:
		r.followed = true
		m.wg.Go(func() { m.followUntilRest(r) })
	}
}

func (m *TaskManager) followUntilRest(r *taskRecord) {
	for {
		for e, err := range m.exec.events(m.life, r.id, r.after) {
			if err != nil {
				break // the task was removed, or the manager is closed
			}
			r.after = e.Seq
			m.handle(r, e)
			if e.TaskStatus != nil && e.TaskStatus.State.AtRest() {
				m.noteRest(r, e.Seq)
			}
		}
		m.mu.Lock()
		if !r.again {
			r.followed = false
			r.wake()
			m.mu.Unlock()
			return
		}
		r.again = false
		m.mu.Unlock()
	}
}

// noteRest tells those who wait that all was handled until a task came to rest.
func (m *TaskManager) noteRest(r *taskRecord, seq int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.handled = seq
	r.wake()
}

// wake has those who wait look again. The caller holds the manager's mu.
func (r *taskRecord) wake() {
	if r.rested != nil {
		close(r.rested)
		r.rested = nil
	}
}

// waitHandled waits until the events of a task that rests were handled.
func (m *TaskManager) waitHandled(ctx context.Context, status TaskStatus) error {
	for {
		m.mu.Lock()
		r := m.tasks[status.ID]
		if r == nil || r.handled >= status.Seq || m.closed && !r.followed {
			m.mu.Unlock()
			return nil
		}
		if r.rested == nil {
			r.rested = make(chan struct{})
		}
		rested := r.rested
		m.mu.Unlock()
		select {
		case <-rested:
		case <-ctx.Done():
			return contextError(ctx)
		}
	}
}

// handle does what an event of a task asks for, and passes it on: to the
// manager's handler, and to the agents above the task. Each has it once.
func (m *TaskManager) handle(r *taskRecord, e Event) {
	switch e.Type {
	case EventApproval:
		m.ask(r, e)
	case EventTask:
		m.changed(r, *e.TaskStatus)
	}
	m.emit(e)
	for up := r; up != nil; up = up.up {
		if up.agent != nil {
			up.agent.emitTask(m.life, e)
		}
	}
}

// changed does what a new state of a task asks for.
func (m *TaskManager) changed(r *taskRecord, status TaskStatus) {
	if !status.State.AtRest() {
		return
	}
	m.mu.Lock()
	children, asking := slices.Clone(r.children), r.asking
	r.asking = nil
	m.mu.Unlock()
	for _, cancel := range asking {
		cancel() // nobody waits for the answer any more
	}
	if r.agent != nil {
		r.agent.notices.add(status)
	}
	if status.State == TaskAwaitingUser {
		return
	}
	for _, child := range children {
		_ = m.cancel(m.life, child, "the task that delegated it is over") // unless it ended already
	}
}

// emit calls the manager's event handler. Its panic must not take the process
// along.
func (m *TaskManager) emit(e Event) {
	if m.opts.onEvent == nil {
		return
	}
	m.emitting.Lock()
	defer m.emitting.Unlock()
	defer m.callbacks.Enter(callback.Self())()
	defer func() {
		if p := recover(); p != nil {
			logPanic(m.logger(), "handler of the tasks' events", guard.Panicked(p))
		}
	}()
	m.opts.onEvent(e)
}

// logger returns where the manager logs: as the agents do that work on tasks.
func (m *TaskManager) logger() *slog.Logger {
	if m.opts.owner != nil {
		return m.opts.owner.log
	}
	return applyOptions(m.opts.agent).logger
}
