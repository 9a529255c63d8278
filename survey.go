package pygent

import (
	"context"
	"path"
	"time"

	"github.com/x/pygent/internal/survey"
)

// Survey is what an agent found out about the place of its work before the
// first request, for the system prompt. Fields are empty where that is not
// known. The texts are bounded, and of one line where nothing else is said; file
// names and the like in them have no control characters, but may be the words of
// a stranger.
type Survey struct {
	// System is the operating system of the commands, such as "Debian GNU/Linux
	// 12 (bookworm)".
	System string
	// Programs are those of a fixed list of common programs that commands can run,
	// and Missing the others of that list.
	Programs, Missing []string
	// Files lists the workspace, an entry a line: the top level, directories with
	// the number of their entries, and what is in the first ones.
	Files string
	// Branch says what is checked out in the workspace's git repository: "on
	// branch main" or "at commit 1a2b3c4d".
	Branch string
	// State is "clean", or how many files differ from what is checked out: "3 files
	// changed".
	State string
}

// WithSurvey says whether the system message tells what the agent finds at its
// start: see [Survey]. In a runtime of this package it runs one or two short
// commands for that, which read only. Of others, it lists the workspace if they are a
// [Describer] and a [FileLister]. Default: true.
func WithSurvey(on bool) Option { return option(func(o *options) { o.survey = on }) }

// The bounds of the time that a survey takes: of each of its commands, and of
// all of it.
const (
	surveyCommandTimeout = time.Second
	surveyWithin         = 2 * time.Second
)

// look surveys the place of the agent's work. What cannot be found out in time
// stays empty, since no work depends on it. It waits for no container.
func (a *Agent) look(ctx context.Context, info RuntimeInfo) (s Survey) {
	ctx, cancel := context.WithTimeout(ctx, surveyWithin)
	defer cancel()
	s.Files = a.listWorkspace(ctx)
	head, _, err := readHead(ctx, a.runtime, path.Join(".git", "HEAD"), survey.MaxHead)
	if err == nil {
		s.Branch = survey.Branch(string(head))
	}
	if _, ours := RuntimeAs[*workspaceRuntime](a.runtime); !ours || info.Shell == "" {
		return s
	}
	if m, ok := survey.ReadMachine(a.surveyCommand(ctx, survey.MachineScript())); ok {
		s.System, s.Programs, s.Missing = m.System, m.Found, m.Missing
	}
	// Without protection, git would read a stranger's files with the user's rights.
	if s.Branch != "" && info.Protection != protectionNone {
		s.State = survey.State(a.surveyCommand(ctx, survey.StatusScript))
	}
	return s
}

// surveyCommand returns the output of a command, which is empty unless it ended
// well.
func (a *Agent) surveyCommand(ctx context.Context, script string) string {
	res, err := a.runtime.Bash(ctx, script, BashTimeout(surveyCommandTimeout), BashMaxOutput(4<<10))
	if err != nil || res.ExitCode != 0 || res.TimedOut || res.Truncated {
		a.log.Debug("a command of the survey gave nothing", "exit", res.ExitCode, "error", err)
		return ""
	}
	return res.Output
}

// listWorkspace lists the workspace; see [survey.Listing].
func (a *Agent) listWorkspace(ctx context.Context) string {
	lister, ok := RuntimeAs[FileLister](a.runtime)
	if !ok {
		return ""
	}
	text, err := survey.Listing(ctx, func(ctx context.Context, dir string, limit int) (entries []survey.Entry, more bool, err error) {
		files, more, err := lister.ListFiles(ctx, dir, 1, limit)
		for _, f := range files {
			entries = append(entries, survey.Entry{Name: path.Base(f.Path), Dir: f.Mode.IsDir()})
		}
		return entries, more, err
	})
	if err != nil {
		a.log.Debug("the workspace could not be listed", "error", err)
	}
	return text
}
