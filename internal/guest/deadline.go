package guest

import (
	"sync"
	"time"

	"github.com/x/pygent/internal/guest/wire"
)

// How long a guest that does not answer is waited for. Every request has a
// limit here, for a guest that was stopped, or whose engine was, keeps none of
// its own.
const (
	// DefaultPatience is how long an answer may take beyond the time that the
	// request itself may take. It is more than the guest needs to find that
	// processes cannot be killed.
	DefaultPatience = 3 * time.Second
	// answerTime is how long the guest may take for what it does at once.
	answerTime = 20 * time.Second
	// fileTime is how long it may take to get on with a file: disks can be slow,
	// and others may come first.
	fileTime = 60 * time.Second
	// dialTime is how long a connection inside may take to come about.
	dialTime = 10 * time.Second
)

// limit is how long the guest may take for a request.
type limit struct {
	time  time.Duration // 0 for as long as it shows that it lives
	fatal bool          // it is given up past that
}

// timeFor returns the limit of a request. Past that of a command the guest is
// given up, because what it runs must not run any longer; a file that takes
// its time, by contrast, may be no fault of the guest.
func (c *Client) timeFor(kind wire.Kind, request wire.Message) limit {
	switch kind {
	case wire.KindOwn, wire.KindRemove:
		return limit{} // a whole tree, about which nothing is said before the end
	case wire.KindAccept:
		return limit{} // answered when somebody connects
	case wire.KindRead, wire.KindWrite, wire.KindStat, wire.KindList, wire.KindMkdir, wire.KindTarIn, wire.KindTarOut:
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

// watch calls a function when a time has passed. It can be paused, and it does
// not count time in which this process itself was stopped: what came meanwhile
// has yet to be read.
type watch struct {
	time    time.Duration
	expired func()

	mu      sync.Mutex // guards what follows
	timer   *time.Timer
	due     time.Time
	running bool
	ended   bool
}

// lateness is by how much a timer of ours is late when we were stopped.
const lateness = 500 * time.Millisecond

// newWatch starts a watch. With no time to pass it never calls expired.
func newWatch(d time.Duration, expired func()) *watch {
	w := &watch{time: d, expired: expired}
	w.restart()
	return w
}

// restart gives the whole time anew.
func (w *watch) restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.arm(w.time)
}

// arm has the timer fire after d. The caller holds mu.
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
		w.arm(lateness) // under the lock: a stop must not be undone
	}
	w.mu.Unlock()
	if over {
		w.expired()
	}
}
