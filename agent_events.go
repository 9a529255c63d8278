package pygent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"time"

	"github.com/x/pygent/internal/callback"
	"github.com/x/pygent/internal/feed"
	"github.com/x/pygent/internal/guard"
)

// ErrEventsUsed is the error of ranging a second time over what [Agent.Events]
// returned: it stands for one run, which is over.
var ErrEventsUsed = errors.New("the events of this run were ranged over already; call Events for another run")

// Events is [Agent.RunUntilStop] as an iterator over what happens. The run goes
// in step with the loop that ranges over it: it goes on when the loop asks for
// the next event, so that a loop left at a tool_call keeps the tool from running.
// Only deltas are written ahead, and merged. The last event is [EventRunEnd],
// with the result. The error, if any, comes last, with a zero event.
//
// Leaving the loop cancels the run and waits for its end. The body may use the
// agent's runtime, its tasks and its history, but not close the agent. The time
// that it takes counts: a run whose time limit passes meanwhile ends, and the
// loop still gets its events. It can be ranged over once.
func (a *Agent) Events(ctx context.Context, msg string, opts ...RunOption) iter.Seq2[Event, error] {
	var used atomic.Bool
	return func(yield func(Event, error) bool) {
		if used.Swap(true) {
			yield(Event{}, ErrEventsUsed)
			return
		}
		if err := a.follow(ctx, msg, opts, func(e Event) bool { return yield(e, nil) }); err != nil {
			yield(Event{}, err)
		}
	}
}

// follow runs the agent and calls yield with every event until it returns false,
// which cancels the run. It returns the error of a run that was followed to its
// end.
func (a *Agent) follow(ctx context.Context, msg string, opts []RunOption, yield func(Event) bool) error {
	if ctx == nil {
		return errNilContext
	}
	ctx, cancel := context.WithCancel(ctx)
	s := newEventStream()
	events := newEventFeed(s.give)
	ended := make(chan struct{})
	var err error
	go func() {
		defer close(ended)
		_, err = a.run(ctx, msg, events, opts)
	}()
	defer func() {
		cancel()
		close(s.left)
		<-ended
		<-events.Handled()
	}()
	defer a.calling.Enter(callback.Self())()
	for {
		e, ok := s.next(ended, events)
		if !ok {
			return err
		}
		if !yield(e) {
			return nil
		}
	}
}

// eventStream hands events from a feed to the loop that ranges over them. The
// feed, and with it the run, waits until the loop asks for the next one.
type eventStream struct {
	events chan Event
	asked  chan struct{} // the loop is done with the event it got
	left   chan struct{} // closed when the loop was left
	busy   bool          // the loop has an event; the loop's own
}

func newEventStream() *eventStream {
	return &eventStream{events: make(chan Event), asked: make(chan struct{}), left: make(chan struct{})}
}

// give is the function of the feed.
func (s *eventStream) give(e Event) {
	select {
	case s.events <- e:
	case <-s.left:
		return
	}
	select {
	case <-s.asked:
	case <-s.left:
	}
}

// next returns the next event, and false when the run ended and all of its
// events were taken.
func (s *eventStream) next(ended <-chan struct{}, events *feed.Feed[Event]) (Event, bool) {
	if s.busy {
		s.asked <- struct{}{}
		s.busy = false
	}
	var none <-chan struct{} // closed when no more events come
	for {
		select {
		case e := <-s.events:
			s.busy = true
			return e, true
		case <-ended:
			ended, none = nil, events.Handled()
		case <-none:
			return Event{}, false
		}
	}
}

// newEventFeed returns a feed for f.
func newEventFeed(f func(Event)) *feed.Feed[Event] { return feed.New(f, mergeDeltas) }

// isDelta reports whether an event is for display alone: a piece of an answer
// being written, or how far a pull is.
func isDelta(e Event) bool {
	return e.Type == EventText || e.Type == EventReasoning ||
		e.Type == EventRuntime && e.Runtime.Kind == RuntimePull
}

// mergeDeltas joins two pieces of the same text. Of a pull the last word counts.
func mergeDeltas(last, next Event) (Event, bool) {
	if last.Type != next.Type || last.Task != next.Task || last.Step != next.Step {
		return last, false
	}
	if next.Type != EventRuntime {
		next.Text = last.Text + next.Text
	}
	return next, true
}

// handlerFeed returns a feed for an event handler of the caller's, or nil for
// none. A handler that panics ends the run that goes on.
func (a *Agent) handlerFeed(f func(Event)) *feed.Feed[Event] {
	if f == nil {
		return nil
	}
	return newEventFeed(func(e Event) {
		defer a.enter(&a.handling, "an event handler")()
		guard.Do(func() (struct{}, error) {
			f(e)
			return struct{}{}, nil
		}, func(_ struct{}, err error) {
			if err != nil {
				a.handlerFailed(err)
			}
		})
	})
}

// errHandler is the cause with which a run ends whose event handler panicked.
var errHandler = errors.New("the event handler")

// handlerFailed ends the run that goes on because a handler of its events did
// not return.
func (a *Agent) handlerFailed(err error) {
	a.logPanic("event handler", err)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cancel != nil {
		a.cancel(fmt.Errorf("%w: %w", errHandler, err))
	}
}

// listeners are who hears the events of an agent.
type listeners struct {
	always  *feed.Feed[Event]   // of the agent's handler; nil for none
	session *feed.Feed[Event]   // of the interactive session that goes on
	run     []*feed.Feed[Event] // of the run that goes on
}

// listen has feeds hear the events of the run that begins. Nil feeds are left out.
func (a *Agent) listen(feeds ...*feed.Feed[Event]) {
	a.emitMu.Lock()
	defer a.emitMu.Unlock()
	a.listeners.run = nil
	for _, f := range feeds {
		if f != nil {
			a.listeners.run = append(a.listeners.run, f)
		}
	}
}

// emit completes an event and hands it to everybody who listens. It does not
// wait for them: the channels it returns are closed when they have handled it.
func (a *Agent) emit(e Event) []<-chan struct{} {
	a.logEvent(e)
	a.emitMu.Lock()
	defer a.emitMu.Unlock()
	l := &a.listeners
	if l.always == nil && l.session == nil && len(l.run) == 0 {
		return nil
	}
	e.Seq, e.Time = a.seq.Add(1), time.Now()
	var handled []<-chan struct{}
	for _, f := range append(l.run[:len(l.run):len(l.run)], l.always, l.session) {
		switch {
		case f == nil:
		case isDelta(e):
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

// emit tells what happens in the run, and waits until everybody who listens has
// handled it, or the time of the step is over. So the run goes in step with who
// follows it.
func (r *run) emit(e Event) { awaitAll(r.Agent.emit(e), r.patience) }

// emitLast tells the end of the run. Who listens is waited for, but no longer
// than [guard.Grace] once the run's time is over.
func (r *run) emitLast(e Event) {
	handled := r.Agent.emit(e)
	if awaitAll(handled, r.patience) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), guard.Grace)
	defer cancel()
	awaitAll(handled, ctx.Done())
}

// awaitAll waits until all channels are closed. It reports false when done was
// closed before.
func awaitAll(all []<-chan struct{}, done <-chan struct{}) bool {
	for _, one := range all {
		select {
		case <-one:
		case <-done:
			return false
		}
	}
	return true
}
