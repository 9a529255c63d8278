package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/x/pygent/internal/crew"
)

// localExecutor carries out tasks in this process, one goroutine each.
type localExecutor struct {
	crew *crew.Crew[*localTask, taskGrant]
	host taskHost
}

// newLocalExecutor returns an executor that runs at most max tasks at once,
// with agents made by host.
func newLocalExecutor(max int, host taskHost) *localExecutor {
	return &localExecutor{crew: crew.New[*localTask](max), host: host}
}

func (x *localExecutor) start(ctx context.Context, spec TaskSpec) error {
	if err := cmp.Or(spec.check(), alive(ctx)); err != nil {
		return err
	}
	return sayLimit(x.crew.Start(spec.ID, newLocalTask(spec, x.host), spec.Queue, spec.Prompt, func(t *localTask) error {
		if t.spec.Prompt != spec.Prompt {
			return ErrTaskExists
		}
		return nil
	}))
}

// sayLimit adds where the limit comes from to the error of a task for which
// there is no room.
func sayLimit(err error) error {
	if errors.Is(err, ErrTooManyTasks) {
		return fmt.Errorf("%w (PYGENT_MAX_TASKS)", err)
	}
	return err
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

// task finds a task.
func (x *localExecutor) task(ctx context.Context, id string) (*localTask, error) {
	if err := alive(ctx); err != nil {
		return nil, err
	}
	return x.crew.Task(id)
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
	tasks := x.crew.Tasks()
	all := make([]TaskStatus, len(tasks))
	for i, t := range tasks {
		all[i] = t.snapshot()
	}
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
		for e := range t.log.Follow(ctx, after, t.AtRest) {
			if !yield(e, nil) {
				return
			}
		}
		if ctx.Err() != nil && !t.AtRest() {
			yield(Event{}, contextError(ctx))
		}
	}
}

func (x *localExecutor) send(ctx context.Context, id string, in taskInput) error {
	if err := alive(ctx); err != nil {
		return err
	}
	switch in.Kind {
	case inputMessage:
		return sayLimit(x.crew.Message(id, in.ID, in.Text))
	case inputDecision:
		return x.crew.Tell(id, in.ID, func(t *localTask) { t.decide(in.Request, in.Decision) })
	case inputCancel:
		parked, err := x.crew.Cancel(id, in.ID, &taskCancelled{reason: in.Text})
		select {
		case <-parked:
		case <-ctx.Done(): // the task took its input; the container goes on its own
		}
		return err
	}
	return fmt.Errorf("input of the unknown kind %q", in.Kind)
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
	if err := alive(ctx); err != nil {
		return err
	}
	closed, err := x.crew.Remove(ctx, id, func(err error) error { return taskError(id, err) })
	if err != nil {
		return err
	}
	select {
	case err := <-closed:
		return err
	case <-ctx.Done():
		return fmt.Errorf("its runtime is still being removed: %w", contextError(ctx))
	}
}

func (x *localExecutor) close() error {
	left, err := x.crew.Close(&taskCancelled{reason: ErrTaskManagerClosed.Error()}, taskError)
	for _, id := range left.Runs {
		err = errors.Join(err, taskError(id, fmt.Errorf("its run %w", ErrLeftBehind)))
	}
	if left.Removals {
		err = errors.Join(err, fmt.Errorf("the removal of a task %w", ErrLeftBehind))
	}
	return err
}
