package pygent

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/x/pygent/internal/cut"
)

// noticedSummary is how many bytes of a task's summary a notice repeats.
const noticedSummary = 2000

// taskNotices is what an agent's model has yet to be told of tasks that ended.
// It hears of each ending once. It is safe for concurrent use.
type taskNotices struct {
	mu      sync.Mutex
	waiting []TaskStatus
	told    map[string]int // by task, the last of its runs whose end was told
}

// add notes that a task ended, unless the model knows.
func (n *taskNotices) add(s TaskStatus) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tell(s) {
		n.waiting = append(n.waiting, s)
	}
}

// tell notes that the model is told of the end, and reports whether that is
// news. The caller holds n.mu.
func (n *taskNotices) tell(s TaskStatus) bool {
	if n.told == nil {
		n.told = map[string]int{}
	}
	runs := s.Runs + 1 // one that was cancelled before its first run has none
	if n.told[s.ID] >= runs {
		return false
	}
	n.told[s.ID] = runs
	return true
}

// known notes that the model is told the status now, otherwise than by a notice,
// and reports whether the end of the task is news to it.
func (n *taskNotices) known(s TaskStatus) (news bool) {
	if !s.State.AtRest() {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tell(s) {
		return true
	}
	waiting := len(n.waiting)
	n.waiting = slices.DeleteFunc(n.waiting, func(w TaskStatus) bool { return w.ID == s.ID })
	return len(n.waiting) < waiting
}

// take returns what is to be told now, or an empty text.
func (n *taskNotices) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	lines := make([]string, len(n.waiting))
	for i, s := range n.waiting {
		lines[i] = noticeOf(s)
	}
	n.waiting = nil
	return strings.Join(lines, "\n")
}

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
