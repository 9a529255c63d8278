// Package pause has time limits that stand still while somebody is asked
// something.
package pause

import (
	"context"
	"sync"
	"time"
)

// Gate makes contexts with a time limit, and pauses them all at once. The zero
// Gate is open and ready to use. It is safe for concurrent use.
type Gate struct {
	mu     sync.Mutex
	closed int             // how many have closed the gate
	clocks map[*clock]bool // that are not over
}

// clock is the time limit of one context. Its fields are guarded by the gate's
// mu.
type clock struct {
	gate   *Gate
	cancel context.CancelCauseFunc
	cause  error
	left   time.Duration // at since, or while the gate is closed
	since  time.Time
	timer  *time.Timer // nil while the gate is closed
}

type clockKey struct{}

// WithTimeout returns a context that ends after d with the given cause. The
// time during which the gate is closed does not count. Unlike the contexts of
// the standard library it has no Deadline, because that may move; [Deadline]
// tells what is known of it.
func (g *Gate) WithTimeout(parent context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	c := &clock{gate: g, cancel: cancel, cause: cause, left: d}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.clocks == nil {
		g.clocks = map[*clock]bool{}
	}
	g.clocks[c] = true
	if g.closed == 0 {
		c.start()
	}
	return context.WithValue(ctx, clockKey{}, c), func() {
		c.end()
		cancel(nil)
	}
}

// Close pauses all time limits of the gate, those that begin later too, until
// open is called, once.
func (g *Gate) Close() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed++; g.closed == 1 {
		for c := range g.clocks {
			c.stop()
		}
	}
	return g.open
}

func (g *Gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed--; g.closed == 0 {
		for c := range g.clocks {
			c.start()
		}
	}
}

// start runs the clock on. The caller holds the gate's mu.
func (c *clock) start() {
	c.since = time.Now()
	var timer *time.Timer
	timer = time.AfterFunc(c.left, func() {
		c.gate.mu.Lock()
		over := c.timer == timer && c.gate.clocks[c]
		if over {
			delete(c.gate.clocks, c)
		}
		c.gate.mu.Unlock()
		if over {
			c.cancel(c.cause)
		}
	})
	c.timer = timer
}

// stop halts the clock. The caller holds the gate's mu.
func (c *clock) stop() {
	c.timer.Stop()
	c.timer = nil // one that has fired and waits for mu is not the clock's any more
	c.left -= time.Since(c.since)
}

func (c *clock) end() {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	delete(c.gate.clocks, c)
	if c.timer != nil {
		c.timer.Stop()
	}
}

// Deadline returns when ctx ends if its gate stays as it is: the earlier of
// its own deadline and of its time limit's end. A limit that stands still has
// none.
func Deadline(ctx context.Context) (time.Time, bool) {
	deadline, ok := ctx.Deadline()
	c, limited := ctx.Value(clockKey{}).(*clock)
	if !limited {
		return deadline, ok
	}
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	if c.timer == nil {
		return deadline, ok
	}
	if end := c.since.Add(c.left); !ok || end.Before(deadline) {
		return end, true
	}
	return deadline, ok
}
