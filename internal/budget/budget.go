// Package budget keeps the account of what a run may spend together with the
// runs that it starts. Each of those has an account of its own, whose limit is
// set aside in the account above it, and is settled at its end: what is left
// goes back. So all of them together never spend more than the first one's
// limit, but for the call of each that is in flight when it reaches its own.
package budget

import (
	"errors"
	"sync"
)

// ErrSpent refuses an account above which nothing is left.
var ErrSpent = errors.New("the budget of the run is spent")

// quarter is the share of a limit that is set aside for an account that asks
// for nothing in particular.
const quarter = 4

// Amount is something that is spent. Total is what a limit counts.
type Amount[A any] interface {
	Add(A) A
	Total() int64
}

// Account is what one run spends. It is safe for concurrent use.
type Account[A Amount[A]] struct {
	mu      *sync.Mutex              // of the whole tree; guards what follows
	limit   int64                    // 0 is none
	own     A                        // spent by the run itself
	below   A                        // spent by accounts that are settled
	open    map[*Account[A]]struct{} // those that are not
	above   *Account[A]              // nil for the first
	settled bool
}

// New returns an account that is below no other. Limit 0 is none.
func New[A Amount[A]](limit int64) *Account[A] {
	return &Account[A]{mu: new(sync.Mutex), limit: limit}
}

// Open sets aside what an account below a may spend: what it asks for, else a
// quarter of a's limit, but no more than half of what is left. An account that
// asks for more than there is gets what there is. Settle it when its run ends.
// When a is settled itself, the account above takes its place.
func (a *Account[A]) Open(ask int64) (*Account[A], error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.settled {
		a = a.above
	}
	limit := ask
	if a.limit > 0 {
		left := a.limit - a.committed()
		if limit == 0 {
			limit = min((a.limit+quarter-1)/quarter, (left+1)/2)
		}
		if limit = min(limit, left); limit <= 0 {
			return nil, ErrSpent
		}
	}
	b := &Account[A]{mu: a.mu, limit: limit}
	a.adopt(b)
	return b, nil
}

// Settle closes an account: the one above it notes what it spent, and has the
// rest back. Accounts below it that are still open go over to the one above.
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

// Spend notes all that the run itself has spent so far.
func (a *Account[A]) Spend(own A) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.own = own
}

// Lower lowers the limit to one of the run's own; 0 is none.
func (a *Account[A]) Lower(limit int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if limit > 0 && (a.limit == 0 || limit < a.limit) {
		a.limit = limit
	}
}

// Limit is what may be spent; 0 is no limit.
func (a *Account[A]) Limit() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limit
}

// Left is what may still be spent or set aside. It is not positive when nothing
// is, and without meaning when there is no limit.
func (a *Account[A]) Left() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.limit - a.committed()
}

// Own is what the run itself has spent.
func (a *Account[A]) Own() A {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.own
}

// Below is what the accounts below have spent so far.
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

// committed is what is spent or set aside. The caller holds mu.
func (a *Account[A]) committed() int64 {
	sum := a.own.Total() + a.below.Total()
	for b := range a.open {
		sum += max(b.limit, b.committed())
	}
	return sum
}
