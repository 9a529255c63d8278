// Package taskpool carries out tasks in this process: a limited number at once, and
// the others in the order in which they came. It manages the life of a task: it
// waits for room, runs, rests, runs again at the next message, and is removed.
// What a run does is up to the [Task]. Package pygent has agents work on tasks
// with it.
//
// A [Rota] hands out turns, so that those who wait take them evenly.
//
// A [Ledger] keeps the records of tasks by their ids. It knows which start reserved an id,
// which task delegated which, and how far the events of each were handled. Everything else
// about a task is the value of its [Record].
//
// A [Log] keeps the last events of a task for any number of followers, who read at their
// own pace; a writer never waits for them. A [Mailbox] has the notices of ended tasks that
// a reader has not seen yet. One who learns of an end in another way needs no notice of it:
// they hear of each end once. A [Presence] tells whether somebody is there to answer, and
// when they leave: an agent is there while a run goes on in which its model could answer the
// questions of its tasks.
package taskpool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/x/pygent/internal/safecall"
)

// Errors of a crew.
var (
	// ErrUnknown is returned for an id that no task has.
	ErrUnknown = errors.New("no such task")
	// ErrNoRoom is returned when the maximum number of tasks is running and the
	// task does not wait.
	ErrNoRoom = errors.New("too many tasks are running")
	// ErrRunning is returned for an operation that requires a task at rest.
	ErrRunning = errors.New("the task is running")
	// ErrClosed is returned by a crew after Close.
	ErrClosed = errors.New("the task manager is closed")
	// ErrMailFull is returned when as many messages wait for a task as may.
	ErrMailFull = errors.New("too many messages are queued for the task")
	// ErrStopping is returned for an early message to a task whose run was asked to
	// end, and so hears nothing any more.
	ErrStopping = errors.New("the task was asked to end")
)

// Task is what a crew carries out. G is what one run of it may spend.
//
// Run, Park, Abandon and Close are called without a lock, and Run and Park in
// goroutines of their own. The other methods are called with the crew's lock
// held: they must not call the crew.
// M is the message that a run begins with.
type Task[G any, M Message] interface {
	// AtRest reports whether the task neither runs nor waits for room.
	AtRest() bool
	// Grant sets aside what a run may spend; first tells whether it is the first
	// run.
	Grant(first bool) (G, error)
	// Wait notes that the task waits for room.
	Wait()
	// Begin notes that a run begins, with the message of that number; the first
	// one has 0.
	Begin(message int64)
	// Waiting notes how many messages wait until the task rests.
	Waiting(messages int)
	// Refuse records that a run that had waited for room ended at once, because
	// it got no grant.
	Refuse(err error)
	// Stop records that the task was asked to end. A task that waits ends with
	// that; if it waits with a question, the question is withdrawn, and Stop
	// reports that.
	Stop(cause error) (asked bool)

	// Run carries out one run with the new message msg. At the end it calls
	// ended, which calls finish, with the lock held, to record the outcome. If
	// another message waits, more is set, and the task begins or waits again
	// before the lock is released.
	Run(ctx context.Context, msg M, grant G, ended func(finish func(more bool)))
	// Park ends what a task at rest keeps for its question.
	Park()
	// Abandon gives up a run that does not end, and reports whether there is
	// one.
	Abandon() bool
	// Close ends what the task keeps between runs.
	Close() error
}

// Message is a message to a task.
type Message interface {
	Size() int   // in bytes
	Early() bool // a run that goes on may take it up, with [Crew.Hear]
}

// Crew is a set of tasks and the goroutines that run them. Make one with [New].
// It is safe for concurrent use. Each run, and each removal, has a goroutine;
// Close waits for them.
type Crew[T Task[G, M], G any, M Message] struct {
	max int

	life context.Context // ends at Close, and with it every run
	end  context.CancelCauseFunc
	runs sync.WaitGroup // added to under mu
	rest sync.WaitGroup // removals and what is parked; added to under mu

	mu      sync.Mutex // guards what follows; held while it calls tasks
	members map[string]*member[T, M]
	running int
	queue   []*turn[T, M] // the oldest first
	closed  bool
	failed  error // of removals that nobody waited for
}

// member is a task of a crew. Its fields are guarded by the crew's mu.
type member[T any, M Message] struct {
	task   T
	queues bool                    // waits when there is no room
	stops  bool                    // its run was asked to end
	runs   int                     // that have begun
	cancel context.CancelCauseFunc // ends its last run; nil before the first
	turn   *turn[T, M]             // that it waits for; else nil
	seen   []seen                  // inputs that it had, the oldest first
	last   int64                   // the number of the last message
	mail   []letter[M]             // messages that wait until it rests
	parked <-chan struct{}         // closed when it was parked; its next run waits for that; nil if it never was
}

// letter is a message with its number.
type letter[M Message] struct {
	number int64
	text   M
	sender context.Context // whose values the run gets
}

// seen is an input that a task had.
type seen struct {
	id     string
	number int64 // of a message; else 0
}

// turn is a run that waits for room.
type turn[T any, M Message] struct {
	of      *member[T, M] // nil when it is not wanted any more
	ctx     context.Context
	message letter[M]
}

const (
	// seenInputs is how many ids of inputs a task remembers.
	seenInputs = 256
	// maxMail is how many messages wait for a task at most.
	maxMail = 100
	// MaxMailBytes is how many bytes of messages wait for a task at most.
	MaxMailBytes = 32 << 20
)

// New returns a crew that carries out at most max tasks at once.
func New[T Task[G, M], G any, M Message](max int) *Crew[T, G, M] {
	c := &Crew[T, G, M]{max: max, members: map[string]*member[T, M]{}}
	c.life, c.end = context.WithCancelCause(context.Background())
	return c
}

// Start runs a task with a message. The run has the values of the sender's
// context, but not its end. A task that queues waits if there is no
// room. If there is already a task with the id, Start returns the result of
// known for that task.
func (c *Crew[T, G, M]) Start(sender context.Context, id string, task T, queues bool, message M, known func(T) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	if m, ok := c.members[id]; ok {
		return known(m.task)
	}
	m := &member[T, M]{task: task, queues: queues}
	if err := c.schedule(m, letter[M]{text: message, sender: sender}); err != nil {
		return err
	}
	c.members[id] = m
	return nil
}

// schedule starts a run, or has it wait. The caller holds c.mu.
func (c *Crew[T, G, M]) schedule(m *member[T, M], message letter[M]) error {
	if c.running >= c.max {
		if !m.queues {
			return fmt.Errorf("%w: %d, which is the limit", ErrNoRoom, c.running)
		}
		c.enqueue(m, message)
		return nil
	}
	grant, err := m.task.Grant(m.runs == 0)
	if err != nil {
		return err
	}
	c.begin(m, message)
	c.dispatch(m, c.newRun(m), message, grant)
	return nil
}

// enqueue has a run wait for its turn. The caller holds c.mu.
func (c *Crew[T, G, M]) enqueue(m *member[T, M], message letter[M]) {
	m.turn = &turn[T, M]{of: m, ctx: c.newRun(m), message: message}
	c.queue = append(c.queue, m.turn)
	m.task.Wait()
}

// newRun returns the context of a run. The caller holds c.mu.
func (c *Crew[T, G, M]) newRun(m *member[T, M]) context.Context {
	ctx, cancel := context.WithCancelCause(c.life)
	m.cancel = cancel
	return ctx
}

// begin notes that a run begins. The caller holds c.mu.
func (c *Crew[T, G, M]) begin(m *member[T, M], message letter[M]) {
	m.runs++
	m.stops = false
	m.task.Begin(message.number)
}

// dispatch starts a run in a goroutine of its own. The caller holds c.mu.
func (c *Crew[T, G, M]) dispatch(m *member[T, M], ctx context.Context, message letter[M], grant G) {
	c.running++
	cancel, parked := m.cancel, m.parked
	c.runs.Go(func() {
		defer cancel(nil)
		if parked != nil {
			select {
			case <-parked: // else it would take away what the run uses
			case <-ctx.Done():
			}
		}
		m.task.Run(safecall.WithValues(ctx, message.sender), message.text, grant, func(finish func(more bool)) { c.ended(m, finish) })
	})
}

// ended records the end of a run, has the task go on with the next message that
// waits for it, and gives the room to the next in the queue. A task that goes on
// waits like the others.
func (c *Crew[T, G, M]) ended(m *member[T, M], finish func(more bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	more := len(m.mail) > 0
	finish(more)
	if more {
		next := m.mail[0]
		m.mail = m.mail[1:]
		m.task.Waiting(len(m.mail))
		if len(c.queue) == 0 {
			c.take(&turn[T, M]{of: m, ctx: c.newRun(m), message: next})
		} else {
			c.enqueue(m, next)
		}
	}
	c.fill()
}

// fill gives free room to those in the queue that are still wanted. The caller
// holds c.mu.
func (c *Crew[T, G, M]) fill() {
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
func (c *Crew[T, G, M]) take(next *turn[T, M]) {
	m := next.of
	m.turn = nil
	first := m.runs == 0
	c.begin(m, next.message)
	grant, err := m.task.Grant(first)
	if err != nil {
		m.cancel(nil)
		m.mail = slices.Insert(m.mail, 0, next.message) // it was accepted, so the next run begins with it
		m.task.Waiting(len(m.mail))
		m.task.Refuse(err)
		return
	}
	c.dispatch(m, next.ctx, next.message, grant)
}

// discard drops the messages that wait for a task. The caller holds c.mu.
func (c *Crew[T, G, M]) discard(m *member[T, M]) {
	if len(m.mail) > 0 {
		m.mail = nil
		m.task.Waiting(0)
	}
}

// Task returns the task with the id.
func (c *Crew[T, G, M]) Task(id string) (task T, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.members[id]
	if !ok {
		return task, ErrUnknown
	}
	return m.task, nil
}

// Tasks returns all tasks, in no order.
func (c *Crew[T, G, M]) Tasks() []T {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]T, 0, len(c.members))
	for _, m := range c.members {
		all = append(all, m.task)
	}
	return all
}

// Message has a task continue with a message: at once if it rests, else when it
// does. It returns the message's number, counted from 1. Like all inputs, it
// has no effect if the task has had one with the same id.
func (c *Crew[T, G, M]) Message(sender context.Context, id, input string, message M) (number int64, err error) {
	return c.once(id, input, func(m *member[T, M]) (int64, error) {
		next := letter[M]{m.last + 1, message, sender}
		switch {
		case len(m.mail) >= maxMail || m.mailBytes()+message.Size() > MaxMailBytes:
			return 0, fmt.Errorf("%w: %d", ErrMailFull, len(m.mail))
		case m.task.AtRest():
			if err := c.goOn(m, next); err != nil {
				return 0, err
			}
		case m.stops && message.Early():
			return 0, ErrStopping
		default:
			m.mail = append(m.mail, next)
			m.task.Waiting(len(m.mail))
		}
		m.last++
		return m.last, nil
	})
}

// goOn has a task at rest continue with a message, or with those that a run which
// was refused has left, and then with the message. The caller holds c.mu.
func (c *Crew[T, G, M]) goOn(m *member[T, M], next letter[M]) error {
	if len(m.mail) == 0 {
		return c.schedule(m, next)
	}
	if err := c.schedule(m, m.mail[0]); err != nil {
		return err
	}
	m.mail = append(m.mail[1:], next)
	m.task.Waiting(len(m.mail))
	return nil
}

// Hear returns the early messages that wait for a task, the oldest first, for the
// run that goes on. The last one's number is last.
func (c *Crew[T, G, M]) Hear(id string) (messages []M, last int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.members[id]
	if !ok {
		return nil, 0
	}
	m.mail = slices.DeleteFunc(m.mail, func(l letter[M]) bool {
		if l.text.Early() {
			messages, last = append(messages, l.text), l.number
		}
		return l.text.Early()
	})
	if len(messages) > 0 {
		m.task.Waiting(len(m.mail))
	}
	return messages, last
}

// mailBytes is the size of the messages that wait. The caller holds the crew's mu.
func (m *member[T, M]) mailBytes() (n int) {
	for _, l := range m.mail {
		n += l.text.Size()
	}
	return n
}

// Tell calls tell to give an input to a task. It holds the lock meanwhile.
func (c *Crew[T, G, M]) Tell(id, input string, tell func(T) error) error {
	_, err := c.once(id, input, func(m *member[T, M]) (int64, error) { return 0, tell(m.task) })
	return err
}

// Cancel asks a task to end. It drops the messages that wait for it. If that
// withdraws a question, the channel is closed once the task has ended what it
// kept for the question; a run that a message starts meanwhile waits for that.
func (c *Crew[T, G, M]) Cancel(id, input string, cause error) (parked <-chan struct{}, err error) {
	done := make(chan struct{})
	asked := false
	_, err = c.once(id, input, func(m *member[T, M]) (int64, error) {
		if asked = c.stop(m, cause); asked {
			m.parked = done
			c.rest.Go(func() {
				defer close(done)
				m.task.Park()
			})
		}
		return 0, nil
	})
	if !asked {
		close(done)
	}
	return done, err
}

// stop ends the run that goes on or waits, and reports whether a question is
// withdrawn. The caller holds the crew's mu.
func (c *Crew[T, G, M]) stop(m *member[T, M], cause error) (asked bool) {
	m.stops = true
	if m.cancel != nil {
		m.cancel(cause)
	}
	if m.turn != nil {
		m.turn.of, m.turn = nil, nil
	}
	c.discard(m)
	return m.task.Stop(cause)
}

// once has f give a task an input, unless the task has had it. It returns the
// number that f gave it.
func (c *Crew[T, G, M]) once(id, input string, f func(*member[T, M]) (int64, error)) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.members[id]
	switch {
	case !ok:
		return 0, ErrUnknown
	case c.closed:
		return 0, ErrClosed
	}
	if at := slices.IndexFunc(m.seen, func(s seen) bool { return s.id == input }); at >= 0 {
		return m.seen[at].number, nil
	}
	number, err := f(m)
	if err != nil {
		return 0, err
	}
	if len(m.seen) >= seenInputs {
		m.seen = slices.Delete(m.seen, 0, seenInputs/2)
	}
	m.seen = append(m.seen, seen{input, number})
	return number, nil
}
