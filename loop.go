package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/boundset"
	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/eventqueue"
	"github.com/x/pygent/internal/loopdetect"
	"github.com/x/pygent/internal/looptext"
	"github.com/x/pygent/internal/numeral"
	wire "github.com/x/pygent/internal/openai"
	"github.com/x/pygent/internal/openai/chatstream"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/toolcall"
	"github.com/x/pygent/internal/toolcall/callset"
	"github.com/x/pygent/internal/verdict"
)

// run is one run of an agent's loop. Only one goroutine uses it.
type run struct {
	agent    *Agent
	ctx      context.Context // as the caller gave it; the history's store gets its values
	opts     runOptions
	specs    []chat.ToolSpec // the tools as the model was last given them
	result   *Result
	started  time.Time
	cycles   loopdetect.Finder
	joint    callset.Joint  // of the results of a call that stands for several
	budget   *taskBudget    // shared with the tasks that the run delegates
	used     *meter         // of the run itself
	unpriced map[string]int // answers before the run whose cost is not known
	unknown  string         // why the cost is not known, in words, if it is limited
	message  int            // the index in the history of the message whose calls run
	release  func()         // ends the exclusive right to append to the history
	worker   safecall.Worker
	jobs     safecall.Poller // asks the runtime about background jobs

	asksWindow safecall.Poller // asks the model for its window, once
	prepares   safecall.Poller // starts what runs commands, once for each answer
	prepared   int             // the last step in which it began

	// The causes with which the contexts of the run end at its time limits. Each
	// run has its own, so that a run inside a tool of another run cannot mistake
	// the other's limits for its own.
	stepOver, timeOver error

	// patience ends the wait for listeners to the events: it is closed when the
	// time of the step, or of the run, is over.
	patience <-chan struct{}

	judge       verdict.Judge    // decides about replies if answers end the run
	replies     int              // replies in a row without a tool call
	written     toolcall.Sign    // of a call that the last answer has as text
	withheld    boundset.Key     // the call in its text that runs if the model writes it again; zero for none
	toldWritten bool             // an event has told that calls are written as text
	trouble     looptext.Trouble // with the last answer
	empty       bool             // the last answer was empty
	toldLast    bool             // the model knows that it was asked to sum up
	pace        chatstream.Pace
	turn        bridge.Turn    // for checkpoints; nil for none
	asked       bool           // the model was asked, or is about to be
	startNote   string         // of hooks, for the model; told when it is first asked
	starts      sandbox.Starts // of commands
	broken      error          // why nothing can run in the runtime any more
}

// run is the one loop behind every way to use an agent. Both the follower,
// which may be nil, and the run's own handler get the events of the run.
func (a *Agent) run(ctx context.Context, msg string, follower *eventqueue.Feed[Event], opts []RunOption) (*Result, error) {
	refused := func(err error) (*Result, error) {
		return &Result{Status: StatusFailed, Reason: err.Error()}, err
	}
	o, err := newRunOptions(a.opts.run, opts)
	if err != nil {
		return refused(err)
	}
	ctx, end, err := a.slot.Begin(ctx)
	if err != nil {
		return refused(err)
	}
	defer end()
	release, err := a.history.Reserve()
	if err != nil {
		return refused(err)
	}
	defer release()
	a.events.listen(ctx, a.events.handlerFeed(o.onEvent), follower)
	defer a.events.endListening()
	r := newRun(a, o)
	r.ctx, r.release = ctx, release
	a.notices.present.Come()
	defer r.leave()
	a.session.Begin(msg)
	return r.traced(ctx, msg)
}

// betweenSteps is how long the questions of tasks wait after a single step, whose
// caller is likely to make the next one.
const betweenSteps = time.Minute

// leave notes that the model answers no questions of tasks any more.
func (r *run) leave() {
	if r.result.Status == StatusMaxSteps && !r.sumsUp() && !r.agent.isClosed() {
		r.agent.notices.present.LeaveAfter(betweenSteps)
		return
	}
	r.agent.notices.present.Leave()
}

func newRun(a *Agent, o runOptions) *run {
	a.era.Add(1)
	spends := newTaskBudget(o)
	before := cmp.Or(o.before, &Result{})
	spends.Spend(spending(before.Usage))
	if before.TaskUsage != (Usage{}) {
		spends.SpendBelow(spending(before.TaskUsage))
	}
	return &run{
		agent:    a,
		opts:     o,
		result:   &Result{Steps: before.Steps, ToolCalls: before.ToolCalls, Usage: before.Usage},
		used:     newMeter(before),
		unpriced: a.meter.unknown(),
		started:  time.Now().Add(-before.Elapsed),
		budget:   spends,
		stepOver: errors.New("the step took too long"),
		timeOver: errors.New("the run took too long"),
	}
}

// do makes steps until one of them ends the run.
func (r *run) do(ctx context.Context, msg string) (*Result, error) {
	if r.opts.MaxTime > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, r.started.Add(r.opts.MaxTime), r.timeOver)
		defer cancel()
	}
	r.budget.Deadline, _ = ctx.Deadline()
	r.patience = ctx.Done()
	r.agent.git.Begin()
	err := r.steps(ctx, msg)
	if err != errYielded { // else the run is not over
		r.endHooks(ctx)
	}
	r.endBeside()
	emitRepairs(r.agent.history, r.agent.emit)
	if r.agent.git.Acted() {
		emitGitChanges(r.agent.git, r.agent.emit)
	}
	r.addUp()
	r.budget.End()
	r.result.Elapsed = time.Since(r.started)
	if err == errYielded {
		return r.result, err // the run is not over
	}
	if r.result.NoCommand = r.starts.Why(err); r.result.NoCommand != "" && err == nil {
		r.emit(Event{Type: EventWarning, Step: r.result.Steps, Text: "no command could run: " + r.result.NoCommand})
	}
	r.appendEnd()
	waits := r.turn != nil && r.turn.End(ctx)
	r.agent.session.Update()
	r.release() // listeners to the last event may append again
	r.emitLast(Event{Type: EventRunEnd, Step: r.result.Steps, Usage: &r.result.Usage, Result: r.result})
	if waits {
		_ = r.agent.keeper.Await(context.Background())
	}
	return r.result, err
}

// steps makes steps until the run has a status, or an error ends it.
func (r *run) steps(ctx context.Context, msg string) error {
	if err := r.checkCost(); err != nil {
		return r.fail(err)
	}
	if err := r.agent.sources.openAll(ctx); err != nil {
		if ctx.Err() != nil {
			return r.interrupted(ctx)
		}
		return r.fail(err)
	}
	if err := r.prepareHistory(ctx, msg); err != nil {
		return err
	}
	if err := r.beginHooks(ctx, msg); err != nil {
		return err
	}
	for r.result.Status == "" || r.goesOn(ctx.Err() != nil) {
		switch {
		case ctx.Err() != nil:
			return r.interrupted(ctx)
		case hasEnded(r.opts.yield): // another executor goes on
			return errYielded
		case r.result.Steps >= r.opts.MaxSteps:
			r.end(StatusMaxSteps, reached(r.opts.MaxSteps, "step")+" (MaxSteps)")
		case r.endIfSpent():
		default:
			if err := r.step(ctx); err != nil {
				return err
			}
		}
	}
	r.sumUp(ctx)
	return nil
}

// prepareHistory brings the conversation to where the model can be asked: it answers
// calls that were interrupted, for a resumed run by the rules of Resume.
func (r *run) prepareHistory(ctx context.Context, msg string) error {
	emitRepairs(r.agent.history, r.agent.emit)
	if r.agent.keeper.Await(ctx) != nil {
		return r.interrupted(ctx)
	}
	if err := r.agent.history.CatchUp(ctx); err != nil {
		return r.fail(err)
	}
	r.recallJobs()
	if r.opts.resume {
		r.startTurn("")
		if r.agent.keeper.Await(ctx) != nil { // calls may run again at once
			return r.interrupted(ctx)
		}
		return r.resume(ctx)
	}
	if err := r.agent.history.AnswerOpenCalls(ctx); err != nil {
		return r.fail(err)
	}
	r.startTurn(msg)
	// What was sent to a task since is newer than the message, and is heard after it.
	if _, err := r.listenToSaid(); err != nil || msg == "" && len(r.opts.parts) == 0 {
		return err
	}
	return r.hear(chat.UserMessage(msg, r.opts.parts...), chat.SourceUser)
}

// step asks the model once, takes its answer, and runs the tools that it calls.
func (r *run) step(ctx context.Context) error {
	ctx, done := r.beginStep(ctx)
	defer done()
	r.agent.session.GoOn()
	r.emitOldJobs(ctx)
	if err := r.nudge(); err != nil {
		return err
	}
	r.result.Steps++
	r.emit(Event{Type: EventStep, Step: r.result.Steps})
	emitRepairs(r.agent.history, r.agent.emit)
	resp, err := r.ask(ctx)
	if mistake := wire.MistakeOf(err); mistake != nil && ctx.Err() == nil && r.trouble.Mistakes < looptext.MostMistakes {
		resp, err = r.acceptMistake(ctx, mistake)
	} else if err == nil {
		err = r.accept(ctx, resp)
	} else {
		return r.askFailed(ctx, err)
	}
	if err != nil {
		return err
	}
	if calls := resp.Message.ToolCalls; len(calls) > 0 {
		_ = r.agent.keeper.Await(ctx) // calls don't run if it has ended
		return r.runCalls(ctx, calls)
	}
	return nil
}

// beginStep starts the clock of a step, which pauses while somebody is asked
// about a call.
func (r *run) beginStep(ctx context.Context) (_ context.Context, done func()) {
	if r.opts.StepTimeout <= 0 {
		return ctx, func() {}
	}
	step, cancel := r.agent.deciders.approvalGate.WithTimeout(ctx, r.opts.StepTimeout, r.stepOver)
	r.patience = step.Done()
	return step, func() {
		if step.Err() == nil { // else the step ended with the run
			r.patience = ctx.Done()
		}
		cancel()
	}
}

// interrupted ends the run because ctx, or the context of its step, ended. A
// time limit of the run itself is only a status; any other cause is an error as
// well. A run that had already ended keeps its outcome.
func (r *run) interrupted(ctx context.Context) error {
	if r.result.Status != "" {
		return nil
	}
	err := safecall.ContextError(ctx)
	switch {
	case errors.Is(err, errHandler):
		return r.fail(err)
	case errors.Is(err, r.stepOver):
		r.end(StatusTimeout, fmt.Sprintf("the step took longer than %s (StepTimeout)", r.opts.StepTimeout))
		return nil
	case errors.Is(err, r.timeOver):
		r.end(StatusTimeout, fmt.Sprintf("the run took longer than %s (MaxTime)", r.opts.MaxTime))
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		r.end(StatusTimeout, "the caller's deadline passed")
	default:
		r.end(StatusCancelled, err.Error())
	}
	return err
}

// askFailed ends the run because the model could not be asked.
func (r *run) askFailed(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return r.interrupted(ctx)
	case errors.Is(err, errSummarySpent):
		return nil
	case errors.Is(err, errBroke) && r.endIfSpent():
		return nil
	}
	if errors.As(err, &r.result.APIError) && r.result.APIError.ContextTooLarge {
		err = fmt.Errorf("%w (%s)", err, r.insteadOfFull(r.specs))
		r.end(StatusContextFull, err.Error())
	}
	return r.fail(err)
}

// judgeHears takes in what the user says, without attached files.
func (r *run) judgeHears(msg Message) {
	msg.Parts = msg.Parts[:min(1, len(msg.Parts))]
	r.judge.Hear(msg.Text())
	r.result.Summary = "" // what was said before answers something else
}

// judged ends the run as a reply deserves, or has the model told what to do instead. A
// reply is no end, the first time, while tasks or jobs still work, as a stop is not.
func (r *run) judged(ctx context.Context, text string) {
	switch r.judge.Judge(verdict.Text{Text: text, HasCall: r.written.Alone || r.withheld != boundset.Key{}, Quotes: r.written.Quotes(), CanStop: r.specs == nil || r.offers("stop")}) {
	case verdict.Asks:
		r.result.Question = &Question{Prompt: strings.TrimSpace(text)}
		r.end(StatusAwaitingUser, "")
	case verdict.Done:
		if !r.judge.Refused && ctx.Err() == nil {
			r.judge.Open = append(r.openTasks(ctx), r.openJobs(ctx)...)
		}
		if r.judge.Refused = r.judge.Refused || len(r.judge.Open) > 0; len(r.judge.Open) == 0 {
			r.end(StatusReplied, "")
			return
		}
		r.judge.Waits()
	case verdict.Stuck:
		r.end(StatusStuck, fmt.Sprintf("%d answers in a row made no progress; the last was: %s", r.replies, cut.Head(strings.TrimSpace(text), shownReply)))
	}
}

// shownReply is how much of a reply a reason repeats, in bytes.
const shownReply = 200

// limitNote is what the model has to be told about the limit of steps: how many
// are left, or that it is asked to sum up. It is empty while many are left.
//
// After calls the note is a line of the last result, since some providers
// refuse a message of the user right after results.
func (r *run) limitNote() string {
	left := r.opts.MaxSteps - r.result.Steps
	switch {
	case !r.sumsUp():
		return ""
	case r.result.Status == StatusMaxToolCalls:
		return r.sayLast(reached(r.opts.MaxToolCalls, "tool call"))
	case r.result.Status != "":
		return ""
	case left == 0:
		return r.sayLast(reached(r.opts.MaxSteps, "step"))
	}
	return r.stepsLeft(left)
}

// stepsLeft says how many steps are left. After the first one it says how many
// there are, unless that is what the system message says.
func (r *run) stepsLeft(left int) string {
	limit := finiteSteps(r.opts.MaxSteps)
	if r.result.Steps != 1 || limit == r.agent.usualSteps() {
		return looptext.StepsLeft(left)
	}
	return looptext.Steps(limit, r.result.Steps)
}

func (r *run) sayLast(limit string) string {
	r.toldLast = true
	return looptext.SumUp(limit, r.opts.final.name())
}

func reached(limit int, of string) string {
	return "the limit of " + numeral.Count(limit, of) + " is reached"
}

// sumsUp reports whether the model may sum up when this run reaches a limit. A
// run of a single step is a pass of the caller's own loop, and gets no summary.
func (r *run) sumsUp() bool { return r.opts.MaxSteps > 1 }

// appendEntry appends an entry to the history, and emits the event about it. If only the
// store has failed, the history has the entry, so there is the event as well. An
// error ends the run.
func (r *run) appendEntry(e chat.HistoryEntry, about func() Event) error {
	added, err := r.agent.history.AppendReserved(r.ctx, e)
	if added {
		event := about()
		event.Step, event.Messages = r.result.Steps, r.agent.history.MessageCount()
		r.emit(event)
	}
	if err != nil {
		return r.fail(err)
	}
	return nil
}

// appendEnd appends the mark of the run's end to the history. Of a single step
// that went well there is none, since the caller makes the run.
func (r *run) appendEnd() {
	if r.result.Status == StatusMaxSteps && !r.sumsUp() {
		return
	}
	end := &chat.TurnEnd{
		Status: r.result.Status, Reason: r.result.Reason, Steps: r.result.Steps,
		Usage: r.result.Usage, TaskUsage: r.result.TaskUsage, Elapsed: r.result.Elapsed,
	}
	if _, err := r.agent.history.AppendReserved(r.ctx, chat.HistoryEntry{Turn: end}); err != nil {
		r.emit(Event{Type: EventWarning, Step: r.result.Steps, Text: "the end of the run is not in the history yet: " + err.Error()})
	}
}

// end records how the run ended; only the first call counts.
func (r *run) end(s Status, reason string) {
	if r.result.Status == "" {
		r.result.Status, r.result.Reason = s, reason
	}
}

// fail ends the run with an error.
func (r *run) fail(err error) error {
	r.end(StatusFailed, err.Error())
	return err
}

// callForeign calls f, code that the agent was given, as [safecall.Outlive] does,
// but on the goroutine of the run's worker.
func callForeign[T any](ctx context.Context, r *run, what string, f func() (T, error)) (T, error) {
	return safecall.OutliveIn(ctx, &r.worker, func(self safecall.Goroutine) (T, error) {
		defer r.agent.enterAs(&r.agent.calling, self, what)()
		return f()
	})
}

// accept appends the model's answer, and ends the run if the answer does.
func (r *run) accept(ctx context.Context, resp *ChatResponse) error {
	cutBy, thoughts := looptext.CutBy(string(resp.FinishReason)), wire.Thoughts(resp.Message.Extra)
	r.written, r.judge.Demanded, r.judge.Open = toolcall.Sign{}, false, nil
	if cutBy == "" {
		r.acceptWritten(resp, thoughts)
	}
	if isEmpty(resp.Message) {
		r.tookNothing(cutBy, thoughts)
		return nil
	}
	if cutBy == looptext.ContentFilter {
		r.emit(Event{Type: EventWarning, Step: r.result.Steps, Text: "the provider's content filter withheld the rest of the answer"})
	}
	r.empty = false
	if err := r.tookMessage(resp); err != nil {
		return err
	}
	if cutBy != "" && r.trouble.CutBy != "" {
		r.end(StatusTruncated, "two answers in a row were cut off by "+cutBy+looptext.Remedy(cutBy))
	}
	r.trouble = looptext.Trouble{CutBy: cutBy}
	r.judge.Answered(len(resp.Message.ToolCalls) > 0)
	if len(resp.Message.ToolCalls) > 0 {
		r.replies, r.message = 0, r.agent.history.Len()-1
		return nil
	}
	r.tookReply(ctx, resp)
	return nil
}

// acceptMistake takes what the model wrote instead of an answer, which its server refused
// twice: as any text that may have a call, or else to tell the model.
func (r *run) acceptMistake(ctx context.Context, m *wire.Mistake) (*ChatResponse, error) {
	resp := &ChatResponse{Message: chat.AssistantMessage(m.Wrote)}
	if r.acceptWritten(resp, m.Thought); len(resp.Message.ToolCalls) > 0 {
		return resp, r.accept(ctx, resp)
	}
	r.empty, r.written = false, toolcall.Sign{}
	r.trouble = looptext.Trouble{Told: looptext.Mistake(m.Why, m.Repeats), Mistakes: r.trouble.Mistakes + 1}
	if m.Wrote == "" {
		return resp, nil
	}
	return resp, r.appendEntry(chat.HistoryEntry{Message: resp.Message}, func() Event { return Event{Type: EventMessage, Message: &resp.Message} })
}

// tookMessage appends an answer that is not empty, and emits its event.
//
// The summary is the first reply after the last tool call; later replies are
// only about being told to continue. A reply that was cut off, or that was judged
// to be no answer, is replaced by the next one. What stands beside a call is none: see
// finished.
func (r *run) tookMessage(resp *ChatResponse) error {
	msg, a := resp.Message, r.agent
	entry := chat.HistoryEntry{Message: msg, Usage: resp.Usage, Model: a.model.current().asked(), Weight: a.window.weight(r.specs)}
	return r.appendEntry(entry, func() Event {
		r.result.Message, r.result.told = msg, true
		first := r.replies == 0 || r.trouble.CutBy != ""
		if r.opts.answerEnds {
			first = !r.judge.Stands()
		}
		if text := strings.TrimSpace(msg.Text()); text != "" && first && len(msg.ToolCalls) == 0 {
			r.result.Summary = text
		}
		return Event{Type: EventMessage, Message: &msg, Model: resp.Model, Usage: &resp.Usage, Context: r.contextUse(resp)}
	})
}

// tookNothing handles an empty answer, which is never appended: the first is
// answered by a nudge, the second ends the run.
func (r *run) tookNothing(cutBy, thoughts string) {
	reason := "the model gave two empty answers"
	r.trouble.Told = ""
	switch {
	case cutBy == "" && thoughts != "":
		reason, r.trouble.Told = "the model gave only reasoning, twice; "+looptext.NeedsReasoning, looptext.OnlyThought(r.writtenIn(thoughts).Tool)
		r.emit(Event{Type: EventNotice, Step: r.result.Steps, Text: "the model gave only reasoning and no answer; " + looptext.NeedsReasoning})
	case cutBy == looptext.TokenLimit:
		reason = "the token limit left no room for an answer, twice" + looptext.Remedy(cutBy)
	case cutBy == looptext.ContentFilter:
		r.end(StatusEmpty, "the provider's content filter withheld the answer")
	}
	if r.empty {
		r.end(StatusEmpty, reason)
	}
	r.empty = true
}

// tookReply handles an answer that calls no tool.
func (r *run) tookReply(ctx context.Context, resp *ChatResponse) {
	r.replies++
	r.written = r.writtenIn(resp.Message.Text())
	if r.written.Tool != "" && !r.written.Example() && !r.judge.Explains(resp.Message.Text(), r.written.Quotes()) {
		why := ""
		if r.agent.model.current().leavesCalls() {
			why = ": " + needsParser
		}
		r.emit(Event{Type: EventNotice, Step: r.result.Steps, Text: fmt.Sprintf("the model printed a tool call as text instead of calling it (%s, in %s)%s", r.written.Tool, r.written.Form, why)})
	}
	switch {
	case r.opts.answerEnds && r.trouble.CutBy == "":
		r.judged(ctx, resp.Message.Text())
	case r.opts.answerEnds: // half of it cannot be judged
	case r.opts.replyEnds && r.trouble.CutBy == "" && !r.onlyWritten() && !r.putsOff():
		r.end(StatusReplied, "")
	case r.replies >= r.opts.maxReplies:
		r.end(StatusReplied, fmt.Sprintf("%d replies in a row had no tool call (MaxReplies)", r.replies))
	}
}
