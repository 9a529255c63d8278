package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/x/pygent/internal/guest"
)

// Process is a command whose stdin and stdout are streams. It lives until Close,
// or until the sandbox or the container ends.
type Process struct {
	box     *Sandbox
	streams *guest.Streams
}

// processes are those of a sandbox that are not closed yet.
type processes struct {
	mu  sync.Mutex // guards all
	all map[*Process]struct{}
}

// StartProcess starts a command whose stdin and stdout are streams. ctx bounds
// the start only.
func (r *Sandbox) StartProcess(ctx context.Context, cmd Command) (p *Process, err error) {
	err = r.withGuest(ctx, func(ctx context.Context, g *guest.Client) error {
		if cmd, err = r.complete(ctx, cmd); err != nil {
			return err
		}
		streams, err := g.StartStreams(ctx, cmd.guestCommand())
		if err != nil {
			return err
		}
		p = &Process{box: r, streams: streams}
		r.processes.mu.Lock()
		defer r.processes.mu.Unlock()
		if r.processes.all == nil {
			r.processes.all = map[*Process]struct{}{}
		}
		r.processes.all[p] = struct{}{}
		return nil
	})
	return p, err
}

// closeAll ends all processes.
func (ps *processes) closeAll() {
	ps.mu.Lock()
	all := ps.all
	ps.all = nil
	ps.mu.Unlock()
	var closing sync.WaitGroup
	for p := range all {
		closing.Go(func() { _ = p.streams.Close() }) // the end of the commander ends what is left
	}
	closing.Wait()
}

// Read reads from the process's stdout.
func (p *Process) Read(b []byte) (int, error) {
	n, err := p.streams.Read(b)
	return n, p.errorOf(err)
}

// Write writes to the process's stdin. Once the process has ended, the error is
// [os.ErrProcessDone].
func (p *Process) Write(b []byte) (int, error) {
	select {
	case <-p.streams.Exited():
		if _, err := p.streams.Exit(); err == nil {
			return 0, os.ErrProcessDone
		}
	default:
	}
	n, err := p.streams.Write(b)
	return n, p.errorOf(err)
}

// CloseWrite ends the process's stdin.
func (p *Process) CloseWrite() error { return p.errorOf(p.streams.CloseWrite()) }

// Wait waits until the command has ended, and returns its exit code.
func (p *Process) Wait() (exitCode int, err error) {
	<-p.streams.Exited()
	code, err := p.streams.Exit()
	if err != nil {
		err = fmt.Errorf("wait for the process: %w", p.errorOf(err))
	}
	return code, err
}

// Stderr returns the end of what the process has written to stderr so far.
func (p *Process) Stderr() string {
	return strings.ToValidUTF8(p.streams.Stderr(), string(utf8.RuneError))
}

// Close ends the process with everything that it started, and returns when that
// is gone.
func (p *Process) Close() error {
	p.box.processes.mu.Lock()
	delete(p.box.processes.all, p)
	p.box.processes.mu.Unlock()
	return p.streams.Close()
}

// errorOf says why a stream has ended that the process did not end.
func (p *Process) errorOf(err error) error {
	if errors.Is(err, guest.ErrClosed) && p.box.isClosed() {
		return ErrClosed
	}
	return err
}
