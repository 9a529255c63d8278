package pygent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/looptext"
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

// notes returns what a model is told of a call besides its result: that its
// arguments were changed, and what hooks said.
func (c *callContext) notes() string {
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
