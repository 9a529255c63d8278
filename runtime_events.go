package pygent

import (
	"context"
	"log/slog"
	"sync"
)

// runtimeEvents logs the events of a runtime and hands them to their consumer,
// one at a time and in order. It has a goroutine while there are events, so that
// a consumer holds nothing up, and may call the runtime, even its Cleanup.
type runtimeEvents struct {
	emit   func(RuntimeEvent) // may be nil
	logger *slog.Logger

	mu       sync.Mutex // guards what follows
	queue    []RuntimeEvent
	handling bool          // emit is being called
	idle     chan struct{} // closed when the goroutine has ended; nil when there is none
	closed   bool
}

// tell logs an event and hands it over at once, before there is a runtime.
func (q *runtimeEvents) tell(e RuntimeEvent) {
	q.log(e)
	if q.emit != nil {
		q.emit(e)
	}
}

func (q *runtimeEvents) log(e RuntimeEvent) {
	level := slog.LevelInfo
	switch {
	case e.Kind == RuntimeFallback || e.Kind == RuntimeLimited || e.Kind == RuntimeLost || e.Kind == RuntimeFailed:
		level = slog.LevelWarn
	case e.progress():
		level = slog.LevelDebug // one of many
	}
	q.logger.Log(context.Background(), level, e.Text, "kind", string(e.Kind))
}

// send logs an event and has it handed over.
func (q *runtimeEvents) send(e RuntimeEvent) {
	q.log(e)
	if q.emit == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	if last := len(q.queue) - 1; last >= 0 && e.progress() && q.queue[last].progress() {
		q.queue[last] = e
		return
	}
	q.queue = append(q.queue, e)
	if q.idle == nil {
		q.idle = make(chan struct{})
		go q.deliver(q.idle)
	}
}

// progress reports whether an event is outdated by the next one of its kind.
func (e RuntimeEvent) progress() bool { return e.Total > 0 }

// deliver calls the consumer until there are no more events.
func (q *runtimeEvents) deliver(idle chan struct{}) {
	defer close(idle)
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.queue) > 0 && !q.closed {
		e := q.queue[0]
		q.queue = q.queue[1:]
		q.handling = true
		q.mu.Unlock()
		q.emit(e)
		q.mu.Lock()
		q.handling = false
	}
	q.queue, q.idle = nil, nil
}

// close has no further event come. It waits for the goroutine unless that calls
// the consumer: it may be the consumer that closes.
func (q *runtimeEvents) close() {
	q.mu.Lock()
	q.closed = true
	idle, handling := q.idle, q.handling
	q.mu.Unlock()
	if idle != nil && !handling {
		<-idle
	}
}
