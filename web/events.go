package web

import (
	"cmp"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/numeral"
)

// event handles an event of the agent or of one of its tasks.
func (s *session) event(e pygent.Event) {
	s.seen = max(s.seen, e.Seq)
	if e.Type == pygent.EventSettings && e.Task == "" {
		s.set = e.Seq
	}
	if e.Task != "" {
		s.tasks.event(s, e)
		return
	}
	v := &s.view
	if e.Messages > 0 && e.Messages <= v.messages && e.Type != pygent.EventModelStart && e.Type != pygent.EventRestored {
		return // the history had it when the view began
	}
	v.doing.Note(e)
	switch e.Type {
	case pygent.EventUser:
		s.heard(e)
	case pygent.EventUnheard:
		s.queue.Unheard = e.Unheard
	case pygent.EventModelStart:
		if s.turn != nil { // and not the run of a program, which is none of the person's
			s.requeue() // so that it follows what the turn began with
		}
	case pygent.EventRestored:
		s.asks.dropOffer() // the turn that it ended is gone
		s.show()
		v.notice("", e.Text)
		for _, note := range notes(*e.Restored) {
			v.notice("", note)
		}
	case pygent.EventRuntime:
		s.runtimeEvent(e)
	default:
		v.event(e)
	}
	s.endTurn()
}

// event shows what an agent does, which may be that of a task.
func (v *view) event(e pygent.Event) {
	switch e.Type {
	case pygent.EventStep:
		v.endMessage()
		v.step = step{}
	case pygent.EventText:
		v.write(e.Text)
	case pygent.EventReasoning:
		v.think(e.Text, e.Time)
	case pygent.EventMessage:
		v.answered(e.Message.Text())
	case pygent.EventRetry:
		v.retry(*e.Retry)
	case pygent.EventCompacting:
		v.notice("", "The model is summarising the conversation.")
	case pygent.EventCompacted:
		v.notice("", e.Compaction.String())
	case pygent.EventNotice:
		v.notice("", e.Text)
	case pygent.EventWarning:
		v.notice("warn", e.Text)
	default:
		v.callEvent(e)
	}
}

// heard shows what the user said, when the agent hears it.
func (s *session) heard(e pygent.Event) {
	if e.Source != chat.SourceUser {
		return
	}
	msg := chat.UserMessage(e.Text)
	if e.Message != nil {
		msg = *e.Message
	}
	s.view.user(msg)
}

// runtimeEvent shows what the runtime reports.
func (s *session) runtimeEvent(e pygent.Event) {
	switch e.Runtime.Kind {
	case pygent.RuntimePull:
		s.view.doing.Is("Getting the image", e.Time)
	case pygent.RuntimeStarted:
		s.background(func() {
			info := faces.Describe(s.ctx, s.agent)
			s.post(func() { s.runtime = info })
		})
	case pygent.RuntimeStarting, pygent.RuntimeNetwork:
	case pygent.RuntimeFailed: // the run reports it, and so does the start of the session
	case pygent.RuntimeLost, pygent.RuntimeFallback, pygent.RuntimeLimited, pygent.RuntimeSilent:
		s.view.notice("warn", cmp.Or(e.Text, e.Runtime.Text))
	}
}

// callEvent shows an event about a call.
func (v *view) callEvent(e pygent.Event) {
	if e.Type == pygent.EventCallDelta {
		v.writingCall(*e.CallDelta)
		return
	}
	if e.Call == nil {
		return
	}
	c := v.calls[e.Call.ID]
	switch e.Type {
	case pygent.EventToolCall:
		v.announce(e)
		return
	case pygent.EventToolDone, pygent.EventToolSkipped:
		v.finishCall(e)
		return
	}
	if c == nil {
		return
	}
	switch e.Type {
	case pygent.EventApproval, pygent.EventQuestion:
		c.state = cardAsked
	case pygent.EventDecision, pygent.EventAnswer:
		if c.state != cardAsked {
			return
		}
		c.state = cardWaits
		if !c.began.IsZero() {
			c.state = cardRuns
			v.doing.Is(faces.Running(e.Call.Name), e.Time)
		}
	case pygent.EventToolStart:
		c.state, c.began = cardRuns, e.Time
	case pygent.EventOutput:
		v.log.appendOut(c.key, c.clean(*e.Chunk))
		return
	case pygent.EventProgress:
		v.log.put(c.key+".p", c.key, `<div class="reason">`+esc(progressWords(*e.Progress))+`</div>`)
		return
	default:
		return
	}
	v.putCard(c)
}

// writingCall shows how far a call is that the model writes.
func (v *view) writingCall(d chat.CallDelta) {
	v.endMessage()
	v.endRetry()
	if endsRun(d.Tool) {
		return
	}
	c := v.writing[d.Index]
	if c == nil {
		const most = 100 // calls of one message
		if len(v.writing) >= most {
			return
		}
		if v.writing == nil {
			v.writing = map[int]*card{}
		}
		c = &card{key: v.key("c"), state: cardWritten}
		v.writing[d.Index] = c
	}
	c.what = cmp.Or(d.Path, d.Tool)
	c.fact = numeral.Bytes(int64(d.Bytes)) + " so far"
	v.putCard(c)
}

// announce shows a call that the model has made.
func (v *view) announce(e pygent.Event) {
	v.endMessage()
	c := v.adopt()
	if endsRun(e.Call.Name) {
		if c != nil {
			v.log.del(c.key)
		}
		return
	}
	if c == nil {
		c = &card{key: v.key("c")}
	}
	c.describe(*e.Call, e.Tool)
	c.state, c.fact = cardWaits, ""
	if v.calls == nil {
		v.calls = map[string]*card{}
	}
	v.calls[e.Call.ID] = c
	v.putCard(c)
}

// adopt returns the first card of a call that was being written, for the call that is
// announced: they come in the order of the message.
func (v *view) adopt() *card {
	first := -1
	for i := range v.writing {
		if first < 0 || i < first {
			first = i
		}
	}
	c := v.writing[first]
	delete(v.writing, first)
	return c
}

// finishCall shows a call with its result.
func (v *view) finishCall(e pygent.Event) {
	v.endMessage()
	c := v.calls[e.Call.ID]
	delete(v.calls, e.Call.ID)
	if e.Output == nil || endsRun(e.Call.Name) && e.Output.End != "" {
		return
	}
	if c == nil {
		c = &card{key: v.key("c")}
		c.describe(*e.Call, e.Tool)
	}
	c.end(e)
	v.putCard(c)
}

// endsRun reports whether a tool only ends the run, which is shown otherwise.
func endsRun(tool string) bool { return tool == "stop" || tool == "continue" }

// progressWords says how far a call is.
func progressWords(p pygent.ProgressInfo) string {
	switch {
	case p.Total > 0:
		return strings.TrimSpace(percent(p.Current, p.Total) + " " + oneLine(p.Text))
	case p.Current > 0:
		return strings.TrimSpace(numeral.Bytes(p.Current) + " " + oneLine(p.Text))
	}
	return oneLine(p.Text)
}
