package pygent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/x/pygent/internal/denylist"
	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/settings"
	"github.com/x/pygent/internal/snapshot"
	"github.com/x/pygent/internal/tempname"
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
	NoInstructions bool             `json:"no_instructions,omitempty"` // as project.Instructions switches them off
	NoSurvey       bool             `json:"no_survey,omitempty"`       // as project.Survey
	NoSkills       bool             `json:"no_skills,omitempty"`       // as project.WorkspaceSkills
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
	Machine      ContainerConfig `json:"machine,omitzero"`
	Repositories []string        `json:"repositories,omitempty"` // as [WithRepositories] takes them, also of one machine
	// Env names the variables that commands get, besides those that all get.
	Env []string `json:"env,omitempty"`
}

// Setup describes the agent as it is now. What a [Face] sets for its own time is
// left out, except that bash calls need approval.
func (a *Agent) Setup() Setup {
	o, model, persona := a.opts, a.model.current(), a.Persona()
	if o.confirmBash = a.deciders.approver.Confirm(); o.confirmBash == nil || !*o.confirmBash {
		_, o.confirmBash = a.deciders.approver.BeforeFace()
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
		NoInstructions: o.project.NoInstructions,
		NoSurvey:       o.project.NoSurvey,
		NoSkills:       o.project.NoWorkspaceSkills,
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
	s.Runtime = TaskRuntime{Kind: ours.info.Kind, Container: o.container(), Local: o.local(), MaxCopyBytes: o.copyLimit}
	if o.network == noNetwork {
		s.Runtime.Container.Network = ""
	}
	s.Machine = ContainerConfig{
		DockerHost:  o.dockerHost,
		Mounts:      slices.Clone(o.mounts),
		Publish:     slices.Clone(o.publishPorts),
		SharedFiles: o.sharedFiles,
	}
	s.Repositories = slices.Clone(o.repositories)
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
	if _, err := denylist.New(s.BannedCommands, s.BannedApps); err != nil {
		return err
	}
	for _, err := range []error{s.Limits.check(), s.TaskLimits.check(), s.Compaction.check(), checkWindow(s.ContextWindow),
		settings.CheckLimit("MaxReplies", s.MaxReplies), settings.CheckLimit("MaxTasks", s.MaxTasks)} {
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
	opts = settings.IfGiven(opts, s.Model, WithModelName)
	opts = settings.IfGiven(opts, s.ContextWindow, WithContextWindow)
	opts = settings.IfSet(opts, s.ConfirmBash, WithConfirmBash)
	opts = append(opts, MaxTasks(s.MaxTasks), TaskDefaults(s.TaskLimits), TaskPersonas(s.TaskPersonas...))
	if s.Runtime.Kind != kindCustom {
		opts = addAll(opts, slices.Concat(s.Runtime.Container.options(), s.Machine.options(), s.Runtime.Local.options()))
		opts = append(opts, MaxCopyBytes(s.Runtime.MaxCopyBytes), WithRepositories(s.Repositories...))
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
		o.project.NoInstructions, o.project.NoSurvey, o.project.NoWorkspaceSkills = s.NoInstructions, s.NoSurvey, s.NoSkills
	})
}

// savedAgent is what a snapshot has of an agent, for one that goes on from it. A nil one is
// none.
type savedAgent struct {
	dir     string // of the snapshot
	setup   Setup
	history *History
}

// savedOptions are those that snapshots are about.
type savedOptions struct {
	snapshot *savedAgent // to go on from; nil for none
	logFile  string      // where the program logs, of which a snapshot has a copy
}

// EventSaving is emitted at most ten times a second while a snapshot is saved, if that takes
// a while. It is for display only. Fields: Progress, in bytes.
const EventSaving EventType = "saving"

// continueIn sets what an agent takes from the snapshot.
func (s *savedAgent) continueIn(o *options) {
	o.saved.snapshot = s
	s.setup.restrict(o)
	if o.runtime == nil {
		file := sandbox.InitialFile{Text: snapshot.Workspace + ":.", Project: s.dir}
		o.runtimeOpts = append(o.runtimeOpts, runtimeOption{"", func(r *runtimeOptions) { r.initialFiles = append(r.initialFiles, file) }})
	}
}

// restrict sets what a stranger may set: who the agent is, the model's name, and
// whatever allows less than the options before it.
func (s Setup) restrict(o *options) {
	s.rules().setAgent(o)
	o.persona = &s.Persona
	if s.Model != "" {
		o.nameModel(s.Model)
	}
	o.window = cmp.Or(o.window, s.ContextWindow)
	o.compaction = s.Compaction
	o.project.NoInstructions = o.project.NoInstructions || s.NoInstructions
	o.project.NoSurvey = o.project.NoSurvey || s.NoSurvey
	if s.NoSkills {
		o.project.NoWorkspaceSkills, o.project.SkillDirs = true, nil
	}
	if s.ConfirmBash != nil && *s.ConfirmBash {
		o.confirmBash = s.ConfirmBash
	}
	o.run = append(o.run, runOption(func(r *runOptions) {
		r.Limits = s.Limits.lower(r.Limits, defaultMaxSteps, toolCallsFor(limitOr(r.MaxSteps, defaultMaxSteps)))
		r.maxReplies = lower(s.MaxReplies, r.maxReplies, defaultMaxReplies)
		r.replyEnds, r.answerEnds = r.replyEnds || s.EndOnReply, r.answerEnds || s.EndOnAnswer
	}))
	o.tasks = append(o.tasks, taskManagerOption{"", func(t *taskManagerOptions) {
		t.maxTasks = lower(s.MaxTasks, t.maxTasks, DefaultMaxTasks)
		t.limits = s.TaskLimits.lower(t.limits, 0, 0)
		if s.TaskPersonas != nil {
			t.personas = s.TaskPersonas
		}
	}})
}

// lower returns the limit of a stranger where it is below the one in force, which
// is byDefault if it is not set.
func lower[T int | int64 | float64 | time.Duration](asked, holds, byDefault T) T {
	inForce := holds
	if holds == 0 {
		inForce = byDefault
	}
	if asked > 0 && (inForce <= 0 || asked < inForce) {
		return asked
	}
	return holds
}

// lower returns the limits that a stranger asks for, where they are below those
// in force.
func (l Limits) lower(holds Limits, steps, calls int) Limits {
	return Limits{
		MaxSteps:     lower(l.MaxSteps, holds.MaxSteps, steps),
		MaxToolCalls: lower(l.MaxToolCalls, holds.MaxToolCalls, calls),
		MaxTokens:    lower(l.MaxTokens, holds.MaxTokens, 0),
		MaxCost:      lower(l.MaxCost, holds.MaxCost, 0),
		StepTimeout:  lower(l.StepTimeout, holds.StepTimeout, 0),
		MaxTime:      lower(l.MaxTime, holds.MaxTime, 0),
	}
}

// fill puts files and messages into a new agent. The files of a runtime that the
// agent has made are there already.
func (s *savedAgent) fill(ctx context.Context, a *Agent) error {
	if s == nil {
		return nil
	}
	if a.opts.runtime != nil {
		if err := s.fillRuntime(ctx, a); err != nil {
			return s.failed(err)
		}
	}
	if err := a.history.AppendEntries(context.Background(), insideOf(s.history).AllEntries()); err != nil {
		return s.failed(err)
	}
	return nil
}

// fillRuntime copies the files into a runtime that was given.
func (s *savedAgent) fillRuntime(ctx context.Context, a *Agent) error {
	if lister, ok := RuntimeAs[FileLister](a.runtime); ok {
		const some = 10
		files, _, err := runtimeFiles{a.runtime, &a.callbacks}.list(ctx, lister, ".", 1, some)
		if err != nil {
			return err
		}
		for _, f := range files {
			if !tempname.Is(f.Path) {
				return fmt.Errorf("%w, such as %s", errWorkspaceUsed, escape.Name(f.Path))
			}
		}
	}
	_, err := safecall.Catch(func() (struct{}, error) {
		return struct{}{}, a.runtime.UploadFile(ctx, filepath.Join(s.dir, snapshot.Workspace), ".")
	})
	return err
}

var errWorkspaceUsed = errors.New("the workspace already has files; choose a new directory, or leave it out for a temporary one")

func (s *savedAgent) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("load the snapshot %s: %w", s.dir, err)
}

// checkUnused refuses a history with messages in it. name may be empty.
func (s *savedAgent) checkUnused(h conversation, name string) error {
	if s == nil || h.Len() == 0 {
		return nil
	}
	if name != "" {
		name += " "
	}
	return s.failed(fmt.Errorf("the history %salready has %s; choose a file that does not exist", name, numeral.Count(h.Len(), "message")))
}

// checkEmpty refuses a workspace with files in it, before those of a snapshot are
// copied there.
func (s *savedAgent) checkEmpty(opts []RuntimeOption) error {
	if s == nil {
		return nil
	}
	o, err := newRuntimeOptions(opts)
	if err != nil || o.workspace == "" {
		return err
	}
	entries, err := os.ReadDir(o.workspace)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s: %w", o.workspace, errWorkspaceUsed)
	}
	return s.failed(err)
}

// emitNotTaken tells what the snapshot says and the agent does otherwise.
func (s *savedAgent) emitNotTaken(a *Agent) {
	if s == nil {
		return
	}
	if not := s.setup.notTaken(a.Setup()); len(not) > 0 {
		a.startup.add(fmt.Sprintf("the snapshot %s was saved with other settings, which are not applied: %s", s.dir, strings.Join(not, "; ")))
	}
}

// notTaken says what the setup of a snapshot has and that of the agent does not. The
// names are those of the settings, as a user sets them.
func (s Setup) notTaken(is Setup) (not []string) {
	say := func(differs bool, format string, args ...any) {
		if differs {
			not = append(not, fmt.Sprintf(format, args...))
		}
	}
	was, now := s.Runtime.Container, is.Runtime.Container
	say(s.Runtime.Kind != is.Runtime.Kind, "commands ran in the runtime %q", s.Runtime.Kind)
	if s.Runtime.Kind == is.Runtime.Kind && is.Runtime.Kind == kindDocker {
		say(was.Image != now.Image, "image %q", was.Image)
		say(was.Network != now.Network && was.Network != "", "network %q", was.Network)
		say(was.Memory > now.Memory && now.Memory > 0, "memory %s", units.BytesSize(float64(was.Memory)))
		say(was.User != now.User && was.User != "", "user %q", was.User)
		say(was.GPUs != now.GPUs && was.GPUs != "", "gpus %q", was.GPUs)
		for _, host := range was.AllowedHosts {
			say(!slices.Contains(now.AllowedHosts, host), "allowed host %q", host)
		}
	}
	for _, name := range s.Env {
		say(!slices.Contains(is.Env, name), "variable %q", name)
	}
	say(s.ConfirmBash != nil && !*s.ConfirmBash && is.ConfirmBash == nil, "confirm_bash = false")
	most := func(name string, asked, holds int) {
		say(limitOr(asked, 0) > limitOr(holds, math.MaxInt), "%s = %d", name, asked)
	}
	most("max_steps", s.Limits.MaxSteps, is.Limits.MaxSteps)
	most("max_tool_calls", s.Limits.MaxToolCalls, is.Limits.MaxToolCalls)
	for _, name := range s.Tools {
		say(!slices.Contains(is.Tools, name) && !slices.Contains(is.DisabledTools, name), "tool %q", name)
	}
	say(s.Hooks > is.Hooks, "handlers of tool calls and runs")
	const shown = 20
	if more := len(not) - shown; more > 0 {
		not = append(not[:shown], fmt.Sprintf("%d more", more))
	}
	return not
}

// logSize is how long the log is now, so that a snapshot has what follows.
func (o *options) logSize() int64 {
	info, err := os.Stat(o.saved.logFile)
	if o.saved.logFile == "" || err != nil {
		return 0
	}
	return info.Size()
}
