package pygent

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/docker/go-units"

	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/internal/docker"
	"github.com/x/pygent/internal/egress"
	"github.com/x/pygent/internal/jsonobj"
	wire "github.com/x/pygent/internal/openai"
	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/settings"
	"github.com/x/pygent/openai"
)

// Config holds every setting that files and the environment can give. A zero
// field is not set, and the default applies. [Config.Options] turns it into
// options of an agent.
//
// A Config may be printed, logged and encoded: keys, values of headers, the
// environment of commands and the query of the base URL show as "[redacted]".
type Config struct {
	Model        string    `json:"model,omitempty"`         // default gpt-4.1-mini
	Persona      Persona   `json:"persona,omitzero"`        // see [DefaultPersona]
	TaskPersonas []Persona `json:"task_personas,omitempty"` // personas that tasks can be delegated to

	Workspace    string   `json:"workspace,omitempty"`     // a directory to keep; default a temporary one
	InitialFiles []string `json:"initial_files,omitempty"` // copied into the workspace at the start
	Repositories []string `json:"repositories,omitempty"`  // of git, as [WithRepositories] takes them; default none
	HistoryFile  string   `json:"history_file,omitempty"`  // where the conversation is kept; default nowhere
	Snapshot     string   `json:"snapshot,omitempty"`      // directory of a snapshot to resume
	LogFile      string   `json:"log_file,omitempty"`      // where a session logs; default nowhere
	Script       string   `json:"script,omitempty"`        // start-up script, "none" for none; default config.star in the working directory

	Sessions      *bool         `json:"sessions,omitempty"`      // whether the command keeps sessions; default true
	SessionLimits SessionLimits `json:"session_limits,omitzero"` // of all sessions that the command keeps

	Instructions   *bool         `json:"instructions,omitempty"`                   // whether package project reads AGENTS.md; default true
	Survey         *bool         `json:"survey,omitempty"`                         // whether it tells the model what there is at the start; default true
	Skills         *bool         `json:"skills,omitempty"`                         // whether it tells the model of skills; default true
	SkillDirs      []string      `json:"skill_dirs,omitempty"`                     // directories with skills, besides those of the home: see project.Skills
	Compaction     *bool         `json:"compaction,omitempty"`                     // whether conversations that become too long are compacted: see [WithCompaction]; default true
	RetryTime      time.Duration `json:"-" seconds:"retry_time_seconds,omitempty"` // how long an overloaded server of the model is waited out: MaxWait of [RetryPolicy]
	ContextWindow  int64         `json:"context_window,omitempty"`                 // of the model, in tokens: see [WithContextWindow]
	ConfirmBash    *bool         `json:"confirm_bash,omitempty"`                   // whether a session asks before each command
	BannedCommands []string      `json:"banned_commands,omitempty"`                // commands that bash refuses to run: see [WithBannedCommands]
	BannedApps     []string      `json:"banned_apps,omitempty"`                    // programs that no command may run or name: see [WithBannedApps]
	DisabledTools  []string      `json:"disabled_tools,omitempty"`

	Container ContainerConfig  `json:"container,omitzero"`
	Local     LocalConfig      `json:"local,omitzero"`
	Limits    Limits           `json:"limits,omitzero"`
	OpenAI    openai.Config    `json:"openai,omitzero"`
	Prices    map[string]Price `json:"prices,omitempty"` // of models: see [WithPrices]

	MaxTasks   int    `json:"max_tasks,omitempty"`  // delegated tasks at once; default 3
	TaskLimits Limits `json:"task_limits,omitzero"` // of a delegated task; files and the environment set only MaxTime

	// Env is the environment of commands, by name.
	Env map[string]Secret `json:"env,omitempty"`

	// Files are the files that were read, in rising precedence.
	Files []string `json:"files,omitempty"`
	// Warnings report settings without effect: misspelt variables, directories of
	// skills that do not exist, and limits that a project's file tried to raise.
	Warnings []string `json:"warnings,omitempty"`

	// loaded reports whether the environment has been read.
	loaded bool
	// projectFiles are the InitialFiles that a project's file named.
	projectFiles map[string]sandbox.InitialFile
	// home is the path of the user's own file, whether it exists or not. It is
	// empty where no such file is read.
	home string
	// forbidden are disabled tools, and perhaps names of no tool.
	forbidden []string
	// given is what the sources gave, and named are the files that the caller named.
	given []settings.Given
	named []string
}

// MarshalJSON encodes the configuration without its secrets, and its times in seconds.
func (c Config) MarshalJSON() ([]byte, error) {
	type plain Config // has no methods, and so no recursion
	return jsonobj.MarshalSeconds(plain(c))
}

// String is the configuration as JSON, without its secrets.
func (c Config) String() string {
	data, err := c.MarshalJSON()
	if err != nil {
		return fmt.Sprintf("configuration: %v", err)
	}
	return string(data)
}

// GoString is the same as String: Go syntax would show addresses only.
func (c Config) GoString() string { return c.String() }

// LoadConfig reads the configuration of this process: the given files, of which
// later ones override earlier ones, then ./pygent.toml and ~/.pygent.toml where
// they exist. The environment overrides all files. See [ConfigSources] for what
// each may contain.
func LoadConfig(paths ...string) (Config, error) {
	return ConfigSources{Files: paths}.Load()
}

// ConfigSources says where a configuration comes from. The zero value is this
// process: its environment, working directory and home. In order of
// precedence:
//
//  1. Overrides, the "-e NAME=value" of a command line;
//  2. the environment;
//  3. Tables of the user;
//  4. Files, named by the user, the last one first;
//  5. Tables of a project;
//  6. pygent.toml in Dir, the project's file;
//  7. .pygent.toml in Home;
//  8. the defaults.
//
// Banned commands, banned apps and disabled tools of all sources add up: no
// source can allow what another one forbids. Allowed hosts add up as well,
// except that "none" discards the hosts of weaker sources.
//
// A project's file may have been written by a stranger. It may set personas,
// bans, initial files inside the project, and limits; any other key in it is an
// error, unless Files names the file. A limit takes effect only where it is
// lower than the user's, or than the default where the user set none; a higher
// one is reported in Warnings. Relative paths start at the working directory,
// those of the project's file at Dir; "~/" is Home.
//
// A misspelt key in a file is an error, and so is a misspelt setting among the
// overrides. In the environment, which other programs share, a variable
// PYGENT_… that is no setting is only a warning.
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
	// Tables are settings that the program read elsewhere, such as those of a
	// start-up script.
	Tables []ConfigTable
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

// Load reads all sources. It changes nothing, in particular not the process's
// environment. It reports all faults at once; find the single ones with
// errors.As and [*ConfigError].
func (s ConfigSources) Load() (Config, error) { return s.load((*settings.Set).Read) }

// loadVariables is Load without files and tables.
func (s ConfigSources) loadVariables() (Config, error) { return s.load((*settings.Set).ReadVariables) }

func (s ConfigSources) load(read func(*settings.Set, settings.Sources)) (Config, error) {
	c := Config{Limits: s.Limits}
	var inForce Config // with the limits as they were before a project's file lowers them
	set := settings.New(c.settings(&inForce)...)
	read(set, settings.Sources{
		Overrides: s.Overrides,
		Lookup:    s.Lookup,
		Environ:   s.Environ,
		Files:     s.Files,
		Tables:    tables(s.Tables),
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
	c.Files, c.Warnings = set.Files, append(set.Warnings, c.missingSkillDirs()...)
	c.loaded, c.home, c.given, c.named = true, set.Home, set.Given, s.named()
	return c, nil
}

// ConfigSetting is a value of a setting, and where it comes from.
type ConfigSetting struct {
	Key    string `json:"key,omitempty"`  // in a file, such as "limits.max_steps"; empty if only the environment can give it
	Source string `json:"source"`         // the file's path, "environment", "-e" or "default"
	Line   int    `json:"line,omitempty"` // in the file, from 1; 0 if there is none
	Name   string `json:"name,omitempty"` // the key or the variable, as the source has it
	Value  string `json:"value"`          // as the source has it, arrays and tables as JSON; a secret reads "[redacted]", and so do those of a URL
}

// Sources returns the values of a loaded configuration, and where they come
// from, in rising precedence. If a setting is there twice, the later value
// replaces the earlier one, or adds to it, as [ConfigSources] says. Settings that
// nothing gives come first, with their defaults; those that have none are not
// there.
func (c Config) Sources() []ConfigSetting {
	var all []ConfigSetting
	defaults := c.defaults()
	for _, s := range c.settings(new(Config)) {
		given := slices.ContainsFunc(c.given, func(g settings.Given) bool { return g.Key == s.Key })
		if value, ok := defaults[s.Key]; ok && !given {
			all = append(all, ConfigSetting{Key: s.Key, Source: fromDefault, Value: value})
		}
	}
	for _, g := range c.given {
		all = append(all, ConfigSetting(g))
	}
	return all
}

// fromDefault is the source of a setting that nothing gives.
const fromDefault = "default"

// defaults returns the defaults by key, as a file would have them.
func (c Config) defaults() map[string]string {
	c = c.withDefaultLimits()
	return map[string]string{
		"model":                   openai.DefaultName,
		"persona_name":            DefaultPersona().Name,
		"instructions":            "true",
		"survey":                  "true",
		"skills":                  "true",
		"compaction":              "true",
		"sessions":                "true",
		"max_sessions":            fmt.Sprint(DefaultMaxSessions),
		"max_sessions_size":       units.BytesSize(DefaultMaxSessionBytes),
		"max_sessions_age":        "90d",
		"container.use_docker":    "auto",
		"container.image":         DefaultImage,
		"container.network":       "none",
		"container.allowed_hosts": "none",
		"container.memory":        units.BytesSize(DefaultMemory),
		"container.pids":          fmt.Sprint(DefaultMaxPids),
		"limits.max_steps":        fmt.Sprint(c.Limits.MaxSteps),
		"limits.max_tool_calls":   fmt.Sprint(c.Limits.MaxToolCalls),
		"limits.max_time":         "none",
		"limits.max_tokens":       "none",
		"limits.max_cost":         "none",
		"limits.max_tasks":        fmt.Sprint(c.MaxTasks),
		"limits.task_timeout":     c.TaskLimits.MaxTime.String(),
		"openai.base_url":         wire.DefaultBaseURL,
		"openai.api":              string(openai.Auto),
	}
}

// environment returns the configuration that the environment alone gives.
// Agents and runtimes that were given none use it.
func environment() (Config, error) { return ConfigSources{}.loadVariables() }

func init() {
	bridge.Settings = func() []settings.Setting { return new(Config).settings(new(Config)) }
}

// settings returns the table of all settings: the name of each in files and in
// the environment, and the field that it sets. inForce has the limits that a
// project's file can only lower.
func (c *Config) settings(inForce *Config) []settings.Setting {
	return slices.Concat(c.ownSettings(), c.sessionSettings(), c.Container.settings(), c.Local.settings(), c.limitSettings(inForce), bridge.OpenAISettings(&c.OpenAI))
}

func (c *Config) ownSettings() []settings.Setting {
	return []settings.Setting{
		{Key: "model", Env: "PYGENT_MODEL", Value: settings.Word(&c.Model)},
		{Key: "persona_name", Env: "PYGENT_PERSONA_NAME", Project: true, Value: settings.String(&c.Persona.Name)},
		{Key: "persona", Env: "PYGENT_PERSONA", Project: true, Value: settings.String(&c.Persona.Description)},
		{Key: "task_personas", Env: "PYGENT_TASK_PERSONAS", Project: true, Value: settings.Personas(&c.TaskPersonas, newPersona)},
		{Env: "PYGENT_TASK_PERSONAS_JSON", Value: settings.PersonasJSON(&c.TaskPersonas, newPersona)},
		{Key: "workspace", Env: "PYGENT_WORKSPACE", Value: settings.Path(&c.Workspace)},
		{Key: "initial_files", Also: []string{"init_files"}, Env: "PYGENT_INIT_FILES", Project: true, Value: settings.Paths(&c.InitialFiles), After: c.confineInitialFiles},
		{Key: "git.repositories", Env: "PYGENT_REPOSITORIES", Value: settings.PathsThat(&c.Repositories, isLocalPath)},
		{Key: "history_file", Env: "PYGENT_HISTORY_FILE", Value: settings.Path(&c.HistoryFile)},
		{Key: "snapshot", Env: "PYGENT_SNAPSHOT", Value: settings.Path(&c.Snapshot)},
		{Key: "log_file", Env: "PYGENT_LOG_FILE", Value: settings.Path(&c.LogFile)},
		{Key: "script", Env: "PYGENT_SCRIPT", Value: settings.Path(&c.Script)},
		{Key: "instructions", Env: "PYGENT_INSTRUCTIONS", Value: settings.Bool(&c.Instructions)},
		{Key: "survey", Env: "PYGENT_SURVEY", Value: settings.Bool(&c.Survey)},
		{Key: "skills", Env: "PYGENT_SKILLS", Value: settings.Bool(&c.Skills)},
		{Key: "skill_dirs", Env: "PYGENT_SKILL_DIRS", Value: settings.Paths(&c.SkillDirs)},
		{Key: "compaction", Env: "PYGENT_COMPACTION", Value: settings.Bool(&c.Compaction)},
		{Key: "context_window", Env: "PYGENT_CONTEXT_WINDOW", Value: settings.Count(&c.ContextWindow)},
		{Key: "retry_time", Env: "PYGENT_RETRY_TIME", Value: settings.OrNone(settings.Duration(&c.RetryTime), NoLimit)},
		{Key: "confirm_bash", Env: "PYGENT_CONFIRM_BASH", Value: settings.Bool(&c.ConfirmBash)},
		{Key: "banned_commands", Env: "PYGENT_BANNED_COMMANDS", Project: true, AddsUp: true, Value: settings.AddBans(&c.BannedCommands)},
		{Key: "banned_apps", Env: "PYGENT_BANNED_APPS", Project: true, AddsUp: true, Value: settings.AddBans(&c.BannedApps)},
		{Key: "disabled_tools", Env: "PYGENT_DISABLED_TOOLS", Project: true, AddsUp: true, Value: settings.AddNames(&c.DisabledTools)},
		{Key: "prices", Env: "PYGENT_PRICES", Value: settings.Prices(&c.Prices, newPrice)},
		{Key: "env", Secret: true, Value: settings.Variables(&c.Env)},
	}
}

func (c *Config) limitSettings(inForce *Config) []settings.Setting {
	return []settings.Setting{
		{Key: "limits.max_steps", Env: "PYGENT_MAX_STEPS", Value: settings.Limit(settings.OrNone(settings.Int(&c.Limits.MaxSteps), NoLimit), &inForce.Limits.MaxSteps)},
		{Key: "limits.max_tool_calls", Env: "PYGENT_MAX_TOOL_CALLS", Value: settings.Limit(settings.OrNone(settings.Int(&c.Limits.MaxToolCalls), NoLimit), &inForce.Limits.MaxToolCalls)},
		{Key: "limits.step_timeout", Also: []string{"step_timeout"}, Env: "PYGENT_STEP_TIMEOUT", Value: settings.Limit(settings.OrNone(settings.Duration(&c.Limits.StepTimeout), NoLimit), &inForce.Limits.StepTimeout)},
		{Key: "limits.max_time", Env: "PYGENT_MAX_TIME", Value: settings.Limit(settings.OrNone(settings.Duration(&c.Limits.MaxTime), NoLimit), &inForce.Limits.MaxTime)},
		{Key: "limits.max_tokens", Env: "PYGENT_MAX_TOKENS", Value: settings.Limit(settings.OrNone(settings.Count(&c.Limits.MaxTokens), NoLimit), &inForce.Limits.MaxTokens)},
		{Key: "limits.max_cost", Env: "PYGENT_MAX_COST", Value: settings.Limit(settings.OrNone(settings.Money(&c.Limits.MaxCost), NoLimit), &inForce.Limits.MaxCost)},
		{Key: "limits.max_tasks", Also: []string{"max_tasks"}, Env: "PYGENT_MAX_TASKS", Value: settings.Limit(settings.OrNone(settings.Int(&c.MaxTasks), NoLimit), &inForce.MaxTasks)},
		{Key: "limits.task_timeout", Also: []string{"task_timeout"}, Env: "PYGENT_TASK_TIMEOUT", Value: settings.Limit(settings.OrNone(settings.Duration(&c.TaskLimits.MaxTime), NoLimit), &inForce.TaskLimits.MaxTime)},
	}
}

func newPersona(name, description string) Persona { return Persona{name, description} }

// Options turns the configuration into options of [New]. Options given after
// them override them. A field that is not set is left to its default, or, for a
// Config that was not loaded, first to the environment.
//
// Snapshot, LogFile, Script, Sessions and SessionLimits are for programs that start
// sessions, which call snapshot.Load. snapshot.Save copies the log. Instructions, Survey,
// Skills and SkillDirs have an effect by project.Read.
func (c Config) Options() []Option {
	if c.loaded {
		return []Option{environmentIncluded{}, fromConfig(c.options()...)}
	}
	return []Option{fromConfig(c.options()...)}
}

func (c Config) options() []Option {
	opts := []Option{
		option(func(o *options) {
			o.warnings = append(o.warnings, c.Warnings...)
			o.homeFile, o.saved.logFile = c.home, c.LogFile
			o.forbidden = append(o.forbidden, c.forbidden...)
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
	opts = append(opts, WithOpenAI(c.OpenAI.Options()...))
	if c.loaded {
		// c already has all that it takes from the environment: an override may
		// have unset a variable.
		opts = append(opts, WithOpenAI(openai.Env(nil)), WithPersona(c.Persona.orDefault()))
	} else if c.Persona != (Persona{}) {
		opts = append(opts, WithPersona(c.Persona.orDefault()))
	}
	opts = append(opts, priceOptions(c.Prices)...)
	opts = settings.IfGiven(opts, c.Model, WithModelName)
	opts = settings.IfGiven(opts, c.HistoryFile, WithHistoryFile)
	opts = append(opts, option(func(o *options) { c.setProject(&o.project) }))
	opts = settings.IfGiven(opts, c.ContextWindow, WithContextWindow)
	opts = settings.IfGiven(opts, c.RetryTime, func(d time.Duration) Option { return WithRetry(RetryPolicy{MaxWait: d}) })
	opts = settings.IfSet(opts, c.Compaction, func(on bool) Option { return WithCompaction(CompactionPolicy{Disabled: !on}) })
	return settings.IfSet(opts, c.ConfirmBash, WithConfirmBash)
}

// taskOptions are the options for the manager of the agent's tasks.
func (c Config) taskOptions() []TaskManagerOption {
	opts := []TaskManagerOption{TaskDefaults(c.TaskLimits)}
	if c.TaskPersonas != nil {
		opts = append(opts, TaskPersonas(c.TaskPersonas...))
	}
	return settings.IfGiven(opts, c.MaxTasks, MaxTasks)
}

// addAll appends the options of a part to those of the agent.
func addAll[O Option](opts []Option, part []O) []Option {
	for _, opt := range part {
		opts = append(opts, opt)
	}
	return opts
}

// setProject sets what package project reads.
func (c Config) setProject(p *bridge.Project) {
	if c.Instructions != nil {
		p.NoInstructions = !*c.Instructions
	}
	if c.Survey != nil {
		p.NoSurvey = !*c.Survey
	}
	if c.Skills != nil && !*c.Skills {
		p.NoWorkspaceSkills = true
		return
	}
	p.SkillDirs = slices.Concat(p.SkillDirs, c.SkillDirs)
	if c.home != "" { // else nobody said to read there
		for _, dir := range bridge.SkillDirs {
			p.SkillDirs = append(p.SkillDirs, filepath.Join(filepath.Dir(c.home), filepath.FromSlash(dir)))
		}
	}
}

// missingSkillDirs reports the directories of skills that were named and do not
// exist.
func (c *Config) missingSkillDirs() (warnings []string) {
	for _, dir := range c.SkillDirs {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			warnings = append(warnings, fmt.Sprintf("skill_dirs: %s is not a directory", dir))
		}
	}
	return warnings
}

// ConfigTable has settings that a program has read elsewhere than in a TOML file:
// in a start-up script, say.
type ConfigTable struct {
	Path string // where the settings are from, for errors
	Flag string // by which the user names such a source, to trust it; default "--config"
	// Project says that a stranger may have written it, as the file of a project: see
	// [ConfigSources].
	Project bool
	// Named says that the user named the source for this start, as Files of
	// [ConfigSources]: what it says holds before the setup of an agent that goes on,
	// see [Config.WithSetup].
	Named bool
	// Values are settings by key, as decoded from TOML: strings, bools, int64s,
	// float64s, []any, and map[string]any for a table such as "limits".
	Values map[string]any
	// Lines has the line of each key, as "limits.max_steps", for errors.
	Lines map[string]int
}

func tables(given []ConfigTable) (all []settings.Table) {
	for _, t := range given {
		all = append(all, settings.Table{Path: t.Path, Flag: cmp.Or(t.Flag, "--config"), Project: t.Project, Values: t.Values, Lines: t.Lines})
	}
	return all
}

// named returns the sources that the user named for this start.
func (s ConfigSources) named() []string {
	named := slices.Clone(s.Files)
	for _, t := range s.Tables {
		if t.Named {
			named = append(named, t.Path)
		}
	}
	return named
}

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
	return settings.IfGiven(opts, c.Workspace, WithWorkspace)
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
	opts = settings.IfGiven(opts, c.Docker, WithDocker)
	opts = settings.IfGiven(opts, c.Image, WithImage)
	opts = settings.IfGiven(opts, c.Network, WithNetwork)
	opts = append(opts, WithAllowedHosts(c.AllowedHosts...))
	opts = settings.IfGiven(opts, c.NetworkLimit, MaxNetworkBytes)
	opts = settings.IfGiven(opts, c.Memory, WithMemory)
	opts = settings.IfGiven(opts, c.CPUs, WithCPUs)
	opts = settings.IfGiven(opts, c.Pids, MaxPids)
	opts = settings.IfGiven(opts, c.User, WithContainerUser)
	opts = settings.IfGiven(opts, c.GPUs, WithGPUs)
	opts = settings.IfGiven(opts, c.DockerHost, WithDockerHost)
	opts = settings.IfSet(opts, c.ReadOnly, WithReadOnlyRoot)
	opts = settings.IfSet(opts, c.SharedFiles, WithSharedFiles)
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

// SessionLimits bound what is kept of sessions: see package sessions. For each, zero means
// the default and [NoLimit] none.
type SessionLimits struct {
	Max      int           `json:"max,omitempty"`                         // how many; default 500
	MaxBytes int64         `json:"max_size,omitempty"`                    // of all files together, with those of checkpoints; default 4 GiB
	MaxAge   time.Duration `json:"-" seconds:"max_age_seconds,omitempty"` // since a session was used last; default 90 days
}

// MarshalJSON encodes the age in seconds.
func (l SessionLimits) MarshalJSON() ([]byte, error) {
	type plain SessionLimits
	return jsonobj.MarshalSeconds(plain(l))
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (l *SessionLimits) UnmarshalJSON(data []byte) error {
	type plain SessionLimits
	return jsonobj.UnmarshalSeconds(data, (*plain)(l))
}

// The defaults of [SessionLimits].
const (
	DefaultMaxSessions     = 500
	DefaultMaxSessionBytes = 4 << 30
	DefaultMaxSessionAge   = 90 * 24 * time.Hour
)

// sessionSettings are the settings for what the command pygent keeps.
func (c *Config) sessionSettings() []settings.Setting {
	l := &c.SessionLimits
	return []settings.Setting{
		{Key: "sessions", Env: "PYGENT_SESSIONS", Value: settings.Bool(&c.Sessions)},
		{Key: "max_sessions", Env: "PYGENT_MAX_SESSIONS", Value: settings.OrNone(settings.Int(&l.Max), NoLimit)},
		{Key: "max_sessions_size", Env: "PYGENT_MAX_SESSIONS_SIZE", Value: settings.OrNone(settings.Bytes(&l.MaxBytes), NoLimit)},
		{Key: "max_sessions_age", Env: "PYGENT_MAX_SESSIONS_AGE", Value: settings.OrNone(settings.Duration(&l.MaxAge), NoLimit)},
	}
}

// WithSetup returns the configuration of an agent that goes on as one that was set up
// like s: what Overrides, Files and named Tables of [ConfigSources] gave holds, then
// what s says, and then the rest of c. What bans, disabled tools and allowed hosts c
// and s have adds up. That calls of bash needed no approval is not taken from s, since
// what they can reach may have changed.
func (c Config) WithSetup(s Setup) Config {
	t := taker{c.given, c.named}
	take(t, "model", &c.Model, s.Model)
	if !t.overridden("persona") {
		take(t, "persona_name", &c.Persona, s.Persona)
	}
	if !t.overridden("PYGENT_TASK_PERSONAS_JSON") {
		take(t, "task_personas", &c.TaskPersonas, s.TaskPersonas)
	}
	c.forbidden = union(c.forbidden, s.DisabledTools)
	c.BannedCommands, c.BannedApps = union(c.BannedCommands, s.BannedCommands), union(c.BannedApps, s.BannedApps)
	takeSwitch(t, "confirm_bash", &c.ConfirmBash, true, s.ConfirmBash != nil && *s.ConfirmBash)
	takeSwitch(t, "instructions", &c.Instructions, false, s.NoInstructions)
	takeSwitch(t, "survey", &c.Survey, false, s.NoSurvey)
	takeSwitch(t, "skills", &c.Skills, false, s.NoSkills)
	takeSwitch(t, "compaction", &c.Compaction, false, s.Compaction.Disabled)
	take(t, "context_window", &c.ContextWindow, s.ContextWindow)
	t.readLimits(&c, s)
	take(t, "git.repositories", &c.Repositories, s.Repositories)
	if s.Runtime.Kind != kindCustom {
		t.readContainer(&c.Container, s.Runtime.Container, s.Machine)
		t.readLocal(&c.Local, s.Runtime.Local)
	}
	return c
}

// taker takes values for settings that neither an override nor a file gave that the
// caller named.
type taker struct {
	given []settings.Given
	named []string
}

func (t taker) overridden(key string) bool {
	return slices.ContainsFunc(t.given, func(g settings.Given) bool {
		return cmp.Or(g.Key, g.Name) == key && (g.Source == "-e" || slices.Contains(t.named, g.Source))
	})
}

// take sets what at points to, unless it was given for good, or value is zero.
func take[T any](t taker, key string, at *T, value T) {
	if !reflect.ValueOf(value).IsZero() && !t.overridden(key) {
		*at = value
	}
}

// takeSwitch sets a switch to value if it was in that position, unless it was given for good.
func takeSwitch(t taker, key string, at **bool, value, was bool) {
	if was {
		take(t, key, at, &value)
	}
}

func (t taker) readLimits(c *Config, s Setup) {
	l := &c.Limits
	take(t, "limits.max_steps", &l.MaxSteps, s.Limits.MaxSteps)
	take(t, "limits.max_tool_calls", &l.MaxToolCalls, s.Limits.MaxToolCalls)
	take(t, "limits.step_timeout", &l.StepTimeout, s.Limits.StepTimeout)
	take(t, "limits.max_time", &l.MaxTime, s.Limits.MaxTime)
	take(t, "limits.max_tokens", &l.MaxTokens, s.Limits.MaxTokens)
	take(t, "limits.max_cost", &l.MaxCost, s.Limits.MaxCost)
	take(t, "limits.max_tasks", &c.MaxTasks, s.MaxTasks)
	take(t, "limits.task_timeout", &c.TaskLimits.MaxTime, s.TaskLimits.MaxTime)
}

func (t taker) readContainer(c *ContainerConfig, s, machine ContainerConfig) {
	take(t, "container.use_docker", &c.Docker, s.Docker)
	take(t, "container.image", &c.Image, s.Image)
	take(t, "container.network", &c.Network, s.Network)
	if !t.overridden("container.allowed_hosts") {
		c.AllowedHosts = union(c.AllowedHosts, s.AllowedHosts)
	}
	take(t, "container.network_limit", &c.NetworkLimit, s.NetworkLimit)
	take(t, "container.memory", &c.Memory, s.Memory)
	take(t, "container.cpus", &c.CPUs, s.CPUs)
	take(t, "container.pids", &c.Pids, s.Pids)
	take(t, "container.user", &c.User, s.User)
	take(t, "container.capabilities", &c.Capabilities, s.Capabilities)
	takeSwitch(t, "container.read_only", &c.ReadOnly, true, s.ReadOnly != nil && *s.ReadOnly)
	take(t, "container.gpus", &c.GPUs, s.GPUs)
	take(t, "container.docker_host", &c.DockerHost, machine.DockerHost)
	take(t, "container.mounts", &c.Mounts, machine.Mounts)
	take(t, "container.publish", &c.Publish, machine.Publish)
	take(t, "container.shared_files", &c.SharedFiles, machine.SharedFiles)
}

func (t taker) readLocal(c *LocalConfig, s LocalConfig) {
	take(t, "local.protection", &c.Protection, s.Protection)
	take(t, "local.readable", &c.Readable, s.Readable)
	take(t, "local.writable", &c.Writable, s.Writable)
	take(t, "local.env", &c.Env, s.Env)
}

// union returns the names of both lists, each once.
func union(a, b []string) []string {
	var all []string
	for _, name := range slices.Concat(a, b) {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}
