package sessiondir

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
	shownLine  = 300 // of a line of Last
)

// Bounds of [LastWords], in lines.
const (
	shownUser  = 3
	shownModel = 8
)

// RecapLine says how many messages there are, what the conversation is called, and what was
// said last: of the last of said that has words. The texts may be those of others; what
// is returned is one line without control characters. It is empty if nothing was said.
func RecapLine(messages int, title string, said []Said) string {
	if messages == 0 {
		return ""
	}
	line := "continues after " + numeral.Count(messages, "message")
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

// LastWords returns what somebody reads who goes on with a conversation: the first lines of
// what the user said last, and the last lines of what the model said after that. They
// are few, and have no control characters. They are empty if line, which [RecapLine] has
// made, shows all of it.
func LastWords(line string, said []Said) (user, model []string) {
	for i := len(said) - 1; i >= 0 && user == nil; i-- {
		switch text := strings.TrimSpace(said[i].Text); {
		case text == "":
		case said[i].ByUser:
			user = beginning(text)
		case model == nil:
			model = end(text)
		}
	}
	if isIn(line, user) && isIn(line, model) {
		return nil, nil
	}
	return user, model
}

func isIn(line string, words []string) bool {
	return len(words) == 0 || len(words) == 1 && strings.Contains(line, words[0])
}

// beginning is the first lines of a text.
func beginning(text string) []string {
	lines := strings.Split(text, "\n")
	more := len(lines) > shownUser
	lines = lines[:min(len(lines), shownUser)]
	for i, line := range lines {
		if long := len(line) > shownLine; long || more && i == len(lines)-1 {
			line = cut.Head(line, shownLine) + " …"
		}
		lines[i] = oneLine(line)
	}
	return lines
}

// end is the last lines of a text.
func end(text string) []string {
	lines := strings.Split(text, "\n")
	more := len(lines) > shownModel
	lines = lines[max(len(lines)-shownModel, 0):]
	for i, line := range lines {
		if long := len(line) > shownLine; long || more && i == 0 {
			line = "… " + cut.Tail(line, shownLine)
		}
		lines[i] = oneLine(line)
	}
	return lines
}

func oneLine(line string) string { return screen.Visible(strings.TrimRight(line, "\r")) }

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
