package terminal

import (
	"context"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/livearea"
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/slash"
)

// Bounds of the list of choices.
const (
	shownChoices = 8
	maxChoices   = 100
)

// completion is the list of what the draft may become. It is open only as long as
// the draft is the one that it was made for. The zero value is closed.
type completion struct {
	text    string // the draft, with the cursor at its place
	cursor  int
	from    int    // where what is replaced begins; it ends at the cursor
	word    string // what is there, without quotes
	choices []choice
	at      int  // the choice that Tab takes
	picked  bool // the person has selected it
	pending bool // the choices have not come yet
	tab     bool // Tab was pressed before they came

	cancel context.CancelFunc // of asking for the choices; nil for nothing
}

// choice is a way to go on.
type choice struct {
	text  string // what takes the place
	word  string // the name or argument that is in it, without quotes
	label string // what is shown, visible already
	about string
}

// isFor reports whether the list was made for the draft as it is.
func (c *completion) isFor(e *editor) bool { return c.text == e.text && c.cursor == e.cursor }

// open reports whether there is something to choose from.
func (c *completion) open(e *editor) bool { return len(c.choices) > 0 && c.isFor(e) }

// suggest opens the list for what was typed, or closes it. What is not known yet is
// asked for in the background.
func (s *session) suggest() {
	ed, c := &s.input.editor, &s.input.completion
	if c.cancel != nil {
		c.cancel()
	}
	*c = completion{text: ed.text, cursor: ed.cursor}
	before := ed.text[:ed.cursor]
	switch {
	case strings.HasPrefix(before, "/") && slash.Is(before):
		if ed.cursor == len(ed.text) && !strings.Contains(before, "\n") {
			s.suggestCommand(before)
		}
	case strings.HasPrefix(before, "!"): // Tab does, as in a shell: see completePath
	default:
		s.suggestFile(before, ed.text[ed.cursor:])
	}
}

// suggestCommand lists names of commands, or arguments of one.
func (s *session) suggestCommand(line string) {
	c := &s.input.completion
	if !strings.ContainsFunc(line, unicode.IsSpace) {
		list, _ := s.agent.CompleteCommand(s.ctx, line) // names come at once
		c.choices, c.word = choicesOf(list, "/"), line[len("/"):]
		return
	}
	words, _ := slash.Typed(line)
	c.pending, c.word = true, words[len(words)-1]
	ctx, cancel := context.WithCancel(s.ctx)
	c.cancel = cancel
	s.background(func() {
		defer cancel()
		list, _ := s.agent.CompleteCommand(ctx, line) // without a list, nothing is offered
		s.post(func() {
			if ed := &s.input.editor; c.isFor(ed) && c.text == line && c.pending {
				c.pending, c.choices = false, choicesOf(list, "")
				s.display.changed = true
				if c.tab && c.open(ed) {
					s.takeChoice(false)
				}
			}
		})
	})
}

// choicesOf are the choices of a list, whose labels begin with sign.
func choicesOf(list []pygent.Completion, sign string) (choices []choice) {
	for _, c := range list[:min(len(list), maxChoices)] {
		choices = append(choices, choice{text: c.Line, word: c.Word, label: sign + oneLine(c.Word), about: oneLine(c.Summary)})
	}
	return choices
}

// completionKey handles a key while the list is open, and Tab before it is. It
// reports false for a key that does something else.
func (s *session) completionKey(name string) bool {
	ed, c := &s.input.editor, &s.input.completion
	if name == "tab" && c.pending && c.isFor(ed) {
		c.tab = true
		return true
	}
	if name == "tab" && !c.open(ed) && strings.HasPrefix(ed.text[:ed.cursor], "!") {
		s.completePath()
		return true
	}
	if !c.open(ed) {
		return false
	}
	switch n := len(c.choices); name {
	case "tab":
		s.takeChoice(false)
	case "down", "ctrl+n":
		c.at, c.picked = (c.at+1)%n, true
	case "up", "ctrl+p", "shift+tab":
		c.at, c.picked = (c.at+n-1)%n, true
	case "esc", "escape":
		*c = completion{}
	case "enter", "kpenter":
		if !c.picked { // what was typed is sent
			return false
		}
		s.takeChoice(true)
	default:
		return false
	}
	return true
}

// takeChoice puts what all choices have in common into the draft or, if that is
// there already, the selected choice.
func (s *session) takeChoice(selected bool) {
	ed, c := &s.input.editor, &s.input.completion
	taken := c.choices[c.at].text
	if common, ok := c.common(); ok && !selected && !c.picked {
		taken = common
	}
	ed.remember(false)
	ed.text = ed.text[:c.from] + ed.text[c.cursor:]
	ed.cursor = c.from
	ed.put(typedText(taken))
	s.suggest()
}

// typedText is what a choice may put into the draft.
func typedText(text string) string { return strings.ReplaceAll(typed(text), "\n", "") }

// common returns what all choices begin with, if that is more than what is there.
func (c *completion) common() (text string, more bool) {
	text, word := c.choices[0].text, c.choices[0].word
	for _, other := range c.choices[1:] {
		text, word = commonPrefix(text, other.text), commonPrefix(word, other.word)
	}
	more = len(word) > len(c.word) && strings.HasPrefix(word, c.word) && len(text) > c.cursor-c.from
	return text, more
}

// commonPrefix returns what both texts begin with.
func commonPrefix(a, b string) string {
	for !strings.HasPrefix(b, a) {
		_, size := utf8.DecodeLastRuneInString(a)
		a = a[:len(a)-size]
	}
	return a
}

// completionRows shows the list, in at most so many rows.
func (s *session) completionRows(most int) (rows []string) {
	ed, c := &s.input.editor, &s.input.completion
	if !c.open(ed) {
		if c.isFor(ed) && s.fileList.slow(time.Now()) && pathname.MentionAt(ed.text[:ed.cursor]) >= 0 {
			return []string{s.theme.dim("  looking for files …")}
		}
		return nil
	}
	most = min(most-1, shownChoices)
	if most < 1 {
		return nil
	}
	from := min(max(c.at-most/2, 0), max(len(c.choices)-most, 0))
	shown := c.choices[from:min(from+most, len(c.choices))]
	width := 0
	const widest = 40
	for _, choice := range shown {
		width = max(width, min(livearea.Width(choice.label), widest))
	}
	for i, choice := range shown {
		row := "  " + choice.label
		if from+i == c.at {
			row = s.theme.accent("❯ " + choice.label)
		}
		if choice.about != "" {
			row += strings.Repeat(" ", max(width-livearea.Width(choice.label), 0)) + s.theme.dim("  "+choice.about)
		}
		rows = append(rows, row)
	}
	help := "Tab accept · arrows select · Esc close"
	if _, shared := c.common(); c.picked {
		help = "Enter or Tab accept · Esc close"
	} else if shared && len(c.choices) > 1 {
		help = "Tab complete · arrows select · Esc close"
	}
	if n := len(c.choices) - len(shown); n > 0 {
		help = count(n, "other") + " · " + help
	}
	return append(rows, s.theme.dim("  "+help))
}
