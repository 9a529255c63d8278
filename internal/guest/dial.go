package guest

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/x/pygent/internal/guest/wire"
)

// Conn is a connection to a port inside. CloseWrite ends one direction.
type Conn struct {
	x    *exchange
	port int

	read sync.Mutex // guards body
	body *wire.BodyReader

	write sync.Mutex // guards out
	out   *wire.Packets
}

// Dial connects to a TCP port that a process inside listens on, also where
// the container has no network. The connection outlives ctx.
func (c *Client) Dial(ctx context.Context, port int) (*Conn, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	defer stop()
	x, err := c.open(life, wire.KindDial, &wire.Dial{Port: port})
	if err == nil {
		if err = x.check(wire.ReadReply(x.stream, nil)); err != nil {
			x.close()
		}
	}
	if err == nil && !stop() {
		x.close()
		err = context.Cause(ctx)
	}
	if err != nil {
		end()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("dial port %d: %w", port, err)
	}
	// From here on deadlines are the caller's: nothing ends life any more.
	x.watch.stop()
	x.stop()
	end()
	return &Conn{x: x, port: port, body: wire.NewBodyReader(x.stream), out: wire.NewPackets(x.stream)}, nil
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	c.read.Lock()
	defer c.read.Unlock()
	return c.body.Read(p)
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	c.write.Lock()
	defer c.write.Unlock()
	return c.out.Write(p)
}

// CloseWrite tells the other side that no more bytes come.
func (c *Conn) CloseWrite() error {
	c.write.Lock()
	defer c.write.Unlock()
	return c.out.CloseWrite()
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	_ = c.x.stream.SetDeadline(time.Unix(1, 0))
	return c.x.stream.Close()
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return address("host") }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return address("guest:" + strconv.Itoa(c.port)) }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error { return c.x.stream.SetDeadline(t) }

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.x.stream.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.x.stream.SetWriteDeadline(t) }

// address is an end of a connection.
type address string

// Network implements net.Addr.
func (address) Network() string { return "pygent" }

// String implements net.Addr.
func (a address) String() string { return string(a) }

var (
	_ net.Conn                        = (*Conn)(nil)
	_ interface{ CloseWrite() error } = (*Conn)(nil)
	_ io.Closer                       = (*Client)(nil)
)
