package pygent

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Runtime is a workspace, and a place where commands run in it. It knows
// nothing of models or agents. [NewRuntime] makes one in a Docker container or
// on this machine; implement the interface to run commands anywhere else.
//
// Paths of files are slash-separated and relative to the workspace; absolute
// paths are accepted where they lie inside it. All methods are safe for
// concurrent use and honour ctx. After Cleanup they return [ErrRuntimeClosed].
type Runtime interface {
	// Bash runs cmd under a shell and waits for it. A command that fails, or
	// that is stopped at its time limit, is a result and no error; err is set
	// when the command could not be run or ctx ended, and the result then
	// holds what is known so far.
	Bash(ctx context.Context, cmd string, opts ...BashOption) (BashResult, error)

	// ReadFile returns the content of a file. Errors match fs.ErrNotExist and
	// the like.
	ReadFile(ctx context.Context, path string) ([]byte, error)

	// WriteFile creates or replaces a file, making its directories. The mode
	// of an existing file is kept.
	WriteFile(ctx context.Context, path string, data []byte) error

	// UploadFile copies a file or directory of this machine into the
	// workspace. An empty dest means the base name of src. A link by the name
	// of src is what it leads to, so src must be the caller's own word; links
	// below it are copied as links.
	UploadFile(ctx context.Context, src, dest string) error

	// ExportFile copies a file or directory of the workspace to this machine.
	// Links are copied as links, so what lies at dest afterwards may lead
	// anywhere: open it with os.Root. Nothing is written through a link at dest
	// or below it.
	ExportFile(ctx context.Context, path, dest string) error

	// UseDocker reports whether commands run in a Docker container.
	UseDocker() bool

	// Cleanup stops what runs, and removes the container and a temporary
	// workspace. A workspace chosen with [WithWorkspace] is kept. It may be
	// called more than once.
	Cleanup() error
}

// NewRuntime makes a runtime as [WithDocker] says: in a Docker container, or
// on this machine. By default it is Docker if an engine answers, and else this
// machine; that is told by a [RuntimeFallback] event, in the log, and in
// [RuntimeInfo]. See [NewDockerRuntime] and [NewLocalRuntime] for both.
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
	engine, err := connectEngine(ctx, o.dockerHost, o.writableDirs()...)
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
	o.queue.tell(RuntimeEvent{Kind: RuntimeFallback, Text: text})
	return r, nil
}

// RuntimeInfo says what a runtime is, for the system prompt and for people.
type RuntimeInfo struct {
	Kind      string `json:"kind"`            // "docker", "local", or a custom runtime's name
	Image     string `json:"image,omitempty"` // the container's image
	Workspace string `json:"workspace"`       // the workspace's path as commands see it
	Shell     string `json:"shell,omitempty"` // "bash" or "sh"; empty while unknown
	Network   bool   `json:"network"`         // whether commands can reach a network freely
	// AllowedHosts are what commands can reach without a network of their own, as
	// [WithAllowedHosts] takes them.
	AllowedHosts []string `json:"allowed_hosts,omitempty"`
	// AsksHosts says that somebody is asked about hosts that are not among them.
	AsksHosts bool `json:"asks_hosts,omitempty"`
	// Temporary says that the workspace goes with the runtime. Then its path
	// says nothing that lasts.
	Temporary bool `json:"temporary,omitempty"`
	// Protection says how far the commands of a local runtime are confined:
	// "full", "files" or "none"; empty where they do not run on this machine.
	// See [WithLocalProtection]. With "files" they cannot open other files, but
	// reach other processes and sockets, such as Docker's.
	Protection string `json:"protection,omitempty"`
	// ProtectionNote says what the protection leaves open, and why there is no
	// more of it.
	ProtectionNote string `json:"protection_note,omitempty"`
	// Fallback says why commands run locally although Docker was asked for
	// first. Empty when nothing was given up.
	Fallback string `json:"fallback,omitempty"`
}

// Describer is implemented by runtimes that can say what they are. The agent
// then tells the model.
type Describer interface {
	// Describe may wait a moment for what is not known yet, such as the shell
	// of an image, but never for a slow start.
	Describe(ctx context.Context) RuntimeInfo
}

// RangeReader is implemented by runtimes that can read a part of a file, so
// that a large one need not be loaded to show a piece of it.
type RangeReader interface {
	// ReadFileRange returns at most limit bytes from offset on, and the size
	// of the whole file.
	ReadFileRange(ctx context.Context, path string, offset, limit int64) (data []byte, size int64, err error)
}

// BashResult is what a command did.
type BashResult struct {
	Command  string        `json:"command"`
	Output   string        `json:"output"`              // stdout and stderr in their true order; head and tail when Truncated
	ExitCode int           `json:"exit_code"`           // the shell's status; 128+n when signal n ended it, -1 when unknown
	TimedOut bool          `json:"timed_out,omitempty"` // stopped at its time limit
	Duration time.Duration `json:"-"`                   // duration_seconds in JSON

	Truncated bool   `json:"truncated,omitempty"` // Output leaves out its middle
	Omitted   int64  `json:"omitted,omitempty"`   // bytes left out
	FullPath  string `json:"full_path,omitempty"` // where commands of the runtime can read the whole output
	Note      string `json:"note,omitempty"`      // what else is worth knowing: processes left behind, a container restarted

	// Refused are hosts that were refused while the command ran, some of them when
	// there were many. Commands that run at the same time share them.
	Refused []HostUse `json:"refused_hosts,omitempty"`
}

// String renders the result as a model sees it: "$ command", the output, and
// whatever was out of the ordinary.
func (r BashResult) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "$ %s\n%s", r.Command, r.Output)
	line := func(format string, args ...any) {
		if s := b.String(); !strings.HasSuffix(s, "\n") {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, format, args...)
	}
	if r.FullPath != "" {
		line("[the whole output is in %s]", r.FullPath)
	}
	if r.TimedOut {
		line("[stopped at the time limit after %s; a longer timeout can be given]", r.Duration.Round(100*time.Millisecond))
	} else if r.ExitCode != 0 {
		line("[exit code %d]", r.ExitCode)
	}
	if r.Note != "" {
		line("[%s]", r.Note)
	}
	return b.String()
}

// Limits of a command.
const (
	// DefaultBashTimeout is how long a command may run when nothing is said.
	DefaultBashTimeout = 30 * time.Second
	// MaxBashTimeout is the longest time a model may ask for.
	MaxBashTimeout = 600 * time.Second
	// DefaultMaxOutput is how many bytes of a command's output are kept.
	DefaultMaxOutput = 32 << 10
)

// BashOption adjusts one call of [Runtime.Bash].
type BashOption func(*BashOptions)

// BashOptions are the settings of one command. Runtimes get them from
// [NewBashOptions].
type BashOptions struct {
	Timeout   time.Duration // default [DefaultBashTimeout]; negative means no limit but ctx
	Dir       string        // working directory, relative to the workspace; default the workspace
	Env       []string      // "NAME=value", added to the runtime's environment
	MaxOutput int           // bytes of output to keep; default [DefaultMaxOutput]
}

// NewBashOptions applies opts to the defaults.
func NewBashOptions(opts ...BashOption) BashOptions {
	o := BashOptions{Timeout: DefaultBashTimeout, MaxOutput: DefaultMaxOutput}
	apply(&o, opts)
	return o
}

// BashTimeout limits the time of a command. Zero keeps the default, a
// negative duration means no limit but the context's.
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
// and half from its end. Zero keeps the default; the most is 16 MiB.
func BashMaxOutput(n int) BashOption {
	return func(o *BashOptions) {
		if n > 0 {
			o.MaxOutput = n
		}
	}
}

// RuntimeEvent is something a runtime tells while it works.
type RuntimeEvent struct {
	Kind    RuntimeEventKind `json:"kind"`
	Text    string           `json:"text,omitempty"`    // for people
	Current int64            `json:"current,omitempty"` // progress so far, in bytes; 0 when it has no measure
	Total   int64            `json:"total,omitempty"`   // the whole; 0 when unknown
	Host    *HostUse         `json:"host,omitempty"`    // of RuntimeNetwork
}

// RuntimeEventKind is the kind of a [RuntimeEvent].
type RuntimeEventKind string

// The kinds of runtime events.
const (
	RuntimeFallback RuntimeEventKind = "fallback" // no engine answers: commands run locally
	RuntimePull     RuntimeEventKind = "pull"     // an image is being pulled
	RuntimeStarted  RuntimeEventKind = "started"  // the container runs
	RuntimeLost     RuntimeEventKind = "lost"     // the container died, or does not answer; the next command gets a new one
	RuntimeLimited  RuntimeEventKind = "limited"  // this machine or image keeps less hold of commands than others: see Text
	RuntimeFailed   RuntimeEventKind = "failed"   // the container cannot start: see [ErrRuntimeStart]
	RuntimeNetwork  RuntimeEventKind = "network"  // commands reached a host, or were refused: Host. Once for each while commands run
)
