package web

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"time"
)

// Times of streams.
const (
	keepAlive  = 15 * time.Second      // how often a silent stream says that it lives
	writeLimit = 10 * time.Second      // how long a page may take to read; then it has to come back
	frame      = 25 * time.Millisecond // the shortest time between two writes, in which changes join
	maxWrite   = 1 << 20               // bytes that are written under one limit
)

// stream is the connection of a browser, for all of its tabs.
type stream struct {
	user  string
	views map[string]string // by the ids of the sessions that it looks at; never changed
	awake chan struct{}     // has room for one
}

// wake tells the stream that there is something new. It does not wait.
func (st *stream) wake() {
	select {
	case st.awake <- struct{}{}:
	default:
	}
}

// postStream sends what changes in the sessions of a user until the page leaves.
func (s *Server) postStream(c call) (any, error) {
	var in struct {
		Views map[string]string `json:"views"`
	}
	if err := c.read(&in); err != nil {
		return nil, err
	}
	return s.streaming(c, s.ctx, in.Views, func(ctx context.Context, st *stream) error {
		w := writer{server: s, stream: st, out: newSSE(c.w), views: map[string]string{}, live: map[string]bool{}}
		maps.Copy(w.views, in.Views)
		w.run(ctx)
		return errAnswered
	})
}

// streaming calls send for a stream of a user, which looks at some sessions. The context
// of send ends with the request, and with what the stream is of.
func (s *Server) streaming(c call, of context.Context, views map[string]string, send func(context.Context, *stream) error) (any, error) {
	st := &stream{user: c.user, views: views, awake: make(chan struct{}, 1)}
	if err := s.enter(st); err != nil {
		return nil, err
	}
	defer s.work.Done()
	defer s.leave(st)
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	defer context.AfterFunc(of, cancel)()
	return nil, send(ctx, st)
}

// enter counts a stream, unless there are too many of the user.
func (s *Server) enter(st *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for other := range s.streams {
		if other.user == st.user {
			n++
		}
	}
	switch {
	case s.closed:
		return errClosed
	case n >= s.opts.limits.Streams:
		return fail(http.StatusTooManyRequests, "too_many", "too many pages are open; close one first")
	}
	s.streams[st] = struct{}{}
	s.work.Add(1)
	return nil
}

func (s *Server) leave(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.streams, st)
	s.usedLocked(st)
}

// writer writes a stream.
type writer struct {
	server *Server
	stream *stream
	out    *sse
	views  map[string]string // where the page is in each session that it looks at; empty for the beginning
	live   map[string]bool   // the views that were written at least once
	list   []listed
}

// run writes until ctx ends or the page does not read.
func (w *writer) run(ctx context.Context) {
	if !w.out.begin() || !w.out.send(op{Op: "hello", Version: 1, Base: w.server.opts.base, Can: w.server.can()}) {
		return
	}
	beat := time.NewTicker(keepAlive)
	defer beat.Stop()
	for w.write() && w.out.flush() {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			if !w.out.comment() {
				return
			}
		case <-w.stream.awake:
			select {
			case <-time.After(frame):
			case <-ctx.Done():
				return
			}
		}
	}
}

// can says what the page offers besides what the sessions do.
func (s *Server) can() map[string]bool {
	opens := s.opts.open != nil
	return map[string]bool{"open": opens, "load": opens && s.opts.allowed().Snapshots, "remove": s.opts.remove != nil}
}

// write writes what has changed.
func (w *writer) write() bool {
	sessions := w.server.sessionsOf(w.stream.user)
	list := make([]listed, 0, len(sessions))
	for _, one := range sessions {
		list = append(list, one.listed())
	}
	if w.list == nil || !reflect.DeepEqual(list, w.list) {
		w.list = list
		if !w.out.send(op{Op: "sessions", Sessions: list}) {
			return false
		}
	}
	for _, one := range sessions {
		if _, looked := w.views[one.id]; !looked {
			continue
		}
		ops, now := one.log.since(one.id, w.views[one.id], w.live[one.id])
		w.views[one.id], w.live[one.id] = now, true
		for _, o := range ops {
			if !w.out.send(o) {
				return false
			}
		}
	}
	return true
}

// sse writes server-sent events.
type sse struct {
	w       http.ResponseWriter
	control *http.ResponseController
	buffer  bytes.Buffer
}

func newSSE(w http.ResponseWriter) *sse { return &sse{w: w, control: http.NewResponseController(w)} }

// begin writes the headers.
func (e *sse) begin() bool {
	h := e.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx would keep events back
	e.w.WriteHeader(http.StatusOK)
	return e.flush()
}

// send writes a value, now or with the next flush. It reports false if the page does
// not read.
func (e *sse) send(v any) bool { return e.sendAs("", v) }

func (e *sse) sendAs(id string, v any) bool {
	if id != "" {
		e.buffer.WriteString("id: " + id + "\n")
	}
	e.buffer.WriteString("data: ")
	encoder := json.NewEncoder(&e.buffer)
	encoder.SetEscapeHTML(false) // it is no part of a page, and would be three times as long
	if encoder.Encode(v) != nil {
		return false
	}
	e.buffer.WriteByte('\n') // the second one: the encoder writes the first
	return e.buffer.Len() < maxWrite || e.flush()
}

func (e *sse) comment() bool {
	e.buffer.WriteString(": \n\n")
	return e.flush()
}

func (e *sse) flush() bool {
	_, err := writeInTime(e.w, e.control, e.buffer.Bytes())
	e.buffer.Reset()
	return err == nil && e.control.Flush() == nil
}
