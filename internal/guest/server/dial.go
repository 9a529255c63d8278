package server

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/x/pygent/internal/guest/wire"
)

// dialPatience is how long the guest tries to connect.
const dialPatience = 10 * time.Second

// duplex is a connection whose two directions can be closed separately.
type duplex interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// dial connects the stream to a TCP port of this machine.
func (s *Server) dial(ctx context.Context, stream *yamux.Stream, payload []byte) error {
	m := &wire.Dial{}
	if err := wire.Decode(payload, m); err != nil {
		return err
	}
	if m.Port < 1 || m.Port > 65535 {
		return fmt.Errorf("%w: port %d", wire.ErrMalformed, m.Port)
	}
	conn, err := dialLoopback(ctx, m.Port)
	if err != nil {
		return err
	}
	return joined(ctx, stream, conn)
}

// pipe copies in both directions until both have ended, or one has failed. The
// end of one direction is passed on and does not end the other.
func pipe(stream *yamux.Stream, conn duplex) {
	var in sync.WaitGroup
	in.Go(func() {
		if _, err := io.Copy(conn, wire.NewBodyReader(stream)); err != nil {
			_ = conn.Close()
			return
		}
		_ = conn.CloseWrite()
	})
	out := wire.NewPackets(stream)
	_, err := io.Copy(out, conn)
	if err == nil {
		err = out.CloseWrite()
	}
	if err != nil {
		_ = stream.Close()
		_ = stream.SetReadDeadline(time.Unix(1, 0))
	}
	in.Wait()
}
