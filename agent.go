package pygent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/x/pygent/internal/callback"
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
	opts      options
	log       *slog.Logger
	seq       atomic.Int64

	emitMu sync.Mutex  // held while event handlers run, so that they see one event at a time
	sink   func(Event) // the handler of the run that goes on; guarded by emitMu

	handling callback.Guard // who runs event handlers of the agent
	calling  callback.Guard // who runs its tools and approvals

	busy   sync.Mutex // held by the run that goes on
	told   int        // how many repairs of the history were told; guarded by busy
	mu     sync.Mutex // guards the fields below
	cancel context.CancelCauseFunc
	closed bool

	tasks   lazyTasks
	notices taskNotices

	system systemState // used by the run, and by RefreshSystemMessage while none goes on
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
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

func newAgent(o options) (_ *Agent, err error) {
	if _, err := newRunOptions(o.run, nil); err != nil {
		return nil, err
	}
	a := &Agent{opts: o, log: o.logger, modelName: o.modelName, prompt: o.prompt, persona: o.persona.orDefault()}
	if a.tools, err = o.tooling(); err != nil {
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
	r.Disable(o.disabled...)
	return r, nil
}

func (o *options) chooseModel() (Model, error) {
	if o.model != nil {
		return o.model, nil
	}
	if m := getDefaultModel(); m != nil {
		return m, nil
	}
	return NewOpenAIModel(o.openai...)
}

func (o *options) openHistory() (*History, error) {
	switch {
	case o.history != nil:
		return o.history, nil
	case o.historyFile != "":
		return OpenHistory(o.historyFile)
	}
	return NewHistory(), nil
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
	return NewRuntime(context.Background(), opts...)
}

// Step makes one pass of the loop: it appends msg, asks the model once, and
// runs the tools it calls. It returns the model's message. An empty msg goes
// on without a new message of the user.
func (a *Agent) Step(ctx context.Context, msg string) (Message, error) {
	result, err := a.run(ctx, msg, nil, []RunOption{MaxSteps(1)})
	if err != nil {
		return Message{}, err
	}
	return result.Message, nil
}

// RunUntilStop appends msg and runs steps until the model calls stop or
// continue, or a limit is reached; [Result.Status] says which. A plain reply
// does not end the run unless [ReplyEnds] is given.
//
// The result is never nil. The error is set when the model call failed
// (StatusFailed, StatusContextFull) or ctx ended (StatusCancelled); reaching a
// limit is no error. In every case the history is a legal conversation that
// the next run continues.
func (a *Agent) RunUntilStop(ctx context.Context, msg string, opts ...RunOption) (*Result, error) {
	return a.run(ctx, msg, nil, opts)
}

// Events is [Agent.RunUntilStop] as an iterator over what happens. The last
// event is [EventRunEnd], with the result. The error, if any, comes last, with
// a zero event. Breaking out of the loop cancels the run and waits for its end.
func (a *Agent) Events(ctx context.Context, msg string, opts ...RunOption) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		queue := newEventQueue()
		var err error
		go func() {
			defer queue.close()
			_, err = a.run(ctx, msg, queue.put, opts)
		}()
		defer queue.drain()
		defer cancel()
		for {
			e, ok := queue.take()
			if !ok {
				break
			}
			if !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(Event{}, err)
		}
	}
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

// Close cancels a run that goes on and waits for it, ends the agent's tasks,
// cleans up the runtime, and closes the history that the agent opened. It may be called more than
// once.
func (a *Agent) Close() error {
	a.mu.Lock()
	already := a.closed
	a.closed = true
	if a.cancel != nil {
		a.cancel(errClosing)
	}
	a.mu.Unlock()
	a.busy.Lock()
	defer a.busy.Unlock()
	if already {
		return nil
	}
	return errors.Join(a.closeTasks(), a.runtime.Cleanup(), a.closeHistory())
}

// closeHistory closes the history unless it is the caller's.
func (a *Agent) closeHistory() error {
	if a.opts.history != nil {
		return nil
	}
	return a.history.Close()
}

// begin makes the caller the one run of the agent. The context it returns ends
// when the agent is closed; end must be called.
func (a *Agent) begin(ctx context.Context) (_ context.Context, end func(), err error) {
	if !a.busy.TryLock() {
		return nil, nil, ErrAgentBusy
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		a.busy.Unlock()
		return nil, nil, ErrAgentClosed
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

// emit completes an event and hands it to the agent's handler and to the run's.
func (a *Agent) emit(e Event) {
	a.emitMu.Lock()
	defer a.emitMu.Unlock()
	a.logEvent(e)
	if a.opts.onEvent == nil && a.sink == nil {
		return
	}
	defer a.handling.Enter()()
	e.Seq, e.Time = a.seq.Add(1), time.Now()
	if a.opts.onEvent != nil {
		a.opts.onEvent(e)
	}
	if a.sink != nil {
		a.sink(e)
	}
	if e.Type == EventRunEnd && e.Task == "" {
		a.sink = nil // tasks may go on, but the run's handlers have seen its last event
	}
}

// tellRepairs emits what was repaired in the history's file, or happened to it,
// since the last time. The caller holds a.busy.
func (a *Agent) tellRepairs() {
	repairs := a.history.Repairs()
	for _, repair := range repairs[a.told:] {
		a.emit(Event{Type: EventWarning, Text: "history: " + repair})
	}
	a.told = len(repairs)
}

func (a *Agent) setSink(sink func(Event)) {
	a.emitMu.Lock()
	defer a.emitMu.Unlock()
	a.sink = sink
}

// run is the one loop behind every way to use an agent. sink sees the events
// of the run, as does the run's own handler.
func (a *Agent) run(ctx context.Context, msg string, sink func(Event), opts []RunOption) (*Result, error) {
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
	a.setSink(bothHandlers(o.onEvent, sink))
	defer a.setSink(nil)
	return newRun(a, o).do(ctx, msg)
}

// RefreshSystemMessage rebuilds the system message from the persona, the
// runtime, the tools and the workspace's AGENTS.md. The first run does so by
// itself, as does any that finds the tools changed. While a run goes on, the
// message is rebuilt before its next model call.
func (a *Agent) RefreshSystemMessage() {
	if !a.busy.TryLock() {
		a.system.stale.Store(true)
		return
	}
	defer a.busy.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), systemRefreshTimeout)
	defer cancel()
	a.system.stale.Store(true)
	if err := a.refreshSystem(ctx); err != nil {
		a.log.Warn("system message not refreshed", "error", err)
		a.system.stale.Store(true)
	}
}

// systemRefreshTimeout bounds how long RefreshSystemMessage asks the runtime
// what it is.
const systemRefreshTimeout = 5 * time.Second

// systemState is what the system message and the tools' specs were made from.
type systemState struct {
	stale   atomic.Bool // rebuild although the tools are the same
	built   bool
	version int64 // of the registry
	specs   []ToolSpec
}

// refreshSystem rebuilds the system message and the tools' specs when they are
// out of date. The caller holds a.busy. The message is the same from step to
// step, so that providers can cache it.
func (a *Agent) refreshSystem(ctx context.Context) error {
	s := &a.system
	if !s.stale.Swap(false) && s.built && s.version == a.tools.currentVersion() {
		return nil
	}
	s.specs, s.version = a.tools.specs()
	info := PromptInfo{
		Persona:        a.persona,
		Tools:          s.specs,
		BashTimeout:    DefaultBashTimeout,
		MaxBashTimeout: MaxBashTimeout,
	}
	if d, ok := a.runtime.(Describer); ok {
		info.Runtime = d.Describe(ctx)
	}
	if a.opts.instructions {
		text, err := readInstructions(ctx, a.runtime)
		if err != nil {
			return fmt.Errorf("read AGENTS.md: %w", err)
		}
		info.Instructions = text
	}
	if err := a.history.SetSystem(a.prompt(info)); err != nil {
		return err
	}
	s.built = true
	return nil
}
