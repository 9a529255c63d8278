package guest

import (
	"sync"

	"github.com/x/pygent/internal/guest/wire"
)

// pauses has the time limits of commands stand still. Its zero value is ready to
// use.
type pauses struct {
	mu      sync.Mutex // guards what follows
	holders int        // how many want them to
	runs    map[*pausable]bool
}

// pausable is a command that is waited for.
type pausable struct {
	x *exchange

	mu   sync.Mutex // guards told, and the order of what is sent
	told bool       // the guest was told to pause it
}

// Pause has the time limits of the commands that are waited for, and of those
// that begin meanwhile, stand still until resume is called, once. Jobs in the
// background are not concerned.
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

// pausable begins to look after a command. The function that it returns ends that.
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

// tellPause tells the guest what holds now: between a change and this one there
// may have been others.
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
