package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/x/pygent/internal/tree"
	"github.com/x/pygent/internal/workspace"
)

// MaxReadFile is the largest file, in bytes, that the runtimes of this package
// return from [Runtime.ReadFile].
const MaxReadFile = 64 << 20

// describeWait bounds how long Describe waits for the shell to be known.
const describeWait = 2 * time.Second

// workspaceRuntime is a [Runtime] made of a directory, the files that commands
// see, and a commander. It does not know where the commander runs its commands.
type workspaceRuntime struct {
	info     RuntimeInfo
	dir      workspaceDir
	files    files
	commands commander
	options  *runtimeOptions // what it was made from
	env      []string        // of every command
	gitTrust string          // the directories in which git trusts repositories
	ports    *forwarding     // nil when none is published

	life    context.Context // ends at Cleanup
	end     context.CancelCauseFunc
	cleanup func() error // runs once

	mu     sync.Mutex // guards closed and active, and calls against closing
	closed bool
	active int // calls in progress
	calls  sync.WaitGroup
}

// Runtimes of this package describe themselves and read parts of files.
var (
	_ Describer   = (*workspaceRuntime)(nil)
	_ RangeReader = (*workspaceRuntime)(nil)
)

// workspaceDir is a workspace on disk, before a runtime owns it.
type workspaceDir struct {
	tree      *workspace.Tree
	temporary bool
}

// openWorkspace makes or opens the workspace that the options ask for, fills
// in the initial files, and tells the tree where commands see it. Anyone may
// write a temporary workspace that is open.
func openWorkspace(ctx context.Context, o *runtimeOptions, open bool, mounts ...string) (w workspaceDir, err error) {
	dir := o.workspace
	if dir == "" {
		sweepDirectories(o)
		w.temporary = true
		if dir, err = workspace.MakeTemp(open); err != nil {
			return w, fmt.Errorf("%w: workspace: %w", ErrRuntimeStart, err)
		}
	} else if err := os.MkdirAll(dir, 0o777); err != nil {
		return w, fmt.Errorf("%w: workspace: %w", ErrRuntimeStart, err)
	}
	if w.tree, err = workspace.Open(dir, mounts...); err != nil {
		if w.temporary {
			workspace.RemoveTemp(dir)
		}
		return w, fmt.Errorf("%w: workspace: %w", ErrRuntimeStart, err)
	}
	if err := w.tree.RemoveStages(); err != nil {
		o.logger.Debug("remove what copies that were killed left in the workspace", "error", err)
	}
	for _, file := range o.initialFiles {
		if err := file.copyInto(ctx, hostFiles{w.tree}); err != nil {
			return w, errors.Join(fmt.Errorf("initial files: %w", err), w.discard())
		}
	}
	return w, nil
}

// discard closes the workspace, and removes a temporary one.
func (w workspaceDir) discard() error {
	err := w.tree.Close()
	if w.temporary {
		err = errors.Join(err, workspace.RemoveTemp(w.tree.Dir()))
	}
	return err
}

// newWorkspaceRuntime joins a workspace, its files and a commander, and owns
// them, also when it fails.
func newWorkspaceRuntime(w workspaceDir, f files, c commander, info RuntimeInfo, o *runtimeOptions, gitTrust string) (Runtime, error) {
	r := &workspaceRuntime{
		info:     info,
		dir:      w,
		files:    f,
		commands: c,
		options:  o,
		env:      append(commandEnv(), o.env...),
		gitTrust: gitTrust,
	}
	r.life, r.end = context.WithCancelCause(context.Background())
	r.cleanup = sync.OnceValue(r.close)
	var err error
	if r.ports, err = publish(o.publish, info.Kind == kindLocal, r.Dial); err != nil {
		return nil, errors.Join(err, r.Cleanup())
	}
	return r, nil
}

// Bash implements [Runtime].
func (r *workspaceRuntime) Bash(ctx context.Context, cmd string, opts ...BashOption) (BashResult, error) {
	res := BashResult{Command: cmd, ExitCode: -1}
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return res, err
	}
	defer done()
	o := NewBashOptions(opts...)
	o.Timeout = cmp.Or(o.Timeout, DefaultBashTimeout)
	limited, cancel := commandSpec{timeout: o.Timeout}.deadline(ctx)
	spec, err := r.spec(limited, cmd, o)
	cancel()
	if err != nil {
		return res, r.errorOf(ctx, err)
	}
	ended, hosts := r.options.hosts.command(), r.watchHosts()
	res, err = r.commands.run(ctx, spec)
	ended()
	refused, missed := hosts()
	res.Refused = refused
	res.Command = cmd
	res.Note = joinNotes(res.Note, r.networkNote(res, missed))
	return res, r.errorOf(ctx, err)
}

// spec checks a command and completes it.
func (r *workspaceRuntime) spec(ctx context.Context, cmd string, o BashOptions) (commandSpec, error) {
	if strings.ContainsRune(cmd, 0) {
		return commandSpec{}, errors.New("the command contains a NUL byte")
	}
	dir, err := r.files.directory(ctx, o.Dir)
	if err != nil {
		return commandSpec{}, fmt.Errorf("working directory: %w", err)
	}
	env, err := resolveEnv(o.Env)
	if err != nil {
		return commandSpec{}, err
	}
	return commandSpec{
		script:    cmd,
		dir:       dir,
		env:       r.withGit(append(r.env[:len(r.env):len(r.env)], env...)),
		timeout:   o.Timeout,
		maxOutput: min(max(o.MaxOutput, 1), maxKeptOutput),
	}, nil
}

// ReadFile implements [Runtime]. Files above [MaxReadFile] are refused.
func (r *workspaceRuntime) ReadFile(ctx context.Context, path string) ([]byte, error) {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	data, err := r.files.readFile(ctx, path, MaxReadFile)
	if errors.Is(err, ErrFileTooLarge) {
		err = fmt.Errorf("%w; read a part of it with ReadFileRange, or copy it with ExportFile", err)
	}
	if err != nil {
		return nil, fmt.Errorf("read %w", r.errorOf(ctx, err))
	}
	return data, nil
}

// ReadFileRange implements [RangeReader].
func (r *workspaceRuntime) ReadFileRange(ctx context.Context, path string, offset, limit int64) ([]byte, int64, error) {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer done()
	data, size, err := r.files.readRange(ctx, path, offset, min(limit, MaxReadFile))
	if err != nil {
		return nil, 0, fmt.Errorf("read %w", r.errorOf(ctx, err))
	}
	return data, size, nil
}

// WriteFile implements [Runtime].
func (r *workspaceRuntime) WriteFile(ctx context.Context, path string, data []byte) error {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := r.files.writeFile(ctx, path, data); err != nil {
		return fmt.Errorf("write %w", r.errorOf(ctx, err))
	}
	return nil
}

// UploadFile implements [Runtime].
func (r *workspaceRuntime) UploadFile(ctx context.Context, src, dest string) error {
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

// ExportFile implements [Runtime].
func (r *workspaceRuntime) ExportFile(ctx context.Context, path, dest string) error {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	limits := tree.Limits{Bytes: r.options.copyLimit}
	if err := export(ctx, r.files, path, filepath.Base(r.dir.tree.Dir()), dest, limits); err != nil {
		return fmt.Errorf("export %w", r.errorOf(ctx, err))
	}
	return nil
}

// UseDocker implements [Runtime].
func (r *workspaceRuntime) UseDocker() bool { return r.info.Kind == kindDocker }

// Describe implements [Describer].
func (r *workspaceRuntime) Describe(ctx context.Context) RuntimeInfo {
	info := r.info
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return info
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, describeWait)
	defer cancel()
	info.Shell = r.commands.shell(ctx)
	return info
}

// Cleanup implements [Runtime].
func (r *workspaceRuntime) Cleanup() error { return r.cleanup() }

func (r *workspaceRuntime) close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.end(ErrRuntimeClosed)
	r.options.hosts.close()
	r.calls.Wait()
	err := r.ports.close()
	err = errors.Join(err, r.commands.close())
	r.options.queue.close()
	err = errors.Join(err, r.dir.discard())
	if err != nil {
		return fmt.Errorf("clean up the runtime: %w", err)
	}
	return nil
}

// parker is a commander that can give up what it keeps running. Its park returns
// at once, with a function that does the work. The next use starts anew.
type parker interface{ park() func() }

// park ends the container or the guest, and with it the jobs, of a runtime that
// nobody uses at the moment. The workspace stays, and the next call starts anew.
func (r *workspaceRuntime) park() { r.detach()() }

// detach takes away what park is to end, and returns a function that ends it.
// The lock is not held that long: it is every call's.
func (r *workspaceRuntime) detach() (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.commands.(parker)
	if !ok || r.closed || r.active > 0 {
		return func() {}
	}
	r.calls.Add(1) // Cleanup waits for it; calls that begin meanwhile do not
	remove := p.park()
	return func() {
		defer r.calls.Done()
		remove()
	}
}

// begin opens a call, which Cleanup then cancels and waits for. The returned
// context ends with ctx or with the runtime.
func (r *workspaceRuntime) begin(ctx context.Context) (context.Context, func(), error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case ctx == nil:
		return nil, nil, errNilContext
	case r.closed:
		return nil, nil, ErrRuntimeClosed
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	}
	r.calls.Add(1)
	r.active++
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(r.life, func() { cancel(ErrRuntimeClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		r.mu.Lock()
		r.active--
		r.mu.Unlock()
		r.calls.Done()
	}, nil
}

// errorOf turns an error that came of Cleanup into [ErrRuntimeClosed].
func (r *workspaceRuntime) errorOf(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), ErrRuntimeClosed) {
		return ErrRuntimeClosed
	}
	return err
}

// Kinds of runtimes.
const (
	kindDocker = "docker"
	kindLocal  = "local"
)
