package guest

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/x/pygent/internal/guest/wire"
)

// Conn is a connection with a process inside. It behaves as net.Conn demands: a
// deadline can be renewed after it has passed, and Close ends blocked calls.
// CloseWrite ends one direction only.
type Conn struct {
	client        *Client
	exchange      *exchange // that it was
	stream        *yamux.Stream
	local, remote address
	gone          func() // called once the guest has closed its end too; may be nil

	read sync.Mutex // guards body
	body *wire.BodyReader

	write sync.Mutex // guards out
	out   *wire.Packets

	mu      sync.Mutex // guards the fields below, and the stream's deadlines
	closed  bool
	readBy  time.Time
	writeBy time.Time
}

// newConn takes over the stream of an exchange that became a connection. It
// reports false if the exchange was cancelled before.
func newConn(x *exchange, local, remote address) (*Conn, bool) {
	x.watch.stop()
	if !x.stop() { // From here on deadlines are the caller's.
		x.close()
		return nil, false
	}
	x.cancel(nil)
	return &Conn{
		client: x.client, exchange: x, stream: x.stream, local: local, remote: remote,
		body: wire.NewBodyReader(x.stream), out: wire.NewPackets(x.stream),
	}, true
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	c.read.Lock()
	defer c.read.Unlock()
	if err := c.usable(&c.readBy); err != nil {
		return 0, err
	}
	n, err := c.body.Read(p)
	return n, c.errorOf(err)
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	c.write.Lock()
	defer c.write.Unlock()
	if err := c.usable(&c.writeBy); err != nil {
		return 0, err
	}
	n, err := c.out.Write(p)
	return n, c.errorOf(err)
}

// CloseWrite tells the other side that no more bytes come.
func (c *Conn) CloseWrite() error {
	c.write.Lock()
	defer c.write.Unlock()
	if err := c.usable(&c.writeBy); err != nil {
		return err
	}
	return c.errorOf(c.out.CloseWrite())
}

// usable returns why a call cannot even begin, or nil. It is needed because the
// stream itself checks its deadline only when it has to wait.
func (c *Conn) usable(by *time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return net.ErrClosed
	case !by.IsZero() && !time.Now().Before(*by):
		return os.ErrDeadlineExceeded
	}
	return nil
}

// errorOf translates an error of the stream to the errors of package net.
func (c *Conn) errorOf(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	var timeout interface{ Timeout() bool }
	switch {
	case closed:
		return net.ErrClosed
	case errors.As(err, &timeout) && timeout.Timeout():
		return os.ErrDeadlineExceeded
	}
	if gone := c.client.Err(); gone != nil {
		return gone
	}
	return err
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	_ = c.stream.SetDeadline(time.Unix(1, 0)) // ends blocked calls
	c.mu.Unlock()
	if closed {
		return net.ErrClosed
	}
	err := c.stream.Close()
	c.exchange.left()
	if c.gone != nil && !c.client.spawn(c.drain) {
		c.gone()
	}
	return err
}

// drain discards what the guest still sends until the guest has closed its end.
// If the guest does not, the session ends the stream after a while.
func (c *Conn) drain() {
	defer c.gone()
	c.read.Lock()
	defer c.read.Unlock()
	_ = c.stream.SetReadDeadline(time.Time{})
	_, _ = io.Copy(io.Discard, c.stream)
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.setDeadline(&c.readBy, t, c.stream.SetReadDeadline)
}

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadline(&c.writeBy, t, c.stream.SetWriteDeadline)
}

func (c *Conn) setDeadline(by *time.Time, t time.Time, set func(time.Time) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	*by = t
	return set(t)
}

// address is one end of a connection.
type address string

// Network implements net.Addr.
func (address) Network() string { return "pygent" }

// String implements net.Addr.
func (a address) String() string { return string(a) }

var (
	_ net.Conn                        = (*Conn)(nil)
	_ interface{ CloseWrite() error } = (*Conn)(nil)
)
