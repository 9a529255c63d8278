package web

import (
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
)

// history shows a conversation that is known already. The calls without a result are in
// calls then.
func (v *view) history(entries []chat.HistoryEntry) {
	cards := map[string]*card{}
	for _, e := range entries {
		switch m := e.Message; {
		case e.Turn != nil:
			v.pastTurn(*e.Turn)
		case e.Compaction != nil:
			v.notice("", e.Compaction.String())
		case isUsers(e):
			v.user(m)
		case m.Role == chat.RoleAssistant:
			if text := m.Text(); strings.TrimSpace(text) != "" {
				v.answered(text)
			}
			for _, call := range m.ToolCalls {
				if endsRun(call.Name) {
					continue
				}
				c := &card{key: v.key("c"), state: cardOff, fact: "not run"}
				c.describe(call, nil)
				cards[call.ID] = c
				v.putCard(c)
			}
		case m.Role == chat.RoleTool:
			if c := cards[m.ToolCallID]; c != nil {
				c.past(e)
				v.putCard(c)
				delete(cards, m.ToolCallID)
			}
		}
	}
	v.calls = cards
	v.log.forgetSaid()
}

// goOn shows the calls that have no result yet because the agent is at work. If it is not,
// they were not run.
func (v *view) goOn(state pygent.State) {
	if state.Activity == pygent.ActivityIdle {
		v.calls = nil
	}
	for id, c := range v.calls {
		c.state, c.fact = cardWaits, ""
		switch {
		case state.Call == nil || state.Call.ID != id:
		case state.Activity == pygent.ActivityApproval:
			c.state = cardAsked
		default:
			c.state, c.began = cardRuns, state.Since
		}
		v.putCard(c)
	}
}

// past sets how a call ended whose result is in the history.
func (c *card) past(e chat.HistoryEntry) {
	r := pygent.ToolResult{Content: e.Message.Text(), Outcome: e.Outcome}
	if e.Outcome == "" {
		r.Outcome = pygent.OutcomeOK
	}
	if e.Bash != nil {
		b := *e.Bash
		b.Output = printed(r.Content, c.what, b)
		r.Bash = &b
	}
	c.end(pygent.Event{Type: pygent.EventToolDone, Output: &r})
	c.open = false
}

// printed is what a command printed, of the text that the model has got: without the
// command at its beginning, and without what follows about its end, which the card says
// in other words. What the model was told besides follows that.
func printed(text, command string, end pygent.BashResult) string {
	after := func(output string) string {
		end.Command, end.Output = "", output
		return strings.TrimPrefix(end.String(), "$ \n"+output)
	}
	text = strings.TrimPrefix(text, "$ "+command+"\n")
	if strings.HasPrefix(text, after("")) { // which says that there was no output
		return ""
	}
	about := after("output")
	if at := strings.LastIndex(text, about); about != "" && at >= 0 {
		text = text[:at]
	}
	return text
}

// pastTurn shows how a run ended.
func (v *view) pastTurn(t chat.TurnEnd) {
	words := "Done"
	switch t.Status {
	case pygent.StatusReplied, pygent.StatusStopped, pygent.StatusAwaitingUser:
	case pygent.StatusCancelled:
		words = "Stopped"
	default:
		words = t.Reason
		if words == "" {
			words = string(t.Status)
		}
	}
	facts := append([]string{words}, turnFacts(t.Steps, t.Elapsed, t.Usage.Add(t.TaskUsage).Total(), 0)...)
	v.put(v.key("e"), `<div class="end">`+esc(strings.Join(facts, " · "))+`</div>`)
}
