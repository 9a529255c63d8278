// Package server is the guest's side of the protocol. It runs commands and
// handles files for the host, which is at the other end of one stream.
package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/x/pygent/internal/guest/shell"
	"github.com/x/pygent/internal/guest/supervise"
	"github.com/x/pygent/internal/guest/wire"
)

// maxFileRequests is how many requests may access the file system at the same
// time. Each may block a thread, and under a limit on processes a new thread
// may not be available. A request that waits for its stream is not counted.
const maxFileRequests = 4

// maxBodies is how many long bodies may be under way in one direction. Each
// needs memory for as long as the host likes to take.
const maxBodies = 32

// Server serves one session.
type Server struct {
	// Setid says what happens to setuid and setgid bits that commands set. If
	// it is empty, SetidNote says why the bits stay. Both are sent to the host.
	Setid, SetidNote string

	supervisor supervise.Supervisor
	environ    []string
	jobs       *jobs
	processes  processes
	listeners  listeners
	files      room    // requests that access files
	in         room    // long bodies from the host
	out        *bodies // long bodies to it

	mu    sync.Mutex // guards state
	state *state     // nil before the host's hello

	greeted chan time.Duration // buffered; receives how long the host may be silent
}

// state holds what the host's hello decides. It does not change afterwards.
type state struct {
	workspace string
	root      *os.Root
	owner     *owner // the owner of files that requests make; nil to leave it alone
	since     int64  // what has not changed since keeps its owner; see [wire.HostOwner]
	shell     string
	noShell   error // why there is no shell
	env       []string
	spills    *spills // nil if no directory has room
	trees     *trees
}

// New returns a server that runs commands under supervisor, with environ as
// their environment. Serve closes the supervisor.
func New(supervisor supervise.Supervisor, environ []string) *Server {
	return &Server{
		supervisor: supervisor,
		environ:    environ,
		jobs:       newJobs(),
		files:      make(room, maxFileRequests),
		in:         make(room, maxBodies),
		out:        newBodies(),
		greeted:    make(chan time.Duration, 1),
	}
}

// Serve answers the host's requests until the stream ends, and closes conn, which may be
// a [Widener].
// When it returns, nothing that it started is left: no process, file or
// goroutine. It returns nil if the stream ended in the normal way.
func (s *Server) Serve(conn io.ReadWriteCloser) error {
	if w, ok := conn.(Widener); ok {
		s.out.widen = w.Widen
	}
	pulse := &wire.Pulse{ReadWriteCloser: conn}
	session, err := wire.NewGuest(pulse)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var handlers sync.WaitGroup
	handlers.Go(func() { s.listen(session, pulse) })
	for {
		stream, err := session.AcceptStream()
		if err != nil {
			break
		}
		handlers.Go(func() {
			defer stream.Close()
			s.serve(ctx, stream)
		})
	}
	cancel()
	err = errors.Join(session.Close(), s.supervisor.Close())
	handlers.Wait()
	s.jobs.wait()
	return errors.Join(err, s.close())
}

// silentTicks is the number of parts into which the host's longest silence is
// divided. The parts are counted. So a guest that was stopped for a while finds
// only one part over when it continues, and not the whole time.
const silentTicks = 6

// listen ends the session when the host has been silent for too long. An engine
// may keep the stream open although the host is gone.
func (s *Server) listen(session *yamux.Session, pulse *wire.Pulse) {
	var silence time.Duration
	select {
	case silence = <-s.greeted:
	case <-session.CloseChan():
		return
	}
	tick := time.NewTicker(max(silence/silentTicks, time.Millisecond))
	defer tick.Stop()
	for missed := 0; missed < silentTicks; {
		select {
		case <-tick.C:
		case <-session.CloseChan():
			return
		}
		if missed++; pulse.Heard() {
			missed = 0
		}
	}
	_ = session.Close()
}

// close releases what the hello acquired.
func (s *Server) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == nil {
		return nil
	}
	err := s.state.root.Close()
	if s.state.spills != nil {
		err = errors.Join(err, s.state.spills.remove())
	}
	return err
}

// serve handles the request of one stream.
func (s *Server) serve(ctx context.Context, stream *yamux.Stream) {
	kind, payload, err := wire.ReadFrame(stream, wire.MaxFrame)
	if err != nil {
		return
	}
	if err := s.answer(ctx, stream, kind, payload); err != nil {
		_ = wire.WriteFrame(stream, wire.KindError, wire.AsFailure(err))
	}
}

// answer handles a request. If it returns an error, the error is sent as the
// answer.
func (s *Server) answer(ctx context.Context, stream *yamux.Stream, kind wire.Kind, payload []byte) error {
	if kind == wire.KindHello {
		return request(stream, payload, s.hello)
	}
	s.mu.Lock()
	st := s.state
	s.mu.Unlock()
	if st == nil {
		return fmt.Errorf("%w: a request before the hello", wire.ErrMalformed)
	}
	switch kind {
	case wire.KindRun:
		return s.run(ctx, st, stream, payload)
	case wire.KindJobs:
		return request(stream, payload, func(*wire.Empty) (*wire.Jobs, error) { return s.jobs.list(), nil })
	case wire.KindOutput:
		return request(stream, payload, func(m *wire.OutputRequest) (*wire.Output, error) { return s.jobs.output(ctx, m) })
	case wire.KindKill:
		return request(stream, payload, func(m *wire.Kill) (*wire.Job, error) { return s.jobs.kill(ctx, m) })
	case wire.KindProcess:
		return s.process(ctx, st, stream, payload)
	case wire.KindStreams:
		return s.streams(ctx, stream, payload)
	case wire.KindDial:
		return s.dial(ctx, stream, payload)
	case wire.KindListen:
		return s.listenOn(stream, payload)
	case wire.KindAccept:
		return s.accept(ctx, stream, payload)
	}
	s.files.enter()
	defer s.files.leave()
	return s.answerFile(ctx, st, &fileStream{stream, s.files}, kind, payload)
}

// request decodes a request, handles it and sends the answer.
func request[Q any, PQ interface {
	*Q
	wire.Message
}, R wire.Message](w io.Writer, payload []byte, handle func(PQ) (R, error)) error {
	q := PQ(new(Q))
	if err := wire.Decode(payload, q); err != nil {
		return err
	}
	r, err := handle(q)
	if err != nil {
		return err
	}
	return wire.WriteFrame(w, wire.KindReply, r)
}

// driftTime is how far the clocks of two kernels are taken to be apart.
const driftTime = time.Minute

// heldSince returns the moment since which containers have had the workspace, by the clock
// of this kernel.
func heldSince(h wire.HostOwner) int64 {
	if h.Boot != "" && h.Boot == bootID() {
		return h.Since
	}
	return h.Since - int64(driftTime)
}

// hello handles the first request of the session.
func (s *Server) hello(m *wire.Hello) (*wire.Welcome, error) {
	if m.Version != wire.Version {
		return nil, fmt.Errorf("%w: %d and %d", wire.ErrVersion, wire.Version, m.Version)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != nil {
		return nil, fmt.Errorf("%w: a second hello", wire.ErrMalformed)
	}
	workspace, err := filepath.Abs(m.Workspace)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return nil, fmt.Errorf("open the workspace: %w", err)
	}
	st := &state{workspace: workspace, root: root, env: mergeEnv(defaultEnv(), s.environ, m.Env)}
	hostOwner := false
	if m.Own {
		st.owner, hostOwner = workspaceOwner(root, m)
		st.since = heldSince(m.HostOwner)
	}
	st.trees = newTrees(root, st.owner)
	st.shell, st.noShell = shell.Find(st.env, "/usr/local/bin", "/usr/bin", "/bin")
	w := &wire.Welcome{
		Version: wire.Version, Shell: st.shell,
		OS: runtime.GOOS, Arch: runtime.GOARCH, Boot: bootID(),
		UID: os.Getuid(), GID: os.Getgid(), Init: os.Getpid() == 1,
		Supervised: s.supervisor.Sure(), Setid: s.Setid, SetidNote: s.SetidNote, HostOwner: hostOwner,
	}
	if st.owner != nil {
		w.Owner = wire.Owner{Known: true, UID: int64(st.owner.UID), GID: int64(st.owner.GID)}
	}
	if st.spills, err = newSpills(m.SpillDirs, workspace); err != nil {
		w.SpillNote = wire.AsFailure(err).Text
	} else {
		w.Spill = st.spills.dir
	}
	w.Nonce, w.NonceOK = readNonce(root, m.Nonce)
	s.state = st
	if m.Silence > 0 {
		s.greeted <- m.Silence // does not block: a second hello is refused
	}
	return w, nil
}

// readNonce reads the beginning of the file by which the host recognises its
// workspace.
func readNonce(root *os.Root, name string) (string, bool) {
	if name == "" {
		return "", false
	}
	file, err := openRegular(root, filepath.FromSlash(name))
	if err != nil {
		return "", false
	}
	defer file.Close()
	buf := make([]byte, 128)
	n, err := io.ReadFull(file, buf)
	return string(buf[:n]), err == nil || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}
