package lines

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/console"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/form"
)

// byUser says who decided or answered.
const byUser = "user"

// onOneLine is the beginning of a text, in a line.
func onOneLine(text string) string { return cut.Line(text, 200) }

// errSessionOver is the reason why nobody answers a task any more.
var errSessionOver = errors.New("the session is over")

// shownTask is how much of a task's prompt a question of it repeats.
const shownTask = 60

// approveForTask asks the user about a call of a background task. Between turns
// the question waits until the user has sent a message.
func (s *session) approveForTask(ctx context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
	ctx, end := s.untilOver(ctx)
	defer end()
	q, label := s.question(r), s.taskLabel(ctx, r.Task)
	if s.inTurn.Load() == nil {
		s.talk.InterjectAside("· %s needs your approval: %s (you will be asked after your next message)", label, onOneLine(r.Tool.Summary))
	}
	q.Head = label + " asks: " + q.Head
	d, err := s.consent.Allow(ctx, q)
	if err != nil && errors.Is(context.Cause(ctx), errSessionOver) {
		err = errSessionOver
	}
	return pygent.Decision{Allow: d.Allow, Session: d.Always, Reason: d.Reason, By: byUser}, err
}

// untilOver returns a context that also ends with the session.
func (s *session) untilOver(ctx context.Context) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.life, func() { cancel(errSessionOver) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// whileAsked returns the context in which a question may be asked: of a task,
// while the session goes on, else during a turn.
func (s *session) whileAsked(ctx context.Context, task string) (_ context.Context, end func(), err error) {
	if task != "" {
		ctx, end = s.untilOver(ctx)
		return ctx, end, nil
	}
	turn := s.inTurn.Load()
	if turn == nil {
		return nil, nil, errBetweenTurns
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(*turn, func() { cancel(errBetweenTurns) })
	return ctx, func() {
		stop()
		cancel(nil)
	}, nil
}

// taskLabel says which task it is: its id, who works on it and its prompt.
func (s *session) taskLabel(ctx context.Context, id string) string {
	status, err := s.agent.Tasks().Status(ctx, id)
	if err != nil {
		return "Task " + id
	}
	return "Task " + label(status)
}

// label is the task's id, who works on it and the beginning of its prompt, in a
// line.
func label(s pygent.TaskStatus) string {
	about := cut.Line(s.Prompt, shownTask)
	if s.Persona.Name != "" {
		about = onOneLine(s.Persona.Name) + ": " + about
	}
	return fmt.Sprintf("%s (%s)", s.ID, about)
}

// printTask writes the new state of a background task, with the question that it
// asks.
func printTask(t *console.Text, e pygent.Event) {
	status := e.TaskStatus
	switch {
	case status == nil:
		t.Tell("task %s: %s", e.Task, e.Text)
	case status.Question() != nil:
		q := status.Question()
		t.Tell("task %s asks: %s", label(*status), onOneLine(strings.Join(append([]string{q.Prompt}, q.Options...), " | ")))
	case status.Runs == 1 && status.State == pygent.TaskRunning:
		t.Tell("task %s: %s", label(*status), e.Text)
	default:
		t.Tell("task %s: %s", e.Task, e.Text)
	}
}

// answer asks the user a question. An empty answer declines.
func (s *session) answer(ctx context.Context, r pygent.AskRequest) (pygent.Answer, error) {
	ctx, end, err := s.whileAsked(ctx, r.From.Task)
	if err != nil {
		return pygent.Answer{}, err
	}
	defer end()
	q := console.Question{Head: r.From.Call.Name + " asks:", Text: r.Question.Prompt, Prompt: "answer (or press Enter to skip): ", Hidden: r.Question.Secret}
	if r.From.Task != "" {
		q.Head = fmt.Sprintf("%s of %s asks:", r.From.Call.Name, s.taskLabel(ctx, r.From.Task))
	}
	f, err := form.Parse(r.Question.Schema)
	if err != nil {
		return pygent.Answer{}, err
	}
	if f != nil {
		return s.fillIn(ctx, q, f, r.Question.Secret)
	}
	for i, option := range r.Question.Options {
		q.Text += fmt.Sprintf("\n%d. %s", i+1, onOneLine(option))
	}
	text, err := s.console.Question(ctx, q)
	if err != nil {
		return pygent.Answer{}, err
	}
	answer, err := r.Question.ParseAnswer(text)
	answer.By = byUser
	return answer, err
}

// fillIn asks for the fields of a form one by one.
func (s *session) fillIn(ctx context.Context, q console.Question, f *form.Form, secret bool) (pygent.Answer, error) {
	values, err := f.Fill(func(asked form.Asked) (string, bool, error) {
		q.Prompt, q.Hidden = asked.Prompt, secret || asked.Field.Secret()
		if asked.Again {
			q.Head = "Not a valid " + asked.Field.Type + "."
		} else {
			q.Text = strings.Trim(q.Text+"\n"+asked.Field.About(), "\n")
		}
		text, err := s.console.Question(ctx, q)
		q.Head, q.Text = "", "" // the next question goes on with this one
		return text, true, err
	})
	if err != nil {
		return pygent.Answer{}, err
	}
	return pygent.Answer{Values: values, Declined: values == nil, By: byUser}, nil
}
