package egress

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// Serve handles the connections of one listener until the listener fails or is
// closed, and then ends them. pause is called while the user is being asked
// about a host, so that time limits stop; it may be nil.
func (p *Proxy) Serve(l net.Listener, pause func() (resume func())) {
	life, end := context.WithCancel(context.Background())
	defer end()
	s := &serving{proxy: p, pause: pause}
	var conns sync.WaitGroup
	server := &http.Server{
		Handler:                      s,
		DisableGeneralOptionsHandler: true,
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew: // added before Serve can return
				conns.Add(1)
			case http.StateClosed, http.StateHijacked:
				conns.Done()
			}
		},
		BaseContext: func(net.Listener) context.Context { return life },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       waitTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	_ = server.Serve(newBoundedListener(l, maxConns)) // the owner of the listener knows why it failed
	end()
	_ = server.Close()
	conns.Wait()
	s.wait()
}

// connKey is the context key for the connection of a request.
type connKey struct{}

// working marks the connection of a request as busy, so that it is not closed
// as idle, or ends that.
func working(r *http.Request, busy bool) {
	if c, ok := r.Context().Value(connKey{}).(*boundedConn); ok {
		c.work(busy)
	}
}

// serving handles the connections of one listener.
type serving struct {
	proxy *Proxy
	pause func() (resume func())

	mu      sync.Mutex // guards ended, and keeps running from growing after ended is set
	ended   bool
	running sync.WaitGroup
}

// ServeHTTP implements http.Handler.
func (s *serving) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		return
	}
	defer s.running.Done()
	working(r, true)
	defer working(r, false)
	plain := r.Method != http.MethodConnect
	t, err := targetOf(r, plain)
	if err != nil {
		http.Error(w, "pygent: "+err.Error(), http.StatusBadRequest)
		return
	}
	if err := s.proxy.judge(r.Context(), t, plain, s.pause); err != nil {
		answerError(w, fmt.Errorf("%s: %w", t, s.proxy.noted(r.Context(), t, err)))
		return
	}
	if plain {
		s.proxy.forward.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), targetKey{}, t)))
		return
	}
	s.proxy.tunnel(w, r, t)
}

func (s *serving) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.running.Add(1)
	}
	return !s.ended
}

// wait refuses new requests and waits for those that run.
func (s *serving) wait() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.running.Wait()
}

// errForm is the answer to a program that talks to the proxy as if it were a
// server.
var errForm = errors.New("this is a proxy for http://host/ and CONNECT host:port")

// targetOf returns the target of a request. It is taken only from the request
// line, never from the Host header.
func targetOf(r *http.Request, plain bool) (Target, error) {
	switch {
	case !plain:
		return parseTarget(r.RequestURI, 0)
	case r.URL.Scheme != "http" || r.URL.Host == "" || r.URL.User != nil:
		return Target{}, errForm
	default:
		return parseTarget(r.URL.Host, portHTTP)
	}
}

// notAllowed is why a host is refused that no pattern names.
const notAllowed = "it is not an allowed host"

// judge returns why a target may not be reached, or nil. It asks the user if
// need be.
func (p *Proxy) judge(ctx context.Context, t Target, plain bool, pause func() func()) error {
	if err := p.meter.spent(); err != nil {
		return err
	}
	usual, way := portHTTPS, "for HTTPS"
	if plain {
		usual, way = portHTTP, "for HTTP"
	}
	allowed, named := p.rules.allow(t)
	switch {
	case allowed && (t.Port == usual || p.rules.portNamed(t)):
		return nil
	case t.Port != usual && named:
		return refusal{fmt.Sprintf("its port is not allowed %s, which has %d unless a port is named", way, usual), allowPort}
	case isLocalName(t.Host) || t.addr.IsValid() && reachOf(t.addr) != public:
		return refusedAddress(t)
	case t.Port != usual:
		return refusal{notAllowed, allowPort}
	case p.config.Ask == nil:
		return refusal{notAllowed, allowHost}
	}
	return p.ask(ctx, t, pause)
}

func (p *Proxy) ask(ctx context.Context, t Target, pause func() func()) error {
	if pause != nil {
		defer pause()()
	}
	ok, reason := p.config.Ask(ctx, t.Host, t.Port)
	if ok {
		return nil
	}
	return refusal{cmp.Or(reason, notAllowed), allowHost}
}

// answerError tells a program that its request was refused or has failed.
func answerError(w http.ResponseWriter, err error) {
	status := http.StatusBadGateway
	var no refusal
	if errors.As(err, &no) {
		status = http.StatusForbidden
	}
	http.Error(w, "pygent: "+err.Error(), status)
}

// tunnel connects a program with a host and copies bytes in both directions.
func (p *Proxy) tunnel(w http.ResponseWriter, r *http.Request, t Target) {
	host, err := p.connect(r.Context(), t)
	if err = p.noted(r.Context(), t, err); err != nil {
		answerError(w, fmt.Errorf("%s: %w", t, err))
		return
	}
	defer host.Close()
	program, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer program.Close()
	stop := context.AfterFunc(r.Context(), func() { _, _ = program.Close(), host.Close() })
	defer stop()
	_ = program.SetDeadline(time.Time{})
	if _, err := io.WriteString(program, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	working(r, false) // from here on the bytes show whether it is idle
	join(&bufferedConn{Conn: program, reader: afterHijack(buffered.Reader, program)}, host)
}

// afterHijack returns a reader of the bytes that the server has buffered,
// followed by the connection itself. The server's own reader is not used to the
// end: at an end of file it would cancel the request's context, and with it the
// other direction.
func afterHijack(buffered *bufio.Reader, conn net.Conn) io.Reader {
	ahead, _ := buffered.Peek(buffered.Buffered())
	return io.MultiReader(bytes.NewReader(bytes.Clone(ahead)), conn)
}

// join copies in both directions until both have ended, or one has failed.
func join(a, b net.Conn) {
	var back sync.WaitGroup
	pass := func(to, from net.Conn) {
		_, err := io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{from})
		half, ok := to.(closeWriter)
		if err != nil || !ok || half.CloseWrite() != nil {
			_, _ = a.Close(), b.Close()
		}
	}
	back.Go(func() { pass(a, b) })
	pass(b, a)
	back.Wait()
}

// noted records the outcome of an attempt to connect: a refused address, a use,
// or a failure.
func (p *Proxy) noted(ctx context.Context, t Target, err error) error {
	var no refusal
	switch {
	case errors.As(err, &no):
		p.ledger.note(no.use(t))
		return no
	case err == nil:
		p.ledger.note(Use{Host: t.Host, Port: t.Port, Allowed: true})
	case ctx.Err() == nil: // else the program itself has given up
		p.ledger.miss(Use{Host: t.Host, Port: t.Port, Allowed: true, Reason: failure(err)})
	}
	return err
}

// failure returns why a host could not be reached. The text contains nothing
// that the host has sent.
func failure(err error) string {
	var lookup *net.DNSError
	if errors.As(err, &lookup) {
		return lookup.Err
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err.Error()
	}
	return "the connection failed"
}

// targetKey is the context key for the target of a request.
type targetKey struct{}

// rewrite makes the request for the host. It is addressed to the target only,
// and the Host header is the target too. The hop-by-hop headers have been
// removed already.
func rewrite(r *httputil.ProxyRequest) {
	t := r.In.Context().Value(targetKey{}).(Target)
	host := t.String()
	if t.Port == portHTTP {
		host = hostOnly(t)
	}
	r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", t.String(), host
	r.Out.URL.RawQuery = r.In.URL.RawQuery
}

// hostOnly returns the target as it appears in a URL, without a default port.
func hostOnly(t Target) string {
	if t.addr.Is6() {
		return "[" + t.Host + "]"
	}
	return t.Host
}

// roundTripper is a function that implements http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// viaKey is the context key for the upstream proxy of a request.
type viaKey struct{}

// chainedProxy returns the upstream proxy that was chosen for a request. It
// fails if there is none.
func chainedProxy(r *http.Request) (*url.URL, error) {
	via, ok := r.Context().Value(viaKey{}).(*url.URL)
	if !ok {
		return nil, errors.New("no proxy was found for it")
	}
	return via, nil
}

// roundTrip sends a request to its target, directly or through the upstream
// proxy.
func (p *Proxy) roundTrip(r *http.Request) (*http.Response, error) {
	t := r.Context().Value(targetKey{}).(Target)
	via, err := p.upstream("http", t)
	if err != nil {
		return nil, fmt.Errorf("the proxy of this machine: %w", err)
	}
	carry := p.direct
	if via != nil {
		carry = p.chained
		r = r.WithContext(context.WithValue(r.Context(), viaKey{}, via))
	}
	answer, err := carry.RoundTrip(r)
	if err = p.noted(r.Context(), t, err); err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	return answer, nil
}

// dialChecked connects for an HTTP transport, and checks the address.
func (p *Proxy) dialChecked(ctx context.Context, _, address string) (net.Conn, error) {
	t, err := parseTarget(address, 0)
	if err != nil {
		return nil, err
	}
	return p.dial(ctx, t)
}
