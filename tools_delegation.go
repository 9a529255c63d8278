package pygent

import (
	"fmt"
	"slices"

	"github.com/x/pygent/internal/toolschema"
)

// delegation is what a tool has to do with tasks.
type delegation int

const (
	noDelegation  delegation = iota
	startsTasks              // of use where tasks can be made
	namesPersonas            // of use where there are personas besides
	ofStarted                // of use where tasks can be made, or a program has started some
)

func delegationOf(tool string) delegation {
	switch tool {
	case "delegate_task":
		return startsTasks
	case "delegate_persona_task", "list_personas":
		return namesPersonas
	}
	return ofStarted
}

// mayDelegate reports whether the agent can have tasks: it is not as deep as
// agents may be already, and its runtime can make another of its kind, or the
// manager's options give one. Otherwise the delegation tools are of no use.
func (a *Agent) mayDelegate() bool {
	if rules := a.opts.rules; rules.MaxDepth != 0 && a.opts.depth >= limitOr(rules.MaxDepth, 0) {
		return false
	}
	if a.tasks.bringsRuntime() {
		return true
	}
	_, ours := RuntimeAs[*workspaceRuntime](a.runtime)
	_, makes := RuntimeAs[TaskRuntimeMaker](a.runtime)
	return ours || makes
}

// taskTools is what a registry knows of its agent's tasks.
type taskTools struct {
	none     bool                          // the agent cannot delegate; set before its first run
	personas int                           // how many there are; set before the first run
	offered  map[string]*toolschema.Schema // schemas that name them, by tool; set before the first run
	started  bool                          // a program has started a task of the agent; guarded by the registry's mu
}

// maxPersonaNames is how many bytes of names the schema of a tool lists. Of more
// personas a model learns by list_personas only.
const maxPersonaNames = 1 << 10

// prepareTaskTools fits the delegation tools to the agent: to whether it may
// delegate, and to the personas there are.
func (a *Agent) prepareTaskTools() {
	personas := a.tasks.options().personas
	tools := taskTools{none: !a.mayDelegate(), personas: len(personas)}
	var names []string
	bytes := 0
	for _, p := range personas {
		if p.Name != "" && !slices.Contains(names, p.Name) {
			names, bytes = append(names, p.Name), bytes+len(p.Name)
		}
	}
	if bytes <= maxPersonaNames {
		tools.offered = map[string]*toolschema.Schema{}
		for name, t := range builtinTools() {
			if name != "delegate_task" && (name != "delegate_persona_task" || len(names) == 0) {
				continue
			}
			// It fails for names that have no JSON, which then are not listed.
			if schema, err := t.schema.Offered("persona", names); err == nil {
				tools.offered[name] = schema
			}
		}
	}
	a.tools.tasks = tools
}

// noteStarted notes that the agent has a task, so that the model is given the
// tools for it even if it cannot delegate.
func (r *Registry) noteStarted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tasks.none && !r.tasks.started {
		r.tasks.started = true
		r.version++
	}
}

// on returns the tool as the agent can use it in a runtime.
func (r *Registry) on(t Tool, rt Runtime) (_ Tool, err error) {
	switch {
	case t.delegation == noDelegation:
	case r.tasks.none && (t.delegation != ofStarted || !r.hasStarted()):
		return t, fmt.Errorf("%w: no tasks can be made here; do the work yourself", ErrToolDisabled)
	case r.tasks.offered[t.Name] != nil && t.isBuiltin():
		t.schema = r.tasks.offered[t.Name]
	}
	t, ok := t.on(rt)
	if !ok {
		return t, fmt.Errorf("%w: this runtime cannot serve it", ErrToolDisabled)
	}
	if t.skills {
		return r.withSkills(t)
	}
	return t, nil
}

// offered returns the tool as a model is given it. ok is false if it is not: it
// cannot work, or there are no personas to name, which a call of it would tell.
func (r *Registry) offered(t Tool, rt Runtime) (_ Tool, ok bool) {
	if t.delegation == namesPersonas && r.tasks.personas == 0 {
		return t, false
	}
	t, err := r.on(t, rt)
	return t, err == nil
}

// WhyUnoffered says for a person why a model is not offered a tool in a runtime, and
// what would change that. It is empty for a tool that is offered and for one that is
// disabled or not known.
func (r *Registry) WhyUnoffered(name string, rt Runtime) string {
	r.mu.RLock()
	t, ok := r.tools[name]
	disabled := r.disabled[name]
	r.mu.RUnlock()
	if !ok || disabled {
		return ""
	}
	if _, offered := r.offered(t, rt); offered {
		return ""
	}
	_, can := t.on(rt)
	switch {
	case t.delegation != noDelegation && r.tasks.none:
		return "no tasks can be made here: the agent is as deep as tasks may be"
	case t.delegation == namesPersonas && r.tasks.personas == 0:
		return "there are no personas to delegate to; task_personas in a configuration file or PYGENT_TASK_PERSONAS adds some"
	case !can:
		return "the runtime cannot serve it; another runtime may, such as a Docker container"
	}
	return "there are no skills; a SKILL.md below .agents/skills or .pygent/skills adds one"
}

func (r *Registry) hasStarted() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.tasks.started
}
