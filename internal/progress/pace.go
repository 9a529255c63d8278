package progress

import (
	"sync"
	"time"
)

// Throttle passes values to a function. Make one with [NewThrottle]. It is safe for
// concurrent use.
//
// A value that waits is passed on by a timer, which [Throttle.End] stops.
type Throttle[T any] struct {
	every time.Duration
	pass  func(T)

	mu      sync.Mutex // guards what follows; held while pass is called
	last    time.Time  // when pass was called last
	waiting bool       // next waits for the timer
	next    T
	timer   *time.Timer
	ended   bool
}

// NewThrottle returns a Pace that calls pass at most once in every interval, and one
// call at a time. pass must not block, nor call the Pace.
func NewThrottle[T any](every time.Duration, pass func(T)) *Throttle[T] {
	return &Throttle[T]{every: every, pass: pass}
}

// Ended returns a Pace that ignores all values.
func Ended[T any]() *Throttle[T] { return &Throttle[T]{ended: true} }

// Put passes value on, at once or at the end of the interval. A further value
// before that takes its place.
func (p *Throttle[T]) Put(value T) {
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
func (p *Throttle[T]) End() {
	p.flush()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.timer != nil {
		p.timer.Stop()
	}
}

// flush passes on the value that waits.
func (p *Throttle[T]) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting && !p.ended {
		p.waiting, p.last = false, time.Now()
		p.pass(p.next)
	}
}
