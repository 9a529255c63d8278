package guest

import (
	"sync"
	"time"

	"github.com/x/pygent/internal/guest/wire"
)

// DefaultKeepAlive is how often a guest is called.
const DefaultKeepAlive = 5 * time.Second

// maxMissed is how many calls a guest may leave without an answer.
const maxMissed = 3

// keepAlive calls the guest from time to time. It has no goroutine while it
// waits, so that an idle client costs next to nothing.
type keepAlive struct {
	pulse  *wire.Pulse
	every  time.Duration
	missed int // belongs to the beat that goes on

	mu      sync.Mutex // guards timer and stopped
	timer   *time.Timer
	stopped bool
}

// beginCalls begins to call the guest.
func (c *Client) beginCalls(pulse *wire.Pulse, every time.Duration) {
	k := &c.calls
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pulse, k.every = pulse, every
	k.timer = time.AfterFunc(every, func() { c.spawn(c.beat) })
}

// beat gives the guest up when it has missed too many calls, and else calls it.
// The answer is heard by the next beat, as is anything else that comes. Beats
// are counted, not time: a process that was stopped itself finds one of them due
// when it goes on.
func (c *Client) beat() {
	k := &c.calls
	if k.missed++; k.pulse.Heard() {
		k.missed = 0
	}
	if k.missed > maxMissed {
		c.desert()
		return
	}
	k.again()
	_, _ = c.session.Ping()
}

// again has the next beat come.
func (k *keepAlive) again() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.stopped {
		k.timer.Reset(k.every)
	}
}

// stop lets no further beat come.
func (k *keepAlive) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	if k.timer != nil {
		k.timer.Stop()
	}
}
