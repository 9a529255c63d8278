package pygent

import (
	"context"
	"fmt"
	"reflect"
)

// taskRecord is what a manager knows of a task besides its status: who
// delegated it, what was asked for, and what has become of its events. It
// exists in this process only.
type taskRecord struct {
	id      string
	request taskRequest
	agent   *Agent      // that delegated it; nil for a task of no agent
	up      *taskRecord // of the task that agent works on; nil when it works on none
	depth   int
	budget  *taskBudget // of the run that delegated; nil outside of a run

	started  chan struct{} // closed when the start is over
	startErr error         // of the start; set before started is closed

	after int64 // the last event handled; the follower's own

	// Guarded by the manager's mu.
	private  taskPrivate
	worker   *Agent               // that works on it; nil until it is made
	children []string             // the tasks that it delegated
	handled  int64                // the last event of a task that came to rest
	rested   chan struct{}        // closed when handled or followed change; nil while nobody waits
	followed bool                 // a follower is at work
	again    bool                 // and has to look once more
	asking   []context.CancelFunc // of decisions about its calls
}

// newRecord returns the record of a task that an agent delegates by a call, or
// else by the one that owns the manager.
func (m *TaskManager) newRecord(prompt string, o taskOptions) *taskRecord {
	r := &taskRecord{id: o.id, request: o.taskRequest, agent: m.opts.owner, depth: 1, started: make(chan struct{})}
	r.request.prompt = prompt
	if o.call != nil {
		r.agent, r.budget = o.call.agent, o.call.budget
	}
	if r.agent != nil {
		r.depth = r.agent.opts.depth + 1
		r.request.parent = r.agent.id
		r.up = m.record(r.agent.opts.task)
	}
	return r
}

// record returns the record of a task, or nil.
func (m *TaskManager) record(id string) *taskRecord {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tasks[id]
}

// claim takes the id of a task for r. When a task of this id was started by the
// same request, it reports known. Another start of it that goes on is waited
// for.
func (m *TaskManager) claim(ctx context.Context, r *taskRecord) (known bool, err error) {
	for {
		other := m.takeID(r)
		if other == nil {
			return false, nil
		}
		if what := other.request.differs(r.request); what != "" {
			return false, taskError(r.id, fmt.Errorf("%w, and %s", ErrTaskExists, what))
		}
		select {
		case <-other.started:
		case <-ctx.Done():
			return false, contextError(ctx)
		}
		if other.startErr == nil {
			return true, nil
		}
	}
}

// takeID notes r, unless another task has its id.
func (m *TaskManager) takeID(r *taskRecord) (other *taskRecord) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if other := m.tasks[r.id]; other != nil {
		return other
	}
	m.tasks[r.id] = r
	if r.up != nil {
		r.up.children = append(r.up.children, r.id)
	}
	return nil
}

// claimed ends the start of a task. One that failed is forgotten.
func (m *TaskManager) claimed(r *taskRecord, err error) {
	if err != nil {
		m.forget(r.id)
	}
	r.startErr = err
	close(r.started)
}

// differs says in what another request is not the same, or nothing.
func (q taskRequest) differs(other taskRequest) string {
	switch {
	case q.parent != other.parent:
		return "another agent delegated it"
	case q.prompt != other.prompt:
		return "another prompt"
	case !reflect.DeepEqual(q, other):
		return "other files, limits, persona, model, profile or queue"
	}
	return ""
}

// forget drops what is known of a task that was not started, or removed.
func (m *TaskManager) forget(id string) {
	m.releaseFiles(id)
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.tasks[id]
	if r == nil {
		return
	}
	r.wake()
	delete(m.tasks, id)
	if r.up == nil {
		return
	}
	// Usually the newest, so found at once.
	siblings := r.up.children
	for i := len(siblings) - 1; i >= 0; i-- {
		if siblings[i] == id {
			r.up.children = append(siblings[:i:i], siblings[i+1:]...)
			break
		}
	}
}

// releaseFiles says that a task needs the files it begins with no longer.
func (m *TaskManager) releaseFiles(id string) {
	m.mu.Lock()
	ref := ""
	if r := m.tasks[id]; r != nil {
		ref, r.private.files = r.private.files, ""
	}
	m.mu.Unlock()
	m.files.Release(ref)
}
