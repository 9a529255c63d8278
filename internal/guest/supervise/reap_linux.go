package supervise

import (
	"errors"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// watchSignals takes every signal, because those that Go handles by itself
// would end PID 1, which no process inside may do. Signals that are only
// caught, unlike ignored ones, are at their defaults again in commands.
func (p *Pool) watchSignals() {
	if p.init {
		all := make(chan os.Signal, 1)
		signal.Notify(all) // Nobody listens: what does not fit is dropped.
	}
	signal.Notify(p.signals, unix.SIGCHLD)
}

// reap removes dead children: supervisors, and what was left to this process
// by supervisors that were killed.
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

// reapLast waits for the supervisors that were killed. One whose first thread
// has ended looks dead, but cannot be reaped before its other threads have too.
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
	strays := false
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			break
		}
		p.mu.Lock()
		s := p.workers[pid]
		delete(p.workers, pid)
		p.mu.Unlock()
		if s != nil {
			close(s.dead)
			strays = true
		}
	}
	if strays {
		p.strays()
	}
}

// strays kills every child that is no supervisor: it belonged to a command
// whose supervisor is dead.
func (p *Pool) strays() {
	p.mu.Lock()
	defer p.mu.Unlock()
	skip := make(map[int]bool, len(p.workers))
	for pid := range p.workers {
		skip[pid] = true
	}
	self := unix.Getpid()
	if len(descendantsBut(self, skip)) > 0 {
		killTree(self, skip, killPatience, nil)
	}
}
