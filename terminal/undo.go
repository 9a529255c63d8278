package terminal

import (
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/faces"
)

// restored says what a restore did. What the person had said in the turn that is gone is
// put into the empty draft, to be edited and said again, until it is brought back.
func (s *session) restored(e pygent.Event) {
	s.withdrawOffer()
	s.tell(s.wrapped(s.theme.dim("· " + told(e.Text))))
	for _, note := range e.Restored.Notes() {
		s.tell(s.wrapped(s.theme.warn("! " + told(note))))
	}
	ed, said := &s.input.editor, ""
	if e.Restored.Message != nil {
		said, _ = faces.Spoken(*e.Restored.Message)
		said = strings.TrimSpace(said)
	}
	switch {
	case e.Restored.Back > 0 && ed.text != "" && ed.message() == s.input.offered:
		ed.clear()
	case said != "" && ed.empty():
		ed.set(said)
		s.input.offered = ed.message()
	case said != "":
		const shown = 500
		s.tell(s.wrapped(s.theme.dim("· your message was: " + oneLine(cut.Line(said, shown)))))
	}
}
