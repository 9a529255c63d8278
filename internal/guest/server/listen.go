package server

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/yamux"

	"github.com/x/pygent/internal/guest/wire"
)

// listeners holds the ports on which the host wants to accept connections.
type listeners struct {
	mu     sync.Mutex // guards byPort
	byPort map[int]*listener
}

func (l *listeners) add(one *listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byPort == nil {
		l.byPort = map[int]*listener{}
	}
	l.byPort[one.port] = one
}

func (l *listeners) remove(one *listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byPort, one.port)
}

func (l *listeners) at(port int) *listener {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byPort[port]
}

// listenOn listens on a port of this machine until the host closes the stream.
func (s *Server) listenOn(stream *yamux.Stream, payload []byte) (err error) {
	m := &wire.Listen{}
	if err := wire.Decode(payload, m); err != nil {
		return err
	}
	if m.Port < 0 || m.Port > 65535 {
		return fmt.Errorf("%w: port %d", wire.ErrMalformed, m.Port)
	}
	l, err := listenLoopback(m.Port)
	if err != nil {
		return err
	}
	s.listeners.add(l)
	defer func() {
		s.listeners.remove(l)
		err = errors.Join(err, l.Close()) // this also ends every waiting accept
	}()
	if err := wire.WriteFrame(stream, wire.KindReply, &wire.Listen{Port: l.port}); err != nil {
		return nil
	}
	_, _, _ = wire.ReadFrame(stream, 0) // returns when the host closes the stream
	return nil
}

// accept waits until a process of this machine connects to a port on which the
// host listens. It then answers the host, and turns the stream into the
// connection.
func (s *Server) accept(ctx context.Context, stream *yamux.Stream, payload []byte) error {
	m := &wire.Listen{}
	if err := wire.Decode(payload, m); err != nil {
		return err
	}
	l := s.listeners.at(m.Port)
	if l == nil {
		return fmt.Errorf("%w: port %d", wire.ErrRefused, m.Port)
	}
	conn, err := l.accept()
	if err != nil {
		return err
	}
	return joined(ctx, stream, conn)
}

// joined tells the host that the connection exists, and copies between it and
// the stream.
func joined(ctx context.Context, stream *yamux.Stream, conn duplex) error {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if err := wire.WriteFrame(stream, wire.KindReply, nil); err != nil {
		return nil
	}
	pipe(stream, conn)
	return nil
}
