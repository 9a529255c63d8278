package browser

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/web"
)

// served is an agent behind a server of pages.
type served struct {
	t     *testing.T
	url   string // of the page, with the token
	id    string // of the session
	dir   string // its workspace
	agent *pygent.Agent
	web   *web.Server
	model *pygenttest.Server
	proxy *proxy

	sessions string // where sessions are kept, if they are
}

// serve serves a session of an agent on this machine whose model gives the replies.
func serve(t *testing.T, model *pygenttest.Server, opts ...pygent.Option) *served {
	t.Helper()
	s := serveWith(t, model)
	s.dir = t.TempDir()
	s.agent = newAgent(t, model, s.dir, opts...)
	t.Cleanup(func() { require.NoError(t, s.agent.Close()) })
	s.add()
	return s
}

// serveWith serves no session yet.
func serveWith(t *testing.T, model *pygenttest.Server, opts ...web.Option) *served {
	t.Helper()
	s := &served{t: t, model: model}
	var err error
	s.web, err = web.New(opts...)
	require.NoError(t, err)
	s.listen()
	return s
}

// add shows the agent. The server is closed before the agent is.
func (s *served) add() {
	s.t.Helper()
	s.t.Cleanup(func() { require.NoError(s.t, s.web.Close()) })
	var err error
	s.id, err = s.web.Add("", s.agent)
	require.NoError(s.t, err)
}

func newAgent(t *testing.T, model *pygenttest.Server, dir string, opts ...pygent.Option) *pygent.Agent {
	t.Helper()
	client, err := openai.New(openai.BaseURL(model.URL()), openai.Key("key"), openai.DefaultModel("test-model"))
	require.NoError(t, err)
	agent, err := pygent.New(append([]pygent.Option{pygent.WithModel(client), pygent.WithDocker(pygent.DockerNever), pygent.WithWorkspace(dir)}, opts...)...)
	require.NoError(t, err)
	return agent
}

// listen serves the pages at a port, behind a proxy that can cut connections.
func (s *served) listen() {
	s.t.Helper()
	behind := httptest.NewServer(s.web)
	s.t.Cleanup(behind.Close)
	s.proxy = newProxy(s.t, behind.Listener.Addr().String())
	s.url = "http://" + s.proxy.addr() + "/#" + s.web.Token()
}

// host is the host and port of the page.
func (s *served) host() string {
	u, err := url.Parse(s.url)
	require.NoError(s.t, err)
	return u.Host
}

// asked waits until the model was asked n times.
func (s *served) asked(n int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	require.NoError(s.t, s.model.WaitRequests(ctx, n))
}

// call makes a request as another program does.
func (s *served) call(method, path string, header http.Header) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.host()+path, nil)
	require.NoError(s.t, err)
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// proxy passes connections on, until it is told to cut them.
type proxy struct {
	listener net.Listener

	mu    sync.Mutex // guards what follows
	to    string
	conns map[net.Conn]struct{}
	cut   bool // new ones are refused
	total int
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: listener, to: to, conns: map[net.Conn]struct{}{}}
	var accepting sync.WaitGroup
	accepting.Go(p.accept)
	t.Cleanup(func() {
		listener.Close()
		p.down()
		accepting.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	var passing sync.WaitGroup
	defer passing.Wait()
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		if !p.enter(conn) {
			conn.Close()
			continue
		}
		passing.Go(func() { p.pass(conn) })
	}
}

func (p *proxy) enter(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return false
	}
	p.conns[conn] = struct{}{}
	p.total++
	return true
}

func (p *proxy) pass(conn net.Conn) {
	defer conn.Close()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, conn)
	}()
	to, err := net.Dial("tcp", p.behind())
	if err != nil {
		return
	}
	defer to.Close()
	var up sync.WaitGroup
	up.Go(func() { copyUntilClosed(to, conn) })
	copyUntilClosed(conn, to)
	up.Wait()
}

// down cuts all connections, and refuses new ones until up.
func (p *proxy) down() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for conn := range p.conns {
		conn.Close()
	}
}

// behind is the address to which connections are passed on.
func (p *proxy) behind() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.to
}

// goesTo passes connections on to another server, as if that had taken the place of the
// one that was there, which is gone.
func (p *proxy) goesTo(other *proxy) {
	p.down()
	p.mu.Lock()
	p.to = other.behind()
	p.mu.Unlock()
	p.up()
}

func (p *proxy) up() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}

// copyUntilClosed copies one direction, and ends the other one after it.
func copyUntilClosed(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	to.Close()
	from.Close()
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
}

// connections is how many connections go through the proxy.
func (p *proxy) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}
