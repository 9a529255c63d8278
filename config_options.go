package pygent

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/x/pygent/internal/egress"
	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/settings"
)

// settings is the table of all settings: what each is called in a file and in
// the environment, and the field that it sets. inForce has the limits that a
// project's file can only lower.
func (c *Config) settings(inForce *Config) []settings.Setting {
	return slices.Concat(c.ownSettings(), c.Container.settings(), c.Local.settings(), c.limitSettings(inForce), c.OpenAI.settings())
}

func (c *Config) ownSettings() []settings.Setting {
	return []settings.Setting{
		{Key: "model", Env: "PYGENT_MODEL", Value: settings.String(&c.Model)},
		{Key: "persona_name", Env: "PYGENT_PERSONA_NAME", Project: true, Value: settings.String(&c.Persona.Name)},
		{Key: "persona", Env: "PYGENT_PERSONA", Project: true, Value: settings.String(&c.Persona.Description)},
		{Key: "task_personas", Env: "PYGENT_TASK_PERSONAS", Project: true, Value: settings.Personas(&c.TaskPersonas, newPersona)},
		{Env: "PYGENT_TASK_PERSONAS_JSON", Value: settings.PersonasJSON(&c.TaskPersonas, newPersona)},
		{Key: "workspace", Env: "PYGENT_WORKSPACE", Value: settings.Path(&c.Workspace)},
		{Key: "initial_files", Also: []string{"init_files"}, Env: "PYGENT_INIT_FILES", Project: true, Value: settings.Paths(&c.InitialFiles), After: c.confineInitialFiles},
		{Key: "history_file", Env: "PYGENT_HISTORY_FILE", Value: settings.Path(&c.HistoryFile)},
		{Key: "snapshot", Env: "PYGENT_SNAPSHOT", Value: settings.Path(&c.Snapshot)},
		{Key: "log_file", Env: "PYGENT_LOG_FILE", Value: settings.Path(&c.LogFile)},
		{Key: "instructions", Env: "PYGENT_INSTRUCTIONS", Value: settings.Bool(&c.Instructions)},
		{Key: "confirm_bash", Env: "PYGENT_CONFIRM_BASH", Value: settings.Bool(&c.ConfirmBash)},
		{Key: "banned_commands", Env: "PYGENT_BANNED_COMMANDS", Project: true, AddsUp: true, Value: settings.AddBans(&c.BannedCommands)},
		{Key: "banned_apps", Env: "PYGENT_BANNED_APPS", Project: true, AddsUp: true, Value: settings.AddBans(&c.BannedApps)},
		{Key: "disabled_tools", Env: "PYGENT_DISABLED_TOOLS", Project: true, AddsUp: true, Value: settings.AddNames(&c.DisabledTools)},
		{Key: "env", Secret: true, Value: settings.Variables(&c.Env)},
	}
}

func (c *ContainerConfig) settings() []settings.Setting {
	return []settings.Setting{
		{Key: "container.use_docker", Also: []string{"use_docker"}, Env: "PYGENT_USE_DOCKER", Value: settings.Switch(&c.Docker, `true (required), false (local) or "auto"`, DockerRequired, DockerNever, DockerAuto)},
		{Key: "container.image", Also: []string{"image"}, Env: "PYGENT_IMAGE", Value: settings.String(&c.Image)},
		{Key: "container.network", Env: "PYGENT_NETWORK", Value: settings.String(&c.Network)},
		{Key: "container.allowed_hosts", Env: "PYGENT_ALLOW_HOSTS", AddsUp: true, Value: hosts(&c.AllowedHosts)},
		{Key: "container.memory", Env: "PYGENT_MEMORY", Value: settings.Bytes(&c.Memory)},
		{Key: "container.cpus", Env: "PYGENT_CPUS", Value: settings.CPUs(&c.CPUs)},
		{Key: "container.pids", Env: "PYGENT_PIDS", Value: settings.Count(&c.Pids)},
		{Key: "container.user", Env: "PYGENT_USER", Value: settings.String(&c.User)},
		{Key: "container.capabilities", Env: "PYGENT_CAPS", Value: settings.NamesOrNone(&c.Capabilities)},
		{Key: "container.read_only", Env: "PYGENT_READ_ONLY", Value: settings.Bool(&c.ReadOnly)},
		{Key: "container.mounts", Env: "PYGENT_MOUNTS", Value: settings.Mounts(&c.Mounts, newMount)},
		{Key: "container.gpus", Env: "PYGENT_GPUS", Value: settings.GPUs(&c.GPUs)},
		{Key: "container.publish", Env: "PYGENT_PUBLISH", Value: settings.Names(&c.Publish)},
		{Key: "container.shared_files", Env: "PYGENT_SHARED_FILES", Value: settings.Bool(&c.SharedFiles)},
		{Key: "container.docker_host", Env: "PYGENT_DOCKER_HOST", Value: settings.String(&c.DockerHost)},
	}
}

func (c *LocalConfig) settings() []settings.Setting {
	return []settings.Setting{
		{Key: "local.protection", Env: "PYGENT_LOCAL_PROTECTION", Value: settings.Named(&c.Protection, `"auto", "required" or "off"`)},
		{Key: "local.readable", Env: "PYGENT_LOCAL_READABLE", Value: settings.Paths(&c.Readable)},
		{Key: "local.writable", Env: "PYGENT_LOCAL_WRITABLE", Value: settings.Paths(&c.Writable)},
		{Key: "local.env", Env: "PYGENT_LOCAL_ENV", Value: settings.Names(&c.Env)},
	}
}

func (c *Config) limitSettings(inForce *Config) []settings.Setting {
	return []settings.Setting{
		{Key: "limits.max_steps", Env: "PYGENT_MAX_STEPS", Value: settings.Limit(settings.OrNone(settings.Int(&c.Limits.MaxSteps), NoLimit), &inForce.Limits.MaxSteps)},
		{Key: "limits.max_tool_calls", Env: "PYGENT_MAX_TOOL_CALLS", Value: settings.Limit(settings.OrNone(settings.Int(&c.Limits.MaxToolCalls), NoLimit), &inForce.Limits.MaxToolCalls)},
		{Key: "limits.step_timeout", Also: []string{"step_timeout"}, Env: "PYGENT_STEP_TIMEOUT", Value: settings.Limit(settings.OrNone(settings.Duration(&c.Limits.StepTimeout), NoLimit), &inForce.Limits.StepTimeout)},
		{Key: "limits.max_time", Env: "PYGENT_MAX_TIME", Value: settings.Limit(settings.OrNone(settings.Duration(&c.Limits.MaxTime), NoLimit), &inForce.Limits.MaxTime)},
		{Key: "limits.max_tokens", Env: "PYGENT_MAX_TOKENS", Value: settings.Limit(settings.OrNone(settings.Count(&c.Limits.MaxTokens), NoLimit), &inForce.Limits.MaxTokens)},
		{Key: "limits.max_tasks", Also: []string{"max_tasks"}, Env: "PYGENT_MAX_TASKS", Value: settings.Limit(settings.OrNone(settings.Int(&c.MaxTasks), NoLimit), &inForce.MaxTasks)},
		{Key: "limits.task_timeout", Also: []string{"task_timeout"}, Env: "PYGENT_TASK_TIMEOUT", Value: settings.Limit(settings.OrNone(settings.Duration(&c.TaskLimits.MaxTime), NoLimit), &inForce.TaskLimits.MaxTime)},
	}
}

func (c *OpenAIConfig) settings() []settings.Setting {
	return []settings.Setting{
		{Key: "openai.api_key", Also: []string{"openai_api_key"}, Env: "OPENAI_API_KEY", Secret: true, Value: settings.Secret(&c.APIKey)},
		{Key: "openai.base_url", Also: []string{"openai_base_url"}, Env: "OPENAI_BASE_URL", Secret: true, Value: settings.URL(&c.BaseURL, `such as "https://api.openai.com/v1", without user or password (the key goes into api_key)`)},
		{Key: "openai.api", Env: "PYGENT_OPENAI_API", Value: settings.Choice(&c.API, `"auto", "chat" or "responses"`, OpenAIAuto, OpenAIChat, OpenAIResponses)},
		{Key: "openai.organization", Env: "OPENAI_ORG_ID", Value: settings.String(&c.Organization)},
		{Key: "openai.project", Env: "OPENAI_PROJECT_ID", Value: settings.String(&c.Project)},
		{Key: "openai.headers", Env: "PYGENT_OPENAI_HEADERS", Secret: true, Value: settings.Headers(&c.Headers)},
		{Key: "openai.extra_body", Env: "PYGENT_OPENAI_EXTRA_BODY", Secret: true, Value: settings.Object(&c.ExtraBody)},
		{Key: "openai.ca_file", Env: "PYGENT_OPENAI_CA_FILE", Value: settings.Path(&c.CAFile)},
		{Key: "openai.max_tokens", Env: "PYGENT_OPENAI_MAX_TOKENS", Value: settings.Int(&c.MaxTokens)},
		{Key: "openai.max_tokens_field", Env: "PYGENT_OPENAI_MAX_TOKENS_FIELD", Value: settings.String(&c.MaxTokensField)},
		{Key: "openai.parallel_tool_calls", Env: "PYGENT_OPENAI_PARALLEL_TOOL_CALLS", Value: settings.Bool(&c.ParallelToolCalls)},
		{Key: "openai.stall_first", Env: "PYGENT_OPENAI_STALL_FIRST", Value: settings.OrNone(settings.Duration(&c.StallFirst), NoLimit)},
		{Key: "openai.stall_between", Env: "PYGENT_OPENAI_STALL_BETWEEN", Value: settings.OrNone(settings.Duration(&c.StallBetween), NoLimit)},
		{Key: "openai.answer_time", Env: "PYGENT_OPENAI_ANSWER_TIME", Value: settings.OrNone(settings.Duration(&c.AnswerTime), NoLimit)},
		{Key: "openai.send_reasoning", Env: "PYGENT_OPENAI_SEND_REASONING", Value: settings.Bool(&c.SendReasoning)},
	}
}

func newPersona(name, description string) Persona { return Persona{name, description} }

func newMount(source, target string, readOnly bool) Mount { return Mount{source, target, readOnly} }

// hosts adds to the hosts that commands may reach; "none" takes back what was
// said before it, in weaker sources and in the same list: a host that the user
// allows for good is added to it.
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

// confineInitialFiles refuses initial files of a project's file that are not the
// project's own, as initial files are copied to where a model reads them. It
// notes where the others come from: what a name leads to is decided again when
// it is opened for the copy, below that directory. Files that the user named are
// not confined.
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

// Options turns the configuration into options of [New]. Options given after
// them go before them. What the configuration does not say is left to the
// defaults; of a Config that was not loaded, to the environment first.
//
// Snapshot and LogFile are no options of an agent: read them where sessions are
// started.
func (c Config) Options() []Option { return []Option{fromConfig(c.options()...)} }

func (c Config) options() []Option {
	opts := []Option{
		option(func(o *options) {
			o.configured = o.configured || c.loaded
			o.warnings = append(o.warnings, c.Warnings...)
			o.homeFile = c.home
		}),
		WithDisabledTools(c.DisabledTools...),
		WithBannedCommands(c.BannedCommands...),
		WithBannedApps(c.BannedApps...),
	}
	if c.Limits != (Limits{}) {
		opts = append(opts, c.Limits.option())
	}
	opts = addAll(opts, c.RuntimeOptions())
	opts = addAll(opts, c.taskOptions())
	opts = addAll(opts, c.OpenAI.options())
	if c.loaded {
		// What of the environment holds is in c: an override may have
		// taken a variable away.
		opts = append(opts, OpenAIEnv(nil), WithPersona(c.Persona.orDefault()))
	} else if c.Persona != (Persona{}) {
		opts = append(opts, WithPersona(c.Persona.orDefault()))
	}
	opts = given(opts, c.Model, WithModelName)
	opts = given(opts, c.HistoryFile, WithHistoryFile)
	opts = addIfSet(opts, c.Instructions, WithInstructions)
	return addIfSet(opts, c.ConfirmBash, WithConfirmBash)
}

// taskOptions are those of the manager of the agent's tasks.
func (c Config) taskOptions() []TaskManagerOption {
	opts := []TaskManagerOption{TaskDefaults(c.TaskLimits)}
	if c.TaskPersonas != nil {
		opts = append(opts, TaskPersonas(c.TaskPersonas...))
	}
	return given(opts, c.MaxTasks, MaxTasks)
}

// RuntimeOptions turns what the configuration says of the runtime into options
// of [NewRuntime], for runtimes without an agent. Options holds them too.
func (c Config) RuntimeOptions() []RuntimeOption {
	opts := slices.Concat(c.Container.options(), c.Local.options())
	opts = append(opts,
		runtimeOption{"", func(o *runtimeOptions) { o.configured = o.configured || c.loaded }},
		c.initialFiles())
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		opts = append(opts, WithEnv(name+"="+string(c.Env[name])))
	}
	return given(opts, c.Workspace, WithWorkspace)
}

// WritableDirs returns the directories of this machine that commands can write to
// and that stay: the workspace, and what else they were given. Files of a program
// that lie there may become links at any time. The error is one of the settings.
func (c Config) WritableDirs() ([]string, error) { return writableDirs(c.RuntimeOptions()) }

// initialFiles returns the initial files with what is known of their origin.
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

func (c LocalConfig) options() []RuntimeOption {
	opts := []RuntimeOption{WithLocalReadable(c.Readable...), WithLocalWritable(c.Writable...), WithLocalEnv(c.Env...)}
	return given(opts, c.Protection, WithLocalProtection)
}

// withDefaultLimits returns the configuration with the limits that it has by default
// where nothing was said. Zero is then what has no limit at all.
func (c Config) withDefaultLimits() Config {
	l := &c.Limits
	l.MaxSteps = cmp.Or(l.MaxSteps, defaultMaxSteps)
	l.MaxToolCalls = cmp.Or(l.MaxToolCalls, toolCallsFor(l.MaxSteps))
	l.StepTimeout = cmp.Or(l.StepTimeout, DefaultTaskStepTimeout) // which steps of tasks have
	c.MaxTasks = cmp.Or(c.MaxTasks, DefaultMaxTasks)
	c.TaskLimits.MaxTime = cmp.Or(c.TaskLimits.MaxTime, DefaultTaskMaxTime)
	return c
}

// or fills the fields of l that are zero with those of m.
func (l Limits) or(m Limits) Limits {
	return Limits{
		MaxSteps:     cmp.Or(l.MaxSteps, m.MaxSteps),
		MaxToolCalls: cmp.Or(l.MaxToolCalls, m.MaxToolCalls),
		MaxTokens:    cmp.Or(l.MaxTokens, m.MaxTokens),
		StepTimeout:  cmp.Or(l.StepTimeout, m.StepTimeout),
		MaxTime:      cmp.Or(l.MaxTime, m.MaxTime),
	}
}

func (l Limits) check() error {
	return cmp.Or(
		checkLimit("MaxSteps", l.MaxSteps),
		checkLimit("MaxToolCalls", l.MaxToolCalls),
		checkLimit("MaxTokens", l.MaxTokens),
		checkLimit("StepTimeout", l.StepTimeout),
		checkLimit("MaxTime", l.MaxTime),
	)
}

// option turns the limits into an option of a run.
func (l Limits) option() RunOption {
	return runOption(func(o *runOptions) { o.Limits = l.or(o.Limits) })
}

func (c OpenAIConfig) options() []OpenAIOption {
	var opts []OpenAIOption
	opts = given(opts, string(c.APIKey), OpenAIKey)
	opts = given(opts, c.BaseURL, OpenAIBaseURL)
	opts = given(opts, c.API, OpenAIAPI)
	opts = given(opts, c.CAFile, OpenAICAFile)
	opts = given(opts, c.MaxTokens, OpenAIMaxTokens)
	opts = given(opts, c.MaxTokensField, OpenAIMaxTokensField)
	opts = addIfSet(opts, c.ParallelToolCalls, OpenAIParallelToolCalls)
	opts = addIfSet(opts, c.SendReasoning, OpenAISendReasoning)
	opts = given(opts, c.AnswerTime, OpenAIAnswerTime)
	header := func(name string) func(string) OpenAIOption {
		return func(value string) OpenAIOption { return OpenAIHeader(name, value) }
	}
	opts = given(opts, c.Organization, header("OpenAI-Organization"))
	opts = given(opts, c.Project, header("OpenAI-Project"))
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		opts = append(opts, OpenAIHeader(name, string(c.Headers[name])))
	}
	if c.ExtraBody != nil {
		opts = append(opts, OpenAIExtraBody(c.ExtraBody))
	}
	if c.StallFirst != 0 || c.StallBetween != 0 {
		opts = append(opts, OpenAIStallTimeouts(c.StallFirst, c.StallBetween))
	}
	return opts
}

// addAll adds options of a part to those of the agent.
func addAll[O Option](opts []Option, part []O) []Option {
	for _, opt := range part {
		opts = append(opts, opt)
	}
	return opts
}

// given adds an option for a value that is not zero.
func given[O any, T comparable](opts []O, value T, option func(T) O) []O {
	var zero T
	if value == zero {
		return opts
	}
	return append(opts, option(value))
}

// addIfSet adds an option for a setting that was given, even as zero.
func addIfSet[O, T any](opts []O, value *T, option func(T) O) []O {
	if value == nil {
		return opts
	}
	return append(opts, option(*value))
}
