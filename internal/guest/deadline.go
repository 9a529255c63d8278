package guest

import (
	"sync"
	"time"

	"github.com/x/pygent/internal/guest/wire"
)

// How long an answer of the guest is waited for. The host limits every request by
// itself, because a guest that was stopped, or whose engine was, keeps none of
// its own limits.
const (
	// DefaultPatience is how long an answer may take in addition to the time that
	// the request itself may take. It exceeds the time in which the guest finds
	// out that processes cannot be killed.
	DefaultPatience = 3 * time.Second
	// answerTime is how long the guest may take for requests that it answers at
	// once.
	answerTime = 20 * time.Second
	// fileTime is how long a file request may go without progress: disks can be
	// slow, and other requests may come first.
	fileTime = 60 * time.Second
	// dialTime is how long the guest may take to open a connection inside.
	dialTime = 10 * time.Second
)

// limit is how long the guest may take for a request.
type limit struct {
	time  time.Duration // 0 for as long as the keepalive hears from it
	fatal bool          // the guest is given up after that time
}

// timeFor returns the limit of a request. When the limit of a command passes, the
// guest is given up, because the command must not run any longer. A slow file
// request does not end the guest, since it may not be the guest's fault.
func (c *Client) timeFor(kind wire.Kind, request wire.Message) limit {
	switch kind {
	case wire.KindOwn, wire.KindRemove, wire.KindMake, wire.KindSync:
		return limit{} // a whole tree, a large file, or a file system: no progress is reported before the end
	case wire.KindStreams:
		return limit{time: answerTime + c.patience}
	case wire.KindAccept:
		return limit{} // answered only when somebody connects
	case wire.KindRead, wire.KindWrite, wire.KindStat, wire.KindList, wire.KindMkdir, wire.KindTarIn, wire.KindTarOut, wire.KindScan, wire.KindFetch:
		return limit{time: fileTime}
	case wire.KindDial:
		return limit{time: dialTime + c.patience}
	}
	own := answerTime
	switch m := request.(type) {
	case *wire.Run:
		if m.Background {
			break
		}
		if m.Timeout == 0 {
			return limit{}
		}
		own = m.Timeout + m.Grace
	case *wire.OutputRequest:
		own += m.Wait
	case *wire.Kill:
		own += m.Grace
	}
	return limit{time: own + c.patience, fatal: true}
}

// watch calls a function when a time has passed. It can be paused. Time in which
// this process itself was stopped does not count, because what arrived in that
// time has not been read yet.
type watch struct {
	time    time.Duration
	expired func()

	mu      sync.Mutex // guards the fields below
	timer   *time.Timer
	due     time.Time
	running bool
	ended   bool
}

// lateness is how late a timer may fire before we conclude that this process was
// stopped.
const lateness = 500 * time.Millisecond

// newWatch starts a watch. If d is 0, it never calls expired.
func newWatch(d time.Duration, expired func()) *watch {
	w := &watch{time: d, expired: expired}
	w.restart()
	return w
}

// restart starts the full time again.
func (w *watch) restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.arm(w.time)
}

// arm sets the timer to d from now. The caller holds mu.
func (w *watch) arm(d time.Duration) {
	if w.time <= 0 || w.ended {
		return
	}
	w.running, w.due = true, time.Now().Add(d)
	if w.timer == nil {
		w.timer = time.AfterFunc(d, w.fire)
		return
	}
	w.timer.Reset(d)
}

// pause stops the time until the next restart.
func (w *watch) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.halt()
}

// stop ends the watch: expired is not called any more.
func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.halt()
}

// halt stops the timer. The caller holds mu.
func (w *watch) halt() {
	w.running = false
	if w.timer != nil {
		w.timer.Stop()
	}
}

func (w *watch) fire() {
	w.mu.Lock()
	late := time.Since(w.due)
	over := w.running && late >= 0 && late < lateness
	switch {
	case over:
		w.running = false
	case w.running && late >= lateness:
		w.arm(lateness) // under the lock, so that it does not undo a stop
	}
	w.mu.Unlock()
	if over {
		w.expired()
	}
}
