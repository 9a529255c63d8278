package guest

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
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
func (c *Client) beginCalls(pulse *wire.Pulse) {
	k := &c.calls
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pulse, k.every = pulse, c.every
	k.timer = time.AfterFunc(c.every, func() { c.spawn(c.beat) })
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

// lastHeard is a byte stream that remembers when something came last.
type lastHeard struct {
	io.ReadWriteCloser
	base time.Time
	last atomic.Int64 // in nanoseconds since base
}

// Read implements io.Reader.
func (h *lastHeard) Read(b []byte) (int, error) {
	n, err := h.ReadWriteCloser.Read(b)
	if n > 0 {
		h.last.Store(int64(time.Since(h.base)))
	}
	return n, err
}

// ago is how long nothing has come.
func (h *lastHeard) ago() time.Duration { return time.Since(h.base) - time.Duration(h.last.Load()) }

// greetAgain calls a guest that was not heard for long, because this process was
// stopped say. It may have gone meanwhile, and a request would be lost of which
// nobody could tell whether it was carried out. The error matches ErrUnsent.
func (c *Client) greetAgain() error {
	if c.heard.ago() <= 2*c.every {
		return nil
	}
	_, err := c.session.Ping()
	switch {
	case err == nil:
		return nil
	case errors.Is(c.Err(), ErrUnresponsive):
		return unheard{}
	default:
		return fmt.Errorf("%w: %w", ErrUnsent, err)
	}
}

// unheard is the error of a request that was not sent because the guest did not
// answer.
type unheard struct{}

// Error is that of ErrUnresponsive.
func (unheard) Error() string { return ErrUnresponsive.Error() }

// Unwrap has it match both.
func (unheard) Unwrap() []error { return []error{ErrUnsent, ErrUnresponsive} }
