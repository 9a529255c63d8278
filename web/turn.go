package web

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/faces"
)

// turn is a run of the agent.
type turn struct {
	faces.Turn
	message  *pygent.Message // with which it begins; nil for none
	messages int             // that the history had before
}

// send makes a turn that begins with a message.
func (s *session) send(msg pygent.Message) {
	s.startTurn(func(ctx context.Context, opts ...pygent.RunOption) (*pygent.Result, error) {
		if len(msg.Parts) > 0 {
			return s.agent.RunUntilStop(ctx, "", append(opts, pygent.WithParts(msg.Parts...))...)
		}
		return s.agent.RunUntilStop(ctx, msg.Content, opts...)
	})
	s.turn.message = &msg
}

// startTurn makes a turn.
func (s *session) startTurn(run faces.RunFunc) {
	t := &turn{messages: s.agent.State().Messages}
	s.turn, s.stalled = t, false
	s.asks.withdrawOffer(s)
	s.view.doing.Is("Beginning", time.Now())
	t.Begin(s.ctx, run, s.background, s.post, s.endTurn)
}

// interrupt ends the turn that goes on, or else the errands, or else the person's command
// line.
func (s *session) interrupt() {
	switch {
	case s.turn != nil:
		s.turn.Interrupt()
	case len(s.errands) > 0:
		for _, e := range s.errands {
			e.cancel(faces.ErrInterrupted)
		}
	case s.shell != nil:
		s.shell.cancel(faces.ErrInterrupted)
	}
}

// endTurn ends the turn if it is over.
func (s *session) endTurn() {
	t := s.turn
	if t == nil || !t.Over(s.seen) {
		return
	}
	s.turn = nil
	s.server.use(s)
	s.view.endTurn()
	if s.waits(t) {
		return
	}
	s.outcome(t)
	s.log.filesChanged()
	switch {
	case errors.Is(t.Err, pygent.ErrAgentClosed):
		s.agentClosed()
	case t.GoesWell() && !t.Interrupted:
		s.sendUnheard()
	default:
		s.stalled = true
		s.hold(t)
	}
}

// waits has the message of a turn that an errand kept from beginning be heard after the
// errand. It reports false if that is not what kept it.
func (s *session) waits(t *turn) bool {
	if t.message == nil || len(s.errands) == 0 || !errors.Is(t.Err, pygent.ErrAgentBusy) {
		return false
	}
	s.hold(t) // with what was said since, in its order
	s.requeue()
	return true
}

// outcome shows how a turn ended. One that the button came too late for ended by itself.
func (s *session) outcome(t *turn) {
	switch {
	case t.Cut():
		s.view.endLine("Stopped", t.Result)
		return
	case errors.Is(t.Err, pygent.ErrAgentClosed): // see agentClosed
		return
	case t.Err != nil:
		text := s.start.Words(t.Err)
		s.view.failure(text)
		s.log.say("The run failed: " + oneLine(text))
		return
	}
	switch r := t.Result; r.Status {
	case pygent.StatusStopped:
		if r.Summary != "" && !r.SummaryIsText() {
			s.view.markdown(r.Summary)
		}
		s.view.endLine("Done", r)
	case pygent.StatusAwaitingUser:
		if r.Question != nil {
			s.asks.offer(s, *r.Question)
		}
	case pygent.StatusReplied:
		if r.Steps > 0 {
			s.view.endLine("Done", r)
		}
	default:
		why := r.Reason
		if why == "" {
			why = string(r.Status)
		}
		s.view.endLine(why+" · to continue, send “continue”", r)
	}
}

// shown is a queue as a page shows it.
func shown(q *faces.Queue) []queued {
	list := []queued{}
	for _, said := range q.All() {
		list = append(list, queued{said.ID, queueWords(said.Message)})
	}
	return list
}

// queueWords is a message in a line.
func queueWords(m pygent.Message) string {
	text, labels := faces.Spoken(m)
	for _, label := range labels {
		text += " [" + label + "]"
	}
	const longest = 500
	text = oneLine(text)
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}

// hold takes what the agent has not heard, with the message of the turn that ended if the
// agent never got it.
func (s *session) hold(t *turn) {
	if s.neverGot(t) {
		s.queue.Held = slices.Insert(s.queue.Held, 0, pygent.Said{ID: newEpoch(), Message: *t.message})
	}
	s.queue.Hold(s.agent)
}

// neverGot reports whether the message of a turn did not reach the agent. One that is busy
// refuses it, and the history grows by the other run, which is no sign of the message.
func (s *session) neverGot(t *turn) bool {
	return t.message != nil && (errors.Is(t.Err, pygent.ErrAgentBusy) || s.agent.State().Messages == t.messages)
}

// requeue gives the agent what was held back.
func (s *session) requeue() {
	if err := s.queue.Return(s.agent); err != nil {
		s.view.notice("warn", err.Error())
	}
}

// sendUnheard begins a turn if something was said too late for the last one.
func (s *session) sendUnheard() {
	if s.turn == nil && len(s.agent.State().Unheard) > 0 {
		s.startTurn(func(ctx context.Context, opts ...pygent.RunOption) (*pygent.Result, error) {
			return s.agent.RunUntilStop(ctx, "", opts...)
		})
	}
}

// deliver sends a message, or queues it. asQueued says that the person saw the agent
// work when they sent it: then it does not answer what came up since.
func (s *session) deliver(msg pygent.Message, asQueued bool) (id string, err error) {
	switch {
	case s.turn != nil, len(s.errands) > 0 && len(s.agent.State().Unheard) > 0: // see waits
		return s.agent.Say(msg)
	case asQueued && s.stalled:
		id = newEpoch()
		s.queue.Held = append(s.queue.Held, pygent.Said{ID: id, Message: msg})
		return id, nil
	}
	s.send(msg)
	return "", nil
}

// takeBack takes back a message that nobody has heard.
func (s *session) takeBack(id string) (pygent.Message, bool) {
	for i, said := range s.queue.Held {
		if said.ID == id {
			s.queue.Held = slices.Delete(s.queue.Held, i, i+1)
			return said.Message, true
		}
	}
	for _, said := range s.agent.State().Unheard {
		if said.ID == id && s.agent.Unsay(id) {
			return said.Message, true
		}
	}
	return pygent.Message{}, false
}
