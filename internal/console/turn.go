package console

import (
	"strings"

	"github.com/x/pygent/internal/screen"
)

// blank is what ends a block of an answer.
const blank = "\n\n"

// block is the part of an answer that is being written, up to a blank line. What does
// not belong to the answer is not written into the middle of it.
type block struct {
	tail string        // of what was written of it, as long as what ends it; empty between blocks
	late []func(*Text) // what is written after it
}

// Step notes that the model begins an answer.
func (t *Text) Step() {
	t.EndBlock()
	t.streamed = false
}

// Stream writes a piece of the answer, as it comes.
func (t *Text) Stream(piece string) {
	t.streamed = true
	text := t.block.tail + piece
	if end := strings.Index(text, blank); end >= 0 && len(t.block.late) > 0 {
		now := end + len(blank) - len(t.block.tail)
		t.Print(piece[:now])
		t.EndBlock()
		text, piece = piece[now:], piece[now:]
	}
	t.Print(piece)
	if t.block.tail = text[max(len(text)-len(blank), 0):]; t.block.tail == blank {
		t.block.tail = ""
	}
}

// Answer ends an answer, and writes it unless it was streamed.
func (t *Text) Answer(text string) {
	if !t.streamed {
		t.Print(text)
	}
	t.EndBlock()
}

// EndBlock ends the block of the answer that is being written, and writes what came
// meanwhile.
func (t *Text) EndBlock() {
	t.EndLine()
	late := t.block.late
	t.block = block{}
	for _, show := range late {
		show(t)
	}
}

// Beside calls show to write what does not belong to the answer: at once, or after the
// block of the answer that is being written.
func (t *Text) Beside(show func(*Text)) {
	if t.block.tail == "" || len(t.block.late) == maxHeld {
		show(t)
		return
	}
	t.block.late = append(t.block.late, show)
}

// Retry writes that the answer failed, and how it is requested again.
func (t *Text) Retry(why string) {
	t.EndBlock()
	t.Warn("%s", why)
	if t.streamed {
		t.Warn("what was written so far is withdrawn")
	}
	t.streamed = false
}

// Call writes the call that a model makes. It shortens a long call like output.
func (t *Text) Call(words string) {
	t.EndBlock()
	for i, l := range screen.Glance(words) {
		if i == 0 {
			l = "» " + l
		}
		t.Line("%s", l)
	}
}

// Output writes the beginning of a call's output, if there is any.
func (t *Text) Output(text string) {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return
	}
	for _, l := range screen.Glance(text) {
		t.Line("  %s", l)
	}
}

// Warn writes a warning on a line of its own.
func (t *Text) Warn(format string, args ...any) {
	t.EndLine()
	t.Line("! "+format, args...)
}

// Tell writes a line of its own about something in the background.
func (t *Text) Tell(format string, args ...any) {
	t.EndLine()
	t.Line("· "+format, args...)
}
