package supervise

import (
	"errors"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// watchSignals catches every signal. Go's default handling of some of them
// would end PID 1, and no process inside may be able to do that. In commands
// the signals have their default actions again, because caught signals, unlike
// ignored ones, are reset by exec.
func (p *Pool) watchSignals() {
	if p.init {
		all := make(chan os.Signal, 1)
		signal.Notify(all) // nobody reads the channel: signals that do not fit are dropped
	}
	signal.Notify(p.signals, unix.SIGCHLD)
}

// reap reaps dead children. These are supervisors, and processes that killed
// supervisors have left behind.
func (p *Pool) reap() {
	defer signal.Stop(p.signals)
	for {
		select {
		case <-p.signals:
			p.reapAll()
		case <-p.done:
			p.reapLast()
			return
		}
	}
}

// reapLast waits for the killed supervisors. A supervisor whose main thread has
// ended looks dead, but cannot be reaped before its other threads have ended.
func (p *Pool) reapLast() {
	tick := time.NewTicker(maxKillPause)
	defer tick.Stop()
	for {
		p.reapAll()
		p.mu.Lock()
		left := len(p.workers)
		p.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-p.signals:
		case <-tick.C:
		}
	}
}

func (p *Pool) reapAll() {
	if p.reapDead() {
		p.strays()
	}
}

// reapDead reaps the children that are dead. It reports whether a supervisor was
// among them.
func (p *Pool) reapDead() (supervisors bool) {
	p.births.Lock()
	defer p.births.Unlock()
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return supervisors
		}
		p.mu.Lock()
		s := p.workers[pid]
		delete(p.workers, pid)
		p.mu.Unlock()
		if s != nil {
			close(s.dead)
			supervisors = true
		}
	}
}

// strays kills every child that is not a supervisor. Such a child belonged to a
// command whose supervisor is dead.
func (p *Pool) strays() {
	p.births.Lock()
	defer p.births.Unlock()
	p.mu.Lock()
	skip := make(map[int]bool, len(p.workers))
	for pid := range p.workers {
		skip[pid] = true
	}
	p.mu.Unlock()
	self := unix.Getpid()
	if len(walk(self, skip, nil)) > 0 {
		killTree(self, skip, killPatience, nil)
	}
}
