package taskpool

import (
	"slices"
	"sync"
)

// Mailbox is the notices for one reader. The zero List is empty and ready to use.
// It is safe for concurrent use.
type Mailbox struct {
	mu      sync.Mutex
	waiting []notice
	told    map[string]int // by task, the number of the last end that the reader was told of
}

type notice struct{ task, text string }

// Add queues a notice that a task ended for the nth time, unless the reader
// knows already.
func (l *Mailbox) Add(task string, nth int, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tell(task, nth) {
		l.waiting = append(l.waiting, notice{task, text})
	}
}

// tell records that the reader is told of an end, and reports whether they did
// not know of it. The caller holds l.mu.
func (l *Mailbox) tell(task string, nth int) bool {
	if l.told == nil {
		l.told = map[string]int{}
	}
	if l.told[task] >= nth {
		return false
	}
	l.told[task] = nth
	return true
}

// Known records that the reader now learns, without a notice, that a task ended
// for the nth time. It drops a notice that was waiting, and reports whether the
// end is news to the reader.
func (l *Mailbox) Known(task string, nth int) (news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tell(task, nth) {
		return true
	}
	waiting := len(l.waiting)
	l.waiting = slices.DeleteFunc(l.waiting, func(n notice) bool { return n.task == task })
	return len(l.waiting) < waiting
}

// News reports whether the reader does not know yet that a task ended for the nth
// time: nobody told them, or a notice of it is still waiting.
func (l *Mailbox) News(task string, nth int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.told[task] < nth || slices.ContainsFunc(l.waiting, func(n notice) bool { return n.task == task })
}

// Take removes and returns the notices that are waiting, the oldest first.
func (l *Mailbox) Take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	texts := make([]string, len(l.waiting))
	for i, n := range l.waiting {
		texts[i] = n.text
	}
	l.waiting = nil
	return texts
}
