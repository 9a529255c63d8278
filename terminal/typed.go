package terminal

import (
	"strings"
	"time"

	uv "github.com/charmbracelet/ultraviolet"
)

// leastBlock is how many keys that came together are put into the draft at once. A
// person does not type so fast.
const leastBlock = 32

// keys handles a key, with those that have come after it. A paste that the terminal
// does not mark comes as keys, up to a million of them: those that are text go into
// the draft at once, because each change of the draft takes time.
func (s *session) keys(first key) {
	block := []key{first}
	for waits := true; waits && len(block) < keysAhead; {
		select {
		case k := <-s.tty.keys:
			block = append(block, k)
		default:
			waits = false
		}
	}
	for len(block) > 0 {
		n := s.insertBlock(block)
		if n == 0 {
			s.key(block[0])
			n = 1
		}
		block = block[n:]
		if s.over || s.isAway() {
			return
		}
	}
}

// insertBlock puts the text of the keys that came together at the beginning of some
// into the draft, and returns how many these are: 0 if they have to be handled one by
// one. An Enter at their end is not among them.
func (s *session) insertBlock(keys []key) int {
	if s.menu() != nil || s.input.search != nil {
		return 0
	}
	var text strings.Builder
	n := 0 // keys up to the last one that is text
	var pending string
	for i, k := range keys {
		e, ok := k.Event.(uv.KeyPressEvent)
		if !ok || i > 0 && k.at.Sub(keys[i-1].at) >= burst {
			break
		}
		if name := e.Keystroke(); name == "enter" || name == "ctrl+j" {
			pending += "\n"
			continue
		}
		if e.Text == "" {
			break
		}
		text.WriteString(pending + e.Text)
		pending, n = "", i+1
	}
	if n < leastBlock {
		return 0
	}
	last := keys[n-1]
	s.actOnInput(keys[0].at)
	if s.menu() != nil {
		return 0
	}
	begin := ""
	if !s.input.submitAt.IsZero() { // the Enter before was the end of a line of the paste
		begin, s.input.submitAt = "\n", time.Time{}
	}
	s.display.hinted, s.display.changed = "", true
	s.input.warned, s.input.recalled = false, false
	s.input.at, s.input.lastKey, s.input.run = last.at, last.at, n
	if !s.input.editor.insert(begin + text.String()) {
		s.hint("too long for a message; put it in a file")
	}
	s.suggest()
	return n
}
