package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/safecall"
)

// Extension adds to an agent what not every program wants. Packages above this one have
// some, such as otel, and a program can have its own: what belongs to one agent is made by
// Open and kept in the functions of its [Lifecycle], so that agents can share an extension.
//
// This is the order of the calls. Of several extensions each is called in the order of the
// options, and in the reverse order where a trace ends, and for Closing and Close:
//
//	New             Open, before there is a runtime; Ready, once the agent can be used
//	a run           TraceRun begins, RunStart, News
//	  a model call  Prompt, where the system message has to be written; then TraceModel
//	                begins and ends, for each attempt
//	  a tool call   BeforeCall, then approvals, then TraceTool begins and ends, AfterCall
//	  after those   News, once all calls of a message have run
//	its end         RunEnd, then the last event, then TraceRun ends
//	Close           Closing, while there is a runtime; then Close
//
// A panic of a function is an error of what called it, or only logged where that has none.
// [Agent.Close] returns an error in each function, since it would wait for its caller.
type Extension interface {
	// Name names the extension, for errors. Of two with one name the later option replaces
	// the earlier one. An extension without a name is never replaced.
	Name() string
	// Open is called by [New], before there is a runtime, with the context of
	// [NewWithContext]. An error becomes one of New.
	Open(ctx context.Context, h *Host) (Lifecycle, error)
}

// Lifecycle is what an extension does for one agent. Each function may be nil. Those that
// decide about calls and those that trace may be called by many goroutines.
type Lifecycle struct {
	// Ready is called by [New] once the agent can be used. An error becomes one of New,
	// which closes the agent.
	Ready func(ctx context.Context) error
	// Hooks decide about runs and calls.
	Hooks
	// Prompt adds to what the system message is written from: sections, instructions, or notes
	// about the runtime. It is called when the message is written for the first time, and anew
	// because something else than the tools has changed. again says that it is to look once
	// more at what it looks at, for [Agent.RefreshSystemMessage]; else it may add what it found
	// before. A model call waits for it, and an error ends the run.
	Prompt func(ctx context.Context, info *PromptInfo, again bool) error
	// News returns what Prompt would add now and did not add when the system message was
	// written, or "". The message stays as it is, because providers cache it: the text is told
	// once, with a result or a message of the user, if the agent's [PromptBuilder] would show
	// it. For that, News changes info, from which the message was written, to what Prompt would
	// make of it, and leaves the arrays of its slices alone. It must not block.
	News func(info *PromptInfo) string
	// AfterCall is called when a call has its result, also one that failed or was denied, but
	// not for one that is skipped. Its note, which may be empty, is told to the model below the
	// result; people are not shown it. call has the arguments as the model's were read, and what
	// result points to must not be changed.
	AfterCall func(ctx context.Context, call ToolCall, result *ToolResult) (note string)
	// TraceRun, TraceModel and TraceTool are told of runs, calls of models and calls of
	// tools, as they begin and end: for spans, metrics and logs. Each returns the context in
	// which the thing is done, and what is called at its end, which may be nil; the struct
	// that it is given is filled in by then. They must not block.
	TraceRun   func(context.Context, *RunTrace) (context.Context, func())
	TraceModel func(context.Context, *ModelTrace) (context.Context, func())
	TraceTool  func(context.Context, *ToolTrace) (context.Context, func())
	// Closing is called by [Agent.Close] when no run goes on any more, and before the
	// runtime is cleaned up, unless Ready has failed. ctx has 30 seconds. An error becomes
	// one of Close.
	Closing func(ctx context.Context) error
	// Close is called at the end of [Agent.Close], whose error includes its own.
	Close func() error
	// Inherit says that the agents of tasks open the extension, too, each for itself.
	Inherit bool
}

// RunTrace is a run of an agent.
type RunTrace struct {
	Persona string // the name of the agent's
	Model   string // that is asked for; empty if it is not known

	// At the end. Err is nil, too, where the run of a task goes on in another process.
	Result *Result
	Err    error
}

// ModelTrace is one attempt to call a model.
type ModelTrace struct {
	Model   Model  // as the program gave it, without middleware
	Name    string // that is asked for; empty if it is not known
	BaseURL string // of an [openai.Model]
	// Messages are those of the request, which must not be changed.
	Messages []Message

	// At the end. Response is as the model gave it, and nil if Err is not. Both are nil
	// where the run of a task goes on in another process.
	Response   *ChatResponse
	Err        error
	FirstDelta time.Duration // after which the answer began to stream; 0 if it did not
}

// ToolTrace is a call of a tool, after it was approved.
type ToolTrace struct {
	Persona     string   // the name of the agent's
	Call        ToolCall // with the arguments as they run
	Description string   // of the tool

	// At the end. An error is one of the tool, or that of a context that has ended.
	Result *ToolResult
	Err    error
}

// Host is the agent for its extension.
type Host struct {
	Agent  *Agent       // whose methods may be called from [Lifecycle].Ready on
	Logger *slog.Logger // of the agent; never nil
}

// WithExtension adds extensions to the agent. One that is given replaces an earlier one of
// the same name.
func WithExtension(all ...Extension) Option {
	return option(func(o *options) {
		for _, e := range all {
			if e == nil {
				continue
			}
			o.extensions = slices.DeleteFunc(slices.Clone(o.extensions), func(given Extension) bool {
				return e.Name() != "" && e.Name() == given.Name()
			})
			o.extensions = append(o.extensions, e)
		}
	})
}

// openExtension is an extension of an agent.
type openExtension struct {
	Extension
	Lifecycle
	host    *Host
	isReady bool
}

// call calls a function of the extension, from which the agent cannot be closed. A panic
// becomes an error.
func (x *openExtension) call(f func() error) error {
	defer x.host.Agent.enter(&x.host.Agent.calling, "the extension "+x.Name())()
	_, err := safecall.Catch(func() (struct{}, error) { return struct{}{}, f() })
	if err == nil {
		return nil
	}
	logPanic(x.host.Logger, "extension "+x.Name(), err)
	return fmt.Errorf("extension %s: %w", x.Name(), err)
}

// extensions are those of an agent, in the order of the options.
type extensions []*openExtension

// open opens extensions for an agent.
func (all *extensions) open(ctx context.Context, a *Agent, given []Extension) error {
	for _, e := range given {
		x := &openExtension{Extension: e, host: &Host{a, a.log}}
		if err := x.call(func() (err error) { x.Lifecycle, err = e.Open(ctx, x.host); return err }); err != nil {
			return err
		}
		*all = append(*all, x)
	}
	return nil
}

// ready tells the extensions that the agent can be used.
func (all extensions) ready(ctx context.Context) error {
	for _, x := range all {
		if x.Ready != nil {
			if err := x.call(func() error { return x.Ready(ctx) }); err != nil {
				return err
			}
		}
		x.isReady = true
	}
	return nil
}

// end calls a function of each extension, the last one first. One that does not return in
// time is left behind, and the agent's leftBehind names it.
func (all extensions) end(of func(*openExtension) func() error) (err error) {
	for _, x := range slices.Backward(all) {
		if f := of(x); f != nil {
			err = errors.Join(err, safecall.Within(runEndsWithin, func() error { return x.call(f) }))
		}
	}
	return err
}

// closing tells the extensions that the runtime is about to go.
func (all extensions) closing() error {
	ctx, cancel := context.WithTimeout(context.Background(), runEndsWithin)
	defer cancel()
	return all.end(func(x *openExtension) func() error {
		if x.Closing == nil || !x.isReady {
			return nil
		}
		return func() error { return x.Closing(ctx) }
	})
}

// close closes the extensions.
func (all extensions) close() error {
	return all.end(func(x *openExtension) func() error { return x.Close })
}

// inherited returns the extensions that the agents of tasks have, too.
func (all extensions) inherited() (of []Extension) {
	for _, x := range all {
		if x.Inherit {
			of = append(of, x.Extension)
		}
	}
	return of
}

// traceFunc is a function of a [Lifecycle] that traces.
type traceFunc[T any] = func(context.Context, *T) (context.Context, func())

// trace tells extensions that something begins. It returns the context in which that is
// done, and what has to be called at its end.
func trace[T any](ctx context.Context, all extensions, of func(*Lifecycle) traceFunc[T], what *T) (_ context.Context, end func()) {
	var ends []func()
	for _, x := range all {
		begin := of(&x.Lifecycle)
		if begin == nil {
			continue
		}
		_ = x.call(func() error {
			within, end := begin(ctx, what)
			if within != nil {
				ctx = within
			}
			if end != nil {
				ends = append(ends, func() { _ = x.call(func() error { end(); return nil }) })
			}
			return nil
		})
	}
	return ctx, func() {
		for _, end := range slices.Backward(ends) {
			end()
		}
	}
}

// traced is r.do for those who trace runs.
func (r *run) traced(ctx context.Context, msg string) (*Result, error) {
	a := r.agent
	t := &RunTrace{Persona: a.Persona().Name, Model: a.model.current().asked()}
	ctx, end := trace(ctx, a.extensions, func(l *Lifecycle) traceFunc[RunTrace] { return l.TraceRun }, t)
	result, err := r.do(ctx, msg)
	t.Result, t.Err = result, failed(err)
	end()
	return result, err
}

// afterCall tells the model what extensions have to say about a call that has its result.
func (r *run) afterCall(ctx context.Context, call ToolCall, result *ToolResult) {
	for _, x := range r.agent.extensions {
		if x.AfterCall == nil || ctx.Err() != nil {
			continue
		}
		c, seen := r.withCall(ctx, call, 0), *result
		note, err := callForeign(c, r, "the extension "+x.Name(), func() (string, error) { return x.AfterCall(c, call, &seen), nil })
		r.agent.logPanic("extension "+x.Name(), err)
		if note != "" {
			result.Display = cmp.Or(result.Display, result.Content)
			result.Content += "\n" + cut.Middle(note, 2*maxToolResult)
		}
	}
}

// failed returns an error, but for one that says that the run goes on elsewhere.
func failed(err error) error {
	if errors.Is(err, errYielded) || errors.Is(err, bridge.ErrReassigned) {
		return nil
	}
	return err
}
