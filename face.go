package pygent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/screen"
	"github.com/x/pygent/internal/settings"
)

// Face is a way for a person to use an agent: it shows what the agent does, and
// passes on what the person says, until the person leaves or ctx ends. It uses
// the public methods of the agent alone, and gives lines that begin with "/" to
// [Agent.RunCommand]. It does not close the agent.
type Face func(ctx context.Context, s FaceSession) error

// FaceSession is what a [Face] is given.
type FaceSession struct {
	Agent *Agent
	// In and Out are what [WithIO] set, or else the process's standard input and
	// output. What is written to Out must not contain control characters of the
	// model or of a command.
	In  io.Reader
	Out io.Writer
	// Resume says that the session begins by resuming an interrupted run: see
	// [WithResume].
	Resume bool
	// Interrupted says that the conversation ends with a run that was interrupted,
	// so that there is something to resume.
	Interrupted bool
	// KeepHosts allows hosts for good, in the user's own configuration. It is nil
	// where there is no such file, and returns the name of the file.
	KeepHosts func(hosts []string) (file string, err error)
	// Notices are what [New] has told of in an [EventNotice], before there was a face:
	// that the files of a session are back, for example. The last one names the calls
	// that resuming would make again.
	Notices []string
	// First is what the user says first: see [WithFirstMessage]. It has no content
	// if the user is waited for.
	First Message
	// Follow has a function called with each event of the agent, by one goroutine for which
	// a run waits, until end is called. before is the last event of the runtime that the
	// function does not get. end first emits what there is to say of changes of git's
	// configuration. [Agent.Subscribe] does without a run that waits.
	Follow func(func(Event)) (before *RuntimeEvent, end func())
	// Lent says that the agent's runtime outlives it: see [LendRuntime].
	Lent bool
	// Logger is that of the agent, and never nil.
	Logger *slog.Logger
}

// FaceUser decides and answers in the name of the person at a face. A field is nil
// where the person cannot be asked.
type FaceUser struct {
	Approve ApprovalFunc
	Hosts   HostApprovalFunc
	Answer  AskFunc
}

// over returns the user that is asked about what u can be asked about, and below about
// the rest.
func (u FaceUser) over(below FaceUser) FaceUser {
	if u.Approve == nil {
		u.Approve = below.Approve
	}
	if u.Hosts == nil {
		u.Hosts = below.Hosts
	}
	if u.Answer == nil {
		u.Answer = below.Answer
	}
	return u
}

// Answers has the person at the face be asked, until end is called: about calls,
// hosts and the questions of tools. Whom the agent's options name for one of them
// keeps it. On the local runtime, where commands are not contained, bash calls
// then need approval, unless an option decided that. What the person allowed for
// the session ends with it.
//
// An agent may have several faces at once, which leave in any order. The person at the
// newest one is asked, of those who can be. Bash calls need approval as long as one of
// the faces requires it.
func (s FaceSession) Answers(ctx context.Context, user FaceUser) (end func()) {
	a := s.Agent
	var confirm *bool
	if a.opts.approve == nil {
		confirm = new(!a.UseDocker() && (user.Approve != nil || a.describe(ctx).Fallback != ""))
	}
	if !a.UseDocker() {
		user.Hosts = nil
	}
	return a.deciders.enterFace(user, confirm)
}

// WithResume has [Agent.RunInteractive] begin by resuming the run that the
// history ends with, as [Agent.Resume] does. In a session, /resume does the
// same.
func WithResume(resume bool) Option { return option(func(o *options) { o.resume = resume }) }

// WithFirstMessage has [Agent.RunInteractive] begin with a message, as if the user
// had typed it: the files that its Content mentions go along, as
// [Agent.AttachMentioned] finds them. A message without content is none.
func WithFirstMessage(msg Message) Option { return option(func(o *options) { o.first = msg }) }

// The faces that an agent's methods look for.
const (
	FaceTerminal = "terminal" // of RunInteractive
	FaceWeb      = "web"      // of RunGUI
)

// ErrNoFace is returned by [Agent.RunInteractive] and [Agent.RunGUI] when no imported package
// registered a face for it.
var ErrNoFace = errors.New("no such face is registered")

var faces struct {
	sync.RWMutex
	byName map[string]Face
}

// RegisterFace makes a face available by its name, to all agents of the process.
// A package calls it when it is imported, as a database driver registers itself:
// programs that do not import the package do not contain it. [FaceTerminal] is
// the face that [Agent.RunInteractive] shows, and [FaceWeb] that of
// [Agent.RunGUI].
//
// A face replaces an earlier one of the same name; nil removes it. RegisterFace
// may be called at any time. A session that goes on is not affected.
func RegisterFace(name string, f Face) {
	faces.Lock()
	defer faces.Unlock()
	if f == nil {
		delete(faces.byName, name)
		return
	}
	if faces.byName == nil {
		faces.byName = map[string]Face{}
	}
	faces.byName[name] = f
}

func faceOf(name string) (Face, bool) {
	faces.RLock()
	defer faces.RUnlock()
	f, ok := faces.byName[name]
	return f, ok
}

// RunInteractive talks with the user at a terminal, until the user leaves, the
// input ends or ctx ends. It shows the [FaceTerminal] that an imported package
// registered, as package terminal does; without one the error matches [ErrNoFace]. It reads
// from standard input, and writes to standard output, or to what [WithIO] set.
//
// The session takes the terminal out of its usual mode and gives it back when
// RunInteractive returns. Signals that end a process are the program's own: one that
// dies of SIGTERM or SIGHUP leaves the terminal as it is, without echo, for which
// `stty sane` is the cure. So end ctx at them, as [os/signal.NotifyContext] does, and
// return from main after RunInteractive has.
func (a *Agent) RunInteractive(ctx context.Context) error {
	switch {
	case ctx == nil:
		return errNilContext
	case a.isClosed():
		return ErrAgentClosed
	}
	f, ok := faceOf(FaceTerminal)
	if !ok {
		return fmt.Errorf("talk with the user: %w: import _ \"github.com/x/pygent/terminal\", or another package that calls RegisterFace(FaceTerminal, …)", ErrNoFace)
	}
	return a.FaceSession().run(ctx, f)
}

// RunGUI shows the agent in the user's browser, until the page is closed or ctx
// ends. It shows the [FaceWeb] that an imported package registered. Without one
// the error matches [ErrNoFace].
func (a *Agent) RunGUI(ctx context.Context) error {
	switch {
	case ctx == nil:
		return errNilContext
	case a.isClosed():
		return ErrAgentClosed
	}
	f, ok := faceOf(FaceWeb)
	if !ok {
		return fmt.Errorf("show the agent in a browser: %w: import _ \"github.com/x/pygent/web\", or another package that calls RegisterFace(FaceWeb, …)", ErrNoFace)
	}
	return a.FaceSession().run(ctx, f)
}

// FaceSession returns what a [Face] is given, for one that shows several agents.
func (a *Agent) FaceSession() FaceSession {
	s := FaceSession{Agent: a, In: a.opts.in, Out: a.opts.out, Resume: a.opts.resume, First: a.opts.first, Lent: a.opts.lent, Logger: a.log}
	s.Interrupted = a.tools.interrupted(a.history.ActiveMessages())
	s.Notices = slices.Clone(a.startup.texts)
	if again := a.runsAgain(); again != "" && !s.Resume {
		s.Notices = append(s.Notices, again)
	}
	s.Follow = func(f func(Event)) (*RuntimeEvent, func()) {
		before, end := a.events.follow(f)
		return before, func() { emitGitChanges(a.git, a.emit); end() }
	}
	if file := a.opts.homeFile; file != "" {
		s.KeepHosts = func(hosts []string) (string, error) {
			return "~/" + filepath.Base(file), settings.AddToList(file, "container", "allowed_hosts", hosts...)
		}
	}
	if s.In == nil {
		s.In = os.Stdin
	}
	if s.Out == nil {
		s.Out = screen.Stdout()
	}
	return s
}

// run shows a face. Its panic becomes an error.
func (s FaceSession) run(ctx context.Context, f Face) error {
	_, err := safecall.Catch(func() (struct{}, error) { return struct{}{}, f(ctx, s) })
	logPanic(s.Logger, "face", err)
	return err
}
