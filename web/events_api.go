package web

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/x/pygent"
)

// getEvents sends the agent's events to a program, from the one after that which it
// knows. One that was away too long is told so, and begins with the history.
func (s *Server) getEvents(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	after, err := one.after(cmp.Or(c.Header.Get("Last-Event-ID"), c.URL.Query().Get("after")))
	if err != nil {
		return nil, err
	}
	return s.streaming(c, one.ctx, map[string]string{one.id: ""}, func(ctx context.Context, _ *stream) error {
		return one.sendEvents(ctx, c.w, after)
	})
}

// after reads the id of the last event that a program knows.
func (s *session) after(id string) (int64, error) {
	if id == "" {
		return 0, nil
	}
	epoch, number, _ := strings.Cut(id, ".")
	after, err := strconv.ParseInt(number, 10, 64)
	switch {
	case err != nil || after < 0:
		return 0, fail(http.StatusBadRequest, "bad_request", "the id of an event is epoch.number")
	case epoch != s.epoch || after > s.agent.State().Seq:
		return 0, errTooOld
	}
	return after, nil
}

// silence is how long a stream of events waits for the first one before it begins.
const silence = 250 * time.Millisecond

// errTooOld is the answer to one who was away too long.
var errTooOld = fail(http.StatusGone, "too_old", "events are missing; read the history first")

// nextEvent is an event of an agent, or why there are no more.
type nextEvent struct {
	event pygent.Event
	err   error
}

// subscribe passes the agent's events on until ctx ends. The server waits for that.
func (s *session) subscribe(ctx context.Context, after int64) <-chan nextEvent {
	events := make(chan nextEvent)
	s.server.work.Go(func() {
		defer close(events)
		for e, err := range s.agent.Subscribe(ctx, after) {
			select {
			case events <- nextEvent{e, err}:
			case <-ctx.Done():
				return
			}
		}
	})
	return events
}

// eventWriter writes events to a program. It begins with the first of them, so that
// what is wrong before can be an error of the request.
type eventWriter struct {
	w     http.ResponseWriter
	epoch string
	out   *sse // nil before the beginning
}

// begin begins the stream, if it has not begun.
func (e *eventWriter) begin() bool {
	if e.out != nil {
		return true
	}
	e.out = newSSE(e.w)
	return e.out.begin()
}

// write writes an event. The error, if there is one, is the end of the stream.
func (e *eventWriter) write(next nextEvent) error {
	switch {
	case next.err != nil && e.out == nil:
		return errTooOld
	case next.err != nil:
		e.out.sendAs("", asAPIError(errTooOld).body())
		e.out.flush()
		return errAnswered
	case e.begin() && e.out.sendAs(position(e.epoch, next.event.Seq), next.event) && e.out.flush():
		return nil
	}
	return errAnswered
}

// sendEvents sends events until ctx ends, or the program does not read.
func (s *session) sendEvents(ctx context.Context, w http.ResponseWriter, after int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events := s.subscribe(ctx, after)
	out := eventWriter{w: w, epoch: s.epoch}
	// A moment shows whether the events are still there; a stream that is silent has
	// begun well.
	silent := time.NewTimer(silence)
	defer silent.Stop()
	beat := time.NewTicker(keepAlive)
	defer beat.Stop()
	for ok := true; ok; {
		select {
		case next, more := <-events:
			if !more {
				return errAnswered
			}
			if err := out.write(next); err != nil {
				return err
			}
		case <-silent.C:
			ok = out.begin()
		case <-beat.C:
			ok = out.begin() && out.out.comment()
		case <-ctx.Done():
			if out.out == nil {
				return errClosed
			}
			return errAnswered
		}
	}
	return errAnswered
}
