package guest

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/x/pygent/internal/guest/wire"
)

const (
	// acceptTime is how long a connection may take of which the guest says that it is
	// there.
	acceptTime = 5 * time.Second
	// passwordTime is how long a connection may take to send a password, which the guest
	// has sent before.
	passwordTime = 100 * time.Millisecond
	// lastWordsTime is how long an engine may take to hand on what a guest that has ended
	// wrote to stderr.
	lastWordsTime = time.Second
)

// Direct is the stream of a container that may reach this process by a socket which it
// mounts. So nothing goes through the engine, which takes two more processes each way and
// several times as long. The guest chooses, because only a connection shows that there is
// this way: the container may have another kernel, and a security module may forbid it.
type Direct struct {
	attached *Attached
	conn     net.Conn // of attached

	once sync.Once
	way  io.ReadWriter // that the guest has chosen
	err  error         // why there is none

	mu       sync.Mutex   // guards the fields below
	listener net.Listener // nil once nobody else may connect
	direct   net.Conn     // nil unless the guest has chosen it
	closed   bool
}

// AttachDirect returns the stream of a container without a terminal, whose guest was
// started with the path by which it sees the socket of l. Whoever else connects is turned
// away. conn is the connection to the attached container, and r reads from it. Close
// closes all.
func AttachDirect(r io.Reader, conn net.Conn, l net.Listener) *Direct {
	return &Direct{attached: Attach(r, conn), conn: conn, listener: l}
}

// Read returns what the guest sent.
func (d *Direct) Read(p []byte) (int, error) {
	d.once.Do(d.choose)
	if d.err != nil {
		return 0, d.err
	}
	n, err := d.way.Read(p)
	if err != nil && d.way != io.ReadWriter(d.attached) {
		d.hearOut()
	}
	return n, err
}

// Write sends to the guest.
func (d *Direct) Write(p []byte) (int, error) {
	d.once.Do(d.choose)
	if d.err != nil {
		return 0, d.err
	}
	return d.way.Write(p)
}

// choose waits for the guest's choice.
func (d *Direct) choose() {
	defer d.stopListening()
	var said [1]byte
	if _, d.err = d.attached.Read(said[:]); d.err != nil {
		return
	}
	switch said[0] {
	case wire.ByStdio:
		d.way = d.attached
	case wire.BySocket:
		var password [wire.PasswordSize]byte
		if _, d.err = io.ReadFull(d.attached, password[:]); d.err == nil {
			d.way, d.err = d.accept(password[:])
		}
	default:
		d.err = fmt.Errorf("the guest begins with %q", said[:])
	}
}

// accept takes the guest's connection, which begins with the password.
func (d *Direct) accept(password []byte) (net.Conn, error) {
	d.mu.Lock()
	l := d.listener
	d.mu.Unlock()
	if l == nil {
		return nil, net.ErrClosed
	}
	late := time.AfterFunc(acceptTime, d.stopListening)
	defer late.Stop()
	for {
		conn, err := l.Accept()
		if err != nil {
			return nil, err
		}
		if !knows(conn, password) {
			_ = conn.Close()
			continue
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.closed {
			return nil, errors.Join(net.ErrClosed, conn.Close())
		}
		d.direct = conn
		return conn, nil
	}
}

// knows reports whether a connection begins with the password.
func knows(conn net.Conn, password []byte) bool {
	said := make([]byte, len(password))
	_ = conn.SetReadDeadline(time.Now().Add(passwordTime))
	_, err := io.ReadFull(conn, said)
	return err == nil && subtle.ConstantTimeCompare(said, password) == 1 && conn.SetReadDeadline(time.Time{}) == nil
}

func (d *Direct) stopListening() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.listener != nil {
		_ = d.listener.Close()
		d.listener = nil
	}
}

// hearOut reads what a guest has left on stderr that has ended.
func (d *Direct) hearOut() {
	_ = d.conn.SetReadDeadline(time.Now().Add(lastWordsTime))
	_, _ = io.Copy(io.Discard, d.attached)
}

// Stderr returns the last bytes that the container wrote to stderr. Where it uses the
// socket, they are there once that has ended.
func (d *Direct) Stderr() string { return d.attached.Stderr() }

// Close closes the connections to the container.
func (d *Direct) Close() error {
	d.stopListening()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	err := d.attached.Close()
	if d.direct != nil {
		err = errors.Join(err, d.direct.Close())
	}
	return err
}
