package safecall

import (
	"context"
	"time"
)

// Poller calls a function at intervals. Its owner starts and ends it from one
// goroutine. The zero Loop is ready to use.
type Poller struct {
	stop context.CancelFunc
	done chan struct{} // closed when the goroutine of the loop has ended
}

// Start calls f every interval, from another goroutine, until f returns false,
// ctx ends, or End is called. A loop that goes on is left as it is.
func (l *Poller) Start(ctx context.Context, every time.Duration, f func(context.Context) (more bool)) {
	if l.Goes() {
		return
	}
	if l.done != nil {
		l.stop()
	}
	ctx, l.stop = context.WithCancel(ctx)
	l.done = make(chan struct{})
	go run(ctx, l.done, every, f)
}

// Goes reports whether the loop goes on.
func (l *Poller) Goes() bool {
	if l.done == nil {
		return false
	}
	select {
	case <-l.done:
		return false
	default:
		return true
	}
}

func run(ctx context.Context, done chan<- struct{}, every time.Duration, f func(context.Context) bool) {
	defer close(done)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if !f(ctx) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// End ends the loop and waits for the call of its function that goes on.
func (l *Poller) End() {
	if l.done != nil {
		l.stop()
		<-l.done
	}
}
