package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/x/pygent/internal/console"
	"github.com/x/pygent/internal/feed"
	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/screen"
	"github.com/x/pygent/internal/slash"
)

// RunInteractive talks with the user: it reads messages line by line from
// standard input, or what [WithIO] set, and shows what the agent does. A reply
// ends the agent's turn. Lines that begin with "/" are commands: /help lists
// them. Ctrl-C interrupts the turn, and, when there is none, leaves at the
// second press. It returns at /exit, at the end of the input, and when ctx ends.
//
// A person at a terminal is asked about calls that need approval, which on the
// local runtime all do that run a command or write a file; see [WithConfirmBash].
// Only a line that is typed half a second after the question is shown, or later,
// answers it, and "always" covers what the question says, for this session. Where
// the input is no terminal, nobody is asked, and such calls are denied: what comes
// through a pipe was written before the question. Where commands cannot run
// because the container does not start, that is said as soon as it is known.
func (a *Agent) RunInteractive(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	ctx, cancel := context.WithCancel(ctx)
	s := newSession(a)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer cancel()
	s.interrupts = make(chan os.Signal, 2)
	signal.Notify(s.interrupts, os.Interrupt)
	defer signal.Stop(s.interrupts)
	defer s.console.Open(ctx)()
	defer s.askForCommands(ctx)()
	defer s.askForHosts()()
	defer s.showEvents()()
	defer s.console.End()
	defer a.tellGitChanges()
	s.banner(ctx)
	watchers.Go(func() { s.tellOfStart(ctx) })
	return s.loop(ctx)
}

// WithResume has [Agent.RunInteractive] begin by going on with the run that the
// history was left with, as [Agent.Resume] does. In a session, /resume does the
// same.
func WithResume(resume bool) Option { return option(func(o *options) { o.resume = resume }) }

// Command is a command of interactive sessions: "/name arguments".
type Command struct {
	Name    string // without the slash
	Summary string // one line for /help
	Help    string // what /help NAME adds; may be empty

	// Run carries the command out and writes what the user should see to out,
	// which makes control characters visible.
	Run func(ctx context.Context, a *Agent, args string, out io.Writer) error
}

// commands are those of every session of the process.
var commands = slash.New(
	slash.Command[*Agent]{
		Name:    "resume",
		Summary: "go on with a run that was interrupted",
		Run: func(context.Context, *Agent, string, io.Writer) error { // without arguments, act does it
			return errors.New("/resume takes no arguments")
		},
	},
	slash.Command[*Agent]{
		Name:    "exit",
		Summary: "end the session",
		Run:     func(context.Context, *Agent, string, io.Writer) error { return errLeave },
	},
)

// RegisterCommand adds a command to every interactive session of the process,
// replacing one of the same name. The built-in /help, /resume and /exit
// cannot be replaced.
func RegisterCommand(c Command) error {
	if !toolName.MatchString(c.Name) {
		return fmt.Errorf("command %q: a name has 1 to 64 letters, digits, _ or -", c.Name)
	}
	if c.Run == nil {
		return fmt.Errorf("command %s: Run is nil", c.Name)
	}
	return commands.Add(slash.Command[*Agent](c))
}

// session is a conversation in plain text.
type session struct {
	agent      *Agent
	console    *console.Console
	printer    *printer // of events, to the console
	interrupts chan os.Signal
	warned     bool        // the user was told that another Ctrl-C leaves
	options    []string    // answers to the model's last question, which may be given by number
	busy       atomic.Bool // a turn goes on
	repairs    []string    // of the history, which the banner tells

	allowed  sync.Map                        // what approvals always cover
	turnLife atomic.Pointer[context.Context] // of the turn that goes on; nil between turns
}

var (
	// errLeave ends a session.
	errLeave = errors.New("leave the session")
	// errInterrupted ends a turn.
	errInterrupted = errors.New("interrupted by the user")
)

func newSession(a *Agent) *session {
	in, out := a.opts.in, a.opts.out
	if in == nil {
		in = os.Stdin
	}
	if out == nil {
		out = screen.Stdout()
	}
	c := console.New(in, out, a.log)
	return &session{agent: a, console: c, printer: newPrinter(c.Printer), repairs: a.history.Repairs()}
}

func (s *session) loop(ctx context.Context) error {
	if s.agent.opts.resume {
		s.act(ctx, "/resume")
	}
	for {
		if err := s.console.Err(); err != nil {
			return err
		}
		text, err := s.console.Ask(ctx, "> ", s.interrupts)
		switch {
		case ctx.Err() != nil, errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, console.ErrInterrupted) && s.warned:
			return nil
		case errors.Is(err, console.ErrInterrupted):
			s.warned = true
			s.console.Say("(Ctrl-C again, or /exit, to leave)")
			continue
		case errors.Is(err, console.ErrLongLine), errors.Is(err, console.ErrCutLine):
			s.console.Say("error: %v", err)
			continue
		case err != nil:
			return fmt.Errorf("read the input: %w", err)
		}
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		s.warned = false
		if !s.act(ctx, text) {
			return nil
		}
	}
}

// act does what a line of the user says. It reports whether the session goes on.
func (s *session) act(ctx context.Context, text string) bool {
	err := s.interruptible(ctx, func(ctx context.Context) error {
		switch {
		case text == "/resume":
			return s.turn(ctx, func(opts ...RunOption) (*Result, error) { return s.agent.Resume(ctx, opts...) })
		case strings.HasPrefix(text, "/"):
			return s.command(ctx, text)
		}
		text = s.chosen(text)
		return s.turn(ctx, func(opts ...RunOption) (*Result, error) { return s.agent.RunUntilStop(ctx, text, opts...) })
	})
	if errors.Is(err, errLeave) || errors.Is(err, ErrAgentClosed) {
		return false
	}
	if err != nil && ctx.Err() == nil {
		s.console.Say("error: %v", err)
	}
	return true
}

// command carries out a line that begins with a slash. The terminal is as the
// command expects it.
func (s *session) command(ctx context.Context, text string) error {
	c, args, err := commands.Find(text)
	if err != nil {
		return err
	}
	err = s.console.Lend(func() error {
		_, err := guard.Outlive(ctx, func() (struct{}, error) { return struct{}{}, c.Run(ctx, s.agent, args, s.console) })
		return err
	})
	s.agent.logPanic("command /"+c.Name, err)
	if err != nil && !commands.Builtin(c.Name) {
		return fmt.Errorf("/%s: %w", c.Name, err)
	}
	return err
}

// interruptible calls f with a context that Ctrl-C ends. That f was
// interrupted is no error.
func (s *session) interruptible(outer context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(outer)
	var watcher sync.WaitGroup
	watcher.Go(func() {
		select {
		case <-s.interrupts:
			cancel(errInterrupted)
		case <-ctx.Done():
		}
	})
	defer watcher.Wait()
	defer cancel(nil)
	err := f(ctx)
	if err != nil && ctx.Err() != nil && outer.Err() == nil {
		s.console.Say("(interrupted)")
		return nil
	}
	return err
}

// chosen is the answer that the user gave by its number, or the text itself.
func (s *session) chosen(text string) string {
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= len(s.options) {
		return s.options[n-1]
	}
	return text
}

// turn makes a run, shows its events, and says how it ended.
func (s *session) turn(ctx context.Context, run func(...RunOption) (*Result, error)) error {
	s.options = nil
	s.busy.Store(true)
	end := s.beginTurn(ctx)
	result, err := run(WithEndOnReply())
	end()
	s.busy.Store(false)
	if err != nil {
		return err
	}
	s.outcome(result)
	return nil
}

// outcome says what the events of the turn did not.
func (s *session) outcome(r *Result) {
	switch r.Status {
	case StatusReplied:
		if r.Steps == 0 {
			s.console.Say("(nothing was interrupted: the last reply ended the turn)")
		}
	case StatusStopped:
		if r.Summary != "" && r.Summary != strings.TrimSpace(r.Message.Text()) {
			s.console.Say("%s", r.Summary)
		}
	case StatusAwaitingUser:
		if r.Question == nil {
			return
		}
		if r.Question.Prompt != "" {
			s.console.Say("? %s", r.Question.Prompt)
		}
		s.options = r.Question.Options
		for i, option := range s.options {
			s.console.Say("  %d. %s", i+1, option)
		}
	default:
		s.console.Say("(%s; say \"go on\" to continue)", cmp.Or(r.Reason, string(r.Status)))
	}
}

// event shows an event: in a turn every one, and between turns what is worth an
// interruption. What the banner said is not repeated.
func (s *session) event(e Event) {
	said := e.Type == EventWarning && slices.ContainsFunc(s.repairs, func(r string) bool { return strings.Contains(e.Text, r) })
	pulls := e.Type == EventRuntime && e.Runtime.Kind == RuntimePull
	if !said && (s.busy.Load() || pulls || e.Type == EventTask || e.Type == EventWarning) {
		s.printer.event(e)
	}
}

// showEvents has the session hear the agent's events, those between turns
// included. It returns a function that ends this.
func (s *session) showEvents() (end func()) {
	a := s.agent
	events := a.handlerFeed(s.event)
	set := func(to *feed.Feed[Event]) {
		a.emitMu.Lock()
		defer a.emitMu.Unlock()
		a.listeners.session = to
	}
	set(events)
	return func() {
		set(nil)
		<-events.Handled()
	}
}

// tellOfStart says that commands cannot run, once that is known.
func (s *session) tellOfStart(ctx context.Context) {
	rt, ok := s.agent.runtime.(Starter)
	if !ok {
		return
	}
	_, err := guard.Outlive(ctx, func() (struct{}, error) {
		defer s.agent.enter(&s.agent.calling, "the runtime's Start")()
		return struct{}{}, rt.Start(ctx)
	})
	s.agent.logPanic("start of the runtime", err)
	if err != nil && !errors.Is(err, ctx.Err()) {
		s.console.Interject("! commands cannot run: %v", err)
	}
}

// banner says who answers, where commands run, and with what the conversation
// begins.
func (s *session) banner(ctx context.Context) {
	info := s.agent.describe(ctx)
	where := "locally, on this machine"
	if s.agent.runtime.UseDocker() {
		where = "in Docker (" + info.Image + ")"
	}
	s.console.Say("%s: commands run %s, in %s%s", s.agent.persona.Name, where, info.Workspace, info.protection())
	if info.Fallback != "" {
		s.console.Say("! NOT in a container: %s", info.Fallback)
	}
	for _, repair := range s.repairs {
		s.console.Say("! history: %s", repair)
	}
	if interrupted(s.agent.history.view()) && !s.agent.opts.resume {
		s.console.Say("The conversation was interrupted; /resume goes on with it.")
	}
	if s.console.Person() {
		s.console.Say("Type a message; /help lists the commands, /exit leaves.")
	}
}

// interrupted reports whether a conversation was left while it was the model's
// turn: after a message of the user, or a call that did not end the run.
func interrupted(record []Message) bool {
	if len(record) == 0 || record[len(record)-1].Role == RoleUser {
		return len(record) > 0
	}
	at, results, ok := exchangeAtEnd(record)
	return ok && (slices.Contains(results, nil) ||
		!slices.ContainsFunc(record[at].ToolCalls, func(c ToolCall) bool { return endsRun(c.Name) }))
}

// askForCommands has the user approve calls, and makes bash ask on the local
// runtime, where commands are not contained, unless that was decided. It
// returns a function that restores what was.
func (s *session) askForCommands(ctx context.Context) (restore func()) {
	approve, confirm := s.agent.approval()
	asked, ask := approve, confirm
	if confirm == nil && approve == nil {
		ask = new(!s.agent.runtime.UseDocker() && (s.console.Person() || s.agent.describe(ctx).Fallback != ""))
	}
	if s.console.Person() && approve == nil {
		asked = s.approve
	}
	s.agent.setApproval(asked, ask)
	return func() { s.agent.setApproval(approve, confirm) }
}

// describe says what the agent's runtime is, as far as it can tell.
func (a *Agent) describe(ctx context.Context) RuntimeInfo {
	unknown := RuntimeInfo{Kind: "custom"}
	d, ok := a.runtime.(Describer)
	if !ok {
		return unknown
	}
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	info, err := guard.Outlive(ctx, func() (RuntimeInfo, error) {
		defer a.enter(&a.calling, "the runtime's Describe")()
		return d.Describe(ctx), nil
	})
	a.logPanic("description of the runtime", err)
	if err != nil {
		return unknown
	}
	return info
}

// describeTimeout bounds how long a banner waits for a runtime to say what it is.
const describeTimeout = 3 * time.Second
