package pygent

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
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
	Limits    LimitsConfig    `json:"limits,omitzero"`
	OpenAI    OpenAIConfig    `json:"openai,omitzero"`

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
	projectFiles map[string]initialFile
	// home is the user's own file, whether it exists or not; empty where none is
	// read.
	home string
}

// ContainerConfig says where commands run, and how well they are locked in.
type ContainerConfig struct {
	// UseDocker is true when Docker is required, false when commands run
	// locally, nil for Docker where an engine answers and local where not.
	UseDocker    *bool    `json:"use_docker,omitempty"`
	Image        string   `json:"image,omitempty"`         // default python:3.12-slim
	Network      string   `json:"network,omitempty"`       // the name of a Docker network; default "none"
	AllowedHosts []string `json:"allowed_hosts,omitempty"` // as [WithAllowedHosts] takes them; default none
	NetworkLimit int64    `json:"network_limit,omitempty"` // bytes, as [WithNetworkLimit] takes them; default [DefaultNetworkLimit]
	Memory       int64    `json:"memory,omitempty"`        // bytes; default 512 MiB
	CPUs         float64  `json:"cpus,omitempty"`          // how many; default all
	Pids         int64    `json:"pids,omitempty"`          // processes at once; default 256
	User         string   `json:"user,omitempty"`          // "uid[:gid]" or a name of the image; default the image's
	Capabilities []string `json:"capabilities,omitzero"`   // nil for the default few, empty for none
	ReadOnly     *bool    `json:"read_only,omitempty"`     // a root file system that cannot be written; default false
	Mounts       []Mount  `json:"mounts,omitempty"`        // besides the workspace; default none
	GPUs         string   `json:"gpus,omitempty"`          // "all", a number, or device ids; default none
	Publish      []string `json:"publish,omitempty"`       // ports, as [WithPublish] takes them; default none
	SharedFiles  *bool    `json:"shared_files,omitempty"`  // whether the engine sees this machine's files; default as its address suggests
	DockerHost   string   `json:"docker_host,omitempty"`   // the engine's address; default as the docker command
}

// LocalConfig says what commands may reach where they run on this machine.
type LocalConfig struct {
	Protection Protection `json:"protection,omitzero"` // default [ProtectionAuto]
	Readable   []string   `json:"readable,omitempty"`  // more paths to read and execute
	Writable   []string   `json:"writable,omitempty"`  // more paths to write
	Env        []string   `json:"env,omitempty"`       // names of more variables to inherit
}

// LimitsConfig bounds a run. Zero means the default.
type LimitsConfig struct {
	MaxSteps     int           `json:"max_steps,omitempty"`      // default 20, of the command 100
	MaxToolCalls int           `json:"max_tool_calls,omitempty"` // default as [MaxToolCalls] says
	StepTimeout  time.Duration `json:"step_timeout,omitempty"`   // of a step; default none, of delegated tasks 5 minutes
	MaxTime      time.Duration `json:"max_time,omitempty"`       // of a run; default none
	MaxTokens    int64         `json:"max_tokens,omitempty"`     // of a run, prompts and answers; default none
	MaxTasks     int           `json:"max_tasks,omitempty"`      // delegated tasks at once; default 3
	TaskTimeout  time.Duration `json:"task_timeout,omitempty"`   // of a delegated task; default 20 minutes
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
	StallFirst        *time.Duration    `json:"stall_first,omitempty"`         // longest wait for the first byte; 0 is for ever; default 5m
	StallBetween      *time.Duration    `json:"stall_between,omitempty"`       // longest wait between chunks; 0 is for ever; default 3m
	AnswerTime        *time.Duration    `json:"answer_time,omitempty"`         // longest time of one answer; 0 is for ever; default 30m
	SendReasoning     *bool             `json:"send_reasoning,omitempty"`      // whether reasoning goes back to the model; default true
}

// MarshalJSON encodes the configuration without its secrets.
func (c OpenAIConfig) MarshalJSON() ([]byte, error) {
	type plain OpenAIConfig // has no methods, and so no recursion
	c.BaseURL = redactURL(c.BaseURL)
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
	Limits LimitsConfig
}

// Load reads all sources. It changes nothing: not the process's environment
// either. All that is wrong is reported at once; find the single faults with
// errors.As and [*ConfigError].
func (s ConfigSources) Load() (Config, error) {
	l := configLoad{sources: s.withDefaults()}
	l.config.Limits = s.Limits
	l.files()
	l.environment()
	l.overrides()
	l.lowerLimits()
	if err := joinFaults(l.faults); err != nil {
		return Config{}, err
	}
	l.config.expandHome(l.sources.Home)
	l.config.loaded = true
	return l.config, nil
}

func (s ConfigSources) withDefaults() ConfigSources {
	if s.Environ == nil && s.Lookup == nil {
		s.Environ = os.Environ
	}
	if s.Lookup == nil {
		s.Lookup = os.LookupEnv
	}
	if s.Home == "" {
		// Without a home there is no file in it, and "~/" stays as it is.
		s.Home, _ = os.UserHomeDir()
	}
	return s
}

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

// maxConfigFaults is how many faults one error tells.
const maxConfigFaults = 20

func joinFaults(faults []error) error {
	if more := len(faults) - maxConfigFaults; more > 0 {
		faults = append(faults[:maxConfigFaults:maxConfigFaults], fmt.Errorf("and %d faults more", more))
	}
	return errors.Join(faults...)
}

// configLoad is a configuration being put together, the weakest source first.
type configLoad struct {
	sources ConfigSources
	config  Config
	faults  []error
	asked   []askedLimit      // by the project's file
	users   map[*setting]bool // set by the user where that goes before the project's file
}

// userSet notes settings that the user made where these go before the project's
// file.
func (l *configLoad) userSet(settings ...*setting) {
	if l.users == nil {
		l.users = make(map[*setting]bool)
	}
	for _, s := range settings {
		l.users[s] = true
	}
}

// files reads the home file, the project's and the named ones.
func (l *configLoad) files() {
	if !l.sources.NoFiles {
		if l.sources.Home != "" {
			l.config.home = filepath.Join(l.sources.Home, homeFile)
			l.optionalFile(l.config.home, trusted)
		}
		// A project's file that the user names is read where it is named.
		if project := filepath.Join(l.sources.Dir, projectFile); !l.isNamed(project) {
			l.optionalFile(project, untrusted)
		}
	}
	for _, path := range l.sources.Files {
		l.file(expandHome(path, l.sources.Home), trusted, true)
	}
}

// isNamed reports whether the user named the file at path.
func (l *configLoad) isNamed(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	for _, name := range l.sources.Files {
		if named, err := os.Stat(expandHome(name, l.sources.Home)); err == nil && os.SameFile(info, named) {
			return true
		}
	}
	return false
}

// expandHome makes "~/" the user's home in every path.
func (c *Config) expandHome(home string) {
	for _, path := range []*string{&c.Workspace, &c.HistoryFile, &c.Snapshot, &c.LogFile, &c.OpenAI.CAFile} {
		*path = expandHome(*path, home)
	}
	for _, paths := range [][]string{c.Local.Readable, c.Local.Writable} {
		for i := range paths {
			paths[i] = expandHome(paths[i], home)
		}
	}
	for i := range c.InitialFiles {
		c.InitialFiles[i] = expandHome(c.InitialFiles[i], home)
	}
	for i := range c.Container.Mounts {
		c.Container.Mounts[i].Source = expandHome(c.Container.Mounts[i].Source, home)
	}
}

func expandHome(path, home string) string {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok || home == "" || rest != "" && !os.IsPathSeparator(rest[0]) {
		return path
	}
	return filepath.Join(home, rest)
}

// WritableDirs returns the directories of this machine that commands can write to
// and that stay: the workspace, and what else they were given. Files of a program
// that lie there may become links at any time. The error is one of the settings.
func (c Config) WritableDirs() ([]string, error) { return writableDirs(c.RuntimeOptions()) }
