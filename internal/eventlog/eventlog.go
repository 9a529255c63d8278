// Package eventlog keeps the last events of something for those who follow it.
// They read at their own pace: writing never waits for them.
package eventlog

import (
	"context"
	"iter"
	"slices"
	"sync"
)

// Worth says how long an event is kept when there is no room for all.
type Worth int

// The events that are worth less go first, and among equals the oldest.
const (
	Fleeting Worth = iota // goes as soon as room is needed
	Ordinary
	Lasting
)

// Log numbers events from 1 and keeps the last of them. The numbers rise by one,
// so that a follower sees where something is missing. Make one with [New]. It is
// safe for concurrent use.
type Log[E any] struct {
	most   int
	number func(e E, seq int64) E
	worth  func(E) Worth

	mu      sync.Mutex // guards what follows
	events  []entry[E]
	seq     int64
	changed chan struct{} // closed at the next event; nil while nobody waits
}

type entry[E any] struct {
	seq   int64
	event E
}

// New returns a log that keeps at most so many events. number returns an event
// with its number in it.
func New[E any](most int, number func(e E, seq int64) E, worth func(E) Worth) *Log[E] {
	return &Log[E]{most: most, number: number, worth: worth}
}

// Append numbers an event, keeps it, and returns its number.
func (l *Log[E]) Append(e E) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	if len(l.events) >= l.most {
		l.shrink()
	}
	l.events = append(l.events, entry[E]{l.seq, l.number(e, l.seq)})
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
	return l.seq
}

// shrink makes room for a quarter of the log. The caller holds l.mu.
func (l *Log[E]) shrink() {
	most := l.most * 3 / 4
	l.drop(0, Fleeting)
	l.drop(most, Ordinary)
	l.drop(most, Lasting)
}

// drop drops the oldest events of no more than the given worth until so many are
// left. The caller holds l.mu.
func (l *Log[E]) drop(most int, worth Worth) {
	over := len(l.events) - most
	l.events = slices.DeleteFunc(l.events, func(e entry[E]) bool {
		if over <= 0 || l.worth(e.event) > worth {
			return false
		}
		over--
		return true
	})
}

// Last returns the number of the last event; 0 when there was none.
func (l *Log[E]) Last() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq
}

// Follow gives the events with numbers above seq, as they come, until ended
// reports that there will be no more for now, or ctx ends.
func (l *Log[E]) Follow(ctx context.Context, seq int64, ended func() bool) iter.Seq[E] {
	return func(yield func(E) bool) {
		for {
			// Looked at first, so that no event before the end is missed.
			over := ended()
			events, more := l.after(seq)
			for _, e := range events {
				if !yield(e.event) {
					return
				}
				seq = e.seq
			}
			if len(events) > 0 {
				continue
			}
			if over {
				return
			}
			select {
			case <-more:
			case <-ctx.Done():
				return
			}
		}
	}
}

// after returns the events above seq that are kept, and a channel that is
// closed when there are more.
func (l *Log[E]) after(seq int64) ([]entry[E], <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, _ := slices.BinarySearchFunc(l.events, seq+1, func(e entry[E], seq int64) int { return int(e.seq - seq) })
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return slices.Clone(l.events[at:]), l.changed
}
