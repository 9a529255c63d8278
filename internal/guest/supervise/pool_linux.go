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

// How many idle supervisors are kept, and for how long if there is more than
// one.
const (
	maxIdle  = 16
	idleTime = 10 * time.Second
	// unresponsive is how long a supervisor may take for something that it does
	// at once, such as killing after the grace. After that the pool does it
	// without the supervisor.
	unresponsive = 500 * time.Millisecond
)

// Pool is the supervisor of Linux. It must be the only code in its process that
// has children, because it reaps all of them.
type Pool struct {
	program string
	launch  Launcher // starts the supervisors
	init    bool     // this process is PID 1 of its namespace
	signals chan os.Signal
	done    chan struct{}  // closed when Close begins
	running sync.WaitGroup // the goroutines of the pool

	// births is held while a supervisor is started, so that its process is neither
	// reaped nor killed as a stray before it is registered. It is locked before mu.
	births sync.Mutex

	mu       sync.Mutex // guards the fields below
	closed   bool
	workers  map[int]*supervisor // by process id, until the process is reaped
	idle     []*supervisor       // the most recently used one is the last
	waiting  []chan taken        // commands without a supervisor, in the order of their coming
	growing  bool                // a goroutine starts supervisors for them
	starting int                 // supervisors that are neither ready nor given up
}

// supervisor is the pool's side of a supervisor process; [worker] is the
// process's own side.
type supervisor struct {
	pool  *Pool
	pid   int
	link  *link
	ready chan struct{} // closed by listen when the process takes orders
	dead  chan struct{} // closed when the process was reaped
	fresh bool          // counted as starting; guarded by the pool's mu
	idle  time.Time     // the time since when it has nothing to do

	mu      sync.Mutex // guards the fields below
	current *process
	closed  bool // the socket is closed
}

// process is a command that runs under a supervisor.
type process struct {
	sup     *supervisor
	started chan error // buffered; receives the event of the start, if one comes
	exited  chan struct{}
	gone    chan struct{}

	once sync.Once // closes exited
	exit Exit
}

// ErrNoSubreaper means that this process cannot become the parent of its
// orphaned descendants. User-mode emulators and old kernels do not support
// that. [Groups] does not need it.
var ErrNoSubreaper = errors.New("the system refuses to leave descendants to this process")

// NewPool makes this process a subreaper, that is the new parent of its
// orphaned descendants, and starts a first supervisor. The calling program must
// call [Worker] when it is started as [WorkerName].
func NewPool() (*Pool, error) { return NewPoolVia(directly) }

// NewPoolVia is [NewPool] with a launcher that starts the supervisors. Commands
// inherit from the supervisors.
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
	p.starting = 1
	s, err := p.startWorker()
	if err != nil {
		_ = p.Close()
		return nil, fmt.Errorf("start a supervisor: %w", err)
	}
	p.running.Go(func() {
		if !s.awaitReady() {
			p.raise()
		}
	})
	return p, nil
}

// Sure implements [Supervisor].
func (p *Pool) Sure() bool { return true }

// Start implements [Supervisor].
func (p *Pool) Start(spec Spec) (Process, error) {
	proc, err := p.start(spec)
	switch {
	case err == nil:
		return proc, nil
	case p.isClosed():
		return nil, ErrClosed // which ends supervisors, whatever they do
	}
	return nil, err
}

func (p *Pool) start(spec Spec) (*process, error) {
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
	if spec.Stdin != nil {
		o.streams = true
		fds = append(fds, int(spec.Stdin.Fd()), int(spec.Stdout.Fd()))
	}
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

// confirmed waits until the command runs, or returns why it does not. If the
// supervisor was stopped before it could answer, the command itself did that,
// so the command runs.
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

// Close implements [Supervisor]. If this process is PID 1, Close kills every
// process of the namespace.
func (p *Pool) Close() error {
	workers, first := p.shut()
	if !first {
		return nil
	}
	if p.init {
		_ = unix.Kill(-1, unix.SIGKILL)
	}
	for _, s := range workers {
		s.hangUp()
	}
	// Each supervisor kills its own descendants. What is left after a while,
	// because a supervisor was stopped, is killed here.
	awaitDead(workers, 2*unresponsive)
	killTree(unix.Getpid(), nil, killPatience, nil)
	close(p.done)
	p.running.Wait()
	return nil
}

// shut makes the pool start nothing any more, and returns its supervisors. It
// reports false if that was done before.
func (p *Pool) shut() (workers []*supervisor, first bool) {
	p.births.Lock()
	defer p.births.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, false
	}
	p.closed = true
	p.refuseAll(ErrClosed)
	for _, s := range p.workers {
		workers = append(workers, s)
	}
	return workers, true
}

// awaitDead waits until all supervisors have ended, but no longer than
// patience.
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

// startWorker starts a supervisor. It joins the idle ones when it is ready.
func (p *Pool) startWorker() (*supervisor, error) {
	p.births.Lock()
	defer p.births.Unlock()
	if p.isClosed() {
		return nil, ErrClosed
	}
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
	s := &supervisor{pool: p, pid: pid, link: socket, fresh: true, ready: make(chan struct{}), dead: make(chan struct{})}
	p.mu.Lock()
	p.workers[pid] = s
	p.mu.Unlock()
	p.running.Go(s.listen)
	return s, nil
}

func (p *Pool) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// fork starts the program of a supervisor with its end of the socket.
func (p *Pool) fork(null, socket int) (pid int, err error) {
	return syscall.ForkExec(p.program, []string{WorkerName}, &syscall.ProcAttr{
		// A supervisor mostly waits, and its threads count against the limit on
		// processes.
		Env:   []string{"GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=12MiB"},
		Files: []uintptr{uintptr(null), uintptr(null), 2, uintptr(socket)},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
}

// trim ends all but one of the supervisors that have been idle for a while.
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

// hangUp closes the socket of a supervisor, which makes it kill its descendants
// and exit.
func (s *supervisor) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		_ = s.link.Close()
	}
}

// listen handles the events of a supervisor until the supervisor ends.
func (s *supervisor) listen() {
	defer s.lost()
	for {
		kind, payload, _, err := s.link.receive()
		if err != nil || !s.handle(kind, payload) {
			return
		}
	}
}

// handle handles one event. It reports false for an invalid event.
func (s *supervisor) handle(kind byte, payload []byte) bool {
	if kind == eventReady {
		return s.becomeReady()
	}
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

// free gives the supervisor back to the pool. This happens before the end of
// the command is reported, so that the next command can use the supervisor.
func (s *supervisor) free() {
	s.mu.Lock()
	s.current = nil
	s.mu.Unlock()
	s.pool.release(s)
}

// lost cleans up after a supervisor that has ended. If it was killed, its
// children are now children of this process, and [Pool.strays] kills them.
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

// fail records that the command could not be started.
func (p *process) fail(errno unix.Errno) {
	err := os.NewSyscallError("exec", errno)
	p.started <- err
	p.end(Exit{Code: -1, Err: err}, true)
}

// end records what is known about the end of a command.
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

// Stop implements [Process]. The supervisor does the killing. If it does not,
// because it was stopped itself, it is killed with all its descendants.
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

// insist kills the processes that the supervisor has not killed in time.
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
	if len(living(p.sup.pid)) == 0 {
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
	found := living(p.sup.pid)
	var procs []Proc
	for _, m := range found[:min(len(found), limit)] {
		procs = append(procs, Proc{PID: m.pid, Name: name(m.pid)})
	}
	return procs, len(found)
}
