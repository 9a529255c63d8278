package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/looptext"
	wire "github.com/x/pygent/internal/openai"
	"github.com/x/pygent/internal/openai/chatstream"
	"github.com/x/pygent/internal/openai/thought"
	"github.com/x/pygent/internal/retry"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/openai"
)

// Model answers a conversation with one assistant message. Implement it to
// plug in any language model; [openai.Model] speaks to every server with OpenAI's
// chat completions or Responses API, and [ModelFunc] turns a function into a
// Model.
//
// Chat must honour ctx and may be called by many agents at once. The request
// and everything it points to belong to the agent: read it, do not modify or
// keep it. The response belongs to the model, which may return the same one
// more than once. A temporary error should be an [*APIError] with Retryable
// set; then the agent, and only the agent, repeats the call.
//
// Text is never a call, unless the Model has a method LeavesCalls(model string) bool that
// reports true: then its server has no parser for the calls of the named model and leaves
// them in the text, in the template of the model's family. The agent takes such a call if
// the answer can be nothing else. If the call may change something, the user is asked
// first; if nobody can be asked, the model has to write it twice.
type Model interface {
	Chat(ctx context.Context, req *ChatRequest) (*ChatResponse, error)
}

// StreamingModel is a Model that can also emit its answer while it is being
// written. The agent then uses ChatStream instead of Chat.
//
// ChatStream calls emit from the calling goroutine only, and returns the same
// complete response that Chat would. Deltas are for display: nothing is lost
// when a model drops or merges them.
type StreamingModel interface {
	Model
	ChatStream(ctx context.Context, req *ChatRequest, emit func(Delta)) (*ChatResponse, error)
}

// ModelFunc adapts a function to [Model].
type ModelFunc func(ctx context.Context, req *ChatRequest) (*ChatResponse, error)

// Chat calls f.
func (f ModelFunc) Chat(ctx context.Context, req *ChatRequest) (*ChatResponse, error) {
	return f(ctx, req)
}

// incomplete returns why an answer cannot be taken for a summary, or nil.
func incomplete(resp *ChatResponse) error {
	switch cut := looptext.CutBy(string(resp.FinishReason)); {
	case cut != "":
		return fmt.Errorf("its answer was cut off by %s", cut)
	case isEmpty(resp.Message):
		return errors.New("its answer was empty")
	}
	return nil
}

// isEmpty reports whether a message of the model has neither calls nor content that says anything.
func isEmpty(msg Message) bool {
	return len(msg.ToolCalls) == 0 && thought.IsNothing(msg.Text())
}

// defaultModel is the process-wide model that SetDefaultModel installs.
var defaultModel struct {
	sync.RWMutex
	model Model
}

// SetDefaultModel makes m the model of every agent created afterwards without
// [WithModel], delegated ones included. Nil restores the built-in default, an
// [openai.Model] configured from the environment. Agents that exist keep their
// model. It is safe for concurrent use.
func SetDefaultModel(m Model) {
	defaultModel.Lock()
	defer defaultModel.Unlock()
	defaultModel.model = m
}

func getDefaultModel() Model {
	defaultModel.RLock()
	defer defaultModel.RUnlock()
	return defaultModel.model
}

// RetryPolicy says how a model call that failed temporarily is repeated. Only model
// calls are ever repeated.
//
// Overloads are waited out by time, in a run, in a session and in a task alike: the
// statuses 429, 503 and 529, and a server that has answered before and cannot be reached
// any more, or closes connections before it answers. Each pause is announced by an
// [EventRetry], and ends with the context. A server that asks for a longer pause
// (Retry-After) gets it if that is within MaxWait and the run's time limits; otherwise
// the call fails at once, and the error says when to come back. Exhausted quotas, wrong
// keys and bad requests are never repeated, and other errors only MaxAttempts times.
//
// A field that is not positive has its default.
type RetryPolicy struct {
	MaxAttempts int           // calls in all, overloads included; 1 never repeats. Default: 5, without counting overloads
	BaseDelay   time.Duration // the pause after the first failure, default 1 s; it doubles each time, and is random between half of that and all
	MaxDelay    time.Duration // the longest pause that the server does not ask for; default 30 s
	MaxWait     time.Duration // how long overloads in a row are waited out; default 5 minutes, [NoLimit] for ever
}

// retryFailure is what a [RetryPolicy] looks at.
func retryFailure(err error) retry.Failure {
	var api *APIError
	if !errors.As(err, &api) {
		return retry.Failure{Err: err}
	}
	return retry.Failure{Err: err, Passes: api.Retryable, Overload: wire.IsOverload(api.Status, api.Err), After: api.RetryAfter}
}

// ask brings the system message up to date, calls the model with the retries of
// the policy, and compacts the conversation if it is too long.
func (r *run) ask(ctx context.Context) (*ChatResponse, error) {
	specs, err := r.refreshSystem(ctx)
	if err != nil {
		return nil, err
	}
	if specs, err = r.opts.final.offer(specs); err != nil {
		return nil, err
	}
	r.specs = specs
	starting, end, err := r.whileStarting(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	if err = r.fit(starting, specs); err != nil {
		return nil, cmp.Or(startFailure(starting), err)
	}
	resp, err := r.askInWindow(starting, specs)
	if err != nil {
		if api := (*APIError)(nil); !errors.As(err, &api) { // which says itself who failed
			err = fmt.Errorf("call the model: %w", err)
		}
		return nil, cmp.Or(startFailure(starting), err)
	}
	return resp, nil
}

// silentAfter is how long the system message may wait for the runtime before people
// are told what the step waits for.
const silentAfter = 3 * time.Second

// refreshSystem is [Agent.refreshSystem], which reads the workspace, so that a
// container or an engine that does not answer holds it up.
func (r *run) refreshSystem(ctx context.Context) ([]chat.ToolSpec, error) {
	defer safecall.Late(silentAfter, func() {
		what := "the workspace"
		if r.agent.UseDocker() {
			what = "the container"
		}
		r.emit(Event{Type: EventNotice, Step: r.result.Steps, Text: what + " does not answer yet; the model is called when it does, or without it"})
	})()
	return r.agent.refreshSystem(ctx)
}

// maxConversation bounds the JSON of a conversation, in bytes, for which a
// model is asked. It is more than any provider accepts in a request. The whole
// conversation is in memory, several times while a request is made, and a
// server that misbehaves could add to it with every answer.
const maxConversation = 64 << 20

var errConversation = fmt.Errorf("the conversation is larger than %d MiB, which no model accepts: start a new one", maxConversation>>20)

// sumUp makes one last model call when the run ended at its limit of steps or
// tool calls, so that the user learns how far the model came. It changes
// neither the status nor the error of the run, and is skipped when another
// limit is reached as well.
//
// The request still contains the tools, and calls are refused. Anthropic's API
// and Bedrock do not accept a conversation with tool calls without tools, and
// changing the tools would invalidate the provider's cache of the whole
// conversation.
func (r *run) sumUp(ctx context.Context) {
	limited := r.result.Status == StatusMaxSteps || r.result.Status == StatusMaxToolCalls
	replied := r.replies > 0 && r.trouble.CutBy == "" && !r.empty // then the last reply serves as the summary
	if !limited || !r.sumsUp() || replied && r.opts.final == nil || ctx.Err() != nil || r.budgetSpent() != "" {
		return
	}
	ctx, done := r.beginStep(ctx)
	defer done()
	if err := r.askForSummary(ctx); err != nil {
		r.agent.log.Warn("the model did not summarise", "error", err)
		r.emit(Event{Type: EventWarning, Step: r.result.Steps, Text: "the model did not summarise: " + err.Error()})
	}
}

func (r *run) askForSummary(ctx context.Context) error {
	if !r.toldLast {
		if err := r.hear(chat.UserMessage(looptext.SumUp(r.result.Reason, r.opts.final.name())), chat.SourceNudge); err != nil {
			return err
		}
	}
	resp, err := r.ask(ctx)
	if err != nil {
		return err
	}
	if err := incomplete(resp); err != nil {
		return err
	}
	r.replies, r.trouble = 0, looptext.Trouble{}
	if err := r.tookMessage(resp); err != nil {
		return err
	}
	return r.refuseCalls(ctx, resp.Message.ToolCalls)
}

// askOften makes a model call until one succeeds, or must not be repeated, and
// counts what the answer used. Without delta nothing is told of the
// answer.
func (r *run) askOften(ctx context.Context, req ChatRequest, delta func(Delta)) (*ChatResponse, error) {
	calls := retry.Policy(r.agent.opts.retry).Begin()
	for attempt := 1; ; attempt++ {
		model := r.agent.model.current()
		req.Model = model.name
		if delta != nil {
			r.emit(Event{Type: EventModelStart, Step: r.result.Steps, Model: model.asked(), Attempt: attempt, Messages: r.agent.history.MessageCount()})
		}
		if ctx.Err() != nil { // a listener ended it
			return nil, safecall.ContextError(ctx)
		}
		resp, err := r.askOnce(ctx, model, req, delta)
		if err == nil {
			return resp, nil
		}
		if attempt > 1 && wire.MistakeOf(err) != nil || errors.Is(err, errBroke) { // the model has to be told, or nothing is left
			return nil, err
		}
		if r.budgetSpent() != "" {
			return nil, errBroke
		}
		failure := retryFailure(err)
		next, final := calls.Failed(ctx, failure)
		req.MustCall = req.MustCall && failure.Overload // else the server may fail at the demand, as behind thoughts
		if final != nil {
			return nil, final
		}
		r.agent.log.Warn("model call failed; retrying", "agent", r.agent.id, "step", r.result.Steps, "attempt", attempt, "wait", next.Wait, "error", err)
		r.emit(Event{Type: EventRetry, Step: r.result.Steps, Retry: &RetryInfo{Attempt: attempt, Wait: next.Wait, Left: next.Left, Tries: next.Tries, Error: err.Error()}})
		if err := retry.Sleep(ctx, next.Wait); err != nil {
			return nil, err
		}
	}
}

// asked is the name of the model that is asked for, empty if that is not known.
func (m agentModel) asked() string {
	if m.name != "" {
		return m.name
	}
	named, ok := m.given.(interface{ DefaultModel() string })
	if !ok {
		return ""
	}
	name, _ := safecall.Catch(func() (string, error) { return named.DefaultModel(), nil }) // who panics has no name
	return name
}

// baseURL is the address of the model's API, empty if that is not known.
func (m agentModel) baseURL() string {
	if o, ok := m.given.(*openai.Model); ok {
		return o.BaseURL()
	}
	return ""
}

// callModel makes one call of the model, for those who trace it, and logs it. A panic
// becomes an error. A model that ignores the end of its context is left behind, with the
// request: each call has one of its own.
func (r *run) callModel(ctx context.Context, model agentModel, req ChatRequest, delta func(Delta)) (*ChatResponse, error) {
	asked, began := model.asked(), time.Now()
	t := &ModelTrace{Model: model.given, Name: asked, BaseURL: model.baseURL(), Messages: req.Messages}
	traced, endTrace := trace(ctx, r.agent.extensions, func(l *Lifecycle) traceFunc[ModelTrace] { return l.TraceModel }, t)
	serving := r.withCall(traced, ToolCall{}, 0)
	if delta == nil {
		delta = func(Delta) {}
	}
	limited, delta, end := r.withinBudget(serving, asked, delta)
	deltas := safecall.NewGate(func(d Delta) { // a model that is left behind reaches neither
		if t.FirstDelta == 0 {
			t.FirstDelta = max(time.Since(began), 1)
		}
		delta(d)
	})
	resp, err := callForeign(serving, r, "the model", func() (*ChatResponse, error) {
		return Stream(limited, model.wrapped, &req, deltas.Pass)
	})
	deltas.Shut()
	switch err = end(err); {
	case err != nil:
		resp = nil
	case resp == nil:
		err = errors.New("the model returned neither a response nor an error")
	}
	t.Response, t.Err = resp, failed(err)
	endTrace()
	r.agent.logPanic("model", err)
	if log := r.agent.log; log.Enabled(ctx, slog.LevelDebug) {
		log.LogAttrs(ctx, slog.LevelDebug, "model called", slog.String("agent", r.agent.id), slog.Int("step", r.result.Steps),
			slog.String("model", asked), slog.Duration("took", time.Since(began)), slog.Any("error", err))
	}
	return resp, err
}

// askOnce makes one call of the model, and counts what it used.
func (r *run) askOnce(ctx context.Context, model agentModel, req ChatRequest, delta func(Delta)) (*ChatResponse, error) {
	asked := model.asked()
	resp, err := r.callModel(ctx, model, req, delta)
	if err != nil {
		if model, used := wire.UsageOf(err); used != (chatstream.Usage{}) { // as the server counts
			r.spend(&ChatResponse{Model: cmp.Or(model, asked), Cost: used.Cost, Usage: Usage{
				PromptTokens: used.Prompt, CompletionTokens: used.Completion, CachedTokens: used.Cached, CacheWriteTokens: used.CacheWrite, ReasoningTokens: used.Reasoning,
			}})
		}
		return nil, err
	}
	own := *resp // a model may return the same value each time
	own.Message.Role = chat.RoleAssistant
	own.Model = cmp.Or(own.Model, asked)
	ending, known := wire.EndingOf(string(own.FinishReason))
	if ending != wire.BrokenOff || own.Usage.Total() > 0 {
		r.spend(&own)
	}
	switch {
	case ending == wire.BrokenOff: // of a model of another package
		return nil, (*APIError)(wire.Broken(string(own.FinishReason)))
	case known:
		own.FinishReason = chat.FinishReason(ending)
	}
	place := r.agent.history.Len() // which no other message shares
	own.Message.ToolCalls = chatstream.UniqueIDs(own.Message.ToolCalls, func(c *ToolCall) *string { return &c.ID }, fmt.Sprintf("call_%d_", place))
	return &own, nil
}

// delta turns a piece of an answer into events. Nobody waits for those, because
// the message that follows contains the whole answer.
func (r *run) delta(d Delta) {
	if d.Withdrawn {
		why := cmp.Or(d.Notice, "the model restarted its answer")
		r.agent.emit(Event{Type: EventRetry, Step: r.result.Steps, Retry: &RetryInfo{Error: why}})
		d.Notice = ""
	}
	if d.Call != nil {
		r.prepareCommand(d.Call.Tool)
	}
	if d.Call != nil && r.pace.Passes(chatstream.CallDelta(*d.Call)) {
		call := *d.Call // the model may use its own again
		r.agent.emit(Event{Type: EventCallDelta, Step: r.result.Steps, CallDelta: &call})
	}
	r.emitText(EventReasoning, d.Reasoning)
	r.emitText(EventText, d.Text)
	r.emitText(EventNotice, d.Notice)
}

// emitText emits an event about a piece of text, unless it is empty.
func (r *run) emitText(about EventType, text string) {
	if text != "" {
		r.agent.emit(Event{Type: about, Step: r.result.Steps, Text: text})
	}
}

// prepareCommand starts what runs commands while the model still writes the arguments
// of one. An agent that runs no commands starts nothing.
func (r *run) prepareCommand(tool string) {
	if tool != "bash" || r.prepared == r.result.Steps || !r.offers(tool) {
		return
	}
	if rt, ours := RuntimeAs[*workspaceRuntime](r.agent.runtime); ours {
		r.prepared = r.result.Steps
		r.prepares.Start(r.ctx, time.Nanosecond, func(ctx context.Context) (again bool) {
			rt.Prepare(ctx)
			return false
		})
	}
}

// modelInLog names a model for the log. A model of another package is named by
// its type, since its fields may hold a key.
func modelInLog(m Model, name string) string {
	kind := fmt.Sprintf("%T", m)
	if known, ok := m.(*openai.Model); ok {
		kind = known.String()
	}
	if name == "" {
		return kind
	}
	return name + " of " + kind
}

// modelLister is a model whose server tells the names of its models.
type modelLister interface {
	ListModels(ctx context.Context) ([]string, error)
}

// listedModels is what the server of a model has listed.
type listedModels struct {
	of    Model // as it was given
	names []string
}

// ModelNames returns the names that [Agent.SetModel] may be given as far as they are
// known, sorted: the model's default, those that are set and were used, those with
// a price, and those that
// the model's server lists, if the model can tell: a method
// ListModels(context.Context) ([]string, error), as [openai.Model] has. The server is
// asked until it has answered once. Its list is left out, and listed is false, when
// it does not answer before ctx ends.
func (a *Agent) ModelNames(ctx context.Context) (names []string, listed bool) {
	model := a.model.current()
	theirs := a.model.list(ctx, &a.callbacks, a.isClosed())
	names = slices.Concat([]string{model.name, agentModel{given: model.given}.asked()}, theirs)
	names = slices.AppendSeq(names, maps.Keys(a.Usage().Models))
	names = slices.AppendSeq(names, maps.Keys(a.opts.prices))
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" }), len(theirs) > 0
}

// list returns what the server of the model lists; nothing if that is not known. A closed
// agent asks it nothing.
func (c *modelChoice) list(ctx context.Context, calls *callbacks, closed bool) []string {
	c.mu.Lock()
	given, known := c.chosen.given, c.listed
	c.mu.Unlock()
	lister, ok := given.(modelLister)
	if !ok || closed || ctx == nil {
		return nil
	}
	if known.of == given {
		return known.names
	}
	names, err := safecall.Outlive(ctx, func() ([]string, error) {
		defer calls.enter(&calls.calling, "the model's ListModels")()
		return lister.ListModels(ctx)
	})
	calls.logPanic("the model's ListModels", err)
	if err != nil || len(names) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed = listedModels{given, names}
	return names
}

// What a model, a tool or a program needs first of package chat, whose documentation has
// the fields, the methods and what goes with them.
type (
	// Message is one message of a conversation: see [chat.Message].
	Message = chat.Message
	// Part is a piece of a message's content: a text, an image, a file or a recording: see [chat.Part].
	Part = chat.Part
	// ToolCall is a model's request to run a tool: see [chat.ToolCall].
	ToolCall = chat.ToolCall
	// ChatRequest is what an agent asks of a [Model]: see [chat.Request].
	ChatRequest = chat.Request
	// ChatResponse is a model's answer: see [chat.Response].
	ChatResponse = chat.Response
	// Delta is a piece of an answer that is still being written: see [chat.Delta].
	Delta = chat.Delta
	// Usage counts tokens: see [chat.Usage].
	Usage = chat.Usage
	// History is the record of a conversation, as [chat.OpenHistory] makes one: see [chat.History].
	History = chat.History
)
