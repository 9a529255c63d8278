// Package project has an agent read what its workspace says of itself:
//
//	agent, err := pygent.New(project.Read())
//
// That is three things, each of which can be switched off:
//
//   - AGENTS.md of the workspace, in the system message, and that of a subdirectory, with the
//     result of the first call that works there: [Instructions].
//   - A survey: what system and which of the common programs commands find, the files of the
//     workspace, and what its git repository has checked out: [Survey].
//   - Skills, folders of instructions in the open Agent Skills format
//     (https://agentskills.io/specification). The model is told the name and the description
//     of each, and reads the rest by the tool read_skill when a task fits it. The field
//     allowed-tools of the format grants nothing: [Skills] and [WorkspaceSkills].
//
// What a workspace says is the project's word and not the user's. It is quoted as such, it is
// bounded, and what no reader would see of it is left out. It is sent to the model's server, so
// an agent without this package reads nothing by itself.
//
// A [pygent.PromptBuilder] of your own finds AGENTS.md in [pygent.PromptInfo].Instructions, the
// system and its programs in Runtime.Notes, and the rest in Sections.
package project

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/internal/survey"
)

// Option adjusts [Read].
type Option func(*config)

type config bridge.Project

// Instructions says whether AGENTS.md of the workspace's root is added to the system message,
// up to 32 KiB of it, and that of a subdirectory, up to 8 KiB, to the result of the first call
// of a built-in tool that works there. Default: PYGENT_INSTRUCTIONS, else true.
func Instructions(on bool) Option { return func(c *config) { c.NoInstructions = !on } }

// Survey says whether the model is told what there is at the start. The first request waits
// neither for a container nor for a command. What is not known by then, the state of the
// repository and what a container of an image has that is new to this user's processes,
// follows once, after the result of a tool or with the next message of the user, if the
// [pygent.PromptBuilder] shows it at all. Of runtimes that are not of package pygent, the
// agent lists the workspace if they are a [pygent.Describer] and a [pygent.FileLister], and
// runs no command. Default: PYGENT_SURVEY, else true.
func Survey(on bool) Option { return func(c *config) { c.NoSurvey = !on } }

// Skills names directories of this machine whose folders are skills. One that does not exist
// is ignored. Of skills with the same name that of the first directory counts, and any of
// these before one of the workspace. When the model reads a skill that has other files, a copy
// of its folder appears in .pygent/user-skills of the workspace, where git ignores it, until
// the agent is closed. Default: PYGENT_SKILL_DIRS; [pygent.Config.Options] adds .pygent/skills
// and .agents/skills of the user's home where it read the file there.
//
// Each request tells the names of all skills, of which there may be 64, and 4 KiB of
// descriptions of these and as much of the workspace's: 17 kB at most. Those for whose
// descriptions there is no room are warned of.
func Skills(dirs ...string) Option {
	return func(c *config) { c.SkillDirs = slices.Concat(c.SkillDirs, dirs) }
}

// WorkspaceSkills says whether the model is told of the skills that the workspace has in
// .pygent/skills and .agents/skills. They are data of the project, as its AGENTS.md is.
// Default: PYGENT_SKILLS, else true.
func WorkspaceSkills(on bool) Option { return func(c *config) { c.NoWorkspaceSkills = !on } }

// Read returns the option by which an agent, and the agents of its tasks, read their
// workspace. Several of them are as one with all their options. What they do not set comes
// from the environment and from settings, as for [pygent.New]: instructions, survey, skills and
// skill_dirs.
//
// It is the extension named project, which reads at the start, and again by
// [pygent.Agent.RefreshSystemMessage].
func Read(opts ...Option) pygent.Option {
	change := func(p *bridge.Project) {
		for _, opt := range opts {
			if opt != nil {
				opt((*config)(p))
			}
		}
	}
	return bridge.WithProject(change, pygent.WithExtension(extension{}), pygent.WithTools((*reader)(nil).tool(nil))).(pygent.Option)
}

type extension struct{}

// Name implements [pygent.Extension].
func (extension) Name() string { return "project" }

// Open implements [pygent.Extension].
func (extension) Open(_ context.Context, h *pygent.Host) (pygent.Lifecycle, error) {
	inside, _ := bridge.Inside(h.Agent)
	r := &reader{host: h, agent: inside.(agent)}
	if r.Project = r.agent.Project(); slices.Contains(r.SkillDirs, "") {
		return pygent.Lifecycle{}, errors.New("option project.Skills: the path of a directory is empty")
	}
	r.list, r.skills.read = r.agent.Once("the runtime's ListFiles"), r.agent.Once("the runtime's files")
	r.asking, r.stop = context.WithCancel(context.Background())
	life := pygent.Lifecycle{
		Ready:   func(context.Context) error { return r.agent.Offer(r.tool(nil)) }, // in the place of the one of who delegates
		Prompt:  r.prompt,
		Closing: func(context.Context) error { r.close(); r.removeCopies(); return nil },
		Close:   func() error { r.close(); return nil },
		Inherit: true,
	}
	if !r.NoInstructions {
		life.AfterCall = r.nested
	}
	if !r.NoSurvey {
		life.News, life.TraceTool = r.news, r.callBegins
	}
	return life, nil
}

// agent is what a reader needs of its agent that is not public.
type agent interface {
	Project() bridge.Project
	Emit(e pygent.Event)
	Era() int64
	Once(what string) func(ctx context.Context, f func() error) error
	Offer(t pygent.Tool) error
	Workspace() (dir string, info pygent.RuntimeInfo)
	IsLent() bool
}

// reader reads the workspace for an agent. The agent has the calls of [pygent.Lifecycle] made
// by one goroutine, but leaves behind those whose context ends.
type reader struct {
	bridge.Project // what it reads; never changed
	host           *pygent.Host
	agent          agent
	list           func(ctx context.Context, f func() error) error // lists the workspace

	asking context.Context // in which git is asked
	stop   context.CancelFunc
	asked  sync.WaitGroup

	skills copies

	mu        sync.Mutex // guards what follows
	found     *found     // nil before it has looked
	workspace string     // its path, as commands see it; empty if it is not known
	warned    []string   // the last warnings
	told      *told      // of subdirectories
	asks      bool       // git is asked
	state     string     // of the repository, once git has answered
	changed   bool       // tools have run that may have changed that
}

// found is what a reader finds at the start of its agent. It does not change.
type found struct {
	findings
	skills   *skillSet
	warnings []string // about the skills
}

// prompt adds what the workspace says to what the system message is written from.
func (r *reader) prompt(ctx context.Context, info *pygent.PromptInfo, again bool) error {
	var warnings []string
	if !r.NoInstructions {
		text, warning, err := readInstructions(ctx, r.host.Agent.Runtime())
		if err != nil {
			return fmt.Errorf("read %s: %w", instructionsFile, err)
		}
		if info.Instructions = text; warning != "" {
			warnings = append(warnings, warning)
		}
	}
	f, err := r.lookOnce(ctx, info.Runtime, again)
	if err != nil {
		return err
	}
	if err := r.agent.Offer(r.tool(f.skills)); err != nil {
		return err
	}
	f.skills.addTo(info)
	f.findings.addTo(info)
	r.warn(append(warnings, f.warnings...))
	r.mu.Lock()
	r.workspace = info.Runtime.Workspace
	r.mu.Unlock()
	r.askState(info.Runtime)
	return nil
}

// lookOnce returns what was found at the start, or when it was to look again last. It does not
// look more often, so that what the model does itself changes no message.
func (r *reader) lookOnce(ctx context.Context, info pygent.RuntimeInfo, again bool) (*found, error) {
	r.mu.Lock()
	f := r.found
	r.mu.Unlock()
	if f != nil && !again {
		return f, nil
	}
	f = &found{}
	f.skills, f.warnings = r.findSkills(ctx)
	if _, described := pygent.RuntimeAs[pygent.Describer](r.host.Agent.Runtime()); described && !r.NoSurvey {
		f.findings = r.look(ctx, info, again)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found, r.state = f, ""
	return f, nil
}

// warn tells warnings, but for those that were told last time.
func (r *reader) warn(warnings []string) {
	r.mu.Lock()
	before := r.warned
	r.warned = warnings
	r.mu.Unlock()
	for _, text := range warnings {
		if !slices.Contains(before, text) {
			r.agent.Emit(pygent.Event{Type: pygent.EventWarning, Text: text})
		}
	}
}

// close ends what goes on beside the agent.
func (r *reader) close() {
	r.mu.Lock()
	r.stop()
	r.mu.Unlock()
	r.asked.Wait()
}

// addTo adds a section to what the system message is written from, or replaces the one of
// that title.
func addTo(info *pygent.PromptInfo, s pygent.PromptSection) {
	sections := slices.Clone(info.Sections)
	if at := slices.IndexFunc(sections, func(other pygent.PromptSection) bool { return other.Title == s.Title }); at >= 0 {
		sections[at] = s
	} else {
		sections = append(sections, s)
	}
	info.Sections = sections
}

// sandboxed is a runtime of package pygent.
type sandboxed interface {
	Machine() (m survey.Machine, known bool)
	Aside(ctx context.Context, script string, limit time.Duration) (output string, ok bool)
	GitHead() string
}
