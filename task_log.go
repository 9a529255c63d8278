package pygent

import (
	"slices"
	"sync"
)

// maxTaskEvents is how many events of a task are kept for those who follow it
// late. Deltas go first, then the oldest; changes of its state are kept longest.
const maxTaskEvents = 512

// taskLog is the record of a task's events, which its followers read at their
// own pace: writing never waits for them. Its numbers rise by one, so that a
// follower sees where something is missing.
type taskLog struct {
	mu      sync.Mutex
	events  []Event
	seq     int64
	changed chan struct{} // closed at the next event; nil while nobody waits
}

// append numbers an event, keeps it, and returns its number.
func (l *taskLog) append(e Event) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	e.Seq = l.seq
	if e.TaskStatus != nil {
		status := *e.TaskStatus
		status.Seq = l.seq
		e.TaskStatus = &status
	}
	if len(l.events) >= maxTaskEvents {
		l.shrink()
	}
	l.events = append(l.events, e)
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
	return l.seq
}

// shrink makes room for a quarter of the log. The caller holds l.mu.
func (l *taskLog) shrink() {
	drop := func(most int, may func(EventType) bool) {
		over := len(l.events) - most
		l.events = slices.DeleteFunc(l.events, func(e Event) bool {
			if over <= 0 || !may(e.Type) {
				return false
			}
			over--
			return true
		})
	}
	const most = maxTaskEvents * 3 / 4
	drop(0, func(t EventType) bool { return t == EventText || t == EventReasoning })
	drop(most, func(t EventType) bool { return t != EventTask })
	drop(most, func(EventType) bool { return true })
}

// after returns the events above seq that are kept, and a channel that is
// closed when there are more.
func (l *taskLog) after(seq int64) ([]Event, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, _ := slices.BinarySearchFunc(l.events, seq+1, func(e Event, seq int64) int { return int(e.Seq - seq) })
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return slices.Clone(l.events[at:]), l.changed
}

func (l *taskLog) last() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq
}
