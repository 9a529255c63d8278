package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/sessions"
)

// Option is an option of [New].
type Option func(*options)

type options struct {
	open   func(context.Context, Open) (*pygent.Agent, error)
	list   func(ctx context.Context, user string) ([]sessions.Info, error)
	remove func(ctx context.Context, user, id string) error
	closes func(*pygent.Agent)
	base   string
	token  string
	user   func(*http.Request) (string, error)
	rights *Rights // nil for those that go with the way users are known
	hosts  []string
	frames []string
	limits Limits
	log    *slog.Logger
	err    error
}

// Open says which session [WithOpen] is asked for. The zero value is a new one.
type Open struct {
	User     string // whose it will be, as [WithUser] said; empty for the one who has the token
	Continue string // the id of a kept session to go on with, of those that WithList names; empty for a new one
	Snapshot string // the directory of a snapshot to go on from, as snapshot.Load takes it; empty for none
}

// Limits bound what the people at the pages can make the server hold. A zero field has
// its default.
type Limits struct {
	Sessions int   // that one user has open; 20 by default
	Streams  int   // of one user at the same time; 32 by default
	Body     int64 // bytes of a request, but for uploads; 32 MiB by default
	Upload   int64 // bytes of an uploaded file; 1 GiB by default
	// Idle is how long a kept session that [WithOpen] has opened stays open while nobody
	// looks at it and nothing goes on in it. It can go on later. An hour by default; with
	// less than none it stays.
	Idle time.Duration
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Sessions: cmp.Or(l.Sessions, 20),
		Streams:  cmp.Or(l.Streams, 32),
		Body:     cmp.Or(l.Body, 32<<20),
		Upload:   cmp.Or(l.Upload, 1<<30),
		Idle:     cmp.Or(l.Idle, time.Hour),
	}
}

// WithOpen lets people begin and continue sessions: open makes the agent, which the
// server closes. ctx ends when the request does; the agent lives on. Without it, the
// page shows only the agents that were added. Without WithList, open has to check the id
// of a session to continue itself: it is what somebody sends.
func WithOpen(open func(ctx context.Context, o Open) (*pygent.Agent, error)) Option {
	return func(o *options) { o.open = open }
}

// WithClosing has the server call f before it closes an agent that [WithOpen] has made, at
// the end of a session or of the server, and wait for it. So a program can say which files
// of a temporary workspace go. Calls for several agents may come at once.
func WithClosing(f func(*pygent.Agent)) Option {
	return func(o *options) { o.closes = f }
}

// WithList names the kept sessions of a user, which WithOpen can continue. By default
// there are none.
func WithList(list func(ctx context.Context, user string) ([]sessions.Info, error)) Option {
	return func(o *options) { o.list = list }
}

// WithRemove lets people remove kept sessions that are not open. An error that matches
// [io/fs.ErrNotExist] says that the user has no such session. Without WithList, remove has
// to check the id itself: it is what somebody sends.
func WithRemove(remove func(ctx context.Context, user, id string) error) Option {
	return func(o *options) { o.remove = remove }
}

// WithBasePath says where the host serves the page, such as "/agent". By default it is
// the root.
func WithBasePath(path string) Option {
	return func(o *options) {
		o.base = strings.TrimRight(path, "/")
		if o.base != "" && !strings.HasPrefix(o.base, "/") {
			o.err = errors.Join(o.err, fmt.Errorf("the base path %q does not start with a slash", path))
		}
	}
}

// WithToken sets what requests have to know. By default it is random, and new with each
// server. One that is shorter than 32 characters is refused.
func WithToken(token string) Option {
	return func(o *options) {
		const shortest = 32
		if o.token = token; len(token) < shortest {
			o.err = errors.Join(o.err, fmt.Errorf("the token has %d characters, but needs %d", len(token), shortest))
		}
	}
}

// WithUser has the host say who makes a request, in place of the token: an error
// refuses it. Each user sees only their own sessions. It is asked about the API and
// downloads; the page itself and its files, which say nothing of anybody, are served to
// all. So let the host's own sign-in come before the whole base path: who is not signed
// in gets to it by opening the page. The page sends requests with the
// credentials that the browser has for the host, so cookies of the host should be
// SameSite; requests of other sites are refused in any case.
func WithUser(user func(*http.Request) (string, error)) Option {
	return func(o *options) { o.user = user }
}

// WithHosts adds names by which the server may be reached, as in the Host header, with
// or without a port, to those of this machine for itself: localhost, 127.0.0.1 and
// [::1]. Requests for others are refused, because a foreign site can give its name the
// address of this machine.
func WithHosts(names ...string) Option {
	return func(o *options) { o.hosts = append(o.hosts, names...) }
}

// WithFrameAncestors names the origins whose pages may show this one in a frame. By
// default none may.
func WithFrameAncestors(origins ...string) Option {
	return func(o *options) {
		for _, origin := range origins {
			if strings.ContainsAny(origin, "; ,\r\n\t") {
				o.err = errors.Join(o.err, fmt.Errorf("%q is not an origin", origin))
			}
		}
		o.frames = append(o.frames, origins...)
	}
}

// WithLimits sets bounds.
func WithLimits(l Limits) Option { return func(o *options) { o.limits = l } }

// WithLogger has the server log what goes wrong. It never logs tokens or what is said.
// By default it logs nothing.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.log = l } }
