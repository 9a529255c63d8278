package guest

import (
	"sync"

	"github.com/x/pygent/internal/guest/wire"
)

// pauses stops and restarts the time limits of commands. The zero value is ready
// to use.
type pauses struct {
	mu      sync.Mutex // guards the fields below
	holders int        // how many callers want the limits paused
	runs    map[*pausable]bool
}

// pausable is a command that a caller waits for.
type pausable struct {
	x *exchange

	mu   sync.Mutex // guards told, and keeps the messages in order
	told bool       // the guest was told to pause the limit
}

// Pause stops the time limits of all commands that are being waited for, and of
// those that begin later, until resume is called. resume must be called exactly
// once. Background jobs are not affected.
func (c *Client) Pause() (resume func()) {
	c.changePauses(1)
	return func() { c.changePauses(-1) }
}

func (c *Client) changePauses(by int) {
	p := &c.pauses
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.holders > 0
	p.holders += by
	if after := p.holders > 0; after != before {
		for run := range p.runs {
			c.spawn(func() { c.tellPause(run) })
		}
	}
}

// pausable registers a command with the pauses. The returned function removes it.
func (c *Client) pausable(x *exchange) (end func()) {
	p, run := &c.pauses, &pausable{x: x}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runs == nil {
		p.runs = map[*pausable]bool{}
	}
	p.runs[run] = true
	if p.holders > 0 {
		c.spawn(func() { c.tellPause(run) })
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.runs, run)
	}
}

// tellPause tells the guest the current state. Other changes may have happened
// since the one that led to this call, so the state is read here.
func (c *Client) tellPause(run *pausable) {
	run.mu.Lock()
	defer run.mu.Unlock()
	c.pauses.mu.Lock()
	pause, runs := c.pauses.holders > 0, c.pauses.runs[run]
	c.pauses.mu.Unlock()
	switch {
	case !runs || pause == run.told:
		return
	case pause:
		run.x.watch.pause()
		_ = wire.WriteFrame(run.x.stream, wire.KindPause, nil)
	default:
		_ = wire.WriteFrame(run.x.stream, wire.KindResume, nil)
		run.x.watch.restart()
	}
	run.told = pause
}
