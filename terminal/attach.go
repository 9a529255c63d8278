package terminal

import (
	"cmp"
	"context"
	"encoding/base64"
	"regexp"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/mention"
	"github.com/x/pygent/internal/numeral"
)

// attachWithin is how long the files of a message may take.
const attachWithin = 30 * time.Second

// attaching is a message whose files are being read.
type attaching struct {
	began  time.Time
	cancel context.CancelCauseFunc
}

// deliver sends what the person says, with the files that it mentions: those of
// typed, which is the text without what long pastes hold. They are read in the
// background, as they are now.
func (s *session) deliver(text, typed string) {
	if len(mention.Names(typed)) == 0 {
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
		temporary := len(missing) > 0 && s.describe().Temporary
		stopped := context.Cause(ctx) == errInterrupted
		cancel(nil)
		s.post(func() {
			s.input.attaching = nil
			switch {
			case stopped:
				s.giveBack(text)
				s.hint("not sent")
			case err != nil:
				s.giveBack(text)
				s.hint("not sent: the files could not be read: " + oneLine(err.Error()))
			case during != nil && s.turn == nil && !during.goesWell():
				s.queue.held = append(s.queue.held, pygent.UserMessage(text, parts...)) // like all that was said in that turn
			default:
				s.deliverParts(text, parts)
				if len(missing) > 0 {
					s.tell(s.theme.warn("! " + oneLine(mention.Missing(missing, temporary))))
				}
			}
		})
	})
}

// deliverParts sends a message, or queues it while a turn goes on.
func (s *session) deliverParts(text string, parts []pygent.Part) {
	if s.turn == nil {
		s.send(text, parts...)
		return
	}
	if !s.sayLater(pygent.UserMessage(text, parts...)) {
		s.giveBack(text)
	}
}

// giveBack makes a text the draft again that was not sent.
func (s *session) giveBack(text string) {
	if s.input.editor.empty() {
		s.input.editor.set(text)
	}
}

// aQuotedFile is how [pygent.FilePart] writes a text. The name of the file is in a
// conversation that was read from disk only there.
var aQuotedFile = regexp.MustCompile("^The file ([^\n]+):\n(`{3,})\n")

// attached returns what is shown of a part of a message that is a file, such as
// "main.go · 2.1 kB". It reports false for what the person typed.
func attached(p pygent.Part) (label string, ok bool) {
	quoted := aQuotedFile.FindStringSubmatch(p.Text)
	switch {
	case quoted != nil:
		size := len(p.Text) - len(quoted[0]) - len(quoted[2]) // as if the file's last line had an end
		return visible(escape.Name(cmp.Or(p.FileName, quoted[1]))) + " · " + sizeOf(int64(size)), true
	case p.Text != "" && strings.HasSuffix(p.FileName, "/"):
		return visible(escape.Name(p.FileName)) + " · listed", true
	case p.Text != "" && p.FileName != "":
		return visible(escape.Name(p.FileName)) + " · not with it", true
	case p.Text != "":
		return "", false
	}
	name := "an attachment"
	if p.FileName != "" {
		name = visible(escape.Name(p.FileName))
	}
	_, data, isData := strings.Cut(cmp.Or(p.ImageURL, p.FileURL, p.AudioURL), ";base64,")
	if !isData {
		return name, true
	}
	return name + " · " + sizeOf(int64(base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(data, "="))))), true
}

// spoken divides a message into what the person typed and what is shown of the rest.
func spoken(m pygent.Message) (text string, labels []string) {
	if len(m.Parts) == 0 {
		return m.Content, nil
	}
	for _, p := range m.Parts {
		if label, ok := attached(p); ok {
			labels = append(labels, label)
		} else {
			text += p.Text
		}
	}
	return text, labels
}

// sizeOf writes a number of bytes for people.
func sizeOf(n int64) string { return numeral.Bytes(n) }
