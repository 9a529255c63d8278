package pygent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/x/pygent/internal/callback"
	"github.com/x/pygent/internal/feed"
	"github.com/x/pygent/internal/guard"
)

// listeners are the feeds that get the events of an agent.
type listeners struct {
	always  *feed.Feed[Event]   // of the agent's handler; nil for none
	faces   []*feed.Feed[Event] // of those that follow the agent
	run     []*feed.Feed[Event] // of the run that goes on
	ctx     context.Context     // of that run; nil for none
	release []func()            // lets go of the feeds that the run holds
}

// listen adds feeds for the events of the run that begins. Nil feeds are left
// out.
func (a *Agent) listen(ctx context.Context, feeds ...*feed.Feed[Event]) {
	a.emitMu.Lock()
	defer a.emitMu.Unlock()
	a.listeners.run, a.listeners.ctx = nil, ctx
	for _, f := range feeds {
		if f != nil {
			a.listeners.run = append(a.listeners.run, f)
			a.listeners.release = append(a.listeners.release, f.Hold())
		}
	}
	if a.listeners.always != nil {
		a.listeners.release = append(a.listeners.release, a.listeners.always.Hold())
	}
}

// endListening removes the feeds of the run.
func (a *Agent) endListening() {
	a.emitMu.Lock()
	defer a.emitMu.Unlock()
	for _, release := range a.listeners.release {
		release()
	}
	a.listeners.run, a.listeners.ctx, a.listeners.release = nil, nil, nil
}

// handlerFeed returns a feed for an event handler that the caller gave, or nil
// for none. A handler that panics ends the current run.
func (a *Agent) handlerFeed(f func(Event)) *feed.Feed[Event] {
	if f == nil {
		return nil
	}
	var self callback.ID // of the feed's goroutine, which alone uses it
	events := feed.New(func(e Event) {
		defer a.enterAs(&a.handling, self, "an event handler")()
		guard.Call(func() { f(e) }, a.handlerFailed)
	}, mergeDeltas)
	events.Begin(func() { self = callback.Self() })
	return events
}

// errHandler is the cause of the end of a run whose event handler panicked.
var errHandler = errors.New("the event handler")

// handlerFailed ends the current run because a handler of its events panicked.
func (a *Agent) handlerFailed(err error) {
	a.logPanic("event handler", err)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cancel != nil {
		a.cancel(fmt.Errorf("%w: %w", errHandler, err))
	}
}

// emit completes an event and hands it to every listener without waiting. Each
// channel it returns is closed when a listener has handled the event.
func (a *Agent) emit(e Event) []<-chan struct{} {
	a.logEvent(&e)
	a.emitMu.Lock()
	defer a.emitMu.Unlock()
	if traceless(a.listeners.ctx) != nil {
		return nil
	}
	e.Seq, e.Time = a.seq.Add(1), time.Now()
	if e.Call != nil {
		call := *e.Call // events are kept, and with them must not be the call's context, which leads to all of its run
		e.Call = &call
	}
	a.state.note(&e)
	delta := isDelta(&e)
	if delta {
		a.replay.Offer(e.Seq, e)
	} else {
		a.replay.Put(e.Seq, e)
	}
	l := &a.listeners
	if l.always == nil && len(l.faces)+len(l.run) == 0 {
		return nil
	}
	var handled []<-chan struct{}
	for _, f := range append(slices.Concat(l.run, l.faces), l.always) {
		switch {
		case f == nil:
		case delta:
			f.Offer(e)
		default:
			handled = append(handled, f.Put(e))
		}
	}
	if e.Type == EventRunEnd && e.Task == "" {
		l.run = nil // tasks may go on, but the run's listeners have heard its last event
	}
	return handled
}

// isHeard reports whether anybody gets the events of the agent.
func (a *Agent) isHeard() bool {
	if a.replay.Wanted() {
		return true
	}
	a.emitMu.Lock()
	defer a.emitMu.Unlock()
	l := &a.listeners
	return l.always != nil || len(l.faces)+len(l.run) > 0 || a.log.Enabled(context.Background(), slog.LevelDebug)
}

// eventsHandled waits until the agent's own handler has seen all events so far,
// or ctx ends.
func (a *Agent) eventsHandled(ctx context.Context) {
	if a.listeners.always == nil {
		return
	}
	select {
	case <-a.listeners.always.Handled():
	case <-ctx.Done():
	}
}
