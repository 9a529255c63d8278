// Package progress tells whoever waits for long work how far it is: for a copy, in
// bytes, or for a checkpoint, in files. The counter goes along in the context of the
// work, so that what lies between need not know of it.
//
// A [Throttle] passes on values that come too often: of those that come within an interval,
// only the last.
package progress

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
)

type key struct{}

// counter counts what is done.
type counter struct {
	mu          sync.Mutex // guards what follows; held while tell is called
	done, total int64
	tell        func(done, total int64)
}

// With returns a context that counts. tell is called with how much is done of
// how much, once that is known; often, and one call at a time. It must not block.
func With(ctx context.Context, tell func(done, total int64)) context.Context {
	return context.WithValue(ctx, key{}, &counter{tell: tell})
}

func of(ctx context.Context) *counter {
	c, _ := ctx.Value(key{}).(*counter)
	return c
}

// Expect says that there is so much more to come.
func Expect(ctx context.Context, n int64) {
	if c := of(ctx); c != nil {
		c.change(func() { c.total += n })
	}
}

// Reach says that so much is done at least, of what may be less than was
// expected.
func Reach(ctx context.Context, done int64) {
	if c := of(ctx); c != nil {
		c.change(func() { c.done = max(c.done, done) })
	}
}

// change changes the counter, and tells of it.
func (c *counter) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	if c.total > 0 {
		c.tell(min(c.done, c.total), c.total)
	}
}

// Reader returns a reader of which the bytes count that are read. Without a counter in
// the context it is r itself.
func Reader(ctx context.Context, r io.Reader) io.Reader {
	if c := of(ctx); c != nil {
		return reader{c, r}
	}
	return r
}

// Counter returns a function that says how much more is done. It may be called
// at any time, also by several goroutines.
func Counter(ctx context.Context) func(n int64) {
	c := of(ctx)
	if c == nil {
		return func(int64) {}
	}
	return func(n int64) { c.change(func() { c.done += n }) }
}

type reader struct {
	counter *counter
	r       io.Reader
}

// Read implements [io.Reader].
func (r reader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.counter.change(func() { r.counter.done += int64(n) })
	return n, err
}

// Level is how far a work is. The zero Level is at the beginning. It is safe for
// concurrent use.
type Level struct{ done, total atomic.Int64 }

// Of returns a context in which work raises the level.
func (l *Level) Of(ctx context.Context) context.Context {
	return With(ctx, func(done, total int64) {
		l.total.Store(total)
		l.done.Store(done)
	})
}

// Reached returns how much is done of how much; a total of 0 is not known.
func (l *Level) Reached() (done, total int64) { return l.done.Load(), l.total.Load() }
