package budget

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ErrTime refuses to open an account in a run whose time is over.
var ErrTime = errors.New("the time of the run is over")

// Run is what a run may spend, in amounts and in time, together with the runs
// that it starts. A nil Run has no limits.
type Run[A Amount[A]] struct {
	*Account[A]
	Deadline time.Time // zero when it has none; set before the run starts others
	over     atomic.Bool
}

// NewRun returns the budget of a run with a limit of its own, 0 for none. A run
// that another one started brings its account, to which the limit then applies
// as well; with nil a new account is made.
func NewRun[A Amount[A]](account *Account[A], limit int64) *Run[A] {
	if account == nil {
		account = New[A](0)
	}
	account.Lower(limit)
	return &Run[A]{Account: account}
}

// End marks the run as over.
func (r *Run[A]) End() { r.over.Store(true) }

// Over reports whether the run is over.
func (r *Run[A]) Over() bool { return r.over.Load() }

// Check returns why the run can start no further run, or nil if it can.
func (r *Run[A]) Check() error {
	switch {
	case r == nil:
		return nil
	case r.timeLeft() < 0:
		return ErrTime
	case r.Limit() > 0 && r.Left() <= 0:
		return ErrSpent
	}
	return nil
}

// timeLeft is how long the run may still take; zero when it has no deadline.
func (r *Run[A]) timeLeft() time.Duration {
	if r.Deadline.IsZero() {
		return 0
	}
	return cmp.Or(time.Until(r.Deadline), -1)
}

// OpenWithin is Open. It also cuts the time that the other run asks for to what
// this one has left.
func (r *Run[A]) OpenWithin(ask int64, timeout time.Duration) (*Account[A], time.Duration, error) {
	if err := r.Check(); err != nil {
		return nil, timeout, err
	}
	if left := r.timeLeft(); left > 0 {
		timeout = min(timeout, left)
	}
	account, err := r.Open(ask)
	return account, timeout, err
}

// SpentInWords says where the tokens went that the run can no longer spend.
func (r *Run[A]) SpentInWords() string {
	spent, limit := r.Own().Total()+r.Below().Total(), r.Limit()
	if aside := limit - r.Left() - spent; aside > 0 {
		return fmt.Sprintf("%d tokens are spent and %d set aside for tasks at work, of %d", spent, aside, limit)
	}
	return fmt.Sprintf("%d tokens are spent, of %d", spent, limit)
}
