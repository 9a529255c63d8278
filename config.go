package pygent

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/x/pygent/internal/openai"
	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/settings"
)

// Config is every setting that files and the environment can give. A zero
// field means that nothing was said, and the default holds. Config.Options
// turns it into options of an agent.
//
// A Config may be printed, logged and encoded: the key, the headers' values
// and the commands' environment show as "[redacted]", and so does what the base
// URL has in its query.
type Config struct {
	Model        string    `json:"model,omitempty"`         // default gpt-4.1-mini
	Persona      Persona   `json:"persona,omitzero"`        // see [DefaultPersona]
	TaskPersonas []Persona `json:"task_personas,omitempty"` // whom tasks can be delegated to

	Workspace    string   `json:"workspace,omitempty"`     // a directory to keep; default a temporary one
	InitialFiles []string `json:"initial_files,omitempty"` // copied into the workspace at the start
	HistoryFile  string   `json:"history_file,omitempty"`  // where the conversation is kept; default nowhere
	Snapshot     string   `json:"snapshot,omitempty"`      // directory of a snapshot to resume
	LogFile      string   `json:"log_file,omitempty"`      // where a session logs; default nowhere

	Instructions   *bool    `json:"instructions,omitempty"`    // whether AGENTS.md is read; default true
	ConfirmBash    *bool    `json:"confirm_bash,omitempty"`    // whether a session asks before each command
	BannedCommands []string `json:"banned_commands,omitempty"` // commands that bash refuses to run: see [WithBannedCommands]
	BannedApps     []string `json:"banned_apps,omitempty"`     // programs that no command may run or name: see [WithBannedApps]
	DisabledTools  []string `json:"disabled_tools,omitempty"`

	Container ContainerConfig `json:"container,omitzero"`
	Local     LocalConfig     `json:"local,omitzero"`
	Limits    Limits          `json:"limits,omitzero"`
	OpenAI    OpenAIConfig    `json:"openai,omitzero"`

	MaxTasks   int    `json:"max_tasks,omitempty"`  // delegated tasks at once; default 3
	TaskLimits Limits `json:"task_limits,omitzero"` // of a delegated task; files and the environment set MaxTime alone

	// Env is the environment of commands, by name.
	Env map[string]Secret `json:"env,omitempty"`

	// Files are the files that were read, the one with the last word last.
	Files []string `json:"files,omitempty"`
	// Warnings say what was found that has no effect: misspelt variables, and
	// limits that a project's file would have raised.
	Warnings []string `json:"warnings,omitempty"`

	// loaded reports that the environment has been read.
	loaded bool
	// projectFiles are those of InitialFiles that a project's file named.
	projectFiles map[string]sandbox.InitialFile
	// home is the user's own file, whether it exists or not; empty where none is
	// read.
	home string
}

// ContainerConfig says where commands run, and how well they are locked in.
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

// LocalConfig says what commands may reach where they run on this machine.
type LocalConfig struct {
	Protection Protection `json:"protection,omitzero"` // default [ProtectionAuto]
	Readable   []string   `json:"readable,omitempty"`  // more paths to read and execute
	Writable   []string   `json:"writable,omitempty"`  // more paths to write
	Env        []string   `json:"env,omitempty"`       // names of more variables to inherit
}

// Limits bounds a run, or a task that is delegated. A zero field is one that
// nobody set: what is more general holds, and then the default. In JSON times are
// numbers of seconds, with fractions.
type Limits struct {
	MaxSteps     int           `json:"max_steps,omitempty"`      // default 20, of the command 100
	MaxToolCalls int           `json:"max_tool_calls,omitempty"` // default as [MaxToolCalls] says
	MaxTokens    int64         `json:"max_tokens,omitempty"`     // prompts and answers; default none, of a task a share of the run's: see [TaskManager]
	StepTimeout  time.Duration `json:"-"`                        // of a step; default none, of a task 5 minutes; in JSON step_timeout_seconds
	MaxTime      time.Duration `json:"-"`                        // default none, of a task, its start included, 20 minutes; in JSON max_time_seconds
}

// MarshalJSON gives the limits of time in seconds.
func (l Limits) MarshalJSON() ([]byte, error) {
	type plain Limits
	return json.Marshal(struct {
		plain
		StepTimeout jsonSeconds `json:"step_timeout_seconds,omitempty"`
		MaxTime     jsonSeconds `json:"max_time_seconds,omitempty"`
	}{plain(l), jsonSeconds(l.StepTimeout), jsonSeconds(l.MaxTime)})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (l *Limits) UnmarshalJSON(data []byte) error {
	type plain Limits
	in := struct {
		*plain
		StepTimeout *jsonSeconds `json:"step_timeout_seconds"`
		MaxTime     *jsonSeconds `json:"max_time_seconds"`
	}{(*plain)(l), (*jsonSeconds)(&l.StepTimeout), (*jsonSeconds)(&l.MaxTime)}
	return json.Unmarshal(data, &in)
}

// OpenAIConfig is how to reach a model through OpenAI's APIs, at OpenAI or at
// any server that speaks them.
type OpenAIConfig struct {
	API               OpenAIProtocol    `json:"api,omitempty"` // default [OpenAIAuto]
	APIKey            Secret            `json:"api_key,omitempty"`
	BaseURL           string            `json:"base_url,omitempty"` // default https://api.openai.com/v1
	Organization      string            `json:"organization,omitempty"`
	Project           string            `json:"project,omitempty"`
	Headers           map[string]Secret `json:"headers,omitempty"`             // added to each request
	ExtraBody         map[string]any    `json:"extra_body,omitempty"`          // fields added to each request; no place for secrets
	CAFile            string            `json:"ca_file,omitempty"`             // PEM certificates to trust besides the system's
	MaxTokens         int               `json:"max_tokens,omitempty"`          // of one answer; default the server's
	MaxTokensField    string            `json:"max_tokens_field,omitempty"`    // what the server calls that limit
	ParallelToolCalls *bool             `json:"parallel_tool_calls,omitempty"` // default the server's
	StallFirst        time.Duration     `json:"stall_first,omitempty"`         // longest wait for the first byte; default 5m
	StallBetween      time.Duration     `json:"stall_between,omitempty"`       // longest wait between chunks; default 3m
	AnswerTime        time.Duration     `json:"answer_time,omitempty"`         // longest time of one answer; default 30m
	SendReasoning     *bool             `json:"send_reasoning,omitempty"`      // whether reasoning goes back to the model; default true
}

// MarshalJSON encodes the configuration without its secrets.
func (c OpenAIConfig) MarshalJSON() ([]byte, error) {
	type plain OpenAIConfig // has no methods, and so no recursion
	c.BaseURL = openai.RedactURL(c.BaseURL)
	return json.Marshal(plain(c))
}

// String is the configuration as JSON, without its secrets.
func (c OpenAIConfig) String() string {
	data, err := c.MarshalJSON()
	if err != nil {
		return fmt.Sprintf("configuration: %v", err)
	}
	return string(data)
}

// GoString is the same as String.
func (c OpenAIConfig) GoString() string { return c.String() }

// LogValue is what log/slog shows: the same as String.
func (c OpenAIConfig) LogValue() slog.Value { return slog.StringValue(c.String()) }

// String is the configuration as JSON, without its secrets.
func (c Config) String() string {
	type plain Config // has no methods, and so no recursion
	data, err := json.Marshal(plain(c))
	if err != nil {
		return fmt.Sprintf("configuration: %v", err)
	}
	return string(data)
}

// GoString is the same as String: Go syntax would show addresses only.
func (c Config) GoString() string { return c.String() }

// LogValue is what log/slog shows: the same as String.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// LoadConfig reads the configuration of this process: the given files, of
// which later ones go before earlier ones, then ./pygent.toml and
// ~/.pygent.toml where they exist, all of them overruled by the environment.
// See [ConfigSources] for what each may say.
func LoadConfig(paths ...string) (Config, error) {
	return ConfigSources{Files: paths}.Load()
}

// ConfigSources says where a configuration comes from. The zero value is this
// process: its environment, working directory and home. In order of
// precedence:
//
//  1. Overrides, the "-e NAME=value" of a command line;
//  2. the environment;
//  3. Files, named by the user, the last one first;
//  4. pygent.toml in Dir, the project's file;
//  5. .pygent.toml in Home;
//  6. the defaults.
//
// Banned commands, banned apps and disabled tools add up instead: no source
// can allow again what another one forbids. Allowed hosts add up as well, but for
// "none", which takes back what weaker sources allow.
//
// The project's file was perhaps written by a stranger. It may set personas,
// bans, initial files inside the project, and limits; anything else in it is an
// error, unless Files names it. A limit has an effect only where it is lower
// than the user's, or than the default where the user set none; another one is
// told in Warnings. Relative paths start
// at the working directory, those of the project's file at Dir; "~/" is Home.
//
// A misspelt key in a file is an error, and so is a misspelt setting among the
// overrides. The environment is everybody's: there, a variable that is named
// PYGENT_… and is no setting is a warning.
type ConfigSources struct {
	// Overrides are variables by name. Those named OPENAI_… and PYGENT_… are
	// settings; the others become the environment of commands.
	Overrides map[string]string
	// Lookup reads the environment; nil is os.LookupEnv. An empty variable
	// counts as not set.
	Lookup func(name string) (string, bool)
	// Environ lists the environment as "NAME=value", so that misspelt names
	// are found. Nil is os.Environ, or nothing where Lookup is given.
	Environ func() []string
	// Files are files that must exist.
	Files []string
	// Dir is the project's directory; empty is the working directory.
	Dir string
	// Home is the user's directory; empty is os.UserHomeDir.
	Home string
	// NoFiles leaves out the files of Dir and Home.
	NoFiles bool
	// Limits hold where no source says otherwise. Zero fields are the
	// package's own defaults.
	Limits Limits
}

// Load reads all sources. It changes nothing: not the process's environment
// either. All that is wrong is reported at once; find the single faults with
// errors.As and [*ConfigError].
func (s ConfigSources) Load() (Config, error) {
	c := Config{Limits: s.Limits}
	var inForce Config // with the limits before a project's file lowers them
	set := settings.New(c.settings(&inForce)...)
	set.Read(settings.Sources{
		Overrides: s.Overrides,
		Lookup:    s.Lookup,
		Environ:   s.Environ,
		Files:     s.Files,
		Dir:       s.Dir,
		Home:      s.Home,
		NoFiles:   s.NoFiles,
	})
	inForce = c.withDefaultLimits()
	set.Lower()
	if err := configErrors(set.Faults); err != nil {
		return Config{}, err
	}
	for name, value := range set.Env {
		if c.Env == nil {
			c.Env = make(map[string]Secret)
		}
		c.Env[name] = Secret(value)
	}
	c.Files, c.Warnings = set.Files, set.Warnings
	c.loaded, c.home = true, set.Home
	return c, nil
}

// environment returns the configuration of an agent or a runtime that was given
// none: what the environment of this process says.
func environment() (Config, error) { return ConfigSources{NoFiles: true}.Load() }

// ConfigError is one fault of a configuration.
type ConfigError struct {
	Source string // the file's path, "environment" or "-e"
	Line   int    // in the file, from 1; 0 when there is none
	Column int    // in bytes, from 1
	Key    string // the key or variable; empty when the fault is no key's
	Err    error  // what is wrong
}

// Error reads like a compiler's: file, line, column, what is wrong.
func (e *ConfigError) Error() string {
	where := e.Source
	if e.Line > 0 {
		where = fmt.Sprintf("%s:%d:%d", e.Source, e.Line, e.Column)
	}
	if e.Key != "" {
		where += ": " + e.Key
	}
	return where + ": " + e.Err.Error()
}

// Unwrap returns what is wrong.
func (e *ConfigError) Unwrap() error { return e.Err }

// maxConfigErrors is how many faults one error tells.
const maxConfigErrors = 20

// configErrors returns the faults as one error, or nil if there are none.
func configErrors(faults []*settings.Fault) error {
	var errs []error
	for _, f := range faults[:min(len(faults), maxConfigErrors)] {
		errs = append(errs, (*ConfigError)(f))
	}
	if more := len(faults) - maxConfigErrors; more > 0 {
		errs = append(errs, fmt.Errorf("and %d faults more", more))
	}
	return errors.Join(errs...)
}

// Secret is a text that must not be seen: a key, or a header's value. However
// it is printed, logged or encoded, it says "[redacted]"; convert it to string
// to use it.
type Secret string

const redacted = "[redacted]"

// String says that the secret is there, not what it is.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format prints the same for every verb, so that none gives the secret away.
func (s Secret) Format(f fmt.State, verb rune) {
	// An error of f is fmt's own to keep.
	_, _ = fmt.Fprint(f, s.String())
}

// LogValue is what log/slog shows.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is what encoders write, JSON among them.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
