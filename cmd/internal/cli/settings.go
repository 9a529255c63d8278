package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/pathname"
)

// settings are the flags that every command understands. Each sets a variable
// (see the method variables) and takes precedence over the environment and the
// configuration files. A nil flag was not given.
type settings struct {
	Docker     *bool             `group:"Where commands run" help:"Run commands in Docker, or not at all." xor:"docker"`
	NoDocker   *bool             `group:"Where commands run" help:"Run commands on this machine, without a container." xor:"docker" often:""`
	Image      *string           `group:"Where commands run" help:"Docker image (default python:3.12-slim)." placeholder:"NAME"`
	AllowHost  []string          `group:"Where commands run" help:"Host that commands may reach, such as pypi.org." placeholder:"HOST" sep:"none" often:""`
	Network    *string           `group:"Where commands run" help:"Network of the container (default none)." placeholder:"NAME"`
	Memory     *string           `group:"Where commands run" help:"Memory of the container (default 512m)." placeholder:"SIZE"`
	CPUs       *string           `group:"Where commands run" help:"CPUs of the container (default all)." name:"cpus" placeholder:"N"`
	Pids       *string           `group:"Where commands run" help:"Processes in the container (default 256)." placeholder:"N"`
	User       *string           `group:"Where commands run" help:"User in the container (default the image's)." placeholder:"NAME"`
	ReadOnly   *bool             `group:"Where commands run" help:"Make the container's root file system read-only."`
	GPUs       *string           `group:"Where commands run" help:"GPUs to pass through: all, a number, or ids." name:"gpus" placeholder:"WHICH"`
	Cap        []string          `group:"Where commands run" help:"Linux capability to keep, instead of the default ones; none for none." placeholder:"NAME" sep:"none"`
	Mount      []string          `group:"Where commands run" help:"Mount a file or directory into the container." placeholder:"SOURCE:TARGET[:ro]" sep:"none"`
	Publish    []string          `group:"Where commands run" help:"Publish a port of the container on this machine; works without a network." placeholder:"[HOST:]PORT" sep:"none"`
	Cwd        bool              `group:"Files" help:"Work in the current directory." xor:"workspace" often:""`
	Workspace  *string           `group:"Files" help:"Work in DIR (default: a temporary directory)." placeholder:"DIR" xor:"workspace"`
	Repository []string          `group:"Files" help:"Let commands use the git repository in DIR, which the workspace belongs to." placeholder:"DIR" sep:"none"`
	History    *string           `group:"Files" help:"Store the conversation in FILE, and continue it if FILE exists." placeholder:"FILE"`
	NoSession  *bool             `group:"Files" help:"Do not store the session (default: store it, for --continue)."`
	Load       *string           `group:"Files" help:"Start from the snapshot in DIR, which /save wrote." placeholder:"DIR"`
	Model      *string           `group:"The model and its limits" help:"Model to use (default gpt-4.1-mini)." placeholder:"NAME" often:""`
	OmitTool   []string          `group:"The model and its limits" help:"Hide a tool from the model, and reject calls of it." placeholder:"NAME" sep:"none"`
	MaxSteps   *string           `group:"The model and its limits" help:"Limit of model calls in a run, or in a turn of a session (default 100)." placeholder:"N"`
	MaxCost    *string           `group:"The model and its limits" help:"Limit of the cost of a run, or of a turn of a session, including its tasks, in the currency of [prices] (default no limit)." placeholder:"AMOUNT"`
	RetryTime  *string           `group:"The model and its limits" help:"How long to retry while the model's server is overloaded or restarting (default 5m)." placeholder:"TIME"`
	Timeout    *string           `group:"The model and its limits" help:"Time limit of a run, or of a turn of a session, such as 10m (default no limit)." placeholder:"TIME"`
	Config     []string          `name:"config" group:"Settings" help:"Read settings from FILE." placeholder:"FILE" sep:"none"`
	Script     *string           `group:"Settings" help:"Run the start-up script FILE (default config.star here, if there is one)." placeholder:"FILE" aliases:"pyconfig" xor:"script"`
	NoScript   bool              `group:"Settings" help:"Run no start-up script." xor:"script"`
	Env        map[string]string `group:"Settings" help:"Set a variable: one of pygent's own, or of the commands' environment." short:"e" placeholder:"NAME=VALUE" mapsep:"none"`

	scripts scripts // those that have run
}

// maxSteps is the command's default. It is higher than the library's, because
// whoever starts a run by hand wants it done and can watch it. The limit of tool
// calls depends on it.
const maxSteps = 100

// ofContainer are the flags about the container. Without a container they would
// be limits that do not hold.
var ofContainer = []string{"--image", "--network", "--allow-host", "--memory", "--cpus", "--pids", "--user", "--read-only", "--gpus", "--cap", "--mount", "--publish"}

// flagVariable is a flag that was given, and the variable that it stands for.
type flagVariable struct{ flag, variable, value string }

// load reads the configuration, with settings that scripts have. Flags take
// precedence over everything else.
func (s *settings) load(tables ...pygent.ConfigTable) (pygent.Config, error) {
	flags, err := s.variables()
	if err != nil {
		return pygent.Config{}, err
	}
	overrides := maps.Clone(s.Env)
	if overrides == nil {
		overrides = map[string]string{}
	}
	for _, f := range flags {
		overrides[f.variable] = f.value
	}
	cfg, err := pygent.ConfigSources{
		Files:     s.Config,
		Overrides: overrides,
		Tables:    tables,
		Limits:    pygent.Limits{MaxSteps: maxSteps},
	}.Load()
	if err != nil {
		nameFlags(err, flags)
		return cfg, err
	}
	if err := cmp.Or(s.checkContainer(cfg, ""), s.checkNetwork(cfg)); err != nil {
		return cfg, err
	}
	// Hidden tools add up. An override would replace those of the environment.
	for _, names := range s.OmitTool {
		for name := range strings.SplitSeq(names, ",") {
			cfg.DisabledTools = append(cfg.DisabledTools, strings.TrimSpace(name))
		}
	}
	return cfg, nil
}

// checkNetwork refuses hosts that are allowed beside a network that reaches all.
func (s *settings) checkNetwork(cfg pygent.Config) error {
	c := cfg.Container
	if len(c.AllowedHosts) == 0 || c.Network == "" || c.Network == "none" || c.Docker == pygent.DockerNever {
		return nil
	}
	return fmt.Errorf("%s: the network %s reaches every host, so %s would not limit anything; leave one of them out",
		s.giverOf(cfg, "container.network", c.Network), c.Network, s.giverOf(cfg, "container.allowed_hosts", ""))
}

// giverOf is what gave a setting, or added a value to it: a flag, a variable, or a line
// of a file.
func (s *settings) giverOf(cfg pygent.Config, key, value string) string {
	flags, _ := s.variables() // load has checked them
	for _, given := range slices.Backward(cfg.Sources()) {
		if given.Key != key || !strings.Contains(given.Value, value) {
			continue
		}
		fromFile := given.Line > 0
		nameFlag(&given, flags)
		switch {
		case fromFile:
			return fmt.Sprintf("%s (%s)", given.Name, placeOf(given))
		case given.Name != "":
			return given.Name
		}
	}
	return key
}

// nameOmitted names in an error what hides a tool that there is not: the library speaks
// of tools that are disabled.
func (s *settings) nameOmitted(cfg pygent.Config, err error) error {
	if !errors.Is(err, pygent.ErrUnknownTool) {
		return err
	}
	fault := strings.TrimPrefix(err.Error(), "tools disabled: ")
	for _, name := range cfg.DisabledTools {
		if !strings.HasPrefix(fault, fmt.Sprintf("%v %q", pygent.ErrUnknownTool, name)) {
			continue
		}
		giver := s.giverOf(cfg, "disabled_tools", name)
		if strings.Contains(strings.Join(s.OmitTool, ","), name) {
			giver = "--omit-tool"
		}
		return fmt.Errorf("%s: %s", giver, fault)
	}
	return err
}

// checkContainer refuses flags about the container where there is none. who says who
// does without one; empty for the configuration.
func (s *settings) checkContainer(cfg pygent.Config, who string) error {
	flags, err := s.variables()
	if err != nil || cfg.Container.Docker != pygent.DockerNever {
		return err
	}
	for _, f := range flags {
		switch {
		case !slices.Contains(ofContainer, f.flag):
		case who != "":
			return fmt.Errorf("%s has no effect: %s without a container; leave it out, or add --docker", f.flag, who)
		default:
			return fmt.Errorf("%s has no effect without a container; leave it out, or add --docker", f.flag)
		}
	}
	return nil
}

// variables returns the flags that were given, with the variables that they
// stand for. An empty value is an error, because as a variable it would count as
// not set.
func (s *settings) variables() ([]flagVariable, error) {
	workspace := s.Workspace
	if s.Cwd {
		dir, err := os.Getwd()
		if err != nil {
			return nil, fmt.Errorf("--cwd: %w", err)
		}
		workspace = &dir
	}
	var given []flagVariable
	for _, f := range s.flagValues(workspace) {
		if f.value != nil {
			given = append(given, flagVariable{f.flag, f.variable, *f.value})
		}
	}
	return given, s.check(given)
}

// flagValue is a flag with the variable that it sets, and its value; nil if it was not given.
type flagValue struct {
	flag, variable string
	value          *string
}

func (s *settings) flagValues(workspace *string) []flagValue {
	var without *string
	if s.NoScript {
		none := noScript
		without = &none
	}
	return []flagValue{
		{"--docker", "PYGENT_USE_DOCKER", choice(s.Docker, "1", "auto")},
		{"--no-docker", "PYGENT_USE_DOCKER", choice(s.NoDocker, "0", "auto")},
		{"--image", "PYGENT_IMAGE", s.Image},
		{"--network", "PYGENT_NETWORK", s.Network},
		{"--allow-host", "PYGENT_ALLOW_HOSTS", list(s.AllowHost)},
		{"--memory", "PYGENT_MEMORY", s.Memory},
		{"--cpus", "PYGENT_CPUS", s.CPUs},
		{"--pids", "PYGENT_PIDS", s.Pids},
		{"--user", "PYGENT_USER", s.User},
		{"--read-only", "PYGENT_READ_ONLY", choice(s.ReadOnly, "1", "0")},
		{"--gpus", "PYGENT_GPUS", s.GPUs},
		{"--cap", "PYGENT_CAPS", list(s.Cap)},
		{"--mount", "PYGENT_MOUNTS", list(s.Mount)},
		{"--publish", "PYGENT_PUBLISH", list(s.Publish)},
		{"--workspace", "PYGENT_WORKSPACE", workspace},
		{"--repository", "PYGENT_REPOSITORIES", joined(s.Repository, string(os.PathListSeparator))},
		{"--history", "PYGENT_HISTORY_FILE", s.History},
		{"--load", "PYGENT_SNAPSHOT", s.Load},
		{"--no-session", "PYGENT_SESSIONS", choice(s.NoSession, "0", "1")},
		{"--model", "PYGENT_MODEL", s.Model},
		{"--max-steps", "PYGENT_MAX_STEPS", s.MaxSteps},
		{"--max-cost", "PYGENT_MAX_COST", s.MaxCost},
		{"--retry-time", "PYGENT_RETRY_TIME", s.RetryTime},
		{"--timeout", "PYGENT_MAX_TIME", s.Timeout},
		{"--script", "PYGENT_SCRIPT", s.Script},
		{"--no-script", "PYGENT_SCRIPT", without},
	}
}

// check refuses flags with an empty value, and mounts that the comma in them
// would split in two.
func (s *settings) check(given []flagVariable) error {
	for _, f := range given {
		if strings.TrimSpace(f.value) == "" {
			return fmt.Errorf("%s: the value is empty", f.flag)
		}
	}
	for flag, values := range map[string][]string{"--allow-host": s.AllowHost, "--cap": s.Cap, "--mount": s.Mount, "--publish": s.Publish, "--repository": s.Repository, "--config": s.Config, "--omit-tool": s.OmitTool} {
		for _, value := range values {
			if strings.TrimSpace(value) == "" {
				return fmt.Errorf("%s: the value is empty", flag)
			}
		}
	}
	for _, mount := range s.Mount {
		if strings.Contains(mount, ",") {
			return fmt.Errorf("--mount %s: a path with a comma does not work here; use [[container.mounts]] in a configuration file", mount)
		}
	}
	return nil
}

// choice returns the value of a switch as its variable has it, or nil if the
// switch was not given.
func choice(given *bool, on, off string) *string {
	switch {
	case given == nil:
		return nil
	case *given:
		return &on
	}
	return &off
}

// list joins the values of a flag that may be repeated, as its variable has them.
func list(values []string) *string { return joined(values, ",") }

func joined(values []string, sep string) *string {
	if len(values) == 0 {
		return nil
	}
	all := strings.Join(values, sep)
	return &all
}

// nameFlags makes the faults of a configuration name the flag that a value came
// from.
func nameFlags(err error, flags []flagVariable) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			nameFlags(one, flags)
		}
		return
	}
	var fault *pygent.ConfigError
	if !errors.As(err, &fault) || fault.Source != "-e" {
		return
	}
	for _, f := range flags {
		if f.variable == fault.Key {
			fault.Source, fault.Key = f.flag, ""
		}
	}
}

// options reads the configuration, runs the start-up scripts, and turns all of it
// into options of an agent, with a logger if the configuration names a file. change
// may change the configuration.
func (s *settings) options(ctx context.Context, change func(*pygent.Config) error) (pygent.Config, []pygent.Option, error) {
	cfg, logger, err := s.configure(ctx, openLog)
	if err == nil {
		err = change(&cfg)
	}
	if err != nil {
		return cfg, nil, err
	}
	for _, warning := range cfg.Warnings {
		warn(warning)
	}
	cfg.TaskPersonas = s.scripts.personas(cfg.TaskPersonas)
	more, err := s.scripts.options()
	if err != nil {
		return cfg, nil, err
	}
	opts := append(cfg.Options(), more...)
	if logger == nil {
		return cfg, opts, nil
	}
	logger.Info("pygent starts", "version", version(), "files", cfg.Files, "scripts", s.scripts.paths(), "configuration", cfg)
	return cfg, append(opts, pygent.WithLogger(logger)), nil
}

// configure reads the configuration and runs the scripts, which may have settings
// too. The logger is the one that open returns for the configuration, or nil.
func (s *settings) configure(ctx context.Context, open func(pygent.Config) (*slog.Logger, error)) (cfg pygent.Config, logger *slog.Logger, err error) {
	if cfg, err = s.load(); err != nil {
		return cfg, nil, err
	}
	if logger, err = open(cfg); err != nil {
		return cfg, nil, err
	}
	before := cfg.LogFile
	if s.scripts, err = s.loadScripts(ctx, cfg, logger); err != nil || s.scripts == nil {
		return cfg, logger, err
	}
	if cfg, err = s.load(s.scripts.tables(s.namedScript(cfg))...); err == nil && cfg.LogFile != before {
		logger, err = open(cfg)
	}
	return cfg, logger, err
}

// openLog returns a logger that appends to the file of the configuration, or nil if
// that names none. The file stays open until the process ends, which may log until
// then.
func openLog(cfg pygent.Config) (*slog.Logger, error) {
	if cfg.LogFile == "" {
		return nil, nil
	}
	dirs, err := cfg.WritableDirs()
	if err != nil {
		return nil, fmt.Errorf("log file: %w", err)
	}
	file, err := pathname.OpenInside(dirs, cfg.LogFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log file: %w", err)
	}
	noisy := newOutput(file, func(err error) { warn(fmt.Sprintf("log file: %v; logging has stopped", err)) })
	return slog.New(slog.NewTextHandler(noisy, &slog.HandlerOptions{Level: slog.LevelDebug})), nil
}
