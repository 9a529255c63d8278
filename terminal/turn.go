package terminal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/numeral"
)

// turn is a run of the agent.
type turn struct {
	faces.Turn
	began    time.Time
	message  string // what the user said, until the agent has it; to be given back if it never does
	parts    []pygent.Part
	messages int // how many the history had when it began
}

// send makes a turn that begins with a message.
func (s *session) send(text string, parts ...pygent.Part) {
	s.begin(text, func(ctx context.Context, opts ...pygent.RunOption) (*pygent.Result, error) {
		return s.agent.RunUntilStop(ctx, text, append(opts, pygent.WithParts(parts...))...)
	})
	s.turn.parts = parts
}

// resume makes a turn that goes on with an interrupted run.
func (s *session) resume() { s.begin("", s.agent.Resume) }

// begin makes a turn.
func (s *session) begin(message string, run faces.RunFunc) {
	t := &turn{began: time.Now(), message: message, messages: s.agent.History().Len()}
	s.turn, s.display.changed = t, true
	s.withdrawOffer()
	s.doing.Is("Beginning", t.began)
	t.Begin(s.ctx, run, s.background, s.post, s.endTurn)
}

// interrupt ends the command of the session that goes on, or the turn.
func (s *session) interrupt() {
	switch {
	case s.command != nil && !s.command.stopped:
		s.stopCommand()
	case s.turn != nil:
		s.interruptTurn()
	}
	s.display.changed = true
}

func (s *session) interruptTurn() {
	s.turn.Interrupt()
	s.doing.Is("Interrupting", time.Now())
}

// endTurn ends the turn if it is over.
func (s *session) endTurn() {
	t := s.turn
	if t == nil || !t.Over(s.seen) {
		return
	}
	s.finishText()
	s.turn, s.calls = nil, nil
	s.doing.Is("", time.Now())
	if s.waits(t) {
		return
	}
	s.outcome(t)
	s.flushNews()
	switch {
	case errors.Is(t.Err, pygent.ErrAgentClosed):
		s.agentClosed()
	case s.leaving != nil && s.leaving.decided:
		s.leaveFiles()
	case t.GoesWell() && !t.Interrupted:
		s.sendUnheard()
	default:
		s.queue.Hold(s.agent)
	}
}

// waits has the message of a turn that a command of the session, such as /compact, kept
// from beginning be heard after the command. It reports false if that is not what kept it.
func (s *session) waits(t *turn) bool {
	return t.message != "" && s.command != nil && errors.Is(t.Err, pygent.ErrAgentBusy) && s.sayLater(chat.UserMessage(t.message, t.parts...))
}

// outcome shows how a turn ended. One that Ctrl-C came too late for ended by itself.
func (s *session) outcome(t *turn) {
	if t.message != "" && s.input.editor.empty() { // the agent never got it
		s.input.editor.set(t.message)
	}
	switch {
	case t.Cut():
		s.say(kindEnd, s.theme.warn("■ Interrupted")+s.theme.dim(s.facts(t)))
		return
	case errors.Is(t.Err, pygent.ErrAgentClosed): // see agentClosed
		return
	case t.Err != nil:
		s.say(kindEnd, s.wrapped(s.theme.bad("✗ ")+told(s.start.Words(t.Err))))
		return
	}
	r := t.Result
	switch r.Status {
	case pygent.StatusReplied:
		if r.Steps == 0 {
			s.say(kindEnd, s.theme.dim("Nothing to interrupt: the turn had ended."))
			return
		}
	case pygent.StatusStopped:
		if r.Summary != "" && !r.SummaryIsText() {
			s.say(kindText, s.rendered(r.Summary))
		}
	case pygent.StatusAwaitingUser:
		if r.Question != nil {
			s.offer(*r.Question)
		}
		return
	default:
		s.say(kindEnd, s.wrapped(s.theme.warn("■ "+told(cmp.Or(r.Reason, string(r.Status))))+s.theme.dim(` · to continue, send "continue"`+s.facts(t))))
		return
	}
	s.say(kindEnd, s.wrapped(s.theme.dim("Done"+s.facts(t))))
}

// facts says how much a turn took: steps, time, tokens, cost and the context.
func (s *session) facts(t *turn) string {
	r := t.Result
	if r == nil {
		return ""
	}
	facts := []string{"", numeral.Count(r.Steps, "step"), numeral.Took(r.Elapsed)}
	if n := r.Usage.Add(r.TaskUsage).Total(); n > 0 {
		facts = append(facts, numeral.Grouped(n)+" tokens")
	}
	if r.Cost > 0 {
		facts = append(facts, fmt.Sprintf("cost %.4f", r.Cost))
	}
	if full := full(s.doing.Context); full != "" {
		facts = append(facts, full)
	}
	return strings.Join(facts, " · ")
}

// event handles an event of the agent or of one of its tasks.
func (s *session) event(e pygent.Event) {
	s.seen, s.display.changed = max(s.seen, e.Seq), true
	if e.Task != "" {
		s.taskEvent(e)
		return
	}
	s.doing.Note(e)
	switch e.Type {
	case pygent.EventUser:
		s.heard(e)
	case pygent.EventUnheard:
		s.queue.Unheard = e.Unheard
	case pygent.EventStep:
		s.finishText()
	case pygent.EventModelStart:
		s.requeue() // so that it follows what the turn began with
	case pygent.EventText:
		s.streamText(e.Text)
	case pygent.EventMessage:
		s.answered(e.Message.Text())
	case pygent.EventRetry:
		s.retry(*e.Retry)
	case pygent.EventToolCall, pygent.EventToolStart, pygent.EventApproval, pygent.EventOutput, pygent.EventProgress, pygent.EventToolDone, pygent.EventToolSkipped:
		s.callEvent(e)
	case pygent.EventCompacting:
		s.tell(s.theme.dim("· the model is summarising the conversation"))
	case pygent.EventCompacted:
		s.tell(s.theme.dim("· " + visible(e.Compaction.String())))
	case pygent.EventSaving:
		s.around.saves = e.Progress
	case pygent.EventRestored:
		s.restored(e)
	case pygent.EventNotice:
		s.tell(s.theme.dim("· " + told(e.Text)))
	case pygent.EventWarning:
		if !s.toldRepair(e.Text) {
			s.tell(s.theme.warn("! " + told(e.Text)))
		}
	case pygent.EventRuntime, pygent.EventJobs:
		s.around.note(s, e)
	}
	s.endTurn()
}

// toldRepair reports whether a warning is about a repair of the history, of which
// the banner has told.
func (s *session) toldRepair(warning string) bool {
	return slices.ContainsFunc(s.agent.History().Repairs(), func(repair string) bool { return strings.Contains(warning, repair) })
}

// heard shows what the user said, when the agent hears it.
func (s *session) heard(e pygent.Event) {
	if e.Source != chat.SourceUser {
		return
	}
	text, labels := e.Text, []string(nil)
	if e.Message != nil {
		text, labels = faces.Spoken(*e.Message)
	}
	if s.turn != nil && text == s.turn.message {
		s.turn.message = ""
	}
	if line, ok := s.saidBy[text]; ok {
		delete(s.saidBy, text)
		if text = line; text == "" { // it was printed just now
			return
		}
	}
	for _, label := range labels {
		text += "\n[" + label + "]"
	}
	s.say(kindUser, s.theme.accent("› ")+strings.Join(s.saidRows(visible(strings.TrimSpace(text))), "\n  "))
}

// saidRows lays out what the person said below each other. Prose is broken between
// the words; code and commands stay as they are.
func (s *session) saidRows(text string) (rows []string) {
	fenced := false
	for line := range strings.SplitSeq(text, "\n") {
		fence := strings.HasPrefix(line, "```")
		fenced = fenced != fence
		if fenced || fence || line == "" || strings.ContainsAny(line[:1], " \t!/") {
			rows = append(rows, style("1", line))
			continue
		}
		for row := range strings.SplitSeq(s.wrapped(line), "\n") {
			rows = append(rows, style("1", strings.TrimPrefix(row, "  ")))
		}
	}
	return rows
}

// retry shows that an answer failed and is asked for again. What was printed of it
// cannot be taken back, so it is said to be withdrawn.
func (s *session) retry(r pygent.RetryInfo) {
	printed := s.text.withdraw()
	words := "↻ " + told(r.Error) + faces.Again(r)
	if printed {
		words += "\n↻ the text above since the last step is withdrawn"
	}
	s.say(kindNews, s.wrapped(s.theme.warn(words)))
	s.flushNews()
}
