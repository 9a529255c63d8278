package supervise

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Groups is the supervisor for processes that have other children, and for
// systems that refuse what a [Pool] needs. Each command is a process group, or
// on Windows a job, which ends with all its processes when this process dies.
// A process can leave a group, but no job.
type Groups struct {
	launch Launcher // of commands

	mu      sync.Mutex // guards what follows
	closed  bool
	running map[*groupProcess]struct{}
}

// maxKills is how often a group is killed before nothing is left to wait for.
const maxKills = 10

// How often a group is looked at: after the first process has ended, and
// between two attempts to kill what is left.
const (
	groupTick = 20 * time.Millisecond
	killTick  = 10 * time.Millisecond
)

// NewGroups returns a supervisor by process groups or jobs.
func NewGroups() *Groups { return NewGroupsVia(directly) }

// NewGroupsVia is [NewGroups] with commands that a launcher starts.
func NewGroupsVia(launch Launcher) *Groups {
	return &Groups{launch: launch, running: make(map[*groupProcess]struct{})}
}

// groupProcess is a command in a process group.
type groupProcess struct {
	cmd    *exec.Cmd
	group  *group
	owner  *Groups
	exited chan struct{}
	gone   chan struct{}
	stop   chan time.Duration
	exit   Exit // written before exited is closed

	mu     sync.Mutex // keeps the group open while it is looked at
	closed bool
}

// Sure implements [Supervisor].
func (g *Groups) Sure() bool { return groupsAreSure }

// Start implements [Supervisor].
func (g *Groups) Start(spec Spec) (Process, error) {
	cmd := &exec.Cmd{
		Path: spec.Path, Args: spec.Args, Env: spec.Env, Dir: spec.Dir,
		Stdout: spec.Output, Stderr: spec.Output,
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
	var err error
	g.launch(func() { p.group, err = startGroup(cmd) })
	if err != nil {
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
		p.shut()
		close(p.gone)
	}()
	var kill <-chan time.Time
	kills := 0
	tick := time.NewTicker(groupTick)
	defer tick.Stop()
	exited := p.exited
	for {
		select {
		case grace := <-p.stop:
			if grace > 0 {
				p.group.terminate()
			}
			kill = time.After(grace)
		case <-kill:
			p.group.kill()
			kill = time.After(killTick)
			kills++
		case <-exited:
			exited = nil
		case <-tick.C:
		}
		// A killed orphan counts as alive until init reaps it, which may take
		// its time.
		if exited == nil && (kills > maxKills || !p.group.alive()) {
			return
		}
	}
}

// shut gives back what the group holds.
func (p *groupProcess) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.group.close()
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

// Procs implements [Process].
func (p *groupProcess) Procs(limit int) ([]Proc, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, 0
	}
	return p.group.procs(limit)
}
