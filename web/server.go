package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/sessions"
)

// Server shows agents in browsers. It is an [http.Handler]; make one with [New], and
// Close it at the end. It is safe for concurrent use.
type Server struct {
	opts    options
	handler http.Handler
	assets  map[string]asset
	ctx     context.Context // ends with the server
	cancel  context.CancelFunc
	work    sync.WaitGroup // the sessions, and the requests of streams

	mu       sync.Mutex // guards what follows
	sessions map[string]*session
	streams  map[*stream]struct{}
	tickets  map[string]ticket
	closed   bool
}

// errClosed is the error of what is asked of a server or a session that was closed.
var errClosed = fail(http.StatusServiceUnavailable, "closed", "the session is closed")

// errNoSession is the answer to one who names a session that they do not have.
var errNoSession = fail(http.StatusNotFound, "no_session", "this session does not exist or is not open")

// ownNames are the names of this machine for itself. Those of [WithHosts] follow them.
var ownNames = []string{"localhost", "127.0.0.1", "[::1]"}

// errTooMany is the answer to one who has as many sessions as the limits allow.
var errTooMany = fail(http.StatusTooManyRequests, "too_many", "too many sessions are open; close one first")

// New returns a server without any sessions.
func New(opts ...Option) (*Server, error) {
	o := options{hosts: slices.Clone(ownNames)}
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	if o.err != nil {
		return nil, fmt.Errorf("make the web page: %w", o.err)
	}
	o.token = cmp.Or(o.token, rand.Text()+rand.Text())
	o.limits = o.limits.withDefaults()
	if o.log == nil {
		o.log = slog.New(slog.DiscardHandler)
	}
	s := &Server{opts: o, sessions: map[string]*session{}, streams: map[*stream]struct{}{}, tickets: map[string]ticket{}}
	var err error
	if s.assets, err = readAssets(); err != nil {
		return nil, fmt.Errorf("make the web page: %w", err)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.handler = s.routes()
	return s, nil
}

// Token is what requests have to know, in the header "Authorization: Bearer TOKEN" and
// in the fragment of the page's address. It is of no use with [WithUser].
func (s *Server) Token() string { return s.opts.token }

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.setHeaders(w.Header())
	s.handler.ServeHTTP(w, r)
}

// Add shows an agent to a user, and returns the id of the session. The agent stays the
// caller's, who closes it after the server. From now on the server makes its runs; the
// user is asked what nobody else is asked about. user is what [WithUser] says, or
// empty for the one who has the token.
func (s *Server) Add(user string, a *pygent.Agent) (id string, err error) {
	added, err := s.add(user, pygent.FaceSession{Agent: a}, false)
	if err != nil {
		return "", err
	}
	return added.id, nil
}

// add begins a session. The server closes the agent if it is owned.
func (s *Server) add(user string, face pygent.FaceSession, owned bool) (*session, error) {
	id := face.Agent.ID()
	if info, ok := sessions.Of(face.Agent); ok {
		id = info.ID
	}
	added := newSession(s, id, user, face, owned)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, errClosed
	case s.sessions[id] != nil:
		return nil, fail(http.StatusConflict, "exists", "the session "+oneLine(id)+" is already shown")
	case s.countOf(user) >= s.opts.limits.Sessions:
		return nil, errTooMany
	}
	s.sessions[id] = added
	s.work.Go(added.run)
	s.notifyLocked(user)
	return added, nil
}

func (s *Server) countOf(user string) (n int) {
	for _, other := range s.sessions {
		if other.user == user {
			n++
		}
	}
	return n
}

// remove forgets a session that has ended.
func (s *Server) remove(gone *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[gone.id] == gone {
		delete(s.sessions, gone.id)
	}
	s.notifyLocked(gone.user)
}

// session returns a session of a user.
func (s *Server) session(user, id string) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.sessions[id]; found != nil && found.user == user {
		found.used = time.Now()
		return found, nil
	}
	return nil, errNoSession
}

// sessionsOf returns the open sessions of a user, the newest first.
func (s *Server) sessionsOf(user string) (list []*session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.sessions {
		if one.user == user {
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b *session) int {
		return cmp.Or(b.began.Compare(a.began), cmp.Compare(a.id, b.id))
	})
	return list
}

// notify wakes the streams of a user.
func (s *Server) notify(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notifyLocked(user)
}

func (s *Server) notifyLocked(user string) {
	for st := range s.streams {
		if st.user == user {
			st.wake()
		}
	}
}

// Close ends the streams and the sessions, waits for them, and closes the agents that
// the server opened. What goes on in the others is cancelled.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	all := slices.Collect(maps.Values(s.sessions))
	s.mu.Unlock()
	s.cancel()
	s.work.Wait()
	var errs []error
	for _, one := range all {
		errs = append(errs, one.closeErr)
	}
	return errors.Join(errs...)
}

// asset is a file of the page.
type asset struct {
	data []byte
	kind string
	etag string
}

// readAssets reads the files that are part of the program.
func readAssets() (map[string]asset, error) {
	assets := map[string]asset{}
	err := fs.WalkDir(files, "assets", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := files.ReadFile(path)
		if err == nil {
			assets[strings.TrimPrefix(path, "assets/")] = newAsset(path, data)
		}
		return err
	})
	return assets, err
}
