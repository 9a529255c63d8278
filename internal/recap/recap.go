// Package recap says in a line what there is of a conversation that goes on. All
// faces say it in these words.
package recap

import (
	"fmt"
	"strings"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/screen"
)

// Said is what somebody said in the conversation.
type Said struct {
	ByUser bool
	Text   string
}

// Bounds of the words that are repeated, in bytes.
const (
	shownTitle = 60
	shownWords = 70
)

// Line says how many messages there are, what the conversation is called, and what was
// said last: of the last of said that has words. The texts may be those of others; what
// is returned is one line without control characters. It is empty if nothing was said.
func Line(messages int, title string, said []Said) string {
	if messages == 0 {
		return ""
	}
	line := "goes on after " + numeral.Count(messages, "message")
	who, words := last(said)
	title = shown(title, shownTitle)
	if title != "" && !strings.HasPrefix(words, strings.TrimSuffix(title, "…")) {
		line += fmt.Sprintf(" of %q", title)
	}
	if words != "" {
		line += "; " + who + " said last: " + words
	}
	return line
}

func last(said []Said) (who, words string) {
	for i := len(said) - 1; i >= 0; i-- {
		if words = shown(said[i].Text, shownWords); words == "" {
			continue
		}
		if said[i].ByUser {
			return "you", words
		}
		return "the model", words
	}
	return "", ""
}

// shown is the beginning of a text, in a line.
func shown(text string, most int) string {
	line := cut.Line(text, most)
	if len(line) < len(strings.Join(strings.Fields(text), " ")) {
		line = cut.Line(text, most-len("…")) + "…"
	}
	return screen.Visible(line)
}
