package pygent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/looptext"
	"github.com/x/pygent/internal/pasted"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/openai"
)

// Hooks are functions of a program that an agent calls at the start and the end
// of its runs, and before its tool calls. Each may be nil. The agents of tasks
// call them, too, but for those of a [Lifecycle] without Inherit: [CallFrom] tells from
// the context whom they serve. They may be called by many goroutines. Package script makes
// hooks of a script.
//
// To change the result of a call, see [WithToolMiddleware]; to follow an agent
// without a say, [OnEvent].
type Hooks struct {
	// RunStart is called before the model is asked for the first time in a run.
	// Its note, which may be empty, is told to the model. An error ends the run.
	RunStart func(ctx context.Context, a *Agent, message string) (note string, err error)

	// BeforeCall is called for each call whose arguments fit its tool, before
	// anybody is asked to approve it, and before the bans are checked. It can deny
	// the call or change its arguments, but not allow what needs approval. An error
	// or a panic denies the call.
	BeforeCall func(ctx context.Context, a *Agent, call ToolCall) (CallVerdict, error)

	// RunEnd is called once the run has a result. ctx does not end with that of the
	// run: it has 30 seconds, or 2 after a run that was cancelled. An error becomes
	// an EventWarning.
	RunEnd func(ctx context.Context, a *Agent, result *Result) error
}

// CallVerdict is what [Hooks] say about a call. The zero value has no objection.
type CallVerdict struct {
	// Deny is why the call must not run, for the model to read; empty for no
	// objection.
	Deny string
	// Arguments, if set, replace those of the call. They are checked like the
	// model's own, and the model is told of the change.
	Arguments json.RawMessage
	// Note is told to the model with the result of the call.
	Note string
}

// WithHooks adds hooks to the agent, and to the agents of its tasks. Those of
// several options are all called, in the order of the options: a call runs only if
// none denies it, and each sees the arguments as those before it left them.
func WithHooks(h Hooks) Option {
	return WithExtension(hooked{h})
}

// hooked are hooks as an extension.
type hooked struct{ Hooks }

// Name implements [Extension].
func (hooked) Name() string { return "" }

// Open implements [Extension].
func (h hooked) Open(context.Context, *Host) (Lifecycle, error) {
	return Lifecycle{Hooks: h.Hooks, Inherit: true}, nil
}

// hooks counts the extensions that decide about runs and calls.
func (all extensions) hooks() (n int) {
	for _, x := range all {
		if x.RunStart != nil || x.BeforeCall != nil || x.RunEnd != nil {
			n++
		}
	}
	return n
}

// How long the hooks at the end of a run have.
const (
	runEndHooksWithin  = 30 * time.Second
	cancelledRunWithin = 2 * time.Second
)

// beginHooks calls the hooks for the start of the run.
func (r *run) beginHooks(ctx context.Context, msg string) error {
	for _, h := range r.agent.extensions {
		if h.RunStart == nil || r.opts.before != nil { // else it was called where the run began
			continue
		}
		serves := r.withCall(ctx, ToolCall{}, 0)
		note, err := callForeign(serves, r, "the hook RunStart", func() (string, error) { return h.RunStart(serves, r.agent, msg) })
		if ctx.Err() != nil {
			return r.interrupted(ctx)
		}
		if err != nil {
			r.agent.logPanic("hook RunStart", err)
			return r.fail(fmt.Errorf("hook at the start of the run: %w", err))
		}
		r.startNote = joined(r.startNote, cut.Middle(note, maxToolResult))
	}
	return nil
}

// endHooks calls the hooks for the end of the run.
func (r *run) endHooks(ctx context.Context) {
	for _, h := range r.agent.extensions {
		if h.RunEnd == nil {
			continue
		}
		limit := runEndHooksWithin
		if ctx.Err() != nil {
			limit = cancelledRunWithin
		}
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		serves := r.withCall(within, ToolCall{}, 0)
		_, err := callForeign(serves, r, "the hook RunEnd", func() (struct{}, error) { return struct{}{}, h.RunEnd(serves, r.agent, r.result) })
		cancel()
		if err != nil {
			r.agent.logPanic("hook RunEnd", err)
			r.emit(Event{Type: EventWarning, Step: r.result.Steps, Text: fmt.Sprintf("hook at the end of the run: %v", err)})
		}
	}
}

// hook asks the hooks about a call. It returns the call with the arguments that
// they leave it, or the result of one that they deny.
func (r *run) hook(c *callContext, tool Tool) (_ *callContext, refused *ToolResult) {
	for _, h := range r.agent.extensions {
		if h.BeforeCall == nil {
			continue
		}
		call := c.info.Call
		verdict, err := callForeign(c, r, "the hook BeforeCall", func() (CallVerdict, error) { return h.BeforeCall(c, r.agent, call) })
		if c.Err() != nil {
			return nil, notRunResult(OutcomeInterrupted, looptext.NotRun(context.Cause(c)))
		}
		if err != nil {
			r.agent.logPanic("hook BeforeCall", err)
			verdict.Deny = cmp.Or(verdict.Deny, fmt.Sprintf("the hook that decides about calls failed: %v", err))
		}
		if verdict.Deny != "" {
			return nil, deniedResult(cut.Middle(verdict.Deny, shownArguments))
		}
		if given := string(verdict.Arguments); given != "" && given != call.Arguments {
			args, err := tool.schema.Arguments(given)
			if err != nil {
				return nil, deniedResult(fmt.Sprintf("the arguments that a hook gave cannot be used: %v", err))
			}
			c = c.with(string(args))
			c.byHook = true
		}
		c.note = joined(c.note, cut.Middle(verdict.Note, shownArguments))
	}
	return c, nil
}

// additions returns what a model is told of a call besides its result: that its
// arguments were changed, and what hooks said.
func (c *callContext) additions() string {
	if !c.changed {
		return c.note
	}
	who := "the user"
	if c.byHook {
		who = "the rules here"
	}
	return strings.TrimSuffix(looptext.Changed(who, cut.Head(c.info.Call.Arguments, shownArguments))+"\n"+c.note, "\n")
}

// joined appends a note to others, on a line of its own.
func joined(notes, note string) string {
	return strings.TrimPrefix(looptext.OnALine(notes, note), "\n")
}

// CheckCommand returns an error if a script runs what [WithBannedCommands] and
// [WithBannedApps] of the agent refuse to the tool bash. It is for tools and hooks
// that run commands which a model has a say in.
func (a *Agent) CheckCommand(script string) error { return a.deciders.banned.Check(script) }

// CheckCommand is [Agent.CheckCommand] of the agent whose tool call ctx belongs to.
// In any other context, there are no bans.
func CheckCommand(ctx context.Context, script string) error {
	if c := callContextOf(ctx); c != nil && c.agent != nil {
		return c.agent.CheckCommand(script)
	}
	return nil
}

// WithModelMiddleware wraps the agent's model, to log its calls, keep its
// answers or replace a model that fails, say. The first function is the
// outermost. It is called once for each model that the agent gets: by [New] and
// by [Agent.SetModel]. A model made by [StreamFunc] keeps the answers of the
// model it wraps streaming:
//
//	func logged(next pygent.Model) pygent.Model {
//		return pygent.StreamFunc(func(ctx context.Context, req *pygent.ChatRequest, emit func(pygent.Delta)) (*pygent.ChatResponse, error) {
//			start := time.Now()
//			resp, err := pygent.Stream(ctx, next, req, emit)
//			log.Println("answered in", time.Since(start), err)
//			return resp, err
//		})
//	}
//
// Each attempt of a call goes through the middleware, because the agent repeats
// the wrapped model: an error that is an [*APIError] with Retryable set, or
// wraps one, is retried. The agents of tasks wrap their models in the same
// functions, outside of those of their own profiles. Given more than once, the
// functions of the first option are outermost.
func WithModelMiddleware(mw ...func(next Model) Model) Option {
	return option(func(o *options) { o.modelMiddleware = append(slices.Clip(o.modelMiddleware), mw...) })
}

// StreamFunc adapts a function to [StreamingModel], so that middleware streams
// with a single function. emit is never nil: [Model.Chat] passes one that
// ignores what it gets.
type StreamFunc func(ctx context.Context, req *ChatRequest, emit func(Delta)) (*ChatResponse, error)

// Chat calls f and ignores what it emits.
func (f StreamFunc) Chat(ctx context.Context, req *ChatRequest) (*ChatResponse, error) {
	return f(ctx, req, func(Delta) {})
}

// ChatStream calls f.
func (f StreamFunc) ChatStream(ctx context.Context, req *ChatRequest, emit func(Delta)) (*ChatResponse, error) {
	if emit == nil {
		return f.Chat(ctx, req)
	}
	return f(ctx, req, emit)
}

// Stream asks m for an answer and emits it while it is being written. A model
// that is no [StreamingModel], or a nil emit, emits nothing.
func Stream(ctx context.Context, m Model, req *ChatRequest, emit func(Delta)) (*ChatResponse, error) {
	if s, ok := m.(StreamingModel); ok && emit != nil {
		return s.ChatStream(ctx, req, emit)
	}
	return m.Chat(ctx, req)
}

// agentModel is a model with the name that it is asked for.
type agentModel struct {
	given   Model  // as [WithModel] or SetModel gave it
	wrapped Model  // in the agent's middleware
	name    string // as the provider calls it; empty for the model's default
}

// modelChoice is the model that an agent asks, which may change while the agent works. It
// is safe for concurrent use.
type modelChoice struct {
	middleware []func(Model) Model // which wraps each model; never changed

	mu     sync.Mutex // guards what follows
	chosen agentModel
	listed listedModels // by the server of the model
}

// current returns the model for the next call.
func (c *modelChoice) current() agentModel {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.chosen
}

// set changes the model, or only its name if m is nil, and returns what is chosen now.
func (c *modelChoice) set(m Model, name string) (next agentModel, err error) {
	next.name = pasted.Trim(name)
	if m != nil {
		if next.wrapped, err = wrapModel(m, c.middleware); err != nil {
			return next, err
		}
		next.given = m
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if m == nil {
		next.given, next.wrapped = c.chosen.given, c.chosen.wrapped
	}
	c.chosen = next
	return next, nil
}

// isDeployment reports whether all answers of the model come from one deployment of
// Azure's, whatever they name.
func (c *modelChoice) isDeployment() bool {
	of, ok := c.current().given.(*openai.Model)
	return ok && len(c.middleware) == 0 && of.IsDeployment()
}

// wiring is what goes with the calls of an agent's model and tools.
type wiring struct {
	model      modelChoice
	pricing    pricing
	handleTool ToolHandler // runs tool calls within the middleware; nil for none
	extensions extensions
	meter      meter
}

// wrap takes the model and the tools of some options, as middleware wraps them.
func (w *wiring) wrap(o *options) (err error) {
	w.pricing = pricing{o.prices, &w.model}
	w.model.middleware = o.modelMiddleware
	if w.model.chosen, err = o.chooseModel(); err != nil {
		return err
	}
	w.handleTool, err = wrapTools(o.toolMiddleware)
	return err
}

// chooseModel returns the model of an agent with these options.
func (o *options) chooseModel() (_ agentModel, err error) {
	m := o.model
	if m == nil && !o.isGiven(partOpenAI) {
		m = getDefaultModel()
	}
	if m == nil {
		if m, err = openai.New(o.openai...); err != nil {
			return agentModel{}, err
		}
	}
	wrapped, err := wrapModel(m, o.modelMiddleware)
	return agentModel{m, wrapped, o.modelName}, err
}

// wrapModel wraps m in the middleware. A panic there becomes an error, and so does a
// model that is nil behind its interface.
func wrapModel(m Model, mw []func(Model) Model) (Model, error) {
	if isNil(m) {
		return nil, fmt.Errorf("the model is a nil %T", m)
	}
	for _, wrap := range slices.Backward(mw) {
		if wrap == nil {
			continue
		}
		wrapped, err := safecall.Catch(func() (Model, error) { return wrap(m), nil })
		if err == nil && (wrapped == nil || isNil(wrapped)) {
			err = errors.New("it returned no model")
		}
		if err != nil {
			return nil, fmt.Errorf("option WithModelMiddleware: %w", err)
		}
		m = wrapped
	}
	return m, nil
}

// SetModel changes the agent's model from its next model call on, also in a run
// that goes on and between the attempts of a call that fails. name is the model
// to ask for, as the provider calls it; empty means the model's default. A
// nil m keeps the model and changes only the name. The agent's middleware wraps
// the new model. Tasks that are delegated afterwards use it too; those at work
// keep theirs.
func (a *Agent) SetModel(m Model, name string) error {
	if a.isClosed() {
		return ErrAgentClosed
	}
	next, err := a.model.set(m, name)
	a.logPanic("model middleware", err)
	if err != nil {
		return fmt.Errorf("set the model: %w", err)
	}
	a.log.Info("model set", "agent", a.id, "model", modelInLog(next.given, name))
	a.settings.emit()
	return nil
}

// ToolHandler runs a tool call in a runtime. It is what a [ToolMiddleware]
// wraps.
type ToolHandler func(ctx context.Context, rt Runtime, call ToolCall) (*ToolResult, error)

// ToolMiddleware wraps the tool calls of an agent. Its handler may look at the
// call, answer it without calling next, and change the result, which is its own
// to change. An error, or a panic, becomes the call's result for the model to
// read. Handlers may be called by many goroutines at once.
//
//	func timed(next pygent.ToolHandler) pygent.ToolHandler {
//		return func(ctx context.Context, rt pygent.Runtime, call pygent.ToolCall) (*pygent.ToolResult, error) {
//			start := time.Now()
//			result, err := next(ctx, rt, call)
//			log.Println(call.Name, "took", time.Since(start))
//			return result, err
//		}
//	}
//
// A handler sees the calls that are going to run: those that were found, have
// arguments that fit, and were approved. What runs is what was approved, so next
// must get the context of the call, or one made from it, and refuses a call
// with another name or other arguments. An [ApprovalFunc] is the place to
// change arguments. A handler may pass another runtime on.
type ToolMiddleware func(next ToolHandler) ToolHandler

// WithToolMiddleware wraps the tool calls of the agent, and those of the agents
// of its tasks. The first function is the outermost. Each is called once for an
// agent, by [New].
func WithToolMiddleware(mw ...ToolMiddleware) Option {
	return option(func(o *options) { o.toolMiddleware = append(slices.Clip(o.toolMiddleware), mw...) })
}

// wrapTools returns the handler of the agent's tool calls, or nil if no
// middleware wraps them.
func wrapTools(mw []ToolMiddleware) (h ToolHandler, err error) {
	for _, wrap := range slices.Backward(mw) {
		if wrap == nil {
			continue
		}
		next := h
		if next == nil {
			next = callApproved
		}
		h, err = safecall.Catch(func() (ToolHandler, error) { return wrap(next), nil })
		if err == nil && h == nil {
			err = errors.New("it returned no handler")
		}
		if err != nil {
			return nil, fmt.Errorf("option WithToolMiddleware: %w", err)
		}
	}
	return h, nil
}

// approvedCall is a call that may run, with its tool and checked arguments.
type approvedCall struct {
	tool Tool
	call ToolCall
	args json.RawMessage
}

type approvedKey struct{}

var (
	errNotThisCall = errors.New("tool middleware: the context is not that of the call")
	errOtherCall   = errors.New("tool middleware: only the call that was approved can run, with its arguments")
	errNoRuntime   = errors.New("tool middleware: the runtime is nil")
)

// callApproved is the innermost handler: it runs the tool.
func callApproved(ctx context.Context, rt Runtime, call ToolCall) (*ToolResult, error) {
	var of *approvedCall
	if ctx != nil {
		of, _ = ctx.Value(approvedKey{}).(*approvedCall)
	}
	switch {
	case of == nil:
		return nil, errNotThisCall
	case call.Name != of.call.Name || call.Arguments != of.call.Arguments:
		return nil, errOtherCall
	case rt == nil:
		return nil, errNoRuntime
	}
	return of.tool.call(ctx, rt, of.args)
}

// callTool runs an approved call of a tool in a runtime, within the agent's middleware.
func (w *wiring) callTool(ctx context.Context, rt Runtime, tool Tool, call ToolCall, args json.RawMessage) (*ToolResult, error) {
	if w.handleTool == nil {
		return tool.call(ctx, rt, args)
	}
	call.Arguments = string(args)
	ctx = context.WithValue(ctx, approvedKey{}, &approvedCall{tool, call, args})
	around := Tool{Name: tool.Name, Run: func(ctx context.Context, rt Runtime, _ json.RawMessage) (*ToolResult, error) {
		result, err := w.handleTool(ctx, rt, call)
		var inner *ToolError
		if errors.As(err, &inner) && inner.Tool == tool.Name {
			err = inner.Err
		}
		return result, err
	}}
	return around.call(ctx, rt, args)
}

// wrapping is what the options say about middleware and extensions.
type wrapping struct {
	modelMiddleware []func(Model) Model
	toolMiddleware  []ToolMiddleware
	extensions      []Extension // hooks, too
}

// WithRuntime sets where commands run. The runtime becomes the agent's: Close
// cleans it up. Default: one made by [NewRuntime].
func WithRuntime(rt Runtime) Option { return givenRuntime("WithRuntime", rt, false) }

// LendRuntime is like [WithRuntime], but the runtime stays the caller's: Close
// does not clean it up, and ends neither its background jobs nor its container.
// So a runtime can outlive an agent, and serve the next one. Agents that are
// lent the same runtime at the same time share its files, its jobs and its
// processes; what each does is visible to the others, and nothing orders it.
func LendRuntime(rt Runtime) Option { return givenRuntime("LendRuntime", rt, true) }

func givenRuntime(name string, rt Runtime, lent bool) Option {
	return option(func(o *options) {
		o.give("WithRuntime", name, rt != nil)
		o.runtime, o.lent = rt, lent && rt != nil
	})
}

// RuntimeAs returns rt, or the first of the runtimes that it wraps, up to 100 of
// them, that has the optional ability T: [Describer], [Isolator], [Starter],
// [JobRunner], [ProcessStarter], [RangeReader], [FileLister], [FileRemover],
// [FileStreamer], [Dialer], [TaskRuntimeMaker], or an interface of the caller's.
// A runtime that wraps another one says so by a method Unwrap() Runtime. This
// package looks for abilities only in this way, so a wrapper needs the methods of
// Runtime that it changes, and Unwrap.
//
// An ability that is found below goes around the wrapper: a wrapper that checks
// commands in Bash must have StartJob as well, or hide it. Without Unwrap, or
// where that returns nil, everything is hidden. To show only some abilities,
// Unwrap returns a value with just those:
//
//	func (w audited) Unwrap() pygent.Runtime {
//		return struct {
//			pygent.Runtime
//			pygent.Describer
//		}{w.inner, w.describer}
//	}
//
// Tasks of a wrapped runtime of this package get one of the kind that is
// wrapped, unless the wrapper is a TaskRuntimeMaker.
func RuntimeAs[T any](rt Runtime) (T, bool) {
	for depth := 0; rt != nil && depth <= maxWrapped; depth++ {
		if found, ok := rt.(T); ok {
			return found, true
		}
		wrapper, ok := rt.(interface{ Unwrap() Runtime })
		if !ok {
			break
		}
		rt = wrapper.Unwrap()
	}
	var none T
	return none, false
}

// maxWrapped is how deep a runtime can be wrapped. It ends the search in one that
// wraps itself.
const maxWrapped = 100
