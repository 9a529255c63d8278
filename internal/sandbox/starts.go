package sandbox

import (
	"errors"
	"fmt"
)

// maxLostStarts is how many commands in a row may find nothing to run in, before no other
// one is tried: each may have waited for long.
const maxLostStarts = 2

// Starts follows the commands of a run: whether they could begin. One goroutine uses it.
type Starts struct {
	lost  int // commands in a row that could not begin
	begun bool
	why   error // of the last one that could not begin
}

// Failed takes the error of a call. It returns an error that matches [ErrStart] if no
// other command should be tried, or nil.
func (s *Starts) Failed(err error) error {
	switch {
	case errors.Is(err, ErrStart):
		return err
	case !errors.Is(err, ErrNotReady):
		return nil
	}
	s.lost, s.why = s.lost+1, err
	if s.lost < maxLostStarts {
		return nil
	}
	return fmt.Errorf("%w: %d commands in a row could not begin: %w", ErrStart, s.lost, err)
}

// Began takes note of a command that began, whatever became of it.
func (s *Starts) Began() { s.lost, s.begun = 0, true }

// Why says why no command could begin in a run that ended with an error, or nil. It is
// empty if one could, or if there was none and the runtime could start.
func (s *Starts) Why(err error) string {
	if errors.Is(err, ErrStart) {
		s.why = err
	}
	if s.begun || s.why == nil {
		return ""
	}
	return s.why.Error()
}
