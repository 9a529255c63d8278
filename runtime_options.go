package pygent

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/x/pygent/internal/docker"
	"github.com/x/pygent/internal/egress"
	"github.com/x/pygent/internal/guest/confine"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/settings"
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
