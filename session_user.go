package pygent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/x/pygent/internal/console"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/excerpt"
	"github.com/x/pygent/internal/hostask"
	"github.com/x/pygent/internal/tomlfile"
)

// EventPrinter returns an event handler that writes what happens to w as plain
// text: the model's words as they come, commands and their output, retries and
// warnings. Control characters in what models and commands write are made
// visible, so that they cannot drive a terminal. Errors of w are ignored. The
// handler is safe for concurrent use.
//
//	result, err := agent.RunUntilStop(ctx, msg, pygent.OnEvent(pygent.EventPrinter(os.Stderr)))
func EventPrinter(w io.Writer) func(Event) {
	return newPrinter(console.NewPrinter(w)).event
}

// printer renders events. It is safe for concurrent use: a runtime may tell
// something while the user is asked.
type printer struct {
	*console.Printer
	spoke bool // text of the current step was streamed; for show
}

func newPrinter(to *console.Printer) *printer { return &printer{Printer: to} }

func (p *printer) event(e Event) { p.News(func(t *console.Text) { p.show(t, e) }) }

// show writes an event. News calls it, for one event at a time.
func (p *printer) show(t *console.Text, e Event) {
	if e.Task != "" {
		printTask(t, e)
		return
	}
	switch e.Type {
	case EventStep:
		p.spoke = false
	case EventText:
		p.spoke = true
		t.Print(e.Text)
	case EventMessage:
		if text := e.Message.Text(); !p.spoke && text != "" {
			t.Print(text)
		}
		t.EndLine()
	case EventToolCall:
		t.EndLine()
		if !endsRun(e.Call.Name) {
			printCall(t, *e.Call)
		}
	case EventToolDone:
		printDone(t, e)
	case EventToolSkipped:
		t.EndLine()
		printCall(t, *e.Call)
		printDone(t, e)
	case EventRetry:
		t.EndLine()
		t.Line("! %s; trying again in %s", e.Retry.Error, e.Retry.Wait.Round(100*time.Millisecond))
		if p.spoke {
			t.Line("! what was written so far is withdrawn")
		}
		p.spoke = false
	case EventNotice, EventWarning:
		t.EndLine()
		t.Line("! %s", e.Text)
	case EventRuntime:
		printRuntime(t, e)
	case EventRunEnd:
		t.EndLine()
	}
}

// printTask shows of a background task how it comes along, and no more: several at
// work would write into one another.
func printTask(t *console.Text, e Event) {
	if e.Type != EventTask {
		return
	}
	t.EndLine()
	t.Line("· task %s: %s", e.Task, e.Text)
}

// printCall shows what the model calls. Long ones are cut as output is.
func printCall(t *console.Text, c ToolCall) {
	for i, l := range excerpt.Glance(describeCall(c)) {
		if i == 0 {
			l = "» " + l
		}
		t.Line("%s", l)
	}
}

func printDone(t *console.Text, e Event) {
	text := e.Output.Display
	if text == "" {
		text = e.Output.Content
	}
	if e.Output.End != "" {
		return
	}
	if e.Call.Name == "bash" { // the command was shown when it began
		text = strings.TrimPrefix(text, "$ "+commandOf(json.RawMessage(e.Call.Arguments))+"\n")
	}
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return
	}
	for _, l := range excerpt.Glance(text) {
		t.Line("  %s", l)
	}
}

// printRuntime shows what a runtime tells; of a download's progress only the words,
// since plain text cannot be drawn over. That it cannot start is an error of
// the run as well, and said as that.
func printRuntime(t *console.Text, e Event) {
	pulls := e.Runtime.Kind == RuntimePull && e.Runtime.Current > 0 && e.Runtime.Current < e.Runtime.Total
	if pulls || e.Runtime.Kind == RuntimeFailed {
		return
	}
	t.EndLine()
	t.Line("· %s", e.Text)
}

// endsRun reports whether a tool is one of those whose call is no news: what
// they say is shown as the outcome.
func endsRun(tool string) bool { return tool == "stop" || tool == "continue" }

// describeCall renders a call: a command in its own words, a call that names a
// file by that name, any other by its arguments.
func describeCall(c ToolCall) string {
	var args struct{ Cmd, Cwd, Path string }
	if err := json.Unmarshal([]byte(c.Arguments), &args); err == nil {
		switch {
		case c.Name == "bash" && args.Cwd != "":
			return "(in " + args.Cwd + ") $ " + strings.TrimSpace(args.Cmd)
		case c.Name == "bash" && args.Cmd != "":
			return "$ " + strings.TrimSpace(args.Cmd)
		case args.Path != "":
			return c.Name + " " + args.Path
		}
	}
	return c.Name + " " + cut.Head(c.Arguments, 200)
}

// approve asks the user about a call. Only yes is yes; words are the reason for
// a no, and what may be a slip is asked again.
func (s *session) approve(ctx context.Context, call ToolCall) (Decision, error) {
	if taskOf(ctx) != "" {
		return Decision{Reason: "the user is not asked about background tasks here; do it yourself"}, nil
	}
	a := s.approvalOf(call)
	if _, covered := s.allowed.Load(a.covers); covered {
		return Decision{Allow: true}, nil
	}
	words := []string{answerYes}
	if a.covers != "" {
		words = append(words, answerAlways)
	}
	choice, said, err := s.console.Choose(ctx, a.Question, words...)
	if choice == answerAlways {
		s.allowed.Store(a.covers, true)
	}
	return Decision{Allow: err == nil && choice != console.No, Reason: reasonSaid(said)}, err
}

// What the user may answer beside no.
const (
	answerYes     = "yes"
	answerSession = "session"
	answerAlways  = "always"
)

// reasonSaid is why something is denied about which the user said something.
func reasonSaid(said string) string {
	if said == "" {
		return ""
	}
	return "the user says: " + said
}

// approval is what the user is asked about a call, and which later calls always
// covers: none if that is empty.
type approval struct {
	console.Question
	covers string
}

// approvalOf says what there is to know of a call before it is allowed.
func (s *session) approvalOf(call ToolCall) approval {
	where := "on your machine"
	if s.agent.runtime.UseDocker() {
		where = "in the container"
	}
	if command, ok := commandIn(call); ok {
		head := "Run this " + where + "?"
		if command.Background {
			head = "Run this in the background " + where + "?"
		}
		return newApproval(head, "", command.String(), "this very command", fmt.Sprintf("bash %t %q %q", command.Background, command.Cwd, command.Cmd))
	}
	if change, ok := changeIn(call); ok {
		if s.agent.steersGit(change.path) {
			return newApproval("This can change what git runs "+where+". Allow it?", change.title(), change.what, "", "")
		}
		return newApproval("Write this file "+where+"?", change.title(), change.what, "writes to this file", "write "+change.path)
	}
	return newApproval("Allow this call?", "", call.Name+" "+call.Arguments, "this very call", call.Name+" "+call.Arguments)
}

// newApproval words a question. always says in words what covers covers.
func newApproval(head, title, text, always, covers string) approval {
	prompt := "[y]es, "
	if covers != "" {
		prompt += "[a]lways " + always + ", "
	}
	return approval{console.Question{Head: head, Title: title, Text: text, Prompt: prompt + "or say why not: "}, covers}
}

// askForHosts has the user decide about hosts that commands want to reach, where
// a person can be asked and commands have no network of their own. It returns a
// function that ends this.
func (s *session) askForHosts() (end func()) {
	if !s.console.Person() || !s.agent.runtime.UseDocker() {
		return func() {}
	}
	s.agent.setHostApproval(s.approveHosts)
	return func() { s.agent.setHostApproval(nil) }
}

// beginTurn says that a turn goes on until end is called. Questions about hosts
// go with it.
func (s *session) beginTurn(ctx context.Context) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	s.turnLife.Store(&ctx)
	return func() {
		s.turnLife.Store(nil)
		cancel()
	}
}

// errBetweenTurns is why nobody is asked about what a background job does while
// the user writes the next message.
var errBetweenTurns = errors.New("the user is asked during a turn only")

// approveHosts asks the user about hosts, about all of them together.
func (s *session) approveHosts(ctx context.Context, r HostRequest) (HostDecision, error) {
	turn := s.turnLife.Load()
	if turn == nil {
		return HostDecision{}, errBetweenTurns
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(*turn, func() { cancel(errBetweenTurns) })()
	q := console.Question{Head: "A command wants to reach"}
	q.Text, q.Prompt = hostask.Words(r.Hosts, s.agent.opts.homeFile != "")
	choice, said, err := s.console.Choose(ctx, q, answerYes, answerSession, answerAlways)
	if choice == answerAlways {
		s.keepHosts(r.Hosts)
	}
	return HostDecision{
		Allow:   err == nil && choice != console.No,
		Session: choice == answerSession || choice == answerAlways,
		Reason:  reasonSaid(said),
	}, err
}

// keepHosts allows hosts for good, in the user's own configuration. Where that
// cannot be written they are allowed for the session.
func (s *session) keepHosts(hosts []string) {
	path := s.agent.opts.homeFile
	if path == "" {
		s.console.Say("! there is no configuration file to keep that in; it holds for this session")
		return
	}
	if err := tomlfile.AddToList(path, "container", "allowed_hosts", hosts...); err != nil {
		s.console.Say("! not kept, so it holds for this session: %v", err)
		return
	}
	s.console.Say("(kept in ~/%s)", filepath.Base(path))
}
