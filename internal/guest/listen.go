package guest

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/x/pygent/internal/guest/wire"
)

// maxAccepted is how many connections of a listener may exist at once. A
// connection counts until both sides have closed it. Otherwise a hostile guest
// could make the host keep a full buffer for each of a million connections.
const maxAccepted = 256

// Listener accepts the connections that processes inside make to a port of
// 127.0.0.1. It works even if the container has no network. The guest opens no
// stream for a connection; it answers on the stream on which Accept waits.
type Listener struct {
	x    *exchange // its stream keeps the port open
	life context.Context
	end  context.CancelCauseFunc
	port int
	open chan struct{} // holds one token for each open connection
}

// Listen listens on a port inside, or on any free one if port is 0. The listener
// outlives ctx.
func (c *Client) Listen(ctx context.Context, port int) (*Listener, error) {
	l := &Listener{open: make(chan struct{}, maxAccepted)}
	l.life, l.end = context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { l.end(context.Cause(ctx)) })
	defer stop()
	reply := &wire.Listen{}
	x, err := c.open(l.life, wire.KindListen, &wire.Listen{Port: port})
	if err == nil {
		err = x.check(wire.ReadReply(x.stream, reply))
		if err == nil && (reply.Port < 1 || reply.Port > 65535) {
			err = fmt.Errorf("%w: port %d", wire.ErrMalformed, reply.Port)
		}
		if err != nil {
			x.close()
		}
	}
	if err == nil && !stop() {
		x.close()
		err = context.Cause(ctx)
	}
	if err != nil {
		l.end(nil)
		return nil, fmt.Errorf("listen inside: %w", err)
	}
	x.watch.stop()
	l.x, l.port = x, reply.Port
	return l, nil
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case l.open <- struct{}{}:
	case <-l.life.Done():
		return nil, net.ErrClosed
	case <-l.x.client.Done():
		return nil, ErrClosed
	}
	conn, err := l.accept()
	if err != nil {
		<-l.open
		return nil, err
	}
	return conn, nil
}

func (l *Listener) accept() (*Conn, error) {
	x, err := l.x.client.open(l.life, wire.KindAccept, &wire.Listen{Port: l.port})
	var conn *Conn
	if err == nil {
		conn, err = x.connection(portInside(l.port), "guest")
	}
	var failure *wire.Failure
	switch {
	case err == nil:
		conn.gone = func() { <-l.open }
		return conn, nil
	case l.life.Err() != nil:
		return nil, net.ErrClosed
	case errors.As(err, &failure):
		return nil, acceptError{failure}
	default:
		return nil, fmt.Errorf("accept inside: %w", err)
	}
}

// Close implements net.Listener. Connections that were already accepted stay
// open.
func (l *Listener) Close() error {
	l.end(net.ErrClosed)
	l.x.close()
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return portInside(l.port) }

// Port returns the port inside.
func (l *Listener) Port() int { return l.port }

// acceptError is an error of the guest that does not end the listener, such as
// running out of descriptors. A server of package net/http waits for a moment
// after it and accepts again.
type acceptError struct{ *wire.Failure }

// Timeout implements net.Error.
func (acceptError) Timeout() bool { return false }

// Temporary implements net.Error.
func (acceptError) Temporary() bool { return true }

var (
	_ net.Listener = (*Listener)(nil)
	_ net.Error    = acceptError{}
)
