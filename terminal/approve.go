package terminal

import (
	"context"
	"slices"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/approval"
	"github.com/x/pygent/internal/callsummary"
	"github.com/x/pygent/internal/edit"
	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/form"
)

// byUser says that the person decided.
const byUser = "user"

// The answers to the question about a call.
var (
	itemYes    = item{key: "y", label: "Yes, once", short: "yes"}
	itemNo     = item{key: "n", label: "No", short: "no"}
	itemReason = item{key: "r", label: "No, and say why", short: "why", text: "why not: "}
)

// approve asks the person about a call of the agent, or of one of its tasks.
func (s *session) approve(ctx context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
	m := s.questionAbout(ctx, r)
	m.items = []item{itemYes}
	if r.Session != "" {
		m.items = append(m.items, item{key: "a", label: "Allow " + oneLine(r.Session) + " for this session", short: "always"})
	}
	m.items = append(m.items, itemNo, itemReason)
	m.preselectNo()
	choice, text, err := s.ask(ctx, m)
	if err != nil {
		return pygent.Decision{}, err
	}
	d := pygent.Decision{By: byUser}
	switch m.items[choice].key {
	case "y":
		d.Allow = true
	case "a":
		d.Allow, d.Session = true, true
	case "r":
		d.Reason = saidReason(text)
	}
	return d, nil
}

// preselectNo has Enter refuse, as an empty line does in the plain session: it is
// the key that is pressed most without a look.
func (m *menu) preselectNo() {
	m.selected = m.itemAt(itemNo.key)
}

// saidReason is a reason as the model is told it.
func saidReason(text string) string {
	if text == "" {
		return ""
	}
	return "the user says: " + text
}

// questionAbout makes the question about a call.
func (s *session) questionAbout(ctx context.Context, r pygent.ApprovalRequest) *menu {
	where := "on your machine"
	if r.Runtime.Kind == "docker" {
		where = "in the container"
	}
	m := &menu{head: "Allow this call of " + oneLine(r.Call.Name) + " " + where + "?", body: faces.ArgumentsText(r.Call.Arguments)}
	command, isCommand := faces.CommandOf(r.Call)
	switch {
	case isCommand:
		m.head, m.body = "Run this "+where+"?", command.Cmd
		if command.Background {
			m.head = "Run this in the background " + where + "?"
		}
		if command.Cwd != "" {
			m.title = "in the directory " + command.Cwd
		}
	case len(r.Changes) > 0:
		m.changes(r, where)
	case r.Tool.Title == r.Call.Name || r.Tool.Title == callsummary.Title(r.Call.Name):
	case m.body == "":
		m.body = r.Tool.Title // there is nothing else that says what the call does
	default:
		m.title = oneLine(r.Tool.Title)
	}
	if r.Task != "" {
		m.head, m.task = "Task "+s.taskLabel(ctx, r.Task)+" asks: "+m.head, oneLine(r.Task)
	}
	return m
}

// changes describes the files that a call would change.
func (m *menu) changes(r pygent.ApprovalRequest, where string) {
	m.head = "Change this file " + where + "?"
	if len(r.Changes) > 1 {
		m.head = "Change these files " + where + "?"
	}
	if faces.SteersGit(r) {
		m.head = "This can change what git runs " + where + ". Allow it?"
	}
	var names []string
	var diffs []fileDiff
	for _, c := range r.Changes {
		names = append(names, c.Path)
		rows := edit.Rows(c.Before, c.After, c.Line)
		if len(rows) > 0 && c.Note == "" && !c.Binary && !c.Truncated {
			diffs = append(diffs, fileDiff{c.Path, rows})
		}
	}
	m.title = strings.Join(names, ", ")
	if len(diffs) == len(r.Changes) { // else the arguments say more
		m.diffs = diffs
	}
}

// approveHosts asks the person whether commands may reach hosts.
func (s *session) approveHosts(ctx context.Context, r pygent.HostRequest) (pygent.HostDecision, error) {
	text, _ := approval.Words(r.Hosts, s.face.KeepHosts != nil)
	m := &menu{head: "A command wants to reach", body: text, items: []item{
		{key: "y", label: "Yes, until the current commands end", short: "yes"},
		{key: "s", label: "Yes, for this session", short: "session"},
	}}
	if s.face.KeepHosts != nil {
		m.items = append(m.items, item{key: "a", label: "Always (saved in your configuration)", short: "always"})
	}
	m.items = append(m.items, itemNo, itemReason)
	m.preselectNo()
	choice, why, err := s.ask(ctx, m)
	if err != nil {
		return pygent.HostDecision{}, err
	}
	switch m.items[choice].key {
	case "y":
		return pygent.HostDecision{Allow: true}, nil
	case "a":
		s.keepHosts(r.Hosts)
		return pygent.HostDecision{Allow: true, Session: true}, nil
	case "s":
		return pygent.HostDecision{Allow: true, Session: true}, nil
	}
	return pygent.HostDecision{Reason: saidReason(why)}, nil
}

func (s *session) keepHosts(hosts []string) {
	file, err := s.face.KeepHosts(hosts)
	s.post(func() {
		if err != nil {
			s.tell(s.theme.warn("! could not be saved, so it applies to this session only: " + visible(err.Error())))
			return
		}
		s.tell(s.theme.dim("· saved in " + visible(file)))
	})
}

// answer asks the person a question of a tool.
func (s *session) answer(ctx context.Context, r pygent.AskRequest) (pygent.Answer, error) {
	head := oneLine(r.From.Call.Name) + " asks"
	if r.From.Task != "" {
		head = "Task " + s.taskLabel(ctx, r.From.Task) + ": " + head
	}
	q := r.Question
	if f, err := form.Parse(q.Schema); err != nil || f != nil {
		if err != nil {
			return pygent.Answer{}, err
		}
		return s.fillIn(ctx, menu{head: head, task: oneLine(r.From.Task)}, q, f)
	}
	m := &menu{head: head, task: oneLine(r.From.Task), body: q.Prompt, secret: q.Secret}
	const ask = "answer (or press Enter to skip): "
	if len(q.Options) == 0 {
		m.asksText(ask)
	} else {
		for _, option := range q.Options {
			m.items = append(m.items, item{label: oneLine(option)})
		}
		m.items = append(m.items, item{label: "Say something else", text: ask})
	}
	choice, text, err := s.ask(ctx, m)
	if err == nil && choice < len(q.Options) {
		text = q.Options[choice]
	}
	return pygent.Answer{Text: text, Declined: text == "", By: byUser}, err
}

// fillIn asks the person for the fields of a form, one by one, in menus that say
// who asks.
func (s *session) fillIn(ctx context.Context, from menu, q pygent.Question, f *form.Form) (pygent.Answer, error) {
	values, err := f.Fill(func(asked form.Asked) (string, bool, error) {
		m := &menu{head: from.head, task: from.task, body: asked.Field.About(), secret: q.Secret || asked.Field.Secret()}
		if asked.First {
			m.body = strings.Trim(q.Prompt+"\n"+m.body, "\n")
		}
		if asked.Again {
			m.head += "\nNot a valid " + oneLine(asked.Field.Type) + "."
		}
		m.asksText(visible(asked.Prompt))
		_, text, err := s.ask(ctx, m)
		return text, !m.refused, err
	})
	if err != nil {
		return pygent.Answer{}, err
	}
	return pygent.Answer{Values: values, Declined: values == nil, By: byUser}, nil
}

// asksText makes the menu ask for a text and nothing else.
func (m *menu) asksText(prompt string) {
	m.items = []item{{label: "Say it", text: prompt}}
	m.editor, m.prompt = &editor{}, prompt
}

// offer asks the question with which the model ended a turn. The next message
// answers it, too.
func (s *session) offer(q pygent.Question) {
	s.say(kindText, s.theme.accent("? ")+told(q.Prompt))
	s.input.stash.append(&s.input.editor) // it was not typed as an answer
	m := &menu{free: true, asked: "? " + oneLine(q.Prompt), askedAt: s.display.said}
	for _, option := range q.Options {
		m.items = append(m.items, item{label: oneLine(option)})
	}
	m.done = func(choice int, text string) {
		if n, ok := m.number(text); ok {
			choice = n
		}
		typed := m.typed
		if choice >= 0 {
			text, typed = q.Options[choice], ""
		}
		s.deliver(text, typed)
	}
	s.open(m)
}

// withdrawOffer takes the model's question away when a turn begins, and gives the
// draft back that was begun before it.
func (s *session) withdrawOffer() {
	if at := slices.IndexFunc(s.menus, func(m *menu) bool { return m.free }); at >= 0 {
		s.shut(s.menus[at])
	}
	if !s.input.stash.empty() {
		s.input.stash.append(&s.input.editor)
		s.input.editor, s.input.stash = s.input.stash, editor{}
	}
}
