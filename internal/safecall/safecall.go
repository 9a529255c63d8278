// Package safecall calls foreign functions: tools, models, approvals, event
// handlers and runtimes that users give to an agent. A panic in such a function
// becomes an error, and so does the end of its goroutine. A function that does
// not return after its context ended is left behind. The loop and the tasks use
// it.
//
// A method that waits for callbacks to return would wait for itself if one of them called
// it: with a [Reentry] it can return an error instead. A [Pausable] makes time limits that
// can be paused, for instance while a user is asked something. A [Poller] calls a function
// again and again, beside what its owner does.
package safecall

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// Grace is how long to wait for a function that ignores the end of its context.
const Grace = 5 * time.Second

// Errors to be tested with errors.Is.
var (
	// ErrGoexit is the error of a function that ended its goroutine, as the
	// FailNow of a test does, instead of returning.
	ErrGoexit = errors.New("it ended its goroutine instead of returning")
	// ErrLeftBehind is the error of a function that did not return in time.
	ErrLeftBehind = errors.New("did not end in time and is left behind")
)

// PanicError is a panic of a foreign function. Its text is shown to models and
// people, so it leaves out the stack, which is for logs.
type PanicError struct {
	Value any
	Stack []byte
}

// Panicked returns the error of a panic. Call it in the deferred function that
// recovers.
func Panicked(value any) *PanicError { return &PanicError{Value: value, Stack: debug.Stack()} }

// Error shows the value.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Do calls f and passes its results to done. done is called exactly once,
// whatever f does: after a panic with a [*PanicError], and after the end of the
// goroutine with [ErrGoexit].
func Do[T any](f func() (T, error), done func(T, error)) {
	var value T
	err := ErrGoexit
	defer func() {
		if p := recover(); p != nil {
			err = Panicked(p)
		}
		done(value, err)
	}()
	value, err = f()
	Touch(err)
}

// Catch calls f and returns its results. A panic becomes a [*PanicError].
func Catch[T any](f func() (T, error)) (value T, err error) {
	Do(f, func(v T, e error) { value, err = v, e })
	return value, err
}

// Call calls f, and calls failed with the error if f panics or ends its
// goroutine.
func Call(f func(), failed func(error)) {
	Do(func() (struct{}, error) { f(); return struct{}{}, nil }, func(_ struct{}, err error) {
		if err != nil {
			failed(err)
		}
	})
}

// Outlive calls f in a goroutine of its own and returns its results. When ctx
// ends, f has [Grace] to return. After that f is left behind.
func Outlive[T any](ctx context.Context, f func() (T, error)) (T, error) {
	start := func(job func(Goroutine)) { go job(0) }
	return outlive(ctx, start, func(Goroutine) (T, error) { return f() })
}

// errLeft is part of the error for a function that outlive left behind.
var errLeft = errors.New("left behind")

// outlive is [Outlive] with a function start that runs a job in some goroutine.
func outlive[T any](ctx context.Context, start func(job func(Goroutine)), f func(self Goroutine) (T, error)) (T, error) {
	done := make(chan outcome[T], 1)
	start(func(self Goroutine) {
		Do(func() (T, error) { return f(self) }, func(v T, err error) { done <- outcome[T]{v, err} })
	})
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
	}
	o, err := waitAtMost(Grace, done)
	if err != nil {
		o.err = fmt.Errorf("%w; it did not react within %s and was %w", ContextError(ctx), Grace, errLeft)
	}
	return o.value, o.err
}

// Within calls f and returns its error. If f does not return in time, it is
// left behind and the error is [ErrLeftBehind].
func Within(limit time.Duration, f func() error) error {
	done := make(chan outcome[struct{}], 1)
	go Do(func() (struct{}, error) { return struct{}{}, f() }, func(_ struct{}, err error) { done <- outcome[struct{}]{err: err} })
	o, err := waitAtMost(limit, done)
	if err != nil {
		return err
	}
	return o.err
}

// outcome is what a function returned.
type outcome[T any] struct {
	value T
	err   error
}

func waitAtMost[T any](limit time.Duration, done <-chan T) (outcome T, err error) {
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case outcome = <-done:
		return outcome, nil
	case <-late.C:
		return outcome, ErrLeftBehind
	}
}

// Touch panics if reading err would panic later, as with a nil pointer of an
// error type that a function returned for no error.
func Touch(err error) {
	if err == nil {
		return
	}
	_ = err.Error()
	errors.Is(err, context.Canceled)
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		Touch(err.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range err.Unwrap() {
			Touch(one)
		}
	}
}

// ContextError returns why ctx ended: its cause. The error also matches
// context.Canceled or context.DeadlineExceeded.
func ContextError(ctx context.Context) error {
	cause, err := context.Cause(ctx), ctx.Err()
	if cause == nil || errors.Is(cause, err) {
		return cause
	}
	return &endedContext{cause: cause, err: err}
}

// endedContext is the end of a context that was given a cause.
type endedContext struct{ cause, err error }

// Error shows only the cause, since the context's own error adds nothing.
func (e *endedContext) Error() string { return e.cause.Error() }

// Unwrap returns both the cause and the context's own error.
func (e *endedContext) Unwrap() []error { return []error{e.cause, e.err} }
