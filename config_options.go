package pygent

import (
	"maps"
	"slices"
	"time"
)

// Options turns the configuration into options of [New]. Options given after
// them go before them. What the configuration does not say is left to the
// defaults; of a Config that was not loaded, to the environment first.
//
// Snapshot and LogFile are no options of an agent: read them where sessions are
// started.
func (c Config) Options() []Option { return []Option{fromConfig(c.options()...)} }

func (c Config) options() []Option {
	opts := []Option{
		func(o *options) {
			o.configured = o.configured || c.loaded
			o.warnings = append(o.warnings, c.Warnings...)
			o.homeFile = c.home
		},
		WithRuntimeOptions(c.RuntimeOptions()...),
		WithRunDefaults(c.Limits.options()...),
		WithTasks(c.taskOptions()...),
		WithOpenAI(c.OpenAI.options()...),
		WithDisabledTools(c.DisabledTools...),
		WithBannedCommands(c.BannedCommands...),
		WithBannedApps(c.BannedApps...),
	}
	if c.loaded {
		// What of the environment holds is in c: an override may have
		// taken a variable away.
		opts = append(opts, WithOpenAI(OpenAIEnv(nil)), WithPersona(c.Persona.orDefault()))
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
	opts := []TaskManagerOption{TaskDefaults(TaskLimits{Timeout: c.Limits.TaskTimeout})}
	if c.TaskPersonas != nil {
		opts = append(opts, TaskPersonas(c.TaskPersonas...))
	}
	return given(opts, c.Limits.MaxTasks, MaxTasks)
}

// RuntimeOptions turns what the configuration says of the runtime into options
// of [NewRuntime], for runtimes without an agent. Options holds them too.
func (c Config) RuntimeOptions() []RuntimeOption {
	opts := append(c.Container.options(),
		func(o *runtimeOptions) { o.configured = o.configured || c.loaded },
		WithInitialFiles(c.InitialFiles...))
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		opts = append(opts, WithEnv(name+"="+string(c.Env[name])))
	}
	return given(opts, c.Workspace, WithWorkspace)
}

func (c ContainerConfig) options() []RuntimeOption {
	var opts []RuntimeOption
	opts = addIfSet(opts, c.UseDocker, func(use bool) RuntimeOption {
		if use {
			return WithDocker(DockerRequired)
		}
		return WithDocker(DockerNever)
	})
	opts = given(opts, c.Image, WithImage)
	opts = given(opts, c.Network, WithNetwork)
	opts = append(opts, WithAllowedHosts(c.AllowedHosts...))
	opts = given(opts, c.NetworkLimit, WithNetworkLimit)
	opts = given(opts, c.Memory, WithMemory)
	opts = given(opts, c.CPUs, WithCPUs)
	opts = given(opts, c.Pids, WithPidsLimit)
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

func (c LimitsConfig) options() []RunOption {
	var opts []RunOption
	opts = given(opts, c.MaxSteps, MaxSteps)
	opts = given(opts, c.MaxToolCalls, MaxToolCalls)
	opts = given(opts, c.StepTimeout, StepTimeout)
	opts = given(opts, c.MaxTime, MaxTime)
	return given(opts, c.MaxTokens, MaxTokens)
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
	if c.StallFirst != nil || c.StallBetween != nil {
		first, between := time.Duration(defaultFirstByte), time.Duration(defaultBetweenChunks)
		if c.StallFirst != nil {
			first = *c.StallFirst
		}
		if c.StallBetween != nil {
			between = *c.StallBetween
		}
		opts = append(opts, OpenAIStallTimeouts(first, between))
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
