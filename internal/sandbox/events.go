package sandbox

import (
	"context"
	"log/slog"
	"sync"

	"github.com/x/pygent/internal/egress"
)

// Event is something that happens outside of commands.
type Event struct {
	Kind      EventKind
	Text      string      // for people
	Container string      // the name of the one that starts, has started, or was lost
	Current   int64       // progress so far, in bytes; 0 when it has no measure
	Total     int64       // the whole; 0 when unknown
	Host      *egress.Use // of NetworkUsed, where it is named
}

// EventKind is the kind of an [Event].
type EventKind string

// The kinds of events.
const (
	Fallback    EventKind = "fallback" // no engine answers: commands run on this machine
	Pull        EventKind = "pull"     // an image is being pulled
	Starting    EventKind = "starting" // the container takes its time to start
	Started     EventKind = "started"  // the container runs
	Lost        EventKind = "lost"     // the container died, or does not answer
	Silent      EventKind = "silent"   // the container, or the engine, does not answer a command that waits
	Limited     EventKind = "limited"  // commands are contained less than elsewhere
	Failed      EventKind = "failed"   // the container cannot start
	NetworkUsed EventKind = "network"  // commands reached a host, or were refused
)

// Events logs the events of a sandbox and hands them to their consumer, one at a
// time and in order. It has a goroutine while there are events, so that a
// consumer holds nothing up, and may call the sandbox, even its Cleanup.
type Events struct {
	emit   func(Event) // may be nil
	logger *slog.Logger

	mu       sync.Mutex // guards what follows
	queue    []Event
	handling bool          // emit is being called
	idle     chan struct{} // closed when the goroutine has ended; nil when there is none
	closed   bool
}

// NewEvents returns Events for a consumer, which may be nil.
func NewEvents(emit func(Event), logger *slog.Logger) *Events {
	return &Events{emit: emit, logger: logger}
}

// Tell logs an event and hands it over at once, before there is a sandbox.
func (q *Events) Tell(e Event) {
	q.log(e)
	if q.emit != nil {
		q.emit(e)
	}
}

func (q *Events) log(e Event) {
	level := slog.LevelInfo
	switch {
	case e.Kind == Fallback || e.Kind == Limited || e.Kind == Lost || e.Kind == Silent || e.Kind == Failed:
		level = slog.LevelWarn
	case e.progress():
		level = slog.LevelDebug // one of many
	}
	q.logger.Log(context.Background(), level, e.Text, "kind", string(e.Kind))
}

// Send logs an event and has it handed over.
func (q *Events) Send(e Event) {
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
		q.begin()
	}
}

// begin starts the goroutine if there are events for it. The caller holds q.mu.
func (q *Events) begin() {
	q.idle = nil
	if len(q.queue) > 0 && !q.closed {
		q.idle = make(chan struct{})
		go q.deliver(q.idle)
	}
}

// progress reports whether an event is outdated by the next one of its kind.
func (e Event) progress() bool { return e.Total > 0 }

// deliver calls the consumer until there are no more events. If the consumer ends
// the goroutine, another one takes over.
func (q *Events) deliver(idle chan struct{}) {
	defer close(idle)
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.begin()
	for len(q.queue) > 0 && !q.closed {
		e := q.queue[0]
		q.queue = q.queue[1:]
		q.hand(e)
	}
	q.queue = nil
}

// hand calls the consumer. The caller holds q.mu, which is released meanwhile.
func (q *Events) hand(e Event) {
	q.handling = true
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		q.handling = false
	}()
	q.emit(e)
}

// Close ends the events. It waits for the goroutine, unless that is calling the
// consumer: the consumer itself may have called Close.
func (q *Events) Close() {
	q.mu.Lock()
	q.closed = true
	idle, handling := q.idle, q.handling
	q.mu.Unlock()
	if idle != nil && !handling {
		<-idle
	}
}
