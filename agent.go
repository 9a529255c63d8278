package pygent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/x/pygent/internal/gitrepo/gitwatch"
	"github.com/x/pygent/internal/safecall"
)

// Agent is a conversation with a model that can run tools. It owns one
// [Runtime] and one [History]. Its methods are safe for concurrent use; one
// run goes on at a time, and a second one is refused with [ErrAgentBusy].
// Close it when done.
type Agent struct {
	id      string
	persona Persona
	prompt  PromptBuilder
	runtime Runtime
	history conversation
	session sessionKeeper // set by New

	startup startupNotices
	tools   *Registry
	wiring
	opts options
	callbacks
	logFrom int64 // how long the program's log was when the agent was made

	events   eventHub
	changed  changeLog
	unheard  unheard
	settings liveSettings

	deciders deciders
	serving  atomic.Pointer[callContext] // of the tool call that goes on, the first of several; nil between calls
	commands commandSet

	slot *safecall.Slot
	mu   sync.Mutex // guards persona

	sources toolSources
	tasks   lazyTasks
	notices taskNotices

	git  *gitwatch.Watch
	jobs agentJobs

	window  contextWindow    // guarded by slot
	keeper  checkpointKeeper // set by New
	refresh safecall.Baton   // held while the system message is rebuilt
	system  systemState      // guarded by refresh, except stale and again
	era     atomic.Int64     // rises where a model may not know any more what it was told: at the start of a run and by a compaction
}

// New creates an agent. It does not wait for a container: that starts in the
// background, and the first command waits for it. Errors name the option or
// the variable to change.
func New(opts ...Option) (*Agent, error) {
	return NewWithContext(context.Background(), opts...)
}

// NewWithContext is [New] in the time that ctx has: as with [NewRuntime], ctx bounds
// the search for an engine, which may not answer for seconds, and the copying of the
// initial files, of those of a snapshot, and of those that a session puts back. The agent
// does not end with ctx.
func NewWithContext(ctx context.Context, opts ...Option) (*Agent, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	o, err := resolveOptions(opts)
	if err != nil {
		return nil, err
	}
	return newAgent(ctx, o)
}

// resolveOptions applies options to the settings of the environment, unless a
// configuration among them includes those already.
func resolveOptions(opts []Option) (options, error) {
	if !slices.Contains(opts, Option(environmentIncluded{})) {
		env, err := environment()
		if err != nil {
			return options{}, err
		}
		opts = slices.Concat(env.Options(), opts)
	}
	return applyOptions(opts), nil
}

func applyOptions(opts []Option) options {
	o := defaultOptions()
	setAll(&o, opts, Option.setAgent)
	return o
}

func newAgent(ctx context.Context, o options) (*Agent, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o.resolve()
	a := &Agent{opts: o, logFrom: o.logSize(), callbacks: callbacks{log: o.logger}, prompt: o.prompt, persona: o.persona.orDefault()}
	a.connect()
	if err := a.prepare(&o); err != nil {
		return nil, err
	}
	if err := a.open(ctx, &o); err != nil {
		return nil, errors.Join(err, a.extensions.close())
	}
	a.sources = toolSources{given: o.sources, tools: a.tools, runtime: a.runtime, calls: &a.callbacks, isClosed: a.isClosed}
	a.tools.tasks = newTaskTools(a.tasks.options().personas, a.tasks.mayBegin(o.rules, o.depth, a.runtime))
	a.git = gitwatch.NewWatch(lastingDirs(a.runtime)...)
	a.keeper.Ready()
	for _, warning := range o.warnings {
		a.log.Warn("configuration", "what", warning)
	}
	a.log.Info("agent made", "agent", a.id, "persona", a.persona.Name, "model", modelInLog(a.model.chosen.given, a.model.chosen.name),
		"docker", a.UseDocker(), "messages", a.history.Len())
	o.saved.snapshot.emitNotTaken(a)
	if err := a.extensions.ready(ctx); err != nil {
		a.opts.lent = a.opts.lent || o.runtime != nil // it stays the caller's
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// connect gives the parts of the agent the others that they need.
func (a *Agent) connect() {
	a.slot = safecall.NewSlot(errNilContext, ErrAgentBusy, ErrAgentClosed)
	a.events.calls, a.events.interrupt = &a.callbacks, a.slot.Interrupt
	a.startup.events, a.unheard.events, a.settings.agent = &a.events, &a.events, a
	a.deciders.opts, a.deciders.calls, a.deciders.settings, a.deciders.stale = &a.opts, &a.callbacks, &a.settings, &a.system.stale
}

// prepare makes the parts of the agent of which nothing has to be closed.
func (a *Agent) prepare(o *options) (err error) {
	a.keeper = noCheckpoints{a}
	a.meter.above = o.spends
	a.refresh = safecall.NewBaton()
	a.jobs.begin(a)
	a.events.open(o.onEvent)
	if a.tools, err = o.tooling(); err != nil {
		return err
	}
	a.tools.changed = a.settings.emit
	if a.commands, err = o.commandSet(); err != nil {
		return err
	}
	if err = a.deciders.begin(); err != nil {
		return err
	}
	if a.id, err = o.agentID(); err != nil {
		return err
	}
	a.events.agent = a.id
	if err := a.tasks.prepare(o, a); err != nil {
		return err
	}
	if err := a.wiring.wrap(o); err != nil {
		return err
	}
	return a.pricing.checkFor(o.run)
}

// open opens the extensions, the conversation and the workspace. If it fails, only
// extensions have to be closed.
func (a *Agent) open(ctx context.Context, o *options) error {
	if err := a.extensions.open(ctx, a, o.extensions); err != nil {
		return err
	}
	if err := a.openConversation(o); err != nil {
		return err
	}
	a.window = contextWindow{history: a.history, model: &a.model, set: o.window}
	if err := o.saved.snapshot.checkUnused(a.history, o.historyFile); err != nil {
		return errors.Join(err, a.closeHistory())
	}
	if err := a.openWorkspace(ctx, o); err != nil {
		return errors.Join(err, a.keeper.Close(false), a.closeHistory())
	}
	return nil
}

// openWorkspace opens the checkpoints, makes the runtime, and puts the files there that a
// snapshot or a session has.
func (a *Agent) openWorkspace(ctx context.Context, o *options) error {
	putsBack, err := a.keeper.Open(ctx)
	if err != nil {
		return err
	}
	a.runtime, err = o.openRuntime(ctx, putsBack, withRuntimeEvents(a.emit), a.deciders.hostApproval(a.callGoingOn))
	if o.runtime == nil {
		a.events.awaitHandled(context.Background()) // before New returns, the handler has seen its events
	}
	if err != nil {
		return err
	}
	a.jobs.runtime = a.runtime
	if err = o.saved.snapshot.fill(ctx, a); err == nil {
		err = a.keeper.Fill(ctx)
	}
	if err != nil && o.runtime == nil {
		err = errors.Join(err, a.runtime.Cleanup())
	}
	return err
}

// writableDirs returns the lasting directories of this machine that the agent's
// commands can write to.
func (o *options) writableDirs() ([]string, error) {
	if rt, ours := RuntimeAs[*workspaceRuntime](o.runtime); ours {
		return append(rt.options.writableDirs(true, rt.options.docker != DockerRequired), rt.Dir()), nil
	}
	if o.runtime != nil {
		return nil, nil // unknown for a runtime of the caller's own
	}
	return writableDirs(o.runtimeOpts)
}

// openRuntime makes the runtime in the time of ctx, with further options, unless the caller
// gave one.
func (o *options) openRuntime(ctx context.Context, putsBack bool, further ...RuntimeOption) (Runtime, error) {
	if o.runtime != nil {
		return o.runtime, nil
	}
	opts := slices.Concat([]RuntimeOption{WithLogger(o.logger)}, o.runtimeOpts, further)
	if putsBack { // the checkpoint has the initial files as the session has left them
		opts = append(opts, runtimeOption{"", func(o *runtimeOptions) { o.initialFiles = nil }})
	}
	if err := o.saved.snapshot.checkEmpty(opts); err != nil {
		return nil, err
	}
	return NewRuntime(ctx, opts...)
}

// withRuntimeEvents has an agent emit the events of its runtime, besides whoever else gets
// them.
func withRuntimeEvents(emit emitter) RuntimeOption {
	return runtimeOption{"", func(o *runtimeOptions) {
		given := o.events
		o.events = func(e RuntimeEvent) {
			emit(Event{Type: EventRuntime, Text: e.Text, Runtime: &e})
			if given != nil {
				given(e)
			}
		}
	}}
}

// Step makes one pass of the loop: it appends msg, asks the model once, and
// runs the tools it calls. With an empty msg it continues without a new message
// of the user. The result has the model's message, its tokens, and a status:
// [StatusMaxSteps] where the conversation may go on, or how it ended.
//
// The result is never nil. It is an error when a limit was reached before there
// was a message; for a time limit the error matches [context.DeadlineExceeded].
// An answer without content is an error that matches [ErrNoAnswer]. Other errors
// are those of [Agent.RunUntilStop].
func (a *Agent) Step(ctx context.Context, msg string, opts ...RunOption) (*Result, error) {
	result, err := a.run(ctx, msg, nil, append(slices.Clip(opts), MaxSteps(1)))
	switch {
	case err != nil || result.Message.Role != "":
		return result, err
	case result.Status == StatusTimeout:
		return result, fmt.Errorf("%s: %w", result.Reason, context.DeadlineExceeded)
	case result.Status == StatusMaxSteps: // the limit of one step, which Step itself sets
		return result, ErrNoAnswer
	}
	return result, fmt.Errorf("%w: %s", ErrNoAnswer, result.Reason)
}

// RunUntilStop appends msg and runs steps until the model calls stop or
// continue, or a limit is reached; [Result.Status] says which. A plain reply
// does not end the run unless [WithEndOnReply] or [WithEndOnAnswer] is given. An
// empty msg adds nothing: the run goes on with the conversation as it is, and with
// what was said by [Agent.Say].
//
// The result is never nil. The error is set when the model call failed
// (StatusFailed, StatusContextFull), when the runtime cannot start
// ([ErrRuntimeStart], StatusFailed), and when ctx ended (StatusCancelled, or
// StatusTimeout at its deadline): it then matches both the cause and ctx's own
// error. Reaching a limit of the run is no error. In every case the history is a
// legal conversation that the next run continues.
//
// A stop is refused once, with a result that says why, when a call beside it
// failed, or when tasks or background jobs are at work still.
func (a *Agent) RunUntilStop(ctx context.Context, msg string, opts ...RunOption) (*Result, error) {
	return a.run(ctx, msg, nil, opts)
}

// Runtime returns where the agent's commands run.
func (a *Agent) Runtime() Runtime { return a.runtime }

// History returns the agent's conversation.
func (a *Agent) History() *History { return a.history.Unwrap() }

// Tools returns the agent's own registry. Changes take effect at the next
// model call.
func (a *Agent) Tools() *Registry { return a.tools }

// The bounds of what Close waits for. Each part of a run that ends gets
// [safecall.Grace] of its own.
const (
	runEndsWithin = 30 * time.Second
	cleanupWithin = time.Minute
)

// Close cancels a run that goes on and waits for it, ends the agent's tasks,
// closes its sources of tools, cleans up the runtime unless it was lent ([LendRuntime]), and closes the
// history that the agent opened. It may be called more than once: a further call
// waits for the end of the first, whose error only that one returns.
//
// Called by a tool or an event handler of the agent or of one of its tasks, or in
// the body of a loop over [Agent.Events], it would wait for its caller: it does
// nothing and returns an error that matches [ErrInCallback]. What does not return
// although it was cancelled is left behind, and named by an error that matches
// [ErrLeftBehind].
func (a *Agent) Close() error {
	if a.inCallback() || a.tasks.inCallback() {
		return fmt.Errorf("close the agent: %w", ErrInCallback)
	}
	first, ended := a.slot.Close(errClosing)
	if !first {
		return nil
	}
	defer ended()
	a.notices.present.Leave()
	ctx, cancel := context.WithTimeout(context.Background(), runEndsWithin)
	defer cancel()
	if rested, err := a.slot.Await(ctx); err == nil {
		defer rested()
	} else {
		defer a.foreign.Enter("the run")() // so that leftBehind names it
	}
	err := errors.Join(a.tasks.close(), a.sources.close())
	err = errors.Join(err, a.extensions.closing())
	a.keeper.Closing()
	cleanup := a.cleanUp(a.runtime, a.opts.lent)
	err = errors.Join(err, cleanup, a.keeper.Close(cleanup == nil), a.closeHistory(), a.extensions.close())
	emitGitChanges(a.git, a.emit)
	ctx, cancel = context.WithTimeout(context.Background(), safecall.Grace)
	defer cancel()
	a.events.awaitHandled(ctx)
	a.events.replay.End()
	return errors.Join(err, a.leftBehind())
}

// callbacks is the code of others that runs for an agent: its tools, its model, handlers
// of its events and the like.
type callbacks struct {
	handling safecall.Reentry // knows which goroutines run handlers of events
	calling  safecall.Reentry // knows which goroutines run other code, or loop over the events
	foreign  safecall.Calls   // that have not returned
	log      *slog.Logger
}

// callbacksOf returns those of an agent, which may be nil.
func callbacksOf(a *Agent) *callbacks {
	if a == nil {
		return nil
	}
	return &a.callbacks
}

// inHandler reports whether the caller is a handler of events. Nil callbacks have none.
func (c *callbacks) inHandler() bool { return c != nil && c.handling.Inside() }

// inCallback reports whether the caller is code of others. Nil callbacks have none.
func (c *callbacks) inCallback() bool { return c.inHandler() || c != nil && c.calling.Inside() }

// cleanUp cleans up a runtime unless it was lent. Those of this package take a bounded time. The caller's
// own is waited for at most cleanupWithin.
func (c *callbacks) cleanUp(rt Runtime, lent bool) error {
	if lent {
		return nil
	}
	ctx := context.Background()
	if _, ours := rt.(*workspaceRuntime); !ours {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, cleanupWithin, errCleanupSlow)
		defer cancel()
	}
	_, err := safecall.Outlive(ctx, func() (struct{}, error) {
		defer c.enter(&c.calling, "the runtime's Cleanup")()
		return struct{}{}, rt.Cleanup()
	})
	c.logPanic("cleanup", err)
	if errors.Is(err, errCleanupSlow) {
		return nil // leftBehind reports it
	}
	return err
}

var errCleanupSlow = errors.New("the clean-up timed out")

// leftBehind returns an error that names the calls that have not returned and
// that nothing waits for any more.
func (c *callbacks) leftBehind() error {
	names := c.foreign.Names()
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("close the agent: %s %w", strings.Join(names, ", "), ErrLeftBehind)
}

// lastingDirs returns the lasting directories of this machine that commands of a
// runtime can write to. For a runtime of another package none are known.
func lastingDirs(rt Runtime) []string {
	r, ours := RuntimeAs[*workspaceRuntime](rt)
	if !ours {
		return nil
	}
	return r.options.writableDirs(r.Isolated(), !r.Isolated())
}

// emitter emits an event of an agent.
type emitter = func(Event) []<-chan struct{}

// emitGitChanges warns of changed files that steer git on this machine.
func emitGitChanges(git *gitwatch.Watch, emit emitter) {
	notice, warning := git.News()
	if notice != "" {
		emit(Event{Type: EventNotice, Text: notice})
	}
	if warning != "" {
		emit(Event{Type: EventWarning, Text: warning})
	}
}

// enter records that this goroutine runs code of others, until it calls leave. With this, Close can refuse to wait for its own caller, and can
// name the code that it leaves behind.
func (c *callbacks) enter(inside *safecall.Reentry, what string) (leave func()) {
	return c.enterAs(inside, safecall.Current(), what)
}

// enterAs is enter for a goroutine that knows its own id.
func (c *callbacks) enterAs(inside *safecall.Reentry, self safecall.Goroutine, what string) (leave func()) {
	outside, returned := inside.Enter(self), c.foreign.Enter(what)
	return func() {
		returned()
		outside()
	}
}

// logPanic logs err with its stack if it is a panic. what names the code.
func (c *callbacks) logPanic(what string, err error) { logPanic(c.log, what, err) }

func logPanic(log *slog.Logger, what string, err error) {
	var p *safecall.PanicError
	if errors.As(err, &p) {
		log.Error(what+" panicked", "error", err, "stack", string(p.Stack))
	}
}

// lateCall is a call of foreign code that may ignore its context. The zero value is
// ready.
type lateCall struct {
	returned atomic.Pointer[chan struct{}] // closed when the call returns that was left behind; nil if none was
}

// errLate is returned instead of calling code that owes an answer.
var errLate = errors.New("an earlier call has not returned yet")

// outliveOnce calls f as [safecall.Outlive] does, but leaves only one call behind.
func outliveOnce[T any](ctx context.Context, a *Agent, c *lateCall, what string, f func() (T, error)) (T, error) {
	if late := c.returned.Load(); late != nil && !hasEnded(*late) {
		var none T
		return none, errLate
	}
	returned := make(chan struct{})
	value, err := safecall.Outlive(ctx, func() (T, error) {
		defer close(returned)
		defer a.enter(&a.calling, what)()
		return f()
	})
	if !hasEnded(returned) {
		c.returned.Store(&returned)
	}
	a.logPanic(what, err)
	return value, err
}
