package taskpool

import (
	"sync"
	"time"
)

// Presence is whether somebody is there. The zero Presence is that of nobody. It is
// safe for concurrent use.
type Presence struct {
	mu   sync.Mutex
	gone chan struct{} // closed when they leave; nil while nobody is there
	late *time.Timer   // leaves; nil if nobody is about to
}

// Come notes that somebody is there.
func (p *Presence) Come() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stay()
	if p.gone == nil {
		p.gone = make(chan struct{})
	}
}

// Leave notes that nobody is there any more.
func (p *Presence) Leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave()
}

// LeaveAfter is Leave once d has passed, unless somebody comes before.
func (p *Presence) LeaveAfter(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stay()
	var late *time.Timer
	late = time.AfterFunc(d, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.late == late { // else somebody came as the time was over
			p.leave()
		}
	})
	p.late = late
}

// stay ends the wait of LeaveAfter. The caller holds mu.
func (p *Presence) stay() {
	if p.late != nil {
		p.late.Stop()
		p.late = nil
	}
}

// leave is Leave for a caller that holds mu.
func (p *Presence) leave() {
	p.stay()
	if p.gone != nil {
		close(p.gone)
		p.gone = nil
	}
}

// Here reports whether somebody is there, and returns a channel that is closed when
// they leave.
func (p *Presence) Here() (gone <-chan struct{}, here bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone, p.gone != nil
}
