package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker/docker/client"

	"github.com/x/pygent/internal/guest"
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
	o.env = append(containerEnv(o), o.env...)
	c := newDockerCommander(o, engine, w)
	c.mu.Lock()
	c.begin()
	c.wg.Go(func() { sweepEngine(c.life, engine) })
	c.mu.Unlock()
	info := RuntimeInfo{Kind: kindDocker, Image: o.image, Workspace: dockerWorkspace, Network: o.network != "none"}
	return newWorkspaceRuntime(w, c.files, c, info, o, "*")
}

// dockerCommander is a commander that keeps one container at a time, starting
// a new one when it has died. How commands get into the container is the
// business of the container's own commander.
type dockerCommander struct {
	engine *client.Client
	spec   containerSpec
	emit   func(RuntimeEvent)
	files  *dockerFiles
	keep   bool // the workspace's directory outlives the runtime

	guestFor func(system, arch string) (*guestProgram, error)

	life context.Context // ends at close, and with it every start
	end  context.CancelFunc

	mu      sync.Mutex // guards what follows
	current *containerStart
	starts  int
	wg      sync.WaitGroup // of starts; added to under mu

	// Only one start goes on at a time, and what follows is its own.
	last   *dockerContainer // that was made; nil when it is known to have ended
	failed error            // of pulling the image: that is not tried again
	told   string           // the failure that an event has told of
	shared bool             // the engine may see our file system
	proved bool             // it is known whether it does
	volume string           // of the workspace, where it does not
	place  place            // of the last container that was made
}

// containerStart is an attempt at a container. It is made in a goroutine of
// its own, so that a caller may give up waiting. The fields may be read once
// the channel above them is closed.
type containerStart struct {
	known chan struct{} // the shell is known, or the start is over
	shell string

	cleared chan struct{}         // no container from before is left, or the start is over
	doubt   atomic.Pointer[error] // why it is not known whether one is left

	done      chan struct{} // the start is over
	container *dockerContainer
	err       error
}

func newDockerCommander(o *runtimeOptions, engine *client.Client, w workspaceDir) *dockerCommander {
	c := &dockerCommander{engine: engine, spec: newContainerSpec(o), emit: o.queue.send, keep: !w.temporary, guestFor: o.guestFor, shared: sharesFiles(engine)}
	if o.sharedFiles != nil {
		c.shared = *o.sharedFiles
	}
	c.files = &dockerFiles{tree: w.tree, commands: c}
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

func (c *dockerCommander) run(ctx context.Context, spec commandSpec) (BashResult, error) {
	for retried := false; ; retried = true {
		box, err := c.ready(ctx, spec.timeout)
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

func (c *dockerCommander) guest(ctx context.Context) (*guest.Client, error) {
	box, err := c.ready(ctx, -1)
	if err != nil {
		return nil, err
	}
	return box.commands.guest(ctx)
}

func (c *dockerCommander) shell(ctx context.Context) string {
	c.mu.Lock()
	s := c.current
	c.mu.Unlock()
	if s == nil { // the last start failed: it is for a command to try again
		return ""
	}
	select {
	case <-s.known:
		return s.shell
	case <-ctx.Done():
		return ""
	}
}

// ready returns a container that runs, starting one when there is none. It waits
// at most the given time, unless that is negative, for the certainty that no
// container from before runs any more.
func (c *dockerCommander) ready(ctx context.Context, wait time.Duration) (*dockerContainer, error) {
	c.mu.Lock()
	s := c.current
	if s == nil || s.over() && s.err == nil && s.container.isGone() {
		s = c.begin()
	}
	c.mu.Unlock()
	if err := s.awaitCleared(ctx, wait); err != nil {
		return nil, err
	}
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

// awaitCleared waits until no container from before is left.
func (s *containerStart) awaitCleared(ctx context.Context, wait time.Duration) error {
	if wait < 0 {
		wait = 2 * engineTimeout // the start gives up before
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case <-s.cleared:
		return nil
	case <-ctx.Done():
		if !errors.Is(context.Cause(ctx), errTimeLimit) {
			return ctx.Err()
		}
	case <-limit.C:
	}
	if doubt := s.doubt.Load(); doubt != nil {
		return *doubt
	}
	return fmt.Errorf("%w: %w", ErrRuntimeLost, errEngineSilent)
}

// drop gives up a container in which no command can be started. The next start
// sees to its end.
func (c *dockerCommander) drop(box *dockerContainer) {
	box.lose(false)
	_ = box.hangUp()
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.current; s != nil && s.over() && s.container == box {
		c.current = nil
	}
}

// park takes the container away until there is need of one. The function that
// it returns removes it; the next start waits for that.
func (c *dockerCommander) park() (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.current
	if s == nil || !s.over() || s.err != nil {
		return func() {}
	}
	c.current = nil
	return func() { _ = s.container.discard() } // what the engine keeps is found by its labels
}

// begin starts a container in the background. The caller holds mu.
func (c *dockerCommander) begin() *containerStart {
	c.starts++
	s := &containerStart{known: make(chan struct{}), cleared: make(chan struct{}), done: make(chan struct{})}
	c.current = s
	name := fmt.Sprintf("pygent-%s-%d", c.spec.id, c.starts)
	c.wg.Go(func() {
		defer close(s.done)
		var once sync.Once
		know := func(shell string) {
			once.Do(func() {
				s.shell = shell
				close(s.known)
			})
		}
		defer know("")
		s.err = c.clear(s)
		close(s.cleared)
		if s.err != nil {
			return
		}
		s.container, s.err = c.launchAgain(c.life, name, know)
		// Commands go through the guest: an idle connection to the engine would
		// cost memory and a descriptor for nothing. The client opens a new one
		// when it needs it.
		_ = c.engine.Close()
		c.tellFailure(s.err)
	})
	return s
}

// tellFailure tells, once, that no container can start.
func (c *dockerCommander) tellFailure(err error) {
	if errors.Is(err, ErrRuntimeStart) && err.Error() != c.told {
		c.told = err.Error()
		c.emit(RuntimeEvent{Kind: RuntimeFailed, Text: c.told})
	}
}

// clear sees to it that the container from before runs no longer, whatever
// became of the connection to it: two must not work in one workspace.
func (c *dockerCommander) clear(s *containerStart) error {
	if c.last == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.life, engineTimeout)
	defer cancel()
	for {
		_ = c.last.hangUp()
		_, err := c.last.confirmEnd(ctx, true)
		if err == nil {
			// What is left of it does no harm, and goes with it or is swept later.
			_ = c.last.remove(ctx)
			c.last = nil
			return nil
		}
		if c.life.Err() != nil {
			return c.life.Err()
		}
		err = fmt.Errorf("%w: container %s: %w", ErrRuntimeLost, c.last.name, engineWords(ctx, err))
		s.doubt.Store(&err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(askAgain):
		}
	}
}

// launchAgain starts a container, a second time where the first one ended at
// once: somebody may have killed it. After an error no container is left.
func (c *dockerCommander) launchAgain(ctx context.Context, name string, know func(string)) (*dockerContainer, error) {
	box, err := c.launch(ctx, name, know)
	if errors.Is(err, errDiedAtStart) && ctx.Err() == nil {
		box, err = c.launch(ctx, name, know)
		if errors.Is(err, errDiedAtStart) && ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", ErrRuntimeStart, err)
		}
	}
	if err != nil {
		return nil, startError(err)
	}
	c.last = box
	return box, nil
}

// launch starts a container, pulling its image when the engine does not have
// it. know is told the shell as soon as the image is looked at. After an error
// no container is left.
func (c *dockerCommander) launch(ctx context.Context, name string, know func(shell string)) (*dockerContainer, error) {
	info, err := c.findImage(ctx)
	if err != nil {
		return nil, err
	}
	p := place{dir: c.files.tree.Dir()}
	if p.program, err = c.guestFor(info.Os, info.Architecture); err != nil {
		return nil, err
	}
	if c.shared {
		box, err := c.launchShared(ctx, p, name, know)
		if !errors.Is(err, errNotShared) || c.proved {
			return box, err
		}
		c.shared = false
	}
	if p.program == nil {
		return nil, fmt.Errorf("image %q is for %s/%s, for which pygent has no guest: it needs an engine that shares this machine's file system",
			c.spec.config.Image, info.Os, info.Architecture)
	}
	return c.launchRemote(ctx, p, name, know)
}

// launchShared starts a container that mounts the workspace.
func (c *dockerCommander) launchShared(ctx context.Context, p place, name string, know func(string)) (*dockerContainer, error) {
	if !c.proved && p.program != nil {
		remove, err := p.leaveNonce()
		if err != nil {
			return nil, err
		}
		defer remove()
	}
	box, err := startContainer(ctx, c.engine, c.spec, p, name, know, c.emit)
	if err != nil {
		return nil, err
	}
	p.nonce = ""
	c.proved, c.place = true, p
	return c.mountFiles(ctx, box, false)
}

// launchRemote starts a container whose workspace is a volume.
func (c *dockerCommander) launchRemote(ctx context.Context, p place, name string, know func(string)) (*dockerContainer, error) {
	if c.volume == "" {
		if err := c.newVolume(ctx); err != nil {
			return nil, err
		}
	}
	p.volume = c.volume
	box, err := startContainer(ctx, c.engine, c.spec, p, name, know, c.emit)
	if err != nil {
		return nil, err
	}
	return c.mountFiles(ctx, box, true)
}

// mountFiles gives the guest of a container its files, and removes the container
// when that fails.
func (c *dockerCommander) mountFiles(ctx context.Context, box *dockerContainer, volume bool) (*dockerContainer, error) {
	client, err := box.commands.guest(ctx)
	if errors.Is(err, errNoGuest) {
		return box, nil // the files stay in the directory, which the container mounts
	}
	if err == nil {
		err = c.files.seat(ctx, client, volume)
	}
	if err != nil {
		return nil, errors.Join(err, box.discard())
	}
	return box, nil
}

// close returns an error that matches [ErrCleanupIncomplete] where nothing is
// lost but tidiness.
func (c *dockerCommander) close() error {
	err := c.save()
	saved := err == nil
	c.end()
	c.wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(c.spec.pace.cleanup, cleanupTime))
	defer cancel()
	c.giveUp(ctx)
	var left error
	if c.last != nil {
		left = c.last.close(ctx)
	}
	if saved {
		left = errors.Join(left, c.removeVolume(ctx))
	}
	if left != nil && saved {
		left = fmt.Errorf("%w: %w", ErrCleanupIncomplete, left)
	}
	return errors.Join(err, left, c.engine.Close())
}

// save brings a workspace that is to be kept back from its volume. When that
// fails the volume stays, and the error names it.
func (c *dockerCommander) save() error {
	c.files.mu.RLock()
	seated := c.files.seated
	c.files.mu.RUnlock()
	if !seated || !c.keep {
		return nil
	}
	c.mu.Lock()
	s := c.current
	c.mu.Unlock()
	if s != nil {
		<-s.done
	}
	if c.volume == "" {
		return nil
	}
	// The container may have died, and another one take its place.
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	client, err := c.guest(ctx)
	if err == nil {
		err = endJobs(ctx, client)
	}
	if err == nil {
		// It may take its time, for as long as the guest gets on with it.
		err = c.files.bringBack(context.Background(), client)
	}
	if err != nil {
		return fmt.Errorf("bring the workspace back (it is kept in the engine's volume %s): %w", c.volume, err)
	}
	return nil
}

// giveUp gives the files of a mounted workspace to its owner. The container may
// have died, or its user lack the right: then one that has it is started for
// this. An engine that maps users may refuse even that. The files then stay as
// they are: a temporary workspace that cannot be removed is an error of its own.
func (c *dockerCommander) giveUp(ctx context.Context) {
	if !c.proved || !c.spec.giveUp {
		return // nothing has run, or nothing is mounted, or the files are ours anyway
	}
	if c.last != nil && !c.last.isGone() && c.last.giveUpFiles(ctx) == nil || ctx.Err() != nil {
		return
	}
	if _, err := c.engine.Ping(ctx); err != nil {
		return
	}
	spec := c.spec
	spec.config.User = "0:0"
	spec.host.CapAdd = []string{"CHOWN", "DAC_OVERRIDE", "FOWNER"}
	box, err := startContainer(ctx, c.engine, spec, c.place, "pygent-"+spec.id+"-owner", func(string) {}, func(RuntimeEvent) {})
	if err != nil {
		return
	}
	_ = box.giveUpFiles(ctx)
	_ = box.close(ctx)
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
