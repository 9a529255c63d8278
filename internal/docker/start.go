package docker

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/survey"
)

// containerStart is an attempt at a container. It is made in a goroutine of
// its own, so that a caller may give up waiting. The fields may be read once
// the channel above them is closed.
type containerStart struct {
	mounts bool      // an earlier container has shown that the engine sees the workspace's directory
	before string    // the name of the last container, if it is not known to have ended
	since  time.Time // when that was first asked

	known  chan struct{} // the shell is known, or the start is over
	shell  string
	image  imageKey // what is known of it is in images
	shared bool     // the container has what its image has

	slow chan struct{} // the image is being pulled, which takes its time

	cleared chan struct{}         // no container from before is left, or the start is over
	doubt   atomic.Pointer[error] // why it is not known whether one is left

	done      chan struct{} // the start is over
	container *Container
	machine   survey.Machine // what the container has, if that is not known of its image
	looked    bool           // machine is known
	err       error
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

// ready returns a container that runs, starting one when there is none. It waits
// at most the given time, unless that is negative, for the certainty that no
// container from before runs any more.
func (c *commander) ready(ctx context.Context, wait time.Duration) (*Container, error) {
	c.mu.Lock()
	s := c.current
	if s == nil || s.over() && s.err == nil && s.container.isGone() {
		s = c.begin()
	}
	c.mu.Unlock()
	err := s.awaitCleared(ctx, wait)
	if err != nil {
		return nil, notReady(ctx, err)
	}
	box, err := c.await(ctx, s)
	return box, notReady(ctx, err)
}

// notReady marks the error of a start for which no command could begin. That the caller
// has given up is none.
func notReady(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	return sandbox.NotReady(err)
}

// await waits for the container of a start.
func (c *commander) await(ctx context.Context, s *containerStart) (*Container, error) {
	select {
	case <-s.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.container, c.outcome(s)
}

// outcome returns the error of a start that is over, so that somebody is told of it:
// the next command, or run, tries again. The caller holds mu.
func (c *commander) outcome(s *containerStart) error {
	if s.err != nil && c.current == s {
		c.current, c.refused = nil, errors.Is(s.err, sandbox.ErrStart)
	}
	return s.err
}

// Starting implements [sandbox.Beginner].
func (c *commander) Starting() (await func(context.Context) error, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.current
	if s == nil && c.refused {
		c.failed = nil // whoever asks again may have a network now
		s = c.begin()
	}
	if s == nil || s.over() && s.err == nil {
		return nil, nil
	}
	if s.over() {
		return nil, c.outcome(s)
	}
	return func(ctx context.Context) error {
		_, err := c.await(ctx, s)
		return err
	}, nil
}

// awaitCleared waits until no container from before is left. An engine that is away, as
// one that is killed, gets half a minute in all to come back, and not as long for each
// command and each look at the files, of which a run makes some at its end.
func (s *containerStart) awaitCleared(ctx context.Context, wait time.Duration) error {
	if s.before == "" {
		return nil
	}
	if wait < 0 {
		wait = 2 * busyTime // the start gives up before
	}
	limit := time.NewTimer(wait)
	defer limit.Stop()
	away := time.NewTimer(max(engineTimeout-time.Since(s.since), minEndTime))
	defer away.Stop()
	for waits := true; waits; {
		select {
		case <-s.cleared:
			return nil
		case <-ctx.Done():
			if !errors.Is(context.Cause(ctx), sandbox.ErrTimeLimit) {
				return ctx.Err()
			}
			waits = false
		case <-away.C:
			waits = s.doubt.Load() == nil // then the engine is only slow
		case <-limit.C:
			waits = false
		}
	}
	if doubt := s.doubt.Load(); doubt != nil {
		return *doubt
	}
	return fmt.Errorf("%w: container %s: %w", ErrLost, s.before, errEngineLate)
}

// begin starts a container in the background. The caller holds mu.
func (c *commander) begin() *containerStart {
	c.starts, c.refused = c.starts+1, false
	s := &containerStart{known: make(chan struct{}), slow: make(chan struct{}), cleared: make(chan struct{}), done: make(chan struct{})}
	s.mounts = c.proved && c.volume == ""
	if c.last != nil { // no other start goes on, which could change it
		s.before = c.last.name
		if c.doubted.IsZero() {
			c.doubted = time.Now()
		}
		s.since = c.doubted
	}
	c.current = s
	name := fmt.Sprintf("pygent-%s-%d", c.spec.id, c.starts)
	c.wg.Go(func() {
		news := newStartNews(name, c.emit)
		defer func() { c.tellFailure(s.err, news.end()) }()
		c.news = news
		c.pulls = sync.OnceFunc(func() { close(s.slow) })
		var once sync.Once
		know := func(shell string) {
			once.Do(func() {
				if shell != "" {
					s.image, s.shared = c.image, c.unchanged
					s.shell = path.Base(shell)
					c.learnShell(shell)
				}
				close(s.known)
			})
		}
		defer know("") // to those who then find that the start is over
		defer close(s.done)
		s.err = c.clear(s)
		close(s.cleared)
		if s.err != nil {
			return
		}
		s.container, s.err = c.launchAgain(c.life, name, know)
		if left := (leftError{}); errors.As(s.err, &left) {
			c.strays = append(c.strays, left)
		}
		if s.err == nil {
			s.machine, s.looked = c.look(s.container, s.image, s.shared)
		}
		// Commands go through the guest: an idle connection to the engine would
		// cost memory and a descriptor for nothing. The client opens a new one
		// when it needs it.
		_ = c.engine.Close()
	})
	return s
}

// tellFailure tells, once, that no container can start. Where somebody awaits the end of
// this start, it tells of any failure but the end of the commander.
func (c *commander) tellFailure(err error, awaited bool) {
	if err == nil || c.life.Err() != nil {
		return
	}
	text := err.Error()
	tells := awaited
	if errors.Is(err, sandbox.ErrStart) {
		c.mu.Lock()
		tells = tells || c.told != text
		c.told = text
		c.mu.Unlock()
	}
	if tells {
		c.emit(sandbox.Event{Kind: sandbox.Failed, Text: text})
	}
}

// clear makes sure that the container from before no longer runs, whatever became
// of the connection to it. Two containers must not work in one workspace.
func (c *commander) clear(s *containerStart) error {
	if c.last == nil {
		return nil
	}
	ctx, end := whileAnswering(c.life, c.engine, engineTimeout)
	defer end()
	for {
		_ = c.last.hangUp()
		died, err := c.last.confirmEnd(ctx, true)
		if err == nil {
			if died && !c.last.explained.Load() {
				c.reached = c.last.memoryReached(ctx)
			}
			// What is left of it does no harm, and goes with it or is swept later.
			_ = c.last.remove(ctx)
			c.last, c.doubted = nil, time.Time{}
			return nil
		}
		if c.life.Err() != nil {
			return c.life.Err()
		}
		err = fmt.Errorf("%w: container %s: %w", ErrLost, c.last.name, engineWords(ctx, err))
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
func (c *commander) launchAgain(ctx context.Context, name string, know func(string)) (*Container, error) {
	box, err := c.launch(ctx, name, know)
	if errors.Is(err, errDiedAtStart) && ctx.Err() == nil {
		box, err = c.launch(ctx, name, know)
		if errors.Is(err, errDiedAtStart) && ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", sandbox.ErrStart, err)
		}
	}
	if err != nil {
		return nil, startError(err)
	}
	c.news.end()
	c.emit(sandbox.Event{Kind: sandbox.Started, Container: name, Text: "container " + name + " runs " + c.spec.config.Image})
	c.last = box
	box.reached, c.reached = c.reached, ""
	box.second.Store(c.again)
	c.again = true
	return box, nil
}

// launch starts a container, pulling its image when the engine does not have
// it. know is told the shell as soon as the image is looked at. After an error
// no container is left.
func (c *commander) launch(ctx context.Context, name string, know func(shell string)) (*Container, error) {
	info, err := c.findImage(ctx)
	if err != nil {
		return nil, err
	}
	c.image, c.unchanged = c.keyOf(info.ID)
	free, err := awaitTurn(ctx, c.engine)
	if err != nil {
		return nil, err
	}
	defer free()
	c.recall()
	if c.spec.shell = c.knownShell(); c.spec.shell != "" {
		know(c.spec.shell)
	}
	p := place{dir: c.files.tree.Dir(), program: c.config.program(info), gitConfig: gitConfig(ctx, c.files.tree.Dir())}
	if c.shared {
		box, err := c.launchShared(ctx, p, name, know)
		if !errors.Is(err, errNotShared) || c.proved {
			return box, err
		}
		c.shared, c.socket = false, false
		if len(c.spec.view.repository) > 0 {
			c.learn(noRepository)
		}
	}
	if p.program == nil {
		return nil, fmt.Errorf("image %q is for %s/%s, for which pygent has no guest: it needs an engine that shares this machine's file system",
			c.spec.config.Image, info.Os, info.Architecture)
	}
	return c.launchRemote(ctx, p, name, know)
}

// launchShared starts a container that mounts the workspace.
func (c *commander) launchShared(ctx context.Context, p place, name string, know func(string)) (*Container, error) {
	if p.program != nil {
		p.file, _ = p.program.file() // it is copied where no directory here is ours alone
	}
	if p.gitConfig != "" {
		p.gitConfigFile, _ = keepForMount("gitconfig", p.gitConfig) // likewise
	}
	p.worktrees = c.worktreesElsewhere()
	if !c.proved && p.program != nil {
		remove, err := p.leaveNonce()
		if err != nil {
			return nil, err
		}
		defer remove()
		c.spec.hostOwner.Since = min(c.spec.hostOwner.Since, p.left.UnixNano()) // a server of files may have a clock of its own
	}
	box, err := c.startIn(ctx, p, name, know)
	if err != nil {
		return nil, err
	}
	p.nonce = ""
	c.proved, c.place = true, p
	return c.mountFiles(ctx, box, "")
}

// launchRemote starts a container whose workspace is a volume.
func (c *commander) launchRemote(ctx context.Context, p place, name string, know func(string)) (*Container, error) {
	if c.volume == "" {
		if err := c.newVolume(ctx); err != nil {
			return nil, err
		}
	}
	p.volume = c.volume
	box, err := c.startIn(ctx, p, name, know)
	if err != nil {
		return nil, err
	}
	return c.mountFiles(ctx, box, c.volume)
}

// startIn starts a container in its place, in which commands can write.
func (c *commander) startIn(ctx context.Context, p place, name string, know func(string)) (*Container, error) {
	return c.startWriting(ctx, p, func() (*Container, error) { return c.startShowing(ctx, p, name, know) })
}

// startHeard starts a container in its place, with a socket of this process if the engine
// may see that.
func (c *commander) startHeard(ctx context.Context, p place, name string, know func(string)) (*Container, error) {
	if p.program != nil && c.socket {
		if s, err := listenForGuest(); err == nil {
			p.socket = s
			box, err := startContainer(ctx, c.engine, c.spec, p, name, know, c.emit)
			if err == nil {
				return box, nil
			}
			named := s.isNamed(err)
			if err = errors.Join(err, s.forget()); !named {
				return nil, err
			}
			c.socket, p.socket = false, nil
		}
	}
	return startContainer(ctx, c.engine, c.spec, p, name, know, c.emit)
}

// mountFiles gives the guest of a container its files, and removes the container
// when that fails.
func (c *commander) mountFiles(ctx context.Context, box *Container, volume string) (*Container, error) {
	client, err := box.commands.Guest(ctx)
	if errors.Is(err, sandbox.ErrNoGuest) {
		return box, box.openWay(ctx, c.way) // the files stay in the directory, which the container mounts
	}
	if err == nil {
		err = c.files.moveInside(ctx, client, volume)
	}
	if err == nil {
		err = box.openWay(ctx, c.way)
	}
	if err != nil {
		return nil, errors.Join(err, box.discard())
	}
	return box, nil
}
