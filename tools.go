package pygent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/spelling"
	"github.com/x/pygent/internal/toolschema"
)

// Tool is something a model can call. [NewTool] makes one from a typed
// function, and [RegisterTool] one from a function that takes a map.
type Tool struct {
	Name        string // letters, digits, "_" and "-", at most 64
	Description string // tells the model what the tool does and when to use it; at most 1,024 characters
	// Parameters is a JSON Schema of type object; nil means no parameters.
	// Arguments are checked against it. The model gets it in a form that every
	// provider accepts, with bounds and formats moved into the descriptions. A
	// schema that has no such form, one that contains itself for example, is an
	// error. The model is asked to give objects with arbitrary names, and values
	// of any type, as JSON text in a string; Run gets them parsed. An optional
	// property that a model gives as null is left out.
	Parameters json.RawMessage

	// Run executes the tool. args is a JSON object that satisfies Parameters. An
	// error, or a panic, becomes the call's result for the model to read. ctx
	// ends at the limits of the run.
	Run func(ctx context.Context, rt Runtime, args json.RawMessage) (*ToolResult, error)

	// NeedsApproval has the agent's [ApprovalFunc] decide about every call.
	NeedsApproval bool
	// ReadOnly says that the tool changes nothing. By default an [ApprovalFunc]
	// is not asked about its calls.
	ReadOnly bool
	// Idempotent says that running a call twice does no harm, so that it can
	// be repeated when a run is resumed.
	Idempotent bool

	schema *toolschema.Schema
	// polls marks a tool that is meant to be called repeatedly with the same
	// arguments, such as one that asks for a status.
	polls bool
	// ends marks a tool whose only effect is to end the run.
	ends bool
}

// ToolResult is the result of a tool call. The model sees Content and Images;
// Display, if set, is shown to people instead.
type ToolResult struct {
	Content string   `json:"content"`
	Display string   `json:"display,omitempty"` // a shorter or richer rendering for people
	Images  []string `json:"images,omitempty"`  // https or data URLs
	IsError bool     `json:"is_error,omitempty"`

	// End ends the run: with StatusStopped and Summary, or with
	// StatusAwaitingUser and Question. Later calls in the same message are
	// skipped. If it is empty, the run continues.
	End      Status    `json:"end,omitempty"`
	Summary  string    `json:"summary,omitempty"`
	Question *Question `json:"question,omitempty"`

	// Outcome says how the call ended. The agent sets it. A tool may only set
	// [OutcomeFailed], for a call that is no error but has failed its purpose.
	Outcome Outcome `json:"outcome,omitempty"`

	// compared is what identifies equal results, if Content has parts that
	// differ each time; empty means Content itself.
	compared string
}

// ToolFunc is a tool that takes its arguments as a map, as decoded from JSON:
// numbers are float64, objects map[string]any.
type ToolFunc func(ctx context.Context, rt Runtime, args map[string]any) (string, error)

// NewTool makes a tool from a function whose arguments are the struct In. The
// schema is derived from In: fields are named by their json tags, described by
// their jsonschema tags, and required unless tagged omitempty or omitzero.
// Arguments are validated before fn is called. The model gives a []byte as
// base64, and a map, an any or a [json.RawMessage] as JSON text.
//
//	type in struct {
//		City string `json:"city" jsonschema:"the city to look up"`
//	}
//	weather, err := pygent.NewTool("weather", "Tell the weather",
//		func(ctx context.Context, rt pygent.Runtime, in in) (string, error) { … })
func NewTool[In any](name, description string, fn func(ctx context.Context, rt Runtime, in In) (string, error)) (Tool, error) {
	if fn == nil {
		return Tool{}, fmt.Errorf("tool %s: the function is nil", name)
	}
	return typedTool(name, description, func(ctx context.Context, rt Runtime, in In) (*ToolResult, error) {
		return textResult(fn(ctx, rt, in))
	})
}

// typedTool is [NewTool] for functions that return a whole [ToolResult].
func typedTool[In any](name, description string, fn func(context.Context, Runtime, In) (*ToolResult, error)) (Tool, error) {
	params, err := toolschema.For(reflect.TypeFor[In]())
	if err != nil {
		return Tool{}, fmt.Errorf("tool %s: derive the schema: %w", name, err)
	}
	return newTool(Tool{
		Name:        name,
		Description: description,
		Parameters:  params,
		Run: func(ctx context.Context, rt Runtime, args json.RawMessage) (*ToolResult, error) {
			var in In
			if err := json.Unmarshal(args, &in); err != nil {
				return nil, fmt.Errorf("arguments: %w", err)
			}
			return fn(ctx, rt, in)
		},
	})
}

func textResult(text string, err error) (*ToolResult, error) {
	if err != nil {
		return nil, err
	}
	return &ToolResult{Content: text}, nil
}

// toolFromFunc makes a tool from a function that takes a map. parameters is a
// JSON Schema: a json.RawMessage, or any value that encodes to one.
func toolFromFunc(name, description string, parameters any, fn ToolFunc) (Tool, error) {
	if fn == nil {
		return Tool{}, fmt.Errorf("tool %s: the function is nil", name)
	}
	var params json.RawMessage
	if parameters != nil {
		var err error
		if params, err = json.Marshal(parameters); err != nil {
			return Tool{}, fmt.Errorf("tool %s: encode the parameters: %w", name, err)
		}
	}
	return newTool(Tool{
		Name:        name,
		Description: description,
		Parameters:  params,
		Run: func(ctx context.Context, rt Runtime, args json.RawMessage) (*ToolResult, error) {
			var in map[string]any
			if err := json.Unmarshal(args, &in); err != nil {
				return nil, fmt.Errorf("arguments: %w", err)
			}
			return textResult(fn(ctx, rt, in))
		},
	})
}

// Limits that providers set.
const (
	maxDescription = 1024 // characters of a tool's description
	maxTools       = 128  // in a request
)

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// newTool checks a tool and prepares its schema.
func newTool(t Tool) (Tool, error) {
	if !toolName.MatchString(t.Name) {
		return Tool{}, fmt.Errorf("tool %q: a name has 1 to 64 letters, digits, _ or -", t.Name)
	}
	if n := utf8.RuneCountInString(t.Description); n > maxDescription {
		return Tool{}, fmt.Errorf("tool %s: the description has %d characters, and providers take at most %d", t.Name, n, maxDescription)
	}
	if t.Run == nil {
		return Tool{}, fmt.Errorf("tool %s: Run is nil", t.Name)
	}
	if len(t.Parameters) == 0 || bytes.Equal(t.Parameters, []byte("null")) {
		t.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	schema, err := toolschema.Parse(t.Parameters)
	if err != nil {
		return Tool{}, fmt.Errorf("tool %s: %w", t.Name, err)
	}
	t.schema = schema
	return t, nil
}

// call runs the tool with checked arguments. A panic of the tool becomes an
// error. The result is a copy, because a tool may return the same value each
// time.
func (t Tool) call(ctx context.Context, rt Runtime, args json.RawMessage) (*ToolResult, error) {
	result, err := guard.Catch(func() (*ToolResult, error) { return t.Run(ctx, rt, args) })
	if err != nil {
		failed := &ToolError{Tool: t.Name, Err: err}
		if p, ok := err.(*guard.PanicError); ok {
			failed.Stack = p.Stack
		}
		return nil, failed
	}
	if result == nil {
		return &ToolResult{Outcome: OutcomeOK}, nil
	}
	own := *result
	if own.IsError || own.Outcome == OutcomeFailed {
		own.Outcome = OutcomeFailed
	} else {
		own.Outcome = OutcomeOK
	}
	return &own, nil
}

// Registry is a set of tools, safe for concurrent use. Every agent has its
// own, made from the default registry when the agent is created. The zero
// Registry is empty and ready to use.
type Registry struct {
	mu       sync.RWMutex
	tools    map[string]Tool // nil until the first one is added
	disabled map[string]bool // nil until the first one is disabled
	version  int64           // rises with every change
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
	t, err := newTool(t)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tools == nil {
		r.tools = map[string]Tool{}
	}
	r.tools[t.Name] = t
	r.version++
	return nil
}

// Register adds a tool made from a function; see [RegisterTool].
func (r *Registry) Register(name, description string, parameters any, fn ToolFunc) error {
	t, err := toolFromFunc(name, description, parameters, fn)
	if err != nil {
		return err
	}
	return r.Add(t)
}

// Remove takes a tool out. An unknown name is an error that matches
// [ErrUnknownTool].
func (r *Registry) Remove(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.tools[name]; !ok {
		return r.unknown(name)
	}
	delete(r.tools, name)
	r.version++
	return nil
}

// Clear takes all tools out.
func (r *Registry) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.tools)
	r.version++
}

// Reset restores the built-in tools and removes all others. No tool is disabled
// afterwards.
func (r *Registry) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tools, r.disabled = maps.Clone(builtinTools()), nil
	r.version++
}

// Disable hides tools from the model and refuses calls of them. A name may also
// be registered later; it is disabled nevertheless.
func (r *Registry) Disable(names ...string) {
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

// Execute runs a tool call on rt. Its errors are all [*ToolError]: for unknown
// or disabled tools, arguments that do not fit, errors of the tool, and panics.
func (r *Registry) Execute(ctx context.Context, call ToolCall, rt Runtime) (*ToolResult, error) {
	t, err := r.lookup(call.Name)
	if err != nil {
		return nil, &ToolError{Tool: call.Name, Err: err}
	}
	args, err := t.schema.Arguments(call.Arguments)
	if err != nil {
		return nil, &ToolError{Tool: call.Name, Err: err}
	}
	return t.call(ctx, rt, args)
}

func (r *Registry) lookup(name string) (Tool, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.disabled[name] {
		return Tool{}, ErrToolDisabled
	}
	t, ok := r.tools[name]
	if !ok {
		return Tool{}, r.unknown(name)
	}
	return t, nil
}

// unknown returns the error for an unknown name. The caller holds r.mu.
func (r *Registry) unknown(name string) error {
	var names []string
	for _, t := range r.enabled() {
		names = append(names, t.Name)
	}
	return fmt.Errorf("%w %q; the tools are: %s", ErrUnknownTool, name, strings.Join(names, ", "))
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

// specs returns the descriptions of the tools for a model, and the version of
// the registry that they belong to.
func (r *Registry) specs() ([]ToolSpec, int64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	tools := r.enabled()
	specs := make([]ToolSpec, len(tools))
	for i, t := range tools {
		specs[i] = ToolSpec{Name: t.Name, Description: t.Description, Parameters: t.schema.Wire()}
	}
	return specs, r.version
}

func (r *Registry) currentVersion() int64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.version
}

// clone returns an independent copy.
func (r *Registry) clone() *Registry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return &Registry{tools: maps.Clone(r.tools), disabled: maps.Clone(r.disabled)}
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

// errorResult renders an error as the result of a call.
func errorResult(err error) *ToolResult {
	var te *ToolError
	if errors.As(err, &te) {
		err = te.Err
	}
	return &ToolResult{Content: "error: " + err.Error(), IsError: true, Outcome: OutcomeFailed}
}
