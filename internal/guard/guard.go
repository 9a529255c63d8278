// Package guard calls functions that are not ours: tools, models, approvals,
// event handlers and runtimes that users give to an agent. A panic of theirs is
// an error, one that ends its goroutine is one too, and a function that does not
// return although its context ended is left behind. The loop and the tasks use
// it.
package guard

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/x/pygent/internal/callback"
)

// Grace is how long a function that ignores the end of its context is waited for.
const Grace = 5 * time.Second

// Errors to be tested with errors.Is.
var (
	// ErrGoexit is the error of a function that ended its goroutine, as the
	// FailNow of a test does, instead of returning.
	ErrGoexit = errors.New("it ended its goroutine instead of returning")
	// ErrLeftBehind is the error of a function that did not return in time.
	ErrLeftBehind = errors.New("did not end in time and is left behind")
)

// PanicError is the panic of a function that is not ours. Its words leave out
// the stack, which is for logs: they are shown to models and people.
type PanicError struct {
	Value any
	Stack []byte
}

// Panicked returns the error of a panic, whose deferred function calls it.
func Panicked(value any) *PanicError { return &PanicError{Value: value, Stack: debug.Stack()} }

// Error shows the value.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Do calls f and hands what it returns to done. done is called once, whatever f
// does: a panic is a [*PanicError], and the end of the goroutine is [ErrGoexit].
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

// Catch calls f and returns what it returns. A panic is a [*PanicError].
func Catch[T any](f func() (T, error)) (value T, err error) {
	Do(f, func(v T, e error) { value, err = v, e })
	return value, err
}

// Call calls f, and hands failed the error of a panic, or of the end of the
// goroutine.
func Call(f func(), failed func(error)) {
	Do(func() (struct{}, error) { f(); return struct{}{}, nil }, func(_ struct{}, err error) {
		if err != nil {
			failed(err)
		}
	})
}

// Outlive calls f in a goroutine of its own and returns what it returns. When
// ctx ends, f has [Grace] to notice. Past it, f is left to end by itself.
func Outlive[T any](ctx context.Context, f func() (T, error)) (T, error) {
	start := func(job func(callback.ID)) { go job(0) }
	return outlive(ctx, start, func(callback.ID) (T, error) { return f() })
}

// errLeft is found in the error of a function that outlive left behind.
var errLeft = errors.New("left behind")

// outlive is [Outlive] in a goroutine that start finds for a job.
func outlive[T any](ctx context.Context, start func(job func(callback.ID)), f func(self callback.ID) (T, error)) (T, error) {
	done := make(chan outcome[T], 1)
	start(func(self callback.ID) {
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

// Within calls f and returns its error. When f does not return in time, it is
// left to end by itself, and the error is [ErrLeftBehind].
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

// Touch panics if reading err would panic later: as with a nil pointer of an
// error type, which a function returned for no error.
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

// ContextError says why ctx ended: by its cause, in which errors.Is also finds
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

// Error gives the cause alone: that a context ended is what everybody says.
func (e *endedContext) Error() string { return e.cause.Error() }

// Unwrap returns both the cause and the context's own error.
func (e *endedContext) Unwrap() []error { return []error{e.cause, e.err} }
