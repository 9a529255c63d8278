package web

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/approval"
	"github.com/x/pygent/internal/form"
)

// byUser says that the person decided.
const byUser = "user"

// The decisions about a call, and about hosts.
const (
	decideOnce   = "once"
	decideAlways = "always"
	decideDeny   = "deny"
)

// ask is something that the person is asked.
type ask struct {
	id       string
	since    time.Time
	approval *pygent.ApprovalRequest
	hosts    []string
	question *pygent.AskRequest
	offer    *pygent.Question // with which the model ended a turn: the next message answers it
	form     *form.Form       // of the question; nil for a text
	reply    chan reply       // has room for one; nil for an offer
	answered string           // the answer in words; empty as long as there is none
}

// reply is what the person answered.
type reply struct {
	Decision string          `json:"decision"` // once, always or deny; of a question, deny declines
	Reason   string          `json:"reason"`
	Answer   string          `json:"answer"`
	Values   json.RawMessage `json:"values"`
}

// asks is what the person is asked, the oldest first.
type asks struct {
	last    int
	open    []*ask
	offered *ask // the one of them with which the model ended the turn
	done    map[string]bool
}

func (a *ask) kind() string {
	if a.approval != nil || a.hosts != nil {
		return "approval"
	}
	return "question"
}

// needs says what the session waits for.
func (l *asks) needs() string {
	for _, a := range l.open {
		if a.kind() == "approval" {
			return "approval"
		}
	}
	if len(l.open) > 0 {
		return "question"
	}
	return ""
}

// add shows a question.
func (l *asks) add(s *session, a *ask) {
	l.last++
	a.id, a.since = "a"+strconv.Itoa(l.last), time.Now().UTC()
	l.open = append(l.open, a)
	s.view.putAsk(a, s)
	s.log.say(a.aloud())
}

// settle ends a question with an answer in words. The card stays as a line.
func (l *asks) settle(s *session, a *ask, words string) {
	l.open = slices.DeleteFunc(l.open, func(other *ask) bool { return other == a })
	if l.offered == a {
		l.offered = nil
	}
	if l.done == nil {
		l.done = map[string]bool{}
	}
	l.done[a.id] = true
	a.answered = words
	s.view.putAsk(a, s)
}

// showAgain shows the open questions in a new view.
func (l *asks) showAgain(s *session) {
	for _, a := range l.open {
		s.view.putAsk(a, s)
	}
}

// offer shows the question with which the model ended a turn.
func (l *asks) offer(s *session, q pygent.Question) {
	a := &ask{offer: &q}
	l.offered = a
	l.add(s, a)
}

// withdrawOffer takes the model's question away when a turn begins: the message that
// begins it is the answer.
func (l *asks) withdrawOffer(s *session) {
	if l.offered != nil {
		l.settle(s, l.offered, "answered")
	}
}

// dropOffer forgets the question of a turn that is gone.
func (l *asks) dropOffer() {
	l.open = slices.DeleteFunc(l.open, func(a *ask) bool { return a == l.offered })
	l.offered = nil
}

// ask asks the person, and waits for the first answer of any page.
func (s *session) ask(ctx context.Context, a *ask) (reply, error) {
	a.reply = make(chan reply, 1)
	if !s.post(func() { s.asks.add(s, a) }) {
		return reply{}, errClosed
	}
	select {
	case r := <-a.reply:
		return r, nil
	case <-ctx.Done():
		s.post(func() {
			if a.answered == "" {
				s.asks.settle(s, a, "no longer asked")
			}
		})
		return reply{}, ctx.Err()
	case <-s.ctx.Done():
		return reply{}, errClosed
	}
}

// approve asks the person about a call of the agent, or of one of its tasks.
func (s *session) approve(ctx context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
	in, err := s.ask(ctx, &ask{approval: &r})
	if err != nil {
		return pygent.Decision{}, err
	}
	d := pygent.Decision{By: byUser, Reason: saidReason(in)}
	d.Allow = in.Decision == decideOnce || in.Decision == decideAlways
	d.Session = in.Decision == decideAlways && r.Session != ""
	return d, nil
}

// saidReason is a reason as the model is told it.
func saidReason(in reply) string {
	if in.Decision != decideDeny || in.Reason == "" {
		return ""
	}
	return "the user says: " + in.Reason
}

// approveHosts asks the person whether commands may reach hosts.
func (s *session) approveHosts(ctx context.Context, r pygent.HostRequest) (pygent.HostDecision, error) {
	in, err := s.ask(ctx, &ask{hosts: r.Hosts})
	if err != nil {
		return pygent.HostDecision{}, err
	}
	return pygent.HostDecision{
		Allow:   in.Decision == decideOnce || in.Decision == decideAlways,
		Session: in.Decision == decideAlways,
		Reason:  saidReason(in),
	}, nil
}

// answer asks the person a question of a tool.
func (s *session) answer(ctx context.Context, r pygent.AskRequest) (pygent.Answer, error) {
	f, err := form.Parse(r.Question.Schema)
	if err != nil {
		return pygent.Answer{}, err
	}
	in, err := s.ask(ctx, &ask{question: &r, form: f})
	if err != nil {
		return pygent.Answer{}, err
	}
	if f != nil {
		return pygent.Answer{Values: in.Values, Declined: in.Values == nil, By: byUser}, nil
	}
	return pygent.Answer{Text: in.Answer, Declined: in.Answer == "", By: byUser}, nil
}

// answerAsk takes the answer of a page. The first one wins; others hear that it was
// answered.
func (s *Server) answerAsk(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	var in reply
	if err := c.read(&in); err != nil {
		return nil, err
	}
	return nil, one.do(c.Context(), func() error { return one.reply(c.PathValue("id"), in) })
}

// reply answers an open question.
func (s *session) reply(id string, in reply) error {
	at := slices.IndexFunc(s.asks.open, func(a *ask) bool { return a.id == id })
	switch {
	case at < 0 && s.asks.done[id]:
		return fail(http.StatusConflict, "answered", "it was already answered, or was withdrawn")
	case at < 0:
		return fail(http.StatusNotFound, "no_ask", "question not found")
	}
	a := s.asks.open[at]
	words, err := a.check(&in)
	if err != nil {
		return err
	}
	s.asks.settle(s, a, words)
	if a.offer != nil {
		s.send(chat.UserMessage(in.Answer))
		return nil
	}
	a.reply <- in
	return nil
}

// check returns an answer in words, if it is one to this question.
func (a *ask) check(in *reply) (words string, err error) {
	if a.kind() == "approval" {
		switch in.Decision {
		case decideOnce:
			return "allowed", nil
		case decideAlways:
			return "allowed for this session", nil
		case decideDeny:
			return cmp.Or("denied"+prefixed(": ", in.Reason), "denied"), nil
		}
		return "", fail(http.StatusBadRequest, "bad_request", "decision must be once, always or deny")
	}
	switch {
	case a.form != nil && in.Values != nil:
		if in.Values, err = a.values(in.Values); err != nil {
			return "", err
		}
		return "answered", nil
	case a.offer == nil && in.Decision == decideDeny:
		in.Answer, in.Values = "", nil
		return "declined", nil
	case a.form != nil:
		return "", fail(http.StatusBadRequest, "bad_request", "this question needs values")
	case in.Answer == "":
		return "", fail(http.StatusBadRequest, "bad_request", "the answer is empty")
	case a.question != nil && a.question.Question.Secret:
		return "answered", nil
	}
	return "answered: " + in.Answer, nil
}

// values reads the values of a form. Texts may stand for values of other types, as a
// person types them; what is empty is left out.
func (a *ask) values(given json.RawMessage) (json.RawMessage, error) {
	var values map[string]any
	if json.Unmarshal(given, &values) != nil {
		return nil, fail(http.StatusBadRequest, "bad_request", "values must be an object")
	}
	for name, value := range values {
		text, typed := value.(string)
		field, known := a.form.Fields[name]
		switch {
		case typed && text == "" && known:
			delete(values, name)
		case typed && known:
			read, ok := field.Read(text)
			if !ok {
				return nil, fail(http.StatusBadRequest, "bad_value", oneLine(name)+" is not a valid "+oneLine(field.Type)+" that fits here")
			}
			values[name] = read
		}
	}
	data, err := json.Marshal(values)
	if err == nil {
		data, err = a.form.Check(data, true)
	}
	if err != nil {
		return nil, fail(http.StatusBadRequest, "bad_value", "the values are not valid: "+oneLine(err.Error()))
	}
	return data, nil
}

func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// openAsk is a question as a program sees it.
type openAsk struct {
	ID       string                  `json:"id"`
	Kind     string                  `json:"kind"` // approval or question
	Since    time.Time               `json:"since"`
	Text     string                  `json:"text"` // the question in words
	Approval *pygent.ApprovalRequest `json:"approval,omitempty"`
	Hosts    []string                `json:"hosts,omitempty"`
	Question *pygent.Question        `json:"question,omitempty"`
}

// listAsks tells what the person is asked.
func (s *Server) listAsks(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	list := []openAsk{}
	err = one.do(c.Context(), func() error {
		for _, a := range one.asks.open {
			o := openAsk{ID: a.id, Kind: a.kind(), Since: a.since, Text: a.aloud(), Approval: a.approval, Hosts: a.hosts, Question: a.offer}
			if a.question != nil {
				o.Question = &a.question.Question
			}
			list = append(list, o)
		}
		return nil
	})
	return map[string]any{"asks": list}, err
}

// hostWords is the question about hosts.
func hostWords(hosts []string) string {
	text, _ := approval.Words(hosts, false)
	return text
}
