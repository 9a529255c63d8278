package safecall

import (
	"context"
	"sync"
)

// Slot lets one run at a time go on, until it is closed. Make one with [NewSlot]. It is safe
// for concurrent use.
type Slot struct {
	noContext, taken, shut error

	busy  Baton         // held by the current run
	ended chan struct{} // closed once the first Close is over

	mu     sync.Mutex // guards the fields below
	cancel context.CancelCauseFunc
	closed bool
}

// NewSlot returns a slot with the errors of Begin: for a nil context, for a run beside
// another, and for one of a closed slot.
func NewSlot(noContext, taken, closed error) *Slot {
	return &Slot{noContext: noContext, taken: taken, shut: closed, busy: NewBaton(), ended: make(chan struct{})}
}

// Begin makes the caller the only run. The returned context ends at the latest when the slot
// is closed; end must be called.
func (s *Slot) Begin(ctx context.Context) (_ context.Context, end func(), err error) {
	if ctx == nil {
		return nil, nil, s.noContext
	}
	free := s.busy.TryLock()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed: // which holds busy while it goes on
		err = s.shut
	case !free:
		err = s.taken
	}
	if err != nil {
		if free {
			s.busy.Unlock()
		}
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s.cancel = cancel
	return ctx, func() {
		s.mu.Lock()
		s.cancel = nil
		s.mu.Unlock()
		cancel(nil)
		s.busy.Unlock()
	}, nil
}

// IsTaken reports whether a run goes on.
func (s *Slot) IsTaken() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cancel != nil
}

// IsClosed reports whether there are no further runs.
func (s *Slot) IsClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Interrupt ends the context of the run that goes on, if any.
func (s *Slot) Interrupt(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.cancel(cause)
	}
}

// Close refuses further runs and interrupts the one that goes on. It reports whether it is
// the first call, whose caller calls end when it has closed the rest. Another call waits for
// that.
func (s *Slot) Close(cause error) (first bool, end func()) {
	s.mu.Lock()
	first, s.closed = !s.closed, true
	s.mu.Unlock()
	s.Interrupt(cause)
	if !first {
		<-s.ended
	}
	return first, func() { close(s.ended) }
}

// Await waits for the end of the run that goes on, until ctx ends. No run begins before
// release is called.
func (s *Slot) Await(ctx context.Context) (release func(), err error) {
	return s.busy.Unlock, s.busy.LockContext(ctx)
}
