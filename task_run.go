package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/x/pygent/internal/crew"
	"github.com/x/pygent/internal/guard"
)

// taskHost is what an executor in this process needs from the manager.
type taskHost interface {
	// openAgent makes the agent of a task, with the files that it begins with.
	openAgent(ctx context.Context, spec TaskSpec, gate taskGate) (*Agent, error)
	// grant sets aside what a run of the task may spend; first tells whether it
	// is the task's first run. It does not call back.
	grant(spec TaskSpec, first bool) (taskGrant, error)
	// logger logs what is not for models and people, such as the stacks of
	// panics.
	logger() *slog.Logger
}

// taskGate is how the agent of a task waits for what is sent to the task: a decision
// about a call, or an answer.
type taskGate struct {
	approve ApprovalFunc
	// ask calls asked, which asks whoever is there, and returns its answer or one that
	// is sent before.
	ask func(ctx context.Context, r AskRequest, asked AskFunc) (Answer, error)
}

// localExecutor carries out tasks in this process, one goroutine each.
type localExecutor struct {
	crew *crew.Crew[*localTask, taskGrant, taskMessage]
	host taskHost
}

// newLocalExecutor returns an executor that runs at most max tasks at once,
// with agents made by host.
func newLocalExecutor(max int, host taskHost) *localExecutor {
	return &localExecutor{crew: crew.New[*localTask](max), host: host}
}

func (x *localExecutor) start(ctx context.Context, spec TaskSpec, queue bool) error {
	if err := cmp.Or(spec.check(), alive(ctx)); err != nil {
		return err
	}
	task := newLocalTask(spec, x.host)
	task.inbox = func() ([]taskMessage, int64) { return x.crew.Hear(spec.ID) }
	return sayLimit(x.crew.Start(outsideCalls(ctx), spec.ID, task, queue, spec.message(), func(t *localTask) error {
		if !t.spec.message().same(spec.message()) {
			return ErrTaskExists
		}
		return nil
	}))
}

// outsideCalls returns a context with the values of ctx that belongs to no call.
func outsideCalls(ctx context.Context) context.Context {
	return context.WithValue(ctx, callKey{}, (*callContext)(nil))
}

// sayLimit adds the option to change to the error of a task for which there is
// no room.
func sayLimit(err error) error {
	if errors.Is(err, ErrTooManyTasks) {
		return fmt.Errorf("%w (PYGENT_MAX_TASKS)", err)
	}
	return err
}

// task returns a task by its id.
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

func (x *localExecutor) list(ctx context.Context, filter TaskFilter) ([]TaskStatus, error) {
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
	return filter.choose(all)
}

func (x *localExecutor) events(ctx context.Context, id string, after int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		t, err := x.task(ctx, id)
		if err != nil {
			yield(Event{}, err)
			return
		}
		for e := range t.log.Follow(ctx, after) {
			if !yield(e, nil) {
				return
			}
		}
		if ctx.Err() != nil {
			yield(Event{}, guard.ContextError(ctx))
		}
	}
}

func (x *localExecutor) send(ctx context.Context, id string, in taskInput) (number int64, err error) {
	if err := alive(ctx); err != nil {
		return 0, err
	}
	switch in.Kind {
	case inputMessage:
		number, err = x.crew.Message(outsideCalls(ctx), id, in.ID, taskMessage{in.Text, in.Parts, in.Early})
		return number, sayLimit(err)
	case inputDecision:
		return 0, x.crew.Tell(id, in.ID, func(t *localTask) error {
			return t.decide(in.Request, in.Call, in.Decision)
		})
	case inputAnswer:
		return 0, x.crew.Tell(id, in.ID, func(t *localTask) error { return t.answer(in.Request, in.Answer) })
	case inputCancel:
		parked, err := x.crew.Cancel(id, in.ID, &taskCancelled{reason: in.Text})
		select {
		case <-parked:
		case <-ctx.Done(): // the task has its input, and stopping the container continues by itself
		}
		return 0, err
	}
	return 0, fmt.Errorf("input of the unknown kind %q", in.Kind)
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

func (x *localExecutor) export(ctx context.Context, id, path string, w io.Writer) (asOf time.Time, live bool, err error) {
	t, err := x.task(ctx, id)
	if err != nil {
		return asOf, false, err
	}
	agent := t.worker()
	if agent == nil {
		return asOf, false, t.noWorkspace()
	}
	before := t.snapshot()
	asOf = time.Now()
	err = filesOf(agent.Runtime()).CopyTo(ctx, w, path)
	if errors.Is(err, ErrRuntimeClosed) {
		if _, gone := x.task(ctx, id); gone != nil {
			return asOf, false, fmt.Errorf("%w any more: it was removed meanwhile", gone)
		}
		return asOf, false, ErrTaskManagerClosed
	}
	if err == nil {
		t.collected()
	}
	after := t.snapshot()
	return asOf, !before.State.AtRest() || !after.State.AtRest() || before.Runs != after.Runs, err
}

// uncollected tells which files of tasks at rest nobody has collected, in a line for each
// task, the oldest first.
func (x *localExecutor) uncollected() (told []string) {
	tasks := x.crew.Tasks()
	slices.SortStableFunc(tasks, func(a, b *localTask) int { return a.snapshot().Created.Compare(b.snapshot().Created) })
	for _, t := range tasks {
		if text := t.uncollected(); text != "" {
			told = append(told, text)
		}
	}
	return told
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
		return fmt.Errorf("its runtime is still being removed: %w", guard.ContextError(ctx))
	}
}

// errManagerClosing cancels the tasks of a manager that is closed.
var errManagerClosing error = &taskCancelled{reason: ErrTaskManagerClosed.Error()}

func (x *localExecutor) close() error {
	left, err := x.crew.Close(errManagerClosing, taskError)
	for _, id := range left.Runs {
		err = errors.Join(err, taskError(id, fmt.Errorf("its run %w", ErrLeftBehind)))
	}
	if left.Removals {
		err = errors.Join(err, fmt.Errorf("the removal of a task %w", ErrLeftBehind))
	}
	return err
}
