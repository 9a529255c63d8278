package terminal

import (
	"strings"
	"time"

	uv "github.com/charmbracelet/ultraviolet"

	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/livearea"
	"github.com/x/pygent/internal/slash"
)

// burst is how soon a key comes after another one if nobody has typed it. Where the
// terminal does not mark pastes, they are known by it.
const burst = 12 * time.Millisecond

// input is what the person types.
type input struct {
	editor   editor
	history  *inputHistory
	stash    editor    // the draft that was begun before a question
	offered  string    // what was said in a turn that was undone, and offered to be said again
	recalled bool      // a question was withdrawn, and Enter may be meant for it
	warned   bool      // another Ctrl-C leaves
	at       time.Time // when the key came that is handled
	lastKey  time.Time // when the key before it came
	run      int       // how many keys have come together, with the last one
	submitAt time.Time // when Enter takes effect, unless more keys follow at once; zero for never

	completion completion
	search     *search    // for an earlier message; nil for none
	attaching  *attaching // the message that waits for its files; nil for none
}

// press handles a key.
func (s *session) press(e uv.KeyPressEvent) {
	s.display.hinted = ""
	now := s.input.at
	s.actOnInput(now)
	if m := s.menu(); m != nil && !m.dueAt.IsZero() {
		s.actOnMenu(now)
	}
	if s.input.run++; now.Sub(s.input.lastKey) >= together {
		s.input.run = 1
	}
	defer func() { s.input.lastKey = now }()
	if !s.input.submitAt.IsZero() { // the Enter before was the end of a line of a paste
		s.input.submitAt = time.Time{}
		s.input.editor.insert("\n")
	}
	s.global(e.Keystroke(), e)
}

// global handles the keys that mean the same everywhere.
func (s *session) global(name string, e uv.KeyPressEvent) {
	if m := s.menu(); s.input.search != nil && (m == nil || m.free) {
		s.input.warned = false
		if s.searchKey(name, e) {
			return
		}
	}
	if m := s.menu(); m != nil && m.quit != nil && (name == "ctrl+c" || name == "ctrl+d") {
		s.quitMenu(m, m.quit)
		return
	}
	switch name {
	case "ctrl+c":
		s.ctrlC()
		return
	case "ctrl+z":
		s.suspend()
		return
	case "ctrl+d":
		if s.focus().empty() {
			s.leave()
			return
		}
	case "ctrl+l":
		s.display.area.Redraw()
		return
	}
	s.input.warned = false
	m := s.menu()
	if m != nil && s.menuKey(m, name, e) {
		return
	}
	if s.completionKey(name) {
		return
	}
	if (name == "esc" || name == "escape") && m == nil && s.interruptible() {
		s.interrupt()
		return
	}
	s.input.recalled = s.input.recalled && (name == "enter" || name == "kpenter")
	before := s.input.editor.text
	s.edit(name, e)
	if s.input.editor.text != before && !isVertical(name) {
		s.suggest()
	}
}

// interruptible reports whether there is something that Esc interrupts: a command or a turn,
// once. It never leaves, and the draft stays.
func (s *session) interruptible() bool {
	return s.leaving == nil && (s.command != nil && !s.command.stopped || s.turn != nil && !s.turn.Interrupted)
}

// focus returns the editor that keys go to, or the one that is hidden by a question.
func (s *session) focus() *editor {
	if m := s.menu(); m != nil && m.editor != nil {
		return m.editor
	}
	return &s.input.editor
}

// isVertical reports whether a key goes through the rows of the draft, and through
// earlier messages.
func isVertical(name string) bool {
	return name == "up" || name == "down" || name == "ctrl+p" || name == "ctrl+n"
}

// ctrlC clears what was typed, else interrupts what goes on, and else leaves when it
// is pressed again.
func (s *session) ctrlC() {
	m := s.menu()
	switch {
	case m != nil && m.stop != nil: // by a signal, as in the next case
		s.quitMenu(m, m.stop)
	case m != nil && m.quit != nil:
		s.quitMenu(m, m.quit)
	case m != nil && m.editor != nil && !m.editor.empty():
		m.editor.clear()
	case (m == nil || m.free) && !s.input.editor.empty():
		s.input.editor.clear()
		s.input.history.rest()
	case s.leaving.goesOn(), s.input.warned, s.turn != nil && s.turn.Interrupted, s.turn == nil && s.command != nil && s.command.stopped:
		s.leave()
	case s.input.attaching != nil:
		s.input.attaching.cancel(faces.ErrInterrupted)
	case s.command != nil && s.turn != nil && !s.command.stopped:
		s.stopCommand() // the turn goes on, and another Ctrl-C interrupts it
	case s.turn != nil || s.command != nil:
		s.input.warned = true
		s.interrupt()
	case m != nil && !m.free:
		s.refuse(m)
	default:
		s.input.warned = true
		s.hint("press Ctrl-C again to leave")
	}
}

// edit handles a key of the editor.
func (s *session) edit(name string, e uv.KeyPressEvent) {
	ed := &s.input.editor
	switch name {
	case "enter", "kpenter":
		s.enter()
	case "shift+enter", "alt+enter", "ctrl+enter", "ctrl+j":
		ed.insert("\n")
	case "up", "down", "ctrl+p", "ctrl+n":
		s.vertical(name)
	case "ctrl+r":
		s.beginSearch()
	case "ctrl+g":
		s.externalEdit()
	default:
		if !ed.key(name) && e.Text != "" && !ed.insert(e.Text) {
			s.hint("too long for a message; put it in a file")
		}
	}
}

// vertical moves in the draft and, at its ends, through earlier messages. From an
// empty draft, it first takes back what is queued.
func (s *session) vertical(name string) {
	by := 1
	if name == "up" || name == "ctrl+p" {
		by = -1
	}
	ed := &s.input.editor
	width, _ := s.display.area.Size()
	switch {
	case by < 0 && ed.empty() && s.takeBack():
	case ed.vertical(by, width-livearea.Width(s.prompt())):
	default:
		if text, ok := s.input.history.move(by, ed.message()); ok {
			ed.set(text)
		}
	}
}

// enter handles Enter: after a backslash it begins a line, else it sends when no
// more keys follow at once.
func (s *session) enter() {
	ed := &s.input.editor
	if before := ed.text[:ed.cursor]; strings.HasSuffix(before, `\`) {
		ed.erase(ed.cursor-1, ed.cursor)
		ed.insert("\n")
		return
	}
	now := s.input.at
	if s.input.recalled {
		s.input.recalled = false
		s.hint("the question was withdrawn")
		return
	}
	if m := s.menu(); m != nil && m.free && s.input.isPasted() {
		s.hint("pasted text does not answer; press Enter")
		return
	}
	s.input.submitAt = now.Add(burst)
}

// isPasted reports whether the Enter that came last ends a paste which the terminal
// did not mark. A person who types fast presses two keys almost at once, but no three,
// and not all of a draft.
func (i *input) isPasted() bool {
	const typed = 2
	return i.run > typed || i.run == typed && i.editor.cursor == i.editor.after(0)
}

// actOnInput sends what was typed when it is time.
func (s *session) actOnInput(now time.Time) {
	if at := s.input.submitAt; !at.IsZero() && !now.Before(at) {
		s.input.submitAt = time.Time{}
		s.display.changed = true
		s.submit()
	}
}

// submit does what the draft says. It answers a question of the model, unless it is a
// command.
func (s *session) submit() {
	ed := &s.input.editor
	text := strings.TrimSpace(ed.message())
	if s.leaving != nil {
		s.hint("the session ends")
		return
	}
	m := s.menu()
	asked := m != nil && m.free
	if !asked && slash.Leaves(text) {
		text = "/exit"
	}
	switch {
	case text == "" && !asked && s.turn == nil && len(s.queue.Held) > 0:
		s.sendHeld()
		return
	case text == "":
		return
	case slash.Is(text), strings.HasPrefix(text, "!"):
		if !s.submitCommand(text) {
			return
		}
		ed.clear()
	case s.input.attaching != nil:
		s.hint("still reading the files of the last message")
		return
	case asked:
		m.typed = ed.text // not what long pastes hold
		ed.clear()
		s.settle(m, -1, text)
	default:
		typed := ed.text // not what long pastes hold
		ed.clear()
		s.deliver(text, typed)
	}
	s.input.history.add(text)
}
