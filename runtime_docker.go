package pygent

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/x/pygent/internal/approval"
	"github.com/x/pygent/internal/docker"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/sandbox"
)

// Defaults of a container.
const (
	// DefaultImage is the image of a container when nothing is said.
	DefaultImage = "python:3.12-slim"
	// DefaultMemory is a container's memory limit in bytes; it gets no swap.
	DefaultMemory = 512 << 20
	// DefaultMaxPids is how many processes and threads a container may have.
	DefaultMaxPids = 256
)

// noNetwork is the network of a container that has none.
const noNetwork = "none"

// defaultCapabilities are what package managers need; all others are dropped.
var defaultCapabilities = []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID", "KILL"}

// NewDockerRuntime makes a runtime whose commands run in a Docker container. If
// no engine answers, the error matches [ErrDockerUnavailable]. The container
// itself is started in the background. If that fails, the first command returns
// the error, and the next one tries again.
//
// ctx bounds the search for an engine and the copying of the initial files.
// Call Cleanup at the end; if this process dies before, the container ends by
// itself.
func NewDockerRuntime(ctx context.Context, opts ...RuntimeOption) (Runtime, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	o, err := newRuntimeOptions(opts)
	if err != nil {
		return nil, err
	}
	engine, err := o.engine(ctx)
	if err != nil {
		return nil, err
	}
	return newDockerRuntime(ctx, o, engine)
}

// engine connects to the engine that the options name.
func (o *runtimeOptions) engine(ctx context.Context) (*docker.Engine, error) {
	return docker.Connect(ctx, o.dockerHost, o.writableDirs(true, true)...)
}

// newDockerRuntime takes over the engine's client, even if it returns an error.
func newDockerRuntime(ctx context.Context, o *runtimeOptions, engine *docker.Engine) (Runtime, error) {
	box, err := docker.New(ctx, engine, o.dockerConfig())
	if err != nil {
		return nil, err
	}
	info := RuntimeInfo{
		Kind:         kindDocker,
		Image:        o.image,
		Workspace:    box.At(),
		Network:      o.network != noNetwork,
		AllowedHosts: box.AllowedHosts(),
		Temporary:    o.workspace == "",
	}
	return &workspaceRuntime{Sandbox: box, info: info, options: o}, nil
}

// dockerConfig is what the options say of containers.
func (o *runtimeOptions) dockerConfig() docker.Config {
	c := docker.Config{
		Config:       o.sandboxConfig(),
		Host:         o.dockerHost,
		Image:        o.image,
		Network:      o.network,
		Hosts:        o.hostsConfig(),
		Memory:       max(o.memory, 0),
		CPUs:         max(o.cpus, 0),
		Pids:         o.pids,
		User:         o.user,
		Capabilities: o.capabilities,
		ReadOnlyRoot: o.readOnlyRoot,
		GPUs:         o.gpus,
		SharedFiles:  o.sharedFiles,
		NoGuest:      o.noGuest,
		NoSocket:     o.noSocket,
	}
	for _, m := range o.mounts {
		c.Mounts = append(c.Mounts, docker.Mount(m))
	}
	return c
}

// hostsConfig is what the options say of hosts that commands may reach.
func (o *runtimeOptions) hostsConfig() sandbox.NetworkConfig {
	c := sandbox.NetworkConfig{
		Allowed: o.allowedHosts,
		Limit:   cmp.Or(o.networkLimit, DefaultMaxNetworkBytes),
		CanAsk:  o.canAskHosts,
		Connect: o.connect,
	}
	if o.askHosts != nil {
		c.Ask = o.decideHosts
	}
	return c
}

// decideHosts asks askHosts, which is a function that the runtime was given.
func (o *runtimeOptions) decideHosts(ctx context.Context, hosts []string) (approval.Answer, error) {
	d, err := safecall.Outlive(ctx, func() (HostDecision, error) { return o.askHosts(ctx, HostRequest{Hosts: hosts}) })
	logPanic(o.logger, "approval of hosts", err)
	if err != nil {
		return approval.Answer{}, fmt.Errorf("nobody could be asked about it: %w", err)
	}
	return approval.Answer{Allow: d.Allow, Keep: d.Session, Reason: cmp.Or(d.Reason, "the user declined")}, nil
}

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

// WithDockerHost names the engine, as DOCKER_HOST does: unix:///path,
// tcp://host:port or ssh://user@host. By default the engine is found as the
// docker command finds it.
func WithDockerHost(host string) RuntimeOption {
	return runtimeOption{"WithDockerHost", func(o *runtimeOptions) { o.dockerHost = host }}
}

// WithImage sets the container's image. The default is [DefaultImage]. An
// image that the engine does not have is pulled.
func WithImage(image string) RuntimeOption {
	return runtimeOption{"WithImage", func(o *runtimeOptions) { o.image = image }}
}

// WithNetwork sets the container's network: "none" (the default), "bridge",
// "host", or the name of a network.
func WithNetwork(mode string) RuntimeOption {
	return runtimeOption{"WithNetwork", func(o *runtimeOptions) { o.network = mode }}
}

// WithMemory limits the container's memory, in bytes. There is no additional
// swap. The default is [DefaultMemory], the least is 6 MiB.
func WithMemory(bytes int64) RuntimeOption {
	return runtimeOption{"WithMemory", func(o *runtimeOptions) { o.memory = bytes }}
}

// WithCPUs limits the container's processor time to that of n processors. The
// default is no limit.
func WithCPUs(n float64) RuntimeOption {
	return runtimeOption{"WithCPUs", func(o *runtimeOptions) { o.cpus = n }}
}

// MaxPids limits the container's processes and threads. The default is
// [DefaultMaxPids]; fewer than 32 are an error.
func MaxPids(n int64) RuntimeOption {
	return runtimeOption{"MaxPids", func(o *runtimeOptions) { o.pids = n }}
}

// WithContainerUser sets who commands run as in the container: "user", "uid",
// "uid:gid". The default is the image's user, or the owner of a workspace that this user
// cannot write; [RuntimeInfo].Notes tells of it.
func WithContainerUser(user string) RuntimeOption {
	return runtimeOption{"WithContainerUser", func(o *runtimeOptions) { o.user = user }}
}

// WithCapabilities replaces the capabilities that the container keeps. The
// default is what package managers need: CHOWN, DAC_OVERRIDE, FOWNER, SETGID,
// SETUID and KILL. WithCapabilities() keeps none. With more capabilities, a
// container can create files in the workspace that give rights outside of it:
// with SETFCAP programs that have capabilities, with MKNOD devices, and with
// SYS_ADMIN most other things.
func WithCapabilities(caps ...string) RuntimeOption {
	return runtimeOption{"WithCapabilities", func(o *runtimeOptions) {
		o.capabilities = append([]string{}, caps...) // never nil, which would be the default for a task's container
	}}
}

// WithReadOnlyRoot makes the container's file system read-only but for the
// workspace and /tmp, which is then kept in memory.
func WithReadOnlyRoot(readOnly bool) RuntimeOption {
	return runtimeOption{"WithReadOnlyRoot", func(o *runtimeOptions) { o.readOnlyRoot = readOnly }}
}

// WithMounts mounts more files and directories into the container.
func WithMounts(mounts ...Mount) RuntimeOption {
	return runtimeOption{"WithMounts", func(o *runtimeOptions) { o.mounts = append(o.mounts, mounts...) }}
}

// WithGPUs makes GPUs available to the container: "all", a number, or
// "device=0,1". The default, "", is none.
func WithGPUs(gpus string) RuntimeOption {
	return runtimeOption{"WithGPUs", func(o *runtimeOptions) { o.gpus = gpus }}
}

// WithPublish makes ports on which commands listen reachable on this machine,
// for as long as the runtime lives: "8080" on 127.0.0.1:8080, "3000:8080" on
// 127.0.0.1:3000, "0.0.0.0:3000:8080" from other machines too. It works without
// a network in the container and with remote engines.
func WithPublish(ports ...string) RuntimeOption {
	return runtimeOption{"WithPublish", func(o *runtimeOptions) { o.publishPorts = append(o.publishPorts, ports...) }}
}

// WithSharedFiles says whether the engine sees this machine's file system, so
// that it can mount the workspace. If not, the workspace is a volume of the
// engine, and a workspace that is kept is copied back at Cleanup. By default
// the runtime tests this where the engine has a local socket.
func WithSharedFiles(shared bool) RuntimeOption {
	return runtimeOption{"WithSharedFiles", func(o *runtimeOptions) { o.sharedFiles = &shared }}
}

// WithSweep says whether the runtime removes what earlier processes have left.
// By default the first temporary workspace of a process does so on this
// machine, and its first container on the engine, in the background. A leftover
// is removed only if a key in the user's state directory proves that this
// user's pygent made it on this machine, if its process has ended, if nothing
// uses it, and if nothing is lost with it. [Leftovers] lists the rest. Without
// a state directory nothing is removed.
func WithSweep(sweep bool) RuntimeOption {
	return runtimeOption{"WithSweep", func(o *runtimeOptions) { o.keepLeftovers = !sweep }}
}

// DefaultMaxNetworkBytes is how many bytes the commands of a runtime may exchange
// with hosts that [WithAllowedHosts] names.
const DefaultMaxNetworkBytes = 16 << 30

// WithAllowedHosts lets commands in a container without a network reach hosts
// by HTTP and HTTPS, and no others: "example.org" on the ports 80 (HTTP) and
// 443 (HTTPS), "*.example.net" every name below example.net but not itself,
// "example.org:8443" only that port. A private address, of this machine or its
// network, is reached only when it is named with its port, as in
// "10.0.0.5:8080"; a link-local address only when the address itself is named,
// not by a host name. Calls add up.
//
// Commands reach the hosts through a proxy on 127.0.0.1, which is set in their
// environment (http_proxy, https_proxy and the like). The connections are made
// from this machine, even when the engine is remote. Names that are not allowed
// are not looked up. TLS is not intercepted, so the server behind an allowed
// name decides what it serves. If the environment of this process names a proxy
// (HTTPS_PROXY), it is used; addresses cannot be checked then, since that proxy
// looks the names up.
//
// It is an error together with another network than "none". It has no effect on
// the local runtime, whose commands have the network of this machine; a
// [RuntimeLimited] event reports that.
func WithAllowedHosts(patterns ...string) RuntimeOption {
	return runtimeOption{"WithAllowedHosts", func(o *runtimeOptions) { o.allowedHosts = append(o.allowedHosts, slices.Clone(patterns)...) }}
}

// MaxNetworkBytes limits how many bytes, both ways together, commands may
// exchange with allowed hosts while the runtime lives. The default is
// [DefaultMaxNetworkBytes].
func MaxNetworkBytes(bytes int64) RuntimeOption {
	return runtimeOption{"MaxNetworkBytes", func(o *runtimeOptions) { o.networkLimit = bytes }}
}

// HostRequest asks whether commands may reach hosts that nothing allows yet.
type HostRequest struct {
	// Hosts are names as [WithAllowedHosts] takes them, without ports: 8 at most, in
	// lower case and ASCII. Commands chose them, so treat them as a stranger's words.
	Hosts []string
}

// HostDecision is the answer of a [HostApprovalFunc] for all hosts of the
// request. The zero HostDecision refuses them.
type HostDecision struct {
	Allow bool
	// Session allows the hosts for as long as the runtime lives, and to the
	// tasks that begin later. Otherwise they are allowed until the commands that
	// run have ended.
	Session bool
	Reason  string // told to the model when the hosts are refused
}

// HostApprovalFunc decides whether commands may reach hosts. An error refuses
// them. It must honour ctx, which ends when the answer is no longer needed. A
// runtime calls it from one goroutine at a time.
type HostApprovalFunc func(ctx context.Context, r HostRequest) (HostDecision, error)

// WithHostApproval sets who decides about hosts that [WithAllowedHosts] does
// not allow. The connection of a command waits for the answer, and so does the
// command's time limit. Each host is asked about only once, however many
// connections want it, together with the other hosts that are wanted at the
// time. A refusal holds for as long as the runtime lives, and so does an answer
// with Session. Private addresses, and ports other than 80 and 443, are never
// asked about: they have to be named in advance.
//
// The decision concerns only this runtime. The runtimes of delegated tasks may
// reach the hosts that are allowed when they begin, and ask nobody.
//
// Default: in a terminal session of an [Agent] the user is asked; otherwise such
// hosts are refused. It has no effect in a container that was given a network.
func WithHostApproval(f HostApprovalFunc) RuntimeOption {
	return runtimeOption{"WithHostApproval", func(o *runtimeOptions) { o.askHosts = f }}
}

// Leftover is something that is marked as made by a runtime whose process has
// ended, or cannot be seen from here.
type Leftover struct {
	Kind    string // "container", "volume", "directory" or "file": one in the workspace, or in the working directory
	Name    string // a path, for a directory
	Owner   string // host, machine, boot, namespace, process id and start time of the process
	Created time.Time

	// Ours says that a key proves that this user's pygent made it on this
	// machine, and that the process has ended.
	Ours bool
	// Sure says that, in addition, nothing uses it and nothing is lost with it.
	// Runtimes remove such leftovers by themselves; see [WithSweep].
	Sure bool
	// Why says why it is not removed automatically. It is empty when Sure.
	Why string

	id string // of a container, since its name may be taken by another one
}

// String describes the leftover in one line. Characters that cannot be printed
// are escaped.
func (l Leftover) String() string { return l.found().String() }

// found is the leftover as it was found.
func (l Leftover) found() sandbox.Leftover {
	return sandbox.Leftover{
		Kind: l.Kind, Name: l.Name, ID: l.id, Owner: l.Owner, Created: l.Created,
		Ours: l.Ours, Sure: l.Sure, Why: l.Why,
	}
}

func leftoversOf(found []sandbox.Leftover) (all []Leftover) {
	for _, l := range found {
		all = append(all, Leftover{
			Kind: l.Kind, Name: l.Name, id: l.ID, Owner: l.Owner, Created: l.Created,
			Ours: l.Ours, Sure: l.Sure, Why: l.Why,
		})
	}
	return all
}

// Leftovers lists what dead processes left on the engine and on this machine,
// or may have left. It recognizes things only by their label, or by a file in
// them. Things that other users or earlier versions made, or that merely carry
// our label, are listed with Ours false. Without an engine it lists what is on
// this machine; with [DockerRequired] that is an error.
func Leftovers(ctx context.Context, opts ...RuntimeOption) ([]Leftover, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	o, err := newRuntimeOptions(opts)
	if err != nil {
		return nil, err
	}
	found := leftoversOf(append(sandbox.DirectoriesLeft(o.sandboxConfig().Self()), sandbox.FilesLeft(cmp.Or(o.workspace, "."))...))
	if o.docker == DockerNever {
		return found, nil
	}
	engine, err := o.engine(ctx)
	switch {
	case err == nil:
		defer engine.Close()
	case o.docker == DockerRequired:
		return nil, err
	default:
		return found, nil
	}
	onEngine, err := docker.Leftovers(ctx, engine, o.dockerConfig())
	return append(leftoversOf(onEngine), found...), err
}

// Prune removes leftovers that [Leftovers] listed, including those that are not
// Sure, since the caller has chosen them. A container that is not Sure is
// removed even while it runs. What pygent did not make, or a living process
// uses, is kept and causes an error, and Prune continues with the others.
func Prune(ctx context.Context, leftovers []Leftover, opts ...RuntimeOption) error {
	if ctx == nil {
		return errNilContext
	}
	o, err := newRuntimeOptions(opts)
	if err != nil {
		return err
	}
	var chosen []sandbox.Leftover
	for _, l := range leftovers {
		chosen = append(chosen, l.found())
	}
	return docker.Prune(ctx, o.sandboxConfig().Self(), chosen, o.engine)
}
