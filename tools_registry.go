package pygent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/dialect"
	"github.com/x/pygent/internal/spelling"
)

// Registry is a set of tools, safe for concurrent use. Every agent has its
// own, made from the default registry when the agent is created. The zero
// Registry is empty and ready to use.
type Registry struct {
	mu       sync.RWMutex
	tools    map[string]Tool   // nil until the first one is added
	shared   bool              // tools is another registry's too, or the built-in ones, and is copied before a change
	disabled map[string]bool   // nil until the first one is disabled
	owners   map[string]string // the source of each tool that has one; nil until there is one
	kept     map[string]bool   // those that stay disabled
	version  int64             // rises with every change
	tasks    taskTools
	skills   []string // the names of those that the agent has
	changed  func()   // called after every change; nil for none
}

// NewRegistry returns a registry of the given tools.
func NewRegistry(tools ...Tool) (*Registry, error) {
	r := &Registry{}
	for _, t := range tools {
		if err := r.Add(t); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Add registers t, replacing a tool of the same name.
func (r *Registry) Add(t Tool) error {
	t, err := t.checked()
	if err != nil {
		return err
	}
	defer r.tellChange()
	r.mu.Lock()
	defer r.mu.Unlock()
	if source := r.owners[t.Name]; source != "" {
		return fmt.Errorf("tool %s: the tool source %s has one of that name", t.Name, source)
	}
	r.ownTools()
	r.tools[t.Name] = t
	r.version++
	return nil
}

// ownTools makes the map of the tools one that may be changed. The caller holds r.mu.
func (r *Registry) ownTools() {
	switch {
	case r.tools == nil:
		r.tools = map[string]Tool{}
	case r.shared:
		r.tools = maps.Clone(r.tools)
	}
	r.shared = false
}

// dropTools takes tools out. The caller holds r.mu.
func (r *Registry) dropTools(which func(name string) bool) {
	r.ownTools()
	maps.DeleteFunc(r.tools, func(name string, _ Tool) bool { return which(name) })
	maps.DeleteFunc(r.owners, func(name, _ string) bool { return r.tools[name].Name == "" })
	r.version++
}

// Register adds a tool made from a function; see [RegisterTool].
func (r *Registry) Register(name, description string, parameters any, fn ToolFunc) error {
	return r.Add(toolFromFunc(name, description, parameters, fn))
}

// Remove takes a tool out. An unknown name is an error that matches
// [ErrUnknownTool].
func (r *Registry) Remove(name string) error {
	defer r.tellChange()
	r.mu.Lock()
	_, ok := r.tools[name]
	if ok {
		r.dropTools(func(other string) bool { return other == name })
	}
	r.mu.Unlock()
	if !ok {
		return r.unknown(name, nil)
	}
	return nil
}

// Clear takes all tools out.
func (r *Registry) Clear() {
	defer r.tellChange()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropTools(func(string) bool { return true })
}

// Reset restores the built-in tools and removes all others. Afterwards only those
// tools are disabled that the agent was made without ([WithDisabledTools]).
func (r *Registry) Reset() {
	defer r.tellChange()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tools, r.shared, r.owners, r.disabled = builtinTools(), true, nil, maps.Clone(r.kept)
	r.version++
}

// Disable hides tools from the model and refuses calls of them. A name may also
// be registered later; it is disabled nevertheless.
func (r *Registry) Disable(names ...string) {
	defer r.tellChange()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.disabled == nil {
		r.disabled = map[string]bool{}
	}
	for _, name := range names {
		r.disabled[name] = true
	}
	r.version++
}

// Enable undoes [Registry.Disable]. It is an error, and nothing changes, when the
// agent was made with one of the tools disabled ([WithDisabledTools], or the
// configuration), because that is a rule for it and not its state.
func (r *Registry) Enable(names ...string) error {
	defer r.tellChange()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		if r.kept[name] {
			return fmt.Errorf("enable %s: the agent was made with this tool disabled", name)
		}
	}
	for _, name := range names {
		delete(r.disabled, name)
	}
	r.version++
	return nil
}

// keepDisabled disables tools for good.
func (r *Registry) keepDisabled(names []string) {
	r.Disable(names...)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept == nil {
		r.kept = map[string]bool{}
	}
	for _, name := range names {
		r.kept[name] = true
	}
}

// names returns the names of the tools that are not disabled, and those that are
// disabled, sorted.
func (r *Registry) names() (enabled, disabled []string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, t := range r.enabled() {
		enabled = append(enabled, t.Name)
	}
	return enabled, slices.Sorted(maps.Keys(r.disabled))
}

// unoffered returns the names of the tools that are not disabled but cannot work in
// a runtime, sorted.
func (r *Registry) unoffered(rt Runtime) (names []string) {
	for _, t := range r.Tools() {
		if _, ok := r.offered(t, rt); !ok {
			names = append(names, t.Name)
		}
	}
	return names
}

func (r *Registry) tellChange() {
	if r.changed != nil {
		r.changed()
	}
}

// Tools returns the tools that are not disabled, sorted by name.
func (r *Registry) Tools() []Tool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.enabled()
}

// enabled returns the tools that are not disabled. The caller holds r.mu.
func (r *Registry) enabled() []Tool {
	var tools []Tool
	for _, name := range slices.Sorted(maps.Keys(r.tools)) {
		if !r.disabled[name] {
			tools = append(tools, r.tools[name])
		}
	}
	return tools
}

// Execute runs a tool call on rt, with what a model wrote almost right read as it
// is meant. Its errors are all [*ToolError]: for unknown or disabled tools,
// arguments that do not fit, errors of the tool, and panics.
func (r *Registry) Execute(ctx context.Context, call ToolCall, rt Runtime) (*ToolResult, error) {
	t, err := r.find(call, rt)
	if err != nil {
		return nil, &ToolError{Tool: cut.Head(call.Name, shownName), Err: err}
	}
	args, err := t.read(call)
	if err != nil {
		return nil, &ToolError{Tool: t.Name, Err: err}
	}
	return t.call(ctx, rt, args)
}

// lookup returns a tool as it can work in a runtime.
func (r *Registry) lookup(name string, rt Runtime) (Tool, error) {
	r.mu.RLock()
	t, ok := r.tools[name]
	disabled := r.disabled[name]
	r.mu.RUnlock()
	if disabled {
		return Tool{}, ErrToolDisabled
	}
	if !ok {
		return Tool{}, r.unknown(name, rt)
	}
	return r.on(t, rt)
}

// unknown returns the error for an unknown name: the tool that was probably
// meant, and then all of them. With a runtime it names only the tools that can
// work there.
func (r *Registry) unknown(name string, rt Runtime) error {
	var names []string
	for _, t := range r.Tools() {
		if rt != nil {
			if _, ok := r.offered(t, rt); !ok {
				continue
			}
		}
		names = append(names, t.Name)
	}
	said := fmt.Sprintf("%q", cut.Head(name, shownName))
	if like := spelling.Nearest(dialect.Bare(name), names); like != "" {
		said += ", did you mean " + like + "? The"
	} else if hint := dialect.Hint(name); hint != "" {
		said += "; " + hint + "; the"
	} else {
		said += "; the"
	}
	return fmt.Errorf("%w %s tools are: %s", ErrUnknownTool, said, strings.Join(names, ", "))
}

// known returns an error for the first name that no tool has, removed built-in
// tools included. what says what the names are for.
func (r *Registry) known(what string, names []string) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, name := range names {
		_, registered := r.tools[name]
		_, builtin := builtinTools()[name]
		if registered || builtin || r.disabled[name] {
			continue
		}
		all := slices.Sorted(maps.Keys(r.tools))
		if like := spelling.Nearest(name, all); like != "" {
			return fmt.Errorf("tools %s: %w %q, did you mean %s?", what, ErrUnknownTool, name, like)
		}
		return fmt.Errorf("tools %s: %w %q; the tools are: %s", what, ErrUnknownTool, name, strings.Join(all, ", "))
	}
	return nil
}

// specs returns the descriptions of the tools that can work in a runtime, for a
// model, and the version of the registry that they belong to.
func (r *Registry) specs(rt Runtime) ([]ToolSpec, int64) {
	r.mu.RLock()
	tools, version := r.enabled(), r.version
	r.mu.RUnlock()
	specs := make([]ToolSpec, 0, len(tools))
	for _, t := range tools {
		if t, ok := r.offered(t, rt); ok {
			specs = append(specs, ToolSpec{Name: t.Name, Description: t.Description, Parameters: t.schema.Wire()})
		}
	}
	return specs, version
}

func (r *Registry) currentVersion() int64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.version
}

// clone returns an independent copy, without the tools of sources: those act in
// the runtime of one agent. The two share the map of the tools until one of them
// changes its own, which most never do.
func (r *Registry) clone() *Registry {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shared = true
	c := &Registry{tools: r.tools, shared: true, disabled: maps.Clone(r.disabled), kept: maps.Clone(r.kept)}
	if len(r.owners) > 0 {
		c.dropTools(func(name string) bool { return r.owners[name] != "" })
	}
	return c
}

// defaultRegistry holds the built-in tools and what RegisterTool adds. Agents
// take a copy when they are created.
var defaultRegistry = sync.OnceValue(func() *Registry {
	r := &Registry{}
	r.Reset()
	return r
})

// RegisterTool adds a tool to the default registry, for agents created
// afterwards. parameters is a JSON Schema of type object: any value that
// encodes to one, or nil for no parameters. A tool of the same name is
// replaced.
func RegisterTool(name, description string, parameters any, fn ToolFunc) error {
	return defaultRegistry().Register(name, description, parameters, fn)
}

// AddTool adds a tool, one made by [NewTool] say, to the default registry.
func AddTool(t Tool) error { return defaultRegistry().Add(t) }

// ExecuteTool runs a call of a tool of the default registry on rt and returns
// the text that the model would see. Errors are [*ToolError].
func ExecuteTool(ctx context.Context, call ToolCall, rt Runtime) (string, error) {
	result, err := defaultRegistry().Execute(ctx, call, rt)
	if err != nil {
		return "", err
	}
	return result.Content, nil
}

// RemoveTool takes a tool out of the default registry.
func RemoveTool(name string) error { return defaultRegistry().Remove(name) }

// ClearTools takes all tools out of the default registry, the built-in ones
// included.
func ClearTools() { defaultRegistry().Clear() }

// ResetTools restores the default registry to the built-in tools.
func ResetTools() { defaultRegistry().Reset() }
