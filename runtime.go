package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/docker"
	"github.com/x/pygent/internal/egress"
	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/guest/confine"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/settings"
	"github.com/x/pygent/internal/tree"
)

// Runtime is a workspace, and a place where commands run in it. It knows
// nothing of models or agents. [NewRuntime] makes one in a Docker container or
// on this machine; implement the interface to run commands anywhere else.
//
// Paths of files are slash-separated and relative to the workspace; absolute
// paths are accepted where they lie inside it. A path that leads out of it, by
// ".." or by a link, is an error that matches [ErrOutsideWorkspace]; but files that
// hold the whole output of a command ([BashResult].FullPath) can be read. All methods
// are safe for concurrent use and honour ctx: when it has ended already, nothing
// happens. After Cleanup they return [ErrRuntimeClosed].
//
// pygenttest.TestRuntime tests an implementation.
type Runtime interface {
	// Bash runs cmd under a new shell, with empty standard input, and waits for
	// it. A command that fails, or that is stopped at its time limit, is a result
	// and no error; err is set when the command could not be run or ctx ended, and
	// the result then holds what is known so far. The limit and the end of ctx end
	// all processes of the command before Bash returns. Output that is no UTF-8
	// is replaced.
	Bash(ctx context.Context, cmd string, opts ...BashOption) (BashResult, error)

	// ReadFile returns the content of a file. Errors match fs.ErrNotExist and
	// the like.
	ReadFile(ctx context.Context, path string) ([]byte, error)

	// WriteFile creates or replaces a file, making its directories. The mode
	// of an existing file is kept. Readers see the old content or the new one, and
	// never a part.
	WriteFile(ctx context.Context, path string, data []byte) error

	// UploadFile copies a file or directory of this machine into the workspace.
	// An empty dest means the base name of src. A file goes into a dest that is a
	// directory, and a directory is merged with it. If src itself is a link, its
	// target is copied, so src must not come from an untrusted source; links
	// below it are copied as links.
	UploadFile(ctx context.Context, src, dest string) error

	// ExportFile copies a file or directory of the workspace to this machine, to
	// dest or into it as UploadFile does.
	// Links are copied as links, so what lies at dest afterwards may lead
	// anywhere: open it with os.Root. Nothing is written through a link at dest
	// or below it.
	ExportFile(ctx context.Context, path, dest string) error

	// Cleanup ends what runs, calls of Bash included, and removes the container and
	// a temporary workspace. A workspace chosen with [WithWorkspace] is kept. It may be
	// called more than once.
	Cleanup() error
}

// NewRuntime makes a runtime as [WithDocker] says: in a Docker container, or on
// this machine. By default it uses Docker if an engine answers, and else this
// machine. That fallback is reported by a [RuntimeFallback] event, in the log,
// and in [RuntimeInfo]. See [NewDockerRuntime] and [NewLocalRuntime] for both
// kinds.
func NewRuntime(ctx context.Context, opts ...RuntimeOption) (Runtime, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	o, err := newRuntimeOptions(opts)
	if err != nil {
		return nil, err
	}
	if o.docker == DockerNever {
		return newLocalRuntime(ctx, o, "")
	}
	engine, err := o.engine(ctx)
	switch {
	case err == nil:
		return newDockerRuntime(ctx, o, engine)
	case o.docker == DockerRequired || ctx.Err() != nil:
		return nil, err
	}
	r, localErr := newLocalRuntime(ctx, o, err.Error())
	if localErr != nil {
		return nil, localErr
	}
	text := "commands run on this machine, with your rights: " + err.Error()
	if info := r.(Describer).Describe(ctx); info.Protection != protectionNone {
		text = fmt.Sprintf("commands run on this machine (protection: %s): %v", info.Protection, err)
	}
	o.queue.Tell(sandbox.Event{Kind: sandbox.Fallback, Text: text})
	return r, nil
}

// RuntimeInfo says what a runtime is, for the system prompt and for people.
type RuntimeInfo struct {
	Kind      string `json:"kind"`            // "docker", "local", or a custom runtime's name
	Image     string `json:"image,omitempty"` // the container's image
	Workspace string `json:"workspace"`       // the workspace's path as commands see it
	// HostDir is the directory of this machine that holds the workspace's files
	// now; empty where they are elsewhere, as with a remote engine. Models are
	// not told.
	HostDir string `json:"host_dir,omitempty"`
	Shell   string `json:"shell,omitempty"` // "bash" or "sh"; empty while unknown
	Network bool   `json:"network"`         // whether commands can reach a network freely
	// AllowedHosts are the hosts that commands can reach without a network of
	// their own, as [WithAllowedHosts] takes them.
	AllowedHosts []string `json:"allowed_hosts,omitempty"`
	// AsksHosts says that somebody is asked about other hosts.
	AsksHosts bool `json:"asks_hosts,omitempty"`
	// Temporary says that the workspace is removed with the runtime. Its path is
	// then of no lasting use.
	Temporary bool `json:"temporary,omitempty"`
	// Protection says how far the commands of a local runtime are confined:
	// "full", "files" or "none"; empty where they do not run on this machine.
	// See [WithLocalProtection]. With "files" they cannot open other files, but
	// reach other processes and sockets, such as Docker's.
	Protection string `json:"protection,omitempty"`
	// ProtectionNote says what the protection leaves open, and why it is not
	// stronger.
	ProtectionNote string `json:"protection_note,omitempty"`
	// Notes are what does not work there, such as git or writing, and what helps, a
	// sentence each. More of them may be known once a container runs.
	Notes []string `json:"notes,omitempty"`
	// Fallback says why commands run locally although Docker was tried first. It
	// is empty when there was no fallback.
	Fallback string `json:"fallback,omitempty"`
}

// The levels of [RuntimeInfo].Protection.
const (
	protectionFull  = "full"
	protectionFiles = "files"
	protectionNone  = "none"
)

// Kinds of runtimes.
const (
	kindDocker = "docker"
	kindLocal  = "local"
)

// Describer is implemented by runtimes that can describe themselves. The agent
// passes the description on to the model.
type Describer interface {
	// Describe may wait a moment for details that are not known yet, such as the
	// shell of an image, but never for a slow start.
	Describe(ctx context.Context) RuntimeInfo
}

// Isolator is implemented by runtimes whose commands may run apart from this
// machine. Of a runtime without it, an agent assumes that commands run on this
// machine with the rights of the program: a session says so, and asks before
// each.
type Isolator interface {
	// Isolated reports whether commands run in a container, or on another machine,
	// so that they reach nothing here but the workspace and what they were given.
	Isolated() bool
}

// isolated reports whether a runtime says that its commands run apart from this
// machine.
func isolated(rt Runtime) bool {
	is, err := safecall.Catch(func() (bool, error) {
		i, ok := RuntimeAs[Isolator](rt)
		return ok && i.Isolated(), nil
	})
	return err == nil && is // a runtime that panics contains nothing
}

// UseDocker reports whether the agent's commands run in a container, or otherwise
// apart from this machine: see [Isolator].
func (a *Agent) UseDocker() bool { return isolated(a.runtime) }

// RangeReader is implemented by runtimes that can read a part of a file, so
// that a piece of a large file can be shown without loading all of it.
type RangeReader interface {
	// ReadFileRange returns at most limit bytes from offset on, and the size
	// of the whole file.
	ReadFileRange(ctx context.Context, path string, offset, limit int64) (data []byte, size int64, err error)
}

// FileInfo describes a file of a workspace.
type FileInfo struct {
	Path    string      `json:"path"` // relative to the workspace, slash-separated
	Size    int64       `json:"size"`
	Mode    fs.FileMode `json:"mode"`
	ModTime time.Time   `json:"mod_time"`
	Target  string      `json:"target,omitempty"` // where a symbolic link leads; only from StatFile
}

// FileLister is implemented by runtimes that can tell what files there are.
// Symbolic links are described and not followed.
type FileLister interface {
	// ListFiles describes what is in a directory, and in those below it as far as
	// depth says: 0 and 1 are the directory alone, [NoLimit] everything. The files are
	// sorted by path. There are at most limit, or as many as the runtime can list
	// if limit is 0; more says that there are others.
	ListFiles(ctx context.Context, dir string, depth, limit int) (files []FileInfo, more bool, err error)
	// StatFile describes one file or directory.
	StatFile(ctx context.Context, path string) (FileInfo, error)
}

// FileRemover is implemented by runtimes that can remove files.
type FileRemover interface {
	// RemoveFile removes a file, a link or an empty directory; with all, a
	// directory with its content. Of the workspace itself only the content goes.
	RemoveFile(ctx context.Context, path string, all bool) error
}

// FileStreamer is implemented by runtimes that can copy files of any size.
type FileStreamer interface {
	// ReadFileTo copies a file from offset on to w, and returns how many bytes.
	ReadFileTo(ctx context.Context, path string, offset int64, w io.Writer) (int64, error)
	// WriteFileFrom is WriteFile with what r has. The file is replaced once r has
	// returned io.EOF; if r fails, it stays as it was. A Read of r that waits is
	// waited for.
	WriteFileFrom(ctx context.Context, path string, r io.Reader) error
}

// MaxReadFile is the largest file, in bytes, that the runtimes of this package
// return from [Runtime.ReadFile].
const MaxReadFile = 64 << 20

// Starter is implemented by runtimes that can be started before the first
// command. All runtimes of this package are.
type Starter interface {
	// Start waits until commands can run, or returns why they cannot. The error
	// matches [ErrRuntimeStart] if trying again would fail as well.
	Start(ctx context.Context) error
}

// Dialer is implemented by runtimes whose commands can run servers.
type Dialer interface {
	// Dial connects to a TCP port on which a process of the runtime listens.
	// It works without a network and with remote engines. The connection
	// outlives ctx, and ends with the runtime.
	Dial(ctx context.Context, port int) (net.Conn, error)
}

// JobRunner is implemented by runtimes that can run commands in the
// background. Jobs end with the runtime at the latest.
type JobRunner interface {
	// StartJob starts a command and returns at once. It has no time limit unless
	// [BashTimeout] sets one. Its output is kept; of a long output, only the
	// end.
	StartJob(ctx context.Context, cmd string, opts ...BashOption) (Job, error)

	// Jobs returns the current jobs and the last ones that ended, the oldest
	// first.
	Jobs(ctx context.Context) ([]Job, error)

	// JobOutput returns what a job has printed from offset on, and waits at
	// most wait for something new. An unknown id is [ErrUnknownJob].
	JobOutput(ctx context.Context, id string, offset int64, wait time.Duration) (JobOutput, error)

	// KillJob ends a job with all its processes, and returns when they are gone.
	KillJob(ctx context.Context, id string) (Job, error)
}

// treeRuntime is a runtime that sends and receives files as archives. No path
// of this machine is involved that a link could redirect. The reader of an
// archive sets its limits.
type treeRuntime interface {
	// workspacePath is the path of the workspace as its commands see it.
	workspacePath() string
	PackTree(ctx context.Context, path string, take func(io.Reader) error) error
	// UnpackTree writes a file to dest, or into it if dest is a directory. The
	// content of a directory goes below dest. It returns where that is.
	UnpackTree(ctx context.Context, dest string, in *tree.Reader) (at string, placed tree.Placed, err error)
}

// Limits of a command.
const (
	// DefaultBashTimeout is how long a command of [Runtime.Bash] may run that sets no
	// timeout.
	DefaultBashTimeout = 30 * time.Second
	// BashToolTimeout is how long the tool bash waits for a command if the model
	// sets no timeout.
	BashToolTimeout = 120 * time.Second
	// MaxBashTimeout is the longest time a model may ask for.
	MaxBashTimeout = 600 * time.Second
	// DefaultMaxOutput is how many bytes of a command's output are kept.
	DefaultMaxOutput = 32 << 10
)

// workspaceRuntime is a [Runtime] of this package. It wraps a sandbox, and
// translates between its types and those of this package.
type workspaceRuntime struct {
	*sandbox.Sandbox
	info    RuntimeInfo
	options *runtimeOptions // what it was made from
}

var _ interface {
	Runtime
	Describer
	Isolator
	RangeReader
	FileLister
	FileRemover
	FileStreamer
	Starter
	JobRunner
	ProcessStarter
	Dialer
	treeRuntime
} = (*workspaceRuntime)(nil)

// Isolated implements [Isolator].
func (r *workspaceRuntime) Isolated() bool { return r.info.Kind == kindDocker }

func (r *workspaceRuntime) workspacePath() string { return r.info.Workspace }

// Describe implements [Describer].
func (r *workspaceRuntime) Describe(ctx context.Context) RuntimeInfo {
	info := r.info
	info.Shell = r.Shell(ctx)
	info.HostDir = r.HostDir()
	info.Notes = r.Notes()
	return info
}

// Bash implements [Runtime].
func (r *workspaceRuntime) Bash(ctx context.Context, cmd string, opts ...BashOption) (BashResult, error) {
	o := NewBashOptions(opts...)
	o.Timeout = cmp.Or(o.Timeout, DefaultBashTimeout)
	command := o.command(cmd)
	command.Output = r.outputOf(o.Output)
	res, err := r.Sandbox.Bash(ctx, command)
	return BashResult{
		Command:   cmd,
		Output:    res.Output,
		ExitCode:  res.ExitCode,
		TimedOut:  res.TimedOut,
		Duration:  res.Duration,
		Truncated: res.Truncated,
		Omitted:   res.Omitted,
		FullPath:  res.FullPath,
		Note:      res.Note,
		Job:       res.Job,
		GoesOn:    res.GoesOn,
		Printed:   res.Printed,
		Refused:   hostUses(res.Refused),
	}, err
}

func hostUses(list []egress.Use) (uses []HostUse) {
	for _, u := range list {
		uses = append(uses, HostUse(u))
	}
	return uses
}

// StartJob implements [JobRunner].
func (r *workspaceRuntime) StartJob(ctx context.Context, cmd string, opts ...BashOption) (Job, error) {
	var o BashOptions // unlike a command that is waited for, a job has no default limit
	apply(&o, opts)
	job, err := r.Sandbox.StartJob(ctx, o.command(cmd))
	return jobOf(job), err
}

// Jobs implements [JobRunner].
func (r *workspaceRuntime) Jobs(ctx context.Context) ([]Job, error) {
	return jobsOf(r.Sandbox.Jobs(ctx))
}

func jobsOf(list []guest.Job, err error) (jobs []Job, _ error) {
	for _, j := range list {
		jobs = append(jobs, jobOf(j))
	}
	return jobs, err
}

// JobOutput implements [JobRunner].
func (r *workspaceRuntime) JobOutput(ctx context.Context, id string, offset int64, wait time.Duration) (JobOutput, error) {
	return jobOutputOf(r.Sandbox.JobOutput(ctx, id, offset, wait))
}

func jobOutputOf(out sandbox.JobOutput, err error) (JobOutput, error) {
	return JobOutput{Text: out.Text, Next: out.Next, Skipped: out.Skipped, Job: jobOf(out.Job)}, err
}

// KillJob implements [JobRunner].
func (r *workspaceRuntime) KillJob(ctx context.Context, id string) (Job, error) {
	job, err := r.Sandbox.KillJob(ctx, id)
	return jobOf(job), err
}

func jobOf(j guest.Job) Job {
	job := Job{
		ID: j.ID, Command: j.Command, Running: j.Running, ExitCode: -1,
		Printed: j.Total, Duration: j.Duration, Processes: j.Count, TimedOut: j.TimedOut, Killed: j.Killed,
	}
	if j.Exited {
		job.ExitCode = j.ExitCode
	}
	return job
}

// ListFiles implements [FileLister].
func (r *workspaceRuntime) ListFiles(ctx context.Context, dir string, depth, limit int) (files []FileInfo, more bool, err error) {
	list, more, err := r.Sandbox.ListFiles(ctx, dir, cmp.Or(depth, 1), limit)
	for _, f := range list {
		files = append(files, fileInfo(f))
	}
	return files, more, err
}

// StatFile implements [FileLister].
func (r *workspaceRuntime) StatFile(ctx context.Context, path string) (FileInfo, error) {
	info, err := r.Sandbox.StatFile(ctx, path)
	return fileInfo(info), err
}

func fileInfo(f guest.FileInfo) FileInfo {
	return FileInfo{Path: f.Name, Size: f.Size, Mode: f.Mode, ModTime: f.ModTime, Target: f.Target}
}

// whileStarting returns a context for asking the model, which ends with the error of
// the runtime's start if that fails for good, as [WithEndOnStartFailure] says; the error
// comes at once if it has failed. end must be called.
func (r *run) whileStarting(ctx context.Context) (_ context.Context, end func(), err error) {
	rt, ours := RuntimeAs[*workspaceRuntime](r.agent.runtime)
	if !r.opts.startEnds || !ours || !r.offers("bash") {
		return ctx, func() {}, nil
	}
	await, err := rt.Starting()
	switch {
	case errors.Is(err, ErrRuntimeStart):
		return nil, nil, err
	case await == nil:
		return ctx, func() {}, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var waits sync.WaitGroup
	waits.Go(func() {
		if err := await(ctx); errors.Is(err, ErrRuntimeStart) {
			cancel(err)
		}
	})
	return ctx, func() {
		cancel(nil)
		waits.Wait()
	}, nil
}

// startFailure returns the error of a start that ended a context of whileStarting,
// or nil.
func startFailure(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, ErrRuntimeStart) {
		return cause
	}
	return nil
}

// BashOption adjusts one call of [Runtime.Bash].
type BashOption func(*BashOptions)

// BashOptions are the settings of one command. Runtimes get them from
// [NewBashOptions].
type BashOptions struct {
	Timeout   time.Duration // default [DefaultBashTimeout]; negative means no limit but ctx
	Dir       string        // working directory, relative to the workspace; default the workspace
	Env       []string      // "NAME=value", added to the runtime's environment
	MaxOutput int           // bytes of output to keep; default [DefaultMaxOutput]

	Raw    bool // keep output that is no UTF-8 as it is; see [BashRaw]
	GoesOn bool // a command that reaches its time limit goes on as a job; see [BashGoesOn]

	// Output gets the output while the command runs; nil for none. See [BashOutput].
	Output func(OutputChunk)
}

// NewBashOptions applies opts to the defaults.
func NewBashOptions(opts ...BashOption) BashOptions {
	o := BashOptions{Timeout: DefaultBashTimeout, MaxOutput: DefaultMaxOutput}
	apply(&o, opts)
	return o
}

// BashTimeout limits the time of a command. Zero keeps the default, [NoLimit] or
// another negative duration means no limit but the context's.
func BashTimeout(d time.Duration) BashOption {
	return func(o *BashOptions) {
		if d != 0 {
			o.Timeout = d
		}
	}
}

// BashDir sets the directory a command starts in, relative to the workspace.
func BashDir(dir string) BashOption { return func(o *BashOptions) { o.Dir = dir } }

// BashEnv adds variables, each "NAME=value", to a command's environment.
func BashEnv(env ...string) BashOption {
	return func(o *BashOptions) { o.Env = append(o.Env, env...) }
}

// BashMaxOutput sets how many bytes of output are kept, half from its start
// and half from its end. Zero keeps the default. The most is 16 MiB, which
// [NoLimit] stands for.
func BashMaxOutput(n int) BashOption {
	return func(o *BashOptions) {
		switch {
		case n < 0:
			o.MaxOutput = sandbox.MaxKeptOutput
		case n > 0:
			o.MaxOutput = n
		}
	}
}

// BashRaw keeps bytes of the output that are no UTF-8 as they were printed.
// Without it each run of them is replaced by U+FFFD.
func BashRaw() BashOption { return func(o *BashOptions) { o.Raw = true } }

// BashGoesOn lets a command that reaches its time limit go on as a job of the
// runtime, with all its processes: see [BashResult].Job. Its Timeout is then only
// how long it is waited for. A runtime that is no [JobRunner], or that cannot do
// this, ends the command at the limit.
func BashGoesOn() BashOption { return func(o *BashOptions) { o.GoesOn = true } }

// OutputChunk is a piece of what a command prints while it runs.
type OutputChunk struct {
	Offset  int64  `json:"offset"`            // the position of Text in the whole output, in bytes
	Text    string `json:"text"`              // at most 4 KiB of UTF-8; other bytes are replaced by U+FFFD
	Skipped int64  `json:"skipped,omitempty"` // bytes that were left out just before Text
}

// BashOutput passes what a command prints to f while it runs, stdout and stderr
// as in [BashResult].Output. What is printed faster than f can take it is left
// out: f is called at most ten times a second, with at most 4 KiB at a time. The
// result of the command is complete all the same.
//
// Calls come one at a time, in order, from a goroutine of the runtime, and the
// last one has the end of the output. f cannot hold the command up: if a call is
// still in progress a second after the command ended, Bash returns without it.
// No call begins after Bash returned. After a panic, which is logged, f is not
// called again. A job ([JobRunner]) ignores this option.
func BashOutput(f func(OutputChunk)) BashOption {
	return func(o *BashOptions) { o.Output = f }
}

// ProcessStarter is implemented by runtimes that can run a program to which a
// caller talks, such as a tool server or a language server.
type ProcessStarter interface {
	// StartProcess starts a command under a shell, as Bash does, and returns once
	// it runs. ctx bounds the start only: the process lives until its Close, or
	// until Cleanup of the runtime. It has no time limit unless [BashTimeout] sets
	// one; [BashMaxOutput] and [BashOutput] are ignored. It is none of the jobs of
	// a [JobRunner]. Where the platform cannot do it, the error matches
	// errors.ErrUnsupported.
	StartProcess(ctx context.Context, cmd string, opts ...BashOption) (Process, error)
}

// Process is a command that runs beside the caller. Reading gets its standard
// output, and writing goes to its standard input. Both may be done at the same
// time, and both wait for each other's side: a process that nobody reads from
// waits, and so does a caller whose process does not read. Close ends calls that
// wait. When the runtime loses its container or guest, the process is gone, and
// all calls return an error.
type Process interface {
	// Read returns io.EOF once the process, and whatever it left running with its
	// output, has ended or closed that.
	// Write to a process that has ended returns os.ErrProcessDone; what it never
	// read before is lost. Close ends the process with everything that it started,
	// first with SIGTERM, and returns when nothing of it is left; call it also
	// after Wait.
	io.ReadWriteCloser

	// CloseWrite ends the process's standard input. Reading goes on.
	CloseWrite() error

	// Wait waits until the command has ended, and returns the status of its shell:
	// 128+n when signal n ended it. It may be called more than once. A process
	// that writes much does not end before that was read. The error says why the
	// status is unknown; it is then -1.
	Wait() (exitCode int, err error)

	// Stderr returns the end of what the process has written to its standard error
	// so far, at most 32 KiB. While the process runs it may be a moment behind.
	Stderr() string
}

// StartProcess implements [ProcessStarter].
func (r *workspaceRuntime) StartProcess(ctx context.Context, cmd string, opts ...BashOption) (Process, error) {
	var o BashOptions // like a job, a process has no default limit
	apply(&o, opts)
	p, err := r.Sandbox.StartProcess(ctx, o.command(cmd))
	if err != nil {
		return nil, err
	}
	return p, nil
}

// outputOf returns f for the sandbox, or nil. It is not called again after a
// panic.
func (r *workspaceRuntime) outputOf(f func(OutputChunk)) func(sandbox.Chunk) {
	if f == nil {
		return nil
	}
	broken := false
	return func(c sandbox.Chunk) {
		if broken {
			return
		}
		safecall.Call(func() { f(OutputChunk(c)) }, func(err error) {
			broken = true
			logPanic(r.options.logger, "function of BashOutput", err)
		})
	}
}

// command returns cmd with the settings o.
func (o BashOptions) command(cmd string) sandbox.Command {
	return sandbox.Command{Script: cmd, Dir: o.Dir, Env: o.Env, Timeout: o.Timeout, MaxOutput: o.MaxOutput, Raw: o.Raw, GoOn: o.GoesOn}
}

type (
	// BashResult is the outcome of a command: see [chat.BashResult].
	BashResult = chat.BashResult
	// HostUse describes a host that commands tried to reach: see [chat.HostUse].
	HostUse = chat.HostUse
)

// RuntimeOption adjusts a runtime made by [NewRuntime], [NewDockerRuntime] or
// [NewLocalRuntime]. What no option sets comes from the environment, as
// [LoadConfig] describes, and then from the defaults. Options that concern
// containers are ignored by the local runtime.
type RuntimeOption interface {
	Option
	setRuntime(*runtimeOptions)
}

type runtimeOption struct {
	name string
	set  func(*runtimeOptions)
}

func (opt runtimeOption) setAgent(o *options) {
	o.give(partRuntime, opt.name, true)
	o.runtimeOpts = append(o.runtimeOpts, opt)
}

func (opt runtimeOption) setRuntime(o *runtimeOptions) { opt.set(o) }

// runtimeEnvironmentIncluded is to options of a runtime what
// [environmentIncluded] is to those of an agent.
type runtimeEnvironmentIncluded struct{}

func (opt runtimeEnvironmentIncluded) setAgent(o *options) {
	o.runtimeOpts = append(o.runtimeOpts, opt)
}

func (runtimeEnvironmentIncluded) setRuntime(*runtimeOptions) {}

// runtimeOptions are the settings of a runtime, checked by newRuntimeOptions.
type runtimeOptions struct {
	docker        DockerMode
	dockerHost    string
	image         string
	workspace     string
	initialFiles  []sandbox.InitialFile
	copyLimit     int64    // bytes
	repositories  []string // that commands may use outside of the workspace
	network       string
	allowedHosts  []string
	networkLimit  int64
	askHosts      HostApprovalFunc // decides about hosts; nil where nobody does
	canAskHosts   func() bool      // whether there is anybody to ask now; nil means always
	memory        int64
	cpus          float64
	pids          int64
	user          string
	capabilities  []string
	readOnlyRoot  bool
	mounts        []Mount
	gpus          string
	publishPorts  []string
	publish       []sandbox.Publication // publishPorts, parsed
	sharedFiles   *bool                 // nil: decided by the engine's address
	env           []string
	protection    Protection
	readable      []string // by confined local commands
	writable      []string // likewise
	inherit       []string // likewise, to write
	events        func(RuntimeEvent)
	queue         *sandbox.Events // passes events on
	logger        *slog.Logger
	keepLeftovers bool // do not remove what earlier processes left

	// Only tests set the fields below.
	pace        sandbox.Pace
	noGuest     bool                                                                       // commands of a container run by plain exec
	noSocket    bool                                                                       // guests of containers use stdin and stdout
	confinement func(context.Context) confine.Support                                      // what this machine allows; nil asks it
	connect     func(ctx context.Context, d *net.Dialer, address string) (net.Conn, error) // dials hosts; nil does it as usual
	ownedBy     *owner.Self                                                                // nil is this process
}

// newRuntimeOptions applies opts to the defaults and to the settings of the
// environment, which a Config among them includes already. It checks the
// outcome.
func newRuntimeOptions(opts []RuntimeOption) (*runtimeOptions, error) {
	if !slices.Contains(opts, RuntimeOption(runtimeEnvironmentIncluded{})) {
		env, err := environment()
		if err != nil {
			return nil, err
		}
		opts = slices.Concat(env.RuntimeOptions(), opts)
	}
	o := applyRuntimeOptions(opts)
	o.image = cmp.Or(o.image, DefaultImage)
	o.network = cmp.Or(o.network, noNetwork)
	o.memory = cmp.Or(o.memory, DefaultMemory)
	o.pids = cmp.Or(o.pids, DefaultMaxPids)
	o.copyLimit = cmp.Or(o.copyLimit, DefaultMaxCopyBytes)
	o.logger = cmp.Or(o.logger, slog.New(slog.DiscardHandler))
	o.queue = newRuntimeEvents(o.events, o.logger)
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("runtime options: %w", err)
	}
	return o, nil
}

func applyRuntimeOptions(opts []RuntimeOption) *runtimeOptions {
	o := &runtimeOptions{capabilities: defaultCapabilities}
	setAll(o, opts, RuntimeOption.setRuntime)
	return o
}

// leastMemory is what engines ask for at least, in bytes.
const leastMemory = 6 << 20

// leastPids is what the guest of a container and a small pipeline need.
const leastPids = 32

// maxCPUs is more than any machine has, and few enough to be counted in billionths.
const maxCPUs = 1 << 20

// check refuses invalid values, and completes paths, ports and the environment.
func (o *runtimeOptions) check() error {
	switch {
	case o.docker < DockerAuto || o.docker > DockerNever:
		return fmt.Errorf("unknown %v", o.docker)
	case o.protection < ProtectionAuto || o.protection > ProtectionOff:
		return fmt.Errorf("unknown %v", o.protection)
	case o.memory > NoLimit && o.memory < leastMemory:
		return fmt.Errorf("WithMemory: %d bytes are below the 6 MiB that engines ask for", o.memory)
	case o.pids > NoLimit && o.pids < leastPids:
		return fmt.Errorf("MaxPids: %d are below the %d that the guest of a container and a command need", o.pids, leastPids)
	case math.IsNaN(o.cpus) || o.cpus > maxCPUs || o.cpus > NoLimit && o.cpus < 0:
		return fmt.Errorf("WithCPUs: %v is no number of processors", o.cpus)
	}
	if err := cmp.Or(
		settings.CheckLimit("WithMemory", o.memory),
		settings.CheckLimit("WithCPUs", o.cpus),
		settings.CheckLimit("MaxPids", o.pids),
		settings.CheckLimit("MaxCopyBytes", o.copyLimit),
		settings.CheckLimit("MaxNetworkBytes", o.networkLimit),
	); err != nil {
		return err
	}
	if o.copyLimit == NoLimit {
		o.copyLimit = math.MaxInt64
	}
	if err := o.checkNetwork(); err != nil {
		return err
	}
	if err := o.checkContainer(); err != nil {
		return err
	}
	if err := o.checkLocal(); err != nil {
		return err
	}
	for _, s := range o.publishPorts {
		p, err := sandbox.ParsePublication(s)
		if err != nil {
			return fmt.Errorf("WithPublish: %w", err)
		}
		o.publish = append(o.publish, p)
	}
	env, err := sandbox.ResolveEnv(o.env)
	o.env = env
	return err
}

// checkContainer refuses invalid GPUs and mounts, and completes the mounts.
func (o *runtimeOptions) checkContainer() error {
	if err := docker.CheckGPUs(o.gpus); err != nil {
		return fmt.Errorf("WithGPUs: %w", err)
	}
	for i, m := range o.mounts {
		if m.Source == "" || !path.IsAbs(m.Target) {
			return fmt.Errorf("mount %q at %q: want a source, and a target that is an absolute path", m.Source, m.Target)
		}
		if path.Clean(m.Target) == docker.Workspace {
			return fmt.Errorf("mount %q at %q: the workspace is there; choose another target, or make the source the workspace", m.Source, m.Target)
		}
		source, err := filepath.Abs(m.Source)
		if err != nil {
			return fmt.Errorf("mount %q: %w", m.Source, err)
		}
		o.mounts[i].Source = source
	}
	return nil
}

// checkNetwork refuses invalid hosts.
func (o *runtimeOptions) checkNetwork() error {
	for _, s := range o.allowedHosts {
		if _, err := egress.ParsePattern(s); err != nil {
			return err
		}
	}
	if len(o.allowedHosts) > 0 && o.network != noNetwork && o.docker != DockerNever {
		return fmt.Errorf("the network %q reaches every host: leave it out, or the allowed hosts", o.network)
	}
	return nil
}

// sandboxConfig is what the options say about any sandbox.
func (o *runtimeOptions) sandboxConfig() sandbox.Config {
	return sandbox.Config{
		Workspace:     o.workspace,
		InitialFiles:  o.initialFiles,
		Env:           o.env,
		Publish:       o.publish,
		ReadLimit:     MaxReadFile,
		CopyLimit:     o.copyLimit,
		Repositories:  o.repositories,
		Pace:          o.pace,
		Events:        o.queue,
		Logger:        o.logger,
		KeepLeftovers: o.keepLeftovers,
		Owner:         o.ownedBy,
	}
}

// WithDocker says whether [NewRuntime] uses Docker. The default is [DockerAuto].
func WithDocker(mode DockerMode) RuntimeOption {
	return runtimeOption{"WithDocker", func(o *runtimeOptions) { o.docker = mode }}
}

// WithWorkspace makes dir the workspace. It is created when it does not exist,
// and kept at Cleanup. By default the workspace is temporary. For a container it cannot
// be a directory of the system, such as / or /etc. What a container's users have made or
// changed there belongs to the directory's owner in the end; all else stays as it is.
func WithWorkspace(dir string) RuntimeOption {
	return runtimeOption{"WithWorkspace", func(o *runtimeOptions) { o.workspace = dir }}
}

// WithInitialFiles copies files and directories into the new workspace. Each is
// "src", which keeps its base name, or "src:dest". If src itself is a link, its
// target is copied; links below it are copied as links.
func WithInitialFiles(paths ...string) RuntimeOption {
	return runtimeOption{"WithInitialFiles", func(o *runtimeOptions) {
		for _, path := range paths {
			o.initialFiles = append(o.initialFiles, sandbox.InitialFile{Text: path})
		}
	}}
}

// WithRepositories lets commands use a git repository that lies outside of the
// workspace, if the workspace belongs to it: as a linked worktree, a submodule, a
// package of a monorepo, or one with alternates. A path allows what is in it; nothing
// is shown but what git needs. Without it git does not work there, and
// [RuntimeInfo].Notes says which path it needs. Commands can then change that
// repository, its configuration and its hooks. A linked worktree that its repository has
// on record may commit there without this; "none" ends that.
func WithRepositories(paths ...string) RuntimeOption {
	return runtimeOption{"WithRepositories", func(o *runtimeOptions) { o.repositories = append(o.repositories, paths...) }}
}

// WithEnv sets variables, each "NAME=value", for all commands. "NAME" alone
// passes on the variable of this process, which is how commands get a
// credential that they would not inherit.
func WithEnv(env ...string) RuntimeOption {
	return runtimeOption{"WithEnv", func(o *runtimeOptions) { o.env = append(o.env, env...) }}
}

// DefaultMaxCopyBytes is how many bytes of data are copied to this machine at
// most, by [Runtime.ExportFile] or when a workspace is brought back from an
// engine.
const DefaultMaxCopyBytes = 4 << 30

// MaxCopyBytes limits how many bytes of data one call of [Runtime.ExportFile],
// or bringing back a workspace, may copy to this machine. Default:
// [DefaultMaxCopyBytes].
func MaxCopyBytes(bytes int64) RuntimeOption {
	return runtimeOption{"MaxCopyBytes", func(o *runtimeOptions) { o.copyLimit = bytes }}
}

// OnRuntimeEvent calls emit for what happens besides commands: a fallback, a
// pull, a start, a loss. Calls come one at a time, in order, from a goroutine
// of the runtime or, while the runtime is made, from the one that makes it.
// Nothing waits for them afterwards, so emit may call the runtime. No call begins
// after Cleanup has. A panic of emit is logged. Given to [New], emit gets the
// events besides the function of [OnEvent].
func OnRuntimeEvent(emit func(RuntimeEvent)) RuntimeOption {
	return runtimeOption{"OnRuntimeEvent", func(o *runtimeOptions) { o.events = emit }}
}

// RuntimeEvent is something that a runtime reports while it works.
type RuntimeEvent struct {
	Kind      RuntimeEventKind `json:"kind"`
	Text      string           `json:"text,omitempty"`      // for people
	Container string           `json:"container,omitempty"` // the name of the one that starts, has started, or was lost
	Current   int64            `json:"current,omitempty"`   // progress so far, in bytes; 0 when it cannot be measured
	Total     int64            `json:"total,omitempty"`     // the whole; 0 when unknown
	Host      *HostUse         `json:"host,omitempty"`      // of RuntimeNetwork
}

// RuntimeEventKind is the kind of a [RuntimeEvent].
type RuntimeEventKind string

// The kinds of runtime events.
const (
	RuntimeFallback RuntimeEventKind = "fallback" // no engine answers: commands run locally
	RuntimePull     RuntimeEventKind = "pull"     // an image is being pulled
	RuntimeStarting RuntimeEventKind = "starting" // the container has not started in a second, as on a busy machine; RuntimeStarted or RuntimeFailed follows, after RuntimePull perhaps, unless the start is cancelled
	RuntimeStarted  RuntimeEventKind = "started"  // the container runs, and has the files of the workspace
	RuntimeLost     RuntimeEventKind = "lost"     // the container died, or does not answer; the next command gets a new one
	RuntimeSilent   RuntimeEventKind = "silent"   // the container, or its engine, has not answered for seconds while a command waits; it may yet
	RuntimeLimited  RuntimeEventKind = "limited"  // commands are confined less than usual on this machine or in this image: see Text
	RuntimeFailed   RuntimeEventKind = "failed"   // the container cannot start: see [ErrRuntimeStart]; after RuntimeStarting or RuntimePull also if it may the next time
	RuntimeNetwork  RuntimeEventKind = "network"  // a host was reached or refused: Host. Once for each host while commands run
)

// newRuntimeEvents returns a queue that logs the events of a runtime and hands
// them to emit, which may be nil. A panic of emit must not end the process.
func newRuntimeEvents(emit func(RuntimeEvent), logger *slog.Logger) *sandbox.Events {
	if emit == nil {
		return sandbox.NewEvents(nil, logger)
	}
	failed := func(err error) { logPanic(logger, "handler of the runtime's events", err) }
	return sandbox.NewEvents(func(e sandbox.Event) {
		safecall.Call(func() { emit(runtimeEvent(e)) }, failed)
	}, logger)
}

func runtimeEvent(e sandbox.Event) RuntimeEvent {
	event := RuntimeEvent{Kind: RuntimeEventKind(e.Kind), Text: e.Text, Container: e.Container, Current: e.Current, Total: e.Total}
	if e.Host != nil {
		host := HostUse(*e.Host)
		event.Host = &host
	}
	return event
}

// sibling describes how to make a runtime of the same kind with the same
// limits, but with a temporary workspace of its own and no initial files. The
// environment is returned separately, because it may hold secrets.
func (r *workspaceRuntime) sibling() (TaskRuntime, taskPrivate) {
	o := r.options
	private := taskPrivate{env: slices.Clone(o.env)}
	c := ContainerConfig{Docker: DockerNever}
	if r.Isolated() {
		c = o.container()
		c.Docker, c.AllowedHosts = DockerRequired, append(c.AllowedHosts, r.KeptHosts()...)
		private.machine = ContainerConfig{DockerHost: o.dockerHost, SharedFiles: o.sharedFiles, Mounts: slices.Clone(o.mounts)}
	}
	return TaskRuntime{Kind: r.info.Kind, Container: c, Local: o.local(), MaxCopyBytes: o.copyLimit}, private
}

// container is what the options say of containers, without what is true of one machine only.
func (o *runtimeOptions) container() ContainerConfig {
	return ContainerConfig{
		Docker:       o.docker,
		Image:        o.image,
		Network:      o.network,
		AllowedHosts: slices.Clone(o.allowedHosts),
		NetworkLimit: o.networkLimit,
		Memory:       o.memory,
		CPUs:         o.cpus,
		Pids:         o.pids,
		User:         o.user,
		Capabilities: slices.Clone(o.capabilities),
		ReadOnly:     &o.readOnlyRoot,
		GPUs:         o.gpus,
	}
}

// local is what the options say of commands on this machine.
func (o *runtimeOptions) local() LocalConfig {
	return LocalConfig{
		Protection: o.protection,
		Readable:   slices.Clone(o.readable),
		Writable:   slices.Clone(o.writable),
		Env:        slices.Clone(o.inherit),
	}
}

// writableDirs returns the lasting directories of this machine that commands
// can write to: the workspace, what is mounted into a container, and what local
// commands were given.
func (o *runtimeOptions) writableDirs(inContainer, local bool) []string {
	var dirs []string
	add := func(name string) {
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			dirs = append(dirs, name)
		}
	}
	for _, m := range o.mounts {
		if inContainer && !m.ReadOnly {
			add(m.Source)
		}
	}
	for _, name := range o.writable {
		if local {
			add(name)
		}
	}
	dirs = append(dirs, sandbox.FindRepository(o.sandboxConfig()).Writes()...)
	// A relative path is resolved now, before the working directory can change.
	if dir, err := filepath.Abs(o.workspace); err == nil && o.workspace != "" {
		dirs = append(dirs, dir)
	}
	return dirs
}

func writableDirs(opts []RuntimeOption) ([]string, error) {
	o, err := newRuntimeOptions(opts)
	if err != nil {
		return nil, err
	}
	return o.writableDirs(true, o.docker != DockerRequired), nil
}

// WritableDirs returns the lasting directories of this machine that commands
// can write to: the workspace, and others that they were given. A program must
// expect that commands replace its files there by links. The error is about
// invalid settings.
func (c Config) WritableDirs() ([]string, error) { return writableDirs(c.RuntimeOptions()) }
