package web_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/web"
)

// wire is a listener whose connections are in memory, without a buffer, so that the time
// of a test is its own.
type wire struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newWire() *wire { return &wire{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}

func (w *wire) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (w *wire) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	w.conns <- server
	return client, nil
}

// nowhere is a runtime in which nothing runs.
type nowhere struct{ pygent.Runtime }

func (nowhere) Cleanup() error { return nil }

// serveWire serves a session over a wire.
func serveWire(t *testing.T, replies ...pygenttest.Reply) (*served, *wire) {
	t.Helper()
	server, err := web.New(nil)
	require.NoError(t, err)
	agent, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel(replies...)), pygent.WithRuntime(nowhere{}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, agent.Close()) }) // after the server
	id, err := server.Add("", agent)
	require.NoError(t, err)
	s, w := overWire(t, server)
	s.id, s.agent = id, agent
	return s, w
}

// overWire has a server's pages be reached over a wire until the test ends. The server is
// closed first.
func overWire(t *testing.T, server *web.Server) (*served, *wire) {
	w := newWire()
	serving := &http.Server{Handler: server}
	var work sync.WaitGroup
	work.Go(func() { _ = serving.Serve(w) })
	transport := &http.Transport{DialContext: w.dial}
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		transport.CloseIdleConnections()
		require.NoError(t, serving.Close())
		work.Wait()
	})
	return &served{t: t, server: server, url: "http://127.0.0.1", token: server.Token(), client: &http.Client{Transport: transport}}, w
}

// send writes a request over a connection of its own.
func (w *wire) send(t *testing.T, request string) net.Conn {
	t.Helper()
	conn, err := w.dial(t.Context(), "", "")
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, strings.ReplaceAll(request, "\n", "\r\n"))
	require.NoError(t, err)
	return conn
}

func TestABodyThatDoesNotComeIsNotWaitedFor(t *testing.T) {
	for name, tt := range map[string]struct {
		token func(s *served) string
		says  string
	}{
		"of a stranger": {func(*served) string { return "guess" }, "HTTP/1.1 401"},
		"of the user":   {func(s *served) string { return s.token }, "HTTP/1.1 408"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, w := serveWire(t)
				conn := w.send(t, "POST /api/v1/sessions/"+s.id+"/messages HTTP/1.1\nHost: localhost\nContent-Type: application/json\n"+
					"Authorization: Bearer "+tt.token(s)+"\nContent-Length: 100\n\n{\"text\":")
				require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Hour)))
				answer := bufio.NewReader(conn)
				line, err := answer.ReadString('\n')
				require.NoError(t, err)
				require.True(t, strings.HasPrefix(line, tt.says), line)
				_, err = io.Copy(io.Discard, answer)
				require.NoError(t, err, "the connection is closed")
			})
		})
	}
}

// A page that does not read is dropped. The session goes on, and so do other pages.
func TestAPageThatDoesNotReadIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := strings.Repeat("A word. ", 20_000)
		s, w := serveWire(t, pygenttest.Text(text), pygenttest.Text("And again."))
		views := `{"views":{"` + s.id + `":""}}`
		conn := w.send(t, "POST /api/v1/stream HTTP/1.1\nHost: localhost\nContent-Type: application/json\nAuthorization: Bearer "+s.token+
			"\nContent-Length: "+strconv.Itoa(len(views))+"\n\n"+views)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Hour)))
		sleepy := bufio.NewReader(conn)
		line, err := sleepy.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 200 OK\r\n", line)
		p := s.open("")
		s.say("Write much.")
		p.shows(`<div class="end">Done`)
		time.Sleep(time.Minute) // in the bubble
		rest, err := io.ReadAll(sleepy)
		require.NoError(t, err, "the connection is closed")
		require.NotContains(t, string(rest), "A word.")
		s.say("And now?")
		p.shows("<p>And again.</p>")
	})
}

// An answer that is not read is not kept for ever.
func TestAnAnswerThatIsNotReadIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := strings.Repeat("A word. ", 20_000)
		s, w := serveWire(t, pygenttest.Text(text))
		p := s.open("")
		s.say("Write much.")
		p.shows(`<div class="end">Done`)
		conn := w.send(t, "GET /api/v1/sessions/"+s.id+"/history HTTP/1.1\nHost: localhost\nAuthorization: Bearer "+s.token+"\n\n")
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Hour)))
		sleepy := bufio.NewReader(conn)
		line, err := sleepy.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 200 OK\r\n", line)
		time.Sleep(time.Minute) // in the bubble
		rest, err := io.ReadAll(sleepy)
		require.NoError(t, err, "the connection is closed")
		require.Less(t, len(rest), len(text))
	})
}

// A stream on which nothing happens goes on for hours, and says that it lives.
// A host's own writer may have no deadlines. A long answer is written all the same.
func TestAWriterWithoutDeadlinesGetsLongAnswers(t *testing.T) {
	text := strings.Repeat("A word. ", 20_000)
	s := serve(t, []pygenttest.Reply{pygenttest.Text(text)})
	p := s.open("")
	s.say("Write much.")
	p.shows(`<div class="end">Done`)
	asks := s.request(http.MethodGet, "/sessions/"+s.id+"/history", nil)
	asks.RequestURI = asks.URL.RequestURI()
	written := httptest.NewRecorder()
	s.server.ServeHTTP(written, asks)
	require.Equal(t, http.StatusOK, written.Code)
	require.Contains(t, written.Body.String(), strings.TrimSpace(text))
}

func TestASilentStreamLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := serveWire(t, pygenttest.Text("Good morning."))
		p := s.open("")
		p.until("the session", func(p *page) bool { return len(p.list) == 1 })
		time.Sleep(8 * time.Hour)
		resets := p.look().resets
		s.say("Hello.")
		p.shows("<p>Good morning.</p>")
		require.Equal(t, resets, p.look().resets, "it is the same stream")
	})
}
