package egress

import (
	"net"
	"sync"
	"time"
)

// minIdle is how long a connection must have been idle before it may be closed
// to make room for another one.
const minIdle = time.Second

// boundedListener accepts a limited number of connections at once. Further
// connections wait until one ends, or has been idle for a while and is closed.
// Without that, commands could block the proxy with connections that they do
// not use.
type boundedListener struct {
	net.Listener
	free   chan struct{} // holds one token for each connection that may still be accepted
	closed chan struct{}
	once   sync.Once

	mu    sync.Mutex // guards the fields below, and the fields used and busy of its connections
	conns map[*boundedConn]bool
}

func newBoundedListener(l net.Listener, limit int) *boundedListener {
	b := &boundedListener{
		Listener: l, free: make(chan struct{}, limit), closed: make(chan struct{}), conns: map[*boundedConn]bool{},
	}
	for range limit {
		b.free <- struct{}{}
	}
	return b
}

// Accept implements net.Listener.
func (b *boundedListener) Accept() (net.Conn, error) {
	if err := b.room(); err != nil {
		return nil, err
	}
	conn, err := b.Listener.Accept()
	if err != nil {
		b.free <- struct{}{}
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := &boundedConn{Conn: conn, listener: b, used: time.Now()}
	b.conns[c] = true
	return c, nil
}

// room waits for a token.
func (b *boundedListener) room() error {
	for {
		select {
		case <-b.free:
			return nil
		default:
		}
		timer := time.NewTimer(b.closeIdle())
		select {
		case <-b.free:
			timer.Stop()
			return nil
		case <-b.closed:
			timer.Stop()
			return net.ErrClosed
		case <-timer.C:
		}
	}
}

// closeIdle closes the connection that has been idle for the longest time, if
// that time is long enough. It returns how long to wait before the next look.
func (b *boundedListener) closeIdle() (again time.Duration) {
	idlest, since := b.idlest()
	if idlest == nil {
		return minIdle
	}
	if idle := time.Since(since); idle < minIdle {
		return minIdle - idle
	}
	_ = idlest.Close()
	return minIdle
}

// idlest returns the connection that has been idle for the longest time, and
// since when.
func (b *boundedListener) idlest() (idlest *boundedConn, since time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		if !c.busy && (idlest == nil || c.used.Before(since)) {
			idlest, since = c, c.used
		}
	}
	return idlest, since
}

// Close implements net.Listener.
func (b *boundedListener) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

// boundedConn is a connection of a boundedListener.
type boundedConn struct {
	net.Conn
	listener *boundedListener
	used     time.Time // the last time when bytes went through
	busy     bool      // a request of this connection is being handled
}

// Read implements net.Conn.
func (c *boundedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.use(n)
	return n, err
}

// Write implements net.Conn.
func (c *boundedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.use(n)
	return n, err
}

func (c *boundedConn) use(n int) {
	if n > 0 {
		c.listener.mu.Lock()
		defer c.listener.mu.Unlock()
		c.used = time.Now()
	}
}

// work marks the connection as busy, so that it is not closed as idle, or ends
// that.
func (c *boundedConn) work(busy bool) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.busy, c.used = busy, time.Now()
}

// Close implements net.Conn.
func (c *boundedConn) Close() error {
	if c.forget() {
		defer func() { c.listener.free <- struct{}{} }()
	}
	return c.Conn.Close()
}

// forget removes the connection from its listener. It reports whether it was
// still there.
func (c *boundedConn) forget() bool {
	b := c.listener
	b.mu.Lock()
	defer b.mu.Unlock()
	open := b.conns[c]
	delete(b.conns, c)
	return open
}

// CloseWrite ends the sending direction, if the connection supports that.
func (c *boundedConn) CloseWrite() error {
	if half, ok := c.Conn.(closeWriter); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
