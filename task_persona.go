package pygent

import (
	"fmt"
	"strings"
)

// persona chooses who works on a task: whoever it names, else the next in turn.
// The turn is 0 when none was taken.
func (m *TaskManager) persona(q taskRequest) (p Persona, turn int, err error) {
	switch {
	case q.persona != nil:
		return q.persona.orDefault(), 0, nil
	case q.name != "":
		p, err = personaNamed(m.opts.personas, q.name)
		return p, 0, err
	case len(m.opts.personas) == 0:
		return Persona{}, 0, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	turn = m.turns.Take()
	return m.opts.personas[(turn-1)%len(m.opts.personas)], turn, nil
}

// giveBack returns the turn of a task that did not start.
func (m *TaskManager) giveBack(turn int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if turn > 0 {
		m.turns.GiveBack(turn)
	}
}

// personaNamed finds one of the personas by its name, in any case.
func personaNamed(personas []Persona, name string) (Persona, error) {
	names := make([]string, len(personas))
	for i, p := range personas {
		if strings.EqualFold(p.Name, name) {
			return p, nil
		}
		names[i] = p.Name
	}
	if len(names) == 0 {
		return Persona{}, fmt.Errorf("no persona %q: no task personas are configured", name)
	}
	return Persona{}, fmt.Errorf("no persona %q; the personas are: %s", name, strings.Join(names, ", "))
}
