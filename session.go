package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/x/pygent/internal/console"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/feed"
	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/screen"
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
	defer s.showEvents()()
	defer s.talk.End()
	defer a.tellGitChanges()
	s.banner(ctx)
	given, _, _ := s.temporaryFiles(ctx) // such as initial files
	defer func() { s.tellTemporary(ctx, given) }()
	watchers.Go(func() { s.tellOfStart(ctx) })
	if a.opts.resume {
		s.talk.Do(ctx, func(ctx context.Context) error { return s.act(ctx, "/resume") })
	}
	if first := a.opts.first; first.Text() != "" || len(first.Parts) > 0 {
		s.talk.Do(ctx, func(ctx context.Context) error { return s.say(ctx, first) })
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
	return &session{
		agent:   a,
		talk:    console.NewTalk(c),
		consent: console.NewConsent(c),
		console: c,
		show:    eventPrinter(c.Printer),
		repairs: a.history.Repairs(),
	}
}

// act carries out a line of the user.
func (s *session) act(ctx context.Context, text string) (err error) {
	own, isOwn := strings.CutPrefix(text, "!")
	switch {
	case isOwn:
		err = s.shell(ctx, own)
	case strings.HasPrefix(text, "/"):
		err = s.command(ctx, text)
	default:
		text = s.talk.Chosen(text)
		err = s.turn(ctx, func(opts ...RunOption) (*Result, error) { return s.agent.RunUntilStop(ctx, text, opts...) })
	}
	if errors.Is(err, ErrAgentClosed) {
		return console.ErrLeave
	}
	return err
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
	result, err := run(WithEndOnReply())
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
		if r.Summary != "" && r.Summary != strings.TrimSpace(r.Message.Text()) {
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
	asked := e.Type == EventCompacting || e.Type == EventCompacted // by /compact
	if !said && (s.inTurn.Load() != nil || pulls || asked || e.Type == EventTask || e.Type == EventWarning) {
		s.show(e)
	}
}

// showEvents has the session get the agent's events, including those between
// turns, until the returned function is called.
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
		s.talk.InterjectAside("! commands cannot run: %v", err)
	}
}

// banner shows the persona, where commands run, and the state of the
// conversation.
func (s *session) banner(ctx context.Context) {
	info := s.agent.describe(ctx)
	where := "locally, on this machine"
	if s.agent.UseDocker() {
		where = "in Docker (" + info.Image + ")"
	}
	s.talk.Say("%s: commands run %s, in %s%s", s.agent.Persona().Name, where, info.Workspace, info.protection())
	if info.Fallback != "" {
		s.talk.Say("! NOT in a container: %s", info.Fallback)
	}
	for _, repair := range s.repairs {
		s.talk.Say("! history: %s", repair)
	}
	if said := lastSaid(s.agent.History().Messages()); said != "" {
		s.talk.Say("The conversation goes on after %s; %s", numeral.Count(s.agent.State().Messages, "message"), said)
	}
	if s.agent.history.spokenAnew() > 0 && s.agent.tools.interrupted(s.agent.history.view()) && !s.agent.opts.resume {
		s.talk.Say("The conversation was interrupted; /resume goes on with it.")
	}
	if s.talk.Asks() {
		s.talk.Aside("Type a message; /help lists the commands, /exit leaves.")
	}
	if s.talk.IsAside() {
		s.talk.Aside("The output is redirected and gets the conversation. You are asked here.")
	}
}

// lastSaid tells the last words of a conversation, empty for none.
func lastSaid(messages []Message) string {
	const shown = 70
	for _, m := range slices.Backward(messages) {
		switch words := cut.Line(m.Text(), shown); {
		case words != "" && m.Role == RoleUser:
			return "you said last: " + words
		case words != "" && m.Role == RoleAssistant:
			return "the model said last: " + words
		}
	}
	return ""
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

// EventPrinter returns an event handler that writes what happens to w as plain
// text: the model's words as they come, commands and their output, retries and
// warnings. Control characters in what models and commands write are made
// visible, so that they cannot drive a terminal. Errors of w are ignored. The
// handler is safe for concurrent use.
//
//	result, err := agent.RunUntilStop(ctx, msg, pygent.OnEvent(pygent.EventPrinter(os.Stderr)))
func EventPrinter(w io.Writer) func(Event) { return eventPrinter(console.NewPrinter(w)) }

// eventPrinter returns an event handler that writes to a printer.
func eventPrinter(to *console.Printer) func(Event) {
	var last string // the id of the call that was shown last; calls may overlap
	return func(e Event) {
		if e.Type == EventOutput || e.Type == EventProgress {
			if text := liveText(e); text != "" && e.Task == "" {
				to.Live(e.Time, text)
			}
			return
		}
		to.News(func(t *console.Text) {
			if e.Call != nil && e.Task == "" {
				if e.Type == EventToolDone && last != "" && last != e.Call.ID {
					t.EndLine()
					t.Call(summaryOf(e))
				}
				last = e.Call.ID
			}
			printEvent(t, e)
		})
	}
}

// printEvent writes an event. For a background task it writes only the
// progress, because the output of several tasks would mix.
func printEvent(t *console.Text, e Event) {
	if e.Task != "" {
		if e.Type == EventTask {
			printTask(t, e)
		}
		return
	}
	switch e.Type {
	case EventStep:
		t.Step()
	case EventText:
		t.Stream(e.Text)
	case EventMessage:
		t.Answer(e.Message.Text())
	case EventToolCall:
		t.EndLine()
		if !endsRun(e.Call.Name) {
			t.Call(summaryOf(e))
		}
	case EventToolStart:
		t.Began(e.Time)
	case EventToolDone:
		t.EndLive()
		t.Output(outputShown(e))
	case EventToolSkipped:
		t.Call(summaryOf(e))
		t.Output(outputShown(e))
	case EventRetry:
		t.Retry(e.Retry.Error, e.Retry.Wait)
	case EventCompacting:
		t.Warn("the model sums up the conversation")
	case EventCompacted:
		t.Warn("%s", e.Compaction)
	case EventNotice, EventWarning:
		t.Warn("%s", e.Text)
	case EventRuntime:
		printRuntime(t, e)
	case EventRunEnd:
		t.EndLine()
	}
}

// liveText returns what a running call tells, for people.
func liveText(e Event) string {
	if e.Type == EventOutput {
		return e.Chunk.Text
	}
	p := e.Progress
	switch {
	case p.Total > 0:
		return strings.TrimSpace(fmt.Sprintf("%s %d of %d", p.Text, p.Current, p.Total)) + "\n"
	case p.Current > 0:
		return strings.TrimSpace(fmt.Sprintf("%s %d", p.Text, p.Current)) + "\n"
	}
	return p.Text + "\n"
}

// outputShown returns what is shown of a call's result. The command was shown
// when it began, and the end of the run is shown when it ends.
func outputShown(e Event) string {
	if e.Output.End != "" {
		return ""
	}
	text := cmp.Or(e.Output.Display, e.Output.Content)
	command, ok := commandIn(*e.Call)
	if e.Output.Bash != nil {
		command.Cmd = e.Output.Bash.Command // what ran, if somebody changed it
	}
	if ok {
		return strings.TrimPrefix(text, "$ "+command.Cmd+"\n")
	}
	return text
}

// printRuntime writes an event of the runtime. It leaves out the progress of a
// download, since plain text cannot be overwritten, and a failed start, which
// the run reports as its error.
func printRuntime(t *console.Text, e Event) {
	pulls := e.Runtime.Kind == RuntimePull && e.Runtime.Current > 0 && e.Runtime.Current < e.Runtime.Total
	if !pulls && e.Runtime.Kind != RuntimeFailed {
		t.Tell("%s", e.Text)
	}
}
