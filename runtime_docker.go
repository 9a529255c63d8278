package pygent

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/docker/docker/client"
)

// dockerWorkspace is where the container sees the workspace.
const dockerWorkspace = "/workspace"

// NewDockerRuntime makes a runtime whose commands run in a Docker container.
// It returns an error that matches [ErrDockerUnavailable] when no engine
// answers. The container itself is started in the background: what goes wrong
// there is returned by the first command, and the next one tries again.
//
// ctx bounds the search for an engine and the copying of the initial files.
// Call Cleanup at the end; when this process dies before, the container ends
// by itself.
func NewDockerRuntime(ctx context.Context, opts ...RuntimeOption) (Runtime, error) {
	o, err := newRuntimeOptions(opts)
	if err != nil {
		return nil, err
	}
	engine, err := connectEngine(ctx, o.dockerHost)
	if err != nil {
		return nil, err
	}
	return newDockerRuntime(ctx, o, engine)
}

// newDockerRuntime takes over the engine's client, in case of an error too.
func newDockerRuntime(ctx context.Context, o *runtimeOptions, engine *client.Client) (Runtime, error) {
	w, err := openWorkspace(ctx, o, true, dockerWorkspace)
	if err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	c := newDockerCommander(o, engine, w.tree.Dir())
	c.mu.Lock()
	c.begin()
	c.mu.Unlock()
	info := RuntimeInfo{Kind: kindDocker, Image: o.image, Workspace: dockerWorkspace, Network: o.network != "none"}
	return newWorkspaceRuntime(w, c, info, append(containerEnv(o), o.env...), "*").from(o), nil
}

// dockerCommander is a commander that keeps one container at a time, starting
// a new one when it has died. How commands get into the container is the
// business of the container's own commander.
type dockerCommander struct {
	engine *client.Client
	spec   containerSpec
	emit   func(RuntimeEvent)

	life context.Context // ends at close, and with it every start
	end  context.CancelFunc

	mu      sync.Mutex // guards what follows
	current *containerStart
	starts  int
	wg      sync.WaitGroup // of starts; added to under mu
}

// containerStart is an attempt at a container. It is made in a goroutine of
// its own, so that a caller may give up waiting. The fields may be read once
// the channel above them is closed.
type containerStart struct {
	known chan struct{} // the shell is known, or the start is over
	shell string

	done      chan struct{} // the start is over
	container *dockerContainer
	err       error
}

func newDockerCommander(o *runtimeOptions, engine *client.Client, dir string) *dockerCommander {
	c := &dockerCommander{engine: engine, spec: newContainerSpec(o, dir), emit: o.events}
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

func (c *dockerCommander) run(ctx context.Context, spec commandSpec) (BashResult, error) {
	for retried := false; ; retried = true {
		box, err := c.ready(ctx)
		if err != nil {
			return BashResult{ExitCode: -1}, err
		}
		res, err := box.commands.run(ctx, spec)
		if !errors.Is(err, errContainerGone) || retried {
			return res, err
		}
		// The container died before the command began: it is safe to repeat.
		c.drop(box)
	}
}

func (c *dockerCommander) shell(ctx context.Context) string {
	c.mu.Lock()
	s := c.current
	if s == nil {
		s = c.begin()
	}
	c.mu.Unlock()
	select {
	case <-s.known:
		return s.shell
	case <-ctx.Done():
		return ""
	}
}

// ready returns a container that runs, starting one when there is none.
func (c *dockerCommander) ready(ctx context.Context) (*dockerContainer, error) {
	c.mu.Lock()
	s := c.current
	if s == nil || s.over() && s.err == nil && s.container.isGone() {
		s = c.begin()
	}
	c.mu.Unlock()
	select {
	case <-s.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if s.err == nil {
		return s.container, nil
	}
	// Somebody has been told of the error: the next command tries again.
	c.mu.Lock()
	if c.current == s {
		c.current = nil
	}
	c.mu.Unlock()
	return nil, s.err
}

// drop gives up a container in which no command can be started.
func (c *dockerCommander) drop(box *dockerContainer) {
	box.lose()
	_ = box.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.current; s != nil && s.over() && s.container == box {
		c.current = nil
	}
}

// begin starts a container in the background. The caller holds mu.
func (c *dockerCommander) begin() *containerStart {
	c.starts++
	last := c.current
	s := &containerStart{known: make(chan struct{}), done: make(chan struct{})}
	c.current = s
	name := fmt.Sprintf("pygent-%s-%d", c.spec.id, c.starts)
	c.wg.Go(func() {
		if last != nil && last.container != nil {
			// One that has died may still be on its way out.
			_ = last.container.close()
		}
		var once sync.Once
		know := func(shell string) {
			once.Do(func() {
				s.shell = shell
				close(s.known)
			})
		}
		s.container, s.err = startContainer(c.life, c.engine, c.spec, name, know, c.emit)
		know("")
		close(s.done)
	})
	return s
}

func (c *dockerCommander) close() error {
	c.end()
	c.wg.Wait()
	var err error
	if s := c.current; s != nil && s.container != nil {
		err = s.container.close()
	}
	return errors.Join(err, c.engine.Close())
}

// over reports whether the start has succeeded or failed.
func (s *containerStart) over() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}
