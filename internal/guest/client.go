// Package guest is the host's side of the guest: a small static program that
// is PID 1 of a container, or a child of this process, and that runs commands
// and handles files there at the speed of a local fork.
//
// A [Client] speaks to it over one byte stream: the attached stdin and stdout
// of a container ([Attach] undoes the engine's framing of the latter), or the
// socket of a child ([StartLocal]). The program itself is in package binary;
// started in a container without arguments, it waits for a client, and it
// ends, with all that it started, when the stream does.
//
// Everything that comes from the guest is bounded and taken for hostile: a
// command inside may have taken it over.
package guest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/x/pygent/internal/guest/confine"
	"github.com/x/pygent/internal/guest/setid"
	"github.com/x/pygent/internal/guest/wire"
)

// Errors that callers branch on, to be tested with errors.Is. Errors about
// files match those of package fs besides.
var (
	ErrClosed     = errors.New("the guest is gone")
	ErrEscapes    = wire.ErrEscapes    // a path leads out of the workspace
	ErrNotRegular = wire.ErrNotRegular // a directory or device where a file is wanted
	ErrNoJob      = wire.ErrNoJob      // no job has this id
	ErrProcesses  = wire.ErrProcesses  // the limit of processes is reached
	ErrRefused    = wire.ErrRefused    // nothing listens on the port
	ErrVersion    = wire.ErrVersion    // the guest is of another version

	// ErrUnresponsive tells that the guest was given up because it did not
	// answer. What it ran may still run. It matches ErrClosed.
	ErrUnresponsive = fmt.Errorf("%w: it did not answer", ErrClosed)
	// ErrUnsent tells that a request was never sent, because the guest had
	// gone before. It matches ErrClosed.
	ErrUnsent = fmt.Errorf("%w: nothing was sent to it", ErrClosed)
	// ErrLeft is returned by Close of a local guest when processes of its
	// commands may still run.
	ErrLeft = errors.New("processes of the guest may still run")
)

// Config is what a session begins with.
type Config struct {
	// Workspace is the directory, as the guest sees it, where commands start
	// and to which file operations are confined.
	Workspace string
	// Env is added to the guest's own environment for every command.
	Env []string
	// SpillDirs are the directories where the guest may keep long outputs, in
	// order of preference. Default: the temporary directory, /var/tmp,
	// /dev/shm.
	SpillDirs []string
	// Confine is what a local guest may reach. Nil for everything.
	Confine *confine.Policy
	// Nonce is the path, in the workspace, of a file of which [Info] then
	// tells whether the guest sees it, and what it holds.
	Nonce string
	// Own gives what file operations make to the owner of the workspace.
	Own bool
	// Owner is who that is, where an earlier guest said it. Commands may have
	// given the workspace's directory away since.
	Owner Owner
	// HostOwner is who that is as this machine numbers users. It goes before, where
	// the guest sees the very directory under this machine's kernel.
	HostOwner HostOwner
	// Patience is how long an answer may take beyond the time that the request
	// itself may take. Default [DefaultPatience].
	Patience time.Duration
	// KeepAlive is how often the guest is called, also when nothing goes on. It
	// is given up when it has left more than three calls without an answer. Default
	// [DefaultKeepAlive].
	KeepAlive time.Duration
	// Silence is after how long without a sign of the host the guest ends what
	// it runs, and exits. 0 for never: where the stream surely ends with the
	// host.
	Silence time.Duration
}

// What a guest cannot do where the kernel does not help it.
const (
	unsupervised = "commands run in process groups, which a process can leave: the kernel refuses PR_SET_CHILD_SUBREAPER"
	setidStays   = "commands can make files with the setuid bit, which are taken from them at the end only: "
	setidRefused = "what sets the setuid bit fails, as package managers may: the kernel does not let the guest drop the bit instead"
)

// limitsOf tells why a guest does less than elsewhere. Where it gives files to
// the workspace's owner, they may have been made by another user.
func limitsOf(w *wire.Welcome, own bool) string {
	var limits []string
	if w.OS == "linux" && !w.Supervised {
		limits = append(limits, unsupervised)
	}
	switch {
	case own && w.Setid == "":
		limits = append(limits, setidStays+w.SetidNote)
	case own && w.Setid == string(setid.Refused):
		limits = append(limits, setidRefused)
	}
	return strings.Join(limits, "; ")
}

// Info is what the guest says about itself.
type Info struct {
	Shell      string // path of the shell that runs commands; empty when there is none
	OS, Arch   string // as Go names them
	Kernel     string // release of its kernel
	UID, GID   int
	Init       bool   // it is PID 1
	Supervised bool   // no process of a command can get away from it
	Limits     string // why the guest does less than elsewhere; empty where it does not
	Spill      string // directory of long outputs; empty when there is no room
	SpillNote  string // why there is none
	NonceSeen  bool   // the file of Config.Nonce is there
	Nonce      string // its first bytes
	Setid      string // what becomes of setuid and setgid bits that commands set: "stripped", "refused", or empty when they stay
	SetidNote  string // why they stay
	Owner      Owner  // of the workspace, with Config.Own
	HostOwner  bool   // it is the one of Config.HostOwner
}

// Owner is who a file belongs to, as the guest's machine numbers it.
type Owner = wire.Owner

// HostOwner is whom a directory belongs to, as this machine numbers users.
type HostOwner = wire.HostOwner

// Client is the host's side of a session. Its methods may be called from any
// goroutine, and any number at once.
type Client struct {
	session  *yamux.Session
	info     Info
	patience time.Duration
	every    time.Duration // how often the guest is called
	heard    *lastHeard
	kill     func() error   // ends the guest where closing the stream may not; may be nil
	pending  sync.WaitGroup // goroutines that may outlive the call that started them
	calls    keepAlive
	pauses   pauses
	words    func() string // what the guest wrote to stderr; may be nil

	mu       sync.Mutex // guards what follows, and pending against growing after closed
	closed   bool
	deserted bool     // the guest was given up
	env      []string // of every command
}

// Connect begins a session over conn, which the client then owns, also when
// Connect fails.
func Connect(ctx context.Context, conn io.ReadWriteCloser, config Config) (*Client, error) {
	c := &Client{
		patience: cmp.Or(config.Patience, DefaultPatience),
		every:    cmp.Or(config.KeepAlive, DefaultKeepAlive),
		heard:    &lastHeard{ReadWriteCloser: conn, base: time.Now()},
	}
	pulse := &wire.Pulse{ReadWriteCloser: c.heard}
	session, err := wire.NewHost(pulse)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	c.session = session
	if k, ok := conn.(interface{ Kill() error }); ok {
		c.kill = k.Kill
	}
	if w, ok := conn.(interface{ Stderr() string }); ok {
		c.words = w.Stderr
	}
	w := &wire.Welcome{}
	err = c.call(ctx, wire.KindHello, &wire.Hello{
		Version: wire.Version, Workspace: config.Workspace, Env: config.Env,
		SpillDirs: config.SpillDirs, Nonce: config.Nonce, Own: config.Own, Owner: config.Owner, HostOwner: config.HostOwner, Silence: config.Silence,
	}, w)
	if err == nil && w.Version != wire.Version {
		err = fmt.Errorf("%w: %d and %d", wire.ErrVersion, wire.Version, w.Version)
	}
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("greet the guest: %w", err)
	}
	c.info = Info{
		Shell: w.Shell, OS: w.OS, Arch: w.Arch, Kernel: w.Kernel, UID: w.UID, GID: w.GID,
		Init: w.Init, Supervised: w.Supervised, Spill: w.Spill, SpillNote: w.SpillNote,
		NonceSeen: w.NonceOK, Nonce: w.Nonce, Setid: w.Setid, SetidNote: w.SetidNote, Owner: w.Owner, HostOwner: w.HostOwner,
	}
	c.info.Limits = limitsOf(w, config.Own)
	c.beginCalls(pulse)
	return c, nil
}

// SetEnv sets variables of every command from now on, besides those of its session
// and below its own.
func (c *Client) SetEnv(env []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.env = slices.Clone(env)
}

// withEnv puts the variables of every command before those of one.
func (c *Client) withEnv(env []string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Concat(c.env, env)
}

// LastWords returns what the guest wrote to stderr, which tells why it ended.
func (c *Client) LastWords() string {
	if c.words == nil {
		return ""
	}
	return c.words()
}

// Info returns what the guest said about itself.
func (c *Client) Info() Info { return c.info }

// Done returns a channel that is closed when the session has ended, for
// whatever reason.
func (c *Client) Done() <-chan struct{} { return c.session.CloseChan() }

// Alive reports whether requests can be sent: the session has neither ended
// nor been given up.
func (c *Client) Alive() bool { return c.Err() == nil }

// Err returns why no request can be sent any more, or nil.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.deserted:
		return ErrUnresponsive
	case c.closed || c.session.IsClosed():
		return ErrClosed
	default:
		return nil
	}
}

// Close ends the session. The guest then kills everything it started, removes
// its long outputs and exits; closing the stream does not wait for that.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.calls.stop()
	err := c.session.Close()
	c.pending.Wait()
	return err
}

// desert gives up a guest that does not answer.
func (c *Client) desert() {
	c.mu.Lock()
	c.deserted = true
	c.mu.Unlock()
	c.spawn(func() {
		if c.kill != nil {
			_ = c.kill() // closing the stream tells what became of it
		}
		_ = c.session.Close()
	})
}

// spawn runs f in a goroutine that Close waits for, or reports false when
// that is too late.
func (c *Client) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.pending.Go(f)
	}
	return !c.closed
}
