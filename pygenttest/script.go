package pygenttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
)

// ErrScriptEnded is the error of a request for which no reply is left. A [Server]
// answers with status 422, which clients do not retry.
var ErrScriptEnded = errors.New("the script has ended")

// script hands out replies. It is safe for concurrent use.
type script struct {
	mu     sync.Mutex
	main   track
	routes []*route
	loop   bool // whether the first reply follows the last one
	repeat bool // whether the last reply is repeated
	calls  int  // how many tool calls were numbered so far
}

// track is a list of replies with the position in it.
type track struct {
	replies []Reply
	next    int // how many requests it has had
}

// route is a list of replies for conversations that contain a text. Each of these
// conversations, identified by its first user message, gets the whole list.
type route struct {
	text    string
	replies []Reply
	tracks  map[string]*track
}

// take returns the reply for req.
func (s *script) take(req *pygent.ChatRequest) (Reply, error) {
	r, err := s.pick(req)
	for err == nil && r.decide != nil {
		r = r.decide(req)
	}
	if err != nil {
		return Reply{}, fmt.Errorf("pygenttest: %w", err)
	}
	if r.bad != nil {
		return Reply{}, fmt.Errorf("pygenttest: %w", r.bad)
	}
	return r, nil
}

func (s *script) pick(req *pygent.ChatRequest) (Reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.track(req)
	i := t.next
	t.next++
	n := len(t.replies)
	switch {
	case i < n:
	case n > 0 && s.loop:
		i %= n
	case n > 0 && s.repeat:
		i = n - 1
	default:
		return Reply{}, fmt.Errorf("%w: it has %d replies and this is request %d", ErrScriptEnded, n, t.next)
	}
	return t.replies[i], nil
}

// track returns the replies for a conversation. The caller holds s.mu.
func (s *script) track(req *pygent.ChatRequest) *track {
	if len(s.routes) == 0 {
		return &s.main
	}
	system, user := opening(req.Messages)
	for _, r := range s.routes {
		if !strings.Contains(user, r.text) && !strings.Contains(system, r.text) {
			continue
		}
		t := r.tracks[user]
		if t == nil {
			t = &track{replies: r.replies}
			r.tracks[user] = t
		}
		return t
	}
	return &s.main
}

func (s *script) add(replies []Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.main.replies = append(s.main.replies, replies...)
}

func (s *script) route(text string, replies []Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.routes = append(s.routes, &route{text: text, replies: replies, tracks: make(map[string]*track)})
}

func (s *script) setLoop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loop, s.repeat = true, false
}

func (s *script) setRepeat() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loop, s.repeat = false, true
}

// remaining returns how many replies were not given yet, without those of
// routes.
func (s *script) remaining() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, len(s.main.replies)-s.main.next)
}

// callNumber returns a number that no other call of the script has.
func (s *script) callNumber() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return s.calls
}

// callID returns an id that no other call of the script has.
func (s *script) callID() string { return fmt.Sprintf("call_%d", s.callNumber()) }

// opening returns the text of a conversation's first user message, and that of
// the system messages before it.
func opening(messages []pygent.Message) (system, user string) {
	for _, m := range messages {
		switch m.Role {
		case chat.RoleSystem:
			system += m.Text()
		case chat.RoleUser:
			return system, m.Text()
		}
	}
	return system, ""
}

// recorder keeps what was received, and lets others wait for more. It is safe for
// concurrent use.
type recorder[T any] struct {
	mu      sync.Mutex
	items   []T
	dropped int           // how many items were received before those
	most    int           // how many are kept; 0 for all
	changed chan struct{} // closed and replaced when an item arrives; nil while nobody waits
}

func (r *recorder[T]) add(item T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.items = append(r.items, item)
	if over := len(r.items) - r.most; r.most > 0 && over > 0 {
		r.items, r.dropped = slices.Clone(r.items[over:]), r.dropped+over
	}
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// keep limits how many items are kept.
func (r *recorder[T]) keep(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.most = n
}

// all returns the items received so far that are kept. Later items do not change it.
func (r *recorder[T]) all() []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.items[:len(r.items):len(r.items)]
}

// wait waits until n items were received, or returns an error when ctx ends.
func (r *recorder[T]) wait(ctx context.Context, n int) error {
	for {
		r.mu.Lock()
		got := r.dropped + len(r.items)
		if got < n && r.changed == nil {
			r.changed = make(chan struct{})
		}
		changed := r.changed
		r.mu.Unlock()
		if got >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for request %d, of which %d came: %w", n, got, context.Cause(ctx))
		}
	}
}
