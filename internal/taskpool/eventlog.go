package taskpool

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"sync"
)

// Worth ranks events by how long they are kept when the log is full.
type Worth int

// Events of less worth are dropped first, and the oldest first among equals.
const (
	Fleeting Worth = iota // all are dropped as soon as room is needed
	Ordinary
	Lasting
)

// Log numbers events from 1 and keeps the last of them. The numbers rise by
// one, so that a follower notices a gap. Make one with [NewLog]. It is safe for
// concurrent use.
type Log[E any] struct {
	Kind[E]

	mu      sync.Mutex  // guards what follows
	events  []*entry[E] // never changed; each allocated alone, because room for more would be large
	bytes   int         // of all events
	seq     int64
	ended   bool          // there will be no more
	changed chan struct{} // closed at the next event, or the end; nil while nobody waits
}

// Kind says how a log keeps its events.
type Kind[E any] struct {
	Most, MostBytes int                    // how many events are kept, and how many bytes; the last event is kept in any case
	Number          func(e E, seq int64) E // returns the event with the number set in it
	Worth           func(E) Worth          // is the rank of an event
	Size            func(E) int            // estimates the bytes of an event
}

type entry[E any] struct {
	seq   int64
	size  int
	event E
}

// NewLog returns an empty log.
func NewLog[E any](kind Kind[E]) *Log[E] { return &Log[E]{Kind: kind} }

// Append numbers an event, stores it, and returns its number.
func (l *Log[E]) Append(e E) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	size := l.Size(e)
	if len(l.events) >= l.Most || l.bytes+size > l.MostBytes {
		l.shrink(size)
	}
	l.events, l.bytes = append(l.events, &entry[E]{l.seq, size, l.Number(e, l.seq)}), l.bytes+size
	l.wake()
	return l.seq
}

// End says that there will be no more events.
func (l *Log[E]) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.wake()
}

// wake has the followers look again. The caller holds l.mu.
func (l *Log[E]) wake() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// shrink drops all fleeting events, and others until the log is at most three
// quarters full with a new event of the given size. Lasting events do not make
// room for the bytes of the new one, which may be larger than the log. The caller
// holds l.mu.
func (l *Log[E]) shrink(size int) {
	most, mostBytes := l.Most*3/4, l.MostBytes*3/4
	l.drop(0, 0, Fleeting)
	l.drop(most, max(0, mostBytes-size), Ordinary)
	l.drop(most, mostBytes, Lasting)
}

// drop removes the oldest events of the given worth or less until at most the
// given number of events and of bytes is left. The caller holds l.mu.
func (l *Log[E]) drop(most, mostBytes int, worth Worth) {
	left := len(l.events)
	l.events = slices.DeleteFunc(l.events, func(e *entry[E]) bool {
		if left <= most && l.bytes <= mostBytes || l.Worth(e.event) > worth {
			return false
		}
		left--
		l.bytes -= e.size
		return true
	})
}

// Last returns the number of the last event, or 0 if there was none.
func (l *Log[E]) Last() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq
}

// Follow yields the events with numbers above seq as they come. It stops when
// ctx ends, or when the log has ended and all events are read.
func (l *Log[E]) Follow(ctx context.Context, seq int64) iter.Seq[E] {
	return func(yield func(E) bool) {
		for {
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
			if more == nil {
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

// after returns the kept events with numbers above seq, and a channel that is
// closed at the next event; it is nil if there will be none.
func (l *Log[E]) after(seq int64) ([]*entry[E], <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, _ := slices.BinarySearchFunc(l.events, seq+1, func(e *entry[E], seq int64) int { return cmp.Compare(e.seq, seq) })
	if l.changed == nil && !l.ended {
		l.changed = make(chan struct{})
	}
	return slices.Clone(l.events[at:]), l.changed
}
