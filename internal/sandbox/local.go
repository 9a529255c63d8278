package sandbox

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
	"github.com/x/pygent/internal/toolchain"
)

// LocalConfig is what only commands on this machine know.
type LocalConfig struct {
	Inherit     []string // variables that commands get besides those that tools need
	Unprotected bool     // commands are not confined
	MustProtect bool     // it is an error where they cannot be
	Readable    []string // by confined commands, besides what every one may read
	Writable    []string // likewise
	// Confinement says what this machine allows; nil asks it. Tests change it.
	Confinement func(context.Context) confine.Support
}

func (l LocalConfig) confinement(ctx context.Context) confine.Support {
	if l.Confinement != nil {
		return l.Confinement(ctx)
	}
	return guest.Confinement(ctx, MakeTemp)
}

// NewLocal makes a sandbox whose commands run on this machine, and says how far
// they are confined. ctx bounds the copying of the initial files.
func NewLocal(ctx context.Context, c Config, l LocalConfig) (*Sandbox, Protection, error) {
	env := toolchain.Inherited(os.Environ(), l.Inherit)
	path, err := shell.Find(env)
	if err != nil {
		return nil, Protection{}, fmt.Errorf("%w: %w", ErrStart, err)
	}
	w, err := OpenWorkspace(ctx, c, false)
	if err != nil {
		return nil, Protection{}, err
	}
	dir := w.Tree.Dir()
	support, err := l.supportFor(ctx, dir)
	if err != nil {
		return nil, Protection{}, errors.Join(err, w.Discard())
	}
	was, err := w.Tree.Stat(".")
	if err != nil {
		return nil, Protection{}, errors.Join(err, w.Discard())
	}
	if support.Level != confine.None {
		l.tellMissingPaths(c.Events)
	}
	git, notes := FindRepository(c), new(Notes)
	trust := dir
	if len(git.Shown()) > 0 {
		trust = git.Top
	}
	if why := git.Note(); why != "" && support.Level != confine.None && (git.Broken != "" || !git.Allowed(slices.Concat(l.Readable, l.Writable, git.Writes()))) {
		notes.Add(why)
	}
	commands := &localCommander{
		path: path, dir: dir, was: was, env: env, given: c.Env, pace: c.Pace, emit: c.Events.Send, turn: make(chan struct{}, 1),
		level: support.Level, sure: support.Sure(), readable: l.Readable, writable: l.Writable,
		repository: git, notes: notes,
	}
	r, err := New(Parts{Workspace: w, Files: HostFiles{w.Tree}, Commands: commands, Git: git, GitTrust: trust, OnHost: true, Notes: notes}, c)
	return r, describeProtection(support, dir), err
}

// spillPrefix begins the name of the directory where a guest keeps long outputs.
const spillPrefix = ".pygent-"

// localCommander is a commander on this machine. Its guest is started by the
// first command, so that a sandbox that runs none costs no process.
type localCommander struct {
	path string      // the shell
	dir  string      // the workspace
	was  fs.FileInfo // of it, at the start
	pace Pace
	emit func(Event)

	env   []string // inherited by commands
	given []string // variables that they get besides

	level    confine.Level // how far commands are confined
	sure     bool          // they cannot kill what ends them
	readable []string      // besides what every command may read
	writable []string      // likewise
	notes    *Notes

	told    sync.Once     // of what a guest cannot do here
	turn    chan struct{} // a token for whoever uses what follows, also while a guest is started or ended
	current *GuestCommander
	place   confined // of current, or of the one that was ended for a rest
	left    error    // of that one, which left processes behind; nobody has been told

	repository Repository // as far as commands may use it
	elsewhere  []string   // the files .git of its other worktrees, for the current guest
}

func (c *localCommander) Shell(context.Context) string { return shellName(c.path) }

func (c *localCommander) Guest(ctx context.Context) (*guest.Client, error) {
	g, err := c.ready(ctx)
	if err != nil {
		return nil, err
	}
	return g.Client, nil
}

// lock takes the turn.
func (c *localCommander) lock(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *localCommander) unlock() { <-c.turn }

// ready returns a guest that runs, starting one when there is none.
func (c *localCommander) ready(ctx context.Context) (*GuestCommander, error) {
	if err := c.lock(ctx); err != nil {
		return nil, err
	}
	defer c.unlock()
	return c.live(ctx)
}

// live is ready for a caller who has the turn.
func (c *localCommander) live(ctx context.Context) (*GuestCommander, error) {
	if c.current != nil && c.current.Client.Alive() {
		return c.current, nil
	}
	if err := c.clear(); err != nil {
		return nil, fmt.Errorf("%w: %w", errLocalLeft, err)
	}
	if err := c.confineGuest(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	config := guest.Config{
		Workspace: c.dir, Patience: c.pace.Patience, KeepAlive: c.pace.KeepAlive, Confine: c.place.policy,
	}
	if c.place.temp != "" {
		config.SpillDirs = []string{c.place.temp}
	}
	client, err := guest.StartLocal(ctx, c.place.env, config)
	if err != nil {
		return nil, localStartError(ctx, err)
	}
	c.current = &GuestCommander{Client: client}
	if c.isMoved() {
		return nil, errors.Join(errRepositoryMoved, c.shut())
	}
	c.told.Do(func() { c.current.TellLimits(c.emit) })
	return c.current, nil
}

// Prepare implements [Preparer].
func (c *localCommander) Prepare(ctx context.Context) {
	if c.lock(ctx) != nil {
		return
	}
	defer c.unlock()
	if c.current == nil && c.left == nil { // else a command tells what became of the last one
		_, _ = c.live(ctx) // an error comes again, to the command
	}
}

// clear removes what a guest that died has left, and returns, once, why processes of
// an earlier guest may still run. The caller has the turn.
func (c *localCommander) clear() error {
	err := c.left
	if c.current != nil {
		err = c.shut()
	}
	c.left = nil
	if errors.Is(err, guest.ErrLeft) {
		return err
	}
	return nil
}

// Rest implements [Rester]. The temporary files of commands stay for the next guest.
func (c *localCommander) Rest(spared func(*guest.Client) bool) (end func() (busy bool)) {
	select {
	case c.turn <- struct{}{}:
	default:
		return func() bool { return true } // somebody has it just now
	}
	return func() bool {
		defer c.unlock()
		if c.current == nil || !c.current.Client.Alive() {
			return false // the next command tells what became of it
		}
		client := c.current.Client
		if busy := client.Busy(); busy || spared(client) {
			return busy
		}
		c.left = c.endGuest()
		c.place = confined{temp: c.place.temp} // the rest is found again, and is large
		return false
	}
}

// errLocalLeft is returned once when a guest ended and left processes behind. The
// next command runs beside them.
var errLocalLeft = errors.New("commands from before may still run in the workspace")

// localStartError marks an error that trying again would not mend.
func localStartError(ctx context.Context, err error) error {
	for _, passing := range []error{guest.ErrProcesses, guest.ErrClosed, syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, passing) || ctx.Err() != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrStart, err)
}

func (c *localCommander) Run(ctx context.Context, spec Command) (Result, error) {
	for retried := false; ; retried = true {
		g, err := c.ready(ctx)
		if err != nil {
			if ctx.Err() == nil {
				err = NotReady(err)
			}
			return Result{ExitCode: -1}, err
		}
		begun := time.Now()
		res, err := g.Run(ctx, spec)
		switch {
		case errors.Is(err, guest.ErrUnsent) && !retried:
			continue // it died before the command began: it is safe to repeat
		case errors.Is(err, guest.ErrUnresponsive):
			res = spec.Unanswered(begun)
			res.Note, err = c.abandon(g, guestSilent), nil
		case ctx.Err() == nil && errors.Is(err, guest.ErrClosed) && !errors.Is(err, guest.ErrUnsent):
			res = spec.Unanswered(begun) // which may have done something before
			res.Note, err = c.abandon(g, guestDied)+g.LastWords(), nil
		case err != nil && errors.Is(g.Client.Err(), guest.ErrUnresponsive): // not even to a cancel
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

// abandon waits for the end of a guest, and says what became of its commands.
func (c *localCommander) abandon(g *GuestCommander, what string) (note string) {
	if err := g.Close(); errors.Is(err, guest.ErrLeft) {
		return what + "; the command may still run: " + err.Error()
	}
	what += " with all that it ran"
	if !c.sure {
		what += ", unless that has killed its supervisor before"
	}
	return what + "; the next command gets a new one"
}

func (c *localCommander) Close() error {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	return errors.Join(c.left, c.shut())
}

// shut ends the current guest, and removes the temporary files. The caller has the
// turn.
func (c *localCommander) shut() error {
	err := c.endGuest()
	place := c.place
	c.place = confined{}
	return errors.Join(err, place.remove())
}

// endGuest ends the current guest. It also removes the files with long outputs, which
// a killed guest leaves behind, unless they go with the temporary ones. The caller has
// the turn.
func (c *localCommander) endGuest() error {
	if c.current == nil {
		return nil
	}
	client := c.current.Client
	c.current = nil
	err := client.Close()
	// The guest has our rights, but a path that it names is not to be trusted.
	if spill := client.Info().Spill; c.place.temp == "" && strings.HasPrefix(filepath.Base(spill), spillPrefix) {
		err = errors.Join(err, os.RemoveAll(spill))
	}
	return err
}
