package project

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/survey"
)

// findings are what an agent found out about the place of its work. Fields are empty where that
// is not known. The texts are bounded, and may be the words of a stranger.
type findings struct {
	machine survey.Machine
	files   string // of the workspace, an entry a line
	branch  string // what git has checked out: "on branch main" or "at commit 1a2b3c4d"
	state   string // "clean", or how many files differ from that: "3 files changed"
}

// addTo adds the findings to what the system message is written from.
func (f findings) addTo(info *pygent.PromptInfo) {
	info.Runtime.Notes = append(info.Runtime.Notes[:len(info.Runtime.Notes):len(info.Runtime.Notes)], f.machine.Lines()...)
	if text := f.holds(); text != "" {
		addTo(info, pygent.PromptSection{Title: "What the workspace holds", Text: text, Tool: "*"})
	}
}

// filesTag quotes the names of the workspace's files, which cannot contain it.
const filesTag = "workspace_files"

// holds says what the workspace held when the agent began.
func (f findings) holds() string {
	var lines []string
	switch {
	case f.branch != "" && f.state != "":
		lines = append(lines, fmt.Sprintf("A git repository, %s: %s.", f.branch, f.state))
	case f.branch != "":
		lines = append(lines, fmt.Sprintf("A git repository, %s.", f.branch))
	}
	if f.files != "" {
		lines = append(lines, "As it was at the start, directories with the number of their entries:", "<"+filesTag+">", f.files, "</"+filesTag+">")
	}
	return strings.Join(lines, "\n")
}

// note tells a model what was found only after its system message was written.
func (f findings) note() string {
	lines := f.machine.Lines()
	if f.state != "" {
		lines = append(lines, "The git repository was at the start: "+f.state+".")
	}
	if len(lines) == 0 {
		return ""
	}
	return "[" + strings.Join(lines, " ") + "]"
}

// The bounds of the time that a survey takes.
const (
	surveyWithin = 2 * time.Second // the reading of files
	stateWithin  = time.Second     // git's answer
)

// look surveys the place of the agent's work, without a wait for a container or a
// command. It asks git only if the caller has the time.
func (r *reader) look(ctx context.Context, info pygent.RuntimeInfo, hasTime bool) (f findings) {
	ctx, cancel := context.WithTimeout(ctx, surveyWithin)
	defer cancel()
	rt := r.host.Agent.Runtime()
	f.files = r.listWorkspace(ctx)
	head, _, err := readHead(ctx, rt, path.Join(".git", "HEAD"), survey.MaxHead)
	if ours, ok := pygent.RuntimeAs[sandboxed](rt); ok && err != nil {
		head = []byte(ours.GitHead()) // it is elsewhere
	}
	f.branch = survey.Branch(string(head))
	f.machine = r.machine()
	if hasTime && r.hasState(f, info) {
		f.state = r.gitState(ctx)
	}
	return f
}

// machine returns what is known by now of where commands run.
func (r *reader) machine() (m survey.Machine) {
	if rt, ours := pygent.RuntimeAs[sandboxed](r.host.Agent.Runtime()); ours {
		m, _ = rt.Machine()
	}
	return m
}

// listWorkspace lists the workspace; see [survey.Listing].
func (r *reader) listWorkspace(ctx context.Context) (text string) {
	lister, ok := pygent.RuntimeAs[pygent.FileLister](r.host.Agent.Runtime())
	if !ok {
		return ""
	}
	var listing string // which a call that is left behind may still write
	err := r.list(ctx, func() (err error) {
		listing, err = survey.Listing(ctx, func(ctx context.Context, dir string, limit int) (entries []survey.Entry, more bool, err error) {
			files, more, err := lister.ListFiles(ctx, dir, 1, limit)
			for _, f := range files {
				entries = append(entries, survey.Entry{Name: path.Base(f.Path), Dir: f.Mode.IsDir()})
			}
			return entries, more, err
		})
		return err
	})
	if err != nil {
		r.host.Logger.Debug("the workspace could not be listed", "error", err)
		return ""
	}
	return listing
}

// hasState reports whether git can be asked about the workspace. Without
// protection, it would read a stranger's files with the user's rights.
func (r *reader) hasState(f findings, info pygent.RuntimeInfo) bool {
	_, ours := pygent.RuntimeAs[sandboxed](r.host.Agent.Runtime())
	return ours && f.branch != "" && info.Protection != "none"
}

// gitState asks git for the state of the workspace's repository. It is empty if git
// does not answer in time, or there is none.
func (r *reader) gitState(ctx context.Context) string {
	rt, ours := pygent.RuntimeAs[sandboxed](r.host.Agent.Runtime())
	if !ours {
		return ""
	}
	output, _ := rt.Aside(ctx, survey.StatusScript, stateWithin)
	return survey.State(output)
}

// askState asks git about the workspace while the model is asked for the first
// time: nobody waits for the answer.
func (r *reader) askState(info pygent.RuntimeInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asks || r.changed || r.state != "" || r.found == nil || r.found.state != "" || !r.hasState(r.found.findings, info) || r.asking.Err() != nil {
		return
	}
	r.asks = true
	r.asked.Go(func() {
		state := r.gitState(r.asking)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.asks = false
		if !r.changed { // else it is not that of the start
			r.state = state
		}
	})
}

// callBegins notes that a tool begins to run.
func (r *reader) callBegins(ctx context.Context, _ *pygent.ToolTrace) (context.Context, func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = true
	return ctx, nil
}

// news is what the model has to be told, once, of what was found after its system message was
// written from info.
func (r *reader) news(info *pygent.PromptInfo) string {
	r.askState(info.Runtime) // again, if git has not answered
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.found == nil {
		return ""
	}
	news, now := findings{}, *r.found
	if !now.machine.IsKnown() {
		news.machine = r.machine()
		now.machine = news.machine
	}
	if r.state != "" {
		news.state, now.state, r.state = r.state, r.state, ""
	}
	r.found = &now
	if news.state != "" {
		news.branch, news.files = now.branch, now.files
	}
	news.addTo(info)
	return news.note()
}
