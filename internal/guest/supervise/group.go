package supervise

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Groups is the supervisor for processes that have other children: each
// command is a process group, and what leaves the group is not found again.
type Groups struct {
	mu      sync.Mutex // guards what follows
	closed  bool
	running map[*groupProcess]struct{}
}

// maxKills is how often a group is killed before nothing is left to wait for.
const maxKills = 10

// NewGroups returns a supervisor by process groups.
func NewGroups() *Groups { return &Groups{running: make(map[*groupProcess]struct{})} }

// groupProcess is a command in a process group.
type groupProcess struct {
	cmd    *exec.Cmd
	owner  *Groups
	exited chan struct{}
	gone   chan struct{}
	stop   chan time.Duration
	exit   Exit // written before exited is closed
}

// Sure implements [Supervisor].
func (g *Groups) Sure() bool { return false }

// Start implements [Supervisor].
func (g *Groups) Start(spec Spec) (Process, error) {
	cmd := &exec.Cmd{
		Path: spec.Path, Args: spec.Args, Env: spec.Env, Dir: spec.Dir,
		Stdout: spec.Output, Stderr: spec.Output,
		SysProcAttr: groupAttr(),
	}
	if spec.Script != nil {
		cmd.ExtraFiles = []*os.File{spec.Script}
	}
	p := &groupProcess{
		cmd: cmd, owner: g,
		exited: make(chan struct{}), gone: make(chan struct{}),
		stop: make(chan time.Duration, 1),
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, ErrClosed
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	g.running[p] = struct{}{}
	go p.wait()
	go p.watch()
	return p, nil
}

// Close implements [Supervisor].
func (g *Groups) Close() error {
	g.mu.Lock()
	g.closed = true
	var left []*groupProcess
	for p := range g.running {
		left = append(left, p)
	}
	g.mu.Unlock()
	for _, p := range left {
		p.Stop(0)
	}
	for _, p := range left {
		<-p.gone
	}
	return nil
}

// wait notes the end of the first process.
func (p *groupProcess) wait() {
	err := p.cmd.Wait()
	p.exit = groupExit(p.cmd.ProcessState)
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		p.exit = Exit{Code: -1}
	}
	close(p.exited)
}

// watch ends the group when it is told to, and notes its end.
func (p *groupProcess) watch() {
	defer func() {
		p.owner.mu.Lock()
		delete(p.owner.running, p)
		p.owner.mu.Unlock()
		close(p.gone)
	}()
	var kill <-chan time.Time
	kills := 0
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	exited := p.exited
	for {
		select {
		case grace := <-p.stop:
			if grace > 0 {
				signalGroup(p.cmd.Process, false)
			}
			kill = time.After(grace)
		case <-kill:
			signalGroup(p.cmd.Process, true)
			kill = time.After(10 * time.Millisecond)
			kills++
		case <-exited:
			exited = nil
		case <-tick.C:
		}
		// A killed orphan counts as alive until init reaps it, which may take
		// its time.
		if exited == nil && (kills > maxKills || !groupAlive(p.cmd.Process)) {
			return
		}
	}
}

// Exited implements [Process].
func (p *groupProcess) Exited() <-chan struct{} { return p.exited }

// Exit implements [Process].
func (p *groupProcess) Exit() Exit { return p.exit }

// Gone implements [Process].
func (p *groupProcess) Gone() <-chan struct{} { return p.gone }

// Stop implements [Process].
func (p *groupProcess) Stop(grace time.Duration) {
	select {
	case p.stop <- grace:
	case <-p.gone:
	}
}

// Procs implements [Process]. A group tells whether it is alive, but not of
// whom it consists.
func (p *groupProcess) Procs(int) ([]Proc, int) {
	select {
	case <-p.gone:
		return nil, 0
	default:
		return []Proc{{PID: p.cmd.Process.Pid}}, 1
	}
}
