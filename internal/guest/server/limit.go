package server

import (
	"io"
	"sync"
	"time"

	"github.com/x/pygent/internal/guest/wire"
)

// timeLimit calls a function when a time has passed. The time can be paused.
// Each command has a timeLimit of its own.
type timeLimit struct {
	mu     sync.Mutex // guards the fields below
	timer  *time.Timer
	left   time.Duration // time left at since, or while paused
	since  time.Time
	paused bool
}

// newTimeLimit starts a limit. If d is 0, it never calls expired.
func newTimeLimit(d time.Duration, expired func()) *timeLimit {
	l := &timeLimit{left: d, since: time.Now()}
	if d > 0 {
		l.timer = time.AfterFunc(d, expired)
	}
	return l
}

// pause stops the time.
func (l *timeLimit) pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil || l.paused || !l.timer.Stop() {
		return
	}
	l.left -= time.Since(l.since)
	l.paused = true
}

// resume lets the time run again.
func (l *timeLimit) resume() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer == nil || !l.paused {
		return
	}
	l.paused, l.since = false, time.Now()
	l.timer.Reset(max(l.left, time.Millisecond))
}

// end ends the limit. expired is not called after that, but a call may still be
// running.
func (l *timeLimit) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// heed obeys the host's messages about a running command. It returns when the
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
