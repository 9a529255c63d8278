package pygent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/callsummary"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/safecall"
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
	defer r.emitChange()
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
	defer r.emitChange()
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
	defer r.emitChange()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropTools(func(string) bool { return true })
}

// Reset restores the built-in tools and removes all others. Afterwards only those
// tools are disabled that the agent was made without ([WithDisabledTools]).
func (r *Registry) Reset() {
	defer r.emitChange()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tools, r.shared, r.owners, r.disabled = builtinTools(), true, nil, maps.Clone(r.kept)
	r.version++
}

// Disable hides tools from the model and refuses calls of them. A name may also
// be registered later; it is disabled nevertheless.
func (r *Registry) Disable(names ...string) {
	defer r.emitChange()
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
	defer r.emitChange()
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

// disableForGood disables tools for good.
func (r *Registry) disableForGood(names []string) {
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

func (r *Registry) emitChange() {
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

// ToolSource gives an agent tools that are not known when it is made: those of a
// server, say, that runs in the agent's runtime.
//
// It is opened once for each agent, with the agent's own runtime: at the
// beginning of the agent's first run, or of the next one if that failed. Its
// error ends the run. ctx is for opening only. Closing the agent closes what the
// source returned, before the runtime, and waits for it at most ten seconds; nil
// means that there is nothing to close. The agent's tasks inherit the sources,
// and open them for themselves. What runs in the runtime of a task ends when the
// task rests, so its sources are closed then, and opened again by its next run.
//
// set gives the agent the source's tools in place of those that it gave before,
// all or none of them, with effect at the next model call. An invalid tool, a
// name that the agent or another source has already, and more tools than a
// request takes (128, with all others of the agent) are an error. A source may
// call set before it returns and at any time later, from any goroutine, for
// example when a server announces other tools. Each change is an
// [EventSettings]. Once the agent has closed the source or given it up, set
// returns an error that matches [ErrSourceClosed].
//
// A source whose server ended can start another one in rt by itself. If it would
// rather be opened anew, it calls set without tools, so that the model is offered
// none that fail, and returns a [ToolServer], which the agent asks.
type ToolSource func(ctx context.Context, rt Runtime, set func(tools ...Tool) error) (io.Closer, error)

// WithToolSource adds a source of tools to the agent. The name is for errors;
// each source needs another one.
func WithToolSource(name string, s ToolSource) Option {
	return option(func(o *options) {
		if s != nil {
			o.sources = append(o.sources, namedSource{name, s})
		}
	})
}

// ToolServer is what a [ToolSource] may return, to be asked before each run
// whether it still works. Where Alive returns false, the agent closes it and opens
// the source again. Alive must not wait for anything.
type ToolServer interface {
	io.Closer
	Alive() bool
}

// ErrSourceClosed is returned to a [ToolSource] that sets its tools too late: its
// agent has closed it, or has not waited for it to open.
var ErrSourceClosed = errors.New("the agent has closed this source")

type namedSource struct {
	name string
	open ToolSource
}

// tooling returns the agent's own registry.
func (o *options) tooling() (*Registry, error) {
	from := o.registry
	if from == nil {
		from = defaultRegistry()
	}
	r := from.clone()
	for _, t := range o.tools {
		if err := r.Add(t); err != nil {
			return nil, err
		}
	}
	for i, s := range o.sources {
		if s.name == "" || slices.ContainsFunc(o.sources[:i], func(other namedSource) bool { return other.name == s.name }) {
			return nil, fmt.Errorf("option WithToolSource: want another name than %q for source %d", s.name, i+1)
		}
	}
	if len(o.sources) == 0 { // else the names may be of tools that come later
		if err := errors.Join(r.known("disabled", o.disabled), r.known("to be approved", o.ownApprovalFor())); err != nil {
			return nil, err
		}
	}
	r.disableForGood(slices.Concat(o.disabled, o.forbidden))
	return r, nil
}

// closeSourceWithin bounds how long Close waits for the sources of tools.
const closeSourceWithin = 10 * time.Second

// toolSources are the sources of an agent's tools.
type toolSources struct {
	given    []namedSource
	tools    *Registry // gets theirs
	runtime  Runtime   // in which they are opened
	calls    *callbacks
	isClosed func() bool // reports whether the agent is

	mu   sync.Mutex // guards open
	open map[string]*openSource
}

// openSource is a source that is being opened or open.
type openSource struct {
	name string
	of   *toolSources

	mu     sync.Mutex // guards the fields below; held while the tools change
	over   bool       // closed, or given up
	gave   bool       // tools were set
	closer io.Closer
}

// openAll opens the sources that are not open yet, or whose server ended, at the same
// time.
func (t *toolSources) openAll(ctx context.Context) error {
	if len(t.given) == 0 {
		return nil
	}
	var all sync.WaitGroup
	failed := make([]error, len(t.given))
	for i, s := range t.given {
		t.mu.Lock()
		before := t.open[s.name]
		t.mu.Unlock()
		all.Go(func() {
			if before == nil || t.hasEnded(ctx, before) {
				failed[i] = t.openOne(ctx, s)
			}
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// hasEnded reports whether the server of a source ended, and closes the source then.
func (t *toolSources) hasEnded(ctx context.Context, o *openSource) bool {
	o.mu.Lock()
	server, asks := o.closer.(ToolServer)
	o.mu.Unlock()
	if !asks {
		return false
	}
	alive, err := safecall.Outlive(ctx, func() (bool, error) {
		defer t.calls.enter(&t.calls.calling, "the tool source "+o.name)()
		return server.Alive(), nil
	})
	if alive || ctx.Err() != nil {
		return false
	}
	t.calls.logPanic("tool source "+o.name, err)
	if err := t.closeOne(o); err != nil { // as it may be for a server that ended
		t.calls.log.Debug("close a tool source whose server ended", "source", o.name, "error", err)
	}
	t.tools.emitChange()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, o.name)
	return true
}

func (t *toolSources) openOne(ctx context.Context, s namedSource) error {
	o := &openSource{name: s.name, of: t}
	_, err := safecall.Outlive(ctx, func() (struct{}, error) {
		defer t.calls.enter(&t.calls.calling, "the tool source "+s.name)()
		closer, err := s.open(ctx, t.runtime, o.set)
		return struct{}{}, errors.Join(err, o.opened(closer))
	})
	t.calls.logPanic("tool source "+s.name, err)
	if err != nil {
		closed := t.closeOne(o) // what it returned beside the error
		if o.hasGiven() {
			t.tools.emitChange()
		}
		return errors.Join(fmt.Errorf("tool source %s: %w", s.name, err), closed)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[string]*openSource{}
	}
	t.open[s.name] = o
	return nil
}

// opened takes what the source returned, and closes it at once if nobody waits
// for the source any more.
func (o *openSource) opened(closer io.Closer) error {
	o.mu.Lock()
	over := o.over
	if !over {
		o.closer = closer
	}
	o.mu.Unlock()
	if over && closer != nil {
		return closer.Close()
	}
	return nil
}

func (o *openSource) hasGiven() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.gave
}

// set is the function that a source gets.
func (o *openSource) set(tools ...Tool) error {
	if err := o.replace(tools); err != nil {
		return fmt.Errorf("tool source %s: %w", o.name, err)
	}
	o.of.tools.emitChange()
	return nil
}

func (o *openSource) replace(tools []Tool) error {
	useless := o.of.tools.useless(tools, o.of.runtime) // asks the tools, which may call set
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case !o.over:
	case o.of.isClosed():
		return fmt.Errorf("%w: %w", ErrSourceClosed, ErrAgentClosed)
	default:
		return ErrSourceClosed
	}
	err := o.of.tools.setSource(o.name, tools, useless)
	o.gave = o.gave || err == nil
	return err
}

// close takes the source's tools away and closes it.
func (o *openSource) close() error {
	o.mu.Lock()
	closer := o.closer
	o.over, o.closer = true, nil
	err := o.of.tools.setSource(o.name, nil, nil)
	o.mu.Unlock()
	if closer != nil {
		err = closer.Close()
	}
	return err
}

// close closes the sources, at the same time.
func (t *toolSources) close() error {
	t.mu.Lock()
	open := t.open
	t.open = nil
	t.mu.Unlock()
	var all sync.WaitGroup
	failed := make(chan error, len(open))
	for _, o := range open {
		all.Go(func() { failed <- t.closeOne(o) })
	}
	all.Wait()
	close(failed)
	var errs []error
	for err := range failed {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (t *toolSources) closeOne(o *openSource) error {
	err := safecall.Within(closeSourceWithin, func() error {
		defer t.calls.enter(&t.calls.calling, "the tool source "+o.name)()
		return o.close()
	})
	t.calls.logPanic("tool source "+o.name, err)
	if err == nil || errors.Is(err, safecall.ErrLeftBehind) { // leftBehind reports that
		return nil
	}
	return fmt.Errorf("close the tool source %s: %w", o.name, err)
}

// setSource replaces the tools of a source, all or none of them. What exceeds a
// request, not counting the useless tools, is an error.
func (r *Registry) setSource(source string, tools []Tool, useless map[string]bool) error {
	named := make(map[string]Tool, len(tools))
	for _, t := range tools {
		checked, err := t.checked()
		if err != nil {
			return err
		}
		if _, twice := named[t.Name]; twice {
			return fmt.Errorf("it has two tools %s", t.Name)
		}
		named[t.Name] = checked
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.admits(source, named, useless); err != nil {
		return err
	}
	r.dropTools(func(name string) bool { return r.owners[name] == source })
	if r.owners == nil {
		r.owners = map[string]string{}
	}
	r.ownTools()
	for name, t := range named {
		r.tools[name], r.owners[name] = t, source
	}
	return nil
}

// useless returns the names of those tools, of the registry and of others, that
// the agent cannot use in a runtime. The tools are asked while no lock of the
// registry is held.
func (r *Registry) useless(others []Tool, rt Runtime) map[string]bool {
	useless := map[string]bool{}
	for _, t := range append(r.Tools(), others...) {
		_, err := r.on(t, rt)
		useless[t.Name] = err != nil
	}
	return useless
}

// admits returns why a source cannot have the tools: a name that is taken, or too
// many tools. The caller holds r.mu.
func (r *Registry) admits(source string, tools map[string]Tool, useless map[string]bool) error {
	n := 0
	for name := range r.tools {
		if _, wanted := tools[name]; wanted && r.owners[name] != source {
			other := "the agent"
			if owner := r.owners[name]; owner != "" {
				other = "the tool source " + owner
			}
			return fmt.Errorf("tool %s: %s has one of that name already", name, other)
		}
		if r.owners[name] != source && !useless[name] && !r.disabled[name] {
			n++
		}
	}
	for name := range tools {
		if !useless[name] && !r.disabled[name] {
			n++
		}
	}
	if len(tools) > 0 && n > maxTools {
		return fmt.Errorf("with its %s, the agent has %d, and providers take at most %d in a request", numeral.Count(len(tools), "tool"), n, maxTools)
	}
	return nil
}
