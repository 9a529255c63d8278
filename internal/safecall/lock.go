package safecall

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Gate passes values on until it is shut. Make one with [NewGate].
type Gate[T any] struct {
	mu     sync.Mutex
	closed bool
	next   func(T)
}

// NewGate returns a gate to next.
func NewGate[T any](next func(T)) *Gate[T] { return &Gate[T]{next: next} }

// Pass hands a value on, one at a time.
func (g *Gate[T]) Pass(v T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.next(v)
	}
}

// Shut makes the gate drop all further values.
func (g *Gate[T]) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// Baton is a lock that can be waited for with a time limit. Make one with
// [NewBaton].
type Baton struct{ free chan struct{} }

// NewBaton returns a baton that nobody holds.
func NewBaton() Baton {
	b := Baton{make(chan struct{}, 1)}
	b.free <- struct{}{}
	return b
}

// Unlock releases the baton.
func (b Baton) Unlock() { b.free <- struct{}{} }

// TryLock takes the baton, and reports whether it was free.
func (b Baton) TryLock() bool {
	select {
	case <-b.free:
		return true
	default:
		return false
	}
}

// LockContext waits for the baton until ctx ends.
func (b Baton) LockContext(ctx context.Context) error {
	select {
	case <-b.free:
		return nil
	case <-ctx.Done():
		return ContextError(ctx)
	}
}

// Calls are the calls of foreign code that have not returned. The zero Calls is
// ready to use, and safe for concurrent use.
type Calls struct {
	mu     sync.Mutex
	names  map[int]string
	lastID int
}

// Enter records a call until leave is called.
func (c *Calls) Enter(name string) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.names == nil {
		c.names = map[int]string{}
	}
	c.lastID++
	id := c.lastID
	c.names[id] = name
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.names, id)
	}
}

// Names returns the names of the calls, sorted.
func (c *Calls) Names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Values(c.names))
}
