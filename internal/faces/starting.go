package faces

import (
	"strings"

	"github.com/x/pygent"
)

// Running begins the words about a tool or a command, which may need the container.
const Running = "Running "

// WithStart adds to what goes on that the container has to start first, if it is starting
// and what goes on may need it.
func WithStart(words string, starting bool) string {
	if starting && strings.HasPrefix(words, Running) {
		return words + " · the container is starting"
	}
	return words
}

// IsOfStart reports whether an event of the runtime says how far the start of the
// container is. Others may come before that is over, and change nothing of it.
func IsOfStart(kind pygent.RuntimeEventKind) bool {
	switch kind {
	case pygent.RuntimeSilent, pygent.RuntimeLimited, pygent.RuntimeNetwork:
		return false
	}
	return true
}
