package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docker/docker/client"
)

// How long an engine is waited for. One that is busy, as when fifty containers start at
// once, still answers a ping: it is slow, and not silent.
const (
	engineTimeout = 30 * time.Second // one request without a sign of life
	sendTimeout   = 5 * time.Minute  // one that sends much, perhaps over a slow line
	busyTime      = 5 * time.Minute  // one request, while the engine answers pings
	lateTime      = 2 * time.Second  // a request that the caller has given up, but must not leave half way
	signTime      = 5 * time.Second  // a ping, after which an engine counts as silent
	signEvery     = 5 * time.Second  // between pings
)

var (
	// errEngineSilent is the error of an engine that takes requests but does not answer.
	errEngineSilent = errors.New("the engine does not answer")
	// errEngineBusy is the error of an engine that answers pings, but not the request.
	errEngineBusy = fmt.Errorf("the engine answers pings, but has not done what it was asked in %s: is it overloaded?", busyTime)
	// errEngineLate is the error of an engine that had less time than it may need.
	errEngineLate = errors.New("the engine has not answered in time")
)

// ask makes a request to an engine, which is given up when the engine is silent, or busy
// for too long.
func ask(ctx context.Context, engine *client.Client, request func(context.Context) error) error {
	return askFor(ctx, engine, engineTimeout, request)
}

func askFor(ctx context.Context, engine *client.Client, within time.Duration, request func(context.Context) error) error {
	limited, end := whileAnswering(ctx, engine, within)
	defer end()
	err := request(limited)
	if err == nil {
		stateOf(engine).silent.Store(false)
	}
	return engineWords(limited, err)
}

// whileAnswering returns a context for a request to an engine. It ends with
// [errEngineSilent] once the request has taken longer than within and the engine does not
// answer a ping either, and with [errEngineBusy] when it only answers those. An engine that
// was silent the last time is pinged sooner. end must be called; it waits for the pings.
func whileAnswering(ctx context.Context, engine *client.Client, within time.Duration) (_ context.Context, end func()) {
	limited, cancel := context.WithCancelCause(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		state := stateOf(engine)
		wait := time.NewTimer(state.pingAfter(within))
		defer wait.Stop()
		for begun := time.Now(); ; wait.Reset(signEvery) {
			select {
			case <-limited.Done():
				return
			case <-wait.C:
			}
			alive := answers(limited, engine, min(within, signTime))
			if limited.Err() != nil {
				return
			}
			state.silent.Store(!alive)
			switch {
			case !alive:
				cancel(errEngineSilent)
			case time.Since(begun) >= max(busyTime, within):
				cancel(errEngineBusy)
			}
		}
	}()
	return limited, func() {
		cancel(nil)
		<-over
	}
}

// answers reports whether an engine answers a ping in time.
func answers(ctx context.Context, engine *client.Client, within time.Duration) bool {
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err := engine.Ping(limited)
	return err == nil
}

// engineWords rewords the error of a request that a context of [whileAnswering], or a
// deadline, has ended. Otherwise the end of that time would look like a time limit of the
// caller's.
func engineWords(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	for _, cause := range []error{errEngineSilent, errEngineBusy} {
		if context.Cause(ctx) == cause {
			return cause
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errEngineLate
	}
	return err
}

// leftError is why something may be left on an engine.
type leftError struct {
	error
	container string // that could not be removed; empty for what the engine may yet make
}

// Unwrap returns the cause.
func (e leftError) Unwrap() error { return e.error }

// askWhole makes a request that is not given up half way when ctx ends, since the engine
// would go on and make what nobody knows of. Then the engine has a moment to answer. If it
// does not, the error says what may be left, and undo removes that if the answer comes
// while this process lives.
func askWhole(ctx context.Context, engine *client.Client, what string, request, undo func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	answered := make(chan error, 1)
	go func() { answered <- ask(context.WithoutCancel(ctx), engine, request) }()
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-answered:
		return err
	case <-time.After(lateTime):
	}
	go func() {
		if <-answered == nil {
			late, cancel := context.WithTimeout(context.Background(), cleanupTime)
			defer cancel()
			_ = undo(late) // what is left is swept by the next process
		}
	}()
	return errors.Join(ctx.Err(), leftError{error: fmt.Errorf("%s may be left: %w", what, errEngineLate)})
}
