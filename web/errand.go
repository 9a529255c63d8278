package web

import (
	"context"
	"net/http"
	"slices"
	"time"
)

// errand is what the person asks of the agent beside the turns, such as a command or to
// go back to a checkpoint. The session's goroutine has it.
type errand struct {
	words  string // what goes on, for the status line
	since  time.Time
	cancel context.CancelCauseFunc
}

// errand carries something out, and waits for it. It goes on when the one who asked for it
// has left; the stop button ends it.
func (s *session) errand(c context.Context, words string, f func(ctx context.Context) error) error {
	ended := make(chan error, 1)
	if err := s.do(c, func() error {
		ctx, cancel := context.WithCancelCause(s.ctx)
		e := &errand{words, time.Now(), cancel}
		s.errands = append(s.errands, e)
		s.background(func() {
			err := fail(http.StatusInternalServerError, "internal", "the page failed") // unless f returns
			defer func() {
				cancel(nil)
				s.post(func() { s.endErrand(e) })
				ended <- err
			}()
			err = f(ctx)
		})
		return nil
	}); err != nil {
		return err
	}
	select {
	case err := <-ended:
		return err
	case <-c.Done():
		return c.Err()
	}
}

// endErrand has the agent hear what was said while it was busy with an errand.
func (s *session) endErrand(e *errand) {
	s.errands = slices.DeleteFunc(s.errands, func(other *errand) bool { return other == e })
	s.server.use(s)
	s.sendUnheard()
}
