package examples_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestThePageShowsAnAgentAtWork(t *testing.T) {
	t.Parallel()
	page := startPage(t,
		pygenttest.Call("bash", map[string]any{"cmd": "echo hello, world"}),
		pygenttest.Call("stop", map[string]any{"summary": "It is printed."}),
		pygenttest.Text("You are welcome."), pygenttest.Text("Yes?"))
	events := page.follow("")
	require.Contains(t, events.data("history"), `"activity":"idle"`)
	require.Equal(t, "null", events.data("asked"))

	page.post(`{"text": "Print a greeting."}`, http.StatusOK)
	require.Contains(t, events.data("asked"), "echo hello, world")
	again := page.follow("") // as a browser does in which the page is loaded again
	history := again.data("history")
	require.Contains(t, history, `"activity":"approval"`)
	require.Contains(t, history, "Print a greeting.")
	require.Contains(t, again.data("asked"), "echo hello, world")
	page.post(`{"asked": 1, "allow": true}`, http.StatusOK)
	page.post(`{"asked": 1, "allow": true}`, http.StatusBadRequest)
	require.Equal(t, "[]", again.data("asked"))
	done := events.until(pygent.EventToolDone)
	require.Contains(t, done.Output.Content, "hello, world")
	last := events.until(pygent.EventRunEnd)
	require.Equal(t, pygent.StatusStopped, last.Result.Status)

	page.post(`{"text": "Thank you."}`, http.StatusOK)
	require.Equal(t, pygent.StatusReplied, events.until(pygent.EventRunEnd).Result.Status)

	again = page.follow(events.id) // as a browser does that lost the connection
	page.post(`{"text": "One more thing."}`, http.StatusOK)
	require.Equal(t, "One more thing.", again.until(pygent.EventUser).Text, "nothing comes twice")
}

func TestThePageIsForItsUserAlone(t *testing.T) {
	t.Parallel()
	page := startPage(t)
	for name, change := range map[string]func(*http.Request){
		"no token":    func(r *http.Request) { r.URL.RawQuery = "" },
		"a wrong one": func(r *http.Request) { r.URL.RawQuery = "token=guess" },
		"a cookie": func(r *http.Request) {
			r.AddCookie(&http.Cookie{Name: "token", Value: r.URL.Query().Get("token")})
			r.URL.RawQuery = ""
		},
		"another name": func(r *http.Request) { r.Host = "evil.example" },
		"another site": func(r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			r.Header.Set("Origin", "http://evil.example")
		},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, page.url+"say"+page.query, strings.NewReader(`{"text": "Hi."}`))
			require.NoError(t, err)
			change(req)
			resp, err := http.DefaultTransport.RoundTrip(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, http.StatusForbidden, resp.StatusCode)
		})
	}
	page.post("{", http.StatusBadRequest)
}

// runningPage is the example at work, and a browser that has opened it.
type runningPage struct {
	t       *testing.T
	client  *http.Client
	url     string
	query   string // with the token
	address string // likewise
}

// startPage starts the example with a model that gives the replies, and opens the
// address that it prints. The end of the test interrupts it, and it must end in
// order.
func startPage(t *testing.T, replies ...pygenttest.Reply) *runningPage {
	t.Helper()
	server := pygenttest.NewServer(t, replies...)
	cmd := example(context.Background(), t, "page") // which the test ends in order
	cmd.Env = append(os.Environ(), append(server.Env(), "PYGENT_USE_DOCKER=0")...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		require.NoError(t, cmd.Wait())
	})
	address, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	u, err := url.Parse(strings.TrimSpace(address))
	require.NoError(t, err)
	p := &runningPage{t: t, client: &http.Client{}, url: "http://" + u.Host + "/", query: "?token=" + u.Fragment, address: u.String()}
	t.Cleanup(p.client.CloseIdleConnections)
	resp, err := p.client.Get(u.String())
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Contains(t, string(body), "EventSource('/events' + token)")
	require.Empty(t, resp.Header["Set-Cookie"], "a server at another port would get it")
	return p
}

func (p *runningPage) post(body string, status int) {
	p.t.Helper()
	resp, err := p.client.Post(p.url+"say"+p.query, "application/json", strings.NewReader(body))
	require.NoError(p.t, err)
	require.NoError(p.t, resp.Body.Close())
	require.Equal(p.t, status, resp.StatusCode)
}

// eventStream is a stream of server-sent events.
type eventStream struct {
	t     *testing.T
	lines *bufio.Scanner
	id    string // of the last event
}

// follow opens the stream of events behind the one with an id.
func (p *runningPage) follow(id string) *eventStream {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+"events"+p.query, nil)
	require.NoError(p.t, err)
	if id != "" {
		req.Header.Set("Last-Event-ID", id)
	}
	resp, err := p.client.Do(req)
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusOK, resp.StatusCode)
	p.t.Cleanup(func() { resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return &eventStream{t: p.t, lines: lines}
}

// next returns the next event of the stream.
func (s *eventStream) next() (kind, data string) {
	s.t.Helper()
	var id string
	for s.lines.Scan() {
		name, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch name {
		case "id":
			id = value
		case "event":
			kind = value
		case "data":
			data = value
		case "":
			s.id = id
			return kind, data
		}
	}
	require.FailNow(s.t, "the stream ended", "%v", s.lines.Err())
	return "", ""
}

// data returns the data of the next event of a kind.
func (s *eventStream) data(kind string) string {
	s.t.Helper()
	for {
		if k, data := s.next(); k == kind {
			return data
		}
	}
}

// until returns the next event of the agent that has a type.
func (s *eventStream) until(typ pygent.EventType) pygent.Event {
	s.t.Helper()
	for {
		var e pygent.Event
		require.NoError(s.t, json.Unmarshal([]byte(s.data("agent")), &e))
		if e.Type == typ {
			return e
		}
	}
}
