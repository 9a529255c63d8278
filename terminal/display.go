package terminal

import (
	"os"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent/internal/livearea"
)

// kind is what is printed. A blank line is between two kinds.
type kind int

const (
	kindNone kind = iota
	kindUser
	kindText
	kindCall
	kindNews
	kindEnd
)

// display collects what is to be shown.
type display struct {
	area    *livearea.Area
	printed strings.Builder // what is finished and was not printed yet
	said    int             // how often something was printed
	last    kind            // of what was printed last
	tall    bool            // that had several lines
	news    []string        // what waits until the model's block is finished
	hinted  string          // a word about the last key
	changed bool            // something may look different
	drawn   time.Time
	settled time.Time // until when nothing is drawn, because the size may change again
}

// take returns what is to be printed.
func (d *display) take() string {
	text := d.printed.String()
	d.printed.Reset()
	return text
}

// say prints finished text: lines in the forms of [livearea.Clean]. A blank line
// is before it, unless it goes on with a list of short things of the same kind.
func (d *display) say(k kind, text string) {
	text = strings.TrimRight(text, "\n")
	tall := strings.Contains(text, "\n")
	joins := k == d.last && k != kindText && k != kindUser && (k != kindCall || !tall && !d.tall)
	if d.last != kindNone && !joins {
		d.printed.WriteByte('\n')
	}
	d.last, d.tall, d.changed = k, tall, true
	d.said++
	d.printed.WriteString(livearea.Clean(text) + "\n")
}

// hint shows a word about the last key, until the next one.
func (d *display) hint(text string) { d.hinted, d.changed = text, true }

// tell prints news, after the block that the model writes.
func (s *session) tell(text string) {
	s.display.news = append(s.display.news, text)
	if !s.text.open() {
		s.flushNews()
	}
}

func (s *session) flushNews() {
	for _, text := range s.display.news {
		s.say(kindNews, s.wrapped(text))
	}
	s.display.news = nil
}

// wrapped breaks the lines of words to a person between the words. The rows that
// follow are indented. A line with a word that is longer than a row, such as a URL,
// is left to the terminal, so that the word can be copied.
func (s *session) wrapped(text string) string {
	const indent = "  "
	width, _ := s.display.area.Size()
	var rows []string
	for line := range strings.SplitSeq(text, "\n") {
		margin := line[:len(line)-len(strings.TrimLeft(line, " "))]
		room := max(width-len(indent)-len(margin), 20)
		if slices.ContainsFunc(strings.Fields(line), func(word string) bool { return livearea.Width(word) > room }) {
			rows = append(rows, line)
			continue
		}
		for i, row := range livearea.Wrap(line, room) {
			if i > 0 {
				row = margin + indent + strings.TrimLeft(row, " ")
			}
			rows = append(rows, row)
		}
	}
	return strings.Join(rows, "\n")
}

// fitted is wrapped for a text of which the lines that fit stay as they are.
func (s *session) fitted(text string) string {
	width, _ := s.display.area.Size()
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if livearea.Width(line) > width {
			lines[i] = s.wrapped(line)
		}
	}
	return strings.Join(lines, "\n")
}

// terminalKind says how the terminal behaves when it is resized. One that is not
// known is taken for one that wraps all rows again, as most do.
func terminalKind() []livearea.Option {
	name, _, _ := strings.Cut(os.Getenv("TERM"), "-")
	switch {
	case os.Getenv("TMUX") != "": // inside of which the other variables may be from outside
		return nil
	case os.Getenv("STY") != "": // GNU screen
		return []livearea.Option{livearea.KeepsRows}
	case slices.Contains([]string{"vscode", "Hyper", "Tabby"}, os.Getenv("TERM_PROGRAM")):
		return []livearea.Option{livearea.KeepsCursorRow}
	case os.Getenv("XTERM_VERSION") != "", name == "st", isConsole():
		return []livearea.Option{livearea.KeepsRows}
	}
	return nil
}

// isConsole reports whether the terminal is the console of Linux or one that is taken
// for a simple one.
func isConsole() bool {
	name, _, _ := strings.Cut(os.Getenv("TERM"), "-")
	return slices.Contains([]string{"linux", "vt100", "vt102", "vt220"}, name)
}

// settling is how long the size of the terminal must stay as it is before something
// is drawn. While a window is dragged, the terminal wraps its rows for sizes that the
// program does not know yet, and what is drawn for another one ends up in wrong
// rows. tmux tells of a size at most every 250 ms.
const settling = 300 * time.Millisecond

// onItsWay is how long a frame may be on its way to the terminal, which may have got
// another size before the program was told of it.
const onItsWay = time.Second

// draw shows what has changed, but not too often.
//
// A terminal changes its size, and wraps its rows, before it tells of that, and what it
// was sent before may still be on its way: it was drawn for rows that are not there any
// more. No program can rule that out: a resize of xterm.js does not wait for the program
// (xtermjs/xterm.js#2744), and SIGWINCH is taken for racy by those who have tried to
// (tmux/tmux#1323). A frame for the size before loses nothing here, nor does one for a
// size after which the terminal has become narrower still: a copy of some rows of the
// live area may stay above it. But if a terminal that has become narrower, for as long as
// settling, becomes wider again in the moment in which the first frame for the narrower
// size is on its way, that frame erases a row of text above for each row that was wrapped.
func (s *session) draw() {
	if s.isAway() {
		return
	}
	now := time.Now()
	width, height := s.tty.out.Size()
	if w, h := s.display.area.Size(); w != width || h != height {
		if now.Sub(s.display.drawn) < onItsWay {
			s.display.area.MayBeLate()
		}
		s.display.area.Resize(width, height)
		s.display.changed, s.display.settled = true, now.Add(settling)
	}
	if !s.display.changed && !s.moves() || now.Sub(s.display.drawn) < frame || now.Before(s.display.settled) {
		return
	}
	area := *s.display.area
	out := area.Draw(s.display.printed.String(), s.view(width, height, now))
	if w, h := s.tty.out.Size(); w != width || h != height {
		return // the next draw notes it
	}
	*s.display.area = area
	s.display.printed.Reset()
	if out != "" {
		if err := s.tty.draw(out); err != nil {
			s.fail(err)
			return
		}
	}
	s.display.changed, s.display.drawn = false, time.Now() // the terminal may have let it wait
	if m := s.menu(); m != nil {
		m.isShown(now)
	}
}

// openText is the part of the terminal's rows that the open block of the answer takes
// at most. Even if each row becomes two in a narrower window, none scrolls away, where
// it could not be taken back.
const openText = 3

// view lays out the live area: what goes on now, what the agent does, and the
// editor. What goes on gets the room that the others leave.
func (s *session) view(width, height int, now time.Time) livearea.View {
	foot, row, col := s.foot(width, height, now)
	room := max(height-1-len(foot), 0)
	var rows []string
	for _, part := range [][]string{s.runningRows(now), s.commandRows(now), s.around.rows(s, now), s.queueRows()} {
		rows = append(rows, part...)
	}
	if m := s.menu(); m != nil {
		rows = nil
		if m.free {
			rows = s.queueRows()
		}
		rows = append(rows, m.rows(s, width, room-len(rows))...)
	}
	rows = last(rows, room)
	if s.menu() == nil {
		rows = append(s.text.rows(s, width, min(room-len(rows), max(height/openText, 3))), rows...)
	}
	if len(rows) > 0 && len(rows)+len(foot) < height-2 {
		rows = append(rows, "")
	}
	if s.display.last != kindNone && len(rows)+len(foot) < height-1 {
		rows = append([]string{""}, rows...)
	}
	v := livearea.View{Row: len(rows) + row, Col: col, NoCursor: col < 0}
	for _, r := range append(rows, foot...) {
		v.Rows = append(v.Rows, livearea.Clean(strings.ReplaceAll(r, "\n", " ")))
	}
	return v
}

// last returns the last n rows.
func last(rows []string, n int) []string { return rows[max(len(rows)-max(n, 0), 0):] }

// foot lays out the status line and what is typed, with the place of the cursor.
func (s *session) foot(width, height int, now time.Time) (rows []string, row, col int) {
	rows = []string{s.status(now)}
	m := s.menu()
	switch {
	case m != nil && m.editor != nil:
		return s.typedRows(rows, m.editor, m.prompt, m.secret, width, height)
	case m != nil && !m.free:
		return rows, 0, -1
	}
	if s.input.search != nil {
		found, col := s.searchRows(width, max(height*2/5, 1))
		return append(rows, found...), len(rows), col
	}
	rows, row, col = s.typedRows(rows, &s.input.editor, s.prompt(), false, width, height)
	rows = append(rows, s.completionRows(height/2)...)
	return append(rows, s.keyRows(height-len(rows)-2)...), row, col
}

// typedRows adds the rows of an editor, as many as there is room for around the
// cursor.
func (s *session) typedRows(rows []string, e *editor, prompt string, secret bool, width, height int) ([]string, int, int) {
	margin := livearea.Width(prompt)
	if secret {
		shown := prompt + strings.Repeat("•", min(len([]rune(e.text)), max(width-margin-1, 0)))
		return append(rows, shown), len(rows), livearea.Width(shown)
	}
	lines, at, col := e.rows(width - margin)
	most := max(height*2/5, 1)
	from := min(max(at-most+1, 0), max(len(lines)-most, 0))
	above := len(rows)
	for i, line := range lines[from:min(from+most, len(lines))] {
		begin := strings.Repeat(" ", margin)
		if i+from == 0 {
			begin = s.theme.accent(prompt)
		}
		rows = append(rows, begin+line.shown)
	}
	return rows, above + at - from, margin + col
}
