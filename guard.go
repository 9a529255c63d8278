package pygent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/x/pygent/internal/callback"
)

// abandonAfter is how long a run waits for a tool, a model or an event handler
// that ignores its cancelled context.
const abandonAfter = 5 * time.Second

// panicError is the panic of a function that is not ours. Its words leave out
// the stack, which is for logs: they are shown to models and people.
type panicError struct {
	value any
	stack []byte
}

// Error shows the value; the stack is for the log alone.
func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// errGoexit is the error of a function that ended its goroutine, as the
// FailNow of a test does, instead of returning.
var errGoexit = errors.New("it ended its goroutine instead of returning")

// outlive calls f in a goroutine of its own and returns what it returns. When
// ctx ends, f has abandonAfter to notice; past it, f is left to end by itself.
// A panic of f is a [*panicError].
func outlive[T any](ctx context.Context, f func() (T, error)) (T, error) {
	start := func(job func(callback.ID)) { go job(0) }
	return outliveIn(ctx, start, func(callback.ID) (T, error) { return f() })
}

// errLeft is found in the error of a function that was left behind.
var errLeft = errors.New("left behind")

// outliveIn is [outlive] in a goroutine that start finds for a job. A function
// that is left behind has an error that matches errLeft.
func outliveIn[T any](ctx context.Context, start func(job func(callback.ID)), f func(self callback.ID) (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	start(func(self callback.ID) {
		o := outcome{err: errGoexit}
		defer func() {
			if p := recover(); p != nil {
				o.err = &panicError{p, debug.Stack()}
			}
			done <- o
		}()
		o.value, o.err = f(self)
		touch(o.err)
	})
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
	}
	grace := time.NewTimer(abandonAfter)
	defer grace.Stop()
	select {
	case o := <-done:
		return o.value, o.err
	case <-grace.C:
		var none T
		return none, fmt.Errorf("%w; it did not react within %s and was %w", contextError(ctx), abandonAfter, errLeft)
	}
}

// touch panics here, where that is caught, if reading err would panic later: as
// with a nil pointer of an error type, which a function returned for no error.
func touch(err error) {
	if err == nil {
		return
	}
	_ = err.Error()
	errors.Is(err, context.Canceled)
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		touch(err.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range err.Unwrap() {
			touch(one)
		}
	}
}

// gate passes values on until it is shut.
type gate[T any] struct {
	mu     sync.Mutex
	closed bool
	next   func(T)
}

func (g *gate[T]) pass(v T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.next(v)
	}
}

func (g *gate[T]) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// contextError says why ctx ended: by its cause, in which errors.Is also finds
// context.Canceled or context.DeadlineExceeded.
func contextError(ctx context.Context) error {
	cause, err := context.Cause(ctx), ctx.Err()
	if cause == nil || errors.Is(cause, err) {
		return cause
	}
	return &endedContext{cause: cause, err: err}
}

// endedContext is the end of a context that was given a cause.
type endedContext struct{ cause, err error }

// Error gives the cause alone: that a context ended is what everybody says.
func (e *endedContext) Error() string { return e.cause.Error() }

// Unwrap returns both the cause and the context's own error.
func (e *endedContext) Unwrap() []error { return []error{e.cause, e.err} }

// errNilContext refuses a nil context, which would panic later.
var errNilContext = errors.New("the context is nil")

// baton is a lock that can be waited for with a time limit.
type baton struct{ free chan struct{} }

func newBaton() baton {
	b := baton{make(chan struct{}, 1)}
	b.free <- struct{}{}
	return b
}

// Unlock passes the baton on.
func (b baton) Unlock() { b.free <- struct{}{} }

// TryLock reports whether the baton was free.
func (b baton) TryLock() bool {
	select {
	case <-b.free:
		return true
	default:
		return false
	}
}

// LockContext waits for the baton until ctx ends.
func (b baton) LockContext(ctx context.Context) error {
	select {
	case <-b.free:
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	}
}

// callNames are the calls of foreign code that have not returned. The zero value
// is ready to use.
type callNames struct {
	mu     sync.Mutex
	names  map[int]string
	lastID int
}

// enter notes a call until it calls leave.
func (c *callNames) enter(name string) (leave func()) {
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

// sorted returns the names of the calls.
func (c *callNames) sorted() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Values(c.names))
}

// enter notes that this goroutine runs foreign code for the agent, until it
// calls leave. So Close can refuse to wait for itself, and name what it leaves
// behind.
func (a *Agent) enter(guard *callback.Guard, what string) (leave func()) {
	return a.enterAs(guard, callback.Self(), what)
}

// enterAs is enter for a goroutine that knows itself.
func (a *Agent) enterAs(guard *callback.Guard, self callback.ID, what string) (leave func()) {
	outside, returned := guard.Enter(self), a.foreign.enter(what)
	return func() {
		returned()
		outside()
	}
}

// logPanic logs a panic of what with its stack, if err is one.
func (a *Agent) logPanic(what string, err error) { logPanic(a.log, what, err) }

func logPanic(log *slog.Logger, what string, err error) {
	var p *panicError
	if errors.As(err, &p) {
		log.Error(what+" panicked", "error", err, "stack", string(p.stack))
	}
}

// within calls f and returns its error. One that does not return in time is left
// behind, in a goroutine of its own. A panic is an error.
func within(limit time.Duration, f func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errGoexit
		defer func() {
			if p := recover(); p != nil {
				err = &panicError{p, debug.Stack()}
			}
			done <- err
		}()
		err = f()
		touch(err)
	}()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		return ErrLeftBehind
	}
}
