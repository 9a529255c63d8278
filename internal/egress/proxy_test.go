package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// names is a DNS server that records the names it was asked for.
type names struct {
	t         *testing.T
	addresses map[string]string

	mu    sync.Mutex
	asked []string
}

// connect dials, and looks names up at this server.
func (n *names) connect(ctx context.Context, d *net.Dialer, address string) (net.Conn, error) {
	d.Resolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go n.serve(theirs)
		return ours, nil
	}}
	return d.DialContext(ctx, "tcp", address)
}

func (n *names) serve(conn net.Conn) {
	defer conn.Close()
	head := make([]byte, 2)
	for {
		if _, err := io.ReadFull(conn, head); err != nil {
			return
		}
		query := make([]byte, int(head[0])<<8|int(head[1]))
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		answer := n.answer(query)
		if _, err := conn.Write(append([]byte{byte(len(answer) >> 8), byte(len(answer))}, answer...)); err != nil {
			return
		}
	}
}

func (n *names) answer(query []byte) []byte {
	var m dnsmessage.Message
	if !assertNoError(n.t, m.Unpack(query)) {
		return nil
	}
	q := m.Questions[0]
	name := strings.TrimSuffix(q.Name.String(), ".")
	n.mu.Lock()
	n.asked = append(n.asked, name)
	n.mu.Unlock()
	m.Response, m.Additionals = true, nil
	header := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}
	addr, err := netip.ParseAddr(n.addresses[name])
	switch {
	case err != nil:
		m.RCode = dnsmessage.RCodeNameError
	case addr.Is4() && q.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AResource{A: addr.As4()}}}
	case addr.Is6() && q.Type == dnsmessage.TypeAAAA:
		m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}}}
	}
	packed, err := m.Pack()
	assertNoError(n.t, err)
	return packed
}

func assertNoError(t *testing.T, err error) bool {
	if err != nil {
		t.Error(err)
	}
	return err == nil
}

func (n *names) lookedUp() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.asked)
}

// way is a proxy that listens on a port of this machine.
type way struct {
	*Proxy
	address string
	done    chan struct{}
	l       net.Listener

	mu   sync.Mutex
	told []Use
}

// open serves a proxy until the test ends.
func open(t *testing.T, config Config, pause ...func() func()) *way {
	t.Helper()
	w := &way{done: make(chan struct{})}
	if config.Upstream == nil {
		config.Upstream = func(*url.URL) (*url.URL, error) { return nil, nil }
	}
	if config.Limit == 0 {
		config.Limit = -1
	}
	config.Tell = func(u Use) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told = append(w.told, u)
	}
	var err error
	w.Proxy, err = New(config)
	require.NoError(t, err)
	w.l, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w.address = w.l.Addr().String()
	go func() {
		defer close(w.done)
		w.Serve(w.l, append(pause, nil)[0])
	}()
	t.Cleanup(w.end)
	return w
}

func (w *way) end() {
	w.l.Close()
	<-w.done
	w.Close()
}

func (w *way) uses() []Use {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.told)
}

// send sends raw bytes, and returns the first answer.
func (w *way) send(t *testing.T, request string) (status int, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", w.address)
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	if answer.StatusCode == http.StatusOK && strings.HasPrefix(request, "CONNECT") {
		return answer.StatusCode, ""
	}
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(text)
}

// client returns an HTTP client that uses the proxy.
func (w *way) client(t *testing.T) *http.Client {
	transport := &http.Transport{
		Proxy:           func(*http.Request) (*url.URL, error) { return &url.URL{Scheme: "http", Host: w.address}, nil },
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// site starts a web server that records its requests.
func site(t *testing.T, secure bool) (address string, requests func() []*http.Request) {
	var mu sync.Mutex
	var all []*http.Request
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		all = append(all, r)
		mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %q", r.Host, r.RequestURI, body)
	})
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = nil
	if secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server.Listener.Addr().String(), func() []*http.Request {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

func TestAllowedHostsAreReached(t *testing.T) {
	plain, _ := site(t, false)
	secure, _ := site(t, true)
	_, port, err := net.SplitHostPort(plain)
	require.NoError(t, err)
	n := &names{t: t, addresses: map[string]string{"web.test": "127.0.0.1"}}
	w := open(t, Config{Allow: []string{plain, secure, "web.test:" + port}, Connect: n.connect})
	c := w.client(t)
	for target, want := range map[string]string{
		"http://" + plain + "/a?b;c=%zz":        plain + " /a?b;c=%zz \"\"",
		"https://" + secure + "/x":              secure + " /x \"\"",
		"http://WEB.test.:" + port + "/%2f../q": "web.test:" + port + " /%2f../q \"\"",
	} {
		answer, err := c.Get(target)
		require.NoError(t, err, target)
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, want, string(body))
	}
	for _, u := range w.uses() {
		require.True(t, u.Allowed, u)
	}
	require.Len(t, w.uses(), 3)
}

func TestTheRequestLineDecides(t *testing.T) {
	address, requests := site(t, false)
	w := open(t, Config{Allow: []string{address}})
	status, body := w.send(t, "GET http://"+address+"/ HTTP/1.1\r\nHost: evil.test\r\nX-Forwarded-For: 1.2.3.4\r\nProxy-Authorization: Basic eA==\r\nConnection: close\r\n\r\n")
	require.Equal(t, http.StatusOK, status, body)
	require.Len(t, requests(), 1)
	got := requests()[0]
	require.Equal(t, address, got.Host)
	require.Empty(t, got.Header.Get("X-Forwarded-For"))
	require.Empty(t, got.Header.Get("Proxy-Authorization"))

	status, _ = w.send(t, "GET http://evil.test/ HTTP/1.1\r\nHost: "+address+"\r\nConnection: close\r\n\r\n")
	require.Equal(t, http.StatusForbidden, status)
	require.Len(t, requests(), 1)
}

func TestWhatIsNotAllowedIsRefused(t *testing.T) {
	address, requests := site(t, false)
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	n := &names{t: t}
	w := open(t, Config{Allow: []string{"example.org", "*.example.net", "named.test:8443"}, Connect: n.connect})
	cases := map[string]int{
		"CONNECT " + address:                      http.StatusForbidden,
		"CONNECT localhost:" + port:               http.StatusForbidden,
		"CONNECT localhost:443":                   http.StatusForbidden,
		"CONNECT 0177.0.0.1:" + port:              http.StatusBadRequest,
		"CONNECT 127.1:443":                       http.StatusBadRequest,
		"CONNECT 2130706433:443":                  http.StatusBadRequest,
		"CONNECT 0x7f000001:443":                  http.StatusBadRequest,
		"CONNECT [::1]:" + port:                   http.StatusForbidden,
		"CONNECT [::ffff:127.0.0.1]:" + port:      http.StatusForbidden,
		"CONNECT [fe80::1%25lo]:443":              http.StatusBadRequest,
		"CONNECT 169.254.169.254:443":             http.StatusForbidden,
		"CONNECT example.org:80":                  http.StatusForbidden,
		"CONNECT example.org:22":                  http.StatusForbidden,
		"CONNECT example.net:443":                 http.StatusForbidden,
		"CONNECT notexample.org:443":              http.StatusForbidden,
		"CONNECT example.org.evil.test:443":       http.StatusForbidden,
		"CONNECT named.test:443":                  http.StatusForbidden,
		"CONNECT example.org":                     http.StatusBadRequest,
		"CONNECT example.org:0443":                http.StatusBadRequest,
		"CONNECT example.org:443@evil.test:443":   http.StatusBadRequest,
		"GET http://169.254.169.254/latest":       http.StatusForbidden,
		"GET http://metadata.google.internal/":    http.StatusForbidden,
		"GET http://" + address + "/":             http.StatusForbidden,
		"GET http://example.org:443/":             http.StatusForbidden,
		"GET http://example.org:8080/":            http.StatusForbidden,
		"GET http://user:pw@example.org/":         http.StatusBadRequest,
		"GET http://example.org@evil.test/":       http.StatusBadRequest,
		"GET http://evil.test#@example.org/":      http.StatusBadRequest,
		"GET http://evil.test?@example.org/":      http.StatusForbidden,
		"GET http://example.org%2eevil.test/":     http.StatusBadRequest,
		"GET http://exämple.org/":                 http.StatusBadRequest,
		"GET https://example.org/":                http.StatusBadRequest,
		"GET ftp://example.org/":                  http.StatusBadRequest,
		"GET file:///etc/passwd":                  http.StatusBadRequest,
		"GET /":                                   http.StatusBadRequest,
		"GET //example.org/":                      http.StatusBadRequest,
		"OPTIONS *":                               http.StatusBadRequest,
		"GET http://" + strings.Repeat("a.", 200): http.StatusBadRequest,
	}
	for line, want := range cases {
		status, body := w.send(t, line+" HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n")
		require.Equal(t, want, status, "%s: %s", line, body)
	}
	require.Empty(t, requests())
	require.Empty(t, n.lookedUp(), "what is not allowed must not be looked up")
	for _, u := range w.uses() {
		require.False(t, u.Allowed, u)
	}
}

func TestNamesThatLeadInsideAreRefused(t *testing.T) {
	for _, addr := range []string{
		"127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.0.1", "100.64.0.1", "198.18.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1",
		"::1", "fe80::1", "fd00::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::1",
	} {
		n := &names{t: t, addresses: map[string]string{"good.test": addr}}
		w := open(t, Config{Allow: []string{"good.test"}, Connect: n.connect})
		for _, line := range []string{"CONNECT good.test:443", "GET http://good.test/"} {
			status, body := w.send(t, line+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
			require.Equal(t, http.StatusForbidden, status, "%s at %s: %s", line, addr, body)
			require.Contains(t, body, "its name leads to")
		}
		require.NotEmpty(t, n.lookedUp())
		require.Len(t, w.uses(), 2)
		w.end()
	}
}

func TestAFailureIsNoRefusal(t *testing.T) {
	n := &names{t: t}
	w := open(t, Config{Allow: []string{"gone.test"}, Connect: n.connect})
	refused := w.Watch()
	status, body := w.send(t, "CONNECT gone.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Equal(t, http.StatusBadGateway, status)
	require.Contains(t, body, "no such host")
	none, missed := refused()
	require.Empty(t, none)
	require.Equal(t, []Use{{Host: "gone.test", Port: 443, Allowed: true, Reason: "no such host"}}, missed)
	require.Empty(t, w.uses())
}

func TestAHostThatIsReachedAfterAllIsNotMissed(t *testing.T) {
	address, _ := site(t, false)
	var failed atomic.Bool
	w := open(t, Config{Allow: []string{address}, Connect: func(ctx context.Context, d *net.Dialer, address string) (net.Conn, error) {
		if failed.CompareAndSwap(false, true) {
			return nil, errors.New("not yet")
		}
		return d.DialContext(ctx, "tcp", address)
	}})
	end := w.Watch()
	request := "GET http://" + address + "/ HTTP/1.1\r\nHost: x\r\n\r\n"
	status, _ := w.send(t, request)
	require.Equal(t, http.StatusBadGateway, status)
	status, _ = w.send(t, request)
	require.Equal(t, http.StatusOK, status)
	refused, missed := end()
	require.Empty(t, refused)
	require.Empty(t, missed)
}

func TestSmuggledRequestsDoNotPass(t *testing.T) {
	address, requests := site(t, false)
	w := open(t, Config{Allow: []string{address}})
	hidden := "GET /hidden HTTP/1.1\r\nHost: " + address + "\r\n\r\n"
	head := "POST http://" + address + "/ HTTP/1.1\r\nHost: " + address + "\r\nConnection: close\r\n"
	for name, request := range map[string]string{
		"length and chunks":   head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"two lengths":         head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello" + hidden,
		"odd encoding":        head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden,
		"space before colon":  head + "Content-Length : 5\r\n\r\nhello" + hidden,
		"line end in target":  "GET http://" + address + "/\rHTTP/1.1 HTTP/1.1\r\nHost: x\r\n\r\n",
		"header in host name": "GET http://" + address + "%0d%0aX:1/ HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		w.send(t, request)
		for _, r := range requests() {
			require.NotEqual(t, "/hidden", r.RequestURI, name)
		}
	}
}

func TestUpgradesPass(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if !assertNoError(t, err) {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		line, _ := buffered.ReadString('\n')
		_, _ = io.WriteString(conn, line)
	}))
	defer server.Close()
	address := server.Listener.Addr().String()
	w := open(t, Config{Allow: []string{address}})
	conn, err := net.Dial("tcp", w.address)
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "GET http://%s/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", address)
	require.NoError(t, err)
	reader := bufio.NewReader(conn)
	answer, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSwitchingProtocols, answer.StatusCode)
	_, err = io.WriteString(conn, "hello\n")
	require.NoError(t, err)
	line, err := reader.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "hello\n", line)
}

// echo starts a server that sends back what it receives.
func echo(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l.Addr().String()
}

// tunnelTo opens a tunnel through the proxy.
func (w *way) tunnelTo(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", w.address)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, err = fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", address)
	require.NoError(t, err)
	head := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
	_, err = io.ReadFull(conn, head)
	require.NoError(t, err)
	require.Contains(t, string(head), " 200 ")
	return conn
}

func TestTunnelsEndOneDirectionAtATime(t *testing.T) {
	address := echo(t)
	w := open(t, Config{Allow: []string{address}})
	conn := w.tunnelTo(t, address)
	_, err := io.WriteString(conn, "hello")
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "hello", string(got))
}

func TestTunnelsEndWithTheListener(t *testing.T) {
	address := echo(t)
	w := open(t, Config{Allow: []string{address}})
	conn := w.tunnelTo(t, address)
	w.end()
	_, err := conn.Read(make([]byte, 1))
	require.Error(t, err)
}

func TestConnectionsAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &onceListener{conn: make(chan net.Conn, 3), closed: make(chan struct{})}
		for range 3 {
			conn, _ := net.Pipe()
			inner.conn <- conn
		}
		l := newBoundedListener(inner, 2)
		first, second := accept(t, l), accept(t, l)
		first.work(true)
		second.work(true)
		third := make(chan error, 1)
		go func() {
			_, err := l.Accept()
			third <- err
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Empty(t, third)
		require.NoError(t, first.Close())
		require.NoError(t, first.Close())
		require.NoError(t, <-third)
		go func() {
			_, err := l.Accept()
			third <- err
		}()
		synctest.Wait()
		require.NoError(t, l.Close())
		require.ErrorIs(t, <-third, net.ErrClosed)
	})
}

func accept(t *testing.T, l net.Listener) *boundedConn {
	t.Helper()
	conn, err := l.Accept()
	require.NoError(t, err)
	return conn.(*boundedConn)
}

// TestIdleConnectionsGiveWay opens one connection that is in use, one that is
// idle, and one whose request is waiting for an answer.
func TestIdleConnectionsGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &onceListener{conn: make(chan net.Conn, 4), closed: make(chan struct{})}
		var programs []net.Conn
		for range 4 {
			ours, theirs := net.Pipe()
			inner.conn <- ours
			programs = append(programs, theirs)
		}
		l := newBoundedListener(inner, 3)
		waits, used, idle := accept(t, l), accept(t, l), accept(t, l)
		waits.work(true)
		time.Sleep(minIdle / 2)
		go func() { _, _ = programs[1].Write([]byte("x")) }()
		_, err := used.Read(make([]byte, 1))
		require.NoError(t, err)
		begun := time.Now()
		last := accept(t, l)
		require.Equal(t, minIdle/2, time.Since(begun))
		_, err = idle.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.ErrClosedPipe)
		for _, conn := range []net.Conn{waits, used, last} {
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(time.Second)))
			_, err := conn.Read(make([]byte, 1))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		}
	})
}

// TestIdleConnectionsKeepNobodyOut opens more connections than are allowed,
// some of them silent and some of them tunnels, and then one with a request.
func TestIdleConnectionsKeepNobodyOut(t *testing.T) {
	address, _ := site(t, false)
	w := open(t, Config{Allow: []string{address}})
	for i := range 3 * maxConns {
		conn, err := net.Dial("tcp", w.address)
		require.NoError(t, err)
		defer conn.Close()
		if i%2 == 0 {
			_, err = io.WriteString(conn, "CONNECT "+address+" HTTP/1.1\r\nHost: x\r\n\r\n")
			require.NoError(t, err)
		}
	}
	conn, err := net.Dial("tcp", w.address)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(headerTime-time.Second)))
	_, err = io.WriteString(conn, "GET http://"+address+"/ HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode)
}

func TestHeadersAreBounded(t *testing.T) {
	w := open(t, Config{Allow: []string{"example.org"}})
	status, _ := w.send(t, "GET http://example.org/ HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", 2*maxHeader)+"\r\n\r\n")
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, status)
}

func TestBytesAreBounded(t *testing.T) {
	address := echo(t)
	w := open(t, Config{Allow: []string{address}, Limit: 100_000})
	conn := w.tunnelTo(t, address)
	go func() { _, _ = io.Copy(conn, strings.NewReader(strings.Repeat("x", 10_000_000))) }()
	n, _ := io.Copy(io.Discard, conn)
	require.Less(t, n, int64(200_000))
	status, body := w.send(t, "CONNECT "+address+" HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Equal(t, http.StatusForbidden, status)
	require.Contains(t, body, "the limit of")
}

func TestConnectionsEndWithTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		conn := newMeteredConn(ours, &meter{limit: -1})
		begun := time.Now()
		for range 3 {
			go func() { _, _ = theirs.Write([]byte("x")) }()
			_, err := conn.Read(make([]byte, 1))
			require.NoError(t, err)
			time.Sleep(idleTime - time.Second)
		}
		_, err := conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.ErrClosedPipe)
		require.Equal(t, 3*(idleTime-time.Second)+time.Second, time.Since(begun))
		require.NoError(t, conn.Close())
	})
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		conn := newMeteredConn(ours, &meter{limit: -1})
		defer conn.Close()
		begun := time.Now()
		var writer sync.WaitGroup
		writer.Go(func() {
			for {
				time.Sleep(time.Minute)
				if _, err := theirs.Write([]byte("x")); err != nil {
					return
				}
			}
		})
		_, _ = io.Copy(io.Discard, conn)
		require.Equal(t, totalTime, time.Since(begun))
		writer.Wait()
	})
}

func TestSlowHeadersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Config{})
		require.NoError(t, err)
		ours, theirs := net.Pipe()
		l := &onceListener{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
		l.conn <- ours
		done := make(chan struct{})
		go func() { defer close(done); p.Serve(l, nil) }()
		begun := time.Now()
		var writer sync.WaitGroup
		writer.Go(func() {
			for {
				if _, err := theirs.Write([]byte("X")); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})
		_, _ = io.Copy(io.Discard, theirs)
		require.LessOrEqual(t, time.Since(begun), headerTime+2*time.Second)
		writer.Wait()
		l.Close()
		<-done
	})
}

// onceListener is a listener that accepts the connections of the test.
type onceListener struct {
	conn   chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *onceListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *onceListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *onceListener) Addr() net.Addr { return &net.TCPAddr{} }

func TestWhatIsToldIsBounded(t *testing.T) {
	w := open(t, Config{Allow: []string{"example.org"}})
	refused := w.Watch()
	conn, err := net.Dial("tcp", w.address)
	require.NoError(t, err)
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for i := range 1000 {
		_, err := fmt.Fprintf(conn, "GET http://h%d.test/ HTTP/1.1\r\nHost: x\r\n\r\n", i%500)
		require.NoError(t, err)
		answer, err := http.ReadResponse(reader, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusForbidden, answer.StatusCode)
		_, err = io.Copy(io.Discard, answer.Body)
		require.NoError(t, err)
	}
	some, _ := refused()
	require.Len(t, some, maxRefused)
	require.Len(t, w.uses(), maxTold+1)
	require.Equal(t, Use{}, w.uses()[maxTold], "the last one tells that there are more")

	// The next command starts with an empty record. Two commands at the same
	// time share what is refused.
	first, second := w.Watch(), w.Watch()
	w.send(t, "CONNECT h1.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	w.send(t, "CONNECT h1.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	want := []Use{{Host: "h1.test", Port: 443, Reason: "it is not an allowed host", Allow: "h1.test"}}
	got, _ := first()
	require.Equal(t, want, got)
	got, _ = second()
	require.Equal(t, want, got)
	require.Equal(t, want[0], w.uses()[maxTold+1])
	require.Len(t, w.uses(), maxTold+2)
}

func TestSomebodyMayBeAsked(t *testing.T) {
	address, _ := site(t, false)
	var mu sync.Mutex
	var asked []string
	paused, resumed := 0, 0
	n := &names{t: t, addresses: map[string]string{"yes.test": "127.0.0.1", "inside.test": "10.0.0.1"}}
	connect := func(ctx context.Context, d *net.Dialer, target string) (net.Conn, error) {
		if target == "yes.test:80" {
			d.Control = nil // as if the server were on another machine
			return d.DialContext(ctx, "tcp", address)
		}
		return n.connect(ctx, d, target)
	}
	w := open(t, Config{Connect: connect, Allow: []string{"named.test"}, Ask: func(_ context.Context, host string, port int) (bool, string) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, fmt.Sprintf("%s:%d", host, port))
		if paused != resumed+1 {
			t.Error("time does not stand still")
		}
		if host == "no.test" {
			return false, "the user declined"
		}
		return host != "quiet.test", ""
	}}, func() func() {
		mu.Lock()
		defer mu.Unlock()
		paused++
		return func() { mu.Lock(); defer mu.Unlock(); resumed++ }
	})
	ask := func(line string) (int, string) {
		return w.send(t, line+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	}
	for _, tc := range []struct {
		line, asked string
		status      int
		body        string
	}{
		{"GET http://YES.test/", "yes.test:80", http.StatusOK, "yes.test / "},
		{"CONNECT no.test:443", "no.test:443", http.StatusForbidden, "the user declined"},
		{"CONNECT quiet.test:443", "quiet.test:443", http.StatusForbidden, "not an allowed host"},
		{"CONNECT inside.test:443", "inside.test:443", http.StatusForbidden, "its name leads to 10.0.0.1"},
		{"CONNECT yes.test:22", "", http.StatusForbidden, "not an allowed host"},
		{"GET http://yes.test:8080/", "", http.StatusForbidden, "not an allowed host"},
		{"GET http://named.test:8080/", "", http.StatusForbidden, "its port is not allowed"},
		{"CONNECT 10.0.0.1:443", "", http.StatusForbidden, "private or special"},
		{"CONNECT localhost:443", "", http.StatusForbidden, "private or special"},
		{"CONNECT [::1]:443", "", http.StatusForbidden, "private or special"},
	} {
		asked = nil
		status, body := ask(tc.line)
		require.Equal(t, tc.status, status, tc.line)
		require.Contains(t, body, tc.body)
		require.Equal(t, tc.asked, strings.Join(asked, " "), tc.line)
	}
	require.Equal(t, paused, resumed)
}

func TestQuestionsEndWhenNobodyWaits(t *testing.T) {
	asked, ended := make(chan struct{}, 2), make(chan struct{}, 2)
	w := open(t, Config{Ask: func(ctx context.Context, _ string, _ int) (bool, string) {
		asked <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		return false, ""
	}})
	conn, err := net.Dial("tcp", w.address)
	require.NoError(t, err)
	_, err = io.WriteString(conn, "CONNECT a.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	<-asked
	conn.Close()
	<-ended
	conn, err = net.Dial("tcp", w.address)
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "CONNECT a.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	<-asked
	w.end()
	<-ended
}

func TestTheProxyOfThisMachineIsUsed(t *testing.T) {
	address := echo(t)
	var mu sync.Mutex
	var seen []string
	company := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Method+" "+r.RequestURI+" "+r.Header.Get("Proxy-Authorization"))
		mu.Unlock()
		if r.Method != http.MethodConnect || strings.HasPrefix(r.RequestURI, "closed") {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		outside, err := net.Dial("tcp", address)
		if !assertNoError(t, err) {
			return
		}
		defer outside.Close()
		conn, _, err := http.NewResponseController(w).Hijack()
		if !assertNoError(t, err) {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		join(conn, outside)
	}))
	defer company.Close()
	via, err := url.Parse(company.URL)
	require.NoError(t, err)
	via.User = url.UserPassword("me", "secret")
	n := &names{t: t}
	w := open(t, Config{Allow: []string{"far.test", "closed.test"}, Connect: n.connect, Upstream: func(*url.URL) (*url.URL, error) { return via, nil }})

	conn := w.tunnelTo(t, "far.test:443")
	_, err = io.WriteString(conn, "hello")
	require.NoError(t, err)
	require.NoError(t, conn.(*net.TCPConn).CloseWrite())
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "hello", string(got))
	status, _ := w.send(t, "GET http://far.test/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	require.Equal(t, http.StatusTeapot, status)
	status, body := w.send(t, "CONNECT closed.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Equal(t, http.StatusBadGateway, status)
	require.NotContains(t, body, "secret")
	status, _ = w.send(t, "CONNECT 10.0.0.1:443 HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Equal(t, http.StatusForbidden, status)
	const basic = " Basic bWU6c2VjcmV0"
	require.Equal(t, []string{"CONNECT far.test:443" + basic, "GET http://far.test/x" + basic, "CONNECT closed.test:443" + basic}, seen)
	require.Empty(t, n.lookedUp(), "names are the other proxy's to look up")
}

func TestGitIsLedToHTTPS(t *testing.T) {
	p, err := New(Config{Allow: []string{"git.example.org", "*.example.net", "10.0.0.5:80", "git.example.com:8443"}})
	require.NoError(t, err)
	require.Equal(t, [][2]string{
		{"url.https://.insteadOf", "ssh://git@"},
		{"url.https://git.example.org/.insteadOf", "git@git.example.org:"},
	}, p.GitRewrites())
}

// TestOnlyWhatHelpsIsOffered allows what a refusal names, and then nothing is
// refused for that any more.
func TestOnlyWhatHelpsIsOffered(t *testing.T) {
	used := func(s string) Config { return Config{Allow: []string{s}} }
	spent := used("spent.test")
	spent.Limit = 1
	for name, tt := range map[string]struct {
		config  Config
		request string
		want    string
	}{
		"a host":                  {used("other.test"), "CONNECT a.test:443", "a.test"},
		"by HTTP":                 {used("other.test"), "GET http://a.test/", "a.test"},
		"a port":                  {used("other.test"), "CONNECT a.test:8443", "a.test:8443"},
		"HTTPS on HTTP's port":    {used("other.test"), "CONNECT a.test:80", "a.test:80"},
		"another port":            {used("a.test"), "CONNECT a.test:80", "a.test:80"},
		"a private address":       {used("other.test"), "CONNECT 10.0.0.5:443", "10.0.0.5:443"},
		"localhost":               {used("other.test"), "GET http://localhost/", "localhost:80"},
		"a link-local address":    {used("other.test"), "GET http://169.254.169.254/", "169.254.169.254:80"},
		"an address of nobody":    {used("other.test"), "CONNECT 240.0.0.1:443", ""},
		"a name of one":           {used("private.test"), "CONNECT private.test:443", "private.test:443"},
		"a name of credentials":   {used("meta.test"), "CONNECT meta.test:443", ""},
		"the limit of bytes":      {spent, "CONNECT spent.test:443", ""},
		"an address of version 6": {used("other.test"), "CONNECT [2606:4700::1111]:443", "2606:4700::1111"},
	} {
		t.Run(name, func(t *testing.T) {
			n := &names{t: t, addresses: map[string]string{"private.test": "10.0.0.5", "meta.test": "169.254.169.254"}}
			tt.config.Connect = n.connect
			w := open(t, tt.config)
			w.meter.take(1)
			refused := w.Watch()
			status, _ := w.send(t, tt.request+" HTTP/1.1\r\nHost: x\r\n\r\n")
			require.Equal(t, http.StatusForbidden, status)
			uses, _ := refused()
			require.Len(t, uses, 1)
			require.Equal(t, tt.want, uses[0].Allow, uses[0].Reason)
			if tt.want != "" {
				_, err := ParsePattern(tt.want)
				require.NoError(t, err)
			}
		})
	}
}

// A tunnel through another proxy is not cut at the time limit of that one's answer.
func TestATunnelOutlivesTheTimeLimitOfItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		go func() {
			defer theirs.Close()
			if _, err := http.ReadRequest(bufio.NewReader(theirs)); err == nil {
				_, _ = io.WriteString(theirs, "HTTP/1.1 200 OK\r\n\r\n")
				time.Sleep(2 * dialTime)
				_, _ = io.WriteString(theirs, "late")
			}
		}()
		reader, err := askProxy(ours, &url.URL{Scheme: "http", Host: "proxy.test"}, Target{Host: "a.test", Port: 443})
		require.NoError(t, err)
		late, err := io.ReadAll(reader)
		require.NoError(t, err)
		require.Equal(t, "late", string(late))
	})
}

// A proxy that does not answer is waited for no longer than that.
func TestAProxyThatDoesNotAnswerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		defer theirs.Close()
		_, err := askProxy(ours, &url.URL{Scheme: "http", Host: "proxy.test"}, Target{Host: "a.test", Port: 443})
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	})
}
