package console

import (
	"strings"
	"time"

	"github.com/x/pygent/internal/excerpt"
)

// Step says that a model is about to answer.
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

// Retry says that the answer failed, and is asked for again after wait.
func (t *Text) Retry(why string, wait time.Duration) {
	t.Warn("%s; trying again in %s", why, wait.Round(100*time.Millisecond))
	if t.streamed {
		t.Warn("what was written so far is withdrawn")
	}
	t.streamed = false
}

// Call writes what a model calls. A long call is cut as output is.
func (t *Text) Call(words string) {
	t.EndLine()
	for i, l := range excerpt.Glance(words) {
		if i == 0 {
			l = "» " + l
		}
		t.Line("%s", l)
	}
}

// Output writes the beginning of what a call gave, if it gave anything.
func (t *Text) Output(text string) {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return
	}
	for _, l := range excerpt.Glance(text) {
		t.Line("  %s", l)
	}
}

// Warn writes a line of its own that should be read.
func (t *Text) Warn(format string, args ...any) {
	t.EndLine()
	t.Line("! "+format, args...)
}

// Tell writes a line of its own about something that goes on besides.
func (t *Text) Tell(format string, args ...any) {
	t.EndLine()
	t.Line("· "+format, args...)
}
