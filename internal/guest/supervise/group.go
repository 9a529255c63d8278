package supervise

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Groups is the supervisor for processes that have other children, and for
// systems that lack what a [Pool] needs. Each command is a process group, or on
// Windows a job object. A job object ends with all its processes when this
// process dies. A process can leave a group, but not a job object.
type Groups struct {
	launch Launcher // of commands

	mu      sync.Mutex // guards the fields below
	closed  bool
	running map[*groupProcess]struct{}
}

// maxKills is how often a group is killed before the supervisor gives up.
const maxKills = 10

// How long to wait between two looks at a group: after the first process has
// ended, and between two attempts to kill the rest.
const (
	groupTick = 20 * time.Millisecond
	killTick  = 10 * time.Millisecond
)

// NewGroups returns a supervisor that uses process groups or job objects.
func NewGroups() *Groups { return NewGroupsVia(directly) }

// NewGroupsVia is [NewGroups] with a launcher that starts the commands.
func NewGroupsVia(launch Launcher) *Groups {
	return &Groups{launch: launch, running: make(map[*groupProcess]struct{})}
}

// groupProcess is a command that runs in a group.
type groupProcess struct {
	cmd    *exec.Cmd
	group  *group
	owner  *Groups
	exited chan struct{}
	gone   chan struct{}
	stop   chan time.Duration
	exit   Exit // written before exited is closed

	mu     sync.Mutex // keeps the group open while it is inspected
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
	if spec.Stdin != nil {
		cmd.Stdin, cmd.Stdout = spec.Stdin, spec.Stdout
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

// wait waits for the end of the first process and records it.
func (p *groupProcess) wait() {
	err := p.cmd.Wait()
	p.exit = groupExit(p.cmd.ProcessState)
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		p.exit = Exit{Code: -1}
	}
	close(p.exited)
}

// watch stops the group when it is told to, and records when the group has
// ended.
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
		// A killed orphan counts as alive until init has reaped it, which may
		// take some time.
		if exited == nil && (kills > maxKills || !p.group.alive()) {
			return
		}
	}
}

// shut releases the resources of the group.
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
