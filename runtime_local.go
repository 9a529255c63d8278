package pygent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/guest/confine"
	"github.com/x/pygent/internal/guest/shell"
	"github.com/x/pygent/internal/toolbox"
)

// NewLocalRuntime makes a runtime whose commands run on this machine. On Linux
// they are confined, as far as the machine allows: see [WithLocalProtection], and
// [RuntimeInfo] for what came of it. Elsewhere they have the rights of this
// process. Options of the container, such as [WithMemory] and [WithNetwork], have
// no effect. Files are confined to the workspace.
//
// Commands inherit the variables that tools need, such as PATH, HOME, LANG and
// those of compilers and package managers, but no others, and none whose value is
// an address with a password. Give those that commands need besides with
// [WithEnv] or [WithLocalEnv].
//
// ctx bounds the copying of the initial files only. Call Cleanup at the end.
func NewLocalRuntime(ctx context.Context, opts ...RuntimeOption) (Runtime, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	o, err := newRuntimeOptions(opts)
	if err != nil {
		return nil, err
	}
	return newLocalRuntime(ctx, o, "")
}

func newLocalRuntime(ctx context.Context, o *runtimeOptions, fallback string) (Runtime, error) {
	env := toolbox.Inherited(os.Environ(), o.inherit)
	path, err := shell.Find(env)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRuntimeStart, err)
	}
	w, err := openWorkspace(ctx, o, false)
	if err != nil {
		return nil, err
	}
	tellOpenNetwork(o)
	dir := w.tree.Dir()
	support, err := protectionOf(ctx, o, dir)
	if err != nil {
		return nil, errors.Join(err, w.discard())
	}
	was, err := w.tree.Stat(".")
	if err != nil {
		return nil, errors.Join(err, w.discard())
	}
	if support.Level != confine.None {
		tellMissingPaths(o)
	}
	c := &localCommander{
		path: path, dir: dir, was: was, env: env, pace: o.pace, emit: o.queue.send, turn: make(chan struct{}, 1),
		level: support.Level, sure: support.Sure(), readable: o.readable, writable: o.writable,
	}
	info := RuntimeInfo{Kind: kindLocal, Workspace: dir, Network: true, Temporary: w.temporary, Fallback: fallback}
	info.Protection, info.ProtectionNote = describeProtection(support, dir, slices.Concat(o.readable, o.writable))
	return newWorkspaceRuntime(w, hostFiles{w.tree}, c, info, o, dir)
}

// spillPrefix begins the name of the directory where a guest keeps long outputs.
const spillPrefix = ".pygent-"

// localCommander is a commander on this machine. Its guest is started by the
// first command, so that a runtime that runs none costs no process.
type localCommander struct {
	path string      // the shell
	dir  string      // the workspace
	was  fs.FileInfo // of it, at the start
	env  []string    // inherited by commands
	pace pace
	emit func(RuntimeEvent)

	level    confine.Level // how far commands are confined
	sure     bool          // they cannot kill what ends them
	readable []string      // besides what every command may read
	writable []string      // likewise

	told    sync.Once     // of what a guest cannot do here
	turn    chan struct{} // a token for whoever uses current, also while one is started or ended
	current *guestCommander
	place   confined // of current
}

func (c *localCommander) shell(context.Context) string { return shellName(c.path) }

func (c *localCommander) guest(ctx context.Context) (*guest.Client, error) {
	g, err := c.ready(ctx)
	if err != nil {
		return nil, err
	}
	return g.client, nil
}

// ready returns a guest that runs, starting one when there is none.
func (c *localCommander) ready(ctx context.Context) (*guestCommander, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c.current != nil && c.current.client.Alive() {
		return c.current, nil
	}
	if err := c.shut(); errors.Is(err, guest.ErrLeft) {
		return nil, fmt.Errorf("%w: %w", errLocalLeft, err)
	}
	place, err := c.confineGuest()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRuntimeStart, err)
	}
	config := guest.Config{
		Workspace: c.dir, Patience: c.pace.patience, KeepAlive: c.pace.keepAlive, Confine: place.policy,
	}
	if place.temp != "" {
		config.SpillDirs = []string{place.temp}
	}
	client, err := guest.StartLocal(ctx, place.env, config)
	if err != nil {
		return nil, errors.Join(localStartError(ctx, err), place.remove())
	}
	c.current, c.place = &guestCommander{client: client}, place
	c.told.Do(func() { c.current.tellLimits(c.emit) })
	return c.current, nil
}

// errLocalLeft is returned once for a guest that ended and left something. The
// next command runs beside it.
var errLocalLeft = errors.New("commands from before may still run in the workspace")

// localStartError marks an error that a further attempt would meet again.
func localStartError(ctx context.Context, err error) error {
	for _, passing := range []error{guest.ErrProcesses, guest.ErrClosed, syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, passing) || ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrRuntimeStart, err)
}

func (c *localCommander) run(ctx context.Context, spec commandSpec) (BashResult, error) {
	for retried := false; ; retried = true {
		g, err := c.ready(ctx)
		if err != nil {
			return BashResult{ExitCode: -1}, err
		}
		begun := time.Now()
		res, err := g.run(ctx, spec)
		switch {
		case errors.Is(err, guest.ErrUnsent) && !retried:
			continue // it died before the command began: it is safe to repeat
		case errors.Is(err, guest.ErrUnresponsive):
			res = unanswered(spec, begun)
			res.Note, err = c.abandon(g, guestSilent), nil
		case ctx.Err() == nil && errors.Is(err, guest.ErrClosed) && !errors.Is(err, guest.ErrUnsent):
			res = unanswered(spec, begun) // which may have done something before
			res.Note, err = c.abandon(g, guestDied)+g.lastWords(), nil
		case err != nil && errors.Is(g.client.Err(), guest.ErrUnresponsive): // not even to a cancel
			res.Note = c.abandon(g, guestSilent)
		}
		return res, err
	}
}

// What became of a guest under a command.
const (
	guestSilent = "the guest that runs commands did not answer and was killed"
	guestDied   = "the guest that runs commands died while the command ran, along"
)

// abandon waits for the end of a guest of which what is known, and says what
// became of its commands.
func (c *localCommander) abandon(g *guestCommander, what string) (note string) {
	if err := g.close(); errors.Is(err, guest.ErrLeft) {
		return what + "; the command may still run: " + err.Error()
	}
	what += " with all that it ran"
	if !c.sure {
		what += ", unless that has killed its supervisor before"
	}
	return what + "; the next command gets a new one"
}

func (c *localCommander) close() error {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	return c.shut()
}

// shut ends the current guest, and removes the long outputs that one which
// was killed could not remove itself. The caller has the turn.
func (c *localCommander) shut() error {
	if c.current == nil {
		return nil
	}
	client, place := c.current.client, c.place
	c.current, c.place = nil, confined{}
	err := client.Close()
	if place.temp != "" {
		return errors.Join(err, place.remove())
	}
	// The guest has our rights, but a path that it names is not to be trusted.
	if spill := client.Info().Spill; strings.HasPrefix(filepath.Base(spill), spillPrefix) {
		err = errors.Join(err, os.RemoveAll(spill))
	}
	return err
}
