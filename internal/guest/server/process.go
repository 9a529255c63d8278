package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"

	"github.com/hashicorp/yamux"

	"github.com/x/pygent/internal/guest/wire"
)

// processes are the commands whose streams have not been asked for yet. The zero
// value is ready to use.
type processes struct {
	mu    sync.Mutex // guards the fields below
	count int
	all   map[string]*stdio
}

// stdio is this side of a command's stdin and stdout.
type stdio struct {
	in  *os.File // written here
	out *os.File // read here
}

// Read implements io.Reader.
func (d *stdio) Read(p []byte) (int, error) { return d.out.Read(p) }

// Write takes everything: what the command does not want is thrown away, or the
// stream could not go on to its end.
func (d *stdio) Write(p []byte) (int, error) {
	_, _ = d.in.Write(p)
	return len(p), nil
}

// CloseWrite implements [duplex].
func (d *stdio) CloseWrite() error { return d.in.Close() }

// Close implements [duplex].
func (d *stdio) Close() error { return errors.Join(d.in.Close(), d.out.Close()) }

// process starts a command with streams and attends to it until it is over.
func (s *Server) process(ctx context.Context, st *state, stream *yamux.Stream, payload []byte) error {
	m := &wire.Run{}
	if err := wire.Decode(payload, m); err != nil {
		return err
	}
	j, ends, err := s.startProcess(st, m)
	if err != nil {
		return err
	}
	defer ends.Close()
	id := s.processes.add(ends)
	defer s.processes.take(id)
	gaveUp := make(chan struct{})
	s.jobs.readers.Go(func() {
		defer close(gaveUp)
		_, _, _ = wire.ReadFrame(stream, 0)
	})
	told := wire.WriteFrame(stream, wire.KindReply, &wire.Process{ID: id})
	stopLive := live(stream, j.output)
	result := j.await(ctx, gaveUp)
	stopLive()
	if told == nil && !j.stopped() {
		_ = wire.WriteFrame(stream, wire.KindReply, exited(result, false))
		select {
		case <-gaveUp:
		case <-ctx.Done():
		}
		j.cancel()
		j.awaitGone()
		result = j.result()
	}
	return wire.WriteFrame(stream, wire.KindReply, exited(result, true))
}

func exited(r *wire.Result, gone bool) *wire.Exited {
	return &wire.Exited{ExitCode: r.ExitCode, Stderr: r.Tail, Gone: gone, Survivors: r.Survivors}
}

// startProcess starts a command. Its output, as a job, is its stderr.
func (s *Server) startProcess(st *state, m *wire.Run) (*job, *stdio, error) {
	m.Background = true // Start itself tells that the command cannot be started
	spec, err := st.spec(m)
	if err != nil {
		return nil, nil, err
	}
	if spec.Script != nil {
		defer spec.Script.Close()
	}
	ends := &stdio{}
	if spec.Stdin, ends.in, err = inputPipe(); err != nil {
		return nil, nil, err
	}
	defer spec.Stdin.Close()
	if ends.out, spec.Stdout, err = outputPipe(); err != nil {
		return nil, nil, errors.Join(err, ends.in.Close())
	}
	defer spec.Stdout.Close()
	stderr, write, err := outputPipe()
	if err != nil {
		return nil, nil, errors.Join(err, ends.Close())
	}
	defer write.Close()
	spec.Output = write
	proc, err := s.supervisor.Start(spec)
	if err != nil {
		return nil, nil, errors.Join(err, stderr.Close(), ends.Close())
	}
	j := newJob(proc, newCapture(0, wire.MaxStderr, nil), m)
	s.jobs.watch(j, stderr)
	return j, ends, nil
}

func (p *processes) add(ends *stdio) (id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = map[string]*stdio{}
	}
	p.count++
	id = strconv.Itoa(p.count)
	p.all[id] = ends
	return id
}

// take returns the streams of a process, once.
func (p *processes) take(id string) *stdio {
	p.mu.Lock()
	defer p.mu.Unlock()
	ends := p.all[id]
	delete(p.all, id)
	return ends
}

// streams connects the stream to a process.
func (s *Server) streams(ctx context.Context, stream *yamux.Stream, payload []byte) error {
	m := &wire.Process{}
	if err := wire.Decode(payload, m); err != nil {
		return err
	}
	ends := s.processes.take(m.ID)
	if ends == nil {
		return fmt.Errorf("process %q: %w", m.ID, wire.ErrNoJob)
	}
	return joined(ctx, stream, ends)
}

var _ interface {
	io.Reader
	duplex
} = (*stdio)(nil)
