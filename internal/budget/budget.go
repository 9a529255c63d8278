// Package budget keeps the account of what a run may spend, in tokens and in
// money, together with the runs that it starts. Each of those has an account of its own, whose limit is
// set aside in the account above it. At the end of the run the account is
// settled: what is left returns to the one above. So all of them together never
// spend more than the first one's limit, except for the last call of each,
// which may cross its limit. The limits of tokens and of money hold both.
package budget

import (
	"errors"
	"sync"
)

// ErrSpent refuses to open an account when the one above has nothing left.
var ErrSpent = errors.New("the budget of the run is used up")

// quarter is the divisor for the share of a limit that is set aside for an
// account that asks for no specific amount.
const quarter = 4

// Amount is something that is spent. Limits apply to its Sums.
type Amount[A any] interface {
	Add(A) A
	Sums() Sums
}

// Account is what one run spends. It is safe for concurrent use.
type Account[A Amount[A]] struct {
	mu      *sync.Mutex              // of the whole tree; guards what follows
	limit   Sums                     // 0 is none
	own     A                        // spent by the run itself
	below   A                        // spent by accounts that are settled
	open    map[*Account[A]]struct{} // those that are not
	above   *Account[A]              // nil for the first
	settled bool
}

// New returns an account without one above it. A limit of 0 means none.
func New[A Amount[A]](limit Sums) *Account[A] {
	return &Account[A]{mu: new(sync.Mutex), limit: limit}
}

// Open sets aside what an account below a may spend, of each kind that a has a
// limit of: what it asks for, or else a quarter of a's limit, but at most half of
// what is left. An account that asks for more than is left gets what is left. Where
// a has no limit, one that asks for [All] has none either.
// Settle it when its run ends. If a is settled before, the account above a takes
// its place.
func (a *Account[A]) Open(ask Sums) (*Account[A], error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.settled {
		a = a.above
	}
	left := a.left()
	for i, limit := range a.limit {
		if limit == 0 {
			if ask[i] == All {
				ask[i] = 0
			}
			continue
		}
		if ask[i] == 0 {
			ask[i] = min(limit/quarter+min(limit%quarter, 1), left[i]/2+left[i]%2)
		}
		if ask[i] = min(ask[i], left[i]); ask[i] <= 0 {
			return nil, ErrSpent
		}
	}
	b := &Account[A]{mu: a.mu, limit: ask}
	a.adopt(b)
	return b, nil
}

// Settle closes an account: the one above it records what was spent and gets
// back the rest. Accounts below it that are still open move to the one above.
func (a *Account[A]) Settle() {
	a.mu.Lock()
	defer a.mu.Unlock()
	up := a.above
	if up == nil || a.settled {
		return
	}
	up.below = up.below.Add(a.own).Add(a.below)
	for b := range a.open {
		up.adopt(b)
	}
	delete(up.open, a)
	a.settled, a.open = true, nil
}

// adopt makes b an open account below a. The caller holds mu.
func (a *Account[A]) adopt(b *Account[A]) {
	if a.open == nil {
		a.open = map[*Account[A]]struct{}{}
	}
	a.open[b], b.above = struct{}{}, a
}

// Spend records the total that the run itself has spent so far.
func (a *Account[A]) Spend(own A) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.own = own
}

// SpendBelow adds what accounts below have spent that are settled, and unknown here.
func (a *Account[A]) SpendBelow(spent A) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.below = a.below.Add(spent)
}

// Lower lowers the limits to the run's own; 0 means the run has none.
func (a *Account[A]) Lower(limit Sums) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, n := range limit {
		if n > 0 && (a.limit[i] == 0 || n < a.limit[i]) {
			a.limit[i] = n
		}
	}
}

// Limit is the most that may be spent; 0 means no limit.
func (a *Account[A]) Limit() Sums {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limit
}

// Left is how much may still be spent or set aside. It is zero or negative when
// nothing is left, and meaningless without a limit.
func (a *Account[A]) Left() Sums {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.left()
}

// Spent reports whether nothing is left of a limit.
func (a *Account[A]) Spent() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	left := a.left()
	for i, limit := range a.limit {
		if limit > 0 && left[i] <= 0 {
			return true
		}
	}
	return false
}

// Own is how much the run itself has spent.
func (a *Account[A]) Own() A {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.own
}

// Below is how much the accounts below have spent so far.
func (a *Account[A]) Below() A {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.spentBelow()
}

func (a *Account[A]) spentBelow() A {
	sum := a.below
	for b := range a.open {
		sum = sum.Add(b.own).Add(b.spentBelow())
	}
	return sum
}

// left is Left. The caller holds mu.
func (a *Account[A]) left() Sums {
	left := a.limit
	for i, n := range a.committed() {
		left[i] -= n
	}
	return left
}

// committed is the amount spent or set aside. The caller holds mu.
func (a *Account[A]) committed() Sums {
	sum := a.own.Sums().plus(a.below.Sums())
	for b := range a.open {
		sum = sum.plus(b.limit.larger(b.committed()))
	}
	return sum
}
