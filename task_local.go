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

// localExecutor carries out tasks in this process, one goroutine each.
type localExecutor struct {
	max  int
	host taskHost

	life context.Context // ends at close, and with it every run
	end  context.CancelCauseFunc
	wg   sync.WaitGroup // of runs; added to under mu
	rest sync.WaitGroup // of removals and of containers that are parked; added to under mu

	mu      sync.Mutex // guards what follows; taken before a task's own
	tasks   map[string]*localTask
	running int
	queue   []func() // start what waits for room, oldest first; called with mu held
	closed  bool
	failed  error // of removals that nobody waited for
}

// newLocalExecutor returns an executor that runs at most max tasks at once,
// with agents made by host.
func newLocalExecutor(max int, host taskHost) *localExecutor {
	x := &localExecutor{max: max, host: host, tasks: map[string]*localTask{}}
	x.life, x.end = context.WithCancelCause(context.Background())
	return x
}

func (x *localExecutor) start(ctx context.Context, spec TaskSpec) error {
	if err := cmp.Or(spec.check(), alive(ctx)); err != nil {
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

// alive returns why nothing can be done with ctx, or nil.
func alive(ctx context.Context) error {
	switch {
	case ctx == nil:
		return errNilContext
	case ctx.Err() != nil:
		return contextError(ctx)
	}
	return nil
}

// schedule starts a run of t, or queues it where its spec allows. The caller
// holds x.mu.
func (x *localExecutor) schedule(t *localTask, msg string) error {
	room := x.running < x.max
	if !room && !t.spec.Queue {
		return fmt.Errorf("%w: %d run, and no more may at once (PYGENT_MAX_TASKS)", ErrTooManyTasks, x.running)
	}
	first := t.snapshot().Runs == 0
	if room {
		grant, err := x.host.grant(t.spec, first)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancelCause(x.life)
		t.begin(cancel)
		x.dispatch(t, ctx, cancel, msg, grant)
		return nil
	}
	ctx, cancel := context.WithCancelCause(x.life)
	turn := t.enqueue(cancel)
	x.queue = append(x.queue, func() {
		if !t.dequeue(turn) {
			cancel(nil)
			return
		}
		grant, err := x.host.grant(t.spec, first)
		if err != nil {
			cancel(nil)
			t.refused(err)
			return
		}
		x.dispatch(t, ctx, cancel, msg, grant)
	})
	return nil
}

// dispatch starts a run in a goroutine of its own. The caller holds x.mu.
func (x *localExecutor) dispatch(t *localTask, ctx context.Context, cancel context.CancelCauseFunc, msg string, grant taskGrant) {
	x.running++
	x.wg.Go(func() {
		defer cancel(nil)
		t.run(ctx, msg, grant, x.host, x.ended)
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
	if err := alive(ctx); err != nil {
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
	if err := alive(ctx); err != nil {
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
		rests := func() bool { return t.snapshot().State.AtRest() }
		for e := range t.log.Follow(ctx, after, rests) {
			if !yield(e, nil) {
				return
			}
		}
		if ctx.Err() != nil && !rests() {
			yield(Event{}, contextError(ctx))
		}
	}
}

func (x *localExecutor) send(ctx context.Context, id string, in taskInput) error {
	t, err := x.task(ctx, id)
	if err != nil {
		return err
	}
	parked, err := x.hand(t, in)
	if err != nil {
		return err
	}
	select {
	case <-parked:
	case <-ctx.Done(): // the task took its input; the container goes on its own
	}
	return nil
}

// hand hands an input to a task. The channel is closed when what the task kept
// for its question, which the input withdrew, is gone.
func (x *localExecutor) hand(t *localTask, in taskInput) (parked chan struct{}, err error) {
	parked = make(chan struct{})
	x.mu.Lock()
	defer x.mu.Unlock()
	asked := false
	switch {
	case x.closed:
		return nil, ErrTaskManagerClosed
	case !t.isNew(in.ID):
	case in.Kind == inputMessage && !t.snapshot().State.AtRest():
		err = ErrTaskRunning
	case in.Kind == inputMessage:
		err = x.schedule(t, in.Text)
	case in.Kind == inputDecision:
		t.decide(in.Request, in.Decision)
	case in.Kind == inputCancel:
		asked = t.stop(&taskCancelled{reason: in.Text})
	default:
		err = fmt.Errorf("input of the unknown kind %q", in.Kind)
	}
	if err != nil {
		return nil, err
	}
	t.note(in.ID)
	if !asked {
		close(parked)
		return parked, nil
	}
	x.rest.Go(func() {
		defer close(parked)
		t.park()
	})
	return parked, nil
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
		return t.noWorkspace()
	}
	err = filesOf(agent.Runtime()).CopyTo(ctx, w, path)
	if errors.Is(err, ErrRuntimeClosed) {
		if _, gone := x.task(ctx, id); gone != nil {
			return fmt.Errorf("%w any more: it was removed meanwhile", gone)
		}
		return ErrTaskManagerClosed
	}
	return err
}

func (x *localExecutor) remove(ctx context.Context, id string) error {
	t, err := x.task(ctx, id)
	if err != nil {
		return err
	}
	closed := make(chan error)
	then := func() {
		err := t.close()
		select {
		case closed <- err:
		case <-ctx.Done():
			x.note(taskError(id, err))
		}
	}
	if err := x.take(t, then); err != nil {
		return err
	}
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
		return fmt.Errorf("its runtime is still being removed: %w", contextError(ctx))
	}
}

// note keeps an error for close to tell.
func (x *localExecutor) note(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failed = errors.Join(x.failed, err)
}

// take removes a task at rest from the table, and has close wait for what then
// is done with it.
func (x *localExecutor) take(t *localTask, then func()) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.closed:
		return ErrTaskManagerClosed
	case x.tasks[t.spec.ID] != t:
		return ErrUnknownTask // another call was faster
	case !t.snapshot().State.AtRest():
		return ErrTaskRunning
	}
	delete(x.tasks, t.spec.ID)
	x.rest.Go(then)
	return nil
}
