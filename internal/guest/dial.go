package guest

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/x/pygent/internal/guest/wire"
)

// Dial connects to a TCP port that a process inside listens on. It works even if
// the container has no network. The connection outlives ctx.
func (c *Client) Dial(ctx context.Context, port int) (*Conn, error) {
	x, err := c.open(ctx, wire.KindDial, &wire.Dial{Port: port})
	if err != nil {
		return nil, fmt.Errorf("dial port %d: %w", port, err)
	}
	conn, err := x.connection("host", portInside(port))
	if err != nil {
		return nil, fmt.Errorf("dial port %d: %w", port, err)
	}
	return conn, nil
}

// connection waits until the guest has turned the stream of an exchange into a
// connection.
func (x *exchange) connection(local, remote address) (*Conn, error) {
	if err := x.check(wire.ReadReply(x.stream, nil)); err != nil {
		x.close()
		return nil, err
	}
	conn, ok := newConn(x, local, remote)
	if !ok {
		return nil, context.Cause(x.ctx)
	}
	return conn, nil
}

func portInside(port int) address { return address("guest:" + strconv.Itoa(port)) }

var _ io.Closer = (*Client)(nil)
