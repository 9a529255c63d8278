package pygent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/callsummary"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/spelling"
	"github.com/x/pygent/internal/toolcall"
	"github.com/x/pygent/internal/toolschema"
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
	changed  func() // called after every change; nil for none
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

// exchange puts a tool in the place of the one of its name and description, if there still is
// one.
func (r *Registry) exchange(t Tool) error {
	t, err := t.checked()
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tools[t.Name].Description == t.Description {
		r.ownTools()
		r.tools[t.Name] = t
		r.version++
	}
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
	if like := spelling.Nearest(toolcall.Bare(name), names); like != "" {
		said += ", did you mean " + like + "? The"
	} else if hint := toolcall.Hint(name); hint != "" {
		said += "; " + hint + "; the"
	} else {
		said += "; the"
	}
	return fmt.Errorf("%w %s tools are: %s", ErrUnknownTool, said, strings.Join(names, ", "))
}

// known returns an error for the first name that no tool has. Those of this module are known
// even if the program has not got them: a setting of the user is for all programs. what says
// what the names are for.
func (r *Registry) known(what string, names []string) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, name := range names {
		_, registered := r.tools[name]
		ours, _ := callsummary.Builtin(name, json.RawMessage(`{}`))
		if registered || ours != "" || r.disabled[name] {
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
func (r *Registry) specs(rt Runtime) ([]chat.ToolSpec, int64) {
	r.mu.RLock()
	tools, version := r.enabled(), r.version
	r.mu.RUnlock()
	specs := make([]chat.ToolSpec, 0, len(tools))
	for _, t := range tools {
		if t, ok := r.offered(t, rt); ok {
			specs = append(specs, chat.ToolSpec{Name: t.Name, Description: t.Description, Parameters: t.schema.Wire()})
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

// Bounds of what the built-in tools show a model.
const (
	// maxToolResult bounds the result of a tool call, in bytes.
	maxToolResult = 32 << 10
	// maxImage bounds the file that read_image sends, before base64.
	maxImage = chat.MaxImagePart
	// shownCommand bounds how much of a command its result repeats, since the
	// model wrote it.
	shownCommand = 400
	// maxJobWait bounds how long job_output waits.
	maxJobWait = 600 * time.Second
)

type continueInput struct {
	Prompt  string   `json:"prompt,omitempty" jsonschema:"what to ask"`
	Options []string `json:"options,omitempty" jsonschema:"answers to choose from"`
}

func askUser(_ context.Context, _ Runtime, in continueInput) (*ToolResult, error) {
	if strings.TrimSpace(in.Prompt) == "" {
		return nil, errors.New("prompt is missing: ask the user in it, in a sentence that is clear without anything else")
	}
	return &ToolResult{
		Content:  "the user was asked; the answer follows",
		End:      StatusAwaitingUser,
		Question: &Question{Prompt: in.Prompt, Options: in.Options},
	}, nil
}

type stopInput struct {
	Summary string `json:"summary,omitempty" jsonschema:"the answer for the user, or what was done"`
}

func stopRun(_ context.Context, _ Runtime, in stopInput) (*ToolResult, error) {
	return &ToolResult{Content: "stopped", Summary: in.Summary, End: StatusStopped}, nil
}

// builtinTools are the tools every default registry starts with. The map is
// shared: clone it before changing it.
var builtinTools = sync.OnceValue(func() map[string]Tool {
	tools := map[string]Tool{}
	for _, t := range append(delegationTools(), []Tool{
		withOrWithoutJobs(builtin("bash", ToolRun, "Run a shell command in the workspace and return its output and exit code. Every command starts anew in the workspace: cd and exports do not last. Commands get no input and no terminal.", runBash)),
		ofJobs(polling(builtin("job_output", ToolRead, "Read what a background command printed since you read last, and see its state.", jobOutput))),
		ofJobs(polling(builtin("job_list", ToolRead, "List the commands in the background.", jobList))),
		ofJobs(builtin("job_kill", ToolRun, "End a background command with all its processes.", jobKill)),
		builtin("write_file", ToolEdit, "Create a text file, replace its whole content, or add to its end.", writeFile),
		builtin("edit_file", ToolEdit, "Replace text in a file: old_text by new_text, or several edits at once. old_text must be exact, and occur once unless replace_all is set.", editFile),
		builtin("download_file", ToolRead, "Read a text file, with the numbers of its lines before them, or list a directory.", downloadFile),
		builtin("read_image", ToolRead, "Look at an image file of the workspace (PNG, JPEG, GIF or WebP).", readImage),
		builtin("continue", ToolOther, "Ask the user for input or a decision, and wait for the answer.", askUser),
		builtin("stop", ToolOther, "End the work: the task is done, or cannot be done. Give the answer, or what was achieved, in summary.", stopRun),
	}...) {
		t.Idempotent = t.Idempotent || repeatable[t.Name]
		t.ReadOnly = readOnly[t.Name]
		t.ends = endsRun(t.Name)
		t.identities = []string{t.identity()}
		if t.fit != nil {
			t.identities = append(t.identities, t.fit(t, nil).identity())
		}
		tools[t.Name] = t
	}
	return tools
})

// repeatable are the tools that do no harm when they run a second time, except for
// what mayRepeat says.
// edit_file is not among them: it would not find its old text again, or would
// replace another occurrence.
var repeatable = map[string]bool{"write_file": true, "download_file": true, "read_image": true, "continue": true, "stop": true}

// mayRepeat reports whether a call of the tool may run a second time.
func (t Tool) mayRepeat(call *readCall) bool {
	if t.Name != "write_file" || !t.isBuiltin() {
		return t.Idempotent
	}
	var in writeInput
	return call.err == nil && json.Unmarshal([]byte(call.Arguments), &in) == nil && !in.Append
}

// readOnly are the tools that change nothing, including the two that end a run.
var readOnly = map[string]bool{
	"download_file": true, "read_image": true, "job_output": true, "job_list": true,
	"list_personas": true, "task_status": true, "continue": true, "stop": true,
}

// endsRun reports whether a tool is one that ends the run.
func endsRun(tool string) bool { return tool == "stop" || tool == "continue" }

// builtin makes a tool of this package. Its schema comes from a struct of this
// package too, so an error is a bug that every test would find.
func builtin[In any](name string, kind ToolKind, description string, fn func(context.Context, Runtime, In) (*ToolResult, error)) Tool {
	t, err := NewTool(name, description, fn).checked()
	if err != nil {
		panic(err)
	}
	run := t.Run
	t.Run = func(ctx context.Context, rt Runtime, args json.RawMessage) (*ToolResult, error) {
		if toolCallOf(ctx) == nil { // a program calls it; what a run calls has been located
			located, err := pathname.InCall(name, string(args), func(given string) (string, error) { return readPath(ctx, rt, given) })
			if err != nil {
				return nil, err
			}
			args = json.RawMessage(located)
		}
		return run(ctx, rt, args)
	}
	t.Title, t.Kind = callsummary.Title(name), kind
	t.Describe = func(args json.RawMessage) CallDescription {
		title, paths := callsummary.Builtin(name, args)
		return CallDescription{Title: title, Paths: paths}
	}
	return t
}

// polling marks a tool that is meant to be called repeatedly.
func polling(t Tool) Tool {
	t.polls = true
	return t
}

// ofJobs marks a tool that needs background commands.
func ofJobs(t Tool) Tool {
	t.Needs = hasJobs
	return t
}

func hasJobs(rt Runtime) bool {
	_, err := jobRunner(rt)
	return err == nil
}

// withOrWithoutJobs has bash offer background commands only in a runtime that
// can run them. A tool that has got other parameters since stays as it is.
func withOrWithoutJobs(bash Tool) Tool {
	type foreground struct {
		bashCommand
	}
	without := NewTool("bash", "", func(context.Context, Runtime, foreground) (string, error) { return "", nil })
	schema, err := toolschema.Parse(without.Parameters)
	if err != nil {
		panic(err)
	}
	own := bash.Parameters
	bash.fit = func(t Tool, rt Runtime) Tool {
		if !hasJobs(rt) && bytes.Equal(t.Parameters, own) {
			t.Parameters, t.schema = without.Parameters, schema
		}
		return t
	}
	return bash
}
