package docker

import (
	"context"
	"time"

	"github.com/x/pygent/internal/safecall"
)

// silence is how long an engine and a container are waited for before that is told.
const silence = time.Second

// afterSilence calls tell if something takes longer, until end is called, which waits for
// tell.
func afterSilence(tell func()) (end func()) { return safecall.Late(silence, tell) }

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
	return afterSilence(func() { tell(e.String()) })
}
