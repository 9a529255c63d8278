package budget

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
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

// NewRun returns the budget of a run with limits of its own, 0 for none. A run
// that another one started brings its account, to which the limits then apply
// as well; with nil a new account is made.
func NewRun[A Amount[A]](account *Account[A], limit Sums) *Run[A] {
	if account == nil {
		account = New[A](Sums{})
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
	case r.Spent():
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
func (r *Run[A]) OpenWithin(ask Sums, timeout time.Duration) (*Account[A], time.Duration, error) {
	if err := r.Check(); err != nil {
		return nil, timeout, err
	}
	if left := r.timeLeft(); left > 0 {
		timeout = min(timeout, left)
	}
	account, err := r.Open(ask)
	return account, timeout, err
}

// SpentInWords says where the tokens went, or the money, that the run can no
// longer spend, and the name of the limit.
func (r *Run[A]) SpentInWords() string {
	spent, limit, left := r.Own().Sums().plus(r.Below().Sums()), r.Limit(), r.Left()
	inTokens := limit[Tokens] > 0 && (left[Tokens] <= 0 || limit[Cost] == 0)
	aside := limit[Cost] - left[Cost] - spent[Cost]
	if inTokens {
		aside = limit[Tokens] - left[Tokens] - spent[Tokens]
	}
	switch {
	case inTokens && aside > 0:
		return fmt.Sprintf("%d tokens are used and %d reserved for running tasks, of %d (MaxTokens)", spent[Tokens], aside, limit[Tokens])
	case inTokens:
		return fmt.Sprintf("%d of %d tokens are used (MaxTokens)", spent[Tokens], limit[Tokens])
	case aside > 0:
		return fmt.Sprintf("the cost is %s, with %s reserved for running tasks; the limit is %s (MaxCost)", InWords(spent[Cost]), InWords(aside), InWords(limit[Cost]))
	}
	return fmt.Sprintf("the cost is %s; the limit is %s (MaxCost)", InWords(spent[Cost]), InWords(limit[Cost]))
}

// InWords is an amount of money for people: with two digits after the point, and
// as many more as a small amount needs.
func InWords(cost int64) string {
	digits := 2
	for least := int64(billion); digits < 9 && cost != 0 && cost < least; least /= 10 {
		digits++
	}
	return strconv.FormatFloat(Money(cost), 'f', digits, 64)
}
