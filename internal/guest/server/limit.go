package server

import (
	"io"
	"sync"
	"time"

	"github.com/x/pygent/internal/guest/wire"
)

// timeLimit calls a function when a time has passed that can stand still. It
// belongs to one command.
type timeLimit struct {
	mu     sync.Mutex // guards what follows
	timer  *time.Timer
	left   time.Duration // at since, or while it stands still
	since  time.Time
	paused bool
}

// newTimeLimit starts a limit; with no time to pass it never calls expired.
func newTimeLimit(d time.Duration, expired func()) *timeLimit {
	l := &timeLimit{left: d, since: time.Now()}
	if d > 0 {
		l.timer = time.AfterFunc(d, expired)
	}
	return l
}

// pause has the time stand still.
func (l *timeLimit) pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil || l.paused || !l.timer.Stop() {
		return
	}
	l.left -= time.Since(l.since)
	l.paused = true
}

// resume has it go on.
func (l *timeLimit) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil || !l.paused {
		return
	}
	l.paused, l.since = false, time.Now()
	l.timer.Reset(max(l.left, time.Millisecond))
}

// end ends the limit: expired is not called any more, unless it is being called.
func (l *timeLimit) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// heed does what the host says of a command while it runs. It returns when the
// host no longer wants the command.
func (j *job) heed(r io.Reader) {
	for {
		switch kind, _, err := wire.ReadFrame(r, 0); {
		case err != nil:
			return
		case kind == wire.KindPause:
			j.limit.pause()
		case kind == wire.KindResume:
			j.limit.resume()
		default:
			return // a cancel
		}
	}
}
