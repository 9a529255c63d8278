package terminal

import (
	"context"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/pathname"
)

// attachWithin is how long the files of a message may take.
const attachWithin = 30 * time.Second

// attaching is a message whose files are being read.
type attaching struct {
	began  time.Time
	cancel context.CancelCauseFunc
}

// deliver sends what the person says, with the files that it mentions and the images that
// were dragged onto the terminal: those of typed, which is the text without what long pastes hold. They are read in the
// background, as they are now.
func (s *session) deliver(text, typed string) {
	if len(pathname.Mentions(typed))+len(pathname.Dragged(typed)) == 0 {
		s.deliverParts(text, nil)
		return
	}
	timed, stop := context.WithTimeout(s.ctx, attachWithin)
	ctx, cancel := context.WithCancelCause(timed)
	during := s.turn
	s.input.attaching = &attaching{began: time.Now(), cancel: cancel}
	s.background(func() {
		defer stop()
		parts, missing, err := s.agent.AttachMentioned(ctx, typed)
		parts = append(parts, faces.Dragged(typed)...)
		temporary := len(missing) > 0 && s.describe().Temporary
		stopped := context.Cause(ctx) == faces.ErrInterrupted
		cancel(nil)
		s.post(func() {
			s.input.attaching = nil
			switch {
			case stopped:
				s.giveBack(text, "not sent")
			case err != nil:
				s.giveBack(text, "not sent: could not read the files: "+oneLine(err.Error()))
			case during != nil && s.turn == nil && !during.GoesWell():
				s.queue.Held = append(s.queue.Held, pygent.Said{Message: chat.UserMessage(text, parts...)}) // like all that was said in that turn
				s.tellMissing(missing, temporary)
			default:
				s.deliverParts(text, parts)
				s.tellMissing(missing, temporary)
			}
		})
	})
}

// tellMissing says which names of a message are no files. temporary says that the
// workspace is one that began empty.
func (s *session) tellMissing(names []string, temporary bool) {
	if len(names) > 0 {
		s.tell(s.theme.warn("! " + oneLine(pathname.MissingMentions(names, temporary))))
	}
}

// deliverParts sends a message, or queues it while a turn goes on.
func (s *session) deliverParts(text string, parts []pygent.Part) {
	if s.turn == nil {
		s.send(text, parts...)
		return
	}
	if _, err := s.agent.Say(chat.UserMessage(text, parts...)); err != nil {
		s.giveBack(text, oneLine(err.Error()))
	}
}

// giveBack makes a text the draft again that was not sent, and says why. Another draft
// that was begun meanwhile stays: the text is among the earlier messages then.
func (s *session) giveBack(text, why string) {
	if s.input.editor.empty() {
		s.input.editor.set(text)
	} else {
		why += "; press Up to get the message back"
	}
	s.hint(why)
}
