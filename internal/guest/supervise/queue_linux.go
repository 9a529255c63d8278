package supervise

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// startPace is how long the start of one supervisor holds up that of the next.
	// When the machine is busy it takes longer than that, and many commands may
	// end in that time.
	startPace = 4 * time.Millisecond
	// startTime is how long a new supervisor may take until it takes orders. A
	// command may have stopped it.
	startTime = 5 * time.Second
)

// taken is what a command gets that waits for a supervisor.
type taken struct {
	supervisor *supervisor
	err        error
}

// take returns an idle supervisor. If there is none, it waits for the first that
// is: one whose command ends, or a new one. Starting a supervisor takes as long as
// a short command, so of many that come at once most find one that was used
// before.
func (p *Pool) take() (*supervisor, error) {
	p.mu.Lock()
	if s := p.lastIdle(); s != nil {
		p.mu.Unlock()
		return s, nil
	}
	if p.closed {
		p.mu.Unlock()
		return nil, ErrClosed
	}
	turn := make(chan taken, 1)
	p.waiting = append(p.waiting, turn)
	if !p.growing {
		p.growing = true
		p.running.Go(p.grow)
	}
	p.mu.Unlock()
	t := <-turn
	return t.supervisor, t.err
}

// lastIdle removes the supervisor that was used last from the idle ones. It returns
// nil if there is none. The caller holds the mutex.
func (p *Pool) lastIdle() *supervisor {
	for len(p.idle) > 0 {
		s := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		if p.workers[s.pid] == s {
			return s
		}
	}
	return nil
}

// grow starts supervisors, one after the other, until there is one for each command
// that waits.
func (p *Pool) grow() {
	for p.wanted() {
		ready := make(chan struct{})
		p.running.Go(func() {
			defer close(ready)
			p.raise()
		})
		select {
		case <-ready:
		case <-time.After(startPace):
		}
	}
}

// wanted reports whether one more supervisor must be started, and counts it as
// starting. Otherwise the next command that must wait makes another goroutine grow
// the pool.
func (p *Pool) wanted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.growing = len(p.waiting) > p.starting
	if p.growing {
		p.starting++
	}
	return p.growing
}

// raise starts a supervisor that is counted as starting, and waits until it is
// ready. If that fails, it tells a command that waits. A second attempt is made,
// because a command may have killed the first supervisor.
func (p *Pool) raise() {
	var err error
	for range 2 {
		var s *supervisor
		if s, err = p.startWorker(); err != nil {
			break
		}
		if s.awaitReady() {
			return
		}
		err = fmt.Errorf("it ended at its start: %w", unix.EAGAIN)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starting--
	if len(p.waiting) > 0 {
		p.next() <- taken{err: err}
	}
}

// awaitReady waits until a new supervisor takes orders. It reports false if the
// supervisor has ended instead, for which it is killed after a while.
func (s *supervisor) awaitReady() bool {
	limit := time.NewTimer(startTime)
	defer limit.Stop()
	select {
	case <-s.ready:
		return true
	case <-s.dead:
	case <-limit.C:
		_ = unix.Kill(s.pid, unix.SIGKILL)
		<-s.dead
	}
	// It may have been ready just before.
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	wasReady := !s.fresh
	s.fresh = false
	return wasReady
}

// becomeReady handles the event that a new supervisor takes orders, which comes
// once.
func (s *supervisor) becomeReady() bool {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if !s.fresh || p.closed {
		return false // listen hangs up
	}
	s.fresh = false
	close(s.ready)
	p.starting--
	if len(p.waiting) > 0 {
		p.next() <- taken{supervisor: s}
		return true
	}
	return p.keep(s)
}

// release takes back a supervisor whose command has ended. It gives it to the command
// that has waited longest, or keeps it.
func (p *Pool) release(s *supervisor) {
	p.mu.Lock()
	kept := false
	switch {
	case p.closed || p.workers[s.pid] != s:
	case len(p.waiting) > 0:
		p.next() <- taken{supervisor: s}
		kept = true
	default:
		kept = p.keep(s)
	}
	p.mu.Unlock()
	if !kept {
		s.hangUp()
	}
}

// keep adds a supervisor to the idle ones unless there are many. The caller holds the
// mutex.
func (p *Pool) keep(s *supervisor) bool {
	if len(p.idle) >= maxIdle {
		return false
	}
	s.idle = time.Now()
	p.idle = append(p.idle, s)
	return true
}

// refuseAll tells all commands that wait why they get no supervisor. The caller holds
// the mutex.
func (p *Pool) refuseAll(err error) {
	for len(p.waiting) > 0 {
		p.next() <- taken{err: err}
	}
}

// next removes the command that has waited longest. The caller holds the mutex.
func (p *Pool) next() chan<- taken {
	turn := p.waiting[0]
	p.waiting[0] = nil
	p.waiting = p.waiting[1:]
	return turn
}
