package terminal

import (
	"strconv"
	"strings"

	"github.com/x/pygent/internal/edit"
	"github.com/x/pygent/internal/livearea"
	"github.com/x/pygent/internal/screen"
)

// How a menu is laid out.
const (
	enoughBody = 6  // rows of what it is about; for fewer, the answers share a row
	mostBody   = 30 // rows of it
	leastWidth = 12 // columns in which a text can be judged
)

// rows lays out the menu for a terminal, in at most so many rows. What it is about
// comes before the answers where there is no room for both.
func (m *menu) rows(s *session, width, most int) []string {
	var head []string
	for line := range strings.Lines(m.head) {
		head = append(head, livearea.Wrap(s.theme.bold(strings.TrimSuffix(line, "\n")), width)...)
	}
	if m.asked != "" && s.display.said > m.askedAt { // so that nothing is between it and its answers
		head = append(head, s.theme.bold(livearea.Cut(m.asked, width)))
	}
	var items []string
	short := false
	if m.editor == nil {
		var at int
		items, at = m.itemRows(s, width)
		if most-len(head)-len(items) < min(m.bodyHeight(width), enoughBody) && m.items[0].short != "" {
			items, short = m.shortRows(s, width), true
		} else {
			items = window(items, at, most-min(m.bodyHeight(width), 2))
		}
	}
	if most-len(head)-len(items) < min(m.bodyHeight(width), enoughBody/2) && len(head) > 1 {
		head = head[len(head)-1:] // the end is the question, the beginning who asks it
	}
	if most-len(head)-len(items) < min(m.bodyHeight(width), 2) && m.quit == nil {
		head = nil // what is asked about matters more than who asks; at the end of a session, the head is the question
	}
	room := most - len(head) - len(items)
	m.unseen = m.body != "" && (room < 1 || width < leastWidth)
	body := m.bodyRows(s, width, room, short)
	return append(append(head, body...), items...)
}

// window returns the n rows of a list that are around one of them.
func window(rows []string, at, n int) []string {
	n = min(max(n, 1), len(rows))
	from := min(max(at-n/2, 0), len(rows)-n)
	return rows[from : from+n]
}

// itemRows shows each answer in rows of its own. at is the row of the selected one.
func (m *menu) itemRows(s *session, width int) (rows []string, at int) {
	selected := m.selected
	if n, ok := m.number(s.input.editor.text); m.free && !s.input.editor.empty() {
		if selected = -1; ok {
			selected = n
		}
	}
	for i, item := range m.items {
		sign, style := "  ", func(text string) string { return text }
		if i == selected {
			at, sign, style = len(rows), "❯ ", s.theme.accent
		}
		const below = "     " // the label
		text, room := item.numbered(i), max(width-len(below), leastWidth)
		if livearea.Width(text) <= width-len("  ") {
			room = width
		}
		for _, row := range livearea.Wrap(text, room) {
			rows = append(rows, style(sign+row))
			sign = below
		}
	}
	return rows, at
}

// shortRows shows the answers one after another.
func (m *menu) shortRows(s *session, width int) (rows []string) {
	row, used := "", 0
	add := func(words string, chosen bool) {
		if used > 0 && used+1+len(words)+1 > width {
			rows = append(rows, row)
			row, used = "", 0
		}
		if used > 0 {
			row, used = row+" ", used+1
		}
		if used += 1 + len(words); chosen {
			row += s.theme.accent("❯" + words)
		} else {
			row += " " + words
		}
	}
	for i, item := range m.items {
		add(item.key+" "+item.short, i == m.selected)
	}
	if m.body != "" {
		add("v all", false)
	}
	return append(rows, row)
}

// bodyHeight is how many rows the whole body takes.
func (m *menu) bodyHeight(width int) int {
	if m.body == "" {
		return 0
	}
	return len(m.laid(m.title, width).Rows)
}

// bodyRows lays out what a menu is about, in at most so many rows.
func (m *menu) bodyRows(s *session, width, room int, short bool) []string {
	if m.body == "" || room <= 0 {
		return nil
	}
	title := m.title
	if title != "" { // it must not take the room of the body
		title = screen.Brief(title, width-2*len(" │ ")-len("100"), 1)[0]
	}
	laid := m.laid(title, width)
	const leastRows = 4 // for which an excerpt by lines says more than one by characters
	if len(laid.Rows) > room && room < leastRows {
		return screen.Brief(m.brief(), width, room)
	}
	all := len(laid.Rows) <= min(room, mostBody)
	keys := m.editor == nil && !short
	hint := keys && !all && room >= leastRows
	if hint && len(laid.Rows) >= room {
		room--
	}
	rows, _ := laid.Excerpt(min(room, mostBody))
	if m.diffs != nil {
		rows = s.coloured(rows)
	}
	if hint && len(rows) < room+1 {
		rows = append(rows, s.theme.dim("  v: show all"))
	}
	return rows
}

// allows reports whether the answer lets something happen.
func (i item) allows() bool { return i.key == "y" || i.key == "a" || i.key == "s" || i.key == "d" }

func (i item) numbered(at int) string {
	text := strconv.Itoa(at+1) + ". " + i.label
	switch {
	case i.esc:
		text += " (" + i.key + " or Esc)"
	case i.key != "":
		text += " (" + i.key + ")"
	}
	return text
}

// fileDiff is the change of a file that a menu asks about.
type fileDiff struct {
	path string
	rows []edit.Row
}

// textLines returns the lines of changes, with the numbers that they have in the files.
func textLines(diffs []fileDiff) (lines, labels []string) {
	add := func(label, line string) { lines, labels = append(lines, line), append(labels, label) }
	for _, d := range diffs {
		if len(diffs) > 1 {
			add("@", strings.ReplaceAll(d.path, "\n", " "))
		}
		for _, row := range d.rows {
			if row.Sign == 0 {
				add("..", count(row.Left, "line")+" as before")
			} else {
				add(strconv.Itoa(row.Line), string(row.Sign)+" "+row.Text)
			}
		}
	}
	return lines, labels
}

// layout is what a menu is about, laid out for a width. It is kept, since a frame
// needs it several times, and a change of files may have a megabyte.
type layout struct {
	width int
	texts map[string]screen.Text // by title
}

// laid lays out what a menu is about.
func (m *menu) laid(title string, width int) screen.Text {
	if m.layout.width != width || m.layout.texts == nil {
		m.layout = layout{width, map[string]screen.Text{}}
	}
	text, ok := m.layout.texts[title]
	if !ok {
		text = m.lay(title, width)
		m.layout.texts[title] = text
	}
	return text
}

func (m *menu) lay(title string, width int) screen.Text {
	if m.diffs == nil {
		return screen.LayOut(title, m.body, width)
	}
	lines, labels := textLines(m.diffs)
	return screen.LayOutLabelled(title, lines, labels, width)
}

// brief is what a menu is about where there is no room for rows.
func (m *menu) brief() string {
	if m.diffs == nil {
		return m.body
	}
	lines, _ := textLines(m.diffs)
	return strings.Join(lines, "\n")
}

// coloured gives the rows of a diff their colours.
func (s *session) coloured(rows []string) []string {
	out := make([]string, len(rows))
	colour := func(text string) string { return text }
	for i, row := range rows {
		out[i] = row
		label, text, ok := strings.Cut(row, "│ ")
		switch label = strings.TrimSpace(label); {
		case !ok, label == "..", label == "@":
			colour = func(text string) string { return text }
		case label != "":
			colour = s.diffColour(text)
		}
		if ok && text != "" {
			out[i] = strings.TrimSuffix(row, text) + colour(text)
		}
	}
	return out
}

// printAll prints the next page of the whole text.
func (s *session) printAll(m *menu) {
	width, height := s.display.area.Size()
	text := screen.LayOut(m.title, m.body, width)
	rows, pages := text.Page(m.page, max(height-6, 10))
	if m.page >= pages {
		m.page = 0
		rows, pages = text.Page(0, max(height-6, 10))
	}
	m.page++
	s.say(kindNews, s.theme.bold(m.head)+s.theme.dim(" · "+text.Size()+" · page "+strconv.Itoa(m.page)+" of "+strconv.Itoa(pages))+
		"\n"+strings.Join(rows, "\n"))
}
