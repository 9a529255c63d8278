package terminal

import (
	"strings"

	uv "github.com/charmbracelet/ultraviolet"

	"github.com/x/pygent/internal/livearea"
)

// search looks for an earlier message, from the last one on, while it is typed what
// that has in it.
type search struct {
	query editor
	draft editor // as it was before
	at    int    // the entry that is shown; the number of entries for none
	none  bool   // no entry fits
}

// beginSearch lets the person look for an earlier message.
func (s *session) beginSearch() {
	s.input.search = &search{draft: s.input.editor, at: len(s.input.history.entries)}
	s.input.completion = completion{}
}

// searchKey handles a key while a message is looked for. It reports false for one
// that edits what was found.
func (s *session) searchKey(name string, e uv.KeyPressEvent) bool {
	f := s.input.search
	switch name {
	case "ctrl+r", "up", "ctrl+p":
		f.find(s.input.history.entries, f.at-1, -1)
	case "ctrl+s", "down", "ctrl+n":
		f.find(s.input.history.entries, f.at+1, 1)
	case "esc", "escape", "ctrl+g", "ctrl+c":
		s.input.editor, s.input.search = f.draft, nil
	case "enter", "kpenter", "tab":
		s.takeFound()
	case "ctrl+z", "ctrl+l":
		return false
	case "backspace", "ctrl+h", "ctrl+w", "ctrl+u":
		f.query.key(name)
		f.find(s.input.history.entries, len(s.input.history.entries)-1, -1)
	default:
		if e.Text == "" {
			s.takeFound()
			return false
		}
		f.query.insert(e.Text)
		f.find(s.input.history.entries, f.at, -1)
	}
	return true
}

// find goes to the next entry that has what was typed in it, from one on. Without
// one it stays where it is.
func (f *search) find(entries []string, from, by int) {
	query := strings.ToLower(f.query.text)
	f.none = false
	if query == "" {
		f.at = len(entries)
		return
	}
	for at := min(from, len(entries)-1); at >= 0 && at < len(entries); at += by {
		if strings.Contains(strings.ToLower(entries[at]), query) {
			if f.at < len(entries) && by < 0 && at < f.at && entries[at] == entries[f.at] {
				continue // it was said twice
			}
			f.at = at
			return
		}
	}
	f.none = true
}

// takeFound makes the message that was found the draft. It is not sent.
func (s *session) takeFound() {
	f := s.input.search
	s.input.editor, s.input.search = f.draft, nil
	if entries := s.input.history.entries; f.at < len(entries) {
		s.input.editor.set(entries[f.at])
	}
}

// searchRows shows what is looked for and what was found, with the place of the
// cursor in the first of these rows.
func (s *session) searchRows(width, most int) (rows []string, col int) {
	f := s.input.search
	begin := "search: "
	if f.none {
		begin = "no earlier match: "
	}
	query := livearea.Cut(visible(f.query.text), max(width-livearea.Width(begin)-1, 1))
	rows = []string{s.theme.accent(begin) + query}
	col = livearea.Width(begin) + livearea.Width(query)
	if entries := s.input.history.entries; f.at < len(entries) {
		found := &editor{text: entries[f.at]}
		lines, _, _ := found.rows(width - len(foundMargin))
		for i, line := range lines {
			if i == most {
				rows = append(rows, s.theme.dim(foundMargin+"… "+count(len(lines)-i, "other row")))
				break
			}
			rows = append(rows, foundMargin+line.shown)
		}
	}
	return append(rows, s.theme.dim(foundMargin+"Enter edit · Ctrl-R earlier · Esc cancel")), col
}

const foundMargin = "  "
