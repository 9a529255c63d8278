package terminal

import (
	"context"
	"path"
	"slices"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/pathname"
)

// sayLater queues a message for the turn that goes on.
func (s *session) sayLater(msg pygent.Message) bool {
	if _, err := s.agent.Say(msg); err != nil {
		s.hint(oneLine(err.Error()))
		return false
	}
	return true
}

// requeue gives the agent what was held back.
func (s *session) requeue() {
	if err := s.queue.Return(s.agent); err != nil {
		s.hint(oneLine(err.Error()))
	}
}

// sendUnheard begins a turn if something was said too late for the last one.
func (s *session) sendUnheard() {
	if len(s.agent.State().Unheard) > 0 {
		s.begin("", func(ctx context.Context, opts ...pygent.RunOption) (*pygent.Result, error) {
			return s.agent.RunUntilStop(ctx, "", opts...)
		})
	}
}

// sendHeld begins a turn with what was held back.
func (s *session) sendHeld() {
	s.requeue()
	s.sendUnheard()
}

// sayUnsent shows the messages that end with the session, because the model has not
// heard them: whole, so that they can be copied.
func (s *session) sayUnsent() {
	for _, said := range slices.Concat(s.queue.Held, s.agent.State().Unheard) {
		s.say(kindEnd, s.theme.warn("! Not sent: ")+s.queued(said.Message))
	}
}

// takeBack puts the message that was queued last into the editor. The files that it
// names are read again when it is sent. It reports false if there is none.
func (s *session) takeBack() bool {
	for i, said := range slices.Backward(s.queue.Held) {
		if text, ok := typedAll(said.Message); ok {
			s.input.editor.set(s.typedAs(text))
			s.queue.Held = slices.Delete(s.queue.Held, i, i+1)
			return true
		}
	}
	for _, said := range slices.Backward(s.agent.State().Unheard) {
		if text, ok := typedAll(said.Message); ok && s.agent.Unsay(said.ID) {
			s.input.editor.set(s.typedAs(text))
			return true
		}
	}
	return false
}

// typedAll returns the text of a message. It reports false if that does not stand for
// all of the message, because a file went along that it does not name.
func typedAll(m pygent.Message) (text string, ok bool) {
	text, _ = faces.Spoken(m)
	named := map[string]bool{}
	for _, name := range slices.Concat(pathname.Mentions(text)...) {
		named[path.Clean(name)] = true
	}
	for _, p := range m.Parts {
		if _, isFile := faces.Attached(p); isFile && (p.FileName == "" || !named[path.Clean(p.FileName)]) {
			return text, false
		}
	}
	return text, text != ""
}

// queued is a message in a line.
func (s *session) queued(m pygent.Message) string {
	text, labels := faces.Spoken(m)
	text = s.typedAs(text)
	for _, label := range labels {
		text += " [" + visible(label) + "]"
	}
	return text
}

// queueRows shows the queue.
func (s *session) queueRows() (rows []string) {
	const shown = 3
	all, sign, note := s.queue.Unheard, "Next: ", " (Up: edit)"
	if len(all) == 0 {
		all, sign, note = s.queue.Held, "Held: ", " (Enter: send, Up: edit)"
	}
	for i, said := range all {
		if i == shown {
			return append(rows, s.theme.dim("… and "+count(len(all)-shown, "other")))
		}
		row := s.theme.accent(sign) + oneLine(s.queued(said.Message))
		if i == min(len(all), shown)-1 {
			row += s.theme.dim(note)
		}
		rows = append(rows, row)
	}
	return rows
}
