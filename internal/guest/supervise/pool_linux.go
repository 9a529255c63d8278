package supervise

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/x/pygent/internal/guest/wire"
)

// workerSocket is the descriptor of a supervisor's socket.
const workerSocket = 3

// How many idle supervisors are kept, and for how long when they are more
// than one.
const (
	maxIdle  = 16
	idleTime = 10 * time.Second
	// unresponsive is how long a supervisor may take for what it does at once,
	// such as killing after the grace, before the pool does without it.
	unresponsive = 500 * time.Millisecond
)

// Pool is the supervisor of Linux. It must be the only user of children in
// its process, for it reaps them all.
type Pool struct {
	program string
	launch  Launcher // of supervisors
	init    bool     // this process is PID 1 of its namespace
	signals chan os.Signal
	done    chan struct{}  // closed when Close begins
	running sync.WaitGroup // the goroutines of the pool

	mu      sync.Mutex // guards what follows; held while a supervisor is started
	closed  bool
	workers map[int]*supervisor // by process, until it is reaped
	idle    []*supervisor       // the last one was used last
}

// supervisor is the pool's side of a worker.
type supervisor struct {
	pool *Pool
	pid  int
	link *link
	dead chan struct{} // closed when it was reaped
	idle time.Time     // since when it has nothing to do

	mu      sync.Mutex // guards what follows
	current *process
	closed  bool // the socket
}

// process is a command under a supervisor.
type process struct {
	sup     *supervisor
	started chan error // buffered; gets the event of the start, if one comes
	exited  chan struct{}
	gone    chan struct{}

	once sync.Once // closes exited
	exit Exit
}

// ErrNoSubreaper tells that the system does not make this process the owner of
// its descendants: user-mode emulators do not, nor do old kernels. [Groups] do
// without.
var ErrNoSubreaper = errors.New("the system refuses to leave descendants to this process")

// NewPool makes this process the owner of its descendants and starts a first
// supervisor. The program that calls it must call [Worker] when it is started
// as [WorkerName].
func NewPool() (*Pool, error) { return NewPoolVia(directly) }

// NewPoolVia is [NewPool] with supervisors that a launcher starts. Commands
// inherit from them.
func NewPoolVia(launch Launcher) (*Pool, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoSubreaper, os.NewSyscallError("prctl", err))
	}
	p := &Pool{
		program: "/proc/self/exe",
		launch:  launch,
		init:    unix.Getpid() == 1,
		signals: make(chan os.Signal, 1),
		done:    make(chan struct{}),
		workers: make(map[int]*supervisor),
	}
	p.watchSignals()
	p.running.Go(p.reap)
	p.running.Go(p.trim)
	s, err := p.take()
	if err != nil {
		_ = p.Close()
		return nil, fmt.Errorf("start a supervisor: %w", err)
	}
	p.release(s)
	return p, nil
}

// Sure implements [Supervisor].
func (p *Pool) Sure() bool { return true }

// Start implements [Supervisor].
func (p *Pool) Start(spec Spec) (Process, error) {
	s, err := p.take()
	if err != nil {
		return nil, fmt.Errorf("start a supervisor: %w", err)
	}
	proc := &process{
		sup:     s,
		started: make(chan error, 1),
		exited:  make(chan struct{}),
		gone:    make(chan struct{}),
	}
	s.mu.Lock()
	s.current = proc
	s.mu.Unlock()
	o := &order{path: spec.Path, args: spec.Args, env: spec.Env, dir: spec.Dir, confirm: spec.Confirm}
	fds := []int{int(spec.Output.Fd())}
	if spec.Script != nil {
		o.script = true
		fds = append(fds, int(spec.Script.Fd()))
	}
	if err := s.link.send(orderRun, o, fds...); err != nil {
		s.hangUp()
		return nil, err
	}
	if spec.Confirm {
		if err := proc.confirmed(); err != nil {
			return nil, err
		}
	}
	return proc, nil
}

// confirmed waits until the command runs, or returns why it does not. A command
// may stop its supervisor before that can tell: it runs, then.
func (p *process) confirmed() error {
	limit := time.NewTimer(unresponsive)
	defer limit.Stop()
	select {
	case err := <-p.started:
		return err
	case <-limit.C:
		return nil
	}
}

// Close implements [Supervisor]. As PID 1 it kills every process of the
// namespace.
func (p *Pool) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	workers := make([]*supervisor, 0, len(p.workers))
	for _, s := range p.workers {
		workers = append(workers, s)
	}
	p.mu.Unlock()
	if p.init {
		_ = unix.Kill(-1, unix.SIGKILL)
	}
	for _, s := range workers {
		s.hangUp()
	}
	// Each ends what is below it. What is left after a while, because a
	// supervisor was stopped, is killed from here.
	awaitDead(workers, 2*unresponsive)
	killTree(unix.Getpid(), nil, killPatience, nil)
	close(p.done)
	p.running.Wait()
	return nil
}

// awaitDead waits until all supervisors have ended, or patience runs out.
func awaitDead(workers []*supervisor, patience time.Duration) {
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for _, s := range workers {
		select {
		case <-s.dead:
		case <-limit.C:
			return
		}
	}
}

// take returns a supervisor that has nothing to do.
func (p *Pool) take() (*supervisor, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		s := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		if p.workers[s.pid] == s {
			return s, nil
		}
	}
	if p.closed {
		return nil, ErrClosed
	}
	return p.startWorker()
}

// startWorker starts a supervisor. The mutex is held, so that it cannot be reaped
// before it is known.
func (p *Pool) startWorker() (*supervisor, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	defer unix.Close(pair[1])
	socket, err := newLink(pair[0], false)
	if err != nil {
		return nil, err
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		_ = socket.Close()
		return nil, &os.PathError{Op: "open", Path: os.DevNull, Err: err}
	}
	defer unix.Close(null)
	var pid int
	p.launch(func() { pid, err = p.fork(null, pair[1]) })
	if err != nil {
		_ = socket.Close()
		return nil, os.NewSyscallError("fork", err)
	}
	s := &supervisor{pool: p, pid: pid, link: socket, dead: make(chan struct{})}
	p.workers[pid] = s
	p.running.Go(s.listen)
	return s, nil
}

// fork starts the program of a supervisor on its end of the socket.
func (p *Pool) fork(null, socket int) (pid int, err error) {
	return syscall.ForkExec(p.program, []string{WorkerName}, &syscall.ProcAttr{
		// A supervisor mostly waits, and its threads count against the limit
		// of processes.
		Env:   []string{"GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=12MiB"},
		Files: []uintptr{uintptr(null), uintptr(null), 2, uintptr(socket)},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
}

// release takes back a supervisor that has nothing to do.
func (p *Pool) release(s *supervisor) {
	p.mu.Lock()
	keep := !p.closed && len(p.idle) < maxIdle
	if keep {
		s.idle = time.Now()
		p.idle = append(p.idle, s)
	}
	p.mu.Unlock()
	if !keep {
		s.hangUp()
	}
}

// trim lets go of supervisors that have been idle for a while, but one.
func (p *Pool) trim() {
	tick := time.NewTicker(idleTime)
	defer tick.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-tick.C:
		}
		for _, s := range p.stale() {
			s.hangUp()
		}
	}
}

func (p *Pool) stale() []*supervisor {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for n < len(p.idle)-1 && time.Since(p.idle[n].idle) > idleTime {
		n++
	}
	old := append([]*supervisor(nil), p.idle[:n]...)
	p.idle = append(p.idle[:0], p.idle[n:]...)
	return old
}

// hangUp ends a supervisor: it kills what is below it and exits.
func (s *supervisor) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		_ = s.link.Close()
	}
}

// listen takes the events of a supervisor until it ends.
func (s *supervisor) listen() {
	defer s.lost()
	for {
		kind, payload, _, err := s.link.receive()
		if err != nil || !s.handle(kind, payload) {
			return
		}
	}
}

// handle takes one event and reports whether it made sense.
func (s *supervisor) handle(kind byte, payload []byte) bool {
	s.mu.Lock()
	proc := s.current
	s.mu.Unlock()
	if proc == nil {
		return false
	}
	switch kind {
	case eventStarted:
		proc.started <- nil
	case eventFailed:
		m := &number{}
		if wire.Decode(payload, m) != nil {
			return false
		}
		s.free()
		proc.fail(unix.Errno(m.n))
	case eventExited:
		m := &exited{}
		if wire.Decode(payload, m) != nil {
			return false
		}
		if m.gone {
			s.free()
		}
		proc.end(m.exit, m.gone)
	case eventGone:
		s.free()
		proc.end(Exit{Code: -1}, true)
	default:
		return false
	}
	return true
}

// free gives the supervisor back before its command's end is told, so that
// the next command finds it.
func (s *supervisor) free() {
	s.mu.Lock()
	s.current = nil
	s.mu.Unlock()
	s.pool.release(s)
}

// lost ends a supervisor's side of the pool. Where the supervisor was killed,
// what was below it has become a child of this process, and is killed by
// [Pool.strays].
func (s *supervisor) lost() {
	s.hangUp()
	<-s.dead
	s.pool.strays()
	s.mu.Lock()
	proc := s.current
	s.current = nil
	s.mu.Unlock()
	if proc == nil {
		return
	}
	select {
	case proc.started <- unix.ECHILD:
	default:
	}
	proc.end(Exit{Code: 128 + int(unix.SIGKILL), Signal: int(unix.SIGKILL)}, true)
}

// fail notes that the command could not be started.
func (p *process) fail(errno unix.Errno) {
	err := os.NewSyscallError("exec", errno)
	p.started <- err
	p.end(Exit{Code: -1, Err: err}, true)
}

// end notes what is known of a command's end.
func (p *process) end(exit Exit, gone bool) {
	p.once.Do(func() {
		p.exit = exit
		close(p.exited)
	})
	if gone {
		close(p.gone)
	}
}

// Exited implements [Process].
func (p *process) Exited() <-chan struct{} { return p.exited }

// Exit implements [Process].
func (p *process) Exit() Exit { return p.exit }

// Gone implements [Process].
func (p *process) Gone() <-chan struct{} { return p.gone }

// Stop implements [Process]. The supervisor does the work; where it does not
// come to it, because it was stopped itself, it is killed with all that is
// below it.
func (p *process) Stop(grace time.Duration) {
	s := p.sup
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != p || s.closed {
		return
	}
	_ = s.link.send(orderStop, &stop{grace: grace})
	s.pool.running.Go(func() { p.insist(grace + unresponsive) })
}

// insist kills what a supervisor did not.
func (p *process) insist(patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.gone:
		return
	case <-p.sup.dead:
		return
	case <-timer.C:
	}
	if countAlive(p.sup.pid, nil) == 0 {
		return
	}
	killTree(p.sup.pid, nil, killPatience, nil)
	select {
	case <-p.gone:
	case <-p.sup.dead:
	case <-time.After(unresponsive):
		_ = unix.Kill(p.sup.pid, unix.SIGKILL)
	}
}

// Procs implements [Process].
func (p *process) Procs(limit int) ([]Proc, int) {
	select {
	case <-p.gone:
		return nil, 0
	default:
	}
	var procs []Proc
	count := 0
	for _, pid := range descendants(p.sup.pid) {
		if !alive(pid) {
			continue
		}
		count++
		if len(procs) < limit {
			procs = append(procs, Proc{PID: pid, Name: name(pid)})
		}
	}
	return procs, count
}
