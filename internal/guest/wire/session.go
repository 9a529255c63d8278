package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

// errIntrusion is the reason why the host gave up a session.
var errIntrusion = errors.New("the guest broke the rules of the session")

// config is the setting of both sides. Both have a keepalive of their own, see
// [Pulse]: that of yamux ends a session whose answers are late, also when other
// bytes still come.
func config() *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false
	c.ConnectionWriteTimeout = time.Minute
	c.StreamOpenTimeout = time.Minute
	c.StreamCloseTimeout = time.Minute
	c.LogOutput = io.Discard
	return c
}

// NewHost starts the host's side of a session over conn. The session owns
// conn and closes it.
func NewHost(conn io.ReadWriteCloser) (*yamux.Session, error) {
	return yamux.Client(&transport{
		joiner: joiner{w: conn},
		r:      &guard{r: conn},
		closer: conn,
	}, config())
}

// NewGuest starts the guest's side of a session over conn.
func NewGuest(conn io.ReadWriteCloser) (*yamux.Session, error) {
	return yamux.Server(&transport{joiner: joiner{w: conn}, r: conn, closer: conn}, config())
}

// transport is the byte stream as yamux sees it.
type transport struct {
	joiner
	r      io.Reader
	closer io.Closer
}

// Read implements io.Reader.
func (t *transport) Read(p []byte) (int, error) { return t.r.Read(p) }

// Close closes the byte stream.
func (t *transport) Close() error { return t.closer.Close() }

// The header of a yamux frame: version, type, flags (16 bits), stream (32
// bits), length (32 bits).
const (
	yamuxHeader     = 12
	yamuxData       = 0
	yamuxPing       = 2
	yamuxSYN        = 1
	yamuxMaxPayload = 256 << 10 // yamux's initial and our only window
)

// joiner sends a frame's header together with what follows it. yamux writes
// them one by one, and each write costs a trip through the engine's proxies.
// A header that opens a stream is held back too: the host always writes its
// request next. yamux writes from one goroutine; the mutex only guards
// against a change of that.
type joiner struct {
	w    io.Writer
	mu   sync.Mutex
	held []byte
}

// Write implements io.Writer.
func (j *joiner) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.held) < 2*yamuxHeader && len(p) == yamuxHeader && (announces(p) || opens(p)) {
		j.held = append(j.held, p...)
		return len(p), nil
	}
	if len(j.held) == 0 {
		return j.w.Write(p)
	}
	j.held = append(j.held, p...)
	_, err := j.w.Write(j.held)
	if cap(j.held) > 4<<10 {
		j.held = nil // An idle session keeps no large buffer.
	}
	j.held = j.held[:0]
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// announces reports whether a header has a body.
func announces(h []byte) bool {
	return h[1] == yamuxData && binary.BigEndian.Uint32(h[8:]) > 0
}

// opens reports whether a header opens a stream and does nothing else.
func opens(h []byte) bool {
	return h[1] != yamuxPing && binary.BigEndian.Uint16(h[2:]) == yamuxSYN
}

// guard reads the guest's side of a session and lets through only what our
// guest sends: it opens no stream and pings nobody. yamux would keep memory
// for the one and start a goroutine for the other.
type guard struct {
	r      io.Reader
	header [yamuxHeader]byte
	have   int    // bytes of header read
	body   uint32 // bytes of the current frame's body still to come
	err    error
}

// Read implements io.Reader.
func (g *guard) Read(p []byte) (int, error) {
	if g.err != nil {
		return 0, g.err
	}
	n, err := g.r.Read(p)
	if g.err = g.check(p[:n]); g.err != nil {
		return 0, g.err
	}
	return n, err
}

// check follows the frames in p.
func (g *guard) check(p []byte) error {
	for len(p) > 0 {
		if g.body > 0 {
			n := min(g.body, uint32(min(len(p), yamuxMaxPayload)))
			g.body -= n
			p = p[n:]
			continue
		}
		n := copy(g.header[g.have:], p)
		g.have += n
		p = p[n:]
		if g.have < yamuxHeader {
			return nil
		}
		g.have = 0
		if err := g.allow(g.header[:]); err != nil {
			return err
		}
	}
	return nil
}

func (g *guard) allow(h []byte) error {
	length := binary.BigEndian.Uint32(h[8:])
	switch {
	case h[0] != 0:
		return fmt.Errorf("%w: version %d of the session", errIntrusion, h[0])
	case binary.BigEndian.Uint16(h[2:])&yamuxSYN != 0:
		return fmt.Errorf("%w: it opened a stream", errIntrusion)
	case h[1] == yamuxData && length > yamuxMaxPayload:
		return fmt.Errorf("%w: a frame of %d bytes", errIntrusion, length)
	}
	if h[1] == yamuxData {
		g.body = length
	}
	return nil
}
