package pygent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/x/pygent/internal/ban"
	"github.com/x/pygent/internal/callback"
	"github.com/x/pygent/internal/feed"
	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/pause"
)

// Agent is a conversation with a model that can run tools. It owns one
// [Runtime] and one [History]. Its methods are safe for concurrent use; one
// run goes on at a time, and a second one is refused with [ErrAgentBusy].
// Close it when done.
type Agent struct {
	id        string
	model     Model
	modelName string
	persona   Persona
	prompt    PromptBuilder
	runtime   Runtime
	history   *History
	tools     *Registry
	banned    *ban.List
	opts      options
	log       *slog.Logger
	seq       atomic.Int64

	emitMu    sync.Mutex // makes the numbers of events rise in every feed
	listeners listeners  // guarded by emitMu, except always, which never changes

	handling callback.Guard // who runs event handlers of the agent
	calling  callback.Guard // who runs its tools and approvals, or loops over its events
	foreign  guard.Calls    // the calls of handlers, tools, models and the like that go on

	asking    pause.Gate  // closed while somebody decides about a call, of the agent or of its tasks, or about hosts
	asksHosts func() bool // whether somebody decides about hosts; nil where nobody does

	busy   guard.Baton // held by the run that goes on
	mu     sync.Mutex  // guards the fields below
	cancel context.CancelCauseFunc
	closed bool

	tasks   lazyTasks
	notices taskNotices

	git         gitState
	ranCommands atomic.Bool // a command may have run in the runtime, and left something behind

	refresh guard.Baton // held while the system message is rebuilt
	system  systemState // guarded by refresh, except stale
}

// New creates an agent. It does not wait for a container: that starts in the
// background, and the first command waits for it. Errors name the option or
// the variable to change.
func New(opts ...Option) (*Agent, error) {
	o := applyOptions(opts)
	if !o.configured {
		env, err := ConfigSources{NoFiles: true}.Load()
		if err != nil {
			return nil, err
		}
		o = applyOptions(slices.Concat(env.Options(), opts))
	}
	return newAgent(o)
}

func applyOptions(opts []Option) options {
	o := defaultOptions()
	apply(&o, opts)
	return o
}

func newAgent(o options) (_ *Agent, err error) {
	if _, err := newRunOptions(o.run, nil); err != nil {
		return nil, err
	}
	if err := o.contradiction(); err != nil {
		return nil, err
	}
	o.settle()
	a := &Agent{opts: o, log: o.logger, modelName: o.modelName, prompt: o.prompt, persona: o.persona.orDefault()}
	a.busy, a.refresh = guard.NewBaton(), guard.NewBaton()
	a.listeners.always = a.handlerFeed(o.onEvent)
	if a.tools, err = o.tooling(); err != nil {
		return nil, err
	}
	if a.banned, err = ban.New(o.banned, o.bannedApps); err != nil {
		return nil, err
	}
	if a.id, err = o.agentID(); err != nil {
		return nil, err
	}
	if err := a.prepareTasks(); err != nil {
		return nil, err
	}
	if a.model, err = o.chooseModel(); err != nil {
		return nil, err
	}
	if a.history, err = o.openHistory(); err != nil {
		return nil, err
	}
	if a.runtime, err = a.openRuntime(); err != nil {
		return nil, errors.Join(err, a.closeHistory())
	}
	a.git.dirs = keptDirs(a.runtime)
	a.logStart()
	return a, nil
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
	if err := r.known("disabled", o.disabled); err != nil {
		return nil, err
	}
	if err := r.known("to be approved", o.ownApprovalFor()); err != nil {
		return nil, err
	}
	r.Disable(o.disabled...)
	return r, nil
}

func (o *options) chooseModel() (Model, error) {
	if o.model != nil {
		return o.model, nil
	}
	if m := getDefaultModel(); m != nil && !o.isGiven("WithOpenAI") {
		return m, nil
	}
	return NewOpenAIModel(o.openai...)
}

func (o *options) openHistory() (*History, error) {
	switch {
	case o.history != nil:
		return o.history, nil
	case o.historyFile != "":
		dirs, err := o.writableDirs()
		if err != nil {
			return nil, err
		}
		return openHistoryBeside(dirs, o.historyFile)
	}
	return NewHistory(), nil
}

// writableDirs returns the directories of this machine that the agent's commands
// can write to and that stay.
func (o *options) writableDirs() ([]string, error) {
	if rt, ours := o.runtime.(*workspaceRuntime); ours {
		return append(rt.options.writableDirs(true, rt.options.docker != DockerRequired), rt.dir.tree.Dir()), nil
	}
	if o.runtime != nil {
		return nil, nil // of a runtime of the caller's own it is not known
	}
	return writableDirs(o.runtimeOpts)
}

// openRuntime makes the runtime unless the caller gave one. The events of the
// runtime become events of the agent.
func (a *Agent) openRuntime() (Runtime, error) {
	if a.opts.runtime != nil {
		return a.opts.runtime, nil
	}
	opts := append([]RuntimeOption{WithRuntimeLogger(a.log)}, a.opts.runtimeOpts...)
	opts = append(opts, WithRuntimeEvents(func(e RuntimeEvent) {
		a.emit(Event{Type: EventRuntime, Text: e.Text, Runtime: &e})
	}))
	opts = append(opts, a.withHostApproval())
	rt, err := NewRuntime(context.Background(), opts...)
	a.eventsHandled(context.Background()) // what New tells is told when it returns
	return rt, err
}

// Step makes one pass of the loop: it appends msg, asks the model once, and
// runs the tools it calls. It returns the model's message. An empty msg goes
// on without a new message of the user. That a limit was reached before there was
// a message is an error, one of time matches [context.DeadlineExceeded], and so
// is an answer that says nothing, which matches [ErrNoAnswer].
func (a *Agent) Step(ctx context.Context, msg string) (Message, error) {
	result, err := a.run(ctx, msg, nil, []RunOption{MaxSteps(1)})
	switch {
	case err != nil:
		return Message{}, err
	case result.Message.Role != "":
		return result.Message, nil
	case result.Status == StatusTimeout:
		return Message{}, fmt.Errorf("%s: %w", result.Reason, context.DeadlineExceeded)
	case result.Status == StatusMaxSteps: // which is the one step that it made
		return Message{}, ErrNoAnswer
	}
	return Message{}, fmt.Errorf("%w: %s", ErrNoAnswer, result.Reason)
}

// RunUntilStop appends msg and runs steps until the model calls stop or
// continue, or a limit is reached; [Result.Status] says which. A plain reply
// does not end the run unless [ReplyEnds] is given.
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
func (a *Agent) History() *History { return a.history }

// Persona returns who the agent is.
func (a *Agent) Persona() Persona { return a.persona }

// Tools returns the agent's own registry. Changes take effect at the next
// model call.
func (a *Agent) Tools() *Registry { return a.tools }

// closeHistory closes the history unless it is the caller's.
func (a *Agent) closeHistory() error {
	if a.opts.history != nil {
		return nil
	}
	err := a.history.Close()
	a.tellRepairs() // the file may have been changed since the last run
	return err
}

// begin makes the caller the one run of the agent. The context it returns ends
// when the agent is closed; end must be called.
func (a *Agent) begin(ctx context.Context) (_ context.Context, end func(), err error) {
	if ctx == nil {
		return nil, nil, errNilContext
	}
	free := a.busy.TryLock()
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed: // which holds busy while it goes on
		err = ErrAgentClosed
	case !free:
		err = ErrAgentBusy
	}
	if err != nil {
		if free {
			a.busy.Unlock()
		}
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	a.cancel = cancel
	return ctx, func() {
		a.mu.Lock()
		a.cancel = nil
		a.mu.Unlock()
		cancel(nil)
		a.busy.Unlock()
	}, nil
}

// run is the one loop behind every way to use an agent. Both the follower, which
// may be nil, and the run's own handler hear the events of the run.
func (a *Agent) run(ctx context.Context, msg string, follower *feed.Feed[Event], opts []RunOption) (*Result, error) {
	refused := func(err error) (*Result, error) {
		return &Result{Status: StatusFailed, Reason: err.Error()}, err
	}
	o, err := newRunOptions(a.opts.run, opts)
	if err != nil {
		return refused(err)
	}
	ctx, end, err := a.begin(ctx)
	if err != nil {
		return refused(err)
	}
	defer end()
	release, err := a.history.reserve()
	if err != nil {
		return refused(err)
	}
	defer release()
	a.listen(a.handlerFeed(o.onEvent), follower)
	defer a.listen()
	r := newRun(a, o)
	r.release = release
	return r.do(ctx, msg)
}

// RefreshSystemMessage rebuilds the system message from the persona, the
// runtime, the tools and the workspace's AGENTS.md. The first run does so by
// itself, as does any that finds the tools changed. While a run goes on, the
// message is rebuilt before its next model call.
func (a *Agent) RefreshSystemMessage() {
	a.system.stale.Store(true)
	if a.isRunning() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), systemRefreshTimeout)
	defer cancel()
	if _, err := a.refreshSystem(ctx); err != nil {
		a.log.Warn("system message not refreshed", "error", err)
	}
}

// systemRefreshTimeout bounds how long RefreshSystemMessage asks the runtime
// what it is.
const systemRefreshTimeout = 5 * time.Second

// isRunning reports whether a run goes on.
func (a *Agent) isRunning() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cancel != nil
}

// systemState is what the system message and the tools' specs were made from.
type systemState struct {
	stale   atomic.Bool // rebuild although the tools are the same
	built   bool
	version int64 // of the registry
	specs   []ToolSpec
	warned  string // of what the message was made from
}

// systemMessage is the system message, and what is wrong with what it was made
// from.
type systemMessage struct{ text, warning string }

// refreshSystem rebuilds the system message and the tools' specs when they are
// out of date, and returns the specs. The message is the same from step to step,
// so that providers can cache it.
func (a *Agent) refreshSystem(ctx context.Context) (_ []ToolSpec, err error) {
	if err := a.refresh.LockContext(ctx); err != nil {
		return nil, err
	}
	defer a.refresh.Unlock()
	s := &a.system
	if !s.stale.Swap(false) && s.built && s.version == a.tools.currentVersion() {
		return s.specs, nil
	}
	defer func() {
		if err != nil {
			s.stale.Store(true)
		}
	}()
	specs, version := a.tools.specs()
	if len(specs) > maxTools {
		return nil, fmt.Errorf("%d tools are active, and providers take at most %d: disable some", len(specs), maxTools)
	}
	message, err := guard.Outlive(ctx, func() (systemMessage, error) {
		defer a.enter(&a.calling, "the system message")()
		return a.systemMessage(ctx, specs)
	})
	a.logPanic("system message", err)
	if err != nil {
		return nil, fmt.Errorf("system message: %w", err)
	}
	if message.warning != "" && message.warning != s.warned {
		a.emit(Event{Type: EventWarning, Text: message.warning})
	}
	s.warned = message.warning
	if err := a.history.SetSystem(message.text); err != nil {
		return nil, err
	}
	s.specs, s.version, s.built = specs, version, true
	return specs, nil
}

// systemMessage asks the runtime what it is and has the system message written.
func (a *Agent) systemMessage(ctx context.Context, tools []ToolSpec) (m systemMessage, err error) {
	info := PromptInfo{
		Persona:        a.persona,
		Tools:          tools,
		BashTimeout:    DefaultBashTimeout,
		MaxBashTimeout: MaxBashTimeout,
	}
	if d, ok := a.runtime.(Describer); ok {
		info.Runtime = d.Describe(ctx)
		info.Runtime.AsksHosts = a.asksHosts != nil && a.asksHosts() && a.runtime.UseDocker() && !info.Runtime.Network
	}
	if a.opts.instructions {
		if info.Instructions, m.warning, err = readInstructions(ctx, a.runtime); err != nil {
			return m, fmt.Errorf("read AGENTS.md: %w", err)
		}
	}
	m.text = a.prompt(info)
	return m, nil
}

// enter notes that this goroutine runs foreign code for the agent, until it
// calls leave. So Close can refuse to wait for itself, and name what it leaves
// behind.
func (a *Agent) enter(inside *callback.Guard, what string) (leave func()) {
	return a.enterAs(inside, callback.Self(), what)
}

// enterAs is enter for a goroutine that knows itself.
func (a *Agent) enterAs(inside *callback.Guard, self callback.ID, what string) (leave func()) {
	outside, returned := inside.Enter(self), a.foreign.Enter(what)
	return func() {
		returned()
		outside()
	}
}

// logPanic logs a panic of what with its stack, if err is one.
func (a *Agent) logPanic(what string, err error) { logPanic(a.log, what, err) }

func logPanic(log *slog.Logger, what string, err error) {
	var p *guard.PanicError
	if errors.As(err, &p) {
		log.Error(what+" panicked", "error", err, "stack", string(p.Stack))
	}
}
