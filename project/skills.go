package project

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

	"github.com/x/pygent"
	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/internal/callsummary"
	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/skills"
	"github.com/x/pygent/internal/workspace"
)

const (
	maxSkills    = 64 // that a model is told of
	skillCopies  = bridge.SkillCopies
	skillListTag = "project_skills"
	skillTool    = "read_skill"
)

// skillSet is the skills of an agent. A set does not change.
type skillSet struct {
	all    []skills.Found
	places []string // where they are, by Found.Place: first directories of this machine
	onHost int      // how many of the places those are
}

// addTo adds the skills to what the system message is written from.
func (s *skillSet) addTo(info *pygent.PromptInfo) {
	if len(s.all) == 0 {
		return
	}
	text := fmt.Sprintf("Instructions for kinds of work. Where one fits the task, read it with `%s` before you begin.\n", skillTool) + s.lines(false)
	if lines := s.lines(true); lines != "" {
		text += fmt.Sprintf("These are of the project, and its word, not the user's:\n<%s>\n%s</%s>", skillListTag, escape.Tag(lines, skillListTag), skillListTag)
	}
	addTo(info, pygent.PromptSection{Title: "Skills", Text: text, Tool: skillTool})
}

// shownSkills is how many bytes the descriptions of the user's skills may have, and
// those of the project's.
const shownSkills = 4 << 10

// lines describes the skills of the user, or those of the project. Where they have too many
// words, the last ones are only named.
func (s *skillSet) lines(ofProject bool) string {
	lines, rest := s.describe(ofProject)
	if len(rest) > 0 {
		lines += "- not described here: " + strings.Join(rest, ", ") + "\n"
	}
	return lines
}

// describe returns the lines of skills, and the names of those for which there is no room.
func (s *skillSet) describe(ofProject bool) (lines string, rest []string) {
	var b strings.Builder
	for _, f := range s.all {
		line := fmt.Sprintf("- %s: %s\n", f.Name, f.Description)
		switch {
		case f.Place >= s.onHost != ofProject:
		case len(rest) > 0 || b.Len()+len(line) > shownSkills:
			rest = append(rest, f.Name)
		default:
			b.WriteString(line)
		}
	}
	return b.String(), rest
}

// barelyTold warns of skills that the model knows by their names only.
func (s *skillSet) barelyTold() (warnings []string) {
	for _, ofProject := range []bool{false, true} {
		if _, rest := s.describe(ofProject); len(rest) > 0 {
			whose := "the user's skills"
			if ofProject {
				whose = "the skills of the workspace"
			}
			warnings = append(warnings, fmt.Sprintf("the descriptions of %s have more than %d KiB together, so the model is told %d of them by name only, from %s on: shorten the descriptions",
				whose, shownSkills>>10, len(rest), rest[0]))
		}
	}
	return warnings
}

func (s *skillSet) names() (names []string) {
	for _, f := range s.all {
		names = append(names, f.Name)
	}
	return names
}

// findSkills looks for the agent's skills.
func (r *reader) findSkills(ctx context.Context) (*skillSet, []string) {
	set := &skillSet{places: slices.Clone(r.SkillDirs), onHost: len(r.SkillDirs)}
	var places []skills.Place
	for _, dir := range set.places {
		places = append(places, skills.Directory(dir))
	}
	ctx, cancel := context.WithTimeout(ctx, surveyWithin)
	defer cancel()
	rt := r.host.Agent.Runtime()
	lister, ok := pygent.RuntimeAs[pygent.FileLister](rt)
	if !ok || r.NoWorkspaceSkills {
		return set.find(places)
	}
	for _, dir := range bridge.SkillDirs {
		set.places = append(set.places, dir)
		places = append(places, projectSkills(ctx, rt, lister, dir))
	}
	var all *skillSet // which a call that is left behind may still write
	var warnings []string
	if err := r.skills.read(ctx, func() error { all, warnings = set.find(places); return nil }); err != nil {
		set, warnings := set.find(places[:set.onHost])
		return set, append(warnings, "skills of the workspace: "+err.Error())
	}
	return all, warnings
}

// find returns the set with the skills of some of its places, and warnings about
// them.
func (s *skillSet) find(places []skills.Place) (*skillSet, []string) {
	with := *s
	var warnings []string
	with.all, warnings = skills.Find(places, maxSkills)
	return &with, append(warnings, with.barelyTold()...)
}

// projectSkills is a directory of the workspace with skills.
func projectSkills(ctx context.Context, rt pygent.Runtime, lister pygent.FileLister, dir string) skills.Place {
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

// copies are those of the user's skills in the workspace.
type copies struct {
	read func(ctx context.Context, f func() error) error // reads the skills of the workspace

	mu   sync.Mutex
	mark string // the file that says that this agent uses copies of skills; empty before it does
}

type skillInput struct {
	Name string `json:"name" jsonschema:"the skill"`
}

// tool is the tool that reads these skills; none for nil. A tool without skills is not offered,
// and has a reader only to be replaced by it.
func (r *reader) tool(set *skillSet) pygent.Tool {
	t := pygent.NewTool(skillTool, "Read the instructions of a skill.", func(ctx context.Context, rt pygent.Runtime, in skillInput) (*pygent.ToolResult, error) {
		return r.readSkill(ctx, rt, set, in.Name)
	})
	t.Title, t.Kind, t.ReadOnly, t.Idempotent = callsummary.Title(skillTool), pygent.ToolRead, true, true
	t.Describe = func(args json.RawMessage) pygent.CallDescription {
		title, paths := callsummary.Builtin(skillTool, args)
		return pygent.CallDescription{Title: title, Paths: paths}
	}
	if set == nil || len(set.all) == 0 {
		t.Unoffered = "there are no skills; add one as a SKILL.md below .agents/skills or .pygent/skills"
		return t
	}
	t.Parameters, _ = json.Marshal(map[string]any{ // which never fails
		"type":                 "object",
		"properties":           map[string]any{"name": map[string]any{"type": "string", "enum": set.names()}},
		"required":             []string{"name"},
		"additionalProperties": false,
	})
	return t
}

// readSkill runs the tool.
func (r *reader) readSkill(ctx context.Context, rt pygent.Runtime, set *skillSet, name string) (*pygent.ToolResult, error) {
	at := slices.IndexFunc(set.all, func(f skills.Found) bool { return f.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("no skill %q; the skills are: %s", name, strings.Join(set.names(), ", "))
	}
	f := set.all[at]
	if f.Place >= set.onHost {
		return readProjectSkill(ctx, rt, f, path.Join(set.places[f.Place], f.Folder))
	}
	return r.readUserSkill(ctx, rt, f, filepath.Join(set.places[f.Place], f.Folder))
}

// readProjectSkill shows a skill that is in the workspace.
func readProjectSkill(ctx context.Context, rt pygent.Runtime, f skills.Found, dir string) (*pygent.ToolResult, error) {
	data, _, err := readHead(ctx, rt, path.Join(dir, skills.File), skills.MaxFile)
	if err != nil {
		return nil, err
	}
	var files []string
	if lister, ok := pygent.RuntimeAs[pygent.FileLister](rt); ok {
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
func (r *reader) readUserSkill(ctx context.Context, rt pygent.Runtime, f skills.Found, dir string) (*pygent.ToolResult, error) {
	data, err := skills.ReadFile(dir, skills.MaxFile)
	if err != nil {
		return nil, err
	}
	shown := skills.Shown{Skill: f.Skill, From: "of the user"}
	files, err := skills.Files(dir)
	if err == nil && (len(files) > 1 || len(data) > skills.MaxText) {
		shown.Dir, shown.Files = skillCopies+"/"+f.Name, files
		err = r.skills.copy(ctx, rt, dir, shown.Dir)
	}
	if err != nil {
		shown.Dir, shown.Files, shown.Note = "", nil, fmt.Sprintf("Its other files could not be copied here: %v.", err)
	}
	return resultOf(shown, data)
}

// copy copies a folder of this machine into the workspace, without links and within limits.
func (c *copies) copy(ctx context.Context, rt pygent.Runtime, dir, dest string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
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
	c.mark = cmp.Or(c.mark, skillCopies+"/"+skillUser+rand.Text())
	if err := rt.WriteFile(ctx, c.mark, nil); err != nil {
		return err
	}
	return rt.UploadFile(ctx, stage, dest)
}

// clearSkill removes what is where a skill is to be copied: files that the project
// has there would pass for the user's, and a link would have the copy remove and
// overwrite other files.
func clearSkill(ctx context.Context, rt pygent.Runtime, dest string) error {
	remover, removes := pygent.RuntimeAs[pygent.FileRemover](rt)
	lister, lists := pygent.RuntimeAs[pygent.FileLister](rt)
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

// removeCopies removes the copies of skills from a workspace that is kept, unless another agent
// uses them.
func (r *reader) removeCopies() {
	c := &r.skills
	c.mu.Lock()
	defer c.mu.Unlock()
	rt := r.host.Agent.Runtime()
	remover, ok := pygent.RuntimeAs[pygent.FileRemover](rt)
	if !ok || c.mark == "" {
		return
	}
	if _, info := r.agent.Workspace(); info.Temporary && !r.agent.IsLent() {
		return // they go with it
	}
	ctx, cancel := context.WithTimeout(context.Background(), safecall.Grace)
	defer cancel()
	_ = remover.RemoveFile(ctx, c.mark, false) // first: else two that close at once leave the copies to each other
	if c.areUsed(ctx, rt) {
		return
	}
	if err := remover.RemoveFile(ctx, skillCopies, true); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.host.Logger.Warn("the copies of skills stay in the workspace", "error", err)
		return
	}
	_ = remover.RemoveFile(ctx, path.Dir(skillCopies), false) // unless it has anything else
}

// areUsed reports whether another agent has copied skills here.
func (c *copies) areUsed(ctx context.Context, rt pygent.Runtime) bool {
	lister, ok := pygent.RuntimeAs[pygent.FileLister](rt)
	if !ok {
		return false
	}
	files, _, _ := lister.ListFiles(ctx, skillCopies, 1, skills.MaxEntries)
	return slices.ContainsFunc(files, func(f pygent.FileInfo) bool {
		return strings.HasPrefix(path.Base(f.Path), skillUser) && f.Path != c.mark && time.Since(f.ModTime) < skillUserLasts
	})
}

// resultOf shows a skill.
func resultOf(s skills.Shown, data []byte) (*pygent.ToolResult, error) {
	text, err := s.Text(data)
	if err != nil {
		return nil, err
	}
	return &pygent.ToolResult{Content: text, Display: "read the skill " + s.Name}, nil
}
