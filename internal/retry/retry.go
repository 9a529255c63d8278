// Package retry says whether, and after which pause, a call that failed is made again. A
// server that is overloaded, or away for a moment, is waited out by time: whoever started
// a long piece of work wants it to go on when the server is back. Any other failure that
// may pass is tried again a few times, since it most often comes again.
package retry

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/x/pygent/internal/safecall"
)

// Policy says how often and how long. Zero and negative fields have their default, but a
// negative MaxWait is no limit.
type Policy struct {
	MaxAttempts int           // calls in all; by default 5, of which overloads do not count
	BaseDelay   time.Duration // the first pause; it doubles each time; default 1 s
	MaxDelay    time.Duration // the longest pause that the server does not ask for; default 30 s
	MaxWait     time.Duration // that overloads in a row are waited out; default 5 minutes
}

// The defaults of a [Policy].
const (
	maxAttempts = 5
	baseDelay   = time.Second
	maxDelay    = 30 * time.Second
	maxWait     = 5 * time.Minute
)

// Failure is what is known of a call that failed.
type Failure struct {
	Err      error
	Passes   bool          // the same call may succeed later
	Overload bool          // since the server is overloaded, or cannot be reached at the moment
	After    time.Duration // how long the server asks to wait; 0 when it does not
}

// Calls are the attempts at one call. One goroutine uses it.
type Calls struct {
	policy   Policy
	counts   bool // overloads count as attempts, too
	attempts int
	failures int       // that are no overload
	since    time.Time // the first failure, or the last that is no overload: an answer may have broken off after minutes
}

// Begin returns the attempts at a call.
func (p Policy) Begin() *Calls {
	c := &Calls{counts: p.MaxAttempts > 0}
	c.policy = Policy{
		MaxAttempts: cmp.Or(max(p.MaxAttempts, 0), maxAttempts),
		BaseDelay:   cmp.Or(max(p.BaseDelay, 0), baseDelay),
		MaxDelay:    cmp.Or(max(p.MaxDelay, 0), maxDelay),
		MaxWait:     cmp.Or(p.MaxWait, maxWait),
	}
	return c
}

// Next says when a call is made again, and how long that goes on.
type Next struct {
	Wait  time.Duration // the pause before
	Left  time.Duration // that an overload is waited out; 0 where that has no limit
	Tries int           // that are left, which end it whatever Left is; 0 where time alone does
}

// Failed takes a failure. It returns what comes next, or the error with which to give up.
func (c *Calls) Failed(ctx context.Context, f Failure) (next Next, err error) {
	if c.attempts++; c.attempts == 1 || !f.Overload {
		c.since = time.Now()
	}
	if !f.Overload {
		c.failures++
	}
	if !f.Passes || ctx.Err() != nil {
		return next, f.Err
	}
	if count := c.count(); count >= c.policy.MaxAttempts {
		if count > 1 {
			return next, fmt.Errorf("%w (gave up after %d attempts)", f.Err, c.attempts)
		}
		return next, f.Err
	}
	left := c.left()
	if left == 0 {
		return next, fmt.Errorf("%w (gave up after %s; %s)",
			f.Err, time.Since(c.since).Round(time.Second), waitsLonger)
	}
	budget := left
	if deadline, ok := safecall.Deadline(ctx); ok {
		budget = min(budget, time.Until(deadline))
	}
	wait := f.After
	if wait <= 0 || c.attempts >= maxAttempts { // a server that says "1 ms" each time is not asked thousands of times
		wait = max(wait, min(c.policy.delay(c.attempts), left, max(budget/2, c.policy.BaseDelay)))
	}
	if wait > budget && f.After <= 0 {
		return next, fmt.Errorf("%w (no time remains for another attempt)", f.Err)
	}
	if wait > left && budget == left {
		return next, fmt.Errorf("%w (the server allows a retry %s, which is too late; %s)", f.Err, when(wait), waitsLonger)
	}
	if wait > budget {
		return next, fmt.Errorf("%w (the server allows a retry %s, which is too late)", f.Err, when(wait))
	}
	next.Wait = wait
	if c.policy.MaxWait > 0 {
		next.Left = left
	}
	if c.counts || !f.Overload {
		next.Tries = c.policy.MaxAttempts - c.count()
	}
	return next, nil
}

// count is how many attempts count for the limit.
func (c *Calls) count() int {
	if c.counts {
		return c.attempts
	}
	return c.failures
}

// endless is the time that is left without a limit.
const endless = time.Duration(1<<63 - 1)

// left is how long it may still be tried.
func (c *Calls) left() time.Duration {
	if c.policy.MaxWait < 0 {
		return endless
	}
	return max(c.policy.MaxWait-time.Since(c.since), 0)
}

// waitsLonger says where the time is set.
const waitsLonger = "to wait longer, set --retry-time, PYGENT_RETRY_TIME, retry_time or RetryPolicy.MaxWait"

// when describes how far away a time is, and gives the time of day if that is
// less than a day away.
func when(wait time.Duration) string {
	const day = 24 * time.Hour
	if wait >= day {
		return fmt.Sprintf("in %d days or more", wait/day)
	}
	return fmt.Sprintf("in %s, at %s", wait.Round(time.Second), time.Now().Add(wait).Format(time.TimeOnly))
}

// delay doubles from attempt to attempt; its upper half is random, so that
// agents that failed together do not return together.
func (p Policy) delay(attempt int) time.Duration {
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

// Sleep waits for d. It returns an error when ctx ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return safecall.ContextError(ctx)
	}
}
