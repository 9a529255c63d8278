package pygent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/x/pygent/internal/ban"
)

// setupVersion is the version of the JSON of a [Setup]. Readers refuse versions
// and fields that they do not know.
const setupVersion = 1

// Setup describes how an agent is set up, as JSON, so that another agent can be
// made like it: [Agent.Setup] makes it and [Setup.Options] is the way back. It
// has no function and no secret: neither the key, the address and the headers of
// the model's server nor the values of variables.
type Setup struct {
	Version      int       `json:"version"`
	Model        string    `json:"model,omitempty"` // the name that is asked for; empty if it is not known
	Persona      Persona   `json:"persona,omitzero"`
	TaskPersonas []Persona `json:"task_personas,omitempty"`

	Tools          []string `json:"tools,omitempty"`          // the names of those that are not disabled
	DisabledTools  []string `json:"disabled_tools,omitempty"` // perhaps names of tools that come later
	BannedCommands []string `json:"banned_commands,omitempty"`
	BannedApps     []string `json:"banned_apps,omitempty"`
	ApprovalFor    []string `json:"approval_for,omitempty"` // as [WithApprovalFor] takes them
	ApproveAll     bool     `json:"approve_all,omitempty"`  // calls of tools that are not ReadOnly need approval
	ConfirmBash    *bool    `json:"confirm_bash,omitempty"` // as [WithConfirmBash] takes it; nil for not set

	Hooks          int              `json:"hooks,omitempty"`           // how many extensions have any; they are not described
	NoInstructions bool             `json:"no_instructions,omitempty"` // as [WithInstructions] switches them off
	NoSurvey       bool             `json:"no_survey,omitempty"`       // as [WithSurvey]
	NoSkills       bool             `json:"no_skills,omitempty"`       // as [WithProjectSkills]
	ContextWindow  int64            `json:"context_window,omitempty"`  // in tokens; 0 if it was not given
	Compaction     CompactionPolicy `json:"compaction,omitzero"`

	Limits      Limits `json:"limits,omitzero"` // of a run; 0 for the default
	MaxReplies  int    `json:"max_replies,omitempty"`
	EndOnReply  bool   `json:"end_on_reply,omitempty"`
	EndOnAnswer bool   `json:"end_on_answer,omitempty"`
	MaxTasks    int    `json:"max_tasks,omitempty"`
	TaskLimits  Limits `json:"task_limits,omitzero"`

	// Runtime says where commands run, as it was asked for. It leaves out what is
	// true of one machine only, which Machine has.
	Runtime TaskRuntime `json:"runtime,omitzero"`
	// Machine has the engine's address, the mounts, and the published ports. A
	// snapshot leaves it out.
	Machine ContainerConfig `json:"machine,omitzero"`
	// Env names the variables that commands get, besides those that all get.
	Env []string `json:"env,omitempty"`
}

// Setup describes the agent as it is now. What a [Face] sets for its own time is
// left out, except that bash calls need approval.
func (a *Agent) Setup() Setup {
	a.mu.Lock()
	o, model, persona := a.opts, a.model, a.persona
	a.mu.Unlock()
	if o.confirmBash = a.approver.Confirm(); o.confirmBash == nil || !*o.confirmBash {
		_, o.confirmBash = a.approver.BeforeFace()
	}
	enabled, disabled := a.tools.names()
	var run runOptions
	setAll(&run, o.run, RunOption.setRun)
	s := Setup{
		Version:        setupVersion,
		Model:          model.asked(),
		Persona:        persona,
		Tools:          enabled,
		DisabledTools:  disabled,
		BannedCommands: slices.Clone(o.banned),
		BannedApps:     slices.Clone(o.bannedApps),
		ApprovalFor:    slices.Clone(o.approvalFor),
		ApproveAll:     o.approveAll,
		ConfirmBash:    o.confirmBash,
		Hooks:          a.extensions.hooks(),
		NoInstructions: !o.instructions,
		NoSurvey:       !o.survey,
		NoSkills:       !o.skills.project,
		ContextWindow:  o.window,
		Compaction:     o.compaction,
		Limits:         run.Limits,
		MaxReplies:     run.maxReplies,
		EndOnReply:     run.replyEnds,
		EndOnAnswer:    run.answerEnds,
	}
	if !a.tasks.given {
		var tasks taskManagerOptions
		setAll(&tasks, o.tasks, TaskManagerOption.setTaskManager)
		s.MaxTasks, s.TaskLimits, s.TaskPersonas = tasks.maxTasks, tasks.limits, slices.Clone(tasks.personas)
	}
	s.describe(a.runtime)
	return s
}

// describe says how the runtime was made.
func (s *Setup) describe(rt Runtime) {
	ours, ok := RuntimeAs[*workspaceRuntime](rt)
	if !ok {
		s.Runtime = TaskRuntime{Kind: kindCustom}
		return
	}
	o := ours.options
	s.Runtime = TaskRuntime{
		Kind: ours.info.Kind,
		Container: ContainerConfig{
			Docker:       o.docker,
			Image:        o.image,
			AllowedHosts: slices.Clone(o.allowedHosts),
			NetworkLimit: o.networkLimit,
			Memory:       o.memory,
			CPUs:         o.cpus,
			Pids:         o.pids,
			User:         o.user,
			Capabilities: slices.Clone(o.capabilities),
			ReadOnly:     &o.readOnlyRoot,
			GPUs:         o.gpus,
		},
		Local: LocalConfig{
			Protection: o.protection,
			Readable:   slices.Clone(o.readable),
			Writable:   slices.Clone(o.writable),
			Env:        slices.Clone(o.inherit),
		},
		MaxCopyBytes: o.copyLimit,
	}
	if o.network != noNetwork {
		s.Runtime.Container.Network = o.network
	}
	s.Machine = ContainerConfig{
		DockerHost:  o.dockerHost,
		Mounts:      slices.Clone(o.mounts),
		Publish:     slices.Clone(o.publishPorts),
		SharedFiles: o.sharedFiles,
	}
	for _, v := range o.env {
		name, _, _ := strings.Cut(v, "=")
		s.Env = append(s.Env, name)
	}
}

// UnmarshalJSON decodes a setup. It refuses versions and fields that this package
// does not know, because an agent could not keep to them, and invalid values.
func (s *Setup) UnmarshalJSON(data []byte) error {
	var head struct{ Version int }
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("setup of an agent: %w", err)
	}
	if head.Version != setupVersion {
		return fmt.Errorf("setup of an agent: version %d is not known here, only %d: a later pygent may have written it", head.Version, setupVersion)
	}
	type plain Setup // has no methods, and so no recursion
	var p plain
	in := struct {
		*plain
		Limits     limitsJSON `json:"limits"`
		TaskLimits limitsJSON `json:"task_limits"`
	}{&p, p.Limits.decoding(), p.TaskLimits.decoding()}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return fmt.Errorf("setup of an agent: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("setup of an agent: something follows it")
	}
	if err := Setup(p).check(); err != nil {
		return fmt.Errorf("setup of an agent: %w", err)
	}
	*s = Setup(p)
	return nil
}

// check refuses what no agent could be made from.
func (s Setup) check() error {
	if _, err := ban.New(s.BannedCommands, s.BannedApps); err != nil {
		return err
	}
	for _, err := range []error{s.Limits.check(), s.TaskLimits.check(), s.Compaction.check(), checkWindow(s.ContextWindow),
		checkLimit("MaxReplies", s.MaxReplies), checkLimit("MaxTasks", s.MaxTasks)} {
		if err != nil {
			return err
		}
	}
	return nil
}

// Options are the options for an agent like the one described. The setup must be
// the user's own: it chooses where commands run. Options after them override them,
// but bans, disabled tools and hosts add up. Variables have to be given again: Env
// names them.
func (s Setup) Options() []Option {
	opts := []Option{s.rules(), s.limits(), WithPersona(s.Persona), WithCompaction(s.Compaction), s.switches()}
	opts = given(opts, s.Model, WithModelName)
	opts = given(opts, s.ContextWindow, WithContextWindow)
	opts = addIfSet(opts, s.ConfirmBash, WithConfirmBash)
	opts = append(opts, MaxTasks(s.MaxTasks), TaskDefaults(s.TaskLimits), TaskPersonas(s.TaskPersonas...))
	if s.Runtime.Kind != kindCustom {
		opts = addAll(opts, slices.Concat(s.Runtime.Container.options(), s.Machine.options(), s.Runtime.Local.options()))
		opts = append(opts, MaxCopyBytes(s.Runtime.MaxCopyBytes))
	}
	return []Option{fromConfig(opts...)}
}

// rules returns the option for what the agent must not do, or must ask for. Tools
// that are built in and that the agent did not have stay away.
func (s Setup) rules() Option {
	return option(func(o *options) {
		o.banned = append(o.banned, s.BannedCommands...)
		o.bannedApps = append(o.bannedApps, s.BannedApps...)
		o.approvalFor = append(o.approvalFor, s.ApprovalFor...)
		o.inheritedFor = append(o.inheritedFor, s.ApprovalFor...)
		o.approveAll = o.approveAll || s.ApproveAll
		o.forbidden = append(o.forbidden, s.DisabledTools...)
		for name := range builtinTools() {
			if len(s.Tools) > 0 && !slices.Contains(s.Tools, name) {
				o.forbidden = append(o.forbidden, name)
			}
		}
	})
}

func (s Setup) limits() Option {
	return runOption(func(o *runOptions) {
		o.Limits, o.maxReplies, o.replyEnds, o.answerEnds = s.Limits.or(o.Limits), s.MaxReplies, s.EndOnReply, s.EndOnAnswer
	})
}

func (s Setup) switches() Option {
	return option(func(o *options) {
		o.instructions, o.survey, o.skills.project = !s.NoInstructions, !s.NoSurvey, !s.NoSkills
	})
}
