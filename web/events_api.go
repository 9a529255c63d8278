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
	st := &stream{user: c.user, awake: make(chan struct{}, 1)}
	if err := s.enter(st); err != nil {
		return nil, err
	}
	defer s.work.Done()
	defer s.leave(st)
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	defer context.AfterFunc(one.ctx, cancel)()
	return nil, one.sendEvents(ctx, c.w, after)
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
var errTooOld = fail(http.StatusGone, "too_old", "events are missing; begin with the history")

// sendEvents sends events until ctx ends, or the program does not read.
func (s *session) sendEvents(ctx context.Context, w http.ResponseWriter, after int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type next struct {
		event pygent.Event
		err   error
	}
	events := make(chan next)
	s.server.work.Go(func() {
		defer close(events)
		for e, err := range s.agent.Subscribe(ctx, after) {
			select {
			case events <- next{e, err}:
			case <-ctx.Done():
				return
			}
		}
	})
	var out *sse
	begin := func() bool {
		if out == nil {
			out = newSSE(w)
			return out.begin()
		}
		return true
	}
	// A moment shows whether the events are still there; a stream that is silent has
	// begun well.
	silent := time.NewTimer(silence)
	defer silent.Stop()
	beat := time.NewTicker(keepAlive)
	defer beat.Stop()
	for {
		ok := true
		select {
		case e, more := <-events:
			switch {
			case !more:
				return errAnswered
			case e.err != nil && out == nil:
				return errTooOld
			case e.err != nil:
				out.sendAs("", asAPIError(errTooOld).body())
				out.flush()
				return errAnswered
			}
			ok = begin() && out.sendAs(position(s.epoch, e.event.Seq), e.event) && out.flush()
		case <-silent.C:
			ok = begin()
		case <-beat.C:
			ok = begin() && out.comment()
		case <-ctx.Done():
			if out == nil {
				return errClosed
			}
			return errAnswered
		}
		if !ok {
			return errAnswered
		}
	}
}
