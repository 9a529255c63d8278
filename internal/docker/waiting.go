package docker

import (
	"context"
	"time"
)

// tellWaitingAfter is how long Connect waits for an engine in silence.
const tellWaitingAfter = time.Second

type waitingKey struct{}

// WithWaiting returns a context with which [Connect] calls tell when an engine lets it
// wait, once for each that does, with the engine's address. Connect does not return
// while tell runs.
func WithWaiting(ctx context.Context, tell func(engine string)) context.Context {
	return context.WithValue(ctx, waitingKey{}, tell)
}

// tellWaiting tells whoever wants to know if the engine has not answered in a while,
// until end is called.
func (e endpoint) tellWaiting(ctx context.Context) (end func()) {
	tell, wanted := ctx.Value(waitingKey{}).(func(string))
	if !wanted {
		return func() {}
	}
	told := make(chan struct{})
	timer := time.AfterFunc(tellWaitingAfter, func() {
		defer close(told)
		tell(e.String())
	})
	return func() {
		if !timer.Stop() {
			<-told
		}
	}
}
