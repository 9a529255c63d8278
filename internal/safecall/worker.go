package safecall

import (
	"context"
	"errors"
)

// Worker is a goroutine that runs the calls of an agent's run one after the
// other. It is kept from call to call, because a new goroutine has to grow its
// stack and find out its own id. The zero Worker is ready to use. Only one
// goroutine may use it.
type Worker struct {
	jobs  chan func(Goroutine) // nil while there is no goroutine
	ended chan struct{}        // closed when the goroutine is gone
}

// OutliveIn is [Outlive] in the goroutine of a worker; f gets the id of that
// goroutine.
func OutliveIn[T any](ctx context.Context, w *Worker, f func(self Goroutine) (T, error)) (T, error) {
	value, err := outlive(ctx, w.do, f)
	if errors.Is(err, ErrGoexit) || errors.Is(err, errLeft) {
		w.leave()
	}
	return value, err
}

// do hands over a job, and starts the goroutine if there is none.
func (w *Worker) do(job func(Goroutine)) {
	if w.jobs == nil {
		jobs, ended := make(chan func(Goroutine)), make(chan struct{})
		w.jobs, w.ended = jobs, ended
		go func() {
			defer close(ended)
			self := Current()
			for job := range jobs {
				job(self)
			}
		}()
	}
	w.jobs <- job
}

// leave abandons the goroutine, which ends by itself when its job returns.
func (w *Worker) leave() {
	if w.jobs != nil {
		close(w.jobs)
		w.jobs = nil
	}
}

// End ends the goroutine, which must be idle, and waits for that.
func (w *Worker) End() {
	if w.jobs != nil {
		w.leave()
		<-w.ended
	}
}
