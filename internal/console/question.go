package console

import (
	"context"
	"errors"
	"strings"

	"github.com/x/pygent/internal/console/lineinput"
	"github.com/x/pygent/internal/screen"
)

// Question is a question that only a person who has read it may answer.
type Question struct {
	Head   string // what is asked, in a few words of the program
	Title  string // what Text is, shown above it; may be empty
	Text   string // what the question is about, such as a command of the model; may be empty
	Prompt string // the possible answers
	Hidden bool   // what is typed is not shown
	Pasted bool   // what was pasted answers it, too: a key or an address, say, which approves nothing
	List   bool   // Text is a list of things, whose lines and characters nobody counts
}

const (
	// viewAnswer is the answer that shows more of a question's text.
	viewAnswer = "v"
	// rowsAround is how many rows of the terminal a question leaves free around
	// its text, and mostRows is how many rows of the text it shows at once.
	rowsAround = 6
	mostRows   = 30
)

// ErrNobody is returned if the input is not a terminal, since a file or a program
// cannot have read the question, and if there is no terminal to show it at.
var ErrNobody = errors.New("nobody is at a terminal")

// ErrShows is returned for a question whose answer is to be hidden, at a terminal
// that shows by itself what is typed.
var ErrShows = errors.New("this terminal shows what is typed, so nothing secret can be asked for")

// Question asks the user and returns the answer that was typed. Only one
// question is asked at a time. Input from before the question could be read is
// dropped, a paste is not accepted as an answer unless q says so, and news is held
// back until there is one. The text is shown exactly: as much of it as there is room for,
// and the rest on request.
func (c *Console) Question(ctx context.Context, q Question) (string, error) {
	if !c.person {
		return "", ErrNobody
	}
	if q.Hidden && c.keys == nil {
		return "", ErrShows
	}
	end, err := c.beginAsking(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	defer c.hold()()
	if c.IsAside() {
		defer c.aside.hold()()
	}
	if q.Hidden {
		c.keys.Hide(true)
		defer c.keys.Hide(false)
	}
	if q.Pasted && c.keys != nil {
		c.keys.TakePastes(true)
		defer c.keys.TakePastes(false)
	}
	text, all := c.show(q)
	page := 0
	for {
		prompt := q.Prompt
		if !all {
			prompt = "[v]iew it all, " + prompt
		}
		answer, err := lineinput.Answer(
			func() (string, error) { return c.answer(ctx, prompt, q.Pasted) },
			func(why string) { c.Aside("%s", why) })
		switch {
		case err != nil:
			return "", err
		case !all && strings.EqualFold(answer, viewAnswer):
			page = c.showPage(text, page)
		default:
			return answer, nil
		}
	}
}

// show shows a question, with its text on the same line or below. It reports
// whether the whole text is visible.
func (c *Console) show(q Question) (screen.Text, bool) {
	columns, rows := c.aside.text.screen.Size()
	if line, fits := screen.OneLine(q.Text, columns-len(q.Head)-2); fits && q.Title == "" {
		if line = strings.TrimSpace(q.Head + " " + line); line != "" {
			c.Aside("%s", line)
		}
		return screen.Text{}, true
	}
	text := screen.LayOut(q.Title, q.Text, columns)
	shown, all := text.Excerpt(min(rows-rowsAround, mostRows))
	head := q.Head + " " + text.Size() + ":"
	if q.List {
		head = q.Head
	}
	c.Aside("%s\n%s", head, strings.Join(shown, "\n"))
	return text, all
}

// showPage shows a page of a text, and returns the number of the next one.
func (c *Console) showPage(text screen.Text, page int) (next int) {
	_, rows := c.aside.text.screen.Size()
	shown, pages := text.Page(page, rows-rowsAround)
	if page >= pages { // the terminal has grown
		page = 0
		shown, pages = text.Page(page, rows-rowsAround)
	}
	c.Aside("%s\n(page %d of %d; v shows the next)", strings.Join(shown, "\n"), page+1, pages)
	return (page + 1) % pages
}

// answer prompts for an answer. It refuses one that was begun before the prompt
// could be read, and one that was pasted unless pastes are answers.
func (c *Console) answer(ctx context.Context, prompt string, pastes bool) (string, error) {
	c.aside.markPastes(true)
	defer c.aside.markPastes(false)
	number := c.expectAnswer()
	defer c.expectNone()
	for {
		l, err := c.read(ctx, prompt, nil)
		switch {
		case err != nil:
			return "", err
		case l.at < number: // read before the question was asked
			continue
		case l.more && !pastes:
			return "", lineinput.ErrPasted
		case lineinput.TooSoon(c.shownAt, l.came):
			return "", lineinput.ErrTooSoon
		}
		return strings.TrimSpace(l.text), nil
	}
}

// expectAnswer drops what was typed so far. It returns the number of the
// question, which is in every line that is read from now on.
func (c *Console) expectAnswer() int64 {
	number := c.questions.Add(1)
	var err error
	switch {
	case c.keys != nil:
		c.keys.ExpectAnswer(true)
		err = c.keys.DropAhead(c.file)
	case c.person:
		err = lineinput.Flush(c.file)
	}
	if err != nil {
		c.log.Warn("what was typed ahead may answer a question", "error", err)
	}
	return number
}

// expectNone makes lines messages again, and drops what was typed after the
// answer.
func (c *Console) expectNone() {
	if c.keys != nil {
		c.keys.ExpectAnswer(false)
	}
}

// Choose asks q until the answer is clear. It may be one of words, or [No], or
// the first letter of one of them. An answer of several other words means No
// and gives the reason, which is returned as said. An empty answer means No.
func (c *Console) Choose(ctx context.Context, q Question, words ...string) (choice, said string, err error) {
	for {
		answer, err := c.Question(ctx, q)
		if err != nil {
			return "", "", err
		}
		if choice, said := choose(answer, words); choice != "" {
			return choice, said, nil
		}
		c.Aside("(answer with one of the letters, or say in a few words why not)")
	}
}

// No is the choice that is always possible.
const No = "no"

// choose returns what an answer means. It returns no choice if that is not clear,
// since the answer may be a slip.
func choose(answer string, words []string) (choice, said string) {
	for _, word := range append([]string{No}, words...) {
		if strings.EqualFold(answer, word) || strings.EqualFold(answer, word[:1]) {
			return word, ""
		}
	}
	switch {
	case answer == "":
		return No, ""
	case len(strings.Fields(answer)) > 1:
		return No, answer
	}
	return "", ""
}
