package starlimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.starlark.net/starlark"
)

// Limits are those of one call of a program. A zero field is no limit.
type Limits struct {
	Steps  uint64        // of the interpreter: about one for an operation
	Time   time.Duration // that the program itself takes; the host's functions do not count: see [Pause]
	Memory int64         // bytes of all values that are made, garbage too

	// Over, if set, is called when the program is ended, with the reason. It still
	// runs then, until its current step is done.
	Over func(why error)
}

// LimitError says which limit a program has reached.
type LimitError struct{ What string }

func (e *LimitError) Error() string { return e.What }

// account is what a thread may still use.
type account struct {
	memory  int64 // bytes left
	limited bool  // whether memory is limited
	limits  Limits

	mu    sync.Mutex
	timer *time.Timer   // nil if time is not limited, and while the clock stands
	left  time.Duration // until the time is over, when the clock last stood
	since time.Time     // when it last began to run
	over  error         // why the thread was cancelled
}

const accountKey = "starlimit.account"

func accountOf(thread *starlark.Thread) *account {
	a, _ := thread.Local(accountKey).(*account)
	return a
}

// Do calls f with a thread that ends at the limits, or with ctx. A program whose last
// step takes it over a limit has reached it, too. f must use the
// thread only until it returns. The error of a program that was ended is a
// [*LimitError] or the cause of ctx, wrapped in a [*starlark.EvalError] if the
// program was at some place then.
func Do(ctx context.Context, thread *starlark.Thread, l Limits, f func() error) error {
	a := &account{memory: l.Memory, limited: l.Memory > 0, limits: l, left: l.Time}
	thread.SetLocal(accountKey, a)
	if l.Steps > 0 {
		thread.SetMaxExecutionSteps(thread.Steps + l.Steps)
		thread.OnMaxSteps = func(t *starlark.Thread) {
			a.end(t, &LimitError{fmt.Sprintf("it took more than %d steps", l.Steps)})
		}
	}
	stop := context.AfterFunc(ctx, func() { a.end(thread, context.Cause(ctx)) })
	defer stop()
	if ctx.Err() != nil { // AfterFunc calls beside the program, which may be fast
		a.end(thread, context.Cause(ctx))
	}
	a.run(thread)
	err := f()
	a.pause()
	a.mu.Lock()
	over := a.over
	a.mu.Unlock()
	if limit := (*LimitError)(nil); over == nil || err == nil && !errors.As(over, &limit) {
		return err
	}
	if at := (*starlark.EvalError)(nil); errors.As(err, &at) {
		return &endedError{at, over}
	}
	return over
}

// endedError is the error of a program that was ended at some place.
type endedError struct {
	at  *starlark.EvalError
	why error
}

func (e *endedError) Error() string   { return e.why.Error() }
func (e *endedError) Unwrap() []error { return []error{e.why, e.at} }

// end cancels the thread. The first reason counts.
func (a *account) end(thread *starlark.Thread, why error) {
	a.mu.Lock()
	first := a.over == nil
	if first {
		a.over = why
	}
	a.mu.Unlock()
	thread.Cancel(why.Error())
	if first && a.limits.Over != nil {
		a.limits.Over(why)
	}
}

// run lets the clock run.
func (a *account) run(thread *starlark.Thread) {
	if a.limits.Time <= 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.since = time.Now()
	a.timer = time.AfterFunc(a.left, func() {
		a.end(thread, &LimitError{fmt.Sprintf("it took more than %s", a.limits.Time)})
	})
}

func (a *account) pause() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
		a.timer, a.left = nil, max(a.left-time.Since(a.since), time.Nanosecond)
	}
}

// Pause stops the clock of a program while a function of the host works for it, until
// resume is called.
func Pause(thread *starlark.Thread) (resume func()) {
	a := accountOf(thread)
	if a == nil {
		return func() {}
	}
	a.pause()
	return func() { a.run(thread) }
}

// Charge takes the bytes of a value that is about to be made from what the program
// may still use, and the time for it from its steps.
func Charge(thread *starlark.Thread, bytes int64) error {
	if bytes < 0 { // an overflow
		bytes = maxCost
	}
	thread.Steps += uint64(bytes / bytesPerStep)
	a := accountOf(thread)
	if a == nil || !a.limited {
		return nil
	}
	if bytes > a.memory {
		return a.tooMuch()
	}
	a.memory -= bytes
	return nil
}

func (a *account) tooMuch() error {
	return &LimitError{fmt.Sprintf("it makes values of more than %d MiB", a.limits.Memory>>20)}
}

// bytesPerStep is how many bytes are made in about the time of a step.
const bytesPerStep = 256
