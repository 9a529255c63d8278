package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"
)

// closingAtOnce is how many agents are closed side by side: removing a
// container takes an engine a while.
const closingAtOnce = 16

// localExecutor carries out tasks in this process, one goroutine each.
type localExecutor struct {
	max  int
	open func(ctx context.Context, spec TaskSpec, gate ApprovalFunc) (*Agent, error)

	life context.Context // ends at close, and with it every run
	end  context.CancelCauseFunc
	wg   sync.WaitGroup // of runs and removals; added to under mu

	mu      sync.Mutex // guards what follows; taken before a task's own
	tasks   map[string]*localTask
	running int
	queue   []func() // start what waits for room, oldest first; called with mu held
	closed  bool
}

// newLocalExecutor returns an executor that runs at most max tasks at once,
// with agents made by open.
func newLocalExecutor(max int, open func(context.Context, TaskSpec, ApprovalFunc) (*Agent, error)) *localExecutor {
	x := &localExecutor{max: max, open: open, tasks: map[string]*localTask{}}
	x.life, x.end = context.WithCancelCause(context.Background())
	return x
}

func (x *localExecutor) start(ctx context.Context, spec TaskSpec) error {
	if err := cmp.Or(spec.check(), ctx.Err()); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return ErrTaskManagerClosed
	}
	if t, ok := x.tasks[spec.ID]; ok {
		if t.spec.Prompt != spec.Prompt {
			return ErrTaskExists
		}
		return nil
	}
	t := newLocalTask(spec)
	if err := x.schedule(t, spec.Prompt); err != nil {
		return err
	}
	x.tasks[spec.ID] = t
	return nil
}

// schedule starts a run of t, or queues it where its spec allows. The caller
// holds x.mu.
func (x *localExecutor) schedule(t *localTask, msg string) error {
	room := x.running < x.max
	if !room && !t.spec.Queue {
		return fmt.Errorf("%w: %d run, and no more may at once (PYGENT_MAX_TASKS)", ErrTooManyTasks, x.running)
	}
	ctx, cancel := context.WithCancelCause(x.life)
	if room {
		t.begin(cancel)
		x.dispatch(t, ctx, cancel, msg)
		return nil
	}
	turn := t.enqueue(cancel)
	x.queue = append(x.queue, func() {
		if t.dequeue(turn) {
			x.dispatch(t, ctx, cancel, msg)
		} else {
			cancel(nil)
		}
	})
	return nil
}

// dispatch starts a run in a goroutine of its own. The caller holds x.mu.
func (x *localExecutor) dispatch(t *localTask, ctx context.Context, cancel context.CancelCauseFunc, msg string) {
	x.running++
	x.wg.Go(func() {
		defer x.ended()
		defer cancel(nil)
		t.run(ctx, msg, x.open)
	})
}

// ended gives the room of a run to the next in the queue that is still wanted.
func (x *localExecutor) ended() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.running--
	for len(x.queue) > 0 && x.running < x.max {
		next := x.queue[0]
		x.queue[0] = nil
		x.queue = x.queue[1:]
		next()
	}
}

// task finds a task.
func (x *localExecutor) task(ctx context.Context, id string) (*localTask, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	t, ok := x.tasks[id]
	if !ok {
		return nil, ErrUnknownTask
	}
	return t, nil
}

func (x *localExecutor) status(ctx context.Context, id string) (TaskStatus, error) {
	t, err := x.task(ctx, id)
	if err != nil {
		return TaskStatus{}, err
	}
	return t.snapshot(), nil
}

func (x *localExecutor) list(ctx context.Context) ([]TaskStatus, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	x.mu.Lock()
	all := make([]TaskStatus, 0, len(x.tasks))
	for _, t := range x.tasks {
		all = append(all, t.snapshot())
	}
	x.mu.Unlock()
	slices.SortFunc(all, func(a, b TaskStatus) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

func (x *localExecutor) events(ctx context.Context, id string, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		t, err := x.task(ctx, id)
		if err != nil {
			yield(Event{}, err)
			return
		}
		for {
			// Looked at first, so that no event of a task found at rest is missed.
			rests := t.snapshot().State.AtRest()
			events, more := t.log.after(after)
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
				after = e.Seq
			}
			if len(events) > 0 {
				continue
			}
			if rests {
				return
			}
			select {
			case <-more:
			case <-ctx.Done():
				yield(Event{}, context.Cause(ctx))
				return
			}
		}
	}
}

func (x *localExecutor) send(ctx context.Context, id string, in taskInput) error {
	t, err := x.task(ctx, id)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return ErrTaskManagerClosed
	}
	if !t.isNew(in.ID) {
		return nil
	}
	switch in.Kind {
	case inputMessage:
		if !t.snapshot().State.AtRest() {
			err = ErrTaskRunning
		} else {
			err = x.schedule(t, in.Text)
		}
	case inputDecision:
		t.decide(in.Request, in.Decision)
	case inputCancel:
		t.stop(&taskCancelled{reason: in.Text})
	default:
		err = fmt.Errorf("input of the unknown kind %q", in.Kind)
	}
	if err == nil {
		t.note(in.ID)
	}
	return err
}

func (x *localExecutor) history(ctx context.Context, id string) ([]Message, error) {
	t, err := x.task(ctx, id)
	if err != nil {
		return nil, err
	}
	if agent := t.worker(); agent != nil {
		return agent.History().Messages(), nil
	}
	return nil, nil
}

func (x *localExecutor) export(ctx context.Context, id, path string, w io.Writer) error {
	t, err := x.task(ctx, id)
	if err != nil {
		return err
	}
	agent := t.worker()
	if agent == nil {
		return errors.New("it has no workspace yet")
	}
	return exportTar(ctx, agent.Runtime(), path, w)
}

func (x *localExecutor) remove(ctx context.Context, id string) error {
	t, err := x.task(ctx, id)
	if err != nil {
		return err
	}
	if err := x.take(t); err != nil {
		return err
	}
	defer x.wg.Done()
	return t.close()
}

// take removes a task at rest from the table, and has close wait for what is
// done with it.
func (x *localExecutor) take(t *localTask) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.closed:
		return ErrTaskManagerClosed
	case !t.snapshot().State.AtRest():
		return ErrTaskRunning
	}
	delete(x.tasks, t.spec.ID)
	x.wg.Add(1)
	return nil
}

func (x *localExecutor) close() error {
	x.mu.Lock()
	already := x.closed
	x.closed = true
	closing := &taskCancelled{reason: ErrTaskManagerClosed.Error()}
	x.end(closing)
	for _, t := range x.tasks {
		t.stop(closing)
	}
	for _, next := range x.queue {
		next() // finds that it is not wanted any more
	}
	x.queue = nil
	x.mu.Unlock()
	x.wg.Wait()
	if already {
		return nil
	}
	return x.closeAll()
}

// closeAll closes the agents of all tasks. The table does not change any more.
func (x *localExecutor) closeAll() error {
	var wg sync.WaitGroup
	room := make(chan struct{}, closingAtOnce)
	var mu sync.Mutex
	var all error
	for id, t := range x.tasks {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			if err := t.close(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				all = errors.Join(all, taskError(id, err))
			}
		})
	}
	wg.Wait()
	return all
}
