package pygent

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/docker/go-units"

	"github.com/x/pygent/internal/docker"
	"github.com/x/pygent/internal/egress"
	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/settings"
)

// ContainerConfig says where commands run, and how they are confined.
type ContainerConfig struct {
	// Docker says whether commands run in a container. A file and a variable say
	// true for [DockerRequired] and false for [DockerNever].
	Docker       DockerMode `json:"use_docker,omitempty"`
	Image        string     `json:"image,omitempty"`         // default python:3.12-slim
	Network      string     `json:"network,omitempty"`       // the name of a Docker network; default "none"
	AllowedHosts []string   `json:"allowed_hosts,omitempty"` // as [WithAllowedHosts] takes them; default none
	NetworkLimit int64      `json:"network_limit,omitempty"` // bytes, as [MaxNetworkBytes] takes them; default [DefaultMaxNetworkBytes]
	Memory       int64      `json:"memory,omitempty"`        // bytes; default 512 MiB
	CPUs         float64    `json:"cpus,omitempty"`          // how many; default all
	Pids         int64      `json:"pids,omitempty"`          // processes at once; default 256
	User         string     `json:"user,omitempty"`          // "uid[:gid]" or a name of the image; default the image's
	Capabilities []string   `json:"capabilities,omitzero"`   // nil for the default few, empty for none
	ReadOnly     *bool      `json:"read_only,omitempty"`     // a root file system that cannot be written; default false
	Mounts       []Mount    `json:"mounts,omitempty"`        // besides the workspace; default none
	GPUs         string     `json:"gpus,omitempty"`          // "all", a number, or device ids; default none
	Publish      []string   `json:"publish,omitempty"`       // ports, as [WithPublish] takes them; default none
	SharedFiles  *bool      `json:"shared_files,omitempty"`  // whether the engine sees this machine's files; default as its address suggests
	DockerHost   string     `json:"docker_host,omitempty"`   // the engine's address; default as the docker command
}

func (c *ContainerConfig) settings() []settings.Setting {
	return []settings.Setting{
		{Key: "container.use_docker", Also: []string{"use_docker"}, Env: "PYGENT_USE_DOCKER", Value: settings.Switch(&c.Docker, `true (required), false (local) or "auto"`, DockerRequired, DockerNever, DockerAuto)},
		{Key: "container.image", Also: []string{"image"}, Env: "PYGENT_IMAGE", Value: settings.String(&c.Image)},
		{Key: "container.network", Env: "PYGENT_NETWORK", Value: settings.String(&c.Network)},
		{Key: "container.allowed_hosts", Env: "PYGENT_ALLOW_HOSTS", AddsUp: true, Value: hosts(&c.AllowedHosts)},
		{Key: "container.memory", Env: "PYGENT_MEMORY", Value: settings.OrNone(settings.Checked(settings.Bytes(&c.Memory), enoughMemory), NoLimit)},
		{Key: "container.cpus", Env: "PYGENT_CPUS", Value: settings.OrNone(settings.CPUs(&c.CPUs), NoLimit)},
		{Key: "container.pids", Env: "PYGENT_PIDS", Value: settings.OrNone(settings.Checked(settings.Count(&c.Pids), enoughPids), NoLimit)},
		{Key: "container.user", Env: "PYGENT_USER", Value: settings.String(&c.User)},
		{Key: "container.capabilities", Env: "PYGENT_CAPS", Value: settings.NamesOrNone(&c.Capabilities)},
		{Key: "container.read_only", Env: "PYGENT_READ_ONLY", Value: settings.Bool(&c.ReadOnly)},
		{Key: "container.mounts", Env: "PYGENT_MOUNTS", Value: settings.Mounts(&c.Mounts, newMount)},
		{Key: "container.gpus", Env: "PYGENT_GPUS", Value: settings.Checked(settings.GPUs(&c.GPUs), areGPUs)},
		{Key: "container.publish", Env: "PYGENT_PUBLISH", Value: settings.NamesThat(&c.Publish, isPublication)},
		{Key: "container.shared_files", Env: "PYGENT_SHARED_FILES", Value: settings.Bool(&c.SharedFiles)},
		{Key: "container.docker_host", Env: "PYGENT_DOCKER_HOST", Value: settings.String(&c.DockerHost)},
	}
}

// enoughMemory refuses a size for which no engine makes a container.
func enoughMemory(bytes int64) error {
	if bytes < leastMemory {
		return settings.Want("at least 6m, which engines ask for", settings.Text(units.BytesSize(float64(bytes))))
	}
	return nil
}

// enoughPids refuses a limit below which no container starts.
func enoughPids(n int64) error {
	if n < leastPids {
		return settings.Want(fmt.Sprintf("at least %d, which pygent's own processes and a command need", leastPids), settings.Text(fmt.Sprint(n)))
	}
	return nil
}

func areGPUs(text string) error {
	if docker.CheckGPUs(text) != nil {
		return settings.Want(`"all", a number, or ids such as "device=0,1"`, settings.Text(text))
	}
	return nil
}

func isPublication(text string) error {
	_, err := sandbox.ParsePublication(text)
	return err
}

func newMount(source, target string, readOnly bool) Mount { return Mount{source, target, readOnly} }

// hosts adds to the hosts that commands may reach. "none" discards all hosts
// before it, in weaker sources and in the same list. Hosts may follow it: one
// that the user allows for good is appended to the list.
func hosts(at *[]string) settings.Value {
	return settings.EachName(func(host string) error {
		if host == "none" {
			*at = nil
			return nil
		}
		if _, err := egress.ParsePattern(host); err != nil {
			return err
		}
		if !slices.Contains(*at, host) {
			*at = append(*at, host)
		}
		return nil
	})
}

// RuntimeOptions turns the runtime's settings into options of [NewRuntime], for
// runtimes without an agent. [Config.Options] includes them.
func (c Config) RuntimeOptions() []RuntimeOption {
	opts := slices.Concat(c.Container.options(), c.Local.options())
	if c.loaded {
		opts = append(opts, runtimeEnvironmentIncluded{})
	}
	opts = append(opts, c.initialFiles(), WithRepositories(c.Repositories...))
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		opts = append(opts, WithEnv(name+"="+string(c.Env[name])))
	}
	return given(opts, c.Workspace, WithWorkspace)
}

// initialFiles returns the initial files, each with the directory it must not
// leave, if any.
func (c *Config) initialFiles() RuntimeOption {
	files := make([]sandbox.InitialFile, len(c.InitialFiles))
	for i, path := range c.InitialFiles {
		file, ok := c.projectFiles[path]
		if !ok {
			file = sandbox.InitialFile{Text: path}
		}
		files[i] = file
	}
	return runtimeOption{"", func(o *runtimeOptions) { o.initialFiles = append(o.initialFiles, files...) }}
}

func (c ContainerConfig) options() []RuntimeOption {
	var opts []RuntimeOption
	opts = given(opts, c.Docker, WithDocker)
	opts = given(opts, c.Image, WithImage)
	opts = given(opts, c.Network, WithNetwork)
	opts = append(opts, WithAllowedHosts(c.AllowedHosts...))
	opts = given(opts, c.NetworkLimit, MaxNetworkBytes)
	opts = given(opts, c.Memory, WithMemory)
	opts = given(opts, c.CPUs, WithCPUs)
	opts = given(opts, c.Pids, MaxPids)
	opts = given(opts, c.User, WithContainerUser)
	opts = given(opts, c.GPUs, WithGPUs)
	opts = given(opts, c.DockerHost, WithDockerHost)
	opts = addIfSet(opts, c.ReadOnly, WithReadOnlyRoot)
	opts = addIfSet(opts, c.SharedFiles, WithSharedFiles)
	opts = append(opts, WithPublish(c.Publish...))
	if c.Capabilities != nil {
		opts = append(opts, WithCapabilities(c.Capabilities...))
	}
	for _, m := range c.Mounts {
		opts = append(opts, WithMounts(m))
	}
	return opts
}

// confineInitialFiles refuses initial files of a project's file that lie
// outside the project, because initial files are copied to where a model reads
// them. It records where the others come from: when such a name is opened for
// the copy, it is resolved again, below that directory. Files that the user
// named are not confined.
func (c *Config) confineInitialFiles(project string) error {
	c.projectFiles = nil
	if project == "" {
		return nil
	}
	c.projectFiles = make(map[string]sandbox.InitialFile)
	for i, path := range c.InitialFiles {
		file := sandbox.InitialFile{Text: path, Project: project}
		if err := file.Check(); err != nil {
			return settings.At(fmt.Sprintf("[%d]", i), err)
		}
		c.InitialFiles[i] = filepath.Join(project, path)
		c.projectFiles[c.InitialFiles[i]] = file
	}
	return nil
}
