package console

import (
	"strings"
	"time"

	"github.com/x/pygent/internal/excerpt"
)

// Step notes that the model begins an answer.
func (t *Text) Step() { t.streamed = false }

// Stream writes a piece of the answer, as it comes.
func (t *Text) Stream(piece string) {
	t.streamed = true
	t.Print(piece)
}

// Answer ends an answer, and writes it unless it was streamed.
func (t *Text) Answer(text string) {
	if !t.streamed {
		t.Print(text)
	}
	t.EndLine()
}

// Retry writes that the answer failed and is requested again after wait.
func (t *Text) Retry(why string, wait time.Duration) {
	if wait > 0 {
		why += "; trying again in " + wait.Round(100*time.Millisecond).String()
	}
	t.Warn("%s", why)
	if t.streamed {
		t.Warn("what was written so far is withdrawn")
	}
	t.streamed = false
}

// Call writes the call that a model makes. It shortens a long call like output.
func (t *Text) Call(words string) {
	t.EndLine()
	for i, l := range excerpt.Glance(words) {
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
	for _, l := range excerpt.Glance(text) {
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
