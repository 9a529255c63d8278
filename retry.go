package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/x/pygent/internal/pause"
)

// RetryPolicy says how often, and after which pauses, a model call that failed
// for a passing reason is repeated. Only model calls are ever repeated. A field
// that is not positive has its default.
type RetryPolicy struct {
	MaxAttempts int           // calls in all, default 5; 1 never repeats
	BaseDelay   time.Duration // the pause after the first failure, default 1 s; it doubles each time
	MaxDelay    time.Duration // the longest pause that the provider did not ask for, default 30 s
}

func (p RetryPolicy) withDefaults() RetryPolicy {
	return RetryPolicy{
		MaxAttempts: cmp.Or(max(p.MaxAttempts, 0), 5),
		BaseDelay:   cmp.Or(max(p.BaseDelay, 0), time.Second),
		MaxDelay:    cmp.Or(max(p.MaxDelay, 0), 30*time.Second),
	}
}

// maxRetryAfter is the longest wait that a provider may ask for when no time
// limit is set: past it a person should decide.
const maxRetryAfter = 10 * time.Minute

// next returns the pause after the failed attempt, or an error when the call
// must not be repeated.
func (p RetryPolicy) next(ctx context.Context, attempt int, err error) (time.Duration, error) {
	var api *APIError
	if !errors.As(err, &api) || !api.Retryable || ctx.Err() != nil {
		return 0, err
	}
	if attempt >= p.MaxAttempts {
		if attempt > 1 {
			err = fmt.Errorf("%w (gave up after %d attempts)", err, attempt)
		}
		return 0, err
	}
	wait := p.delay(attempt)
	if api.RetryAfter > 0 {
		wait = api.RetryAfter
	}
	budget := maxRetryAfter
	if deadline, ok := pause.Deadline(ctx); ok {
		budget = time.Until(deadline)
	}
	if wait > budget {
		return 0, fmt.Errorf("%w (a retry is possible %s, past the time that is left)", err, when(wait))
	}
	return wait, nil
}

// when says how far away a time is, and when that is, if it is today's concern.
func when(wait time.Duration) string {
	const day = 24 * time.Hour
	if wait >= day {
		return fmt.Sprintf("in %d days or more", wait/day)
	}
	return fmt.Sprintf("in %s, at %s", wait.Round(time.Second), time.Now().Add(wait).Format(time.TimeOnly))
}

// delay doubles from attempt to attempt; its upper half is random, so that
// agents that failed together do not return together.
func (p RetryPolicy) delay(attempt int) time.Duration {
	d := p.BaseDelay
	for i := 1; i < attempt; i++ {
		if d > p.MaxDelay/2 {
			d = p.MaxDelay
			break
		}
		d *= 2
	}
	d = min(d, p.MaxDelay)
	return d/2 + rand.N(d/2+1)
}

// sleep waits for d, or says why ctx ended.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	}
}
