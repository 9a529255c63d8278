package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker/docker/client"

	"github.com/x/pygent/internal/egress"
	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/survey"
)

// commander is a [sandbox.Commander] that keeps one container at a time, starting
// a new one when it has died. How commands get into the container is the
// business of the container's own commander.
type commander struct {
	config Config
	engine *client.Client
	spec   containerSpec
	emit   func(sandbox.Event)
	files  *files
	way    *egress.Proxy // to allowed hosts; nil for none
	keep   bool          // the workspace's directory outlives the sandbox
	claim  *owner.Claim  // of that directory; nil where files have no owners
	notes  *sandbox.Notes
	user   atomic.Pointer[string] // the workspace's owner, if commands run as that instead of the image's user
	beside []*owner.Claim         // of git's directories outside of the workspace that containers write

	repository sandbox.Repository // of the workspace

	life context.Context // ends at close, and with it every start
	end  context.CancelFunc

	mu      sync.Mutex // guards what follows
	current *containerStart
	starts  int
	refused bool           // the last start has failed for good, of which somebody was told
	told    string         // the failure that an event has told of
	wg      sync.WaitGroup // of starts; added to under mu

	// Only one start goes on at a time, and what follows is its own.
	last    *Container  // that was made; nil when it is known to have ended
	strays  []leftError // of starts that failed
	doubted time.Time   // when the engine was first asked whether last has ended
	tried   bool        // to pull the image
	failed  error       // of that, where no command tries it again
	pulls   func()      // says that the image is being pulled
	news    *startNews  // of this start
	again   bool        // a container has run before
	reached string      // what the last one did at its memory limit while no command ran; empty for nothing
	shared  bool        // the engine may see our file system
	proved  bool        // it is known whether it does
	volume  string      // of the workspace, where it does not
	place   place       // of the last container that mounted the workspace's directory
	socket  bool        // the engine may mount a socket of this process

	image     imageKey // of the last container that was begun
	unchanged bool     // nothing is mounted over it
}

func newCommander(config Config, engine *client.Client, w sandbox.Workspace, way *egress.Proxy) *commander {
	c := &commander{
		config: config, engine: engine, spec: newContainerSpec(config), emit: config.Events.Send, keep: !w.Temporary,
		shared: sharesFiles(engine), way: way, notes: new(sandbox.Notes),
	}
	if config.SharedFiles != nil {
		c.shared = *config.SharedFiles
	}
	// That a workspace is to be in a volume does not tell: it may be somebody's choice.
	c.socket = !config.NoSocket && (c.shared || sharesFiles(engine))
	c.files = &files{tree: w.Tree, commands: c, copyLimit: config.CopyLimit}
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

func (c *commander) Run(ctx context.Context, spec sandbox.Command) (sandbox.Result, error) {
	var used atomic.Pointer[Container]
	defer c.tellSilence(&used)()
	for retried := false; ; retried = true {
		used.Store(nil)
		box, err := c.ready(ctx, spec.Timeout)
		if err != nil {
			return sandbox.Result{ExitCode: -1}, err
		}
		used.Store(box)
		res, err := box.commands.Run(ctx, spec)
		if !errors.Is(err, errContainerGone) {
			box.tellNew(&res)
			return res, err
		}
		if retried {
			return res, notReady(ctx, err)
		}
		// The container died before the command began: it is safe to repeat.
		c.drop(box)
	}
}

func (c *commander) Guest(ctx context.Context) (*guest.Client, error) {
	box, err := c.ready(ctx, -1)
	if err != nil {
		return nil, err
	}
	return box.commands.Guest(ctx)
}

// Running implements [sandbox.Starter].
func (c *commander) Running() *guest.Client {
	c.mu.Lock()
	s := c.current
	c.mu.Unlock()
	if s == nil || !s.over() || s.err != nil {
		return nil
	}
	client, err := s.container.commands.Guest(context.Background())
	if err != nil || !client.Alive() {
		return nil
	}
	return client
}

// User implements [sandbox.Starter].
func (c *commander) User(ctx context.Context) string {
	if c.config.User != "" {
		return c.config.User
	}
	if owner := c.user.Load(); owner != nil {
		return *owner
	}
	info, err := inspectImage(ctx, c.engine, c.spec.config.Image)
	if err != nil || info.Config == nil {
		return ""
	}
	return info.Config.User
}

func (c *commander) Shell(ctx context.Context) string {
	c.mu.Lock()
	s := c.current
	c.mu.Unlock()
	if s == nil { // the last start failed: it is for a command to try again
		return ""
	}
	select {
	case <-s.known:
		return s.shell
	case <-s.slow:
	case <-ctx.Done():
	}
	select {
	case <-s.known:
		return s.shell
	default:
		return ""
	}
}

// Machine implements [sandbox.Surveyor].
func (c *commander) Machine() (m survey.Machine, known bool) {
	c.mu.Lock()
	s := c.current
	c.mu.Unlock()
	if s == nil {
		return m, false
	}
	if s.over() && s.looked {
		return s.machine, true
	}
	select {
	case <-s.known:
		facts := images.of(s.image)
		return facts.machine, s.shared && facts.looked
	default:
		return m, false
	}
}

// Aside implements [sandbox.Surveyor].
func (c *commander) Aside(ctx context.Context, cmd sandbox.Command) (sandbox.Result, error) {
	none := sandbox.Result{ExitCode: -1}
	c.mu.Lock()
	s := c.current
	c.mu.Unlock()
	if s == nil {
		return none, errContainerGone
	}
	select {
	case <-s.done:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	if s.err != nil {
		return none, s.err
	}
	return s.container.commands.Run(ctx, cmd)
}

// drop gives up a container in which no command can be started. The next start
// makes sure that it ends.
func (c *commander) drop(box *Container) {
	box.lose(nil)
	_ = box.hangUp()
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.current; s != nil && s.over() && s.container == box {
		c.current = nil
	}
}

// Park takes the container away until there is need of one. The function that
// it returns removes it; the next start waits for that.
func (c *commander) Park() (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.current
	if s == nil || !s.over() || s.err != nil {
		return func() {}
	}
	c.current = nil
	return func() { _ = s.container.discard() } // what the engine keeps is found by its labels
}

// Close returns an error that matches [ErrCleanupIncomplete] when something stays
// on the engine but no file is lost.
func (c *commander) Close() error {
	err := c.save()
	saved := err == nil
	c.end()
	c.wg.Wait()
	patience := cmp.Or(c.spec.pace.Cleanup, cleanupTime)
	alive, end := whileAnswering(context.Background(), c.engine, lateTime)
	defer end()
	alone := c.proved && c.keep && !c.claim.Fresh() && deadAreQuiet(alive, c.engine, c.spec.self)
	given := c.giveUp(alive, patience)
	ctx, cancel := context.WithTimeout(alive, patience)
	defer cancel()
	left := c.removeStrays(ctx)
	if c.last != nil {
		left = errors.Join(left, c.last.close(ctx))
	}
	if saved {
		left = errors.Join(left, c.removeSaved(ctx))
	}
	left = errors.Join(left, c.endClaim(given, alone), c.endBeside(alone))
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

// removeStrays removes what starts that failed have left, if the engine answers again.
func (c *commander) removeStrays(ctx context.Context) (left error) {
	for _, s := range c.strays {
		if s.container == "" || removeContainer(ctx, c.engine, s.container) != nil {
			left = errors.Join(left, s)
		}
	}
	return left
}

// save brings a workspace that is to be kept back from its volume. When that
// fails the volume stays, and the error names it.
func (c *commander) save() error {
	c.files.mu.RLock()
	inside := c.files.inside
	c.files.mu.RUnlock()
	if !inside || !c.keep {
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
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	client, err := c.quietGuest(ctx)
	if err == nil {
		err = c.bringBack(client)
	}
	if err != nil {
		return fmt.Errorf("bring the workspace back (it is kept in the engine's volume %s): %w; what copies it here is: %s",
			c.volume, err, owner.Rescue(c.config.Host, c.config.Image, c.volume))
	}
	return nil
}

// quietGuest returns the guest of a container in which no job runs any more. If
// the container has died, even if nobody noticed so far, another one takes its
// place.
func (c *commander) quietGuest(ctx context.Context) (*guest.Client, error) {
	for again := false; ; again = true {
		box, err := c.ready(ctx, -1)
		if err != nil {
			return nil, err
		}
		client, err := box.commands.Guest(ctx)
		if err == nil {
			err = endJobs(ctx, client)
		}
		if again || !errors.Is(err, guest.ErrClosed) {
			return client, err
		}
		c.drop(box)
	}
}

// awaitStart waits for a start that goes on, and gives it up when it takes long,
// as one does that pulls an image.
func (c *commander) awaitStart(s *containerStart) {
	limit := time.NewTimer(engineTimeout)
	defer limit.Stop()
	select {
	case <-s.done:
	case <-limit.C:
		c.end()
		<-s.done
	}
}

// bringBackTime bounds the copying of a workspace out of a volume. It can be long:
// a guest that sends nothing is given up much sooner. The bound is for a guest that
// sends a byte now and then.
const bringBackTime = time.Hour

func (c *commander) bringBack(client *guest.Client) error {
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
func (c *commander) giveUp(alive context.Context, patience time.Duration) error {
	if !c.proved || !c.spec.giveUp {
		return nil // nothing has run, or nothing is mounted, or the files are ours anyway
	}
	ctx, cancel := context.WithTimeout(alive, patience)
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
func (c *commander) giveUpAsRoot(ctx context.Context, temporary bool) error {
	spec := c.spec
	spec.config.User = "0:0"
	spec.host.CapAdd = rightsToGive
	box, err := startContainer(ctx, c.engine, spec, c.place, "pygent-"+spec.id+"-owner", func(string) {}, func(sandbox.Event) {})
	if err != nil {
		return err
	}
	err = box.giveUpFiles(ctx, temporary)
	_ = box.close(ctx) // it ends with our connection, and is swept where it does not
	return err
}
