// Package pace passes on values that come too often: of those that come within
// an interval, only the last.
package pace

import (
	"sync"
	"time"
)

// Pace passes values to a function. Make one with [New]. It is safe for
// concurrent use.
//
// A value that waits is passed on by a timer, which [Pace.End] stops.
type Pace[T any] struct {
	every time.Duration
	pass  func(T)

	mu      sync.Mutex // guards what follows; held while pass is called
	last    time.Time  // when pass was called last
	waiting bool       // next waits for the timer
	next    T
	timer   *time.Timer
	ended   bool
}

// New returns a Pace that calls pass at most once in every interval, and one
// call at a time. pass must not block, nor call the Pace.
func New[T any](every time.Duration, pass func(T)) *Pace[T] {
	return &Pace[T]{every: every, pass: pass}
}

// Ended returns a Pace that ignores all values.
func Ended[T any]() *Pace[T] { return &Pace[T]{ended: true} }

// Put passes value on, at once or at the end of the interval. A further value
// before that takes its place.
func (p *Pace[T]) Put(value T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch wait := p.every - time.Since(p.last); {
	case p.ended:
	case p.waiting:
		p.next = value
	case wait <= 0:
		p.last = time.Now()
		p.pass(value)
	default:
		p.next, p.waiting = value, true
		p.timer = time.AfterFunc(wait, p.flush)
	}
}

// End passes on the value that waits, if there is one. Later values are ignored.
func (p *Pace[T]) End() {
	p.flush()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.timer != nil {
		p.timer.Stop()
	}
}

// flush passes on the value that waits.
func (p *Pace[T]) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting && !p.ended {
		p.waiting, p.last = false, time.Now()
		p.pass(p.next)
	}
}
