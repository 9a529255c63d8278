package pygent

import (
	"context"
	"time"

	"github.com/x/pygent/internal/guard"
)

// Short names for what package guard has. New code calls the package itself.

type baton = guard.Baton

var errGoexit = guard.ErrGoexit

func newBaton() baton { return guard.NewBaton() }

func contextError(ctx context.Context) error { return guard.ContextError(ctx) }

func within(limit time.Duration, f func() error) error { return guard.Within(limit, f) }

func outlive[T any](ctx context.Context, f func() (T, error)) (T, error) {
	return guard.Outlive(ctx, f)
}
