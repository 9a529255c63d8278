// Package crew carries out tasks in this process: a limited number at once, and
// the others in the order in which they came. It manages the life of a task: it
// waits for room, runs, rests, runs again at the next message, and is removed.
// What a run does is up to the [Task]. Package pygent has agents work on tasks
// with it.
package crew

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Errors of a crew.
var (
	// ErrUnknown is returned for an id that no task has.
	ErrUnknown = errors.New("no such task")
	// ErrNoRoom is returned when the maximum number of tasks is running and the
	// task does not wait.
	ErrNoRoom = errors.New("too many tasks run already")
	// ErrRunning is returned for an operation that requires a task at rest.
	ErrRunning = errors.New("the task is running")
	// ErrClosed is returned by a crew after Close.
	ErrClosed = errors.New("the task manager is closed")
)

// Task is what a crew carries out. G is what one run of it may spend.
//
// Run, Park, Abandon and Close are called without a lock, and Run and Park in
// goroutines of their own. The other methods are called with the crew's lock
// held: they must not call the crew.
type Task[G any] interface {
	// AtRest reports whether the task neither runs nor waits for room.
	AtRest() bool
	// Grant sets aside what a run may spend; first tells whether it is the first
	// run.
	Grant(first bool) (G, error)
	// Wait notes that the task waits for room.
	Wait()
	// Begin notes that a run begins.
	Begin()
	// Refuse records that a run that had waited for room ended at once, because
	// it got no grant.
	Refuse(err error)
	// Stop records that the task was asked to end. A task that waits ends with
	// that; if it waits with a question, the question is withdrawn, and Stop
	// reports that.
	Stop(cause error) (asked bool)

	// Run carries out one run with the new message msg. It calls ended before it
	// marks the task as at rest, because whoever sees that may start another
	// run.
	Run(ctx context.Context, msg string, grant G, ended func())
	// Park ends what a task at rest keeps for its question.
	Park()
	// Abandon gives up a run that does not end, and reports whether there is
	// one.
	Abandon() bool
	// Close ends what the task keeps between runs.
	Close() error
}

// Crew is a set of tasks and the goroutines that run them. Make one with [New].
// It is safe for concurrent use. Each run, and each removal, has a goroutine;
// Close waits for them.
type Crew[T Task[G], G any] struct {
	max int

	life context.Context // ends at Close, and with it every run
	end  context.CancelCauseFunc
	runs sync.WaitGroup // added to under mu
	rest sync.WaitGroup // removals and what is parked; added to under mu

	mu      sync.Mutex // guards what follows; held while it calls tasks
	members map[string]*member[T]
	running int
	queue   []*turn[T] // the oldest first
	closed  bool
	failed  error // of removals that nobody waited for
}

// member is a task of a crew. Its fields are guarded by the crew's mu.
type member[T any] struct {
	task   T
	queues bool                    // waits when there is no room
	runs   int                     // that have begun
	cancel context.CancelCauseFunc // ends its last run; nil before the first
	turn   *turn[T]                // that it waits for; else nil
	seen   []string                // ids of inputs, the oldest first
}

// turn is a run that waits for room.
type turn[T any] struct {
	of      *member[T] // nil when it is not wanted any more
	ctx     context.Context
	message string
}

// seenInputs is how many ids of inputs a task remembers.
const seenInputs = 256

// New returns a crew that carries out at most max tasks at once.
func New[T Task[G], G any](max int) *Crew[T, G] {
	c := &Crew[T, G]{max: max, members: map[string]*member[T]{}}
	c.life, c.end = context.WithCancelCause(context.Background())
	return c
}

// Start runs a task with a message. A task that queues waits if there is no
// room. If there is already a task with the id, Start returns the result of
// known for that task.
func (c *Crew[T, G]) Start(id string, task T, queues bool, message string, known func(T) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	if m, ok := c.members[id]; ok {
		return known(m.task)
	}
	m := &member[T]{task: task, queues: queues}
	if err := c.schedule(m, message); err != nil {
		return err
	}
	c.members[id] = m
	return nil
}

// schedule starts a run, or has it wait. The caller holds c.mu.
func (c *Crew[T, G]) schedule(m *member[T], message string) error {
	room := c.running < c.max
	if !room && !m.queues {
		return fmt.Errorf("%w: %d run, and no more may at once", ErrNoRoom, c.running)
	}
	if room {
		grant, err := m.task.Grant(m.runs == 0)
		if err != nil {
			return err
		}
		c.begin(m)
		c.dispatch(m, c.newRun(m), message, grant)
		return nil
	}
	m.turn = &turn[T]{of: m, ctx: c.newRun(m), message: message}
	c.queue = append(c.queue, m.turn)
	m.task.Wait()
	return nil
}

// newRun returns the context of a run. The caller holds c.mu.
func (c *Crew[T, G]) newRun(m *member[T]) context.Context {
	ctx, cancel := context.WithCancelCause(c.life)
	m.cancel = cancel
	return ctx
}

// begin notes that a run begins. The caller holds c.mu.
func (c *Crew[T, G]) begin(m *member[T]) {
	m.runs++
	m.task.Begin()
}

// dispatch starts a run in a goroutine of its own. The caller holds c.mu.
func (c *Crew[T, G]) dispatch(m *member[T], ctx context.Context, message string, grant G) {
	c.running++
	cancel := m.cancel
	c.runs.Go(func() {
		defer cancel(nil)
		m.task.Run(ctx, message, grant, c.ended)
	})
}

// ended gives the room of a run to the next in the queue that is still wanted.
func (c *Crew[T, G]) ended() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	for len(c.queue) > 0 && c.running < c.max {
		next := c.queue[0]
		c.queue[0] = nil
		c.queue = c.queue[1:]
		if next.of != nil {
			c.take(next)
		}
	}
}

// take begins the run of a turn that has come. The caller holds c.mu.
func (c *Crew[T, G]) take(next *turn[T]) {
	m := next.of
	m.turn = nil
	first := m.runs == 0
	c.begin(m)
	grant, err := m.task.Grant(first)
	if err != nil {
		m.cancel(nil)
		m.task.Refuse(err)
		return
	}
	c.dispatch(m, next.ctx, next.message, grant)
}

// Task returns the task with the id.
func (c *Crew[T, G]) Task(id string) (task T, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.members[id]
	if !ok {
		return task, ErrUnknown
	}
	return m.task, nil
}

// Tasks returns all tasks, in no order.
func (c *Crew[T, G]) Tasks() []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]T, 0, len(c.members))
	for _, m := range c.members {
		all = append(all, m.task)
	}
	return all
}

// Message has a task at rest continue with a message. Like all inputs, it has
// no effect if the task has had one with the same id.
func (c *Crew[T, G]) Message(id, input, message string) error {
	return c.once(id, input, func(m *member[T]) error {
		if !m.task.AtRest() {
			return ErrRunning
		}
		return c.schedule(m, message)
	})
}

// Tell calls tell to give an input to a task. It holds the lock meanwhile.
func (c *Crew[T, G]) Tell(id, input string, tell func(T)) error {
	return c.once(id, input, func(m *member[T]) error {
		tell(m.task)
		return nil
	})
}

// Cancel asks a task to end. If that withdraws a question, the channel is
// closed once the task has ended what it kept for the question.
func (c *Crew[T, G]) Cancel(id, input string, cause error) (parked <-chan struct{}, err error) {
	done := make(chan struct{})
	asked := false
	err = c.once(id, input, func(m *member[T]) error {
		if asked = c.stop(m, cause); asked {
			c.rest.Go(func() {
				defer close(done)
				m.task.Park()
			})
		}
		return nil
	})
	if !asked {
		close(done)
	}
	return done, err
}

// stop ends the run that goes on or waits, and reports whether a question is
// withdrawn. The caller holds the crew's mu.
func (c *Crew[T, G]) stop(m *member[T], cause error) (asked bool) {
	if m.cancel != nil {
		m.cancel(cause)
	}
	if m.turn != nil {
		m.turn.of, m.turn = nil, nil
	}
	return m.task.Stop(cause)
}

// once has f give a task an input, unless the task has had it.
func (c *Crew[T, G]) once(id, input string, f func(*member[T]) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.members[id]
	switch {
	case !ok:
		return ErrUnknown
	case c.closed:
		return ErrClosed
	case slices.Contains(m.seen, input):
		return nil
	}
	if err := f(m); err != nil {
		return err
	}
	if len(m.seen) >= seenInputs {
		m.seen = slices.Delete(m.seen, 0, seenInputs/2)
	}
	m.seen = append(m.seen, input)
	return nil
}
