package pygent

import (
	"context"
	"slices"
)

// closesItself reports whether Close is called by what it would wait for.
func (m *TaskManager) closesItself() bool {
	if m.callbacks.Inside() {
		return true
	}
	m.mu.Lock()
	agents, workers := []*Agent{m.opts.owner}, []*Agent{}
	for _, r := range m.tasks {
		agents, workers = append(agents, r.agent), append(workers, r.worker)
	}
	m.mu.Unlock()
	return slices.ContainsFunc(agents, (*Agent).inHandler) || slices.ContainsFunc(workers, (*Agent).inCallback)
}

// waitsForItself reports whether Wait for a task is called by what it would
// wait for: a handler of its events, or a tool of the task itself or of one
// that it delegated.
func (m *TaskManager) waitsForItself(ctx context.Context, id string) bool {
	if m.callbacks.Inside() {
		return true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.tasks[id]
	if r == nil {
		return false
	}
	if r.worker.inCallback() {
		return true
	}
	for up := r; up != nil; up = up.up {
		if up.agent.inHandler() {
			return true
		}
	}
	call := callOf(ctx)
	if call == nil {
		return false
	}
	for caller := m.tasks[call.agent.opts.task]; caller != nil; caller = caller.up {
		if caller == r {
			return true
		}
	}
	return false
}

// inHandler reports whether an event handler of the agent calls. No agent has
// none.
func (a *Agent) inHandler() bool { return a != nil && a.handling.Inside() }

// inCallback reports the same of an event handler, a tool or an approval.
func (a *Agent) inCallback() bool { return a.inHandler() || a != nil && a.calling.Inside() }
