package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
	"time"
)

// Limits for making a connection.
const (
	dialTime = 30 * time.Second
	// maxAnswer is the longest answer to CONNECT that is accepted from an
	// upstream proxy.
	maxAnswer = 64 << 10
)

// dial connects to a target. Each address is checked at the moment when it is
// dialled, so that a second DNS look-up cannot lead to an unchecked address.
func (p *Proxy) dial(ctx context.Context, t Target) (net.Conn, error) {
	exactly := p.rules.exactly(t)
	dialer := net.Dialer{
		Timeout: dialTime,
		Control: func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return refusal{"its address is not known", noRemedy}
			}
			return checkAddress(t, at.Addr(), exactly)
		},
	}
	conn, err := p.config.Connect(ctx, &dialer, t.String())
	if err != nil {
		return nil, err
	}
	return newMeteredConn(conn, &p.meter), nil
}

// dialName connects to an upstream proxy without any checks: its name comes
// from the environment of this process.
func (p *Proxy) dialName(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: dialTime}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return newMeteredConn(conn, &p.meter), nil
}

// upstream returns the proxy through which a target is reached, or nil for
// none.
func (p *Proxy) upstream(scheme string, t Target) (*url.URL, error) {
	return p.config.Upstream(&url.URL{Scheme: scheme, Host: t.String()})
}

// connect connects to a target for a tunnel, directly or through an upstream
// proxy.
func (p *Proxy) connect(ctx context.Context, t Target) (net.Conn, error) {
	via, err := p.upstream("https", t)
	if err != nil {
		return nil, fmt.Errorf("the proxy of this machine: %w", err)
	}
	if via == nil {
		return p.dial(ctx, t)
	}
	conn, err := p.tunnelThrough(ctx, via, t)
	if err != nil {
		return nil, fmt.Errorf("the proxy %s of this machine: %w", via.Host, err)
	}
	return conn, nil
}

// tunnelThrough connects to a target through an upstream proxy.
func (p *Proxy) tunnelThrough(ctx context.Context, via *url.URL, t Target) (net.Conn, error) {
	ports := map[string]string{"http": "80", "https": "443"}
	port, known := ports[via.Scheme]
	if !known {
		return nil, fmt.Errorf("a proxy of the kind %q is not supported", via.Scheme)
	}
	if via.Port() != "" {
		port = via.Port()
	}
	raw, err := p.dialName(ctx, "tcp", net.JoinHostPort(via.Hostname(), port))
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	conn := raw
	if via.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: via.Hostname()})
	}
	reader, err := askProxy(conn, via, t)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &bufferedConn{Conn: conn, reader: reader}, nil
}

// askProxy sends the CONNECT request of a tunnel, and returns a reader of what
// follows the answer. Only the answer has a time limit: a tunnel may last.
func askProxy(conn net.Conn, via *url.URL, t Target) (*bufio.Reader, error) {
	if err := conn.SetDeadline(time.Now().Add(dialTime)); err != nil {
		return nil, err
	}
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: t.String()}, Host: t.String(), Header: http.Header{}}
	if user := via.User; user != nil {
		password, _ := user.Password()
		credentials := base64.StdEncoding.EncodeToString([]byte(user.Username() + ":" + password))
		request.Header.Set("Proxy-Authorization", "Basic "+credentials)
	}
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	limited := &io.LimitedReader{R: conn, N: maxAnswer}
	reader := bufio.NewReader(limited)
	answer, err := http.ReadResponse(reader, request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answered %s", answer.Status)
	}
	limited.N = 1<<63 - 1
	return reader, conn.SetDeadline(time.Time{})
}

// bufferedConn is a connection whose beginning has already been read into a
// buffer.
type bufferedConn struct {
	net.Conn
	reader io.Reader
}

// Read implements net.Conn.
func (c *bufferedConn) Read(p []byte) (int, error) { return c.reader.Read(p) }

// CloseWrite ends the sending direction, if the connection supports that.
func (c *bufferedConn) CloseWrite() error {
	if half, ok := c.Conn.(closeWriter); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
