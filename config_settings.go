package pygent

import (
	"errors"
	"slices"
	"time"
)

// setting is one thing that can be configured: what it is called in each
// source, and how a value gets into a [Config].
type setting struct {
	key     string   // in a file, with its table: "container.memory"
	also    []string // other keys for the same
	env     string   // the variable; empty when there is none
	project bool     // whether a project's file may set it
	addsUp  bool     // whether no source replaces what another one says
	secret  bool     // whether a bad value must not be shown

	// set puts a value into c: [text] of a variable, or what TOML gave.
	set func(c *Config, value any) error
}

// hide keeps a secret's value out of an error about it.
func (s *setting) hide(err error) error {
	if bad := (*valueError)(nil); s.secret && errors.As(err, &bad) {
		blank := *bad
		blank.got, blank.hidden = nil, true
		return &blank
	}
	return err
}

// configSettings are all settings. Where two variables mean the same field,
// the later one wins.
var configSettings = []setting{
	{key: "model", env: "PYGENT_MODEL", set: to(asString, func(c *Config) *string { return &c.Model })},
	{key: "persona_name", env: "PYGENT_PERSONA_NAME", project: true, set: to(asString, func(c *Config) *string { return &c.Persona.Name })},
	{key: "persona", env: "PYGENT_PERSONA", project: true, set: to(asString, func(c *Config) *string { return &c.Persona.Description })},
	{key: "task_personas", env: "PYGENT_TASK_PERSONAS", project: true, set: to(asPersonas, func(c *Config) *[]Persona { return &c.TaskPersonas })},
	{env: "PYGENT_TASK_PERSONAS_JSON", set: to(asPersonasJSON, func(c *Config) *[]Persona { return &c.TaskPersonas })},
	{key: "workspace", env: "PYGENT_WORKSPACE", set: to(asString, func(c *Config) *string { return &c.Workspace })},
	{key: "initial_files", also: []string{"init_files"}, env: "PYGENT_INIT_FILES", project: true, set: to(asPaths, func(c *Config) *[]string { return &c.InitialFiles })},
	{key: "history_file", env: "PYGENT_HISTORY_FILE", set: to(asString, func(c *Config) *string { return &c.HistoryFile })},
	{key: "snapshot", env: "PYGENT_SNAPSHOT", set: to(asString, func(c *Config) *string { return &c.Snapshot })},
	{key: "log_file", env: "PYGENT_LOG_FILE", set: to(asString, func(c *Config) *string { return &c.LogFile })},
	{key: "instructions", env: "PYGENT_INSTRUCTIONS", set: to(ptr(asBool), func(c *Config) **bool { return &c.Instructions })},
	{key: "confirm_bash", env: "PYGENT_CONFIRM_BASH", set: to(ptr(asBool), func(c *Config) **bool { return &c.ConfirmBash })},
	{key: "banned_commands", env: "PYGENT_BANNED_COMMANDS", project: true, addsUp: true, set: add(asBans, func(c *Config) *[]string { return &c.BannedCommands })},
	{key: "banned_apps", env: "PYGENT_BANNED_APPS", project: true, addsUp: true, set: add(asBans, func(c *Config) *[]string { return &c.BannedApps })},
	{key: "disabled_tools", env: "PYGENT_DISABLED_TOOLS", project: true, addsUp: true, set: add(asNames, func(c *Config) *[]string { return &c.DisabledTools })},
	{key: "env", set: merge(asEnv, func(c *Config) *map[string]Secret { return &c.Env }), secret: true},

	{key: "container.use_docker", also: []string{"use_docker"}, env: "PYGENT_USE_DOCKER", set: to(asUseDocker, func(c *Config) **bool { return &c.Container.UseDocker })},
	{key: "container.image", also: []string{"image"}, env: "PYGENT_IMAGE", set: to(asString, func(c *Config) *string { return &c.Container.Image })},
	{key: "container.network", env: "PYGENT_NETWORK", set: to(asString, func(c *Config) *string { return &c.Container.Network })},
	{key: "container.allowed_hosts", env: "PYGENT_ALLOW_HOSTS", addsUp: true, set: addHosts},
	{key: "container.memory", env: "PYGENT_MEMORY", set: to(asBytes, func(c *Config) *int64 { return &c.Container.Memory })},
	{key: "container.cpus", env: "PYGENT_CPUS", set: to(asCPUs, func(c *Config) *float64 { return &c.Container.CPUs })},
	{key: "container.pids", env: "PYGENT_PIDS", set: to(asCount, func(c *Config) *int64 { return &c.Container.Pids })},
	{key: "container.user", env: "PYGENT_USER", set: to(asString, func(c *Config) *string { return &c.Container.User })},
	{key: "container.capabilities", env: "PYGENT_CAPS", set: to(asCapabilities, func(c *Config) *[]string { return &c.Container.Capabilities })},
	{key: "container.read_only", env: "PYGENT_READ_ONLY", set: to(ptr(asBool), func(c *Config) **bool { return &c.Container.ReadOnly })},
	{key: "container.mounts", env: "PYGENT_MOUNTS", set: to(asMounts, func(c *Config) *[]Mount { return &c.Container.Mounts })},
	{key: "container.gpus", env: "PYGENT_GPUS", set: to(asGPUs, func(c *Config) *string { return &c.Container.GPUs })},
	{key: "container.publish", env: "PYGENT_PUBLISH", set: to(asNames, func(c *Config) *[]string { return &c.Container.Publish })},
	{key: "container.shared_files", env: "PYGENT_SHARED_FILES", set: to(ptr(asBool), func(c *Config) **bool { return &c.Container.SharedFiles })},
	{key: "container.docker_host", env: "PYGENT_DOCKER_HOST", set: to(asString, func(c *Config) *string { return &c.Container.DockerHost })},

	{key: "limits.max_steps", env: "PYGENT_MAX_STEPS", project: true, set: to(asInt, func(c *Config) *int { return &c.Limits.MaxSteps })},
	{key: "limits.max_tool_calls", env: "PYGENT_MAX_TOOL_CALLS", project: true, set: to(asInt, func(c *Config) *int { return &c.Limits.MaxToolCalls })},
	{key: "limits.step_timeout", also: []string{"step_timeout"}, env: "PYGENT_STEP_TIMEOUT", project: true, set: to(asDuration, func(c *Config) *time.Duration { return &c.Limits.StepTimeout })},
	{key: "limits.max_time", env: "PYGENT_MAX_TIME", project: true, set: to(asDuration, func(c *Config) *time.Duration { return &c.Limits.MaxTime })},
	{key: "limits.max_tokens", env: "PYGENT_MAX_TOKENS", set: to(asCount, func(c *Config) *int64 { return &c.Limits.MaxTokens })},
	{key: "limits.max_tasks", also: []string{"max_tasks"}, env: "PYGENT_MAX_TASKS", set: to(asInt, func(c *Config) *int { return &c.Limits.MaxTasks })},
	{key: "limits.task_timeout", also: []string{"task_timeout"}, env: "PYGENT_TASK_TIMEOUT", project: true, set: to(asDuration, func(c *Config) *time.Duration { return &c.Limits.TaskTimeout })},

	{key: "openai.api_key", also: []string{"openai_api_key"}, env: "OPENAI_API_KEY", secret: true, set: to(asSecret, func(c *Config) *Secret { return &c.OpenAI.APIKey })},
	{key: "openai.base_url", also: []string{"openai_base_url"}, env: "OPENAI_BASE_URL", secret: true, set: to(asURL, func(c *Config) *string { return &c.OpenAI.BaseURL })},
	{key: "openai.api", env: "PYGENT_OPENAI_API", set: to(asProtocol, func(c *Config) *OpenAIProtocol { return &c.OpenAI.API })},
	{key: "openai.organization", env: "OPENAI_ORG_ID", set: to(asString, func(c *Config) *string { return &c.OpenAI.Organization })},
	{key: "openai.project", env: "OPENAI_PROJECT_ID", set: to(asString, func(c *Config) *string { return &c.OpenAI.Project })},
	{key: "openai.headers", env: "PYGENT_OPENAI_HEADERS", secret: true, set: merge(asHeaders, func(c *Config) *map[string]Secret { return &c.OpenAI.Headers })},
	{key: "openai.extra_body", env: "PYGENT_OPENAI_EXTRA_BODY", secret: true, set: to(asObject, func(c *Config) *map[string]any { return &c.OpenAI.ExtraBody })},
	{key: "openai.ca_file", env: "PYGENT_OPENAI_CA_FILE", set: to(asString, func(c *Config) *string { return &c.OpenAI.CAFile })},
	{key: "openai.max_tokens", env: "PYGENT_OPENAI_MAX_TOKENS", set: to(asInt, func(c *Config) *int { return &c.OpenAI.MaxTokens })},
	{key: "openai.max_tokens_field", env: "PYGENT_OPENAI_MAX_TOKENS_FIELD", set: to(asString, func(c *Config) *string { return &c.OpenAI.MaxTokensField })},
	{key: "openai.parallel_tool_calls", env: "PYGENT_OPENAI_PARALLEL_TOOL_CALLS", set: to(ptr(asBool), func(c *Config) **bool { return &c.OpenAI.ParallelToolCalls })},
	{key: "openai.stall_first", env: "PYGENT_OPENAI_STALL_FIRST", set: to(ptr(asDurationOrZero), func(c *Config) **time.Duration { return &c.OpenAI.StallFirst })},
	{key: "openai.stall_between", env: "PYGENT_OPENAI_STALL_BETWEEN", set: to(ptr(asDurationOrZero), func(c *Config) **time.Duration { return &c.OpenAI.StallBetween })},
	{key: "openai.send_reasoning", env: "PYGENT_OPENAI_SEND_REASONING", set: to(ptr(asBool), func(c *Config) **bool { return &c.OpenAI.SendReasoning })},
}

// to makes a setting replace a field.
func to[T any](parse func(any) (T, error), field func(*Config) *T) func(*Config, any) error {
	return func(c *Config, value any) error {
		v, err := parse(value)
		if err == nil {
			*field(c) = v
		}
		return err
	}
}

// add makes a setting add to a list what is not on it yet.
func add(parse func(any) ([]string, error), field func(*Config) *[]string) func(*Config, any) error {
	return func(c *Config, value any) error {
		list, err := parse(value)
		for _, v := range list {
			if at := field(c); !slices.Contains(*at, v) {
				*at = append(*at, v)
			}
		}
		return err
	}
}

// merge makes a setting add to a map, and replace what has the same name.
func merge(parse func(any) (map[string]Secret, error), field func(*Config) *map[string]Secret) func(*Config, any) error {
	return func(c *Config, value any) error {
		entries, err := parse(value)
		for name, v := range entries {
			at := field(c)
			if *at == nil {
				*at = make(map[string]Secret)
			}
			(*at)[name] = v
		}
		return err
	}
}

// ptr makes of a parser one whose result tells "nothing said" from zero.
func ptr[T any](parse func(any) (T, error)) func(any) (*T, error) {
	return func(value any) (*T, error) {
		v, err := parse(value)
		if err != nil {
			return nil, err
		}
		return &v, nil
	}
}
