package pygent

import (
	"fmt"
	"strings"
	"time"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/notices"
)

// sayHowToAnswer tells a model what to do about a task's question.
const sayHowToAnswer = "answer with send_task"

// describeTask returns the details of a task for a model, beginning with the
// state.
func describeTask(s TaskStatus) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n[%s]", s, taskFigures(s))
	if q := s.Question(); q != nil {
		fmt.Fprintf(&b, "\nIt asks: %s\n(%s)", strings.Join(append([]string{q.Prompt}, q.Options...), "\n- "), sayHowToAnswer)
	}
	if text := s.Summary(); text != "" {
		b.WriteString("\n" + text)
	}
	if s.Left != nil {
		b.WriteString("\n" + s.Left.words())
	}
	return b.String()
}

// listedTask is a task among others: a line, with what it asks or, if that is
// news, what it said last.
func listedTask(s TaskStatus, news bool) string {
	prompt, _, _ := strings.Cut(s.Prompt, "\n")
	line := fmt.Sprintf("%s: %s [%s] %s", s.ID, s, taskFigures(s), cut.Head(prompt, shownPrompt))
	words := lastWords(s)
	if words == "" || !news && s.Question() == nil {
		return line
	}
	return line + "\n  " + indented(words)
}

// openTask says in a line that a task is still at work, or what it asks.
func openTask(s TaskStatus) string {
	if q := s.Question(); q != nil {
		return fmt.Sprintf("task %s asks: %s (%s, or end it with cancel_task)", s.ID, onOneLine(q.Prompt), sayHowToAnswer)
	}
	return fmt.Sprintf("task %s is %s", s.ID, s.State)
}

// indented has each further line of a text begin with blanks, so that none can
// pass for a task or a notice of its own.
func indented(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("\n\r\v\f\u0085\u2028\u2029", r) }), "\n  ")
}

func taskFigures(s TaskStatus) string {
	figures := fmt.Sprintf("%s, %s, %s", count(s.Steps, "step"), count(s.ToolCalls, "tool call"), s.Elapsed(time.Now()).Round(time.Second))
	if s.Persona.Name != "" {
		figures = s.Persona.Name + ", " + figures
	}
	return figures
}

// count is a number of things in words.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// taskNotices are the ended tasks that an agent's model has not been told about
// yet.
type taskNotices struct{ list notices.List }

// nthEnd counts the ends of a task. It adds 1 because a task that was cancelled
// before its first run has ended as well.
func nthEnd(s TaskStatus) int { return s.Runs + 1 }

// add records the end of a task, unless the model knows of it.
func (n *taskNotices) add(s TaskStatus) { n.list.Add(s.ID, nthEnd(s), noticeOf(s)) }

// known records that the model learns the status now, other than by a notice,
// and reports whether the end of the task is news to it.
func (n *taskNotices) known(s TaskStatus) (news bool) {
	return s.State.AtRest() && n.list.Known(s.ID, nthEnd(s))
}

// news reports whether a task rests without the model knowing of it.
func (n *taskNotices) news(s TaskStatus) bool {
	return s.State.AtRest() && n.list.News(s.ID, nthEnd(s))
}

// take returns the notices for the model and forgets them; the text may be
// empty.
func (n *taskNotices) take() string { return strings.Join(n.list.Take(), "\n") }

// noticeOf describes how a task ended.
func noticeOf(s TaskStatus) string {
	about := indented(lastWords(s))
	if about != "" {
		about = ": " + about
	}
	return fmt.Sprintf("[task %s %s%s]", s.ID, s, about)
}

// lastWords is the final text of a task at rest: its answer, its question, or what
// it left.
func lastWords(s TaskStatus) string {
	if q := s.Question(); q != nil {
		return cut.Middle(strings.Join(append([]string{q.Prompt}, q.Options...), " | "), noticedSummary) + " (" + sayHowToAnswer + ")"
	}
	words := cut.Middle(s.Summary(), noticedSummary)
	if s.Left != nil {
		words = strings.TrimPrefix(words+"\n"+s.Left.words(), "\n")
	}
	return words
}
