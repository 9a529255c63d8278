package safecall

import (
	"context"
	"sync"
	"time"
)

// Pausable makes contexts with a time limit, and pauses all of them at once. The
// zero Gate is open and ready to use. It is safe for concurrent use.
type Pausable struct {
	mu     sync.Mutex
	closed int             // number of Close calls that are still in effect
	clocks map[*clock]bool // the clocks that have not ended
}

// clock is the time limit of one context. Its fields are guarded by the gate's
// mu.
type clock struct {
	gate   *Pausable
	cancel context.CancelCauseFunc
	cause  error
	left   time.Duration // counted from since, or fixed while the gate is closed
	since  time.Time
	timer  *time.Timer // nil while the gate is closed
}

type clockKey struct{}

// WithTimeout returns a context that ends after d with the given cause. Time
// during which the gate is closed does not count. Unlike the contexts of the
// standard library, this one has no Deadline, because its end may move.
// [Deadline] returns the end that is known at the moment.
func (g *Pausable) WithTimeout(parent context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
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

// Close pauses all time limits of the gate, including those that begin later,
// until open is called. Each open must be called once.
func (g *Pausable) Close() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed++; g.closed == 1 {
		for c := range g.clocks {
			c.stop()
		}
	}
	return g.open
}

func (g *Pausable) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed--; g.closed == 0 {
		for c := range g.clocks {
			c.start()
		}
	}
}

// start starts or resumes the clock. The caller holds the gate's mu.
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

// stop pauses the clock. The caller holds the gate's mu.
func (c *clock) stop() {
	c.timer.Stop()
	c.timer = nil // so that a timer that has fired, and waits for mu, does nothing
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

// Deadline returns when ctx ends if its gate does not change: the earlier of
// its own deadline and the end of its time limit. A paused limit has no end.
func Deadline(ctx context.Context) (time.Time, bool) {
	deadline, ok := ctx.Deadline()
	c, _ := ctx.Value(clockKey{}).(*clock)
	if c == nil {
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

// Before returns a context that ends, with the given cause, before the deadline
// and the time limit of ctx: by margin, or by a quarter of what is left where that
// is less. It is paused with the limit of ctx.
func Before(ctx context.Context, margin time.Duration, cause error) (context.Context, context.CancelFunc) {
	early := func(left time.Duration) time.Duration { return left - min(margin, left/4) }
	c, _ := ctx.Value(clockKey{}).(*clock)
	before, end := ctx, context.CancelFunc(func() {})
	if deadline, ok := ctx.Deadline(); ok {
		before, end = context.WithTimeoutCause(ctx, early(time.Until(deadline)), cause)
	}
	if c == nil {
		return before, end
	}
	limited, endLimit := c.gate.WithTimeout(before, early(c.remaining()), cause)
	return limited, func() { endLimit(); end() }
}

// remaining returns how much of the time limit is left.
func (c *clock) remaining() time.Duration {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	if c.timer == nil {
		return c.left
	}
	return c.left - time.Since(c.since)
}

// WithValues returns a context like ctx that also has the values of another one,
// but neither its end nor its time limits.
func WithValues(ctx, from context.Context) context.Context {
	if from == nil {
		return ctx
	}
	return &withValues{ctx, context.WithoutCancel(from)}
}

type withValues struct {
	context.Context
	values context.Context
}

// Value implements [context.Context].
func (c *withValues) Value(key any) any {
	value := c.Context.Value(key)
	if value == nil && key != (clockKey{}) {
		value = c.values.Value(key)
	}
	return value
}
