package egress

import (
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/docker/go-units"
)

// How long a connection to a host may last.
const (
	idleTime  = 5 * time.Minute // without any byte
	totalTime = 4 * time.Hour
)

// meter counts the bytes of all connections, and has a limit for them.
type meter struct {
	limit int64 // none when negative
	used  atomic.Int64
}

// take counts n bytes.
func (m *meter) take(n int) { m.used.Add(int64(n)) }

// spent returns an error if no more bytes may pass, or nil.
func (m *meter) spent() error {
	if m.limit < 0 || m.used.Load() < m.limit {
		return nil
	}
	return refusal{fmt.Sprintf("the limit of %s for this runtime is reached", units.BytesSize(float64(m.limit))), noRemedy}
}

// meteredConn is a connection to a host. It ends when the limit of bytes is
// reached, or when it has been idle for too long.
type meteredConn struct {
	net.Conn
	meter *meter
	idle  *time.Timer
	total *time.Timer
}

func newMeteredConn(conn net.Conn, m *meter) *meteredConn {
	end := func() { _ = conn.Close() }
	return &meteredConn{Conn: conn, meter: m, idle: time.AfterFunc(idleTime, end), total: time.AfterFunc(totalTime, end)}
}

// Read implements net.Conn.
func (c *meteredConn) Read(p []byte) (int, error) {
	if err := c.meter.spent(); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	c.took(n)
	return n, err
}

// Write implements net.Conn.
func (c *meteredConn) Write(p []byte) (int, error) {
	if err := c.meter.spent(); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	c.took(n)
	return n, err
}

func (c *meteredConn) took(n int) {
	if n > 0 {
		c.meter.take(n)
		c.idle.Reset(idleTime)
	}
}

// CloseWrite ends the sending direction, if the connection supports that.
func (c *meteredConn) CloseWrite() error {
	if half, ok := c.Conn.(closeWriter); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// Close implements net.Conn.
func (c *meteredConn) Close() error {
	c.idle.Stop()
	c.total.Stop()
	return c.Conn.Close()
}

// closeWriter is a connection whose two directions can be closed separately.
type closeWriter interface{ CloseWrite() error }
