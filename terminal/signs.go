package terminal

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/x/pygent/internal/livearea"
)

// What a line of the session may begin with, and what looks like that. Signs that are
// common characters count if a blank follows.
const (
	signs       = "›❯●○✓✗■◆↻" + spinnerSigns + "✔✘❭⟩〉＞˃ᐳ‣▸▶⏺"
	commonSigns = "·!?&"
)

// othersBar is in front of a line of others that would begin as one of the session does.
const othersBar = "│ "

// barred returns lines of others, such as the model, so that no line can be taken
// for one that the session says: what the person has said, a call, a question or
// the status, with or without colours. The lines have styles already, and their
// control characters are visible.
func barred(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if pretends(line) {
			lines[i] = othersBar + line
		}
	}
	return strings.Join(lines, "\n")
}

// told is a text of others behind a sign of the session, visible and with bars where
// another line of it pretends to be of the session.
func told(text string) string {
	first, rest, more := strings.Cut(visible(text), "\n")
	if !more {
		return first
	}
	return first + "\n" + barred(rest)
}

// pretends reports whether a line begins as one of the session does.
func pretends(line string) bool {
	if strings.IndexByte(line, '\x1b') >= 0 {
		line = ansi.Strip(line)
	}
	for i, r := range line {
		switch {
		case livearea.Width(string(r)) == 0: // it is not seen
		case strings.ContainsRune(signs, r):
			return true
		case strings.ContainsRune(commonSigns, r):
			rest := line[i+len(string(r)):]
			return rest == "" || rest[0] == ' ' || rest[0] == '\t'
		default:
			return false
		}
	}
	return false
}
