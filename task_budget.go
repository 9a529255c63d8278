package pygent

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/x/pygent/internal/budget"
)

var errTimeOver = errors.New("the time of the run is over")

// taskBudget is what a run may spend together with the tasks it delegates. Nil
// bounds nothing.
type taskBudget struct {
	*budget.Account[Usage]
	deadline time.Time   // of the run; zero when it has none
	over     atomic.Bool // the run is
}

// newTaskBudget returns the budget of a run. A run of a task has an account
// already, in which its own limit counts as well.
func newTaskBudget(o runOptions) *taskBudget {
	account := o.account
	if account == nil {
		account = budget.New[Usage](0)
	}
	account.Lower(o.MaxTokens)
	return &taskBudget{Account: account}
}

// timeLeft is how long the run may still take; zero when it has no deadline.
func (b *taskBudget) timeLeft() time.Duration {
	if b.deadline.IsZero() {
		return 0
	}
	return cmp.Or(time.Until(b.deadline), -1)
}

// check refuses a task that could not make a step.
func (b *taskBudget) check() error {
	switch {
	case b == nil:
		return nil
	case b.timeLeft() < 0:
		return errTimeOver
	case b.Limit() > 0 && b.Left() <= 0:
		return budget.ErrSpent
	}
	return nil
}

// taskGrant is what one run of a task may spend.
type taskGrant struct {
	tokens  *budget.Account[Usage] // to be settled
	timeout time.Duration
}

// grant sets aside what a run of a task may spend. The first run of a task
// counts among what the run that delegated it spends; a further one, which a
// message sets going, only while that run goes on.
func (m *TaskManager) grant(spec TaskSpec, first bool) (taskGrant, error) {
	g := taskGrant{timeout: cmp.Or(spec.Limits.MaxTime, DefaultTaskMaxTime)}
	var b *taskBudget
	if r := m.record(spec.ID); r != nil {
		b = r.budget
	}
	if b == nil || !first && b.over.Load() {
		g.tokens = budget.New[Usage](spec.Limits.MaxTokens)
		return g, nil
	}
	if err := b.check(); err != nil {
		return g, err
	}
	if left := b.timeLeft(); left > 0 {
		g.timeout = min(g.timeout, left)
	}
	var err error
	g.tokens, err = b.Open(spec.Limits.MaxTokens)
	return g, err
}

// spentInWords tells where the tokens are that a run may not spend any more.
func (b *taskBudget) spentInWords() string {
	spent, limit := b.Own().Total()+b.Below().Total(), b.Limit()
	if aside := limit - b.Left() - spent; aside > 0 {
		return fmt.Sprintf("%d tokens are spent and %d set aside for tasks at work, of %d", spent, aside, limit)
	}
	return fmt.Sprintf("%d tokens are spent, of %d", spent, limit)
}
