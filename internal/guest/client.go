// Package guest is the host's side of the guest: a small static program that
// is PID 1 of a container, or a child of this process, and that runs commands
// and handles files there at the speed of a local fork.
//
// A [Client] speaks to it over one byte stream: the attached stdin and stdout
// of a container ([Attach] undoes the engine's framing of the latter), or the
// socket of a child ([StartLocal]). The program itself is in package binary;
// started in a container without arguments, it waits for a client, and it
// ends, with all that it started, when the stream does.
//
// Everything that comes from the guest is bounded and taken for hostile: a
// command inside may have taken it over.
package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/x/pygent/internal/guest/wire"
)

// Errors that callers branch on, to be tested with errors.Is. Errors about
// files match those of package fs besides.
var (
	ErrClosed     = errors.New("the guest is gone")
	ErrEscapes    = wire.ErrEscapes    // a path leads out of the workspace
	ErrNotRegular = wire.ErrNotRegular // a directory or device where a file is wanted
	ErrNoJob      = wire.ErrNoJob      // no job has this id
	ErrProcesses  = wire.ErrProcesses  // the limit of processes is reached
	ErrRefused    = wire.ErrRefused    // nothing listens on the port
	ErrVersion    = wire.ErrVersion    // the guest is of another version
)

// Config is what a session begins with.
type Config struct {
	// Workspace is the directory, as the guest sees it, where commands start
	// and to which file operations are confined.
	Workspace string
	// Env is added to the guest's own environment for every command.
	Env []string
	// SpillDirs are the directories where the guest may keep long outputs, in
	// order of preference. Default: the temporary directory, /var/tmp,
	// /dev/shm.
	SpillDirs []string
	// Nonce is the path, in the workspace, of a file of which [Info] then
	// tells whether the guest sees it, and what it holds.
	Nonce string
	// Own gives what file operations make to the owner of the workspace.
	Own bool
}

// Info is what the guest says about itself.
type Info struct {
	Shell      string // path of the shell that runs commands; empty when there is none
	OS, Arch   string // as Go names them
	Kernel     string // release of its kernel
	UID, GID   int
	Init       bool   // it is PID 1
	Supervised bool   // no process of a command can get away from it
	Spill      string // directory of long outputs; empty when there is no room
	SpillNote  string // why there is none
	NonceSeen  bool   // the file of Config.Nonce is there
	Nonce      string // its first bytes
}

// Client is the host's side of a session. Its methods may be called from any
// goroutine, and any number at once.
type Client struct {
	session *yamux.Session
	info    Info
	pending sync.WaitGroup // goroutines that may outlive the call that started them

	mu     sync.Mutex // guards closed, and pending against growing after it
	closed bool
}

// Connect begins a session over conn, which the client then owns, also when
// Connect fails.
func Connect(ctx context.Context, conn io.ReadWriteCloser, config Config) (*Client, error) {
	session, err := wire.NewHost(conn)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	c := &Client{session: session}
	w := &wire.Welcome{}
	err = c.call(ctx, wire.KindHello, &wire.Hello{
		Version: wire.Version, Workspace: config.Workspace, Env: config.Env,
		SpillDirs: config.SpillDirs, Nonce: config.Nonce, Own: config.Own,
	}, w)
	if err == nil && w.Version != wire.Version {
		err = fmt.Errorf("%w: %d and %d", wire.ErrVersion, wire.Version, w.Version)
	}
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("greet the guest: %w", err)
	}
	c.info = Info{
		Shell: w.Shell, OS: w.OS, Arch: w.Arch, Kernel: w.Kernel, UID: w.UID, GID: w.GID,
		Init: w.Init, Supervised: w.Supervised, Spill: w.Spill, SpillNote: w.SpillNote,
		NonceSeen: w.NonceOK, Nonce: w.Nonce,
	}
	return c, nil
}

// Info returns what the guest said about itself.
func (c *Client) Info() Info { return c.info }

// Done returns a channel that is closed when the session has ended, for
// whatever reason.
func (c *Client) Done() <-chan struct{} { return c.session.CloseChan() }

// Close ends the session. The guest then kills everything it started, removes
// its long outputs and exits; closing the stream does not wait for that.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	err := c.session.Close()
	c.pending.Wait()
	return err
}

// spawn runs f in a goroutine that Close waits for, or reports false when
// that is too late.
func (c *Client) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.pending.Go(f)
	}
	return !c.closed
}

// call makes a request with one answer.
func (c *Client) call(ctx context.Context, kind wire.Kind, request, reply wire.Message) error {
	x, err := c.open(ctx, kind, request)
	if err != nil {
		return err
	}
	defer x.close()
	return x.check(wire.ReadReply(x.stream, reply))
}

// exchange is one request on its stream. When its context ends, what waits on
// the stream ends too.
type exchange struct {
	client *Client
	ctx    context.Context
	stream *yamux.Stream
	stop   func() bool
}

// open sends a request.
func (c *Client) open(ctx context.Context, kind wire.Kind, request wire.Message) (*exchange, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	stream, err := c.openStream(ctx, kind, request)
	x := &exchange{client: c, ctx: ctx, stream: stream}
	if err != nil {
		return nil, x.check(err)
	}
	x.stop = context.AfterFunc(ctx, func() { _ = stream.SetDeadline(time.Unix(1, 0)) })
	return x, nil
}

// openStream opens a stream and sends the request on it. Where the guest does
// not take what we send, both block for as long as the session waits; ctx
// does not.
func (c *Client) openStream(ctx context.Context, kind wire.Kind, request wire.Message) (*yamux.Stream, error) {
	type opened struct {
		stream *yamux.Stream
		err    error
	}
	result := make(chan opened, 1)
	if !c.spawn(func() {
		stream, err := c.session.OpenStream()
		if err == nil {
			if err = wire.WriteFrame(stream, kind, request); err != nil {
				_ = stream.Close()
			}
		}
		result <- opened{stream, err}
	}) {
		return nil, ErrClosed
	}
	select {
	case o := <-result:
		return o.stream, o.err
	case <-ctx.Done():
		c.spawn(func() {
			if o := <-result; o.err == nil {
				_ = o.stream.Close()
			}
		})
		return nil, context.Cause(ctx)
	}
}

// close gives the stream back.
func (x *exchange) close() {
	if x.stop != nil {
		x.stop()
	}
	_ = x.stream.Close()
}

// check puts an error of the stream in terms of its cause.
func (x *exchange) check(err error) error {
	var failure *wire.Failure
	switch {
	case err == nil, errors.As(err, &failure), errors.Is(err, wire.ErrMalformed):
		return err
	case x.ctx.Err() != nil:
		return context.Cause(x.ctx)
	case x.client.session.IsClosed():
		return ErrClosed
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, yamux.ErrConnectionReset):
		return fmt.Errorf("%w: %w", ErrClosed, err)
	default:
		return err
	}
}
