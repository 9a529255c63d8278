package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/x/pygent/internal/egress"
	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/guest/confine"
	"github.com/x/pygent/internal/owner"
)

// Defaults of a container.
const (
	// DefaultImage is the image of a container when nothing is said.
	DefaultImage = "python:3.12-slim"
	// DefaultMemory is a container's memory limit in bytes; it gets no swap.
	DefaultMemory = 512 << 20
	// DefaultPidsLimit is how many processes and threads a container may have.
	DefaultPidsLimit = 256
)

// defaultCapabilities are what package managers need; all others are dropped.
var defaultCapabilities = []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID", "KILL"}

// DockerMode says whether a runtime uses Docker.
type DockerMode int

// The Docker modes. The zero value is DockerAuto.
const (
	DockerAuto     DockerMode = iota // Docker if an engine answers, else this machine
	DockerRequired                   // Docker, or an error
	DockerNever                      // this machine
)

// String returns "auto", "required" or "never".
func (m DockerMode) String() string {
	switch m {
	case DockerAuto:
		return "auto"
	case DockerRequired:
		return "required"
	case DockerNever:
		return "never"
	}
	return "DockerMode(" + strconv.Itoa(int(m)) + ")"
}

// MarshalText encodes the mode as its name.
func (m DockerMode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText accepts the modes' names, and the booleans of configuration
// files and variables: "1", "true", "yes" and "on" require Docker, "0",
// "false", "no" and "off" rule it out. An empty text is DockerAuto.
func (m *DockerMode) UnmarshalText(text []byte) error {
	switch s := strings.ToLower(strings.TrimSpace(string(text))); s {
	case "", "auto":
		*m = DockerAuto
	case "required", "1", "true", "yes", "on":
		*m = DockerRequired
	case "never", "0", "false", "no", "off":
		*m = DockerNever
	default:
		return fmt.Errorf("docker mode %q: want auto, required or never", s)
	}
	return nil
}

// Mount is a file or directory of the engine's machine that a container sees.
type Mount struct {
	Source   string `json:"source"` // a path that exists
	Target   string `json:"target"` // an absolute path in the container
	ReadOnly bool   `json:"read_only,omitempty"`
}

// RuntimeOption adjusts a runtime made by [NewRuntime], [NewDockerRuntime] or
// [NewLocalRuntime]. What no option sets comes from the environment, as
// [LoadConfig] describes, and then from the defaults. Options that concern
// containers are ignored by the local runtime.
type RuntimeOption func(*runtimeOptions)

// runtimeOptions are the settings of a runtime, checked by newRuntimeOptions.
type runtimeOptions struct {
	configured   bool // a loaded Config was given, so the environment has been read
	docker       DockerMode
	dockerHost   string
	image        string
	workspace    string
	initialFiles []initialFile
	copyLimit    int64 // bytes
	network      string
	allowedHosts []string
	networkLimit int64
	// approveHost is asked about hosts that are not allowed; nil refuses them. The
	// reason is that of a refusal.
	approveHost  func(ctx context.Context, host string, port int) (ok bool, reason string)
	askHosts     HostApprovalFunc // decides about hosts; nil where nobody does
	canAskHosts  func() bool      // whether askHosts has anybody to ask now; nil is always
	hosts        *hostApproval    // asks askHosts; nil where nobody is asked
	memory       int64
	cpus         float64
	pids         int64
	user         string
	capabilities []string
	readOnlyRoot bool
	mounts       []Mount
	gpus         string
	publishPorts []string
	publish      []publication // publishPorts, parsed
	sharedFiles  *bool         // nil: as the engine's address suggests
	env          []string
	connect      func(ctx context.Context, d *net.Dialer, address string) (net.Conn, error) // how hosts are dialled, but in tests
	protection   Protection
	readable     []string // by confined local commands
	writable     []string // likewise
	inherit      []string // variables that local commands get besides
	events       func(RuntimeEvent)
	queue        *runtimeEvents // passes events on
	way          *egress.Proxy  // to allowed hosts; nil for none
	logger       *slog.Logger
	pace         pace
	guestFor     func(system, arch string) (*guestProgram, error) // guestFor, but in tests
	confinement  func(context.Context) confine.Support            // guest.Confinement, but in tests

	keepLeftovers bool        // of earlier processes
	ownedBy       *owner.Self // nil: this process; see self
}

// pace are waiting times around a guest, as in [guest.Config]. Zero is the
// default; tests are less patient.
type pace struct {
	patience  time.Duration
	keepAlive time.Duration
	silence   time.Duration // of the host, in a container
	cleanup   time.Duration // for removing what is on the engine; default cleanupTime
}

// newRuntimeOptions applies opts to what the environment says, unless a Config
// among them has read it, and to the defaults, and checks the outcome.
func newRuntimeOptions(opts []RuntimeOption) (*runtimeOptions, error) {
	o := applyRuntimeOptions(opts)
	if !o.configured {
		env, err := ConfigSources{NoFiles: true}.Load()
		if err != nil {
			return nil, err
		}
		o = applyRuntimeOptions(slices.Concat(env.RuntimeOptions(), opts))
	}
	o.image = cmp.Or(o.image, DefaultImage)
	o.network = cmp.Or(o.network, "none")
	o.memory = cmp.Or(o.memory, DefaultMemory)
	o.pids = cmp.Or(o.pids, DefaultPidsLimit)
	o.copyLimit = cmp.Or(o.copyLimit, DefaultCopyLimit)
	o.logger = cmp.Or(o.logger, slog.New(slog.DiscardHandler))
	if o.guestFor == nil {
		o.guestFor = guestFor
	}
	if o.confinement == nil {
		o.confinement = guest.Confinement
	}
	o.queue = &runtimeEvents{emit: o.events, logger: o.logger}
	if o.hosts = newHostApproval(o); o.hosts != nil {
		o.approveHost = o.hosts.permit
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("runtime options: %w", err)
	}
	return o, nil
}

func applyRuntimeOptions(opts []RuntimeOption) *runtimeOptions {
	o := &runtimeOptions{capabilities: defaultCapabilities}
	apply(o, opts)
	return o
}

// check refuses values that make no sense, and completes the mounts and the
// environment.
func (o *runtimeOptions) check() error {
	switch {
	case o.docker < DockerAuto || o.docker > DockerNever:
		return fmt.Errorf("unknown %v", o.docker)
	case o.protection < ProtectionAuto || o.protection > ProtectionOff:
		return fmt.Errorf("unknown %v", o.protection)
	case o.memory < 0:
		return errors.New("the memory limit is negative")
	case o.memory < 6<<20:
		return fmt.Errorf("a memory limit of %d bytes is below the 6 MiB that engines ask for", o.memory)
	case o.copyLimit < 0:
		return errors.New("the limit of copying is negative")
	case o.cpus < 0:
		return errors.New("the number of CPUs is negative")
	case o.pids < 0:
		return errors.New("the limit of processes is negative")
	}
	if _, err := gpuRequests(o.gpus); err != nil {
		return err
	}
	if err := o.checkNetwork(); err != nil {
		return err
	}
	for i, m := range o.mounts {
		if m.Source == "" || !path.IsAbs(m.Target) {
			return fmt.Errorf("mount %q at %q: want a source, and a target that is an absolute path", m.Source, m.Target)
		}
		source, err := filepath.Abs(m.Source)
		if err != nil {
			return fmt.Errorf("mount %q: %w", m.Source, err)
		}
		o.mounts[i].Source = source
	}
	for _, paths := range [][]string{o.readable, o.writable} {
		for i, path := range paths {
			abs, err := filepath.Abs(path)
			if err != nil || path == "" {
				return fmt.Errorf("path %q for local commands: %w", path, cmp.Or(err, errors.New("it is empty")))
			}
			if filepath.Dir(abs) == abs {
				return fmt.Errorf("path %q for local commands is a whole file system: name directories in it, or turn the protection off", path)
			}
			paths[i] = abs
		}
	}
	for _, s := range o.publishPorts {
		p, err := parsePublication(s)
		if err != nil {
			return err
		}
		o.publish = append(o.publish, p)
	}
	env, err := resolveEnv(o.env)
	o.env = env
	return err
}

// resolveEnv checks variables, and fills in those given by name alone.
func resolveEnv(env []string) ([]string, error) {
	var out []string
	for _, v := range env {
		name, _, ok := strings.Cut(v, "=")
		if name == "" || strings.ContainsRune(v, 0) {
			return nil, fmt.Errorf("environment variable %q: want NAME=value", v)
		}
		if ok {
			out = append(out, v)
		} else if value, set := os.LookupEnv(name); set {
			out = append(out, name+"="+value)
		}
	}
	return out, nil
}

// WithDocker says whether [NewRuntime] uses Docker. The default is [DockerAuto].
func WithDocker(mode DockerMode) RuntimeOption {
	return func(o *runtimeOptions) { o.docker = mode }
}

// WithDockerHost names the engine, as DOCKER_HOST does: unix:///path,
// tcp://host:port or ssh://user@host. By default the engine is found as the
// docker command finds it.
func WithDockerHost(host string) RuntimeOption {
	return func(o *runtimeOptions) { o.dockerHost = host }
}

// WithImage sets the container's image. The default is [DefaultImage]. An
// image that the engine does not have is pulled.
func WithImage(image string) RuntimeOption {
	return func(o *runtimeOptions) { o.image = image }
}

// WithWorkspace makes dir the workspace. It is created when it does not exist,
// and kept at Cleanup. By default the workspace is temporary.
func WithWorkspace(dir string) RuntimeOption {
	return func(o *runtimeOptions) { o.workspace = dir }
}

// WithInitialFiles copies files and directories into the new workspace. Each
// is "src", which keeps its base name, or "src:dest". A link by that name is what
// it leads to; links below it are copied as links.
func WithInitialFiles(paths ...string) RuntimeOption {
	return func(o *runtimeOptions) {
		for _, path := range paths {
			o.initialFiles = append(o.initialFiles, initialFile{text: path})
		}
	}
}

// WithNetwork sets the container's network: "none" (the default), "bridge",
// "host", or the name of a network.
func WithNetwork(mode string) RuntimeOption {
	return func(o *runtimeOptions) { o.network = mode }
}

// WithMemory limits the container's memory, in bytes. There is no swap beyond
// it. The default is [DefaultMemory].
func WithMemory(bytes int64) RuntimeOption {
	return func(o *runtimeOptions) { o.memory = bytes }
}

// WithCPUs limits the container's processor time to that of n processors. The
// default, 0, is no limit.
func WithCPUs(n float64) RuntimeOption {
	return func(o *runtimeOptions) { o.cpus = n }
}

// WithPidsLimit limits the container's processes and threads. The default is
// [DefaultPidsLimit].
func WithPidsLimit(n int64) RuntimeOption {
	return func(o *runtimeOptions) { o.pids = n }
}

// WithContainerUser sets who commands run as in the container: "user", "uid",
// "uid:gid". The default is the image's user.
func WithContainerUser(user string) RuntimeOption {
	return func(o *runtimeOptions) { o.user = user }
}

// WithCapabilities replaces the capabilities that the container keeps. The
// default is what package managers need: CHOWN, DAC_OVERRIDE, FOWNER, SETGID,
// SETUID and KILL. WithCapabilities() keeps none. Files of the workspace can
// carry rights out of a container that has more: SETFCAP lets it give
// capabilities to programs, MKNOD make devices, and SYS_ADMIN most other things.
func WithCapabilities(caps ...string) RuntimeOption {
	return func(o *runtimeOptions) { o.capabilities = slices.Clone(caps) }
}

// WithReadOnlyRoot makes the container's file system read-only but for the
// workspace and /tmp, which is then kept in memory.
func WithReadOnlyRoot(readOnly bool) RuntimeOption {
	return func(o *runtimeOptions) { o.readOnlyRoot = readOnly }
}

// WithMounts shows more files and directories to the container.
func WithMounts(mounts ...Mount) RuntimeOption {
	return func(o *runtimeOptions) { o.mounts = append(o.mounts, mounts...) }
}

// WithGPUs passes GPUs to the container: "all", a number, or
// "device=0,1". The default, "", passes none.
func WithGPUs(gpus string) RuntimeOption {
	return func(o *runtimeOptions) { o.gpus = gpus }
}

// WithPublish makes ports on which commands listen reachable on this machine,
// for as long as the runtime lives: "8080" on 127.0.0.1:8080, "3000:8080" on
// 127.0.0.1:3000, "0.0.0.0:3000:8080" from other machines too. It works without
// a network in the container and with remote engines.
func WithPublish(ports ...string) RuntimeOption {
	return func(o *runtimeOptions) { o.publishPorts = append(o.publishPorts, ports...) }
}

// WithSharedFiles says whether the engine sees this machine's file system, so
// that it can mount the workspace. Without, the workspace is a volume of the
// engine, and a workspace that is kept is brought back at Cleanup. By default
// it is tried where the engine is behind a local socket.
func WithSharedFiles(shared bool) RuntimeOption {
	return func(o *runtimeOptions) { o.sharedFiles = &shared }
}

// WithSweep says whether the runtime removes what earlier processes have left.
// By default the first temporary workspace of a process does so on this machine,
// and its first container on the engine, in the background. Removed is what
// proves by a key, which is kept in the user's state directory, that this user's
// pygent made it on this machine, whose process has ended, which nothing uses and
// with which nothing is lost. [Leftovers] lists the rest. Without such a
// directory nothing is removed.
func WithSweep(sweep bool) RuntimeOption {
	return func(o *runtimeOptions) { o.keepLeftovers = !sweep }
}

// WithEnv sets variables, each "NAME=value", for all commands. "NAME" alone
// passes on the variable of this process, which is how commands get a
// credential that they would not inherit.
func WithEnv(env ...string) RuntimeOption {
	return func(o *runtimeOptions) { o.env = append(o.env, env...) }
}

// WithRuntimeEvents calls emit for what happens outside of commands: a fallback,
// a pull, a start, a loss. Calls come one at a time, in order, from a goroutine
// of the runtime, and hold nothing up: emit may call the runtime. No call begins
// once Cleanup has.
func WithRuntimeEvents(emit func(RuntimeEvent)) RuntimeOption {
	return func(o *runtimeOptions) { o.events = emit }
}

// WithRuntimeLogger sets where the runtime logs. By default it does not.
func WithRuntimeLogger(logger *slog.Logger) RuntimeOption {
	return func(o *runtimeOptions) { o.logger = logger }
}

// writableDirs returns the directories of this machine that commands can write
// to and that stay: the workspace, what is mounted into a container, and what
// commands without one were given.
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
	// A relative path means what it means now.
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
