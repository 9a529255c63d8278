// Package lines is a session by lines, and events as plain text: for output that is no
// terminal, and for terminals that can do nothing but print. Package terminal falls back
// to it. A program that wants it alone registers it:
//
//	pygent.RegisterFace(pygent.FaceTerminal, lines.Run)
//
// [EventPrinter] and [ProgressPrinter] print the events of a run.
//
// # The session
//
// The session reads messages, and shows what the agent does. A reply ends the agent's
// turn. Lines that begin with "/" are commands; /help lists them. A line that begins with
// "!" runs as that of a command named cmd would, if the agent has one, and never goes to
// the model. Ctrl-C interrupts a turn. Between turns, pressing it twice leaves the
// session, and so does /exit.
//
// A person at a terminal is asked about calls that need approval. On the local runtime
// these are all calls that run a command or write a file; see [pygent.WithConfirmBash].
// Only a line that is typed key by key, at least half a second after the question is
// shown, answers it: what comes all at once counts as pasted. The answer "always" covers
// what the question says, for this session. If the input is not a terminal, nobody is
// asked and such calls are denied, because what comes through a pipe was written before
// the question. If the output is redirected to a file or a pipe, it gets the conversation,
// and the person is asked at the process's terminal: at standard error or the controlling
// terminal. Without one such calls are denied. If commands cannot run because the
// container does not start, the session says so as soon as it is known.
//
// The files of a temporary workspace go with it: the session says so to a person when it
// begins, and asks at its end whether to keep those that were made or changed. If nobody
// can be asked, it names them.
//
// What fails is shown, and the session goes on. [WithFailure] tells a program of it, for its
// exit code.
package lines

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/callsummary"
	"github.com/x/pygent/internal/console"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/edit"
	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/screen"
	"github.com/x/pygent/internal/slash"
	"github.com/x/pygent/sessions"
)

// Run talks with the user by lines until the user leaves, the input ends or ctx ends. It is
// a [pygent.Face]. What fails in the session is shown, and is no error of it: see
// [WithFailure].
func Run(ctx context.Context, face pygent.FaceSession) error {
	ctx, cancel := context.WithCancel(ctx)
	s := newSession(face)
	s.life = ctx
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer cancel()
	defer s.talk.Open(ctx)()
	defer face.Answers(ctx, s.user())()
	before, stop := face.Follow(s.event)
	defer s.waits.end()
	defer stop()
	defer s.talk.End()
	s.banner(ctx)
	if before != nil && (before.Kind == pygent.RuntimePull || before.Kind == pygent.RuntimeStarting) {
		s.event(pygent.Event{Type: pygent.EventRuntime, Text: before.Text, Runtime: &pygent.RuntimeEvent{Kind: before.Kind}})
	}
	given, _, _ := s.temporaryFiles(ctx) // such as initial files
	defer func() { s.leaveFiles(ctx, given) }()
	watchers.Go(func() { s.tellOfStart(ctx) })
	if face.Resume {
		s.talk.Do(ctx, func(ctx context.Context) error { return s.act(ctx, "/resume") })
	}
	if first := face.First; first.Text() != "" || len(first.Parts) > 0 {
		s.talk.Do(ctx, func(ctx context.Context) error { return s.begin(ctx, first) })
	}
	defer s.noteFailure(ctx)
	return s.talk.Hold(ctx, s.act)
}

// session is a conversation in plain text.
type session struct {
	face    pygent.FaceSession
	agent   *pygent.Agent
	talk    *console.Talk
	consent *console.Consent
	console *console.Console
	show    func(pygent.Event)
	news    func(pygent.Event)              // shows what isBeside says is no part of the conversation
	waits   *waits                          // says there that a model or a command takes its time
	start   *faces.StartFailure             // why no command can run, if that was said
	life    context.Context                 // ends with the session
	repairs []string                        // of the history, for the banner
	inTurn  atomic.Pointer[context.Context] // the context of the current turn; nil between turns
	last    *Failure                        // of the last turn; nil if it ended well
}

func newSession(face pygent.FaceSession) *session {
	c := console.New(face.In, face.Out, face.Logger)
	s := &session{
		face:    face,
		agent:   face.Agent,
		talk:    console.NewTalk(c),
		consent: console.NewConsent(c),
		console: c,
		show:    eventPrinter(c.Printer),
		repairs: face.Agent.History().Repairs(),
	}
	s.start = faces.NewStartFailure(func(why string) { s.talk.InterjectAside("! commands cannot run: %s", why) })
	s.news, s.waits = s.show, newWaits(c.Printer)
	if to := c.Beside(); s.isOfProcess() && to != c.Printer {
		s.news, s.waits = eventPrinter(to), newWaits(to)
	}
	return s
}

// isOfProcess reports whether the session writes to the standard output that pygent chose,
// and not to something that the program gave.
func (s *session) isOfProcess() bool {
	_, is := s.face.Out.(*screen.Screen)
	return is
}

// protection describes the protection of a runtime. It is empty if nothing is known of it.
func protection(info pygent.RuntimeInfo) string {
	switch info.Protection {
	case "":
		return ""
	case "none":
		return "; protection: none, so they can do anything you can (" + info.ProtectionNote + ")"
	}
	return "; protection: " + info.Protection + " (" + info.ProtectionNote + ")"
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
	if errors.Is(err, pygent.ErrAgentClosed) {
		return console.ErrLeave
	}
	return s.failure(err)
}

// say makes a turn that begins with a message.
func (s *session) say(ctx context.Context, msg pygent.Message) error {
	id, err := s.agent.Say(msg)
	if err != nil {
		return err
	}
	defer s.agent.Unsay(id) // if the turn has not begun
	return s.turn(ctx, func(opts ...pygent.RunOption) (*pygent.Result, error) { return s.agent.RunUntilStop(ctx, "", opts...) })
}

// turn makes a run, shows its events, and says how it ended. Questions about
// hosts end with it.
func (s *session) turn(ctx context.Context, run func(...pygent.RunOption) (*pygent.Result, error)) error {
	s.talk.Offer("")
	ctx, cancel := context.WithCancel(ctx)
	s.inTurn.Store(&ctx)
	result, err := run(pygent.WithEndOnReply(), pygent.WithEndOnStartFailure())
	s.inTurn.Store(nil)
	interrupted := ctx.Err() != nil
	cancel()
	s.last = nil
	if !interrupted && (err != nil || !ended(result.Status) || result.NoCommand != "") {
		s.last = &Failure{Result: result, Err: err}
		if result.Status != pygent.StatusAwaitingUser { // which counts if nobody answers
			s.talk.Fail(s.last)
		}
	}
	if err != nil {
		return err
	}
	s.outcome(result)
	return nil
}

// outcome shows what the events of the turn did not tell.
func (s *session) outcome(r *pygent.Result) {
	switch r.Status {
	case pygent.StatusReplied:
		if r.Steps == 0 {
			s.talk.Aside("(nothing to interrupt: the turn had ended)")
		}
	case pygent.StatusStopped:
		if r.Summary != "" && !r.SummaryIsText() {
			s.talk.Say("%s", r.Summary)
		}
	case pygent.StatusAwaitingUser:
		if q := r.Question; q != nil {
			s.talk.Offer(q.Prompt, q.Options...)
		}
	default:
		s.talk.Aside("(%s; to continue, send \"continue\")", cmp.Or(r.Reason, string(r.Status)))
	}
}

// event shows an event: every one during a turn, and between turns only those
// worth an interruption. It does not repeat what the banner said.
func (s *session) event(e pygent.Event) {
	said := e.Type == pygent.EventWarning && slices.ContainsFunc(s.repairs, func(r string) bool { return strings.Contains(e.Text, r) })
	pulls := e.Type == pygent.EventRuntime && e.Runtime.Kind == pygent.RuntimePull
	asked := e.Type == pygent.EventCompacting || e.Type == pygent.EventCompacted || e.Type == pygent.EventRestored // by /compact, /undo or /redo
	switch {
	case said || s.inTurn.Load() == nil && !pulls && !asked && e.Type != pygent.EventTask && e.Type != pygent.EventWarning:
	case isBeside(e):
		s.news(e)
	default:
		s.show(e)
	}
	s.waits.note(e)
}

// tellOfStart tells the user that commands cannot run, as soon as that is
// known.
func (s *session) tellOfStart(ctx context.Context) {
	if err := faces.Start(ctx, s.agent); err != nil && !errors.Is(err, ctx.Err()) {
		s.start.Tell(err)
	}
}

// failure is an error that does not repeat why no command can run, which is told once
// in a session.
func (s *session) failure(err error) error {
	if !errors.Is(err, pygent.ErrRuntimeStart) {
		return err
	}
	return errors.New(s.start.Words(err))
}

// banner shows the persona, where commands run, and the state of the
// conversation.
func (s *session) banner(ctx context.Context) {
	info := faces.Describe(ctx, s.agent)
	where := "locally, on this machine"
	if s.agent.UseDocker() {
		where = "in Docker (" + info.Image + ")"
	}
	const shownName = 100 // bytes
	s.talk.Say("%s: commands run %s, in %s%s", cut.Line(s.agent.Persona().Name, shownName), where, info.Workspace, protection(info))
	if info.Fallback != "" {
		s.talk.Say("! NOT in a container: %s", info.Fallback)
	}
	for _, note := range info.Notes {
		s.talk.Say("! %s", note)
	}
	for _, repair := range s.repairs {
		s.talk.Say("! history: %s", repair)
	}
	if recap := sessions.Recap(s.agent); recap != "" {
		s.talk.Say("The conversation %s", recap)
	}
	user, model := sessions.LastSaid(s.agent)
	for _, line := range user {
		s.talk.Say("  > %s", line)
	}
	for _, line := range model {
		s.talk.Say("%s", strings.TrimRight("  "+line, " "))
	}
	if s.face.Interrupted && !s.face.Resume {
		s.talk.Say("The last run was interrupted. Use /resume to continue it.")
	}
	for _, notice := range s.face.Notices {
		s.talk.Say("! %s", notice)
	}
	if s.talk.Asks() && info.Temporary && !s.face.Lent {
		s.talk.Aside("The workspace is temporary. If files are created in it, you can keep them at the end.")
	}
	if s.talk.Asks() {
		s.talk.Aside("Type a message. /help lists the commands, /exit leaves.")
	}
	if s.talk.IsAside() {
		s.talk.Aside("The output is redirected. Questions are asked here.")
	}
}

// user has the person at the terminal asked, if there is one.
func (s *session) user() pygent.FaceUser {
	if !s.talk.Person() {
		return pygent.FaceUser{}
	}
	return pygent.FaceUser{Approve: s.approve, Hosts: s.approveHosts, Answer: s.answer}
}

// approve asks the user about a call. Only a yes allows it. Other words are the
// reason for a denial, and a likely typing error is asked about again.
func (s *session) approve(ctx context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
	if r.Task != "" {
		return s.approveForTask(ctx, r)
	}
	d, err := s.consent.Allow(ctx, s.question(r))
	return pygent.Decision{Allow: d.Allow, Session: d.Always, Reason: d.Reason, By: byUser}, err
}

// question describes a call to the user.
func (s *session) question(r pygent.ApprovalRequest) console.Request {
	where := "on your machine"
	if s.agent.UseDocker() {
		where = "in the container"
	}
	q := console.Request{Always: r.Session}
	if command, ok := faces.CommandOf(r.Call); ok {
		q.Head, q.Text = "Run this "+where+"?", "$ "+strings.TrimSpace(command.Cmd)
		if command.Background {
			q.Head = "Run this in the background " + where + "?"
		}
		if command.Cwd != "" {
			q.Text = fmt.Sprintf("(in %q) %s", command.Cwd, q.Text)
		}
		return q
	}
	if title, what, ok := change(r.Call); ok {
		q.Head, q.Title, q.Text = "Write this file "+where+"?", title, what
		if faces.SteersGit(r) {
			q.Head = "This can change what git runs " + where + ". Allow it?"
		}
		return q
	}
	q.Head, q.Text = "Allow this call?", r.Call.Name+" "+r.Call.Arguments
	if r.Tool.Title != r.Call.Name && r.Tool.Title != callsummary.Title(r.Call.Name) {
		q.Title = r.Tool.Title
	}
	return q
}

// change describes the change of a file that a call of a built-in tool would make; ok is
// false for other calls.
func change(call pygent.ToolCall) (title, what string, ok bool) {
	d := json.NewDecoder(strings.NewReader(call.Arguments))
	d.DisallowUnknownFields()
	var name string
	switch call.Name {
	case "write_file":
		var in struct {
			Path    string `json:"path"`
			Content string `json:"content"`
			Append  bool   `json:"append"`
		}
		ok = d.Decode(&in) == nil
		if name, what = in.Path, in.Content; in.Append {
			what = "added to its end:\n" + in.Content
		}
	case "edit_file":
		var in struct {
			Path string `json:"path"`
			edit.Input
		}
		ok = d.Decode(&in) == nil
		name, what = in.Path, edit.Words(in.All())
	case "collect_file":
		var in struct {
			TaskID string `json:"task_id"`
			Path   string `json:"path"`
			Dest   string `json:"dest"`
		}
		ok = d.Decode(&in) == nil
		name, what = cmp.Or(in.Dest, in.Path), fmt.Sprintf("from task %q: %q", in.TaskID, in.Path)
	}
	return fmt.Sprintf("%s %q", call.Name, path.Clean(name)), what, ok
}

// errBetweenTurns is the reason for refusing the hosts of a background job
// while the user writes the next message.
var errBetweenTurns = errors.New("questions can be asked only during a turn")

// approveHosts asks the user about all hosts of the request at once.
func (s *session) approveHosts(ctx context.Context, r pygent.HostRequest) (pygent.HostDecision, error) {
	turn := s.inTurn.Load()
	if turn == nil {
		return pygent.HostDecision{}, errBetweenTurns
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(*turn, func() { cancel(errBetweenTurns) })()
	d, err := s.consent.AllowHosts(ctx, r.Hosts, s.face.KeepHosts != nil)
	if d.Always {
		s.keepHosts(r.Hosts)
	}
	return pygent.HostDecision{Allow: d.Allow, Session: d.Session, Reason: d.Reason}, err
}

// keepHosts allows hosts permanently in the user's own configuration. If that
// file cannot be written, they are allowed for the session.
func (s *session) keepHosts(hosts []string) {
	if s.face.KeepHosts == nil {
		s.talk.Aside("! there is no configuration file to save that to; it applies to this session only")
		return
	}
	file, err := s.face.KeepHosts(hosts)
	if err != nil {
		s.talk.Aside("! could not be saved, so it applies to this session only: %v", err)
		return
	}
	s.talk.Aside("(saved in %s)", file)
}
