package egress

import (
	"net"
	"sync"
)

// boundedListener accepts no more than a number of connections at once. What
// comes beyond waits to be accepted.
type boundedListener struct {
	net.Listener
	free   chan struct{} // a token for each further connection
	closed chan struct{}
	once   sync.Once
}

func newBoundedListener(l net.Listener, limit int) *boundedListener {
	b := &boundedListener{Listener: l, free: make(chan struct{}, limit), closed: make(chan struct{})}
	for range limit {
		b.free <- struct{}{}
	}
	return b
}

// Accept implements net.Listener.
func (b *boundedListener) Accept() (net.Conn, error) {
	select {
	case <-b.free:
	case <-b.closed:
		return nil, net.ErrClosed
	}
	conn, err := b.Listener.Accept()
	if err != nil {
		b.free <- struct{}{}
		return nil, err
	}
	return &boundedConn{Conn: conn, release: sync.OnceFunc(func() { b.free <- struct{}{} })}, nil
}

// Close implements net.Listener.
func (b *boundedListener) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

// boundedConn is a connection of a boundedListener.
type boundedConn struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// CloseWrite ends one direction, where the connection can.
func (c *boundedConn) CloseWrite() error {
	if half, ok := c.Conn.(closeWriter); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
