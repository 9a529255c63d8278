package terminal

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	uv "github.com/charmbracelet/ultraviolet"

	"github.com/x/pygent/internal/console/lineinput"
)

// together is how soon a key comes after another one if both are part of a paste or
// of what was typed ahead over a slow line. Such keys answer nothing.
const together = 30 * time.Millisecond

// menu is a question to the person. Only keys that are pressed after it could be
// read answer it, one by one: none within [lineinput.AnswerDelay] of its
// appearance, none of somebody who goes on typing, and none that come together.
type menu struct {
	head     string     // what is asked, in words of the program
	task     string     // the task that asks; empty for none
	title    string     // what body is; may be empty
	body     string     // what it is about, of somebody else; shown exactly
	diffs    []fileDiff // what body changes, which is shown instead of it
	items    []item     // the answers
	selected int        // the item that Enter chooses
	free     bool       // what is typed into the editor of the session answers, too
	asked    string     // what is asked, which is printed above, in a line
	askedAt  int        // how much had been printed then; after more, the line is repeated
	editor   *editor    // what is typed for an item that wants a text; nil before
	prompt   string     // for that
	typed    string     // what stood in the editor when it answered, without what long pastes hold
	secret   bool       // what is typed is not shown
	refused  bool       // it was answered by Ctrl-C
	unseen   bool       // there is no room to show what it is about
	page     int        // of the whole text that is printed next
	layout   layout

	shownAt time.Time // zero until it is on the screen
	deaf    time.Time // until when keys are not meant for it
	listens bool      // the screen says so
	lastKey time.Time
	choice  int       // what the last key chose
	by      int       // by how many items keys have moved from the selected one
	dueAt   time.Time // when that takes effect, unless more keys come at once; zero for nothing

	done func(choice int, text string) // called once
	quit func()                        // what Ctrl-C and Ctrl-D do, when keys answer; nil for what they do elsewhere
	stop func()                        // what the signal of Ctrl-C does instead, when keys answer; nil for the same
}

// item is an answer of a menu.
type item struct {
	key   string // the letter that chooses it; empty for its number alone
	esc   bool   // Esc chooses it, too
	label string
	short string // a word for it, where there is no room
	text  string // what is asked for, of an item that wants a text
}

// menu returns the question that is shown, or nil.
func (s *session) menu() *menu {
	if len(s.menus) == 0 {
		return nil
	}
	return s.menus[0]
}

// ask shows a menu and waits for the answer. It is called by other goroutines.
func (s *session) ask(ctx context.Context, m *menu) (choice int, text string, err error) {
	type picked struct {
		choice int
		text   string
	}
	answer := make(chan picked, 1)
	m.done = func(choice int, text string) { answer <- picked{choice, text} }
	if !s.post(func() { s.open(m) }) {
		return 0, "", errSessionOver
	}
	select {
	case p := <-answer:
		return p.choice, p.text, nil
	case <-ctx.Done():
		s.post(func() { s.withdraw(m) })
		return 0, "", context.Cause(ctx)
	case <-s.ctx.Done():
		return 0, "", errSessionOver
	}
}

// open shows a menu after those that are open. A free one comes last, since the
// others hold up somebody's work.
func (s *session) open(m *menu) {
	at := len(s.menus)
	for at > 0 && s.menus[at-1].free && !m.free {
		at--
	}
	s.openAt(at, m)
}

// openFirst shows a menu before all others.
func (s *session) openFirst(m *menu) { s.openAt(0, m) }

func (s *session) openAt(at int, m *menu) {
	s.menus = slices.Insert(s.menus, at, m)
	for _, other := range s.menus[1:] {
		other.shownAt, other.listens = time.Time{}, false // it appears anew
	}
	s.display.changed = true
}

// shut takes a menu away without an answer.
func (s *session) shut(m *menu) {
	if i := slices.Index(s.menus, m); i >= 0 {
		s.menus = slices.Delete(s.menus, i, i+1)
		s.display.changed = true
	}
}

// withdraw takes a menu away whose answer nobody waits for any more. A person who
// is about to press Enter for it does not mean to send the draft.
func (s *session) withdraw(m *menu) {
	byPerson := s.turn != nil && s.turn.Interrupted
	s.input.recalled = s.menu() == m && !m.shownAt.IsZero() && !byPerson
	s.shut(m)
}

// settle answers a menu.
func (s *session) settle(m *menu, choice int, text string) {
	s.shut(m)
	m.done(choice, text)
}

// isShown notes when the menu appeared.
func (m *menu) isShown(now time.Time) {
	if m.shownAt.IsZero() {
		m.shownAt = now
		m.deafen(now)
	}
}

// deafen has keys not answer for a while, because somebody types who does not mean
// the menu.
func (m *menu) deafen(now time.Time) {
	m.deaf, m.listens = now.Add(lineinput.AnswerDelay), false
	m.by, m.dueAt = 0, time.Time{}
}

// isDeaf reports whether a key or a paste that came now is not meant for the menu.
func (m *menu) isDeaf(now time.Time) bool { return !m.listens || now.Before(m.deaf) }

// menuAt returns when the shown menu has something to do by itself.
func (s *session) menuAt() time.Time {
	m := s.menu()
	switch {
	case m == nil:
		return time.Time{}
	case !m.shownAt.IsZero() && !m.listens:
		return m.deaf
	}
	return m.dueAt
}

// actOnMenu has the menu listen when it is time, and the last key take effect when
// no other one came with it.
func (s *session) actOnMenu(now time.Time) {
	m := s.menu()
	if m == nil {
		return
	}
	if !m.shownAt.IsZero() && !m.listens && !now.Before(m.deaf) {
		m.listens, s.display.changed = true, true
	}
	if m.dueAt.IsZero() || now.Before(m.dueAt) {
		return
	}
	m.dueAt = time.Time{}
	s.display.changed = true
	s.choose(m, m.choice)
}

// choose answers with an item, or asks for the text that it wants.
func (s *session) choose(m *menu, choice int) {
	switch choice {
	case viewAll:
		s.printAll(m)
		return
	case moved:
		n := len(m.items)
		m.selected, m.by = ((m.selected+m.by)%n+n)%n, 0
		return
	}
	if m.unseen && m.page == 0 && m.items[choice].allows() {
		m.deafen(time.Now())
		s.hint("press v, or enlarge the window")
		return
	}
	if want := m.items[choice].text; want != "" {
		m.editor, m.prompt, m.choice = &editor{}, want, choice
		return
	}
	s.settle(m, choice, "")
}

// What a key may choose besides an item.
const (
	viewAll = -1 // more of the text is shown
	moved   = -2 // another item is selected
)

// refuse answers a menu with No, or with its last item if there is no such.
func (s *session) refuse(m *menu) {
	m.refused = true
	no := m.itemAt(itemNo.key)
	if no < 0 {
		no = len(m.items) - 1
	}
	s.settle(m, no, "")
}

// quitMenu does what Ctrl-C or Ctrl-D, or the signal of Ctrl-C, mean for a menu with a
// quit: they go back from the text of an item, and else do what is given as other keys
// answer, so that somebody who goes on pressing them answers nothing.
func (s *session) quitMenu(m *menu, quit func()) {
	now := time.Now()
	switch {
	case m.editor != nil && !m.editor.empty():
		m.editor.clear()
	case m.editor != nil:
		m.editor = nil
	case !m.listens || now.Before(m.deaf):
		m.deafen(now)
		s.hint("too early: typed before the question appeared")
	default:
		quit()
	}
}

// menuKey handles a key while a menu is shown. It reports false for one that is
// meant for the session's editor.
func (s *session) menuKey(m *menu, name string, e uv.KeyPressEvent) bool {
	now := s.input.at
	if m.isDeaf(now) {
		m.deafen(now)
		return s.early(m, name, e.Text)
	}
	if m.editor != nil {
		s.menuText(m, name, e)
		return true
	}
	if m.free && (len(m.items) == 0 || !s.input.editor.empty() || e.Text != "") {
		return false
	}
	alone := now.Sub(m.lastKey) >= together
	m.lastKey = now
	choice, ok := m.chosen(name, e.Text)
	switch by := moves[name]; {
	case by != 0:
		m.by, m.choice, m.dueAt = m.by+by, moved, now.Add(together)
	case !ok && m.free:
		return false
	case !alone:
		m.deafen(now)
		s.hint("several keys at once do not answer; press one")
	case ok:
		m.choice, m.dueAt = choice, now.Add(together)
	default: // somebody types a word, or this is the beginning of a key's sequence
		m.deafen(now)
		s.hint("that key does not answer")
	}
	return true
}

// moves are the keys that select another item.
var moves = map[string]int{"up": -1, "shift+tab": -1, "down": 1, "tab": 1}

// early handles a key that came before the question could be read. What continues
// a draft goes there, and what begins one while the model asks is seen in the
// editor. Nothing is sent.
func (s *session) early(m *menu, name, text string) bool {
	s.hint("too early: typed before the question appeared")
	ed, stash := &s.input.editor, &s.input.stash
	switch {
	case name == "enter" || name == "kpenter":
		return true
	case !m.free:
		return !s.goesOn(m)
	case ed.empty() && !stash.empty():
		if !stash.key(name) && text != "" {
			stash.insert(text)
		}
		return true
	}
	return ed.empty() && text == ""
}

// goesOn reports whether what comes too early for a menu continues the draft that
// the menu hides. What may be meant as a secret must not get there.
func (s *session) goesOn(m *menu) bool {
	return !m.free && !m.secret && !s.input.editor.empty()
}

// chosen returns what a key chooses.
func (m *menu) chosen(name, text string) (choice int, ok bool) {
	if name == "enter" || name == "kpenter" {
		return m.selected, true
	}
	if n, ok := m.number(text); ok {
		return n, true
	}
	for i, item := range m.items {
		if item.key != "" && strings.EqualFold(text, item.key) || item.esc && (name == "esc" || name == "escape") {
			return i, true
		}
	}
	if m.body != "" && strings.EqualFold(text, "v") {
		return viewAll, true
	}
	return 0, false
}

// itemAt returns which item a letter chooses; -1 for none.
func (m *menu) itemAt(key string) int {
	return slices.IndexFunc(m.items, func(i item) bool { return i.key == key })
}

// number returns the item whose number a text is.
func (m *menu) number(text string) (choice int, ok bool) {
	n, err := strconv.Atoi(text)
	return n - 1, err == nil && n >= 1 && n <= len(m.items)
}

// menuText handles a key while a text is typed for an item.
func (s *session) menuText(m *menu, name string, e uv.KeyPressEvent) {
	switch name {
	case "enter", "kpenter":
		s.settle(m, m.choice, strings.TrimSpace(m.editor.message()))
	case "esc", "escape":
		if len(m.items) > 1 {
			m.editor = nil
		}
	default:
		if !m.editor.key(name) && e.Text != "" {
			m.editor.insert(e.Text)
		}
	}
}

// menuHelp says which keys there are; nothing while keys are not meant for the
// menu.
func (s *session) menuHelp(m *menu) string {
	help := ""
	switch {
	case !m.listens:
	case m.editor != nil && len(m.items) > 1:
		help = " · Enter answer · Esc back"
	case m.editor != nil:
		help = " · Enter answer"
	case m.free && len(m.items) == 0:
		help = " · type an answer"
	case m.free:
		help = " · arrows and Enter, or type an answer"
	default:
		help = " · arrows and Enter, or the letter"
	}
	if n := len(s.menus) - 1; n > 0 {
		help += " · " + count(n, "other question") + " after this"
	}
	return help
}
