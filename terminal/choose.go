package terminal

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	uv "github.com/charmbracelet/ultraviolet"
	"golang.org/x/term"

	"github.com/x/pygent/internal/livearea"
	"github.com/x/pygent/internal/screen"
)

// Errors of [Choose].
var (
	// ErrNoTerminal is returned where nobody can choose.
	ErrNoTerminal = errors.New("there is no terminal")
	// ErrNotChosen is returned if the person chose nothing.
	ErrNotChosen = errors.New("nothing was selected")
)

// Choose has the person at a terminal choose one of some lines, and returns its index.
// What is typed leaves only the lines with all these words. The error is [ErrNoTerminal]
// if in and out are no terminal, and [ErrNotChosen] if the person presses Esc or Ctrl-C,
// or if ctx ends. Control characters in the lines are made visible.
func Choose(ctx context.Context, in *os.File, out io.Writer, head string, lines []string) (index int, err error) {
	shown := screen.New(out)
	if !term.IsTerminal(int(in.Fd())) || !shown.Terminal() || os.Getenv("TERM") == "dumb" {
		return 0, ErrNoTerminal
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t, err := openTTY(ctx, in, shown)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	width, height := t.out.Size()
	c := &chooser{head: head, lines: lines, theme: newTheme(), area: livearea.New(width, height, terminalKind()...)}
	defer func() { _ = t.draw(c.area.Remove("")) }()
	c.filter()
	for !c.over {
		if err := c.draw(t); err != nil {
			return 0, err
		}
		select {
		case k := <-t.keys:
			if e, ok := k.Event.(uv.KeyPressEvent); ok {
				c.key(e.Keystroke(), e.Text)
			}
		case <-t.resized:
		case <-t.continued:
			if err := c.goOn(t); err != nil {
				return 0, err
			}
		case <-t.interrupted:
			return 0, ErrNotChosen
		case <-t.ended:
			return 0, ErrNotChosen
		case <-ctx.Done():
			return 0, ErrNotChosen
		}
	}
	if !c.chosen {
		return 0, ErrNotChosen
	}
	return c.found[c.at], nil
}

// inOneLine keeps the columns of a line, and makes it one.
var inOneLine = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\t", " ")

// chooser is what Choose shows.
type chooser struct {
	head  string
	lines []string
	theme theme
	area  *livearea.Area

	query  editor
	found  []int // the lines that have the words of the query
	at     int   // which of them is selected
	over   bool
	chosen bool
}

// goOn takes the terminal again after the process was stopped, if somebody has used it
// meanwhile.
func (c *chooser) goOn(t *tty) error {
	if t.isSet() {
		return nil
	}
	width, height := t.out.Size()
	c.area = livearea.New(width, height, terminalKind()...) // the rows have scrolled away
	return errors.Join(t.end(), t.again(false))
}

// filter finds the lines that have all words of the query.
func (c *chooser) filter() {
	words := strings.Fields(strings.ToLower(c.query.text))
	c.found, c.at = nil, 0
lines:
	for i, line := range c.lines {
		for _, word := range words {
			if !strings.Contains(strings.ToLower(line), word) {
				continue lines
			}
		}
		c.found = append(c.found, i)
	}
}

// key handles a key, with the text that it types.
func (c *chooser) key(name, text string) {
	_, height := c.area.Size()
	switch name {
	case "enter", "kpenter":
		c.chosen = len(c.found) > 0
		c.over = c.chosen
	case "esc", "escape", "ctrl+c", "ctrl+d":
		c.over = true
	case "up", "ctrl+p", "shift+tab":
		c.move(-1)
	case "down", "ctrl+n", "tab":
		c.move(1)
	case "pgup":
		c.move(-c.room(height))
	case "pgdown":
		c.move(c.room(height))
	default:
		before := c.query.text
		if !c.query.key(name) && text != "" {
			c.query.insert(text)
		}
		if c.query.text != before {
			c.filter()
		}
	}
}

// move selects another line, without going around the end.
func (c *chooser) move(by int) { c.at = max(min(c.at+by, len(c.found)-1), 0) }

// room is how many lines are shown.
func (c *chooser) room(height int) int { return max(height-4, 1) }

// draw shows the list.
func (c *chooser) draw(t *tty) error {
	width, height := t.out.Size()
	if w, h := c.area.Size(); w != width || h != height {
		c.area.Resize(width, height)
	}
	const prompt = "› "
	query := livearea.Cut(visible(c.query.text), max(width-livearea.Width(prompt)-1, 1))
	rows := []string{c.theme.bold(livearea.Cut(visible(c.head), width-1)), c.theme.accent(prompt) + query}
	for i, at := range c.found {
		line := "  " + livearea.Cut(visible(inOneLine.Replace(c.lines[at])), max(width-3, 1))
		if i == c.at {
			line = c.theme.accent("❯ " + strings.TrimPrefix(line, "  "))
		}
		rows = append(rows, line)
	}
	if len(c.found) == 0 {
		rows = append(rows, "  no match")
	}
	rows = append(rows[:2], window(rows[2:], c.at, c.room(height))...)
	rows = append(rows, c.theme.dim(livearea.Cut(count(len(c.found), "line")+" · Enter select · Esc cancel · type to filter", width-1)))
	for i := range rows {
		rows[i] = livearea.Clean(rows[i])
	}
	out := c.area.Draw("", livearea.View{Rows: rows, Row: 1, Col: livearea.Width(prompt) + livearea.Width(query)})
	if out == "" {
		return nil
	}
	return t.draw(out)
}
