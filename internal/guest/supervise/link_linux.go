package supervise

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/x/pygent/internal/guest/wire"
)

// Kinds of messages between the pool and a supervisor.
const (
	orderRun     = iota + 1 // an order, with descriptors
	orderStop               // a stop
	eventStarted            // empty: the command runs; sent only if it was asked for
	eventFailed             // a number: the errno
	eventExited             // an exited
	eventGone               // empty: no descendant is left
	eventReady              // empty: the supervisor takes orders; comes first, and once
)

// order is a command to run. The descriptor of its output is sent with it, then,
// if streams is set, those of its stdin and stdout, and, if script is set, that of
// its script.
type order struct {
	path string
	args []string
	env  []string
	dir  string

	streams, script bool
	// confirm asks for an event when the command has started. Without it only
	// failure and end are reported.
	confirm bool
}

// Fields implements wire.Message.
func (o *order) Fields(c *wire.Codec) {
	c.String(&o.path, wire.MaxPath)
	c.Strings(&o.args, 16, 1<<20)
	c.Strings(&o.env, 1<<14, wire.MaxEnv)
	c.String(&o.dir, wire.MaxPath)
	c.Bool(&o.streams)
	c.Bool(&o.script)
	c.Bool(&o.confirm)
}

// stop is the order to end the running command.
type stop struct{ grace time.Duration }

// Fields implements wire.Message.
func (s *stop) Fields(c *wire.Codec) { c.Duration(&s.grace) }

// number is an event with one number.
type number struct{ n int }

// Fields implements wire.Message.
func (m *number) Fields(c *wire.Codec) { c.Small(&m.n) }

// exited is the event that a command's first process has ended.
type exited struct {
	exit Exit
	gone bool // no other process of the command is left either
}

// Fields implements wire.Message.
func (e *exited) Fields(c *wire.Codec) {
	c.Small(&e.exit.Code)
	c.Small(&e.exit.Signal)
	c.Bool(&e.gone)
}

const (
	linkHeader  = 5
	maxOrder    = 32 << 20
	maxOrderFDs = 4
)

// link is one end of the socket between the pool and a supervisor. A message is
// a kind, a length and a payload; descriptors are sent with the first byte. The
// pool's ends use the runtime's poller, because a blocked thread for each would
// be too many. A supervisor's end blocks.
type link struct {
	file *os.File
	raw  syscall.RawConn // nil if calls block
}

// newLink returns the link on a socket, and takes ownership of the descriptor.
func newLink(fd int, blocking bool) (*link, error) {
	if err := unix.SetNonblock(fd, !blocking); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	l := &link{file: os.NewFile(uintptr(fd), "supervisor")}
	if !blocking {
		raw, err := l.file.SyscallConn()
		if err != nil {
			l.file.Close()
			return nil, err
		}
		l.raw = raw
	}
	return l, nil
}

// Close closes the socket. The other end then reads an end of file.
func (l *link) Close() error { return l.file.Close() }

func (l *link) send(kind byte, m wire.Message, fds ...int) error {
	buf := make([]byte, linkHeader, 512)
	if m != nil {
		var err error
		if buf, err = wire.Encode(buf, m); err != nil {
			return err
		}
	}
	buf[0] = kind
	binary.BigEndian.PutUint32(buf[1:], uint32(len(buf)-linkHeader))
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	for len(buf) > 0 {
		var n int
		err := l.call(true, func(fd int) (err error) {
			n, err = unix.SendmsgN(fd, buf, rights, nil, unix.MSG_NOSIGNAL)
			return err
		})
		if err != nil {
			return os.NewSyscallError("sendmsg", err)
		}
		buf, rights = buf[n:], nil
	}
	return nil
}

func (l *link) receive() (kind byte, payload []byte, fds []int, err error) {
	var header [linkHeader]byte
	if fds, err = l.readFull(header[:], nil); err != nil {
		return 0, nil, fds, err
	}
	n := binary.BigEndian.Uint32(header[1:])
	if n > maxOrder {
		return 0, nil, fds, fmt.Errorf("message of %d bytes", n)
	}
	payload = make([]byte, n)
	fds, err = l.readFull(payload, fds)
	return header[0], payload, fds, err
}

func (l *link) readFull(p []byte, fds []int) ([]int, error) {
	rights := make([]byte, unix.CmsgSpace(4*maxOrderFDs))
	for len(p) > 0 {
		var n, oob int
		err := l.call(false, func(fd int) (err error) {
			n, oob, _, _, err = unix.Recvmsg(fd, p, rights, unix.MSG_CMSG_CLOEXEC)
			return err
		})
		switch {
		case err != nil:
			return fds, os.NewSyscallError("recvmsg", err)
		case n == 0:
			return fds, io.EOF
		}
		if oob > 0 {
			fds = append(fds, parseRights(rights[:oob])...)
		}
		p = p[n:]
	}
	return fds, nil
}

// call makes a system call on the socket. It repeats the call after a signal,
// and waits until a non-blocking socket is ready.
func (l *link) call(write bool, f func(fd int) error) error {
	if l.raw == nil {
		for {
			if err := f(workerSocket); err != unix.EINTR {
				return err
			}
		}
	}
	var result error
	try := func(fd uintptr) bool {
		for {
			if result = f(int(fd)); result != unix.EINTR {
				return result != unix.EAGAIN
			}
		}
	}
	wait := l.raw.Read
	if write {
		wait = l.raw.Write
	}
	if err := wait(try); err != nil {
		return err
	}
	return result
}

func parseRights(b []byte) []int {
	messages, err := unix.ParseSocketControlMessage(b)
	if err != nil {
		return nil
	}
	var fds []int
	for i := range messages {
		if got, err := unix.ParseUnixRights(&messages[i]); err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}
