package pygent

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/skills"
	"github.com/x/pygent/internal/toolschema"
	"github.com/x/pygent/internal/workspace"
)

// Skill is a folder of instructions for a kind of work, and of files that go
// with them, in the open Agent Skills format: https://agentskills.io/specification.
// The model is told its name and description, and reads the rest by the tool
// read_skill when a task fits it. The field allowed-tools of the format grants
// nothing.
type Skill struct {
	Name        string `json:"name"`        // of at most 64 lower-case letters, digits and hyphens
	Description string `json:"description"` // one line of at most 1024 characters
	// Project says that the skill is one of the workspace: what it says is the
	// project's word and not the user's.
	Project bool `json:"project,omitempty"`
}

// skillOptions say where an agent looks for skills.
type skillOptions struct {
	dirs    []string // of this machine
	project bool     // in the workspace too
}

func (o skillOptions) check() error {
	if slices.Contains(o.dirs, "") {
		return errors.New("option WithSkills: the path of a directory is empty")
	}
	return nil
}

// clipped returns options to which others can be added without a change of these.
func (o skillOptions) clipped() skillOptions { return skillOptions{slices.Clip(o.dirs), o.project} }

// WithSkills names directories of this machine whose folders are skills; see
// [Skill]. One that does not exist is ignored. Of skills with the same name that
// of the first directory counts, and any of these before one of the workspace. When
// the model reads a skill that has other files, a copy of its folder appears in
// .pygent/user-skills of the workspace, where git ignores it, until the agent is
// closed. Default: none; [Config.Options] adds .pygent/skills and .agents/skills of the
// user's home where it read the file there.
//
// Each request tells the names of all skills, of which there may be 64, and 4 KiB of
// descriptions of these and as much of the workspace's: 17 kB at most. Those for whose
// descriptions there is no room are warned of.
func WithSkills(dirs ...string) Option {
	return option(func(o *options) { o.skills.dirs = append(o.skills.dirs, dirs...) })
}

// skillOptions are the options for the skills of the directories that are named, of
// the user's home and of the workspace.
func (c Config) skillOptions() []Option {
	if c.Skills != nil && !*c.Skills {
		return []Option{WithProjectSkills(false)}
	}
	dirs := slices.Clone(c.SkillDirs)
	if c.home != "" { // else nobody said to read there
		for _, dir := range projectSkillDirs {
			dirs = append(dirs, filepath.Join(filepath.Dir(c.home), filepath.FromSlash(dir)))
		}
	}
	return []Option{WithSkills(dirs...)}
}

// WithProjectSkills says whether the model is told of the skills that the
// workspace has in .pygent/skills and .agents/skills. They are data of the
// project, as its AGENTS.md is. Default: true.
func WithProjectSkills(on bool) Option { return option(func(o *options) { o.skills.project = on }) }

const (
	maxSkills     = 64 // that a model is told of
	skillCopies   = ".pygent/user-skills"
	skillListTag  = "project_skills"
	readSkillTool = "read_skill"
)

// projectSkillDirs are the directories of a workspace whose folders are skills, and
// those of the user's home.
var projectSkillDirs = []string{".pygent/skills", ".agents/skills"}

// skillSet is the skills of an agent. A set does not change.
type skillSet struct {
	all    []skills.Found
	places []string // where they are, by Found.Place: first directories of this machine
	onHost int      // how many of the places those are
}

// told returns the skills as a prompt has them.
func (s *skillSet) told() (all []Skill) {
	for _, f := range s.all {
		all = append(all, Skill{Name: f.Name, Description: f.Description, Project: f.Place >= s.onHost})
	}
	return all
}

func (s *skillSet) names() (names []string) {
	for _, f := range s.all {
		names = append(names, f.Name)
	}
	return names
}

// findSkills looks for the agent's skills.
func (a *Agent) findSkills(ctx context.Context) (*skillSet, []string) {
	set := &skillSet{places: slices.Clone(a.opts.skills.dirs)}
	var places []skills.Place
	for _, dir := range set.places {
		places = append(places, skills.Directory(dir))
	}
	set.onHost = len(places)
	ctx, cancel := context.WithTimeout(ctx, surveyWithin)
	defer cancel()
	if lister, ok := RuntimeAs[FileLister](a.runtime); ok && a.opts.skills.project {
		for _, dir := range projectSkillDirs {
			set.places = append(set.places, dir)
			places = append(places, projectSkills(ctx, a.runtime, lister, dir))
		}
	}
	if set.onHost == len(places) {
		return set.find(places)
	}
	type answer struct {
		set      *skillSet
		warnings []string
	}
	got, err := outliveOnce(ctx, a, &a.skills.reading, "the runtime's files", func() (answer, error) {
		set, warnings := set.find(places)
		return answer{set, warnings}, nil
	})
	if err != nil {
		set, warnings := set.find(places[:set.onHost])
		return set, append(warnings, "skills of the workspace: "+err.Error())
	}
	return got.set, got.warnings
}

// find returns the set with the skills of some of its places, and warnings about
// them.
func (s *skillSet) find(places []skills.Place) (*skillSet, []string) {
	with := *s
	var warnings []string
	with.all, warnings = skills.Find(places, maxSkills)
	return &with, append(warnings, barelyTold(with.told())...)
}

// projectSkills is a directory of the workspace with skills.
func projectSkills(ctx context.Context, rt Runtime, lister FileLister, dir string) skills.Place {
	return skills.Place{
		Path: dir,
		List: func() (names []string, err error) {
			files, more, err := lister.ListFiles(ctx, dir, 1, skills.MaxEntries) // plain files count too
			for _, f := range files {
				if f.Mode.IsDir() && skills.IsName(path.Base(f.Path)) {
					names = append(names, path.Base(f.Path))
				}
			}
			if err == nil && more {
				err = skills.ErrManyEntries
			}
			return names, err
		},
		Read: func(folder string, limit int) ([]byte, error) {
			data, _, err := readHead(ctx, rt, path.Join(dir, folder, skills.File), limit)
			return data, err
		},
	}
}

// agentSkills is what an agent keeps of its skills.
type agentSkills struct {
	mu   sync.Mutex
	set  *skillSet // the current one; nil before the agent has looked
	mark string    // the file that says that this agent uses copies of skills; empty before it does

	reading lateCall // of the skills of the workspace
}

func (s *agentSkills) current() *skillSet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.set
}

type readSkillInput struct {
	Name string `json:"name" jsonschema:"the skill"`
}

func readSkill(ctx context.Context, rt Runtime, in readSkillInput) (*ToolResult, error) {
	call := toolCallOf(ctx)
	if call == nil {
		return nil, errors.New("this tool works in a run of an agent only")
	}
	set := call.agent.skills.current()
	if set == nil {
		return nil, errors.New("there are no skills")
	}
	at := slices.IndexFunc(set.all, func(f skills.Found) bool { return f.Name == in.Name })
	if at < 0 {
		return nil, fmt.Errorf("no skill %q; the skills are: %s", in.Name, strings.Join(set.names(), ", "))
	}
	f := set.all[at]
	if f.Place >= set.onHost {
		return readProjectSkill(ctx, rt, f, path.Join(set.places[f.Place], f.Folder))
	}
	return call.agent.readUserSkill(ctx, rt, f, filepath.Join(set.places[f.Place], f.Folder))
}

// readProjectSkill shows a skill that is in the workspace.
func readProjectSkill(ctx context.Context, rt Runtime, f skills.Found, dir string) (*ToolResult, error) {
	data, _, err := readHead(ctx, rt, path.Join(dir, skills.File), skills.MaxFile)
	if err != nil {
		return nil, err
	}
	var files []string
	if lister, ok := RuntimeAs[FileLister](rt); ok {
		found, _, err := lister.ListFiles(ctx, dir, 3, 500)
		if err != nil {
			return nil, err
		}
		for _, file := range found {
			if name, ok := strings.CutPrefix(file.Path, dir+"/"); ok && file.Mode.IsRegular() {
				files = append(files, name)
			}
		}
	}
	return resultOf(skills.Shown{Skill: f.Skill, From: "of the project, and its word, not the user's", Dir: dir, Files: files}, data)
}

// readUserSkill shows a skill of this machine. If it has more than its
// instructions, its folder is copied to where commands see it.
func (a *Agent) readUserSkill(ctx context.Context, rt Runtime, f skills.Found, dir string) (*ToolResult, error) {
	data, err := skills.ReadFile(dir, skills.MaxFile)
	if err != nil {
		return nil, err
	}
	shown := skills.Shown{Skill: f.Skill, From: "of the user"}
	files, err := skills.Files(dir)
	if err == nil && (len(files) > 1 || len(data) > skills.MaxText) {
		shown.Dir, shown.Files = skillCopies+"/"+f.Name, files
		err = a.copySkill(ctx, rt, dir, shown.Dir)
	}
	if err != nil {
		shown.Dir, shown.Files, shown.Note = "", nil, fmt.Sprintf("Its other files could not be copied here: %v.", err)
	}
	return resultOf(shown, data)
}

// copySkill copies a folder of this machine into the workspace, without links and
// within limits.
func (a *Agent) copySkill(ctx context.Context, rt Runtime, dir, dest string) error {
	a.skills.mu.Lock()
	defer a.skills.mu.Unlock()
	stage, err := workspace.MakeTemp(false)
	if err != nil {
		return err
	}
	defer func() { _ = workspace.RemoveTemp(stage) }() // else, as after a kill, a later process removes it
	if err := skills.Copy(dir, stage); err != nil {
		return err
	}
	if err := os.Chmod(stage, 0o755); err != nil {
		return err
	}
	if err := clearSkill(ctx, rt, dest); err != nil {
		return err
	}
	if err := rt.WriteFile(ctx, skillCopies+"/.gitignore", []byte("*\n")); err != nil {
		return err
	}
	a.skills.mark = cmp.Or(a.skills.mark, skillCopies+"/"+skillUser+rand.Text())
	if err := rt.WriteFile(ctx, a.skills.mark, nil); err != nil {
		return err
	}
	return rt.UploadFile(ctx, stage, dest)
}

// clearSkill removes what is where a skill is to be copied: files that the project
// has there would pass for the user's, and a link would have the copy remove and
// overwrite other files.
func clearSkill(ctx context.Context, rt Runtime, dest string) error {
	remover, removes := RuntimeAs[FileRemover](rt)
	lister, lists := RuntimeAs[FileLister](rt)
	if !removes || !lists {
		return nil
	}
	above := path.Dir(skillCopies)
	for _, dir := range []string{above, skillCopies} {
		info, err := lister.StatFile(ctx, dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !info.Mode.IsDir() && dir == above:
			return fmt.Errorf("%s is no directory", above)
		case !info.Mode.IsDir():
			dest = skillCopies
		}
	}
	if err := remover.RemoveFile(ctx, dest, true); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Several agents may work in one workspace. Each that copies skills leaves a file
// there, and the last one removes the copies. The file of one that was killed counts
// for a day.
const (
	skillUser      = ".used-by-"
	skillUserLasts = 24 * time.Hour
)

// removeSkills removes the copies of skills from a workspace that is kept, unless
// another agent uses them.
func (a *Agent) removeSkills() {
	a.skills.mu.Lock()
	defer a.skills.mu.Unlock()
	remover, ok := RuntimeAs[FileRemover](a.runtime)
	if !ok || a.skills.mark == "" {
		return
	}
	if r, ours := RuntimeAs[*workspaceRuntime](a.runtime); ours && r.info.Temporary && !a.opts.lent {
		return // they go with it
	}
	ctx, cancel := context.WithTimeout(context.Background(), safecall.Grace)
	defer cancel()
	_ = remover.RemoveFile(ctx, a.skills.mark, false) // first: else two that close at once leave the copies to each other
	if a.othersUseSkills(ctx) {
		return
	}
	if err := remover.RemoveFile(ctx, skillCopies, true); err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.log.Warn("the copies of skills stay in the workspace", "error", err)
		return
	}
	_ = remover.RemoveFile(ctx, path.Dir(skillCopies), false) // unless it has anything else
}

// othersUseSkills reports whether another agent has copied skills here.
func (a *Agent) othersUseSkills(ctx context.Context) bool {
	lister, ok := RuntimeAs[FileLister](a.runtime)
	if !ok {
		return false
	}
	files, _, _ := lister.ListFiles(ctx, skillCopies, 1, skills.MaxEntries)
	return slices.ContainsFunc(files, func(f FileInfo) bool {
		return strings.HasPrefix(path.Base(f.Path), skillUser) && f.Path != a.skills.mark && time.Since(f.ModTime) < skillUserLasts
	})
}

// resultOf shows a skill.
func resultOf(s skills.Shown, data []byte) (*ToolResult, error) {
	text, err := s.Text(data)
	if err != nil {
		return nil, err
	}
	return &ToolResult{Content: text, Display: "read the skill " + s.Name}, nil
}

// ofSkills marks the tool that reads skills. It is offered only to agents that
// have some.
func ofSkills(t Tool) Tool {
	t.skills = true
	return t
}

// offerSkills has a registry offer the skills of these names.
func (r *Registry) offerSkills(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.skills, names) {
		r.skills = names
		r.version++
	}
}

// withSkills returns the tool with the names of the skills that there are.
func (r *Registry) withSkills(t Tool) (Tool, error) {
	r.mu.RLock()
	names := r.skills
	r.mu.RUnlock()
	if len(names) == 0 {
		return t, fmt.Errorf("%w: there are no skills", ErrToolDisabled)
	}
	schema := map[string]any{
		"type":                 "object",
		"properties":           map[string]any{"name": map[string]any{"type": "string", "enum": names}},
		"required":             []string{"name"},
		"additionalProperties": false,
	}
	data, err := json.Marshal(schema)
	if err != nil {
		return t, err
	}
	parsed, err := toolschema.Parse(data)
	if err != nil {
		return t, err
	}
	t.Parameters, t.schema = data, parsed
	return t, nil
}
