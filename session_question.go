package pygent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/x/pygent/internal/excerpt"
	"github.com/x/pygent/internal/lineinput"
)

// question is something that only a person may answer, having seen it.
type question struct {
	head   string // what is asked, in a few words of ours
	title  string // what the text is, which is shown above it; may be empty
	text   string // what it is about, in the words of whoever wants it; may be empty
	prompt string // which answers there are
}

const (
	// viewAnswer shows more of a question's text.
	viewAnswer = "v"
	// rowsAround is how much of the terminal a question keeps free for what is
	// around its text, and mostRows is how much of its text it shows at once.
	rowsAround = 6
	mostRows   = 30
)

// errNobody is the answer where no person sees the question: what comes from a
// file or a program was written without it.
var errNobody = errors.New("nobody is at a terminal")

// question asks the user, one question at a time, and returns the answer that
// was typed. What was typed before the question could be read is dropped, a paste
// is no answer, and events wait until there is one. The text is shown exactly, as
// much of it as there is room for, and the rest when it is asked for.
func (s *session) question(ctx context.Context, q question) (string, error) {
	if !s.terminal {
		return "", errNobody
	}
	if err := s.asking.LockContext(ctx); err != nil {
		return "", err
	}
	defer s.asking.Unlock()
	defer s.printer.hold()()
	text, all := s.show(q)
	page := 0
	for {
		prompt := q.prompt
		if !all {
			prompt = "[v]iew it all, " + prompt
		}
		answer, err := lineinput.Answer(
			func() (string, error) { return s.typed(ctx, prompt) },
			func(why string) { s.printer.say("%s", why) })
		switch {
		case err != nil:
			return "", err
		case !all && strings.EqualFold(answer, viewAnswer):
			page = s.showPage(text, page)
		default:
			return answer, nil
		}
	}
}

// show puts a question, with its text beside it or below. It reports whether
// the whole text is seen.
func (s *session) show(q question) (excerpt.Text, bool) {
	columns, rows := s.printer.screen.Size()
	if line, fits := excerpt.Line(q.text, columns-len(q.head)-2); fits && q.title == "" {
		s.printer.say("%s", strings.TrimSpace(q.head+" "+line))
		return excerpt.Text{}, true
	}
	text := excerpt.New(q.title, q.text, columns)
	shown, all := text.Excerpt(min(rows-rowsAround, mostRows))
	s.printer.say("%s %s:\n%s", q.head, text.Size(), strings.Join(shown, "\n"))
	return text, all
}

// showPage shows a page of a text, and returns which one comes next.
func (s *session) showPage(text excerpt.Text, page int) (next int) {
	_, rows := s.printer.screen.Size()
	shown, pages := text.Page(page, rows-rowsAround)
	if page >= pages { // the terminal has grown
		page = 0
		shown, pages = text.Page(page, rows-rowsAround)
	}
	s.printer.say("%s\n(page %d of %d; v shows the next)", strings.Join(shown, "\n"), page+1, pages)
	return (page + 1) % pages
}

// typed prompts for an answer, which must begin when the prompt could be read.
func (s *session) typed(ctx context.Context, prompt string) (string, error) {
	s.printer.marksPastes(true)
	defer s.printer.marksPastes(false)
	number := s.expectAnswer()
	defer s.expectNone()
	for {
		l, err := s.read(ctx, prompt, nil)
		switch {
		case err != nil:
			return "", err
		case l.at < number: // read before the question was put
			continue
		case l.more:
			return "", lineinput.ErrPasted
		case s.keys == nil && lineinput.TooSoon(s.asked, l.came):
			return "", lineinput.ErrTooSoon
		}
		return strings.TrimSpace(l.text), nil
	}
}

// expectAnswer drops what was typed so far. It returns the number of the
// question, which every line that is read from now on carries.
func (s *session) expectAnswer() int64 {
	number := s.questions.Add(1)
	var err error
	switch {
	case s.keys != nil:
		s.keys.ExpectAnswer(true)
		err = s.keys.DropAhead(s.file)
	case s.terminal:
		err = lineinput.Flush(s.file)
	}
	if err != nil {
		s.agent.log.Warn("what was typed ahead may answer a question", "error", err)
	}
	return number
}

// expectNone has lines be messages again. What came after the answer is dropped.
func (s *session) expectNone() {
	if s.keys != nil {
		s.keys.ExpectAnswer(false)
	}
}

// errUnclear is why a question is put again.
const errUnclear = "(answer with one of the letters, or say in a few words why not)"

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
	for {
		answer, err := s.question(ctx, a.question)
		if err != nil {
			return Decision{}, err
		}
		switch strings.ToLower(answer) {
		case "y", "yes":
			return Decision{Allow: true}, nil
		case "a", "always":
			if a.covers != "" {
				s.allowed.Store(a.covers, true)
				return Decision{Allow: true}, nil
			}
		case "", "n", "no":
			return Decision{}, nil
		default:
			if len(strings.Fields(answer)) > 1 {
				return Decision{Reason: "the user says: " + answer}, nil
			}
		}
		s.printer.say(errUnclear)
	}
}

// approval is what the user is asked about a call, and which later calls always
// covers: none if that is empty.
type approval struct {
	question
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
	return approval{question{head: head, title: title, text: text, prompt: prompt + "or say why not: "}, covers}
}
