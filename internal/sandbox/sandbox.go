// Package sandbox is a workspace and a place where commands run in it: its files,
// its jobs, its ports, and what its commands may reach. Where commands run is the
// business of a [Commander]: the one of this package runs them on this machine,
// that of package docker in a container. The root makes its runtimes of it.
package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/tree"
	"github.com/x/pygent/internal/workspace"
)

// shellWait bounds how long Shell waits for the shell to be known.
const shellWait = 2 * time.Second

// Sandbox is a workspace, and a place where commands run in it. It is made of a
// directory, the files that commands see, and a commander, and does not know
// where the commander runs its commands. Its methods are safe for concurrent
// use. After Cleanup they return [ErrClosed].
type Sandbox struct {
	dir      Workspace
	files    Files
	commands Commander
	network  *Network // nil where commands have a network of their own
	events   *Events  // ended by Cleanup
	env      []string // of every command
	git      git
	notes    *Notes
	at       string
	ports    *forwarding // nil when none is published

	processes processes                    // that have streams
	jobsOn    atomic.Pointer[guest.Client] // where jobs were started last; nil for none
	begun     begunJobs
	outputsOn atomic.Pointer[guest.Client] // who kept a long output last; nil for none

	readLimit int64 // of ReadFile, in bytes
	copyLimit int64 // of ExportFile, in bytes of data

	life    context.Context // ends at Cleanup
	end     context.CancelCauseFunc
	cleanup func() error // runs once

	mu     sync.Mutex // guards closed, active and rest, and calls against closing
	closed bool
	active int // calls in progress
	calls  sync.WaitGroup
	rest   *time.Timer   // ends a guest that has nothing to do; nil where it stays
	idle   time.Duration // after which it does; does not change
}

// Parts are what a sandbox is put together from.
type Parts struct {
	Workspace Workspace
	Files     Files
	Commands  Commander
	Network   *Network // nil where commands have a network of their own
	OnHost    bool     // commands listen on the ports of this machine
	Git       Repository
	GitTrust  string // the directories in which git trusts repositories
	Notes     *Notes // nil for none
	At        string // the path of the workspace as commands see it; empty for that on this machine
}

// New joins the parts of a sandbox, and owns them, also when it fails.
func New(p Parts, c Config) (*Sandbox, error) {
	r := &Sandbox{
		dir:       p.Workspace,
		files:     p.Files,
		commands:  p.Commands,
		network:   p.Network,
		events:    c.Events,
		env:       append(commandEnv(), c.Env...),
		readLimit: c.ReadLimit,
		copyLimit: c.CopyLimit,
	}
	r.life, r.end = context.WithCancelCause(context.Background())
	r.cleanup = sync.OnceValue(r.close)
	r.git = r.openGit(p, c)
	r.notes, r.at = cmp.Or(p.Notes, new(Notes)), cmp.Or(p.At, p.Workspace.Tree.Dir())
	r.restWhenIdle(cmp.Or(c.Pace.Rest, restAfter))
	var err error
	if r.ports, err = publish(c.Publish, p.OnHost, r.Dial); err != nil {
		return nil, errors.Join(err, r.Cleanup())
	}
	return r, nil
}

// Workspace is a workspace on disk, before a sandbox owns it.
type Workspace struct {
	Tree      *workspace.Tree
	Temporary bool
}

// OpenWorkspace makes or opens the workspace that is asked for, fills in the
// initial files, and tells the tree where commands see it. Anyone may write a
// temporary workspace that is open.
func OpenWorkspace(ctx context.Context, c Config, open bool, mounts ...string) (w Workspace, err error) {
	sweepDirectories(c)
	dir := c.Workspace
	if dir == "" {
		w.Temporary = true
		if dir, err = workspace.MakeTemp(open); err != nil {
			return w, fmt.Errorf("%w: workspace: %w", ErrStart, err)
		}
	} else if err := os.MkdirAll(dir, 0o777); err != nil {
		return w, fmt.Errorf("%w: workspace: %w", ErrStart, err)
	}
	if w.Tree, err = workspace.Open(dir, mounts...); err != nil {
		if w.Temporary {
			workspace.RemoveTemp(dir)
		}
		return w, fmt.Errorf("%w: workspace: %w", ErrStart, err)
	}
	if err := w.Tree.RemoveStages(ctx); err != nil {
		c.Logger.Debug("remove what copies that were killed left in the workspace", "error", err)
	}
	for _, file := range c.InitialFiles {
		if err := file.copyInto(ctx, HostFiles{w.Tree}); err != nil {
			return w, errors.Join(fmt.Errorf("initial files: %w", err), w.Discard())
		}
	}
	return w, nil
}

// Discard closes the workspace, and removes a temporary one.
func (w Workspace) Discard() error {
	err := w.Tree.Close()
	if w.Temporary {
		err = errors.Join(err, workspace.RemoveTemp(w.Tree.Dir()))
	}
	return err
}

// Bash runs a command and waits for it. A command that fails, or is stopped at
// its time limit, is a result and no error.
func (r *Sandbox) Bash(ctx context.Context, cmd Command) (Result, error) {
	res := Result{ExitCode: -1}
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return res, err
	}
	defer done()
	limited, cancel := cmd.Deadline(ctx)
	cmd, err = r.complete(limited, cmd)
	cancel()
	if err != nil {
		return res, r.errorOf(ctx, err)
	}
	ended := r.network.command()
	printed := heard{most: cmd.MaxOutput}
	if cmd.Output != nil {
		live := passOn(cmd.Output)
		defer live.end()
		cmd.Live = func(offset int64, data []byte) {
			printed.write(offset, data)
			live.write(offset, data)
		}
	}
	res, err = r.commands.Run(ctx, cmd)
	printed.into(&res)
	if res.left != nil {
		r.noteJob(res.Job, cmd.Script, res.left)
	}
	if res.keeps != nil {
		r.outputsOn.Store(res.keeps)
	}
	refused, missed := ended()
	res.Refused = refused
	res.Note = joinNotes(append([]string{res.Note, r.network.note(res, missed), r.git.putBack()}, r.notes.takeNews()...)...)
	if !cmd.Raw {
		res.Output = validUTF8(res.Output)
	}
	return res, r.errorOf(ctx, err)
}

// complete checks a command, and adds what all commands of the sandbox get.
func (r *Sandbox) complete(ctx context.Context, cmd Command) (Command, error) {
	if strings.ContainsRune(cmd.Script, 0) {
		return cmd, errors.New("the command contains a NUL byte")
	}
	dir, err := r.files.Directory(ctx, cmd.Dir)
	if err != nil {
		return cmd, fmt.Errorf("working directory: %w", err)
	}
	env, err := ResolveEnv(cmd.Env)
	if err != nil {
		return cmd, err
	}
	cmd.Dir = dir
	cmd.Env = r.withGit(append(r.env[:len(r.env):len(r.env)], env...))
	cmd.MaxOutput = min(max(cmd.MaxOutput, 1), MaxKeptOutput)
	cmd.jobsAfter = r.begun.last.Load()
	r.git.take()
	return cmd, nil
}

// ReadFile returns the content of a file. One above [Config.ReadLimit] is refused.
func (r *Sandbox) ReadFile(ctx context.Context, path string) ([]byte, error) {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	data, err := r.filesWith(path).ReadFile(ctx, path, r.readLimit)
	if errors.Is(err, workspace.ErrTooLarge) {
		err = fmt.Errorf("%w; read a part of it with ReadFileRange, or copy it with ExportFile", err)
	}
	if err != nil {
		return nil, r.errorAt(ctx, "read", path, err)
	}
	return data, nil
}

// ReadFileRange returns at most limit bytes from offset on, and the size of the
// whole file.
func (r *Sandbox) ReadFileRange(ctx context.Context, path string, offset, limit int64) ([]byte, int64, error) {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer done()
	data, size, err := r.filesWith(path).ReadRange(ctx, path, offset, min(limit, r.readLimit))
	if err != nil {
		return nil, 0, r.errorAt(ctx, "read", path, err)
	}
	return data, size, nil
}

// WriteFile creates or replaces a file, making its directories.
func (r *Sandbox) WriteFile(ctx context.Context, path string, data []byte) error {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := r.files.WriteFile(ctx, path, data); err != nil {
		return r.errorAt(ctx, "write", path, err)
	}
	return nil
}

// UploadFile copies a file or directory of this machine into the workspace.
func (r *Sandbox) UploadFile(ctx context.Context, src, dest string) error {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	from, err := workspace.OpenSource(src)
	if err == nil {
		defer from.Close()
		err = upload(ctx, r.files, from, dest)
	}
	if err != nil {
		return fmt.Errorf("upload %w", r.errorOf(ctx, err))
	}
	return nil
}

// ExportFile copies a file or directory of the workspace to this machine.
func (r *Sandbox) ExportFile(ctx context.Context, path, dest string) error {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	limits := tree.Limits{Bytes: r.copyLimit}
	if err := export(ctx, r.files, path, filepath.Base(r.dir.Tree.Dir()), dest, limits); err != nil {
		return fmt.Errorf("export %w", r.errorOf(ctx, err))
	}
	return nil
}

// Dir is the path of the workspace on this machine.
func (r *Sandbox) Dir() string { return r.dir.Tree.Dir() }

// At is the path of the workspace as commands see it, where they begin.
func (r *Sandbox) At() string { return r.at }

// HostDir is Dir where the files are there now, and "" where they are in a volume
// of a remote engine.
func (r *Sandbox) HostDir() string {
	if r.volume() != "" {
		return ""
	}
	return r.Dir()
}

// Shell says whether commands run under "bash" or "sh". It waits a moment where
// that is not known yet, but never for a slow start: then it answers "".
func (r *Sandbox) Shell(ctx context.Context) string {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return ""
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, shellWait)
	defer cancel()
	return r.commands.Shell(ctx)
}

// Notes are what does not work here, and what helps.
func (r *Sandbox) Notes() []string { return r.notes.All() }

// AllowedHosts are what commands can reach without a network of their own.
func (r *Sandbox) AllowedHosts() []string { return r.network.Allowed() }

// KeptHosts are those that somebody allowed for as long as the sandbox lives.
func (r *Sandbox) KeptHosts() []string { return r.network.kept() }

// Cleanup stops what runs, and removes where it ran and a temporary workspace. It
// may be called more than once.
func (r *Sandbox) Cleanup() error { return r.cleanup() }

func (r *Sandbox) close() error {
	r.mu.Lock()
	r.closed = true
	r.stopRest()
	r.mu.Unlock()
	r.end(ErrClosed)
	r.network.stopAsking()
	r.calls.Wait()
	r.processes.closeAll()
	err := r.ports.close()
	err = errors.Join(err, r.commands.Close())
	r.git.putBack()
	r.events.Close()
	err = errors.Join(err, r.dir.Discard())
	if err != nil {
		return fmt.Errorf("clean up the runtime: %w", err)
	}
	return nil
}

func (r *Sandbox) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// begin opens a call, which Cleanup then cancels and waits for. The returned
// context ends with ctx or with the sandbox.
func (r *Sandbox) begin(ctx context.Context) (context.Context, func(), error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case ctx == nil:
		return nil, nil, errNilContext
	case r.closed:
		return nil, nil, ErrClosed
	case ctx.Err() != nil:
		return nil, nil, safecall.ContextError(ctx)
	}
	r.calls.Add(1)
	r.active++
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.life, func() { cancel(ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		r.mu.Lock()
		r.active--
		r.restLater()
		r.mu.Unlock()
		r.calls.Done()
	}, nil
}

// errorOf turns an error that came of Cleanup into [ErrClosed], adds to the end of a
// context why it has ended, and says what can be done when no more processes can be
// started.
func (r *Sandbox) errorOf(ctx context.Context, err error) error {
	switch {
	case err != nil && errors.Is(context.Cause(ctx), ErrClosed):
		return ErrClosed
	case err != nil && err == ctx.Err():
		return safecall.ContextError(ctx)
	case errors.Is(err, guest.ErrProcesses):
		return fmt.Errorf("%w; the limit on processes and threads is reached: wait for what runs, or end jobs", err)
	}
	return err
}

// errorAt is errorOf for what was done with a path. The error begins with the path
// if the file is what failed.
func (r *Sandbox) errorAt(ctx context.Context, doing, path string, err error) error {
	if err = r.errorOf(ctx, err); strings.HasPrefix(err.Error(), path) {
		return fmt.Errorf("%s %w", doing, err)
	}
	return fmt.Errorf("%s %s: %w", doing, path, err)
}

// Start waits until commands can run, or returns why they cannot.
func (r *Sandbox) Start(ctx context.Context) error {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	if _, err = r.commands.Guest(ctx); errors.Is(err, ErrNoGuest) {
		err = nil // commands run without one
	}
	return r.errorOf(ctx, err)
}

// Beginner is a [Commander] that starts by itself, before there is a command.
type Beginner interface {
	// Starting is that of [Sandbox].
	Starting() (await func(context.Context) error, err error)
}

// Starting looks at the start of what runs commands. If that goes on, it returns a
// function that waits for it and returns why it has failed, if it has; if it has failed
// already, the error. A failed start of which somebody was told is tried again.
func (r *Sandbox) Starting() (await func(context.Context) error, err error) {
	b, ok := r.commands.(Beginner)
	if !ok {
		return nil, nil
	}
	_, done, err := r.begin(context.Background())
	if err != nil {
		return nil, err
	}
	defer done()
	return b.Starting()
}

// Preparer is a [Commander] that starts its guest for the first command, which waits
// for it.
type Preparer interface {
	// Prepare starts the guest if none runs yet. Errors are left to the command.
	Prepare(ctx context.Context)
}

// Prepare is for when a command is about to come: it spares that a wait.
func (r *Sandbox) Prepare(ctx context.Context) {
	p, ok := r.commands.(Preparer)
	if !ok {
		return
	}
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return
	}
	defer done()
	p.Prepare(ctx)
}
