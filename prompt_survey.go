package pygent

import (
	"context"
	"errors"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/survey"
)

// Survey is what an agent found out about the place of its work, for the system
// prompt. Fields are empty where that is not known. The texts are bounded, and of
// one line where nothing else is said; file names and the like in them have no
// control characters, but may be the words of a stranger.
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

// WithSurvey says whether the model is told what the agent finds at its start: see
// [Survey]. The first request waits neither for a container nor for a command. What
// is not known by then, the state of the repository and what a container of an image
// has that is new to this user's processes, follows once, after the result of a tool or with
// the next message of the user, if the [PromptBuilder] shows it at all. Of runtimes
// that are not of this package, the agent lists the workspace if they are a
// [Describer] and a [FileLister], and runs no command. Default: true.
func WithSurvey(on bool) Option { return option(func(o *options) { o.survey = on }) }

// The bounds of the time that a survey takes.
const (
	surveyWithin = 2 * time.Second // the reading of files
	stateWithin  = time.Second     // git's answer
)

// found is what an agent finds at its start.
type found struct {
	survey   Survey
	skills   *skillSet
	warnings []string // about the skills
}

// findings are what an agent found of the place of its work, and what of that is
// still to come.
type findings struct {
	listing lateCall // of the workspace

	mu     sync.Mutex // guards what follows
	found  *found     // nil before the agent has looked
	info   PromptInfo // that the system message was last written from
	state  string     // of the repository, once git has answered
	change bool       // tools have run that may have changed that state
}

// look surveys the place of the agent's work, without a wait for a container or a
// command. It asks git only if the caller has the time.
func (a *Agent) look(ctx context.Context, info RuntimeInfo, hasTime bool) (s Survey) {
	ctx, cancel := context.WithTimeout(ctx, surveyWithin)
	defer cancel()
	s.Files = a.listWorkspace(ctx)
	head, _, err := readHead(ctx, a.runtime, path.Join(".git", "HEAD"), survey.MaxHead)
	if rt, ours := RuntimeAs[*workspaceRuntime](a.runtime); ours && err != nil {
		head = []byte(rt.GitHead()) // it is elsewhere
	}
	s.Branch = survey.Branch(string(head))
	s.take(a.machine())
	if hasTime && a.hasState(s, info) {
		s.State = a.gitState(ctx)
	}
	return s
}

// take adds what is known of a machine.
func (s *Survey) take(m survey.Machine) {
	s.System, s.Programs, s.Missing = m.System, m.Found, m.Missing
}

// machine returns what is known by now of where commands run.
func (a *Agent) machine() (m survey.Machine) {
	if rt, ours := RuntimeAs[*workspaceRuntime](a.runtime); ours {
		m, _ = rt.Machine()
	}
	return m
}

// hasState reports whether git can be asked about the workspace. Without
// protection, it would read a stranger's files with the user's rights.
func (a *Agent) hasState(s Survey, info RuntimeInfo) bool {
	_, ours := RuntimeAs[*workspaceRuntime](a.runtime)
	return ours && s.Branch != "" && info.Protection != protectionNone
}

// gitState asks git for the state of the workspace's repository. It is empty if git
// does not answer in time, or there is none.
func (a *Agent) gitState(ctx context.Context) string {
	rt, ours := RuntimeAs[*workspaceRuntime](a.runtime)
	if !ours {
		return ""
	}
	output, _ := rt.Aside(ctx, survey.StatusScript, stateWithin)
	return survey.State(output)
}

// listWorkspace lists the workspace; see [survey.Listing].
func (a *Agent) listWorkspace(ctx context.Context) string {
	lister, ok := RuntimeAs[FileLister](a.runtime)
	if !ok {
		return ""
	}
	text, err := outliveOnce(ctx, a, &a.findings.listing, "the runtime's ListFiles", func() (string, error) {
		return survey.Listing(ctx, func(ctx context.Context, dir string, limit int) (entries []survey.Entry, more bool, err error) {
			files, more, err := lister.ListFiles(ctx, dir, 1, limit)
			for _, f := range files {
				entries = append(entries, survey.Entry{Name: path.Base(f.Path), Dir: f.Mode.IsDir()})
			}
			return entries, more, err
		})
	})
	if err != nil {
		a.log.Debug("the workspace could not be listed", "error", err)
	}
	return text
}

// lookOnce returns what was found at the start, or after the last
// RefreshSystemMessage. The agent does not look more often, so that what the
// model does itself changes no message.
func (a *Agent) lookOnce(ctx context.Context, info RuntimeInfo, described bool) (found, error) {
	again := a.system.again.Swap(false)
	if f, ok := a.findings.get(); ok && !again {
		return f, nil
	}
	var f found
	f.skills, f.warnings = a.findSkills(ctx)
	if a.opts.survey && described {
		f.survey = a.look(ctx, info, again)
	}
	if err := ctx.Err(); err != nil {
		a.system.again.Store(again)
		return f, err
	}
	a.findings.set(f)
	a.skills.mu.Lock()
	a.skills.set = f.skills
	a.skills.mu.Unlock()
	return f, nil
}

func (f *findings) get() (found, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.found == nil {
		return found{}, false
	}
	return *f.found, true
}

func (f *findings) set(all found) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.found, f.state = &all, ""
}

// wrote notes what a system message was written from.
func (f *findings) wrote(info PromptInfo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.info = info
}

// askState asks git about the workspace while the model is asked for the first
// time: nobody waits for the answer.
func (r *run) askState() {
	a := r.agent
	f := &a.findings
	f.mu.Lock()
	wanted := !f.change && f.state == "" && f.found != nil && f.found.survey.State == "" && a.hasState(f.found.survey, f.info.Runtime)
	f.mu.Unlock()
	if !wanted {
		return
	}
	r.asksState.Start(r.ctx, time.Millisecond, func(ctx context.Context) (again bool) {
		state := a.gitState(ctx)
		f.mu.Lock()
		defer f.mu.Unlock()
		if !f.change { // else it is not that of the start
			f.state = state
		}
		return false
	})
}

// changes notes that tools begin to run.
func (f *findings) changes() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.change = true
}

// surveyNews is what the model has to be told, once, of what was found after the
// system message was written, which stays as it is.
func (a *Agent) surveyNews() string {
	if !a.opts.survey {
		return ""
	}
	var m survey.Machine
	if a.findings.lackMachine() {
		m = a.machine()
	}
	news, before, after := a.findings.news(m)
	text := news.note()
	if text == "" {
		return ""
	}
	shown, err := safecall.Catch(func() (bool, error) { return a.prompt(before) != a.prompt(after), nil })
	a.logPanic("system message", err)
	if err != nil || !shown {
		return "" // whoever wrote the prompt leaves this out
	}
	return text
}

// lackMachine reports whether it is still to be told what the machine has.
func (f *findings) lackMachine() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.found != nil && !f.found.survey.knowsMachine()
}

func (s *Survey) knowsMachine() bool { return len(s.Programs)+len(s.Missing) > 0 }

// news takes what the model was not told of the machine and the repository, with
// what a system message could be written from before, and after that was known.
func (f *findings) news(m survey.Machine) (news Survey, before, after PromptInfo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.found == nil {
		return news, before, after
	}
	before, after = f.info, f.info
	all := &f.found.survey
	before.Survey = *all
	if !all.knowsMachine() {
		news.take(m)
		all.take(m)
	}
	if f.state != "" {
		news.State, all.State, f.state = f.state, f.state, ""
	}
	after.Survey = *all
	return news, before, after
}

// lateCall is a call of foreign code that may ignore its context. The zero value is
// ready.
type lateCall struct {
	returned atomic.Pointer[chan struct{}] // closed when the call returns that was left behind; nil if none was
}

// errLate is returned instead of calling code that owes an answer.
var errLate = errors.New("it has been asked before, and has not answered yet")

// outliveOnce calls f as [safecall.Outlive] does, but leaves only one call behind.
func outliveOnce[T any](ctx context.Context, a *Agent, c *lateCall, what string, f func() (T, error)) (T, error) {
	if late := c.returned.Load(); late != nil && !hasEnded(*late) {
		var none T
		return none, errLate
	}
	returned := make(chan struct{})
	value, err := safecall.Outlive(ctx, func() (T, error) {
		defer close(returned)
		defer a.enter(&a.calling, what)()
		return f()
	})
	if !hasEnded(returned) {
		c.returned.Store(&returned)
	}
	a.logPanic(what, err)
	return value, err
}
