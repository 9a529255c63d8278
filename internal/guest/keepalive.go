package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/x/pygent/internal/guest/wire"
)

// DefaultKeepAlive is the default interval of the pings to a guest.
const DefaultKeepAlive = 5 * time.Second

// maxMissed is how many pings in a row a guest may leave unanswered.
const maxMissed = 3

// keepAlive pings the guest regularly. It uses no goroutine between two pings, so
// that an idle client costs next to nothing.
type keepAlive struct {
	pulse  *wire.Pulse
	every  time.Duration
	missed int // used only by the beat that is running

	mu      sync.Mutex // guards timer and stopped
	timer   *time.Timer
	stopped bool
}

// beginCalls starts the pings.
func (c *Client) beginCalls(pulse *wire.Pulse) {
	k := &c.calls
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pulse, k.every = pulse, c.every
	k.timer = time.AfterFunc(c.every, func() { c.spawn(c.beat) })
}

// beat sends a ping, or gives the guest up if too many have gone unanswered. The
// next beat checks whether anything has arrived since. The limit is a number of
// beats and not a time, because a process that was itself stopped finds only one
// beat due when it continues.
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

// again schedules the next beat.
func (k *keepAlive) again() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.stopped {
		k.timer.Reset(k.every)
	}
}

// stop ends the beats.
func (k *keepAlive) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopped = true
	if k.timer != nil {
		k.timer.Stop()
	}
}

// lastHeard is a byte stream that remembers when it last received something.
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

// ago returns how long ago something was last received.
func (h *lastHeard) ago() time.Duration { return time.Since(h.base) - time.Duration(h.last.Load()) }

// Answers pings the guest, and reports whether anything comes from it before ctx ends.
// It does not tell of a session that has ended.
func (c *Client) Answers(ctx context.Context) bool {
	begun, answered := time.Now(), make(chan struct{})
	if !c.spawn(func() {
		defer close(answered)
		_, _ = c.session.Ping()
	}) {
		return true
	}
	select {
	case <-answered:
		return true
	case <-ctx.Done():
		return c.heard.ago() < time.Since(begun)
	}
}

// greetAgain pings a guest from which nothing has come for a long time, for
// example because this process was stopped. The guest may have gone in the
// meantime. A request would then be lost, and nobody could tell whether it was
// carried out. The error matches ErrUnsent.
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
// answer the ping before it.
type unheard struct{}

// Error returns the text of ErrUnresponsive.
func (unheard) Error() string { return ErrUnresponsive.Error() }

// Unwrap makes it match both ErrUnsent and ErrUnresponsive.
func (unheard) Unwrap() []error { return []error{ErrUnsent, ErrUnresponsive} }
