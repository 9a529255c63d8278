// Package guest is the host's side of the guest. The guest is a small static
// program that is either PID 1 of a container or a child of this process. It runs
// commands and handles files there about as fast as a local fork.
//
// A [Client] speaks to it over one byte stream: the attached stdin and stdout of a
// container (see [Attach]), a socket that it mounts (see [AttachDirect]), or the socket
// of a child (see [StartLocal]). The program itself is in package binary. Started in a
// container, it waits for a client. When the stream ends, it kills everything that it
// started and exits.
//
// Everything that comes from the guest is bounded and treated as hostile, because
// a command inside may have taken the guest over.
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
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/x/pygent/internal/guest/confine"
	"github.com/x/pygent/internal/guest/setid"
	"github.com/x/pygent/internal/guest/wire"
)

// Errors that callers branch on, with errors.Is. Errors about files also match
// those of package fs.
var (
	ErrClosed     = errors.New("the guest is gone")
	ErrEscapes    = wire.ErrEscapes    // a path leads out of the workspace
	ErrNotRegular = wire.ErrNotRegular // a directory or device where a file is wanted
	ErrNoJob      = wire.ErrNoJob      // no job has this id
	ErrProcesses  = wire.ErrProcesses  // a limit on the number of processes is reached
	ErrRefused    = wire.ErrRefused    // nothing listens on the port
	ErrVersion    = wire.ErrVersion    // the guest is of another version

	// ErrUnresponsive means that the session was abandoned because the guest did
	// not answer. What the guest ran may still be running. It matches ErrClosed.
	ErrUnresponsive = fmt.Errorf("%w: it did not answer", ErrClosed)
	// ErrUnsent means that a request was never sent, because the guest was
	// already gone. It matches ErrClosed.
	ErrUnsent = fmt.Errorf("%w: nothing was sent to it", ErrClosed)
	// ErrLeft is returned by Close of a local guest when processes of its
	// commands may still run.
	ErrLeft = errors.New("processes of the guest may still run")
)

// Config holds the settings of a session.
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
	// Confine is what a local guest may reach; nil means everything.
	Confine *confine.Policy
	// Nonce is the path of a file in the workspace. [Info] says whether the guest
	// sees this file, and what is in it. Empty means that none is looked for.
	Nonce string
	// Own makes the guest give the files that it makes to the owner of the
	// workspace.
	Own bool
	// Owner is that owner as an earlier guest reported it. It is needed because a
	// command may have changed the owner of the workspace's directory since then.
	Owner Owner
	// HostOwner is that owner in the user ids of this machine. It takes
	// precedence over Owner if the guest sees the very same directory under the
	// same kernel.
	HostOwner HostOwner
	// Patience is how long an answer may take in addition to the time that the
	// request itself may take. Default [DefaultPatience].
	Patience time.Duration
	// KeepAlive is the interval at which the guest is pinged, even when the
	// session is idle. A guest that leaves more than three pings unanswered is
	// given up. Default [DefaultKeepAlive].
	KeepAlive time.Duration
	// Silence is the time without a sign of the host after which the guest ends
	// what it runs and exits. 0 means never, which is right where the stream
	// certainly ends with the host.
	Silence time.Duration
}

// What a guest cannot do without the kernel's help.
const (
	unsupervised = "commands run in process groups, which a process can leave: the kernel refuses PR_SET_CHILD_SUBREAPER"
	setidStays   = "commands can make files with the setuid bit, which are taken from them at the end only: "
	setidRefused = "what sets the setuid bit fails, as package managers may: the kernel does not let the guest drop the bit instead"
)

// limitsOf says why a guest does less than it would elsewhere. With own, files
// are given to the workspace's owner, so that setuid files may have been made by
// a different user.
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
	Boot       string // identifies the boot of its kernel; empty if that is unknown
	UID, GID   int
	Init       bool   // the guest is PID 1
	Supervised bool   // no process of a command can escape
	Limits     string // why the guest does less than elsewhere; empty if it does everything
	Spill      string // directory of long outputs; empty if there is none
	SpillNote  string // why there is no such directory
	NonceSeen  bool   // the file named by Config.Nonce exists
	Nonce      string // its first bytes
	Setid      string // what happens to setuid and setgid bits that commands set: "stripped", "refused", or empty if they stay
	SetidNote  string // why they stay
	Owner      Owner  // of the workspace, with Config.Own
	HostOwner  bool   // Owner was taken from Config.HostOwner
}

// Owner is the owner of a file, in the user and group ids of the guest's machine.
type Owner = wire.Owner

// HostOwner is the owner of a directory, in the user and group ids of this
// machine.
type HostOwner = wire.HostOwner

// Client is the host's side of a session. It is safe for concurrent use.
type Client struct {
	session   *yamux.Session
	info      Info
	patience  time.Duration
	every     time.Duration // the interval of the pings
	heard     *lastHeard
	kill      func() error   // kills the guest if closing the stream may not do so; may be nil
	pending   sync.WaitGroup // goroutines that may outlive the call that started them
	exchanges atomic.Int64   // that are not closed, also as connections
	calls     keepAlive
	pauses    pauses
	words     func() string // returns what the guest wrote to stderr; may be nil

	mu       sync.Mutex // guards the fields below, and keeps pending from growing once closed is set
	closed   bool
	deserted bool     // the guest was given up
	env      []string // added to the environment of every command
}

// Connect begins a session over conn. The client owns conn from then on, even
// when Connect fails.
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
		Shell: w.Shell, OS: w.OS, Arch: w.Arch, Boot: w.Boot, UID: w.UID, GID: w.GID,
		Init: w.Init, Supervised: w.Supervised, Spill: w.Spill, SpillNote: w.SpillNote,
		NonceSeen: w.NonceOK, Nonce: w.Nonce, Setid: w.Setid, SetidNote: w.SetidNote, Owner: w.Owner, HostOwner: w.HostOwner,
	}
	c.info.Limits = limitsOf(w, config.Own)
	c.beginCalls(pulse)
	return c, nil
}

// SetEnv sets variables for every command that starts from now on. They override
// those of the session and are overridden by the command's own.
func (c *Client) SetEnv(env []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.env = slices.Clone(env)
}

// withEnv returns env, the variables of one command, after those that SetEnv has
// set for all.
func (c *Client) withEnv(env []string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Concat(c.env, env)
}

// LastWords returns the end of what the guest wrote to stderr, which says why it
// ended.
func (c *Client) LastWords() string {
	if c.words == nil {
		return ""
	}
	return c.words()
}

// Info returns what the guest said about itself at the start of the session.
func (c *Client) Info() Info { return c.info }

// Done returns a channel that is closed when the session has ended, for
// whatever reason.
func (c *Client) Done() <-chan struct{} { return c.session.CloseChan() }

// Alive reports whether requests can be sent: the session has neither ended
// nor been given up.
func (c *Client) Alive() bool { return c.Err() == nil }

// Busy reports whether anything goes on: a call, a connection, or a process with
// streams. Jobs do not count.
func (c *Client) Busy() bool { return c.exchanges.Load() > 0 }

// Err returns why requests can no longer be sent, or nil if they can.
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

// Close ends the session. The guest then kills everything that it started,
// removes its long outputs and exits. Closing a container's stream does not wait
// for that.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.calls.stop()
	err := c.session.Close()
	c.pending.Wait()
	return err
}

// desert abandons a guest that does not answer.
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

// spawn runs f in a goroutine that Close waits for. It reports false, and does
// not run f, when the client is already closed.
func (c *Client) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.pending.Go(f)
	}
	return !c.closed
}
