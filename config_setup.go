package pygent

import (
	"reflect"
	"slices"
	"time"

	"github.com/x/pygent/internal/settings"
)

// SessionLimits bound what is kept of sessions: see package sessions. For each, zero means
// the default and [NoLimit] none.
type SessionLimits struct {
	Max      int           `json:"max,omitempty"`      // how many; default 500
	MaxBytes int64         `json:"max_size,omitempty"` // of all files together, with those of checkpoints; default 4 GiB
	MaxAge   time.Duration `json:"max_age,omitempty"`  // since a session was used last; default 90 days
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
	take(t, "task_personas", &c.TaskPersonas, s.TaskPersonas)
	c.forbidden = union(c.forbidden, s.DisabledTools)
	c.BannedCommands, c.BannedApps = union(c.BannedCommands, s.BannedCommands), union(c.BannedApps, s.BannedApps)
	if s.ConfirmBash != nil && *s.ConfirmBash {
		take(t, "confirm_bash", &c.ConfirmBash, s.ConfirmBash)
	}
	for key, off := range map[string]struct {
		at  **bool
		off bool
	}{
		"instructions": {&c.Instructions, s.NoInstructions},
		"survey":       {&c.Survey, s.NoSurvey},
		"skills":       {&c.Skills, s.NoSkills},
		"compaction":   {&c.Compaction, s.Compaction.Disabled},
	} {
		if off.off {
			take(t, key, off.at, new(false))
		}
	}
	take(t, "context_window", &c.ContextWindow, s.ContextWindow)
	t.takeLimits(&c, s)
	if s.Runtime.Kind != kindCustom {
		t.takeContainer(&c.Container, s.Runtime.Container, s.Machine)
		t.takeLocal(&c.Local, s.Runtime.Local)
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
		return g.Key == key && (g.Source == "-e" || slices.Contains(t.named, g.Source))
	})
}

// take sets what at points to, unless it was given for good, or value is zero.
func take[T any](t taker, key string, at *T, value T) {
	if !reflect.ValueOf(value).IsZero() && !t.overridden(key) {
		*at = value
	}
}

func (t taker) takeLimits(c *Config, s Setup) {
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

func (t taker) takeContainer(c *ContainerConfig, s, machine ContainerConfig) {
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
	if s.ReadOnly != nil && *s.ReadOnly {
		take(t, "container.read_only", &c.ReadOnly, s.ReadOnly)
	}
	take(t, "container.gpus", &c.GPUs, s.GPUs)
	take(t, "container.docker_host", &c.DockerHost, machine.DockerHost)
	take(t, "container.mounts", &c.Mounts, machine.Mounts)
	take(t, "container.publish", &c.Publish, machine.Publish)
	take(t, "container.shared_files", &c.SharedFiles, machine.SharedFiles)
}

func (t taker) takeLocal(c *LocalConfig, s LocalConfig) {
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
