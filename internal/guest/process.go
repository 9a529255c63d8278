package guest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/x/pygent/internal/guest/wire"
)

// killTime is how long the guest may take to see that a killed process is gone.
const killTime = 2 * time.Second

// Streams is a process whose stdin and stdout are the Conn. It lives until Close,
// or until the guest ends.
type Streams struct {
	*Conn
	client  *Client
	control *exchange // its stream is the life of the process
	grace   time.Duration
	stderr  lastWords
	exited  chan struct{} // closed when code and err are set
	gone    chan struct{} // closed when nothing is left, or the guest is gone
	close   func() error  // runs once

	code      int
	err       error // why code is unknown
	survivors int   // set before gone is closed
}

// StartStreams starts a command whose stdin and stdout are streams. ctx bounds
// the start only. Head, Tail and OnOutput of cmd are not used.
func (c *Client) StartStreams(ctx context.Context, cmd Command) (*Streams, error) {
	p := &Streams{client: c, exited: make(chan struct{}), gone: make(chan struct{}), code: -1}
	p.stderr.most = wire.MaxStderr
	p.close = sync.OnceValue(p.end)
	request := cmd.request()
	request.Env, request.Background, request.Live = c.withEnv(request.Env), true, false
	p.grace = request.Grace
	id, err := p.start(ctx, request)
	if err == nil {
		err = p.connect(ctx, id)
	}
	if err != nil {
		return nil, fmt.Errorf("start a process: %w", err)
	}
	return p, nil
}

// start makes the request that begins the process. ctx ends the waiting for its
// answer, but not the exchange.
func (p *Streams) start(ctx context.Context, request *wire.Run) (id string, err error) {
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	m := &wire.Process{}
	if p.control, err = p.client.open(life, wire.KindProcess, request); err == nil {
		err = p.control.reply(nil, m)
		if err == nil && !stop() {
			err = context.Cause(ctx)
		}
		if err != nil {
			p.control.close() // which ends a process that was started
		}
	}
	stop()
	if err != nil {
		end(nil)
		return "", err
	}
	p.control.watch.stop()
	if !p.client.spawn(func() { defer end(nil); p.attend() }) {
		p.control.close()
		end(nil)
		return "", ErrClosed
	}
	return m.ID, nil
}

// connect gets the stream of the process.
func (p *Streams) connect(ctx context.Context, id string) error {
	x, err := p.client.open(ctx, wire.KindStreams, &wire.Process{ID: id})
	if err == nil {
		p.Conn, err = x.connection("host", "process")
	}
	if err != nil {
		_ = p.Close()
	}
	return err
}

// attend reads what the guest tells of the process until the process is gone.
func (p *Streams) attend() {
	defer close(p.gone)
	defer p.control.close()
	next := int64(0)
	for first := true; ; first = false {
		m := &wire.Exited{}
		err := p.control.reply(func(offset int64, data []byte) {
			if offset != next {
				p.stderr.replace(nil)
			}
			_, _ = p.stderr.Write(data)
			next = offset + int64(len(data))
		}, m)
		if err == nil {
			p.stderr.replace(m.Stderr)
		}
		if first {
			p.code, p.err = m.ExitCode, err
			if err != nil {
				p.code = -1
			}
			close(p.exited)
		}
		if err != nil || m.Gone || !first {
			p.survivors = m.Survivors
			return
		}
	}
}

// Exited is closed when the first process has ended, or when that can no longer
// be known.
func (p *Streams) Exited() <-chan struct{} { return p.exited }

// Exit returns the exit code of the first process, or -1 and why it is unknown.
// Call it once Exited is closed.
func (p *Streams) Exit() (code int, err error) { return p.code, p.err }

// Stderr returns the end of what the process wrote to stderr.
func (p *Streams) Stderr() string { return p.stderr.kept() }

// Close ends the process with everything that it started, and returns when all of
// it is gone.
func (p *Streams) Close() error { return p.close() }

func (p *Streams) end() error {
	if p.Conn != nil {
		_ = p.Conn.Close()
	}
	p.client.spawn(func() { _ = wire.WriteFrame(p.control.stream, wire.KindCancel, nil) })
	limit := time.NewTimer(p.grace + killTime + p.client.patience)
	defer limit.Stop()
	select {
	case <-p.gone:
	case <-limit.C:
		p.client.desert()
		<-p.gone
		return ErrUnresponsive
	}
	if p.survivors > 0 {
		return fmt.Errorf("end a process: %d of its processes could not be killed", p.survivors)
	}
	return nil
}
