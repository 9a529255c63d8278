package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/x/pygent/internal/guest/wire"
)

// call makes a request that has a single answer.
func (c *Client) call(ctx context.Context, kind wire.Kind, request, reply wire.Message) error {
	x, err := c.open(ctx, kind, request)
	if err != nil {
		return err
	}
	defer x.close()
	return x.check(wire.ReadReply(x.stream, reply))
}

// exchange is one request on its own stream. When its context ends, or its time
// limit passes, calls that wait on the stream return.
type exchange struct {
	client *Client
	ctx    context.Context
	cancel context.CancelCauseFunc
	watch  *watch
	stream *yamux.Stream
	stop   func() bool
	closed atomic.Bool
}

// open sends a request.
func (c *Client) open(ctx context.Context, kind wire.Kind, request wire.Message) (*exchange, error) {
	return c.openBefore(ctx, ctx, kind, request)
}

// openBefore sends a request, unless before ends first. The exchange goes on until
// ctx ends.
func (c *Client) openBefore(before, ctx context.Context, kind wire.Kind, request wire.Message) (*exchange, error) {
	if before.Err() != nil {
		return nil, context.Cause(before)
	}
	x := &exchange{client: c}
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	limit := c.timeFor(kind, request)
	x.watch = newWatch(limit.time, func() {
		if limit.fatal {
			c.desert()
		}
		x.cancel(ErrUnresponsive)
	})
	stream, err := c.openStream(before, x.ctx, kind, request)
	if err != nil {
		x.watch.stop()
		defer x.cancel(nil)
		return nil, x.check(err)
	}
	x.stream = stream
	c.exchanges.Add(1)
	x.stop = context.AfterFunc(x.ctx, func() { _ = stream.SetDeadline(time.Unix(1, 0)) })
	return x, nil
}

// sendingTime is how long a request that is being sent holds up the end of who asked:
// the guest may have begun with it already.
const sendingTime = 50 * time.Millisecond

// openStream opens a stream and sends the request on it. If the guest does not
// take the request, opening and sending both block as long as the session does;
// they run in a goroutine, so that the end of before or of ctx is noticed.
func (c *Client) openStream(before, ctx context.Context, kind wire.Kind, request wire.Message) (*yamux.Stream, error) {
	type opened struct {
		stream *yamux.Stream
		err    error
	}
	result := make(chan opened, 1)
	if !c.spawn(func() {
		if err := c.greetAgain(); err != nil {
			result <- opened{nil, err}
			return
		}
		stream, err := c.session.OpenStream()
		if err != nil {
			result <- opened{nil, fmt.Errorf("%w: %w", ErrUnsent, err)}
			return
		}
		if err = wire.WriteFrame(stream, kind, request); err != nil {
			_ = stream.Close()
		}
		result <- opened{stream, err}
	}) {
		return nil, ErrUnsent
	}
	select {
	case o := <-result:
		return o.stream, o.err
	case <-before.Done():
	case <-ctx.Done():
	}
	moment := time.NewTimer(sendingTime)
	defer moment.Stop()
	select {
	case o := <-result: // the guest has the request, and tells what came of it
		return o.stream, o.err
	case <-ctx.Done():
	case <-moment.C:
	}
	c.spawn(func() {
		if o := <-result; o.err == nil {
			_ = o.stream.Close()
		}
	})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, context.Cause(before)
}

// close closes the stream.
func (x *exchange) close() {
	x.watch.stop()
	x.stop()
	x.cancel(nil)
	_ = x.stream.Close()
	x.left()
}

// left notes, once, that the exchange is over, or the connection that it became.
func (x *exchange) left() {
	if !x.closed.Swap(true) {
		x.client.exchanges.Add(-1)
	}
}

// check replaces an error of the stream by its cause.
func (x *exchange) check(err error) error {
	var failure *wire.Failure
	switch {
	case err == nil, errors.As(err, &failure), errors.Is(err, wire.ErrMalformed):
		return err
	case x.ctx.Err() != nil:
		return context.Cause(x.ctx)
	case errors.Is(err, ErrUnsent) && errors.Is(err, ErrUnresponsive):
		return err
	case errors.Is(err, ErrUnsent):
		return ErrUnsent
	}
	if gone := x.client.Err(); gone != nil {
		return gone
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, yamux.ErrConnectionReset):
		return fmt.Errorf("%w: %w", ErrClosed, err)
	default:
		return err
	}
}

// body is the stream of an exchange while a body goes through it. The time limit
// starts again with every piece. Time that our side spends between two pieces
// does not count.
type body struct{ *exchange }

// Read implements io.Reader.
func (b body) Read(p []byte) (int, error) {
	b.watch.restart()
	defer b.watch.pause()
	return b.stream.Read(p)
}

// Write implements io.Writer.
func (b body) Write(p []byte) (int, error) {
	b.watch.restart()
	defer b.watch.pause()
	return b.stream.Write(p)
}
