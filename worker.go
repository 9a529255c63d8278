package pygent

import (
	"context"
	"errors"

	"github.com/x/pygent/internal/callback"
)

// worker is the goroutine in which a run calls its model, its tools and its
// approval, one at a time. It is kept from call to call, because a new goroutine
// has to grow its stack and to learn who it is. The zero value is ready to use;
// it belongs to the goroutine of the run.
type worker struct {
	jobs  chan func(callback.ID) // nil while there is no goroutine
	ended chan struct{}          // closed when the goroutine is gone
}

// do hands over a job, and starts the goroutine if there is none.
func (w *worker) do(job func(callback.ID)) {
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
func (w *worker) leave() {
	if w.jobs != nil {
		close(w.jobs)
		w.jobs = nil
	}
}

// end ends the goroutine, which has no job, and waits for that.
func (w *worker) end() {
	if w.jobs != nil {
		w.leave()
		<-w.ended
	}
}

// callForeign calls f, which is code that the agent was given, as [outlive] does,
// but in the goroutine of the run's worker.
func callForeign[T any](ctx context.Context, r *run, what string, f func() (T, error)) (T, error) {
	value, err := outliveIn(ctx, func(job func(callback.ID)) { r.worker.do(job) }, func(self callback.ID) (T, error) {
		defer r.enterAs(&r.calling, self, what)()
		return f()
	})
	if errors.Is(err, errGoexit) || errors.Is(err, errLeft) {
		r.worker.leave()
	}
	return value, err
}
