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

// errIntrusion means that the host ended the session because the guest sent
// something that it must not send.
var errIntrusion = errors.New("the guest broke the rules of the session")

// What the guest of a container writes to stdout first if the host has named a socket:
// how the session goes on.
const (
	ByStdio  = 'a' // by stdin and stdout
	BySocket = 's' // by the socket, to which it has connected; a password follows
)

// PasswordSize is the size in bytes of the password that the guest has already sent by
// the socket when it sends it by stdout. Others may be able to connect, but only the guest
// writes to both.
const PasswordSize = 16

// window is how many bytes of one stream may be on their way, or wait to be read. On
// its way through the engine's proxies an answer takes a millisecond or several, and
// the next part of a long body must not wait for it.
const window = 1 << 20

// config returns the yamux configuration of both sides. yamux's own keepalive
// is off, because it ends a session when an answer is late, even if other bytes
// still arrive. Both sides use [Pulse] for a keepalive of their own.
func config() *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false
	c.MaxStreamWindowSize = window
	c.ConnectionWriteTimeout = time.Minute
	c.StreamOpenTimeout = time.Minute
	c.StreamCloseTimeout = time.Minute
	c.LogOutput = io.Discard
	return c
}

// NewHost starts the host's side of a session over conn. The session takes
// ownership of conn and closes it.
func NewHost(conn io.ReadWriteCloser) (*yamux.Session, error) {
	return yamux.Client(&transport{
		joiner: joiner{w: conn},
		r:      &guard{r: conn},
		closer: conn,
	}, config())
}

// NewGuest starts the guest's side of a session over conn. Unlike the host, it
// never resets a stream that it has closed and the other side has not: the host
// may still be reading, and it closes all its streams.
func NewGuest(conn io.ReadWriteCloser) (*yamux.Session, error) {
	c := config()
	c.StreamCloseTimeout = 0
	return yamux.Server(&transport{joiner: joiner{w: conn}, r: conn, closer: conn}, c)
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

// Layout of the header of a yamux frame: version, type, flags (16 bits), stream
// (32 bits), length (32 bits).
const (
	yamuxHeader     = 12
	yamuxData       = 0
	yamuxPing       = 2
	yamuxSYN        = 1
	yamuxMaxPayload = window
)

// joiner sends the header of a frame together with its body. yamux writes the
// two separately, and each write costs a trip through the engine's proxies. A
// header that opens a stream is held back as well, because the host always
// writes its request next. yamux writes from a single goroutine; the mutex is
// only a precaution in case that changes.
type joiner struct {
	w    io.Writer
	mu   sync.Mutex
	held []byte
	body bool // the next write is the body of the header held last, however it looks
}

// Write implements io.Writer.
func (j *joiner) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	header := !j.body && len(p) == yamuxHeader
	j.body = header && announces(p)
	if header && len(j.held) < 2*yamuxHeader && (j.body || opens(p)) {
		j.held = append(j.held, p...)
		return len(p), nil
	}
	if len(j.held) == 0 {
		return j.w.Write(p)
	}
	err := j.send(p)
	j.held = j.held[:0]
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// shortBody is the size of the longest body that a session joins in a buffer of its own.
// An idle session should not keep a large one.
const shortBody = 4 << 10

// joined are buffers for longer bodies. They are shared, and freed when they are not
// used for a while.
var joined = sync.Pool{New: func() any { return new([]byte) }}

// send writes what is held with p behind it.
func (j *joiner) send(p []byte) error {
	if len(p) <= shortBody {
		j.held = append(j.held, p...)
		_, err := j.w.Write(j.held)
		return err
	}
	buf := joined.Get().(*[]byte)
	defer joined.Put(buf)
	*buf = append(append((*buf)[:0], j.held...), p...)
	_, err := j.w.Write(*buf)
	return err
}

// announces reports whether a body follows the header.
func announces(h []byte) bool {
	return h[1] == yamuxData && binary.BigEndian.Uint32(h[8:]) > 0
}

// opens reports whether a header opens a stream and has no other effect.
func opens(h []byte) bool {
	return h[1] != yamuxPing && binary.BigEndian.Uint16(h[2:]) == yamuxSYN
}

// guard reads the guest's side of a session and checks that the guest opens no
// stream and sends no ping, as an honest guest does neither. For a stream yamux
// would allocate memory, and for a ping it would start a goroutine.
type guard struct {
	r      io.Reader
	header [yamuxHeader]byte
	have   int    // bytes of the header that have been read
	body   uint32 // bytes of the current frame's body that are still to come
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

// check parses the frames in p.
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
