package web_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/web"
)

// patience is how long something may take before a test fails.
const patience = 30 * time.Second

// served is a server at a loopback address with one agent.
type served struct {
	t      *testing.T
	server *web.Server
	url    string // up to the base path, without a slash at the end
	id     string
	agent  *pygent.Agent
	client *http.Client
	token  string
}

// serve shows an agent with a scripted model that works locally.
func serve(t *testing.T, replies []pygenttest.Reply, opts ...pygent.Option) *served {
	t.Helper()
	s := serveAt(t)
	s.agent = newAgent(t, pygenttest.NewScriptedModel(replies...), opts...)
	id, err := s.server.Add("", s.agent)
	require.NoError(t, err)
	s.id = id
	return s
}

func newAgent(t *testing.T, model pygent.Model, opts ...pygent.Option) *pygent.Agent {
	t.Helper()
	agent, err := pygent.New(append([]pygent.Option{pygent.WithModel(model), pygent.WithDocker(pygent.DockerNever), pygent.WithWorkspace(t.TempDir())}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, agent.Close()) })
	return agent
}

// serveAt starts a server without sessions.
func serveAt(t *testing.T, opts ...web.Option) *served {
	t.Helper()
	server, err := web.New(opts...)
	require.NoError(t, err)
	listening := httptest.NewServer(server)
	s := &served{t: t, server: server, url: listening.URL, client: listening.Client(), token: server.Token()}
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		listening.Close()
	})
	return s
}

// request makes a request of the API as the page does.
func (s *served) request(method, path string, body any) *http.Request {
	s.t.Helper()
	var data io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		data = strings.NewReader(b)
	case []byte:
		data = bytes.NewReader(b)
	default:
		encoded, err := json.Marshal(b)
		require.NoError(s.t, err)
		data = bytes.NewReader(encoded)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+"/api/v1"+path, data)
	require.NoError(s.t, err)
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Content-Type", "application/json")
	return r
}

// do makes a request and returns the answer.
func (s *served) do(r *http.Request) (status int, body []byte) {
	s.t.Helper()
	resp, err := s.client.Do(r)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	if strings.HasPrefix(r.URL.Path, "/api/v1/") && len(body) > 0 {
		require.Equal(s.t, "application/json", resp.Header.Get("Content-Type"), "%s %s", r.Method, r.URL.Path)
		checkAnswer(s.t, r.Method, r.URL.Path, resp.StatusCode, body)
	}
	return resp.StatusCode, body
}

// get and post make a request about the session, and read the answer.
func (s *served) get(path string, into any) { s.must(http.MethodGet, path, nil, into) }

func (s *served) post(path string, body, into any) { s.must(http.MethodPost, path, body, into) }

func (s *served) must(method, path string, body, into any) {
	s.t.Helper()
	status, answer := s.do(s.request(method, "/sessions/"+s.id+path, body))
	require.Less(s.t, status, 300, "%s", answer)
	if into != nil {
		require.NoError(s.t, json.Unmarshal(answer, into), "%s", answer)
	}
}

func (s *served) say(text string) {
	s.t.Helper()
	s.post("/messages", map[string]any{"text": text}, nil)
}

// ask is a question that is open.
type ask struct {
	ID, Kind, Text string
}

// asked waits until something is asked.
func (s *served) asked() ask {
	s.t.Helper()
	var found ask
	require.Eventually(s.t, func() bool {
		var list struct{ Asks []ask }
		s.get("/asks", &list)
		if len(list.Asks) > 0 {
			found = list.Asks[0]
		}
		return len(list.Asks) > 0
	}, patience, 5*time.Millisecond)
	return found
}

// op is what a page is told to do.
type op struct {
	Op, Session, At, Key, Parent, HTML, Text string
	State                                    *state
	Sessions                                 []map[string]any
}

type state struct {
	Words, Needs, Title, Model, Persona string
	Busy, Held, Shell, Errand           bool
	Queue                               []struct{ ID, Text string }
	Runtime                             struct {
		Label, Directory string
		Warn             bool
	}
	Context struct{ Used, Window int64 }
	Tokens  int64
	Set     int64
	Can     map[string]bool
}

// page is what a browser shows of a session: it applies what the stream says, as the
// script of the page does.
type page struct {
	t       *testing.T
	session string
	cancel  context.CancelFunc
	done    chan struct{}

	mu      sync.Mutex // guards what follows
	changed chan struct{}
	keys    []string // in the order in which they were put
	html    map[string]string
	parent  map[string]string
	out     map[string]string
	state   state
	at      string
	said    []string
	resets  int
	ops     []op
	list    []map[string]any
	ended   bool
}

// open opens a page at a position; empty for the beginning.
func (s *served) open(at string) *page {
	s.t.Helper()
	p := &page{t: s.t, session: s.id, at: at, changed: make(chan struct{}), done: make(chan struct{})}
	p.clear()
	s.stream(p)
	return p
}

// stream connects a page.
func (s *served) stream(p *page) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := s.request(http.MethodPost, "/stream", map[string]any{"views": map[string]string{s.id: p.at}}).WithContext(ctx)
	resp, err := s.client.Do(r)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, resp.StatusCode)
	require.Equal(s.t, "text/event-stream", resp.Header.Get("Content-Type"))
	p.cancel, p.done, p.ended = cancel, make(chan struct{}), false
	go p.read(resp.Body)
	s.t.Cleanup(p.close)
}

// close leaves the stream.
func (p *page) close() {
	p.cancel()
	<-p.done
}

// again connects a page that was away.
func (s *served) again(p *page) {
	s.t.Helper()
	p.close()
	p.mu.Lock()
	p.ops = nil
	p.mu.Unlock()
	s.stream(p)
}

func (p *page) clear() {
	p.keys, p.html, p.parent, p.out = nil, map[string]string{}, map[string]string{}, map[string]string{}
}

func (p *page) read(body io.ReadCloser) {
	defer close(p.done)
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var o op
		if json.Unmarshal([]byte(data), &o) != nil {
			break // the connection ended within it
		}
		p.mu.Lock()
		p.apply(o)
		p.tell()
		p.mu.Unlock()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.tell()
}

func (p *page) tell() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// apply does what the script of the page does.
func (p *page) apply(o op) {
	p.ops = append(p.ops, o)
	if o.At != "" {
		p.at = o.At
	}
	switch o.Op {
	case "reset":
		p.resets++
		p.clear()
	case "put":
		p.drop(o.Key, true)
		if _, known := p.html[o.Key]; !known {
			p.keys = append(p.keys, o.Key)
		}
		p.html[o.Key], p.parent[o.Key] = o.HTML, o.Parent
		delete(p.out, o.Key)
	case "del":
		p.drop(o.Key, false)
	case "out":
		p.out[o.Key] += o.Text
	case "state":
		p.state = *o.State
	case "say":
		p.said = append(p.said, o.Text)
	case "sessions":
		p.list = o.Sessions
	}
}

// drop removes what is in an element, and the element itself unless it stays.
func (p *page) drop(key string, stays bool) {
	for _, k := range slices.Clone(p.keys) {
		if p.parent[k] == key {
			p.drop(k, false)
		}
	}
	if !stays {
		delete(p.html, key)
		p.keys = slices.DeleteFunc(p.keys, func(k string) bool { return k == key })
	}
}

// text is everything that the page shows, in order.
func (p *page) text() string {
	inside := map[string][]string{}
	for _, key := range p.keys {
		inside[p.parent[key]] = append(inside[p.parent[key]], key)
	}
	var b strings.Builder
	var write func(parent string)
	write = func(parent string) {
		for _, key := range inside[parent] {
			b.WriteString("[" + key + "] " + p.html[key] + p.out[key] + "\n")
			write(key)
		}
	}
	write("")
	write("tasks")
	return b.String()
}

// until waits until the page is as it is expected.
func (p *page) until(what string, ok func(p *page) bool) {
	p.t.Helper()
	end := time.After(patience)
	for {
		p.mu.Lock()
		is, changed := ok(p), p.changed
		p.mu.Unlock()
		if is {
			return
		}
		select {
		case <-changed:
		case <-end:
			p.mu.Lock()
			defer p.mu.Unlock()
			require.FailNow(p.t, "the page does not show: "+what, "%+v\n%s", p.state, p.text())
		}
	}
}

// shows waits until the page shows texts.
func (p *page) shows(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		p.until(text, func(p *page) bool { return strings.Contains(p.text(), text) })
	}
}

// rests waits until nothing goes on.
func (p *page) rests() {
	p.t.Helper()
	p.until("rest", func(p *page) bool { return !p.state.Busy && p.whole() })
}

// whole reports whether the page has got all of a batch of its session. The list of
// sessions, which belongs to none, may have come after it. The caller holds mu.
func (p *page) whole() bool {
	for _, o := range slices.Backward(p.ops) {
		if o.Session != "" {
			return o.At != ""
		}
	}
	return false
}

// look returns what the page knows now.
func (p *page) look() *page {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &page{state: p.state, resets: p.resets, ops: slices.Clone(p.ops), said: slices.Clone(p.said)}
}

// now returns what the page shows.
func (p *page) now() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text()
}
