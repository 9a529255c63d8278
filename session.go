package pygent

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/x/pygent/internal/callwords"
	"github.com/x/pygent/internal/console"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/feed"
	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/screen"
	"github.com/x/pygent/internal/slash"
)

// runPlain is the session of [Agent.RunInteractive] without a registered face.
func (a *Agent) runPlain(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	s := newSession(a)
	s.life = ctx
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer cancel()
	defer s.talk.Open(ctx)()
	defer a.answerBy(ctx, s.user())()
	before, stop := s.showEvents()
	defer s.waits.end()
	defer stop()
	defer s.talk.End()
	defer a.tellGitChanges()
	s.banner(ctx)
	if before != nil && (before.Kind == RuntimePull || before.Kind == RuntimeStarting) {
		s.event(Event{Type: EventRuntime, Text: before.Text, Runtime: &RuntimeEvent{Kind: before.Kind}})
	}
	given, _, _ := s.temporaryFiles(ctx) // such as initial files
	defer func() { s.leaveFiles(ctx, given) }()
	watchers.Go(func() { s.tellOfStart(ctx) })
	if a.opts.resume {
		s.talk.Do(ctx, func(ctx context.Context) error { return s.act(ctx, "/resume") })
	}
	if first := a.opts.first; first.Text() != "" || len(first.Parts) > 0 {
		s.talk.Do(ctx, func(ctx context.Context) error { return s.begin(ctx, first) })
	}
	return s.talk.Hold(ctx, s.act)
}

// session is a conversation in plain text.
type session struct {
	agent   *Agent
	talk    *console.Talk
	consent *console.Consent
	console *console.Console
	show    func(Event)
	news    func(Event)                     // shows what isBeside says is no part of the conversation
	waits   *waits                          // says there that a model or a command takes its time
	start   sandbox.StartFailure            // why no command can run, if that was said
	life    context.Context                 // ends with the session
	repairs []string                        // of the history, for the banner
	inTurn  atomic.Pointer[context.Context] // the context of the current turn; nil between turns
}

func newSession(a *Agent) *session {
	in, out := a.opts.in, a.opts.out
	if in == nil {
		in = os.Stdin
	}
	if out == nil {
		out = screen.Stdout()
	}
	c := console.New(in, out, a.log)
	s := &session{
		agent:   a,
		talk:    console.NewTalk(c),
		consent: console.NewConsent(c),
		console: c,
		show:    eventPrinter(c.Printer),
		repairs: a.history.Repairs(),
	}
	s.news, s.waits = s.show, newWaits(c.Printer)
	if to := c.Beside(); a.opts.out == nil && to != c.Printer {
		s.news, s.waits = eventPrinter(to), newWaits(to)
	}
	return s
}

// act carries out a line of the user.
func (s *session) act(ctx context.Context, text string) (err error) {
	own, isOwn := strings.CutPrefix(text, "!")
	switch {
	case isOwn:
		err = s.shell(ctx, own)
	case slash.Is(text):
		err = s.command(ctx, text)
	case slash.Leaves(text) && !s.talk.Offers():
		return console.ErrLeave
	default:
		err = s.hear(ctx, s.talk.Chosen(text))
	}
	if errors.Is(err, ErrAgentClosed) {
		return console.ErrLeave
	}
	return s.failure(err)
}

// say makes a turn that begins with a message.
func (s *session) say(ctx context.Context, msg Message) error {
	id, err := s.agent.Say(msg)
	if err != nil {
		return err
	}
	defer s.agent.Unsay(id) // if the turn has not begun
	return s.turn(ctx, func(opts ...RunOption) (*Result, error) { return s.agent.RunUntilStop(ctx, "", opts...) })
}

// turn makes a run, shows its events, and says how it ended. Questions about
// hosts end with it.
func (s *session) turn(ctx context.Context, run func(...RunOption) (*Result, error)) error {
	s.talk.Offer("")
	ctx, cancel := context.WithCancel(ctx)
	s.inTurn.Store(&ctx)
	result, err := run(WithEndOnReply(), WithEndOnStartFailure())
	s.inTurn.Store(nil)
	cancel()
	if err != nil {
		return err
	}
	s.outcome(result)
	return nil
}

// outcome shows what the events of the turn did not tell.
func (s *session) outcome(r *Result) {
	switch r.Status {
	case StatusReplied:
		if r.Steps == 0 {
			s.talk.Aside("(nothing was interrupted: the last reply ended the turn)")
		}
	case StatusStopped:
		if r.Summary != "" && !r.SummaryIsText() {
			s.talk.Say("%s", r.Summary)
		}
	case StatusAwaitingUser:
		if q := r.Question; q != nil {
			s.talk.Offer(q.Prompt, q.Options...)
		}
	default:
		s.talk.Aside("(%s; say \"go on\" to continue)", cmp.Or(r.Reason, string(r.Status)))
	}
}

// event shows an event: every one during a turn, and between turns only those
// worth an interruption. It does not repeat what the banner said.
func (s *session) event(e Event) {
	said := e.Type == EventWarning && slices.ContainsFunc(s.repairs, func(r string) bool { return strings.Contains(e.Text, r) })
	pulls := e.Type == EventRuntime && e.Runtime.Kind == RuntimePull
	asked := e.Type == EventCompacting || e.Type == EventCompacted || e.Type == EventRestored // by /compact, /undo or /redo
	switch {
	case said || s.inTurn.Load() == nil && !pulls && !asked && e.Type != EventTask && e.Type != EventWarning:
	case isBeside(e):
		s.news(e)
	default:
		s.show(e)
	}
	s.waits.note(e)
}

// showEvents has the session get the agent's events, including those between turns,
// until end is called. before is the runtime's last one that the session does not get.
func (s *session) showEvents() (before *RuntimeEvent, end func()) {
	a := s.agent
	events := a.handlerFeed(s.event)
	set := func(to *feed.Feed[Event]) *RuntimeEvent {
		a.emitMu.Lock()
		defer a.emitMu.Unlock()
		a.listeners.session = to
		return a.state.Runtime
	}
	return set(events), func() {
		set(nil)
		<-events.Handled()
	}
}

// tellOfStart tells the user that commands cannot run, as soon as that is
// known.
func (s *session) tellOfStart(ctx context.Context) {
	rt, ok := RuntimeAs[Starter](s.agent.runtime)
	if !ok {
		return
	}
	_, err := guard.Outlive(ctx, func() (struct{}, error) {
		defer s.agent.enter(&s.agent.calling, "the runtime's Start")()
		return struct{}{}, rt.Start(ctx)
	})
	s.agent.logPanic("start of the runtime", err)
	if err != nil && !errors.Is(err, ctx.Err()) {
		s.tellStart(err)
	}
}

// tellStart tells the user why no command can run, once.
func (s *session) tellStart(err error) {
	s.start.Tell(err, func(why string) { s.talk.InterjectAside("! commands cannot run: %s", why) })
}

// failure is an error that does not repeat why no command can run, which is told once
// in a session.
func (s *session) failure(err error) error {
	if !errors.Is(err, ErrRuntimeStart) {
		return err
	}
	s.tellStart(err)
	return errors.New(s.start.Without(err.Error()))
}

// banner shows the persona, where commands run, and the state of the
// conversation.
func (s *session) banner(ctx context.Context) {
	info := s.agent.describe(ctx)
	where := "locally, on this machine"
	if s.agent.UseDocker() {
		where = "in Docker (" + info.Image + ")"
	}
	const shownName = 100 // bytes
	s.talk.Say("%s: commands run %s, in %s%s", cut.Line(s.agent.Persona().Name, shownName), where, info.Workspace, info.protection())
	if info.Fallback != "" {
		s.talk.Say("! NOT in a container: %s", info.Fallback)
	}
	for _, note := range info.Notes {
		s.talk.Say("! %s", note)
	}
	for _, repair := range s.repairs {
		s.talk.Say("! history: %s", repair)
	}
	for _, notice := range s.agent.toldAtFirst {
		s.talk.Say("! %s", notice)
	}
	if recap := s.agent.Recap(); recap != "" {
		s.talk.Say("The conversation %s", recap)
	}
	user, model := s.agent.LastSaid()
	for _, line := range user {
		s.talk.Say("  > %s", line)
	}
	for _, line := range model {
		s.talk.Say("%s", strings.TrimRight("  "+line, " "))
	}
	if s.agent.history.spokenAnew() > 0 && s.agent.tools.interrupted(s.agent.history.view()) && !s.agent.opts.resume {
		s.talk.Say("The conversation was interrupted; /resume goes on with it.")
		if again := s.agent.runsAgain(); again != "" {
			s.talk.Say("%s", again)
		}
	}
	if s.talk.Asks() && info.Temporary && !s.agent.opts.lent {
		s.talk.Aside("The workspace is temporary: if files are made in it, you are asked at the end whether to keep them.")
	}
	if s.talk.Asks() {
		s.talk.Aside("Type a message; /help lists the commands, /exit leaves.")
	}
	if s.talk.IsAside() {
		s.talk.Aside("The output is redirected and gets the conversation. You are asked here.")
	}
}

// user has the person at the terminal asked, if there is one.
func (s *session) user() FaceUser {
	if !s.talk.Person() {
		return FaceUser{}
	}
	return FaceUser{Approve: s.approve, Hosts: s.approveHosts, Answer: s.answer}
}

// approve asks the user about a call. Only a yes allows it. Other words are the
// reason for a denial, and a likely typing error is asked about again.
func (s *session) approve(ctx context.Context, r ApprovalRequest) (Decision, error) {
	if r.Task != "" {
		return s.approveForTask(ctx, r)
	}
	d, err := s.consent.Allow(ctx, s.question(r))
	return Decision{Allow: d.Allow, Session: d.Always, Reason: d.Reason, By: byUser}, err
}

// question describes a call to the user.
func (s *session) question(r ApprovalRequest) console.Request {
	where := "on your machine"
	if s.agent.UseDocker() {
		where = "in the container"
	}
	q := console.Request{Always: r.Session}
	if command, ok := commandIn(r.Call); ok && isOurs(r.Call) {
		q.Head, q.Text = "Run this "+where+"?", command.String()
		if command.Background {
			q.Head = "Run this in the background " + where + "?"
		}
		return q
	}
	if change, ok := changeIn(r.Call); ok && isOurs(r.Call) {
		q.Head, q.Title, q.Text = "Write this file "+where+"?", change.title(), change.what
		if r.Task == "" && s.agent.steersGit(change.path) { // tasks have workspaces of their own
			q.Head = "This can change what git runs " + where + ". Allow it?"
		}
		return q
	}
	q.Head, q.Text = "Allow this call?", r.Call.Name+" "+r.Call.Arguments
	if r.Tool.Title != r.Call.Name && r.Tool.Title != callwords.Title(r.Call.Name) {
		q.Title = r.Tool.Title
	}
	return q
}

// errBetweenTurns is the reason for refusing the hosts of a background job
// while the user writes the next message.
var errBetweenTurns = errors.New("the user is asked during a turn only")

// approveHosts asks the user about all hosts of the request at once.
func (s *session) approveHosts(ctx context.Context, r HostRequest) (HostDecision, error) {
	turn := s.inTurn.Load()
	if turn == nil {
		return HostDecision{}, errBetweenTurns
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(*turn, func() { cancel(errBetweenTurns) })()
	d, err := s.consent.AllowHosts(ctx, r.Hosts, s.agent.opts.homeFile != "")
	if d.Always {
		s.keepHosts(r.Hosts)
	}
	return HostDecision{Allow: d.Allow, Session: d.Session, Reason: d.Reason}, err
}

// keepHosts allows hosts permanently in the user's own configuration. If that
// file cannot be written, they are allowed for the session.
func (s *session) keepHosts(hosts []string) {
	if s.agent.opts.homeFile == "" {
		s.talk.Aside("! there is no configuration file to keep that in; it holds for this session")
		return
	}
	file, err := s.agent.keepHosts(hosts)
	if err != nil {
		s.talk.Aside("! not kept, so it holds for this session: %v", err)
		return
	}
	s.talk.Aside("(kept in %s)", file)
}
