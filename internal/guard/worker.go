package guard

import (
	"context"
	"errors"

	"github.com/x/pygent/internal/callback"
)

// Worker is a goroutine for one call after the other, those of a run of an agent.
// It is kept from call to call, because a new goroutine has to grow its stack and
// to learn who it is. The zero Worker is ready to use; it belongs to one
// goroutine.
type Worker struct {
	jobs  chan func(callback.ID) // nil while there is no goroutine
	ended chan struct{}          // closed when the goroutine is gone
}

// OutliveIn is [Outlive] in the goroutine of a worker, which f is told.
func OutliveIn[T any](ctx context.Context, w *Worker, f func(self callback.ID) (T, error)) (T, error) {
	value, err := outlive(ctx, w.do, f)
	if errors.Is(err, ErrGoexit) || errors.Is(err, errLeft) {
		w.leave()
	}
	return value, err
}

// do hands over a job, and starts the goroutine if there is none.
func (w *Worker) do(job func(callback.ID)) {
	if w.jobs == nil {
		jobs, ended := make(chan func(callback.ID)), make(chan struct{})
		w.jobs, w.ended = jobs, ended
		go func() {
			defer close(ended)
			self := callback.Self()
			for job := range jobs {
				job(self)
			}
		}()
	}
	w.jobs <- job
}

// leave gives up the goroutine, which ends by itself once its job is done.
func (w *Worker) leave() {
	if w.jobs != nil {
		close(w.jobs)
		w.jobs = nil
	}
}

// End ends the goroutine, which has no job, and waits for that.
func (w *Worker) End() {
	if w.jobs != nil {
		w.leave()
		<-w.ended
	}
}
