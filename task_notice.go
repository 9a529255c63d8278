package pygent

import (
	"fmt"
	"strings"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/notices"
)

// noticedSummary is how many bytes of a task's summary a notice repeats.
const noticedSummary = 2000

// taskNotices is what an agent's model has yet to be told of tasks that ended.
type taskNotices struct{ list notices.List }

// nthEnd counts the ends of a task. One that was cancelled before its first run
// has ended as well.
func nthEnd(s TaskStatus) int { return s.Runs + 1 }

// add notes that a task ended, unless the model knows.
func (n *taskNotices) add(s TaskStatus) { n.list.Add(s.ID, nthEnd(s), noticeOf(s)) }

// known notes that the model is told the status now, otherwise than by a notice,
// and reports whether the end of the task is news to it.
func (n *taskNotices) known(s TaskStatus) (news bool) {
	return s.State.AtRest() && n.list.Known(s.ID, nthEnd(s))
}

// take returns what is to be told now, or an empty text.
func (n *taskNotices) take() string { return strings.Join(n.list.Take(), "\n") }

// noticeOf says in words how a task ended.
func noticeOf(s TaskStatus) string {
	about := lastWords(s)
	if about != "" {
		about = ": " + about
	}
	return fmt.Sprintf("[task %s %s%s]", s.ID, s, about)
}

// lastWords is what a task that rests has to say: its answer, or what it asks.
func lastWords(s TaskStatus) string {
	if q := s.Question(); q != nil {
		return cut.Middle(strings.Join(append([]string{q.Prompt}, q.Options...), " | "), noticedSummary) + " (" + sayCannotAnswer + ")"
	}
	return cut.Middle(s.Summary(), noticedSummary)
}
