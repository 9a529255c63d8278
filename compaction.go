package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/compact"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/looptext"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/openai/window"
	"github.com/x/pygent/internal/pasted"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/openai"
)

// ErrNothingToCompact is returned by [Agent.Compact] for a conversation of which
// nothing can be left out.
var ErrNothingToCompact = errors.New("nothing in the conversation can be shortened")

// CompactionPolicy says when a conversation is compacted. The zero policy is the
// default.
type CompactionPolicy struct {
	// Disabled switches compaction off. A conversation that is too long then ends
	// the run with [StatusContextFull]. [Agent.Compact] works nevertheless.
	Disabled bool `json:"disabled,omitempty"`
	// At is how full the window is, in percent, when a compaction begins: 10 to 95,
	// default 80. Less of it is used if the answer needs more room.
	At int `json:"at,omitempty"`
	// To is how full it is afterwards, in percent, at most: 5 or more, and at
	// least 5 below At. Default 45, or half of At if that is less. A low value
	// makes compactions rare, and so saves the provider's cache.
	To int `json:"to,omitempty"`
}

// WithCompaction sets when a conversation that becomes too long for the model's
// window is compacted. By default this is done before a request that would fill
// more than 80 percent of the window, and once after the server has refused a
// request as too long.
//
// Old results of tools shrink first, to a line each. If that is not enough, the
// model is asked for a summary of all but the end of the conversation, in a call of
// its own that counts into the run's tokens, and may take half of [StepTimeout]. If it
// gives none, a list of its last calls takes its place. The system message, the last message
// of the user, and the last exchanges stay. The history keeps everything. See
// [chat.Compaction], [EventCompacted] and [Agent.Compact].
func WithCompaction(p CompactionPolicy) Option {
	return option(func(o *options) { o.compaction = p })
}

func (p CompactionPolicy) check() error {
	at, to := p.marks()
	if at < 10 || at > 95 || to < 5 || to > at-5 {
		return fmt.Errorf("option WithCompaction: At is %d and To %d: want At from 10 to 95, and To at least 5, and 5 or more below At", at, to)
	}
	return nil
}

func (p CompactionPolicy) marks() (at, to int) {
	at = cmp.Or(p.At, 80)
	return at, cmp.Or(p.To, min(45, at/2))
}

// The shares of the window, in percent.
const (
	shareOfTail    = 20 // the end of a conversation that stays
	shareOfSummary = 6
	worthwhile     = 10 // what a compaction frees at least
	fullest        = 90 // what a request fills at most, if anything can be left out: the answer needs room
)

// The bounds of a summary, in bytes.
const (
	leastSummary = 1 << 10
	mostSummary  = 16 << 10
	mostRecord   = 256 << 10 // that the model is shown for it
)

// usualWindow stands for a window that nobody tells when a compaction is asked for.
const usualWindow = 128_000

// errSummarySpent is why the model is not asked after a summary that took what the
// run had left to spend. The run has its status then.
var errSummarySpent = errors.New("summarising the conversation used up the rest of the budget")

// fit compacts the conversation if the next request would fill too much of the
// window. It ends the run if the request cannot fit at all.
func (r *run) fit(ctx context.Context, specs []chat.ToolSpec) error {
	a := r.agent
	gauge := a.window.gauge()
	tokens := gauge.Tokens(a.window.weight(specs))
	r.askWindow(tokens)
	if a.history.Bytes() > maxConversation && !a.opts.compaction.Disabled {
		if _, err := r.compact(ctx, specs, r.goal(specs, false).Harder(a.history.Weight())); err != nil {
			return err
		}
	}
	if a.history.Bytes() > maxConversation {
		r.end(StatusContextFull, errConversation.Error())
		return errConversation
	}
	room := a.window.room("")
	if room == 0 {
		return nil
	}
	r.warnOfSmallWindow(specs, room)
	at, _ := a.opts.compaction.marks()
	if tokens > room*int64(at)/100 && !a.opts.compaction.Disabled {
		if _, err := r.compact(ctx, specs, r.goal(specs, false)); err != nil {
			return err
		}
		tokens = gauge.Tokens(a.window.weight(specs))
	}
	most := a.window.size("")
	if !gauge.Calibrated() {
		most += most / 4 // an estimate alone must not end a run that may fit
	}
	if tokens > most {
		err := fmt.Errorf("the conversation needs about %d tokens, %d of them for the system message and the tools, and %s: %s",
			tokens, gauge.Tokens(a.history.SystemWeight()+toolsWeight(specs)), window.Holds(a.window.memory.given(a.window.size(""))), r.insteadOfFull(specs))
		r.end(StatusContextFull, err.Error())
		return err
	}
	return nil
}

// warnOfSmallWindow warns once of a window that is half full before anything is said.
func (r *run) warnOfSmallWindow(specs []chat.ToolSpec, room int64) {
	a := r.agent
	m := a.window.current()
	prefix := m.gauge.Tokens(a.history.SystemWeight() + toolsWeight(specs))
	if m.small || room >= 2*prefix || m.given(a.window.size("")) == 0 {
		return
	}
	m.small = true
	r.emit(Event{Type: EventWarning, Step: r.result.Steps, Text: fmt.Sprintf(
		"the model's context window has %d tokens, and the system message and tools take %d of them: little room remains (%s)", room, prefix, looptext.WidenedBy)})
}

// insteadOfFull says what can be done about a conversation that is too long.
func (r *run) insteadOfFull(specs []chat.ToolSpec) string {
	const larger = "a model with a larger window, or give this one a larger one (" + looptext.WidenedBy + "; if it has one, set WithContextWindow or context_window)"
	a := r.agent
	all, gauge := a.window.size(""), a.window.gauge()
	most, of := all/5*4, window.Share(a.window.memory.given(all)) // else hardly anything can be said
	prefix := gauge.Tokens(a.history.SystemWeight() + toolsWeight(specs))
	said := gauge.Tokens(a.history.LastOfUserWeight())
	switch {
	case prefix > most:
		return fmt.Sprintf("the system message and tools alone need about %d tokens %s, so a new conversation does not help: use fewer tools or skills, shorter instructions, or %s", prefix, of, larger)
	case prefix+said > most && a.opts.task != "":
		return fmt.Sprintf("the last message to the task alone needs about %d tokens %s: start another task with a shorter prompt that names files instead of quoting them, or use %s", said, of, larger)
	case prefix+said > most:
		return fmt.Sprintf("the last message alone needs about %d tokens %s: start a new conversation with a shorter message that names files instead of quoting them, or use %s", said, of, larger)
	case a.opts.compaction.Disabled:
		return "turn compaction on, start a new conversation, or use " + larger
	}
	return "start a new conversation, or use " + larger
}

// askInWindow asks the model. If the server refuses the request as too long, the
// conversation is compacted harder, and the model is asked once more.
func (r *run) askInWindow(ctx context.Context, specs []chat.ToolSpec) (*ChatResponse, error) {
	a := r.agent
	ask := func() (*ChatResponse, error) {
		weight := a.window.weight(specs)
		resp, err := r.askOften(ctx, ChatRequest{Messages: a.history.ToSend(), Tools: specs, MustCall: r.judge.Demanded && len(specs) > 0}, r.delta)
		if err == nil {
			r.counted(weight, resp.Usage)
		}
		return resp, err
	}
	resp, err := ask()
	var api *APIError
	if !errors.As(err, &api) || !api.ContextTooLarge || ctx.Err() != nil {
		return resp, err
	}
	a.window.current().learn(api.Message, a.window.weight(specs))
	if a.opts.compaction.Disabled {
		return nil, err
	}
	done, failed := r.compact(ctx, specs, r.goal(specs, false).Harder(a.history.Weight()))
	if failed == errSummarySpent {
		return nil, failed
	}
	if failed != nil || done == nil {
		if failed != nil {
			err = fmt.Errorf("%w; and the conversation could not be compacted: %w", err, failed)
		}
		return nil, err
	}
	return ask()
}

// goal is how short the conversation is to become.
func (r *run) goal(specs []chat.ToolSpec, always bool) compact.Goal {
	a := r.agent
	gauge := a.window.gauge()
	room := cmp.Or(a.window.room(""), usualWindow)
	_, to := a.opts.compaction.marks()
	share := func(percent int64) int { return gauge.Weight(room * percent / 100) }
	goal := compact.Goal{
		Size:    max(share(int64(to))-toolsWeight(specs), 0),
		Tail:    min(share(shareOfTail), share(int64(to))/2),
		Summary: min(max(share(shareOfSummary), leastSummary), mostSummary) * 2, // and what the user said
		Always:  always,
		Most:    max(share(fullest)-toolsWeight(specs), 1),
	}
	if always { // on request of a conversation that may be short
		goal.Tail, goal.Summary = min(goal.Tail, a.history.Weight()/4), min(goal.Summary, a.history.Weight()/4)
	}
	return goal
}

// compact makes the conversation shorter. It returns nil if that would free too
// little to be worth it.
func (r *run) compact(ctx context.Context, specs []chat.ToolSpec, goal compact.Goal) (*chat.Compaction, error) {
	a := r.agent
	gauge := a.window.gauge()
	messages, items := a.history.ForPlan()
	plan := compact.Make(items, goal)
	sendable := plan.Before <= goal.Most // else each byte counts
	if plan.Frees() <= 0 || !goal.Always && sendable && plan.Frees() < plan.Before*worthwhile/100 {
		return nil, nil
	}
	done := chat.Compaction{Keep: plan.Keep, Pinned: plan.Pinned, Cut: plan.Cut, Unshown: plan.Unshown, Gone: plan.Less}
	done.Before = gauge.Tokens(plan.Before + toolsWeight(specs))
	if plan.Summarize {
		if err := r.summarize(ctx, messages, items, plan, goal.Summary/2, &done); err != nil {
			return nil, err
		}
	}
	done.After = gauge.Tokens(a.history.WeightAfter(&done) + toolsWeight(specs))
	if goal.Always {
		done.Usage = r.result.Usage
	}
	err := r.mark(done)
	if err == nil && !goal.Always && plan.Summarize && r.endIfSpent() {
		err = errSummarySpent
	}
	return &done, err
}

// mark records a compaction, and tells of it.
func (r *run) mark(done chat.Compaction) error {
	r.agent.era.Add(1)
	kept := done // the history has its own
	return r.appendEntry(chat.HistoryEntry{Compaction: &kept}, func() Event {
		return Event{Type: EventCompacted, Compaction: &done, Context: ContextUse{Used: done.After, Estimated: true, Window: r.agent.window.size("")}}
	})
}

// summarize writes the summary of a compaction.
func (r *run) summarize(ctx context.Context, messages []Message, items []compact.Item, plan compact.Plan, most int, done *chat.Compaction) error {
	end := len(items) - plan.Keep
	said := transcript(messages[:end], items)
	first := 0
	for first < end && items[first].Kind == compact.System {
		first++
	}
	said = said[first:]
	done.Gone = len(said)
	if plan.Pinned > 0 {
		done.Gone--
	}
	r.emit(Event{Type: EventCompacting, Step: r.result.Steps})
	summary, err := r.askSummary(ctx, said, most)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	done.ByModel = err == nil
	if err != nil {
		r.emit(Event{Type: EventWarning, Step: r.result.Steps, Text: "the model did not summarise the conversation, so a list of its last calls is used instead: " + err.Error()})
		summary = compact.Digest(said, most)
	}
	record := r.recorded(ctx, most/2)
	room := max(most-len(record)/2, 0)
	done.Summary = compact.Message(compact.Instead{
		Messages: done.Gone, Words: compact.Words(r.agent.history.WordsBefore(items, plan), room),
		Record: record, Summary: cut.Middle(summary, room), ByModel: done.ByModel,
		Goes: plan.Pinned > 0 || slices.ContainsFunc(items[end:], func(i compact.Item) bool { return i.Kind == compact.User }),
	})
	return nil
}

// askSummary asks the model for a summary, in a conversation of its own.
func (r *run) askSummary(ctx context.Context, said []compact.Said, most int) (string, error) {
	if spent := r.budgetSpent(); spent != "" {
		return "", errors.New(spent)
	}
	if limit := r.opts.StepTimeout / 2; limit > 0 { // else a slow summary would end each run that needs one
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than %s, half the time of a step", limit))
		defer cancel()
	}
	const bytesOfWord = 8
	a := r.agent
	room := cmp.Or(a.window.room(""), usualWindow)
	record := compact.Transcript(said, min(a.window.gauge().Weight(room)/2, mostRecord))
	resp, err := r.askOften(ctx, ChatRequest{Messages: []Message{
		chat.SystemMessage(compact.Instructions),
		chat.UserMessage(compact.Question(record, max(most/bytesOfWord, 100))),
	}}, nil)
	if err == nil {
		err = incomplete(resp)
	}
	if err != nil {
		return "", err
	}
	text := resp.Message.Text()
	sign := r.writtenIn(text)
	return compact.Accept(text, len(resp.Message.ToolCalls) > 0 || sign.Alone && sign.At < bytesOfWord*100)
}

// Compact makes the conversation shorter now, by a summary of the model of all but
// its end; the policy's Disabled does not matter. It returns what was done.
//
// It is a run of its own: while another goes on, the error is [ErrAgentBusy]. It
// matches [ErrNothingToCompact] for a short conversation, and says why. If the model
// gives no summary, a list of its last calls takes its place.
func (a *Agent) Compact(ctx context.Context) (done chat.Compaction, err error) {
	err = a.exclusive(ctx, func(r *run) error {
		done, err = r.compactNow(r.ctx)
		return err
	})
	return done, err
}

// exclusive calls f with a run that has no steps.
func (a *Agent) exclusive(ctx context.Context, f func(*run) error) error {
	o, err := newRunOptions(a.opts.run, nil)
	if err != nil {
		return err
	}
	ctx, end, err := a.slot.Begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	release, err := a.history.Reserve()
	if err != nil {
		return err
	}
	defer release()
	a.events.listen(ctx, a.events.handlerFeed(o.onEvent))
	defer a.events.endListening()
	defer a.events.setIdle()
	r := newRun(a, o)
	r.ctx, r.release, r.patience = ctx, release, ctx.Done()
	defer r.endBeside()
	defer r.budget.End()
	return f(r)
}

// compactNow compacts on request.
func (r *run) compactNow(ctx context.Context) (chat.Compaction, error) {
	a := r.agent
	if err := a.history.CatchUp(ctx); err != nil {
		return chat.Compaction{}, err
	}
	if at, given, ok := exchangeAtEnd(a.history.ActiveMessages()); ok && slices.Contains(given, noResult) {
		return chat.Compaction{}, fmt.Errorf("message %d has unanswered tool calls: resume the run first", at+1)
	}
	specs, err := a.refreshSystem(ctx)
	if err != nil {
		return chat.Compaction{}, err
	}
	done, err := r.compact(ctx, specs, r.goal(specs, true))
	if err == nil && done == nil {
		err = r.nothingToCompact(specs)
	}
	if err != nil {
		return chat.Compaction{}, err
	}
	return *done, nil
}

// NewConversation begins a new conversation: of what was said so far, the model is
// sent nothing more. The history keeps it, with a [chat.Compaction] as mark, and an
// [EventCompacted] tells. Files, jobs and tasks stay, and so does what was said with
// Say and is not heard yet. Calls that an interrupted run left open are answered
// first.
//
// It is a run of its own: while another goes on, the error is [ErrAgentBusy]. If
// nothing was said, it does nothing.
func (a *Agent) NewConversation(ctx context.Context) error {
	return a.exclusive(ctx, func(r *run) error { return r.beginAnew(r.ctx) })
}

func (r *run) beginAnew(ctx context.Context) error {
	a := r.agent
	if err := a.history.CatchUp(ctx); err != nil {
		return err
	}
	said := a.history.CountSinceNew()
	if said == 0 {
		return nil
	}
	if err := a.history.AnswerOpenCalls(ctx); err != nil {
		return err
	}
	specs, err := a.refreshSystem(ctx)
	if err != nil {
		return err
	}
	gauge := a.window.gauge()
	done := chat.Compaction{Anew: true, Gone: said, Before: gauge.Tokens(a.window.weight(specs))}
	done.After = gauge.Tokens(a.history.WeightAfter(&done) + toolsWeight(specs))
	return r.mark(done)
}

// nothingToCompact says why nothing was done on request.
func (r *run) nothingToCompact(specs []chat.ToolSpec) error {
	a := r.agent
	if a.history.MessageCount() == 0 {
		return fmt.Errorf("%w: the conversation is empty", ErrNothingToCompact)
	}
	weight, prefix := a.window.weight(specs), a.history.SystemWeight()+toolsWeight(specs)
	gauge := a.window.gauge()
	return fmt.Errorf("%w: about %d of its %d tokens are the system message and the tools; the last message of the user and the last exchange stay too, and a summary of the rest would not be shorter",
		ErrNothingToCompact, gauge.Tokens(prefix), gauge.Tokens(weight))
}

// ContextUse says how full the model's context window is.
type ContextUse struct {
	// Used is how many tokens the conversation has, with the last answer: as the
	// provider reported, without the model's reasoning.
	Used      int64 `json:"used"`
	Estimated bool  `json:"estimated,omitempty"` // the provider reported nothing of this, so Used comes from the size of the conversation
	Window    int64 `json:"window,omitempty"`    // see [WithContextWindow]; 0 if it is not known
}

// WithContextWindow says how many tokens the model's context window holds, answer
// included. Default: what the server tells where it does, as vLLM, llama.cpp, LM
// Studio, Ollama and OpenRouter do; what is known of the model by its name; what
// the error of a request says that was too long. If nothing tells it, it is 0: the
// conversation is compacted only after such an error.
//
// Besides [openai.Model], any model can tell by a method
// ContextWindow(ctx context.Context, name string) int64. It is called beside the
// run, at most once for a name, and has five seconds.
func WithContextWindow(tokens int64) Option {
	return option(func(o *options) { o.window, o.parentsWindow = tokens, false })
}

// nameModel says what the model is called.
func (o *options) nameModel(name string) {
	if name = pasted.Trim(name); name != o.modelName {
		o.dropParentsWindow()
	}
	o.modelName = name
}

// dropParentsWindow forgets the window that was given for the parent's model, since
// the task has another.
func (o *options) dropParentsWindow() {
	if o.parentsWindow {
		o.window, o.parentsWindow = 0, false
	}
}

func checkWindow(tokens int64) error {
	if tokens < 0 {
		return fmt.Errorf("option WithContextWindow: want a number of tokens, or 0 for the default, and not %d", tokens)
	}
	return nil
}

// windowTeller is a model that may know its window. 0 means that it does not.
type windowTeller interface {
	ContextWindow(ctx context.Context, name string) int64
}

// contextWindow is the window of an agent's model, and how much of it the conversation
// fills. The run that goes on is the only one to use it.
type contextWindow struct {
	history conversation
	model   *modelChoice
	set     int64 // by [WithContextWindow]; 0 for the default
	memory  memory
}

// memory is what an agent knows about the window of its model, and about the
// tokens of its conversation.
type memory struct {
	model   string // that the rest is about, as it is asked for
	gauge   compact.Gauge
	named   int64 // the window that an error named; 0 for none
	tooLong int   // the weight of the lightest request that was refused as too long, if its error named no window; 0 for none
	asked   bool  // the model was asked for its window
	told    *atomic.Int64
	warned  bool // that the server may cut off the beginning
	small   bool // it was warned that the window is small
}

// current returns what is known about the model that is asked now. It begins with what the
// provider counted last for that model in the conversation.
func (w *contextWindow) current() *memory {
	m := &w.memory
	if name := w.model.current().asked(); m.told == nil || m.model != name {
		*m = memory{model: name, told: new(atomic.Int64), warned: m.warned}
		for _, e := range slices.Backward(w.history.AllEntries()) {
			if e.Model != name {
				continue
			}
			if m.gauge.Report(e.Weight, e.Usage.PromptTokens); m.gauge.Calibrated() {
				break
			}
		}
	}
	return m
}

// mostWindow is the largest window that is believed, so that no sum overflows.
const mostWindow = 1e12

// gauge returns what counts the tokens of requests to the model that is asked now.
func (w *contextWindow) gauge() *compact.Gauge { return &w.current().gauge }

// size returns how many tokens the model's window holds; 0 if it is not known.
func (w *contextWindow) size(answered string) int64 {
	m := w.current()
	known := min(cmp.Or(w.set, m.told.Load(), window.Of(m.model), window.Of(answered)), mostWindow)
	if learned := m.learned(); learned > 0 && (known == 0 || learned < known) {
		return learned
	}
	return known
}

// given is a window if somebody told it, and 0 if it only comes from the size of a request
// that was refused.
func (m *memory) given(window int64) int64 {
	if window == m.learned() && window != m.named {
		return 0
	}
	return window
}

// learned is the window by what was refused as too long; 0 if nothing was. A
// request that was refused counts by its weight, since its tokens are another
// number as soon as the server reports some.
func (m *memory) learned() int64 {
	tokens := m.gauge.Tokens(m.tooLong) / 20 * 19
	if m.named > 0 && (tokens == 0 || m.named < tokens) {
		return m.named
	}
	return tokens
}

// learn takes what the error of a request of a weight says that was too long.
func (m *memory) learn(message string, weight int) {
	named := window.InError(message)
	if named == 0 {
		m.tooLong = min(cmp.Or(m.tooLong, weight), weight)
		return
	}
	m.named, m.tooLong = named, 0
	if m.gauge.Tokens(weight) < named { // so many there were at least
		m.gauge.Report(weight, named)
	}
}

// unlearn forgets what an answer to a request of a weight disproves.
func (m *memory) unlearn(weight int, tokens int64) {
	if weight >= m.tooLong {
		m.tooLong = 0
	}
	if tokens > m.named {
		m.named = 0
	}
}

// room returns how many tokens a request may have, so that there is room for the
// answer; 0 if that is not known.
func (w *contextWindow) room(answered string) int64 {
	all := w.size(answered)
	if all == 0 {
		return 0
	}
	model := w.model.current()
	most := all
	if w.set == 0 && w.memory.learned() == 0 && w.memory.told.Load() == 0 {
		most = cmp.Or(min(all, window.Input(model.asked())), all)
	}
	if limited, ok := model.given.(*openai.Model); ok {
		// Servers refuse a request whose answer could be longer than the rest.
		return max(min(most, all-int64(limited.MaxTokens())), all/4)
	}
	return most
}

// Bounds of asking a model for its window.
const (
	windowWorthAsking = 4_000 // tokens of a conversation from which on the window matters
	windowWithin      = 5 * time.Second
)

// askWindow asks the model for its window, beside the run: nobody waits for the
// answer.
func (r *run) askWindow(tokens int64) {
	a := r.agent
	model := a.model.current()
	m := a.window.current()
	teller, ok := model.given.(windowTeller)
	if !ok || m.asked || a.window.set > 0 || tokens < windowWorthAsking {
		return
	}
	m.asked = true
	told := m.told
	r.asksWindow.Start(r.ctx, time.Millisecond, func(ctx context.Context) (again bool) {
		ctx, cancel := context.WithTimeout(ctx, windowWithin)
		defer cancel()
		tokens, err := safecall.Outlive(ctx, func() (int64, error) {
			defer a.enter(&a.calling, "the model's ContextWindow")()
			return teller.ContextWindow(ctx, model.name), nil
		})
		a.logPanic("the model's ContextWindow", err)
		if err == nil && tokens > 0 {
			told.Store(tokens)
			a.log.Debug("context window", "agent", a.id, "model", model.asked(), "tokens", tokens)
		}
		return false
	})
}

// contextUse returns how full the window is after an answer.
func (r *run) contextUse(resp *ChatResponse) ContextUse {
	a := r.agent
	use := ContextUse{Used: resp.Usage.Total() - resp.Usage.ReasoningTokens, Window: a.window.size(resp.Model)}
	if resp.Usage.PromptTokens == 0 {
		use.Used, use.Estimated = a.window.gauge().Tokens(a.window.weight(r.specs)), true
	}
	return use
}

// counted takes what the server says about the tokens of a request of a weight.
func (r *run) counted(weight int, u Usage) {
	m := r.agent.window.current()
	m.unlearn(weight, u.PromptTokens)
	expected := m.gauge.Tokens(weight)
	if m.gauge.Report(weight, u.PromptTokens) && !m.warned {
		m.warned = true
		r.emit(Event{Type: EventWarning, Step: r.result.Steps, Text: fmt.Sprintf(
			"the server counted %d tokens in a request of about %d: it may be silently cutting off the beginning of the conversation (Ollama does: raise OLLAMA_CONTEXT_LENGTH or the model's num_ctx, and set context_window or WithContextWindow)",
			u.PromptTokens, expected)})
	}
}

// weight is what a request weighs, for counting tokens.
func (w *contextWindow) weight(specs []chat.ToolSpec) int {
	return w.history.Weight() + toolsWeight(specs)
}

func toolsWeight(specs []chat.ToolSpec) int {
	weight := 0
	for i := range specs {
		weight += len(specs[i].Name) + len(specs[i].Description) + len(specs[i].Parameters)
	}
	return weight
}

// transcript returns messages as they are told to whoever sums them up.
func transcript(messages []Message, items []compact.Item) []compact.Said {
	var said []compact.Said
	for i, m := range messages {
		s := compact.Said{Role: string(m.Role), Text: m.Text()}
		if items[i].Kind == compact.Summary {
			s.Role = "summary"
		}
		if media := len(m.Media()); media > 0 {
			s.Text += " [and " + numeral.Count(media, "attachment") + "]"
		}
		for _, call := range m.ToolCalls {
			s.Calls = append(s.Calls, compact.Called{Tool: call.Name, Arguments: call.Arguments})
		}
		said = append(said, s)
	}
	return said
}
