package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/docker/docker/client"

	"github.com/x/pygent/internal/egress"
	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/owner"
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
	if ctx == nil {
		return nil, errNilContext
	}
	o, err := newRuntimeOptions(opts)
	if err != nil {
		return nil, err
	}
	engine, err := connectEngine(ctx, o.dockerHost, o.writableDirs()...)
	if err != nil {
		return nil, err
	}
	return newDockerRuntime(ctx, o, engine)
}

// newDockerRuntime takes over the engine's client, in case of an error too.
func newDockerRuntime(ctx context.Context, o *runtimeOptions, engine *client.Client) (Runtime, error) {
	if err := o.openNetwork(); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	claim := claimWorkspace(ctx, engine, o)
	w, err := openWorkspace(ctx, o, true, dockerWorkspace)
	if err != nil {
		return nil, errors.Join(err, claim.Release(claim.Fresh()), engine.Close())
	}
	o.env = append(containerEnv(o), o.env...)
	c := newDockerCommander(o, engine, w)
	c.claim, c.spec.hostOwner = claim, hostOwner(claim)
	c.mu.Lock()
	c.begin()
	c.wg.Go(func() { sweepEngine(c.life, engine, o) })
	c.mu.Unlock()
	info := RuntimeInfo{Kind: kindDocker, Image: o.image, Workspace: dockerWorkspace, Network: o.network != "none", AllowedHosts: o.allowed(), Temporary: w.temporary}
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
	way    *egress.Proxy // to allowed hosts; nil for none
	host   string        // the engine's address, where the options name one
	keep   bool          // the workspace's directory outlives the runtime
	claim  *owner.Claim  // of that directory; nil where files have no owners

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
	again  bool             // a container has run before
	shared bool             // the engine may see our file system
	proved bool             // it is known whether it does
	volume string           // of the workspace, where it does not
	place  place            // of the last container that was made
}

func newDockerCommander(o *runtimeOptions, engine *client.Client, w workspaceDir) *dockerCommander {
	c := &dockerCommander{engine: engine, host: o.dockerHost, spec: newContainerSpec(o), emit: o.queue.send, keep: !w.temporary, guestFor: o.guestFor, shared: sharesFiles(engine), way: o.way}
	if o.sharedFiles != nil {
		c.shared = *o.sharedFiles
	}
	c.files = &dockerFiles{tree: w.tree, commands: c, copyLimit: o.copyLimit}
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
			box.tellNew(&res)
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

// drop gives up a container in which no command can be started. The next start
// sees to its end.
func (c *dockerCommander) drop(box *dockerContainer) {
	box.lose(nil)
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

// close returns an error that matches [ErrCleanupIncomplete] where nothing is
// lost but tidiness.
func (c *dockerCommander) close() error {
	err := c.save()
	saved := err == nil
	c.end()
	c.wg.Wait()
	patience := cmp.Or(c.spec.pace.cleanup, cleanupTime)
	alone := c.proved && c.keep && !c.claim.Fresh() && deadAreQuiet(context.Background(), c.engine, c.spec.self)
	given := c.giveUp(patience)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var left error
	if c.last != nil {
		left = c.last.close(ctx)
	}
	if saved {
		left = errors.Join(left, c.removeSaved(ctx))
	}
	left = errors.Join(left, c.endClaim(given, alone))
	if given != nil && c.keep {
		given = fmt.Errorf("files of the workspace may still be the container's: %w", given)
		if errors.Is(given, errEngineGone) {
			left = errors.Join(left, given)
		} else {
			err = errors.Join(err, given)
		}
	}
	if left != nil && saved {
		left = fmt.Errorf("%w: %w", ErrCleanupIncomplete, left)
	}
	if c.way != nil {
		c.way.Close()
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
		if s.mounts {
			return nil
		}
		c.awaitStart(s)
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
		err = c.bringBack(client)
	}
	if err != nil {
		return fmt.Errorf("bring the workspace back (it is kept in the engine's volume %s): %w; what copies it here is: %s",
			c.volume, err, owner.Rescue(c.host, c.spec.config.Image, c.volume))
	}
	return nil
}

// awaitStart waits for a start that goes on, and gives it up when it takes long,
// as one does that pulls an image.
func (c *dockerCommander) awaitStart(s *containerStart) {
	limit := time.NewTimer(engineTimeout)
	defer limit.Stop()
	select {
	case <-s.done:
	case <-limit.C:
		c.end()
		<-s.done
	}
}

// bringBackTime bounds the copying of a workspace out of a volume. It is long,
// because a guest that does not get on with it is given up much sooner, and is
// there for one that sends a byte now and then.
const bringBackTime = time.Hour

func (c *dockerCommander) bringBack(client *guest.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), bringBackTime)
	defer cancel()
	return c.files.bringBack(ctx, client)
}

// giveUp gives the files of a mounted workspace to its owner, and takes from
// them the bits by which they would run as somebody else. The container may
// have died, or its user lack the right: then one that has it is started for
// this. An engine that maps users may refuse even that. The files then stay as
// they are, which matters for a workspace that is kept: a temporary one that
// cannot be removed is an error of its own.
func (c *dockerCommander) giveUp(patience time.Duration) error {
	if !c.proved || !c.spec.giveUp {
		return nil // nothing has run, or nothing is mounted, or the files are ours anyway
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if c.last != nil && !c.last.isGone() {
		if c.place.program != nil && c.last.giveUpFiles(ctx, !c.keep) == nil {
			return nil
		}
		// Commands may have changed the programs of a container that has no guest.
		_ = c.last.close(ctx)
	}
	if _, err := c.engine.Ping(ctx); err != nil {
		return fmt.Errorf("%w: %w", errEngineGone, engineWords(ctx, err))
	}
	return c.giveUpAsRoot(ctx, !c.keep)
}

// errEngineGone tells that the files were not even looked at.
var errEngineGone = errors.New("the engine is gone")

// giveUpAsRoot does it from a new container that has all the rights it takes.
func (c *dockerCommander) giveUpAsRoot(ctx context.Context, temporary bool) error {
	spec := c.spec
	spec.config.User = "0:0"
	spec.host.CapAdd = rightsToGive
	box, err := startContainer(ctx, c.engine, spec, c.place, "pygent-"+spec.id+"-owner", func(string) {}, func(RuntimeEvent) {})
	if err != nil {
		return err
	}
	err = box.giveUpFiles(ctx, temporary)
	_ = box.close(ctx) // it ends with our connection, and is swept where it does not
	return err
}
