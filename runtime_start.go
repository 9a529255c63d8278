package pygent

import (
	"context"
	"errors"
	"sync"
)

// whileStarting returns a context for asking the model, which ends with the error of
// the runtime's start if that fails for good, as [WithEndOnStartFailure] says; the error
// comes at once if it has failed. end must be called.
func (r *run) whileStarting(ctx context.Context) (_ context.Context, end func(), err error) {
	rt, ours := RuntimeAs[*workspaceRuntime](r.agent.runtime)
	if !r.opts.startEnds || !ours || !r.offers("bash") {
		return ctx, func() {}, nil
	}
	await, err := rt.Starting()
	switch {
	case errors.Is(err, ErrRuntimeStart):
		return nil, nil, err
	case await == nil:
		return ctx, func() {}, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var waits sync.WaitGroup
	waits.Go(func() {
		if err := await(ctx); errors.Is(err, ErrRuntimeStart) {
			cancel(err)
		}
	})
	return ctx, func() {
		cancel(nil)
		waits.Wait()
	}, nil
}

// startFailure returns the error of a start that ended a context of whileStarting,
// or nil.
func startFailure(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrRuntimeStart) {
		return cause
	}
	return nil
}
