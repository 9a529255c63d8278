package main

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/x/pygent"
)

// settings are the flags that every command understands. They go before the
// environment and the configuration files.
type settings struct {
	Docker    bool              `help:"Run commands in Docker, or not at all." xor:"docker"`
	NoDocker  bool              `help:"Run commands on this machine, without isolation." xor:"docker"`
	Image     string            `help:"Docker image (default python:3.12-slim)." placeholder:"NAME"`
	Network   string            `help:"Network of the container (default none)." placeholder:"NAME"`
	Memory    string            `help:"Memory of the container (default 512m)." placeholder:"SIZE"`
	CPUs      float64           `help:"CPUs of the container." name:"cpus" placeholder:"N"`
	Pids      int64             `help:"Processes in the container (default 256)." placeholder:"N"`
	User      string            `help:"User in the container." placeholder:"NAME"`
	ReadOnly  bool              `help:"Make the container's root file system read-only."`
	GPUs      string            `help:"GPUs to pass through: all, a number, or ids." name:"gpus" placeholder:"WHICH"`
	Cap       []string          `help:"Capability to keep, instead of the default few; none keeps none." placeholder:"NAME"`
	Mount     []string          `help:"Show a file or directory to the container." placeholder:"SOURCE:TARGET[:ro]" sep:"none"`
	Publish   []string          `help:"Make a port of the container reachable here." placeholder:"[HOST:]PORT" sep:"none"`
	Workspace string            `help:"Directory to work in, kept afterwards (default a temporary one)." placeholder:"DIR" xor:"workspace"`
	Cwd       bool              `help:"Work in the current directory." xor:"workspace"`
	Model     string            `help:"Model to use (default gpt-4.1-mini)." placeholder:"NAME"`
	Config    []string          `help:"Read settings from FILE." placeholder:"FILE" sep:"none"`
	Env       map[string]string `help:"Set a variable: one of pygent's own, or of the commands' environment." short:"e" placeholder:"NAME=VALUE" mapsep:"none"`
	MaxSteps  int               `help:"Model calls a run may make (default 20)." placeholder:"N"`
	Timeout   time.Duration     `help:"Time a run may take, such as 10m." placeholder:"TIME"`
	OmitTool  []string          `help:"Hide a tool from the model, and refuse it." placeholder:"NAME"`
}

// load reads the configuration and lays the flags over it.
func (s *settings) load() (pygent.Config, error) {
	cfg, err := pygent.ConfigSources{Files: s.Config, Overrides: s.overrides()}.Load()
	if err != nil {
		return cfg, err
	}
	if s.Docker || s.NoDocker {
		cfg.Container.UseDocker = &s.Docker
	}
	if s.Memory != "" {
		if cfg.Container.Memory, err = units.RAMInBytes(s.Memory); err != nil {
			return cfg, fmt.Errorf("--memory %s: %w; write it as 512m or 2g", s.Memory, err)
		}
	}
	if s.Cwd {
		if cfg.Workspace, err = os.Getwd(); err != nil {
			return cfg, fmt.Errorf("--cwd: %w", err)
		}
	}
	if s.ReadOnly {
		cfg.Container.ReadOnly = &s.ReadOnly
	}
	override(&cfg.Workspace, s.Workspace)
	override(&cfg.Model, s.Model)
	override(&cfg.Container.Image, s.Image)
	override(&cfg.Container.Network, s.Network)
	override(&cfg.Container.CPUs, s.CPUs)
	override(&cfg.Container.Pids, s.Pids)
	override(&cfg.Container.User, s.User)
	override(&cfg.Container.GPUs, s.GPUs)
	override(&cfg.Limits.MaxSteps, s.MaxSteps)
	override(&cfg.Limits.MaxTime, s.Timeout)
	cfg.DisabledTools = append(cfg.DisabledTools, s.OmitTool...)
	return cfg, nil
}

// overrides are the variables of -e, and the flags whose values are lists in
// the form that their variables have.
func (s *settings) overrides() map[string]string {
	all := maps.Clone(s.Env)
	if all == nil {
		all = map[string]string{}
	}
	for name, values := range map[string][]string{"PYGENT_CAPS": s.Cap, "PYGENT_MOUNTS": s.Mount, "PYGENT_PUBLISH": s.Publish} {
		if len(values) > 0 {
			all[name] = strings.Join(values, ",")
		}
	}
	return all
}

// override replaces a setting by a flag that was given.
func override[T comparable](setting *T, flag T) {
	var none T
	if flag != none {
		*setting = flag
	}
}

// options reads the configuration and turns it into options of an agent, with
// a logger where the configuration names a file.
func (s *settings) options() (pygent.Config, []pygent.Option, error) {
	cfg, err := s.load()
	if err != nil {
		return cfg, nil, err
	}
	if cfg.Snapshot != "" {
		return cfg, nil, fmt.Errorf("snapshot %s: snapshots cannot be resumed yet; unset PYGENT_SNAPSHOT, and keep conversations with PYGENT_HISTORY_FILE and files with --workspace", cfg.Snapshot)
	}
	opts := cfg.Options()
	if cfg.LogFile == "" {
		return cfg, opts, nil
	}
	// The file is closed by the end of the process, which may log until then.
	file, err := os.OpenFile(cfg.LogFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return cfg, nil, fmt.Errorf("log file: %w", err)
	}
	return cfg, append(opts, pygent.WithLogger(slog.New(slog.NewTextHandler(file, nil)))), nil
}
