package pygent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/eventqueue"
	"github.com/x/pygent/internal/form"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/taskpool"
)

// Question is what a model asks the user with the tool "continue", or a tool by
// [Ask].
type Question struct {
	Prompt  string   `json:"prompt,omitempty"`
	Options []string `json:"options,omitempty"` // answers to choose from; the user may give another

	// Schema asks for values instead of a text: a JSON Schema of type object whose
	// properties are strings, numbers, integers or booleans. People are shown the
	// titles of values to choose from, given by enumNames, or by oneOf with const
	// and title, as elicitation in MCP has them.
	Schema json.RawMessage `json:"schema,omitempty"`

	// Secret says that the answer is a password or the like: events and logs do not
	// have it, and a session does not show what is typed. So it is with a string in
	// Schema whose format is "password". What the tool does with the answer is up to
	// the tool: its result goes into the history.
	Secret bool `json:"secret,omitempty"`

	// UserOnly says that only the user may answer, as where the answer permits
	// something: a model that delegated the task is not asked.
	UserOnly bool `json:"user_only,omitempty"`

	// AsksParent says that the model of the agent that delegated the task is asked,
	// because there is no user. [Ask] sets it.
	AsksParent bool `json:"asks_parent,omitempty"`
}

// Answer is what is said to a [Question].
type Answer struct {
	Text     string          `json:"text,omitempty"`     // one of the options, or any other text
	Values   json.RawMessage `json:"values,omitempty"`   // an object that fits the question's Schema
	Declined bool            `json:"declined,omitempty"` // there is no answer

	// By says who answered, for people. A terminal session says "user", and the model
	// of the agent that delegated a task "parent".
	By string `json:"by,omitempty"`
}

// byParent is who answered if it was the model of the agent that delegated a task.
const byParent = "parent"

// AskRequest is a question to the user.
type AskRequest struct {
	Question Question `json:"question"`
	From     CallInfo `json:"from"` // the tool call that asks, and the task that it belongs to
}

// AskFunc asks the user. It must honour ctx. One question of an agent and its
// tasks is asked at a time. The time it takes does not count against a
// [StepTimeout], but against [MaxTime].
type AskFunc func(ctx context.Context, r AskRequest) (Answer, error)

// ErrNobodyToAsk is returned by [Ask] if there is nobody who could answer.
var ErrNobodyToAsk = errors.New("there is nobody to ask")

// WithAsk sets who answers the questions of tools; see [Ask]. The questions of
// the agent's tasks come there, too. Default: the user at the terminal, while a
// session goes on. Given to the agents of tasks, nil keeps their questions from
// everybody, also from the model of the agent that delegated them.
func WithAsk(f AskFunc) Option { return option(func(o *options) { o.ask, o.askAbove = f, nil }) }

// Ask asks the user in the middle of a tool call, and waits for the answer. ctx
// is the context that the tool got. Events tell of the question and its answer. A
// question whose schema is not flat is an error, and so is an answer that does
// not fit the schema. Without anybody to ask, the error is [ErrNobodyToAsk]: a
// program answers by [WithAsk] or [Agent.SetAsk], and so does the user of a terminal
// session.
//
// In a task whose user nobody can ask, the model of the agent that delegated it is
// asked, while a run of that agent goes on. It hears of the question as of the end
// of a task, and answers with the tool send_task; see also [TaskManager.Answer]. The
// error is ErrNobodyToAsk once that run is over, and after ten minutes without an
// answer. A model is never asked for what is Secret, nor what is UserOnly.
func Ask(ctx context.Context, q Question) (Answer, error) {
	c := toolCallOf(ctx)
	if c == nil {
		return Answer{}, ErrNobodyToAsk
	}
	f, err := form.Parse(q.Schema)
	if err != nil {
		return Answer{}, fmt.Errorf("question: %w", err)
	}
	a := c.agent
	if err := a.deciders.questionLock.LockContext(ctx); err != nil {
		return Answer{}, err
	}
	defer a.deciders.questionLock.Unlock()
	ask := a.deciders.asker()
	q.AsksParent = ask == nil
	if q.AsksParent {
		ask = a.opts.parentAnswers(f, q)
	}
	if ask == nil {
		return Answer{}, ErrNobodyToAsk
	}
	about := Event{Type: EventQuestion, Step: c.info.Step, Call: &c.info.Call, Question: &q}
	if told := a.emit(about); a.opts.gate.ask != nil {
		eventqueue.Await(told, ctx.Done()) // from then on the task takes answers
	}
	answer, err := a.deciders.ask(ctx, AskRequest{Question: q, From: c.info}, ask)
	if err == nil {
		answer, err = check(f, answer, q.Secret)
	}
	if err != nil {
		answer = Answer{Declined: true}
	}
	told := withoutSecrets(f, answer, q.Secret)
	about.Type, about.Question, about.Answer = EventAnswer, nil, &told
	a.emit(about)
	return answer, err
}

// ask asks a question of the agent. An answer that is sent to the agent's task
// counts too.
func (d *deciders) ask(ctx context.Context, r AskRequest, ask AskFunc) (Answer, error) {
	defer d.approvalGate.Close()()
	call := func(ctx context.Context, r AskRequest) (Answer, error) {
		answer, err := safecall.Outlive(ctx, func() (Answer, error) {
			defer d.calls.enter(&d.calls.calling, "the answer to a question")()
			return ask(ctx, r)
		})
		d.calls.logPanic("answer to a question", err)
		if err == nil && ctx.Err() != nil {
			err = safecall.ContextError(ctx)
		}
		return answer, err
	}
	if gate := d.opts.gate.ask; gate != nil {
		return gate(ctx, r, call)
	}
	return call(ctx, r)
}

// askUser passes a question of one of the agent's tasks on to whoever answers.
func (d *deciders) askUser(ctx context.Context, r AskRequest) (Answer, error) {
	if err := d.questionLock.LockContext(ctx); err != nil {
		return Answer{}, err
	}
	defer d.questionLock.Unlock()
	ask := d.asker()
	if ask == nil {
		return Answer{}, ErrNobodyToAsk
	}
	return d.ask(ctx, r, ask)
}

// SetAsk changes who answers the questions of tools, as [WithAsk] sets it, from
// the next question on. With nil nobody does. A [Face] calls it when it begins, as
// it calls [Agent.SetApproval].
func (a *Agent) SetAsk(f AskFunc) {
	a.deciders.approver.Set(FaceUser{Answer: f}, func(of *FaceUser, to FaceUser) { of.Answer = to.Answer })
}

// asker returns who answers questions, or nil.
func (d *deciders) asker() AskFunc {
	above := d.opts.askAbove
	if program, _ := d.approver.BeforeFace(); program.Answer == nil && above != nil && above.deciders.asker() != nil {
		return above.deciders.askUser
	}
	return d.approver.User().Answer
}

// check returns an answer that fits a form, or a text if there is none.
func check(f *form.Form, answer Answer, secret bool) (_ Answer, err error) {
	if f == nil || answer.Declined {
		answer.Values = nil // nobody asked for them, and they may be no JSON
		return answer, nil
	}
	if answer.Values, err = f.Check(answer.Values, secret); err != nil {
		return Answer{}, err
	}
	return answer, nil
}

// withoutSecrets returns an answer as events may tell it.
func withoutSecrets(f *form.Form, a Answer, secret bool) Answer {
	switch {
	case secret:
		return Answer{Declined: a.Declined, By: a.By}
	case f == nil || len(f.Secrets()) == 0:
		return a
	case len(a.Values) == 0: // the text is no answer to a form, and may be what was typed into a field
		return Answer{Declined: a.Declined, By: a.By}
	}
	return Answer{Values: f.WithoutSecrets(a.Values), Declined: a.Declined, By: a.By}
}

// parentAnswersWithin is how long the model of a parent has for an answer. It may be
// in a call that takes long, and has to hear of the question first.
const parentAnswersWithin = 10 * time.Minute

// parentAnswers returns how the model of the agent that delegated the task answers,
// or nil if it cannot be asked.
func (o *options) parentAnswers(f *form.Form, q Question) AskFunc {
	if o.askAbove == nil || o.parentListens == nil || q.Secret || q.UserOnly || f != nil && len(f.Secrets()) > 0 {
		return nil
	}
	gone, listens := o.parentListens()
	if !listens {
		return nil
	}
	return func(ctx context.Context, _ AskRequest) (Answer, error) {
		late := time.NewTimer(parentAnswersWithin)
		defer late.Stop()
		select {
		case <-gone:
			return Answer{}, fmt.Errorf("%w: the run of the agent that delegated the task ended without an answer", ErrNobodyToAsk)
		case <-late.C:
			return Answer{}, fmt.Errorf("%w: the agent that delegated the task did not answer within %s", ErrNobodyToAsk, parentAnswersWithin)
		case <-ctx.Done():
			return Answer{}, safecall.ContextError(ctx)
		}
	}
}

// ParseAnswer reads what a person or a model wrote as the answer to the question:
// one of the options, in words or by its number from 1, or any other text; for a
// Schema a JSON object that fits it, or the value alone where it has one field.
// Nothing at all declines, and for a Schema so does the word "decline". The error
// says what is wrong and what is expected.
func (q Question) ParseAnswer(text string) (Answer, error) {
	f, err := form.Parse(q.Schema)
	if err != nil {
		return Answer{}, err
	}
	word := strings.TrimSpace(text)
	if word == "" || f != nil && strings.EqualFold(word, "decline") {
		return Answer{Declined: true}, nil
	}
	if f == nil {
		text, _ := q.chosen(text)
		return Answer{Text: text}, nil
	}
	values, err := f.Read(text, q.Secret)
	return Answer{Values: values}, err
}

// chosen returns the option of a question that an answer means, by its text or
// its number, or else the answer itself, and what to say about it.
func (q *Question) chosen(answer string) (text, note string) {
	trimmed := strings.TrimSpace(answer)
	if len(q.Options) == 0 {
		return answer, ""
	}
	for _, option := range q.Options {
		if trimmed == option || strings.EqualFold(trimmed, strings.TrimSpace(option)) {
			return option, ": " + cut.Line(option, shownPrompt)
		}
	}
	if n, err := strconv.Atoi(trimmed); err == nil && n >= 1 && n <= len(q.Options) {
		return q.Options[n-1], ": " + cut.Line(q.Options[n-1], shownPrompt)
	}
	return answer, ", with none of its options"
}

// onOneLine returns the beginning of a text in one line.
func onOneLine(text string) string { return cut.Line(text, 200) }

// PendingQuestion is a question of a task's tool that waits for an answer; see
// [Ask]. It comes from the user, from the model of the agent that delegated the task
// if the question AsksParent, or from whoever calls [TaskManager.Answer].
type PendingQuestion struct {
	Request AskRequest `json:"request"`
	Seq     int64      `json:"seq"`   // the number of the event that asked
	Since   time.Time  `json:"since"` // when it asked
}

// PendingApproval is a call of a task that waits until somebody decides about
// it: the manager's [ApprovalFunc], or whoever calls [TaskManager.Decide].
type PendingApproval struct {
	Request ApprovalRequest `json:"request"`
	Seq     int64           `json:"seq"`   // the number of the event that asked
	Since   time.Time       `json:"since"` // when it asked
}

// Answer answers the question of a task's tool: the one in the Asked of its
// [TaskStatus], whose call has the id. The first answer counts: it ends the context
// of an [AskFunc] that is still asked, and the error of a later one matches
// [ErrNotAsked]. An answer that does not fit the question is an error, and the
// question stays. [Question.ParseAnswer] reads what somebody wrote. To have all
// questions answered here, give [WithAsk] a function that waits until its context
// ends. A task that rests with a question is answered by Send.
func (m *TaskManager) Answer(ctx context.Context, id, call string, a Answer) error {
	s, err := m.exec.status(ctx, id)
	if err == nil && (s.Asked == nil || s.Asked.Request.From.Call.ID != call) {
		err = ErrNotAsked
	}
	if err == nil {
		err = m.answer(ctx, id, newID(), *s.Asked, a)
	}
	return taskError(id, err)
}

// answer sends an answer with an input of the given id.
func (m *TaskManager) answer(ctx context.Context, id, input string, p PendingQuestion, a Answer) error {
	q := p.Request.Question
	f, err := form.Parse(q.Schema)
	if err != nil {
		return err
	}
	if n := len(a.Text) + len(a.Values); n > taskpool.MaxMailBytes {
		return fmt.Errorf("the answer has %d bytes, more than %d", n, taskpool.MaxMailBytes)
	}
	if a, err = check(f, a, q.Secret); err != nil {
		return err
	}
	_, err = m.exec.send(ctx, id, taskInput{ID: "answer-" + input, Kind: inputAnswer, Request: p.Seq, Answer: a})
	return err
}

// parentListens reports whether the model of the agent that delegated a task can be
// asked, and when that ends: a run of the agent goes on, it may use send_task, and it
// is not in a call of a tool of its own, which may wait for the task that it started.
func (m *TaskManager) parentListens(id string) (gone <-chan struct{}, listens bool) {
	r := m.tasks.Record(id)
	if r == nil || r.Value.agent == nil || r.Value.inCall() {
		return nil, false
	}
	by := r.Value.agent
	if tool, err := by.tools.lookup("send_task", by.runtime); err != nil || !tool.isBuiltin() {
		return nil, false
	}
	return by.notices.present.Here()
}

// inCall reports whether the tool call that delegated the task goes on, unless it is
// one of the delegation tools, which wait for no task.
func (r *taskLinks) inCall() bool {
	return r.by != nil && !r.by.isOver() && delegationOf(r.by.info.Call.Name) == ofStarted
}

// isOver reports whether the call has returned.
func (c *callContext) isOver() bool { return c.progress.Load() == progressOver }

// awaitNews waits until a task rests, or asks its parent, after the status.
func (m *TaskManager) awaitNews(ctx context.Context, s TaskStatus) {
	if m.waitsForItself(ctx, s.ID) {
		return
	}
	for e, err := range m.exec.events(ctx, s.ID, s.Seq) {
		switch {
		case err != nil, e.Type == EventQuestion && e.Question.AsksParent:
			return
		case e.TaskStatus != nil && e.TaskStatus.State.AtRest():
			_, _ = m.Wait(ctx, s.ID) // until its events have been handled
			return
		}
	}
}
