// Package notices keeps what somebody has yet to be told of tasks that ended.
// They may learn of an end otherwise, and then need no notice of it: they hear of
// each end once.
package notices

import (
	"slices"
	"sync"
)

// List is the notices for one reader. The zero List is empty and ready to use.
// It is safe for concurrent use.
type List struct {
	mu      sync.Mutex
	waiting []notice
	told    map[string]int // by task, the last of its ends that was told
}

type notice struct{ task, text string }

// Add has the reader told in the given words that a task ended for the nth
// time, unless they know.
func (l *List) Add(task string, nth int, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tell(task, nth) {
		l.waiting = append(l.waiting, notice{task, text})
	}
}

// tell notes that the reader is told of an end, and reports whether that is
// news. The caller holds l.mu.
func (l *List) tell(task string, nth int) bool {
	if l.told == nil {
		l.told = map[string]int{}
	}
	if l.told[task] >= nth {
		return false
	}
	l.told[task] = nth
	return true
}

// Known notes that the reader is told now, otherwise than by a notice, that a
// task ended for the nth time. It reports whether that is news.
func (l *List) Known(task string, nth int) (news bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tell(task, nth) {
		return true
	}
	waiting := len(l.waiting)
	l.waiting = slices.DeleteFunc(l.waiting, func(n notice) bool { return n.task == task })
	return len(l.waiting) < waiting
}

// Take returns what is to be told now, which is then told.
func (l *List) Take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	texts := make([]string, len(l.waiting))
	for i, n := range l.waiting {
		texts[i] = n.text
	}
	l.waiting = nil
	return texts
}
